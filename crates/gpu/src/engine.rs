//! The engine `gpu`: jobs of the CTR suites on a device.
//!
//! Each stream has memory of its own, so that the copies of one run beside the kernels of another. The device
//! encrypts and hashes the slices; the tags, a hundredth of the work, are the CPU's, by the same code as its own engine's.
//! What the device makes of a job goes to a second buffer, which takes the place of the first when all has succeeded: on
//! any fault, also of a device that wakes up late, the job is as it was.

use crate::cipher::{AesLaunch, Direction, RoundKeys, Spans};
use crate::device::{Buffer, Device, Pinned, Stream};
use crate::driver::Kind;
use crate::error::{Error, Reason, Result};
use crate::hash::Slices;
use crate::pinned::{Pair, Pool};
use crate::plan::{self, Limits, Window};
use phalanx_core::Suite;
use phalanx_core::engine::{self, Engine, EngineInfo, Fault, Job, Op, SLICE, Unit, Verdicts};
use phalanx_kernels::aes::BLOCK;
use phalanx_kernels::keccak::{self, DIGEST};
use std::sync::{Arc, Condvar, Mutex, MutexGuard};

/// The suites whose ciphers a device has.
const SUITES: &[Suite] = &[Suite::Aes256CtrSha3, Suite::Aes192CtrSha3, Suite::Aes128CtrSha3];
/// From this length on buffers are pinned, in bytes: pinning takes longer than a copy of less.
const WORTH_PINNING: usize = 1 << 20;
/// The threads of a group that hash: few, so that even a short job reaches all multiprocessors.
const HASH_THREADS: u32 = 32;
/// What a stream takes besides a job's chunks, as a part of them: nonces, tags and a header that lie between.
const BETWEEN: usize = 16;

/// Seals and opens jobs on a device.
pub struct GpuEngine {
    info: EngineInfo,
    device: Device,
    keccak: keccak::Level,
    limits: Limits,
    streams: Mutex<Streams>,
    /// Told of each stream that is free again.
    freed: Condvar,
    pool: Arc<Pool>,
}

#[derive(Default)]
struct Streams {
    idle: Vec<WorkStream>,
    busy: usize,
}

impl GpuEngine {
    /// An engine on a device that is open, and so has passed its self-test. The CPU computes the tags by `keccak`.
    ///
    /// Nothing is allocated on the device before the first job.
    pub fn new(device: Device, keccak: keccak::Level) -> Self {
        let device_info = device.info();
        // A device that is the CPU has its caches, and no copies worth overlapping.
        let (streams, preferred) = if device_info.kind == Kind::Cpu { (2, 2 << 20) } else { (4, 16 << 20) };
        // No more than a quarter of the device's memory in all.
        let share = device_info.largest_buffer.min(device_info.memory / (4 * streams as u64));
        let room = usize::try_from(share).unwrap_or(usize::MAX).min(preferred + preferred / BETWEEN);
        let len = (room / SLICE).max(1) * SLICE;
        let info = EngineInfo {
            name: "gpu".into(),
            detail: format!("{}, {}, {}, {streams} streams", device_info.name, device_info.api, device_info.driver),
            suites: SUITES,
            workers: streams,
            preferred_job: preferred.min(len - len / (BETWEEN + 1)),
            // A longer one goes through the device in parts.
            largest_job: usize::MAX,
        };
        let limits = Limits { len, slices: (len / 1024).max(1) };
        let pool = Pool::new(device.clone(), 2 * streams);
        Self { info, device, keccak, limits, streams: Mutex::default(), freed: Condvar::new(), pool }
    }

    /// The device.
    pub fn device(&self) -> &Device {
        &self.device
    }

    fn fault(&self, error: Error) -> Fault {
        Fault { engine: self.info.name.clone(), reason: error.to_string() }
    }

    /// Runs a job whose buffer is of this engine's making.
    fn run_pinned(&self, job: &mut Job) -> Result<Verdicts> {
        let mut taken = self.take()?;
        let stream = taken.stream.as_mut().expect("it was taken just now");
        let failed = stream.run(job, self.keccak, self.limits).inspect_err(|_| {
            // Nothing may reach the job's memory any more. What a dead device may still reach is never used again.
            let _ = stream.stream.finish();
        });
        if failed.is_err() {
            taken.stream = None;
        }
        failed.map(Verdicts::from_failed)
    }

    /// A stream that nobody else uses; waits for one where all are in use.
    fn take(&self) -> Result<Taken<'_>> {
        let all_busy = |streams: &mut Streams| streams.busy >= self.info.workers;
        let mut streams =
            self.freed.wait_while(self.streams(), all_busy).unwrap_or_else(|poisoned| poisoned.into_inner());
        streams.busy += 1;
        let idle = streams.idle.pop();
        drop(streams);
        let mut taken = Taken { engine: self, stream: idle };
        if taken.stream.is_none() {
            taken.stream = Some(WorkStream::new(&self.device, self.limits)?);
        }
        Ok(taken)
    }

    fn streams(&self) -> MutexGuard<'_, Streams> {
        self.streams.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
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
        let (keys, units) = (job.keys.clone(), job.units.clone());
        let mut copy = Job { buf, keys, units, ..*job };
        let verdicts = self.run_pinned(&mut copy).map_err(|error| self.fault(error))?;
        for unit in &copy.units {
            job.buf[unit.data.clone()].copy_from_slice(&copy.buf[unit.data.clone()]);
        }
        job.units.clone_from(&copy.units);
        Ok(verdicts)
    }
}

/// A stream in use. It is free again when this is dropped, or made anew, if it failed.
struct Taken<'a> {
    engine: &'a GpuEngine,
    stream: Option<WorkStream>,
}

impl Drop for Taken<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            // The job's memory is about to be dropped: nothing may be under way to it.
            self.stream.take().map(|mut stream| stream.stream.finish());
        }
        let mut streams = self.engine.streams();
        streams.busy -= 1;
        streams.idle.extend(self.stream.take());
        drop(streams);
        self.engine.freed.notify_one();
    }
}

/// A stream with memory of its own, used again from job to job: allocating and freeing would wait for the other streams.
struct WorkStream {
    stream: Stream,
    launch: AesLaunch,
    data: Buffer,
    digests: Buffer,
    /// Where digests come back to.
    hashed: Pinned,
    keys: Option<RoundKeys>,
    spans: Option<Spans>,
    slices: Option<Slices>,
}

impl WorkStream {
    fn new(device: &Device, limits: Limits) -> Result<Self> {
        let mut stream = device.stream()?;
        let data = stream.buffer(limits.len)?;
        let digests = stream.buffer(limits.slices * DIGEST)?;
        let hashed = device.pinned(limits.slices * DIGEST)?;
        // The kernels that need no defence against who measures their time: `docs/security.md`.
        let default = AesLaunch::default();
        let threads = default.threads.min(device.max_threads(default.kernel("aes_ctr_spans"))?);
        let launch = AesLaunch { threads, ..default };
        Ok(Self { launch, stream, data, digests, hashed, keys: None, spans: None, slices: None })
    }

    /// Seals or opens a job. Returns the units that are not authentic.
    fn run(&mut self, job: &mut Job, keccak: keccak::Level, limits: Limits) -> Result<Vec<usize>> {
        let windows = plan::windows(&job.units, job.slice_len, limits);
        if windows.is_empty() {
            return Ok(engine::tag(keccak, job, &[]));
        }
        let keys: Vec<&[u8]> = job.keys.iter().map(|keys| keys.encrypt()).collect();
        self.keys = Some(self.stream.round_keys_again(&keys, Direction::Encrypt, self.keys.take())?);
        let failed = match job.op {
            Op::Seal => self.seal(job, &windows, keccak)?,
            Op::Open => self.open(job, &windows, keccak)?,
        };
        let Job { buf, units, .. } = job;
        pair(buf).turn(units);
        Ok(failed)
    }

    fn seal(&mut self, job: &mut Job, windows: &[Window], keccak: keccak::Level) -> Result<Vec<usize>> {
        let mut digests = Vec::new();
        for (i, window) in windows.iter().enumerate() {
            self.name_spans(window, &job.units, &[])?;
            self.name_slices(window)?;
            self.send(job, window)?;
            self.cipher()?;
            self.hash(window)?;
            self.fetch(job, window)?;
            self.zero(window, i + 1 == windows.len())?;
            self.stream.finish()?;
            digests.extend_from_slice(self.digests_of(window));
        }
        Ok(engine::tag(keccak, job, &digests))
    }

    /// Decrypts nothing before the tag over it is checked.
    fn open(&mut self, job: &mut Job, windows: &[Window], keccak: keccak::Level) -> Result<Vec<usize>> {
        let mut digests = Vec::new();
        for window in windows {
            self.name_slices(window)?;
            self.send(job, window)?;
            self.hash(window)?;
            self.stream.finish()?;
            digests.extend_from_slice(self.digests_of(window));
        }
        let failed = engine::tag(keccak, job, &digests);
        for (i, window) in windows.iter().enumerate() {
            self.name_spans(window, &job.units, &failed)?;
            if windows.len() > 1 {
                self.send(job, window)?;
            }
            self.cipher()?;
            self.fetch(job, window)?;
            self.zero(window, i + 1 == windows.len())?;
            self.stream.finish()?;
        }
        Ok(failed)
    }

    fn name_spans(&mut self, window: &Window, units: &[Unit], left_out: &[usize]) -> Result<()> {
        // A group of threads takes a span, and so needs one key only.
        let longest = (self.launch.threads * self.launch.granularity) as usize * BLOCK;
        let spans = window.spans(units, left_out, longest);
        self.spans = Some(self.stream.spans_again(&spans, self.spans.take())?);
        Ok(())
    }

    fn name_slices(&mut self, window: &Window) -> Result<()> {
        self.slices = Some(self.stream.slices_again(&window.slices(), self.slices.take())?);
        Ok(())
    }

    /// Starts to copy a window's bytes to the device.
    fn send(&mut self, job: &mut Job, window: &Window) -> Result<()> {
        let pair = pair(&mut job.buf);
        for copy in &window.copies {
            // SAFETY: the front stays as it is until `run` has returned, before which the stream is finished. If that
            // fails, the device is dead, and the front is lent to nobody and not freed; what the CPU then makes of the job
            // in it is no concern of the device.
            unsafe { self.stream.start_upload(&mut self.data, copy.at, pair.front(), copy.bytes.clone())? };
        }
        Ok(())
    }

    fn cipher(&mut self) -> Result<()> {
        let (Some(keys), Some(spans)) = (&self.keys, &self.spans) else { unreachable!("they were named before") };
        self.stream.aes_ctr_spans(&self.launch, keys, spans, &mut self.data)
    }

    /// Hashes the slices, and starts to copy the digests back.
    fn hash(&mut self, window: &Window) -> Result<()> {
        let Some(slices) = &self.slices else { unreachable!("they were named before") };
        self.stream.sha3_slices(HASH_THREADS, slices, &self.data, &mut self.digests)?;
        // SAFETY: nobody uses them until the stream is finished; where that fails the stream is dropped, and if the device
        // is dead then they are not freed.
        unsafe { self.stream.start_download(&self.digests, 0, &mut self.hashed, 0..window.slices * DIGEST) }
    }

    /// The digests of a window, once the stream is finished.
    fn digests_of(&self, window: &Window) -> &[[u8; DIGEST]] {
        self.hashed[..window.slices * DIGEST].as_chunks().0
    }

    /// Starts to copy what became of a window's bytes into the back of the job's buffer.
    fn fetch(&mut self, job: &mut Job, window: &Window) -> Result<()> {
        let pair = pair(&mut job.buf);
        for copy in &window.copies {
            // SAFETY: nobody uses the back until the stream is finished. If that fails, the device is dead: then the pair
            // is not turned, and its back is neither lent again nor freed.
            unsafe { self.stream.start_download(&self.data, copy.at, pair.back(), copy.bytes.clone())? };
        }
        Ok(())
    }

    /// Leaves no plaintext on the device, and no key after the last window.
    fn zero(&mut self, window: &Window, is_last: bool) -> Result<()> {
        self.stream.zero(&self.data, window.end())?;
        match &self.keys {
            Some(keys) if is_last => self.stream.zero_round_keys(keys),
            _ => Ok(()),
        }
    }
}

fn pair(buf: &mut engine::Buffer) -> &mut Pair {
    buf.memory_mut().expect("the buffer is of this engine's making")
}
