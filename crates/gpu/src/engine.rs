//! The engine `gpu`: jobs of the CTR suites on a device.
//!
//! A job goes through a *lane*: a stream with its own memory, so that the copies of one lane run at the same time as
//! the kernels of others. All of a job's work on the device is started at once, and then the lane waits a single time.
//! Keys, spans and slices go there in one copy. The device encrypts and hashes the slices. The CPU computes the tags, a
//! hundredth of the work, with the code of its own engine. The device's results go to a second buffer, which replaces
//! the first after everything has succeeded. So after any fault the job is unchanged, even if the device answers late.
//! Opening works in the same way: the device decrypts before the CPU has checked the tags, but only into that second
//! buffer. Units there that are not authentic are overwritten before the buffer is returned.

use crate::cipher::{AesLaunch, Direction, RoundKeys, Spans};
use crate::device::{Block, Buffer, Device, Stream};
use crate::digests::{Digests, WINDOW_DIGESTS};
use crate::driver::Kind;
use crate::error::{Error, Reason, Result};
use crate::hash::Slices;
use crate::pinned::{Pair, Pool};
use crate::plan::{self, Limits, Window};
use crate::schedule::KEY_WORDS;
use phalanx_core::Suite;
use phalanx_core::engine::{self, Engine, EngineInfo, Fault, Job, Op, SLICE, Verdicts};
use phalanx_kernels::aes::BLOCK;
use phalanx_kernels::keccak::{self, DIGEST};
use std::ops::Range;
use std::sync::{Arc, Condvar, Mutex, MutexGuard};

/// The suites that a device can run.
pub(crate) const SUITES: &[Suite] =
    &[Suite::Aes256CtrSha3, Suite::Aes192CtrSha3, Suite::Aes128CtrSha3, Suite::Aes256CtrTurboShake];
/// Buffers of at least this length, in bytes, are pinned. Shorter ones are faster to copy than to pin.
const WORTH_PINNING: usize = 1 << 20;
/// The most that a span and a slice take in a block, in bytes.
pub(crate) const SPAN_LEN: usize = 32;
pub(crate) const SLICE_LEN: usize = 8;
/// A lane's memory has room for a job's chunks and for 1/16 of their length more, for the nonces, tags and header
/// between them.
const BETWEEN: usize = 16;
/// The lanes of a GPU: enough that some copy in each direction while others compute, and that a lane whose CPU thread
/// is busy with tags or a file leaves no gap.
pub(crate) const LANES: usize = 8;
/// A job of more windows than this waits after each group of this many. A wait has a limit, and one wait for all of a
/// very long message could exceed it.
const WINDOWS_A_WAIT: usize = 32;

/// Seals and opens jobs on a device.
pub struct GpuEngine {
    info: EngineInfo,
    device: Device,
    keccak: keccak::Level,
    limits: Limits,
    lanes: Mutex<Lanes>,
    /// Signals that a lane is free again.
    freed: Condvar,
    pool: Arc<Pool>,
}

#[derive(Default)]
struct Lanes {
    idle: Vec<Lane>,
    busy: usize,
}

impl GpuEngine {
    /// An engine on an open device, which has passed its self-test. The CPU computes the tags with `keccak`.
    ///
    /// Nothing is allocated on the device before the first job.
    #[must_use]
    pub fn new(device: Device, keccak: keccak::Level) -> Self {
        // If the device is the CPU, short jobs stay in its caches, and there are no copies to overlap with kernels.
        let (lanes, job) = if device.info().kind == Kind::Cpu { (2, 2 << 20) } else { (LANES, 16 << 20) };
        Self::with_lanes(device, keccak, lanes, job)
    }

    /// An engine, for measurements, with this number of lanes, each for jobs of about `preferred` bytes. Neither number
    /// is 0.
    #[must_use]
    pub fn with_lanes(device: Device, keccak: keccak::Level, lanes: usize, preferred: usize) -> Self {
        let device_info = device.info();
        // At most a quarter of the device's memory for all lanes together.
        let share = device_info.largest_buffer.min(device_info.memory / (4 * lanes as u64));
        let room = usize::try_from(share).unwrap_or(usize::MAX).min(preferred + preferred / BETWEEN);
        let len = (room / SLICE).max(1) * SLICE;
        let info = EngineInfo {
            name: "gpu".into(),
            detail: format!("{}, {}, {}, {lanes} lanes", device_info.name, device_info.api, device_info.driver),
            suites: SUITES,
            workers: lanes,
            preferred_job: preferred.min(len - len / (BETWEEN + 1)),
            // A longer job goes through the device in parts.
            largest_job: usize::MAX,
        };
        let limits = Limits { len, slices: (len / 512).max(1) };
        let pool = Pool::new(device.clone(), 2 * lanes);
        Self { info, device, keccak, limits, lanes: Mutex::default(), freed: Condvar::new(), pool }
    }

    /// The device that runs the jobs.
    #[must_use]
    pub fn device(&self) -> &Device {
        &self.device
    }

    fn fault(&self, error: Error) -> Fault {
        Fault { engine: self.info.name.clone(), reason: error.to_string() }
    }

    /// Runs a job whose buffer was made by this engine.
    fn run_pinned(&self, job: &mut Job) -> Result<Verdicts> {
        let mut taken = self.take()?;
        let lane = taken.lane.as_mut().expect("it was taken just now");
        let failed = lane.run(job, self.keccak, self.limits).inspect_err(|_| {
            // No access to the job's memory may be left. Memory that a dead device may still access is never used
            // again.
            let _ = lane.stream.finish();
        });
        if failed.is_err() {
            taken.lane = None;
        }
        failed.map(Verdicts::from_failed)
    }

    /// A lane that is not in use. If all are in use, this waits for one.
    fn take(&self) -> Result<Taken<'_>> {
        let all_busy = |lanes: &mut Lanes| lanes.busy >= self.info.workers;
        let mut lanes = self.freed.wait_while(self.lanes(), all_busy).unwrap_or_else(|poisoned| poisoned.into_inner());
        lanes.busy += 1;
        let idle = lanes.idle.pop();
        drop(lanes);
        let mut taken = Taken { engine: self, lane: idle };
        if taken.lane.is_none() {
            taken.lane = Some(Lane::new(&self.device, self.limits)?);
        }
        Ok(taken)
    }

    fn lanes(&self) -> MutexGuard<'_, Lanes> {
        self.lanes.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }
}

impl Engine for GpuEngine {
    fn info(&self) -> &EngineInfo {
        &self.info
    }

    fn buffer(&self, len: usize) -> Result<engine::Buffer, Fault> {
        if len < WORTH_PINNING {
            return Ok(engine::Buffer::paged(len));
        }
        self.pool.pair(len).map(engine::Buffer::new).map_err(|error| self.fault(error))
    }

    fn run(&self, job: &mut Job) -> Result<Verdicts, Fault> {
        if !SUITES.contains(&job.suite) {
            let refused = Reason::Refused(format!("it has no {}", job.suite.name()));
            return Err(self.fault(self.device.error(refused)));
        }
        if job.buf.memory_mut().is_some_and(|pair: &mut Pair| pair.is_of(&self.pool)) {
            return self.run_pinned(job).map_err(|error| self.fault(error));
        }
        let pair = self.pool.pair(job.buf.len()).map_err(|error| self.fault(error))?;
        let mut buf = engine::Buffer::new(pair);
        buf.copy_from_slice(&job.buf);
        let mut copy = job.like(buf);
        copy.units.clone_from(&job.units);
        let verdicts = self.run_pinned(&mut copy).map_err(|error| self.fault(error))?;
        for unit in &copy.units {
            job.buf[unit.data.clone()].copy_from_slice(&copy.buf[unit.data.clone()]);
        }
        job.units.clone_from(&copy.units);
        Ok(verdicts)
    }
}

/// A lane in use. When this is dropped, the lane is free again. A lane that failed is replaced by a new one.
struct Taken<'a> {
    engine: &'a GpuEngine,
    lane: Option<Lane>,
}

impl Drop for Taken<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            // The job's memory is about to be dropped, so no copy to it may be in progress.
            self.lane.take().map(|mut lane| lane.stream.finish());
        }
        let mut lanes = self.engine.lanes();
        lanes.busy -= 1;
        lanes.idle.extend(self.lane.take());
        drop(lanes);
        self.engine.freed.notify_one();
    }
}

/// A stream with its own memory for all its jobs, because allocating and freeing would wait for the other lanes.
struct Lane {
    /// This is the first field, so that it is finished before the memory is freed.
    stream: Stream,
    launch: AesLaunch,
    data: Buffer,
    /// Keys, spans and slices. `None` while a job gathers them, and after a failure.
    block: Option<Block>,
    digests: Digests,
}

/// A window of a job, ready to start.
struct Ready<'a> {
    window: &'a Window,
    spans: Spans,
    slices: Slices,
    /// The place of its digests among those of the job, in bytes.
    digests: Range<usize>,
}

impl Lane {
    fn new(device: &Device, limits: Limits) -> Result<Self> {
        let mut stream = device.stream()?;
        let data = stream.buffer(limits.len)?;
        let launch = constant_time_launch(device)?;
        // This is enough for a job with the shortest slices of the format. Other jobs may need more, and then get it.
        let block = Block::new(device, Block::room([64 << 10, limits.slices * SLICE_LEN]))?;
        let digests = Digests::new(&mut stream, limits.slices * DIGEST)?;
        Ok(Self { stream, launch, data, block: Some(block), digests })
    }

    /// Seals or opens a job. Returns the indices of the units that are not authentic.
    fn run(&mut self, job: &mut Job, keccak: keccak::Level, limits: Limits) -> Result<Vec<usize>> {
        let windows = plan::windows(&job.units, job.slice_len(), limits);
        if windows.is_empty() {
            return Ok(engine::tag(keccak, job, &[]));
        }
        let (keys, ready) = self.name(job, &windows)?;
        for (i, each) in ready.iter().enumerate() {
            self.start(job, &keys, each)?;
            if (i + 1) % WINDOWS_A_WAIT == 0 {
                self.stream.finish()?;
            }
        }
        let block = self.block.as_ref().expect("it was sent");
        let (memory, used) = block.memory();
        self.stream.zero(memory, used)?;
        self.stream.finish()?;
        self.block.as_mut().expect("it was sent").clear();

        let digests: Vec<_> = ready.iter().flat_map(|each| self.digests.of(each.digests.clone())).copied().collect();
        let failed = engine::tag(keccak, job, &digests);
        let Job { buf, units, .. } = job;
        let pair = pair(buf);
        for i in &failed {
            pair.restore(units[*i].data.clone());
        }
        pair.swap(units);
        Ok(failed)
    }

    /// Gathers the keys, spans and slices of a job, and starts copying them to the device.
    fn name<'a>(&mut self, job: &Job, windows: &'a [Window]) -> Result<(RoundKeys, Vec<Ready<'a>>)> {
        let keys: Vec<&[u8]> = job.keys.iter().map(|keys| keys.encrypt()).collect();
        // With spans of this length all threads of a group have the same key.
        let longest = (self.launch.threads * self.launch.granularity) as usize * BLOCK;
        let named: Vec<_> =
            windows.iter().map(|window| (window.spans(&job.units, &[], longest), window.slices())).collect();

        let parts = named.iter().flat_map(|(spans, slices)| [spans.len() * SPAN_LEN, slices.len() * SLICE_LEN]);
        let room = Block::room(parts.chain([keys.len() * KEY_WORDS * 4]));
        let block = match self.block.take() {
            Some(block) if block.len() >= room => block,
            small => {
                drop(small);
                Block::new(self.stream.device(), room)?
            }
        };
        let lens = windows.iter().map(|window| (window.slices * DIGEST).next_multiple_of(WINDOW_DIGESTS));
        self.digests.make_room(&mut self.stream, lens.clone().sum())?;

        self.stream.gather(block);
        let keys = self.stream.round_keys(&keys, Direction::Encrypt)?;
        let (mut ready, mut at) = (Vec::new(), 0);
        for ((window, (spans, slices)), len) in windows.iter().zip(named).zip(lens) {
            let digests = at..at + window.slices * DIGEST;
            at += len;
            let (spans, slices) = (self.stream.spans(&spans)?, self.stream.slices(&slices)?);
            ready.push(Ready { window, spans, slices, digests });
        }
        // SAFETY: the block is cleared when the stream is finished. If that fails, the lane is dropped, and if the
        // device is dead, the block's memory is neither used again nor freed.
        self.block = Some(unsafe { self.stream.send_gathered() }?);
        Ok((keys, ready))
    }

    /// Starts all the device's work for a window. Its digests are those of the ciphertext.
    fn start(&mut self, job: &mut Job, keys: &RoundKeys, each: &Ready<'_>) -> Result<()> {
        let (suite, op, pair) = (job.suite, job.op, pair(&mut job.buf));
        for copy in &each.window.copies {
            // SAFETY: the front does not change until `run` has returned, and the stream is finished before that. If
            // finishing fails, the device is dead, and the front is neither lent again nor freed. If the CPU then works
            // on the job there, the device reads other bytes, and its results are not used.
            unsafe { self.stream.start_upload(&mut self.data, copy.at, pair.front(), copy.bytes.clone())? };
        }
        match op {
            Op::Seal => {
                self.cipher(keys, each)?;
                self.hash(suite, each)?;
            }
            Op::Open => {
                self.hash(suite, each)?;
                self.cipher(keys, each)?;
            }
        }
        for copy in &each.window.copies {
            // SAFETY: nothing uses the back until the stream is finished. If that fails, the device is dead: the pair
            // is not swapped, and its back is neither lent again nor freed.
            unsafe { self.stream.start_download(&self.data, copy.at, pair.back(), copy.bytes.clone())? };
        }
        self.stream.zero(&self.data, each.window.end())
    }

    fn cipher(&mut self, keys: &RoundKeys, each: &Ready<'_>) -> Result<()> {
        self.stream.aes_ctr_spans(&self.launch, keys, &each.spans, &mut self.data)
    }

    fn hash(&mut self, suite: Suite, each: &Ready<'_>) -> Result<()> {
        self.digests.make(&mut self.stream, suite, &each.slices, &self.data, each.digests.clone())
    }
}

/// The launch for all jobs. These kernels take the same time for all data and keys: see `docs/security.md`.
pub(crate) fn constant_time_launch(device: &Device) -> Result<AesLaunch> {
    let default = AesLaunch::default();
    let threads = default.threads.min(device.max_threads(default.kernel("aes_ctr_tiles"))?);
    Ok(AesLaunch { threads, ..default })
}

fn pair(buf: &mut engine::Buffer) -> &mut Pair {
    buf.memory_mut().expect("the buffer is of this engine's making")
}
