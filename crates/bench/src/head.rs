//! The conditions of a run: date, versions, machine.
#![allow(missing_docs, reason = "most fields say what they are")]

use serde::{Deserialize, Serialize};

/// The head of a run. All lengths are in bytes.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Head {
    /// When it began, in UTC.
    pub date: String,
    pub phalanx: String,
    /// The commit that the binary was built from. It ends in `-dirty` if files had been changed since that commit.
    pub commit: String,
    pub rustc: String,
    /// Whether the run is a short one, with fewer and smaller cases.
    pub quick: bool,
    pub cpu: String,
    /// How many of its cores this process may use.
    pub cores: usize,
    pub memory: u64,
    pub system: String,
    /// The AES kernel in use.
    pub aes: String,
    /// The Keccak kernel in use.
    pub keccak: String,
    /// The kind of file system that files are measured on.
    pub file_system: String,
    #[serde(default)]
    pub device: Option<DeviceHead>,
    /// The versions of the programs measured beside Phalanx.
    pub peers: Vec<String>,
}

impl Head {
    /// Whether rows of both may be in one run. Only date and peers may differ.
    pub fn fits(&self, other: &Self) -> bool {
        let timeless = |head: &Self| Self { date: String::new(), peers: Vec::new(), ..head.clone() };
        timeless(self) == timeless(other)
    }

    /// Names and values for a report.
    pub fn lines(&self) -> Vec<(&'static str, String)> {
        vec![
            ("date", self.date.clone()),
            ("phalanx", format!("{}, commit {}, {}", self.phalanx, self.commit, self.rustc)),
            ("run", if self.quick { "quick: fewer and smaller cases" } else { "full" }.into()),
            ("processor", format!("{}, {} cores", self.cpu, self.cores)),
            ("memory", format!("{:.1} GB", self.memory as f64 / 1e9)),
            ("system", format!("{}, files on {}", self.system, self.file_system)),
            ("kernels", format!("AES {}, SHA-3 {}", self.aes, self.keccak)),
            ("device", self.device.as_ref().map_or_else(|| "none".into(), DeviceHead::line)),
            ("peers", if self.peers.is_empty() { "none asked for".into() } else { self.peers.join("; ") }),
        ]
    }
}

/// The device that GPU parts run on.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DeviceHead {
    pub name: String,
    /// `GPU`, `CPU` or `other`.
    pub kind: String,
    /// The interface by which it is used.
    pub api: String,
    pub driver: String,
    pub memory: u64,
    pub multiprocessors: u32,
    /// The threads that a multiprocessor runs in step, or 0 if the driver does not report it.
    pub warp: u32,
    /// Its clock in MHz, or 0 if the driver does not report it.
    pub clock_mhz: u32,
}

impl DeviceHead {
    pub fn line(&self) -> String {
        let Self { name, kind, api, driver, multiprocessors, clock_mhz, .. } = self;
        let memory = self.memory as f64 / 1e9;
        format!(
            "{name}, {kind}, through {api} ({driver}), {multiprocessors} multiprocessors, {clock_mhz} MHz, {memory:.1} GB"
        )
    }
}
