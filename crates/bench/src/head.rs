//! The conditions of a run: date, versions, machine.

use crate::setup::Setup;
use phalanx_gpu::DeviceInfo;
use serde::{Deserialize, Serialize};
use std::fs;
use std::path::Path;
use std::thread;
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;

/// The head of a run. All lengths are in bytes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Head {
    /// When it began, in UTC.
    pub date: String,
    /// The version of Phalanx.
    pub phalanx: String,
    /// The commit that the binary was built from; `-dirty` where files had been changed since.
    pub commit: String,
    /// The compiler.
    pub rustc: String,
    /// Whether the run is a short one, with fewer and smaller cases.
    pub quick: bool,
    /// The processor's name.
    pub cpu: String,
    /// Its cores that this process may use.
    pub cores: usize,
    /// The main memory.
    pub memory: u64,
    /// The operating system.
    pub system: String,
    /// The AES kernel in use.
    pub aes: String,
    /// The Keccak kernel in use.
    pub keccak: String,
    /// The kind of file system that files are measured on.
    pub file_system: String,
    /// The device that GPU parts run on, where there is one.
    #[serde(default)]
    pub device: Option<DeviceHead>,
    /// The versions of the programs measured beside Phalanx.
    pub peers: Vec<String>,
}

impl Head {
    /// The head of a run that begins now.
    pub fn now(setup: &Setup, peers: Vec<String>) -> Self {
        let now = OffsetDateTime::now_utc().replace_nanosecond(0).unwrap_or(OffsetDateTime::UNIX_EPOCH);
        Self {
            date: now.format(&Rfc3339).unwrap_or_default(),
            phalanx: env!("CARGO_PKG_VERSION").into(),
            commit: env!("BUILT_FROM").into(),
            rustc: env!("BUILT_BY").into(),
            quick: setup.quick,
            cpu: cpu(),
            cores: thread::available_parallelism().map_or(1, |n| n.get()),
            memory: memory("MemTotal").unwrap_or(0),
            system: system(),
            aes: setup.levels.aes.to_string(),
            keccak: setup.levels.keccak.to_string(),
            file_system: file_system(&setup.out),
            device: setup.device.as_ref().ok().map(|device| DeviceHead::of(device.info())),
            peers,
        }
    }

    /// Whether rows of both may stand in one run: only date and peers may differ.
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

fn cpu() -> String {
    let text = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let field = |name: &str| {
        let line = text.lines().find(|line| line.starts_with(name))?;
        Some(line.split_once(':')?.1.trim().to_owned())
    };
    let name = field("model name").unwrap_or_else(|| std::env::consts::ARCH.into());
    match (field("cpu family"), field("model\t")) {
        (Some(family), Some(model)) => format!("{name} (family {family}, model {model})"),
        _ => name,
    }
}

/// The processor's clock in MHz: the highest, or the present one if the system tells no more.
pub fn cpu_mhz() -> Option<f64> {
    let at_most = fs::read_to_string("/sys/devices/system/cpu/cpu0/cpufreq/cpuinfo_max_freq");
    if let Some(khz) = at_most.ok().and_then(|text| text.trim().parse::<f64>().ok()) {
        return Some(khz / 1e3);
    }
    let text = fs::read_to_string("/proc/cpuinfo").ok()?;
    text.lines().find(|line| line.starts_with("cpu MHz"))?.split_once(':')?.1.trim().parse().ok()
}

/// A line of the system's report on its memory, in bytes.
pub fn memory(name: &str) -> Option<u64> {
    let text = fs::read_to_string("/proc/meminfo").ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))?;
    Some(line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()? * 1024)
}

fn system() -> String {
    let uname = rustix::system::uname();
    let kernel = format!("{} {}", uname.sysname().to_string_lossy(), uname.release().to_string_lossy());
    let release = fs::read_to_string("/etc/os-release").unwrap_or_default();
    match release.lines().find_map(|line| line.strip_prefix("PRETTY_NAME=")) {
        Some(name) => format!("{}, {kernel}", name.trim_matches('"')),
        None => kernel,
    }
}

/// The kind of file system that a folder lies on.
pub fn file_system(folder: &Path) -> String {
    let Ok(stat) = rustix::fs::statfs(folder) else { return "unknown".into() };
    match stat.f_type as u32 {
        0xef53 => "ext4".into(),
        0x5846_5342 => "xfs".into(),
        0x9123_683e => "btrfs".into(),
        0x0102_1994 => "tmpfs".into(),
        0x794c_7630 => "overlayfs".into(),
        0x6969 => "nfs".into(),
        magic => format!("a file system of type {magic:#x}"),
    }
}

/// The device of a run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DeviceHead {
    /// Its name.
    pub name: String,
    /// `GPU`, `CPU` or `other`.
    pub kind: String,
    /// The interface that leads to it.
    pub api: String,
    /// Its driver's name and version.
    pub driver: String,
    /// Its memory in bytes.
    pub memory: u64,
    /// Its multiprocessors.
    pub multiprocessors: u32,
    /// The threads that a multiprocessor runs in step, or 0 if the driver does not tell.
    pub warp: u32,
    /// Its clock in MHz, or 0 if the driver does not tell.
    pub clock_mhz: u32,
}

impl DeviceHead {
    /// Of a device.
    pub fn of(info: &DeviceInfo) -> Self {
        Self {
            name: info.name.clone(),
            kind: info.kind.to_string(),
            api: info.api.to_string(),
            driver: info.driver.clone(),
            memory: info.memory,
            multiprocessors: info.compute_units,
            warp: info.warp,
            clock_mhz: info.clock_mhz,
        }
    }

    /// In words.
    pub fn line(&self) -> String {
        let Self { name, kind, api, driver, multiprocessors, clock_mhz, .. } = self;
        let memory = self.memory as f64 / 1e9;
        format!(
            "{name}, {kind}, through {api} ({driver}), {multiprocessors} multiprocessors, {clock_mhz} MHz, {memory:.1} GB"
        )
    }
}
