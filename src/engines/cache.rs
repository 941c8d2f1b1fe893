//! What was measured of the engines, kept in the user's cache folder until the machine changes.

use super::calibration::{Calibration, Curve, Kind, Point};
use super::drivers;
use crate::failure::{Failure, Outcome};
use etcetera::BaseStrategy;
use phalanx_core::Error;
use phalanx_core::engine::{Levels, Op};
use phalanx_core::file::{Existing, InputFile, Made, Output};
use phalanx_gpu::DeviceInfo;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::env;
use std::fs;
use std::io::{Read, Write};
use std::path::{Path, PathBuf};

const CACHE_VARIABLE: &str = "PHALANX_CACHE";
/// Changes when the file's form does.
const SCHEMA: u32 = 1;
/// A file longer than this is not ours.
const LONGEST: u64 = 64 << 10;

/// A calibration, and the device that it was made with. Where there is none, the CPU need not have been measured.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Kept {
    pub calibration: Calibration,
    pub device: Option<DeviceName>,
}

/// What tells a device from others, and from itself with another driver.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeviceName {
    pub api: String,
    pub name: String,
    pub driver: String,
}

impl DeviceName {
    /// The name of a device.
    pub fn of(info: &DeviceInfo) -> Self {
        Self { api: info.api.to_string(), name: info.name.clone(), driver: info.driver.clone() }
    }
}

/// What a calibration holds for, and is made anew when it changes, besides its device.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Circumstances {
    schema: u32,
    program: String,
    kernels: String,
    threads: usize,
    drivers: Vec<String>,
}

impl Circumstances {
    /// Those of now, for so many CPU threads.
    pub fn new(levels: Levels, threads: usize) -> Self {
        Self {
            schema: SCHEMA,
            program: env!("CARGO_PKG_VERSION").into(),
            kernels: format!("{},{}", levels.aes, levels.keccak),
            threads,
            drivers: drivers::traces(),
        }
    }

    /// Whether there can be a device at all.
    pub fn has_drivers(&self) -> bool {
        !self.drivers.is_empty()
    }
}

/// The file.
#[derive(Serialize, Deserialize)]
struct Stored {
    circumstances: Circumstances,
    device: Option<DeviceName>,
    engines: BTreeMap<String, StoredCurve>,
}

/// A curve; its points are pairs of bytes and seconds.
#[derive(Serialize, Deserialize)]
struct StoredCurve {
    start_seconds: f64,
    seal: Vec<(u64, f64)>,
    open: Vec<(u64, f64)>,
}

impl StoredCurve {
    fn of(curve: &Curve) -> Self {
        let points = |op| curve.points(op).iter().map(|point| (point.bytes, point.seconds)).collect();
        Self { start_seconds: curve.start(), seal: points(Op::Seal), open: points(Op::Open) }
    }

    fn curve(&self) -> Option<Curve> {
        let points = |stored: &[(u64, f64)]| stored.iter().map(|&(bytes, seconds)| Point { bytes, seconds }).collect();
        Curve::new(self.start_seconds, points(&self.seal), points(&self.open))
    }
}

/// What was kept under these circumstances. A file that is not there, is of other circumstances or is not a calibration at
/// all is no error: nothing is known then.
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
    let stored: Stored = serde_json::from_str(text).ok()?;
    if stored.circumstances != *now {
        return None;
    }
    let mut calibration = Calibration::default();
    for kind in Kind::ALL {
        if let Some(curve) = stored.engines.get(kind.name()) {
            calibration.set(kind, curve.curve()?);
        }
    }
    let (cpu, devices) = Kind::ALL.split_at(2);
    let has = |kind: &Kind| calibration.curve(*kind).is_some();
    let whole = match stored.device {
        Some(_) => Kind::ALL.iter().all(has),
        None => cpu.iter().all(has) == cpu.iter().any(has) && !devices.iter().any(has),
    };
    whole.then_some(Kept { calibration, device: stored.device })
}

fn unparse(kept: &Kept, now: &Circumstances) -> String {
    let curve = |kind: Kind| Some((kind.name().to_owned(), StoredCurve::of(kept.calibration.curve(kind)?)));
    let engines = Kind::ALL.into_iter().filter_map(curve).collect();
    let stored = Stored { circumstances: now.clone(), device: kept.device.clone(), engines };
    serde_json::to_string(&stored).expect("a calibration has no odd keys")
}

/// The place of a calibration that is about to be made. Where there is none, nothing needs to be measured: the next run
/// would not know of it.
pub struct Place {
    path: PathBuf,
    output: Output,
}

impl Place {
    /// Makes the folder, and begins the file.
    pub fn prepare(now: &Circumstances) -> Outcome<Self> {
        let no_folder = || Failure::usage(format!("no home folder: name a cache folder by {CACHE_VARIABLE}"));
        let path = path(now.threads).ok_or_else(no_folder)?;
        fs::create_dir_all(path.parent().unwrap_or(Path::new("/"))).map_err(|e| Failure::at(&path, Error::Write(e)))?;
        let output = Output::create(&path, Existing::Replace(&Made::default())).map_err(|e| Failure::at(&path, e))?;
        Ok(Self { path, output })
    }

    /// Keeps it. What was kept before stays where this fails.
    pub fn keep(self, kept: &Kept, now: &Circumstances) -> Outcome {
        let written = self.output.file().write_all(unparse(kept, now).as_bytes()).map_err(Error::Write);
        let done = written
            .and_then(|()| self.output.set_mode(0o644))
            .and_then(|()| self.output.commit(Existing::Replace(&Made::default()), false));
        done.map(drop).map_err(|e| Failure::at(&self.path, e))
    }
}

/// One file for each number of threads, so that `--threads` does not undo what was measured without it.
fn path(threads: usize) -> Option<PathBuf> {
    let folder = match env::var_os(CACHE_VARIABLE) {
        Some(folder) if !folder.is_empty() => PathBuf::from(folder),
        _ => etcetera::choose_base_strategy().ok()?.cache_dir().join("phalanx"),
    };
    Some(folder.join(format!("engines-{threads}.json")))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn now() -> Circumstances {
        Circumstances::new(Levels::detect(), 2)
    }

    fn kept() -> Kept {
        let points = vec![Point { bytes: 4096, seconds: 1.5e-6 }, Point { bytes: 1 << 20, seconds: 0.1 }];
        let curve = Curve::new(0.25, points.clone(), points).unwrap();
        let mut calibration = Calibration::default();
        Kind::ALL.into_iter().for_each(|kind| calibration.set(kind, curve.clone()));
        let device = DeviceName { api: "CUDA".into(), name: "a \"GPU\"".into(), driver: "1.0\n".into() };
        Kept { calibration, device: Some(device) }
    }

    #[test]
    fn what_is_kept_comes_back() {
        assert_eq!(parse(&unparse(&kept(), &now()), &now()), Some(kept()));
        let mut calibration = Calibration::default();
        for kind in [Kind::Serial, Kind::Cpu] {
            calibration.set(kind, kept().calibration.curve(kind).unwrap().clone());
        }
        for cpu in [Kept { calibration, device: None }, Kept::default()] {
            assert_eq!(parse(&unparse(&cpu, &now()), &now()), Some(cpu));
        }
    }

    #[test]
    fn other_circumstances_are_noticed() {
        let text = unparse(&kept(), &now());
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
    fn what_is_no_calibration_is_absent() {
        let good = unparse(&kept(), &now());
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
