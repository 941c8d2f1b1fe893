//! The file in the user's cache folder that keeps what was measured, until the machine changes.

use super::calibration::{Calibration, Kind};
use super::drivers;
use crate::Error;
use crate::failure::{Failure, Outcome};
use crate::file::{Existing, InputFile, Made, Output};
use crate::home::{self, CACHE_VARIABLE};
use phalanx_core::engine::Levels;
use phalanx_gpu::DeviceInfo;
use serde::{Deserialize, Serialize};
use std::fs;
use std::io::{Read, Write};
use std::path::{Path, PathBuf};

/// The version of the file's format.
const SCHEMA: u32 = 2;
/// A longer file is not one of Phalanx.
const LONGEST: u64 = 64 << 10;

/// What identifies a device together with its driver.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeviceName {
    /// The interface to its driver.
    pub api: String,
    /// Its own name.
    pub name: String,
    /// Its driver, with a version.
    pub driver: String,
}

impl DeviceName {
    /// The name of a device that was found.
    pub fn of(info: &DeviceInfo) -> Self {
        Self { api: info.api.to_string(), name: info.name.clone(), driver: info.driver.clone() }
    }
}

/// What a calibration is valid for, besides its device. When it changes, engines are measured again.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Circumstances {
    schema: u32,
    program: String,
    kernels: String,
    threads: usize,
    drivers: Vec<String>,
}

impl Circumstances {
    /// The present circumstances, for a number of CPU threads.
    pub fn new(levels: Levels, threads: usize) -> Self {
        Self {
            schema: SCHEMA,
            program: env!("CARGO_PKG_VERSION").into(),
            kernels: format!("{},{}", levels.aes, levels.keccak),
            threads,
            drivers: drivers::traces(),
        }
    }

    /// Whether there may be a device.
    pub fn has_drivers(&self) -> bool {
        !self.drivers.is_empty()
    }
}

/// The file.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Kept {
    /// What the calibration is valid for.
    pub circumstances: Circumstances,
    /// The device that was measured. If there is none, the CPU may not have been measured either.
    pub device: Option<DeviceName>,
    /// What was measured.
    #[serde(rename = "engines")]
    pub calibration: Calibration,
}

/// Reads what was kept under these circumstances. Returns `None`, which is no error, if the file is missing, is for
/// other circumstances or is not a calibration.
pub fn read(now: &Circumstances) -> Option<Kept> {
    let file = InputFile::open(&path(now.threads)?).ok()?;
    if file.stamp().len() > LONGEST {
        return None;
    }
    let mut text = String::new();
    file.file().take(LONGEST).read_to_string(&mut text).ok()?;
    parse(&text, now)
}

fn parse(text: &str, now: &Circumstances) -> Option<Kept> {
    let kept: Kept = serde_json::from_str(text).ok()?;
    let is_of = |kinds| kept.calibration.is_of(kinds);
    let is_whole = match kept.device {
        Some(_) => is_of(&Kind::ALL),
        None => is_of(&[]) || is_of(&[Kind::Serial, Kind::Cpu]),
    };
    (is_whole && kept.circumstances == *now).then_some(kept)
}

impl Kept {
    fn unparse(&self) -> String {
        serde_json::to_string(self).expect("a calibration has no odd keys")
    }
}

/// The file of a calibration that is about to be made. If it cannot be made, measuring is useless, because the next run
/// would not know the result.
pub struct CalibrationFile {
    path: PathBuf,
    output: Output,
}

impl CalibrationFile {
    /// Makes the folder, and begins the file.
    pub fn prepare(now: &Circumstances) -> Outcome<Self> {
        let set = || format!("set {CACHE_VARIABLE} to a cache folder");
        let no_folder = || Failure::usage("there is no home folder").hint(set());
        let path = path(now.threads).ok_or_else(no_folder)?;
        let made = fs::create_dir_all(path.parent().unwrap_or(Path::new("/"))).map_err(Error::write);
        let output = made.and_then(|()| Output::create(&path, Existing::Replace(&Made::default())));
        let output = output.map_err(|e| Failure::at(&path, e))?;
        Ok(Self { path, output })
    }

    /// Keeps a calibration. If that fails, what was kept before stays.
    pub fn keep(self, kept: &Kept) -> Outcome {
        let written = self.output.file().write_all(kept.unparse().as_bytes()).map_err(Error::write);
        let done = written
            .and_then(|()| self.output.set_mode(0o644))
            .and_then(|()| self.output.commit(Existing::Replace(&Made::default()), false));
        done.map(drop).map_err(|e| Failure::at(&self.path, e))
    }
}

/// The path of the file. There is one for each number of threads, so that `--threads` does not replace what was
/// measured without it.
fn path(threads: usize) -> Option<PathBuf> {
    let folder = home::cache()?;
    Some(folder.join(format!("engines-{threads}.json")))
}

#[cfg(test)]
mod tests {
    use super::super::calibration::Curve;
    use super::*;

    fn now() -> Circumstances {
        Circumstances::new(Levels::detect(), 2)
    }

    fn kept() -> Kept {
        let points = vec![(4096, 1.5e-6), (1 << 20, 0.1)];
        let curve = Curve::new(0.25, points.clone(), points);
        let mut calibration = Calibration::default();
        Kind::ALL.into_iter().for_each(|kind| calibration.set(kind, curve.clone()));
        let device = DeviceName { api: "CUDA".into(), name: "a \"GPU\"".into(), driver: "1.0\n".into() };
        Kept { circumstances: now(), calibration, device: Some(device) }
    }

    #[test]
    fn a_kept_calibration_is_read_back() {
        assert_eq!(parse(&kept().unparse(), &now()), Some(kept()));
        let mut calibration = Calibration::default();
        for kind in [Kind::Serial, Kind::Cpu] {
            calibration.set(kind, kept().calibration.curve(kind).unwrap().clone());
        }
        for calibration in [calibration, Calibration::default()] {
            let cpu = Kept { device: None, calibration, ..kept() };
            assert_eq!(parse(&cpu.unparse(), &now()), Some(cpu));
        }
    }

    #[test]
    fn other_circumstances_are_noticed() {
        let text = kept().unparse();
        let others = [
            Circumstances { schema: 0, ..now() },
            Circumstances { program: "0.0.0".into(), ..now() },
            Circumstances { kernels: "abacus,abacus".into(), ..now() },
            Circumstances { threads: 3, ..now() },
            Circumstances { drivers: vec!["another".into()], ..now() },
        ];
        for other in others {
            assert_eq!(parse(&text, &other), None, "{other:?}");
        }
    }

    #[test]
    fn an_invalid_calibration_is_ignored() {
        let good = kept().unparse();
        let replaced = |from: &str, to: &str| {
            let text = good.replace(from, to);
            assert_ne!(text, good, "{from}");
            text
        };
        let bad = [
            String::new(),
            "null".into(),
            "[]".into(),
            "[".repeat(10_000),
            good[..good.len() - 2].into(),
            replaced("0.25", "-0.25"),
            replaced("0.25", "1e400"),
            replaced("0.25", "1e300"),
            replaced("0.25", "NaN"),
            replaced("0.25", "null"),
            replaced("0.25", "\"fast\""),
            replaced("0.1", "0.0"),
            replaced("0.1", "-1e-300"),
            replaced("4096", "-4096"),
            replaced("4096", "0"),
            replaced("4096", "4096.5"),
            replaced("4096", "1048576"),
            replaced("4096", "99999999999999999999"),
            replaced("\"serial\"", "\"parallel\""),
            replaced("\"cpu\"", "\"CPU\""),
            replaced("\"seal\"", "\"steal\""),
            replaced("\"device\"", "\"devise\""),
        ];
        for text in bad {
            assert_eq!(parse(&text, &now()), None, "{text}");
        }
        assert_eq!(parse(&good, &now()), Some(kept()));
    }
}
