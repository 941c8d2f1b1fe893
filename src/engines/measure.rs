//! Measuring how long engines take for how much data, in memory and within a given time.

use super::calibration::{Calibration, Curve, Kind, Point};
use super::ready::Ready;
use phalanx_core::engine::{
    self, Bind, Buffer, ContentKeys, CpuEngine, Engine, Extent, Fault, Job, Levels, Op, Share, Unit, Verdicts, Work,
};
use phalanx_core::{Error, Result, Roster, SecretKey, Suite};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::{Duration, Instant};

/// How long it takes to open the device and to measure all engines: a second, but for what cannot be cut short.
const TIME: Duration = Duration::from_millis(900);
/// What measuring has at least, however long it took to open the device.
const LEAST: Duration = Duration::from_millis(300);

/// Measures all engines that are ready. Fails where one of them does.
pub fn all(ready: &Ready) -> Result<Calibration> {
    let end = Instant::now() + TIME.saturating_sub(ready.opening).max(LEAST);
    let kinds: Vec<Kind> = Kind::ALL.into_iter().filter(|kind| ready.members(*kind).is_some()).collect();
    let mut calibration = Calibration::default();
    // Gpu comes before hybrid, and has then done for both what a device does once.
    let mut start = ready.opening.as_secs_f64();
    for (i, &kind) in kinds.iter().enumerate() {
        let left = end.saturating_duration_since(Instant::now());
        let curve = of_kind(ready, kind, left / (kinds.len() - i) as u32)?;
        start += if kind == Kind::Gpu { curve.start() } else { 0.0 };
        let start = if kind.needs_device() { start } else { 0.0 };
        calibration.set(kind, curve.starting_in(start).expect("a start takes less than a day"));
    }
    Ok(calibration)
}

fn of_kind(ready: &Ready, kind: Kind, time: Duration) -> Result<Curve> {
    let members = ready.members(kind).expect("only those that are ready are measured");
    // Where one of two engines fails, the other would be measured alone.
    let fault = Arc::new(OnceLock::new());
    let failed = fault.clone();
    let roster = Roster::new(&members).on_fault(move |fault| drop(failed.set(fault.clone())));
    let curve = measure(&roster, ready.levels, time)?;
    match fault.get() {
        Some(fault) => Err(fault.clone().into()),
        None => Ok(curve),
    }
}

/// What is measured. Beyond the largest a curve is a straight line.
const SIZES: [u64; 5] = [4 << 10, 64 << 10, 1 << 20, 8 << 20, 64 << 20];
const CHUNK: u64 = 1 << 20;
/// The least of so many runs counts, where there is time for them.
const ROUNDS: usize = 4;

/// Seals and opens chunks of [`Suite::default`] as a file's are, with threads, buffers and a copy into each, but for input
/// and output. Takes about as long as `budget` at most: larger sizes are left out where they would take longer. The smallest
/// one is always measured.
///
/// The curve's start is what first runs took longer than later ones: an engine may make ready then what it keeps.
///
/// What is sealed is compared with what the CPU's kernels of `levels` make of it; other bytes are a fault.
pub fn measure(roster: &Roster, levels: Levels, budget: Duration) -> Result<Curve> {
    let end = Instant::now() + budget;
    let keys: Arc<[ContentKeys]> = [SecretKey::random()?.file_keys(Suite::default()).content].into();
    let mut measured: Vec<[Point; 2]> = Vec::new();
    let mut first_runs = 0.0;
    for round in 0..ROUNDS {
        for (i, bytes) in SIZES.into_iter().enumerate() {
            let is_first = round == 0 && i == 0;
            if !is_first && Instant::now() + expected(&measured, i, bytes) > end {
                break;
            }
            let sample = Arc::new(Sample::new(levels, &keys, bytes.min(CHUNK) as usize));
            let mut points = [Point { bytes, seconds: f64::INFINITY }; 2];
            for (op, point) in [Op::Seal, Op::Open].into_iter().zip(&mut points) {
                point.seconds = run(roster, op, bytes, &sample)?;
            }
            match measured.get_mut(i) {
                None => {
                    first_runs += points[0].seconds + points[1].seconds;
                    measured.push(points);
                }
                Some(before) => before.iter_mut().zip(points).for_each(|(b, p)| b.seconds = b.seconds.min(p.seconds)),
            }
        }
    }
    let later_runs: f64 = measured.iter().flatten().map(|point| point.seconds).sum();
    let points = |which: usize| measured.iter().map(|points| points[which]).collect();
    Ok(Curve::new((first_runs - later_runs).max(0.0), points(0), points(1))
        .expect("times are positive, and the sizes ascend"))
}

/// How long both directions of the i-th size will take, by what is known.
fn expected(measured: &[[Point; 2]], i: usize, bytes: u64) -> Duration {
    let Some(known) = measured.get(i).or(measured.last()) else { return Duration::ZERO };
    let seconds: f64 = known.iter().map(|point| point.seconds * bytes as f64 / point.bytes as f64).sum();
    Duration::from_secs_f64(seconds.min(Curve::MOST_SECONDS))
}

/// Seals or opens so many bytes, in seconds.
fn run(roster: &Roster, op: Op, bytes: u64, sample: &Arc<Sample>) -> Result<f64> {
    let work = Measured { op, bytes, sample: sample.clone(), left: Mutex::new(bytes) };
    let started = Instant::now();
    engine::run(roster, &work)?;
    Ok(started.elapsed().max(Duration::from_nanos(1)).as_secs_f64())
}

/// A unit before and after it is sealed. All units of a run are alike: that makes no engine faster.
struct Sample {
    keys: Arc<[ContentKeys]>,
    unit: Unit,
    plain: Vec<u8>,
    sealed: Vec<u8>,
}

impl Sample {
    fn new(levels: Levels, keys: &Arc<[ContentKeys]>, len: usize) -> Self {
        let bind = Bind::Chunk { index: 0, last: false };
        let mut job = Job::of_chunks(Op::Seal, Suite::default(), CHUNK.ilog2() as u8, keys.clone(), Buffer::paged(len));
        job.units.push(Unit { key: 0, nonce: [1; 16], bind, data: 0..len, tag: [0; 32] });
        let plain = job.buf.to_vec();
        let sealed = CpuEngine::serial(levels).run(&mut job).expect("the CPU does not fail");
        assert!(sealed.all_passed());
        Self { keys: keys.clone(), unit: job.units.remove(0), plain, sealed: job.buf.to_vec() }
    }
}

/// One run over so many bytes.
struct Measured {
    op: Op,
    bytes: u64,
    sample: Arc<Sample>,
    left: Mutex<u64>,
}

impl Work for Measured {
    type Error = Error;

    fn extent(&self) -> Extent {
        Extent { len: Some(self.bytes), granule: CHUNK as usize }
    }

    fn suite(&self) -> Suite {
        Suite::default()
    }

    fn room(&self, len: usize) -> usize {
        len
    }

    fn job(&self, buf: Buffer) -> Job {
        Job::of_chunks(self.op, Suite::default(), CHUNK.ilog2() as u8, self.sample.keys.clone(), buf)
    }

    fn fill(&self, job: &mut Job, share: Share) -> Result<bool> {
        let room = job.buf.len() as u64;
        let mut left = self.left.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        let len = (share.of(left.div_ceil(CHUNK)) * CHUNK).min(room).min(*left) as usize;
        *left -= len as u64;
        drop(left);
        let sample = &*self.sample;
        let from = if self.op == Op::Seal { &sample.plain } else { &sample.sealed };
        job.units.clear();
        for at in (0..len).step_by(from.len()) {
            let data = at..at + from.len();
            job.buf[data.clone()].copy_from_slice(from);
            job.units.push(Unit { data, ..sample.unit.clone() });
        }
        Ok(len > 0)
    }

    fn finish(&self, job: &mut Job, verdicts: &Verdicts) -> Result<()> {
        let want = &self.sample.unit.tag;
        if verdicts.all_passed() && job.units.iter().all(|unit| unit.tag == *want) {
            return Ok(());
        }
        let reason = "its bytes are not those of the CPU".into();
        Err(Fault { engine: "under measurement".into(), reason }.into())
    }

    fn abort(&self) {}
}
