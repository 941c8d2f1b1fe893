//! Measuring how long engines take for data of various sizes, in memory and within a given time.

use super::calibration::{Calibration, Curve, Kind};
use super::ready::Ready;
use phalanx_core::engine::{
    self, Bind, Buffer, ContentKeys, CpuEngine, Engine, Extent, Fault, Job, Levels, Op, Share, Unit, Verdicts, Work,
};
use phalanx_core::{Error, Result, Roster, SecretKey, Suite};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::{Duration, Instant};

/// The time for measuring all engines, besides opening the device and what cannot be shortened. With less, the largest size
/// is left out for a GPU, and it passes many cores only from there on.
const TIME: Duration = Duration::from_millis(1200);

/// Measures all engines that are ready. Fails if one of them does.
pub fn all(ready: &Ready) -> Result<Calibration> {
    let opening = ready.opening_again();
    let all: Vec<_> = Kind::ALL.into_iter().filter_map(|kind| Some((kind, ready.members(kind)?))).collect();
    let mut calibration = Calibration::default();
    // Gpu is measured before hybrid, so what a device does only once is done before both.
    let mut start = opening.as_secs_f64();
    for (kind, members) in &all {
        // If one of two engines fails, the measurement is of the other one alone, so it does not count.
        let fault = Arc::new(OnceLock::new());
        let failed = fault.clone();
        let roster = Roster::new(members).on_fault(move |fault| drop(failed.set(fault.clone())));
        let mut curve = measure(&roster, ready.levels, &SIZES, TIME / all.len() as u32)?;
        if let Some(fault) = fault.get() {
            return Err(fault.clone().into());
        }
        start += if *kind == Kind::Gpu { curve.start_seconds } else { 0.0 };
        curve.start_seconds = if kind.needs_device() { start } else { 0.0 };
        calibration.set(*kind, curve);
    }
    Ok(calibration)
}

/// The most by which the first run of a size may extend the time for measuring, in seconds.
const MOST_START: f64 = 1.0;
/// The sizes that are measured. Beyond the largest one a curve is a straight line.
pub const SIZES: [u64; 6] = [4 << 10, 64 << 10, 1 << 20, 8 << 20, 64 << 20, 512 << 20];
const CHUNK: u64 = 1 << 20;
/// Each size is run this many times if there is time for it, and the shortest time counts.
const ROUNDS: usize = 4;

/// Seals and opens chunks of [`Suite::default`] like those of a file, with threads, buffers and a copy into each, but
/// without input and output. `sizes` ascend. Takes about `budget` at most: larger sizes are left out if they would take
/// longer. The smallest one is always measured.
///
/// The curve's start is the time by which first runs were slower than later ones, because an engine may then prepare
/// what it keeps. That time is not part of the budget: a device that pins memory would otherwise be known for small
/// sizes only, at which it is slow.
///
/// The result is compared with that of the CPU's kernels of `levels`. Other bytes are a fault.
pub fn measure(roster: &Roster, levels: Levels, sizes: &[u64], budget: Duration) -> Result<Curve> {
    let mut end = Instant::now() + budget;
    // The seconds of each size, sealing and opening.
    let mut measured: Vec<[f64; 2]> = Vec::new();
    let mut start = 0.0;
    for round in 0..ROUNDS {
        for (i, bytes) in sizes.iter().enumerate() {
            let is_first = round == 0 && i == 0;
            if !is_first && Instant::now() + expected(sizes, &measured, i) > end {
                break;
            }
            let sample = Sample::new(levels, (*bytes).min(CHUNK) as usize)?;
            let both =
                || Ok::<_, Error>([run(roster, Op::Seal, *bytes, &sample)?, run(roster, Op::Open, *bytes, &sample)?]);
            match measured.get_mut(i) {
                None => {
                    let (first, second) = (both()?, both()?);
                    let slower = (first[0] + first[1] - second[0] - second[1]).clamp(0.0, MOST_START);
                    start += slower;
                    end += Duration::from_secs_f64(slower);
                    measured.push(least(first, second));
                }
                Some(known) => *known = least(*known, both()?),
            }
        }
    }
    let points = |op: usize| sizes.iter().zip(&measured).map(|(bytes, seconds)| (*bytes, seconds[op])).collect();
    Ok(Curve::new(start, points(0), points(1)))
}

fn least(a: [f64; 2], b: [f64; 2]) -> [f64; 2] {
    [a[0].min(b[0]), a[1].min(b[1])]
}

/// How long two runs of both directions of the i-th size will probably take.
fn expected(sizes: &[u64], measured: &[[f64; 2]], i: usize) -> Duration {
    let Some(known) = measured.len().checked_sub(1).map(|last| last.min(i)) else { return Duration::ZERO };
    let runs = if i < measured.len() { 1.0 } else { 2.0 };
    let seconds = runs * (measured[known][0] + measured[known][1]) * sizes[i] as f64 / sizes[known] as f64;
    Duration::from_secs_f64(seconds.min(Curve::MOST_SECONDS))
}

/// Seals or opens a number of bytes, and returns the time until the last job was done, in seconds. Afterwards the
/// workers wipe their buffers, which takes as long for a job as for many.
fn run(roster: &Roster, op: Op, bytes: u64, sample: &Sample) -> Result<f64> {
    let started = Instant::now();
    let work = Measured { op, bytes, sample, left: Mutex::new(bytes), done: Mutex::new(started) };
    engine::run(roster, &work)?;
    let done = *work.done.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
    Ok((done - started).max(Duration::from_nanos(1)).as_secs_f64())
}

/// A unit before and after it is sealed. All units of a run are the same. This makes no engine faster.
struct Sample {
    keys: Arc<[ContentKeys]>,
    unit: Unit,
    plain: Vec<u8>,
    sealed: Vec<u8>,
}

impl Sample {
    fn new(levels: Levels, len: usize) -> Result<Self> {
        let keys: Arc<[ContentKeys]> = SecretKey::random()?.file_keys(Suite::default()).of_jobs();
        let bind = Bind::Chunk { index: 0, last: false };
        let mut job = Job::of_chunks(Op::Seal, Suite::default(), CHUNK.ilog2() as u8, keys.clone(), Buffer::paged(len));
        job.units.push(Unit { key: 0, nonce: [1; 16], bind, data: 0..len, tag: [0; 32] });
        let plain = job.buf.to_vec();
        let _ = CpuEngine::serial(levels).run(&mut job)?;
        Ok(Self { keys, unit: job.units.remove(0), plain, sealed: job.buf.to_vec() })
    }
}

/// One run over a number of bytes.
struct Measured<'a> {
    op: Op,
    bytes: u64,
    sample: &'a Sample,
    left: Mutex<u64>,
    /// When the last job was done.
    done: Mutex<Instant>,
}

impl Work for Measured<'_> {
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
        let Sample { unit, plain, sealed, .. } = self.sample;
        let from = if self.op == Op::Seal { plain } else { sealed };
        job.units.clear();
        for at in (0..len).step_by(from.len()) {
            let data = at..at + from.len();
            job.buf[data.clone()].copy_from_slice(from);
            job.units.push(Unit { data, ..unit.clone() });
        }
        Ok(len > 0)
    }

    fn finish(&self, job: &mut Job, verdicts: &Verdicts) -> Result<()> {
        *self.done.lock().unwrap_or_else(|poisoned| poisoned.into_inner()) = Instant::now();
        let want = &self.sample.unit.tag;
        if verdicts.all_passed() && job.units.iter().all(|unit| unit.tag == *want) {
            return Ok(());
        }
        let reason = "its bytes are not those of the CPU".into();
        Err(Fault { engine: "under measurement".into(), reason }.into())
    }

    fn abort(&self) {}
}
