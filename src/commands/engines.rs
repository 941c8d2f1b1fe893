//! `phalanx engines`: what this machine has, how fast it is, and what `--engine auto` chooses.

use crate::args::Engines;
use phalanx_core::engine::Op;
use phalanx_gpu::{DeviceInfo, State, Survey};
use phalanx_host::args::{EngineArgs, EngineName};
use phalanx_host::engines::cache::{self, CalibrationFile, Circumstances, DeviceName, Kept};
use phalanx_host::engines::calibration::{Calibration, Kind};
use phalanx_host::engines::{self, Ready, measure};
use phalanx_host::failure::Outcome;
use phalanx_host::say::say;
use phalanx_host::verbosity::Verbosity;
use phalanx_host::words::{rate, size};
use serde::Serialize;

/// The sizes for which the choice of `auto` is shown.
const EXAMPLES: [(&str, u64); 3] = [("4 kB", 4_000), ("1 MB", 1_000_000), ("1 GB", 1_000_000_000)];

pub fn run(args: &Engines, verbosity: Verbosity) -> Outcome {
    let threads = engines::threads(&EngineArgs { engine: EngineName::Auto, threads: None, paranoid: false });
    let mut ready = Ready::new(engines::levels()?, threads);
    let now = Circumstances::new(ready.levels, threads);
    let mut survey = engines::survey(true, verbosity);
    let mut device = None;
    if let Some((found, opening)) = survey.found.take() {
        device = Some(DeviceName::of(found.info()));
        ready.open(found, opening);
    }
    let is_whole = |kept: &Kept| kept.device == device && kept.calibration.curve(Kind::Cpu).is_some();
    let calibration = match cache::read(&now).filter(|kept| !args.calibrate && is_whole(kept)) {
        Some(kept) => kept.calibration,
        None => measure_and_keep(&mut ready, device, &mut survey, now, args.calibrate)?,
    };
    let report = Report::new(&ready, &survey, &calibration);
    if args.json {
        return say(serde_json::to_string(&report).expect("a report has no odd keys"));
    }
    report.lines().into_iter().try_for_each(say)
}

/// Measures the engines that are ready, and keeps the result. With `--calibrate` it is an error if it cannot be kept. A
/// device that fails while it is measured is no longer ready.
fn measure_and_keep(
    ready: &mut Ready,
    mut device: Option<DeviceName>,
    survey: &mut Survey,
    now: Circumstances,
    must_keep: bool,
) -> Outcome<Calibration> {
    let file = CalibrationFile::prepare(&now);
    let file = if must_keep { Some(file?) } else { file.ok() };
    let mut measured = measure::all(ready);
    if let (Err(error), true) = (&measured, ready.gpu.is_some()) {
        survey.fail(error.to_string());
        (ready.gpu, device) = (None, None);
        measured = measure::all(ready);
    }
    let kept = Kept { circumstances: now, device, calibration: measured? };
    match file.map(|file| file.keep(&kept)) {
        Some(Err(failure)) if must_keep => Err(failure),
        _ => Ok(kept.calibration),
    }
}

/// Everything that is shown. The names of the fields are those of `--json`.
#[derive(Serialize)]
struct Report {
    engines: Vec<Engine>,
    devices: Vec<Device>,
    /// For each interface without a device, why it has none.
    absent: Vec<String>,
    crossings: Vec<Crossing>,
    auto: Vec<Example>,
}

#[derive(Serialize)]
struct Engine {
    name: &'static str,
    detail: String,
    workers: usize,
    /// In GB/s (10^9 bytes a second) of plaintext, suite 1, in memory.
    speeds_gb_per_s: Ways<f64>,
    /// How long opening its device takes in a new process.
    start_seconds: f64,
    passes: Vec<Passing>,
}

/// The size in bytes from which an engine is faster than a simpler one, or null if it never is.
#[derive(Serialize)]
struct Passing {
    engine: &'static str,
    new_process: Ways<Option<u64>>,
    device_open: Ways<Option<u64>>,
}

#[derive(Clone, Copy, PartialEq, Serialize)]
struct Ways<T> {
    seal: T,
    open: T,
}

impl<T> Ways<T> {
    fn of(each: impl Fn(Op) -> T) -> Self {
        Self { seal: each(Op::Seal), open: each(Op::Open) }
    }
}

#[derive(Serialize)]
pub(super) struct Device {
    api: String,
    name: String,
    driver: String,
    kind: String,
    memory_bytes: u64,
    /// Whether the engines gpu and hybrid use it.
    taken: bool,
    /// In words.
    state: String,
}

/// From this size on `auto` chooses this engine.
#[derive(Serialize)]
struct Crossing {
    direction: &'static str,
    device_open: bool,
    from_bytes: u64,
    engine: &'static str,
}

/// What `auto` chooses for a file of this size, in a new process.
#[derive(Serialize)]
struct Example {
    size: &'static str,
    bytes: u64,
    #[serde(flatten)]
    choice: Ways<&'static str>,
}

impl Report {
    fn new(ready: &Ready, survey: &Survey, calibration: &Calibration) -> Self {
        let engine = |kind: Kind| {
            let (curve, members) = (calibration.curve(kind)?, ready.members(kind)?);
            let passes = |other: Kind| {
                let least = |warm| Ways::of(|op| calibration.passes(kind, other, op, warm));
                Passing { engine: other.name(), new_process: least(false), device_open: least(true) }
            };
            // A device is compared with all CPU threads.
            let is_simpler = |other: &Kind| *other < kind && (*other != Kind::Serial || !kind.needs_device());
            let simpler = Kind::ALL.into_iter().filter(is_simpler).filter(|other| calibration.curve(*other).is_some());
            Some(Engine {
                name: kind.name(),
                detail: engines::detail(&members),
                workers: engines::workers(&members),
                speeds_gb_per_s: Ways::of(|op| curve.speed(op) / 1e9),
                start_seconds: curve.start_seconds,
                passes: simpler.map(passes).collect(),
            })
        };
        let crossings = [(Op::Seal, false), (Op::Open, false), (Op::Seal, true), (Op::Open, true)].map(|(op, warm)| {
            calibration.crossings(op, warm).into_iter().map(move |(from_bytes, kind)| Crossing {
                direction: if op == Op::Seal { "seal" } else { "open" },
                device_open: warm,
                from_bytes,
                engine: kind.name(),
            })
        });
        let example = |(size, bytes)| Example {
            size,
            bytes,
            choice: Ways::of(|op| calibration.choose(op, Some(bytes), false).name()),
        };
        Self {
            engines: Kind::ALL.into_iter().filter_map(engine).collect(),
            devices: survey.devices.iter().map(Device::from).collect(),
            absent: survey.absent.clone(),
            crossings: crossings.into_iter().flatten().collect(),
            auto: EXAMPLES.map(example).into(),
        }
    }

    fn lines(&self) -> Vec<String> {
        let mut lines = Vec::new();
        for Engine { name, detail, speeds_gb_per_s: speeds, start_seconds, passes, .. } in &self.engines {
            let start = if *start_seconds > 0.0 {
                format!("; its device opens in {start_seconds:.2} s")
            } else {
                String::new()
            };
            let (seal, open) = (rate(speeds.seal * 1e9), rate(speeds.open * 1e9));
            lines.push(format!("{name:8}{detail}: seals {seal}, opens {open} in memory{start}"));
            lines.extend(passes.iter().map(|passing| format!("{:8}{}", "", passing.words(*start_seconds > 0.0))));
        }
        lines.extend(self.devices.iter().map(Device::line));
        lines.extend(self.absent.iter().map(|why| format!("none    {why}")));
        let examples: Vec<String> = self.auto.iter().map(Example::words).collect();
        lines.push(format!("auto    {}", examples.join("; ")));
        lines
    }
}

impl From<&(DeviceInfo, State)> for Device {
    fn from((info, state): &(DeviceInfo, State)) -> Self {
        Self {
            api: info.api.to_string(),
            name: info.name.clone(),
            driver: info.driver.clone(),
            kind: info.kind.to_string(),
            memory_bytes: info.memory,
            taken: matches!(state, State::Taken),
            state: state.to_string(),
        }
    }
}

impl Device {
    pub(super) fn line(&self) -> String {
        let Self { api, name, driver, state, .. } = self;
        format!("device  {name} ({api}; {driver}): {state}")
    }
}

impl Passing {
    /// "passes cpu from 900 kB when sealing, 850 kB when opening; in a new process from …"
    fn words(&self, has_device: bool) -> String {
        let from = |ways: &Ways<Option<u64>>| match (ways.seal, ways.open) {
            (None, None) => "never".to_owned(),
            (seal, open) => {
                let words = |from: Option<u64>| from.map_or("never".into(), |bytes| format!("from {}", size(bytes)));
                format!("{} when sealing, {} when opening", words(seal), words(open))
            }
        };
        let Self { engine, new_process, device_open } = self;
        match has_device {
            false => format!("passes {engine} {}", from(new_process)),
            true => format!("passes {engine} {}; in a new process {}", from(device_open), from(new_process)),
        }
    }
}

impl Example {
    fn words(&self) -> String {
        let Self { size, choice: Ways { seal, open }, .. } = self;
        if seal == open { format!("{size}: {seal}") } else { format!("{size}: {seal} for sealing, {open} for opening") }
    }
}
