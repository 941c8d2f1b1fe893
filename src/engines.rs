//! `phalanx engines`: what this machine has, and how fast it was when it was last measured.

use crate::args::{EngineArgs, EngineName, Engines};
use crate::failure::{Failure, Outcome, say};
use crate::{gpu, lanes};
use etcetera::BaseStrategy;
use phalanx_core::cpu::CpuEngine;
use phalanx_core::dispatcher::{Dispatcher, Extent, Share, Work};
use phalanx_core::engine::{Bind, Buffer, Engine, Job, Op, Unit, Verdicts};
use phalanx_core::key::{ContentKeys, SecretKey};
use phalanx_core::output::{Existing, Output};
use phalanx_core::{Error, Suite};
use serde::{Deserialize, Serialize};
use std::env;
use std::fs;
use std::io::Write;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

const CACHE_VARIABLE: &str = "PHALANX_CACHE";
/// How long each engine is measured.
const MEASURE: Duration = Duration::from_millis(400);
const CHUNK: usize = 1 << 20;

pub fn run(args: &Engines) -> Outcome {
    let threads = lanes::threads(&EngineArgs { engine: EngineName::Auto, threads: None });
    let levels = lanes::levels()?;
    let engines: [Arc<dyn Engine>; 2] =
        [Arc::new(CpuEngine::serial(levels)), Arc::new(CpuEngine::parallel(threads, levels))];
    let mut reports = Vec::new();
    let kept = if args.calibrate { Vec::new() } else { read_kept() };
    for engine in &engines {
        let info = engine.info();
        let speeds = if args.calibrate {
            Some(measure(engine)?)
        } else {
            // A speed belongs to the very engine that it was measured with.
            kept.iter().find(|k: &&Report| k.name == info.name && k.detail == info.detail).and_then(|k| k.speeds)
        };
        reports.push(Report { name: info.name.clone(), detail: info.detail.clone(), lanes: info.lanes, speeds });
    }
    if args.calibrate {
        keep(&reports)?;
    }
    if args.json {
        return say(serde_json::to_string(&reports).expect("a report has no odd keys"));
    }
    for report in &reports {
        let speeds = match report.speeds {
            Some(Speeds { seal, open }) => format!("seals {seal:.2} GB/s, opens {open:.2} GB/s in memory"),
            None => "not measured yet (phalanx engines --calibrate)".into(),
        };
        say(format!("{:8}{}: {speeds}", report.name, report.detail))?;
    }
    let (devices, reasons) = gpu::candidates();
    for info in &devices {
        say(format!("gpu     {}, {}, {}: not measured", info.name, info.api, info.driver))?;
    }
    for reason in reasons {
        say(format!("gpu     none: {reason}"))?;
    }
    say("auto    chooses cpu for every size")
}

/// One engine. The names of the fields are those of `--json`.
#[derive(Serialize, Deserialize)]
struct Report {
    name: String,
    detail: String,
    lanes: usize,
    #[serde(rename = "speeds_gb_per_s")]
    speeds: Option<Speeds>,
}

/// In GB/s (10^9 bytes a second) of plaintext, suite 1, in memory.
#[derive(Clone, Copy, Serialize, Deserialize)]
struct Speeds {
    seal: f64,
    open: f64,
}

fn cache_file() -> Option<PathBuf> {
    let folder = match env::var_os(CACHE_VARIABLE) {
        Some(folder) if !folder.is_empty() => PathBuf::from(folder),
        _ => etcetera::choose_base_strategy().ok()?.cache_dir().join("phalanx"),
    };
    Some(folder.join("engines.json"))
}

/// What was measured before. What cannot be read is measured anew, so it is no error.
fn read_kept() -> Vec<Report> {
    let text = cache_file().and_then(|path| fs::read_to_string(path).ok());
    text.and_then(|text| serde_json::from_str(&text).ok()).unwrap_or_default()
}

fn keep(reports: &[Report]) -> Outcome {
    let path = cache_file().ok_or_else(|| Failure::usage(format!("no home folder: name one by {CACHE_VARIABLE}")))?;
    let at_path = |e| Failure::at(&path, e);
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder).map_err(|e| at_path(Error::Write(e)))?;
    }
    let output = Output::create(&path, Existing::Replace, 0o644).map_err(at_path)?;
    let text = serde_json::to_string(reports).expect("a report has no odd keys");
    output.file().write_all(text.as_bytes()).map_err(|e| at_path(Error::Write(e)))?;
    output.commit(Existing::Replace, false).map_err(at_path)
}

/// Seals and opens jobs in memory on all lanes of an engine.
fn measure(engine: &Arc<dyn Engine>) -> Outcome<Speeds> {
    let keys = SecretKey::random()?.file_keys(Suite::default()).content;
    let work = Measurement {
        keys: [keys].into(),
        end: Instant::now() + MEASURE,
        seal: Spent::default(),
        open: Spent::default(),
    };
    Dispatcher::new(std::slice::from_ref(engine)).run(&work)?;
    let lanes = engine.info().lanes as f64;
    Ok(Speeds { seal: work.seal.speed(lanes), open: work.open.speed(lanes) })
}

/// Each lane seals its job, opens it, and so on until time is up.
struct Measurement {
    keys: Arc<[ContentKeys]>,
    end: Instant,
    seal: Spent,
    open: Spent,
}

#[derive(Default)]
struct Spent {
    bytes: AtomicU64,
    nanoseconds: AtomicU64,
}

impl Spent {
    fn speed(&self, lanes: f64) -> f64 {
        let (bytes, time) = (self.bytes.load(Ordering::Relaxed), self.nanoseconds.load(Ordering::Relaxed));
        bytes as f64 / (time as f64 / lanes)
    }
}

thread_local! {
    static STARTED: std::cell::Cell<Option<Instant>> = const { std::cell::Cell::new(None) };
}

impl Work for Measurement {
    type Error = Error;

    fn extent(&self) -> Extent {
        Extent { len: None, granule: CHUNK }
    }

    fn suite(&self) -> Suite {
        Suite::default()
    }

    fn room(&self, len: usize) -> usize {
        len
    }

    fn job(&self, buf: Buffer) -> Job {
        let chunks = buf.len() / CHUNK;
        let mut job = Job::new(Op::Open, Suite::default(), self.keys.clone(), buf);
        let unit = |i: usize| Unit {
            key: 0,
            nonce: [i as u8; 16],
            bind: Bind::Chunk { index: i as u64, last: false },
            data: i * CHUNK..(i + 1) * CHUNK,
            tag: [0; 32],
        };
        job.units = (0..chunks).map(unit).collect();
        job
    }

    fn fill(&self, job: &mut Job, _: Share) -> Result<bool, Error> {
        job.op = if job.op == Op::Seal { Op::Open } else { Op::Seal };
        STARTED.set(Some(Instant::now()));
        Ok(job.op == Op::Open || Instant::now() < self.end)
    }

    fn finish(&self, job: &mut Job, verdicts: &Verdicts) -> Result<(), Error> {
        assert!(verdicts.all_passed(), "an engine refused what it sealed itself");
        let spent = if job.op == Op::Seal { &self.seal } else { &self.open };
        let time = STARTED.get().map_or(Duration::ZERO, |started| started.elapsed());
        spent.bytes.fetch_add(job.buf.len() as u64, Ordering::Relaxed);
        spent.nanoseconds.fetch_add(time.as_nanos() as u64, Ordering::Relaxed);
        Ok(())
    }

    fn abort(&self) {}
}
