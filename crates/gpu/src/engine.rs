//! The engine `gpu`: jobs of the CTR suites on a device.
//!
//! Each stream has its own memory, so that the copies of one stream run at the same time as the kernels of another. The
//! device encrypts and hashes the slices. The CPU computes the tags, a hundredth of the work, by the code of its own engine.
//! The device's results go to a second buffer, which takes the place of the first when everything has succeeded. So after
//! any fault the job is as it was, even if the device wakes up late.

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

/// The suites that a device can run.
const SUITES: &[Suite] =
    &[Suite::Aes256CtrSha3, Suite::Aes192CtrSha3, Suite::Aes128CtrSha3, Suite::Aes256CtrTurboShake];
/// Buffers of at least this length, in bytes, are pinned. For shorter ones a copy takes less time than pinning.
const WORTH_PINNING: usize = 1 << 20;
/// The threads of each group that hashes: few, so that even a short job uses all multiprocessors.
const HASH_THREADS: u32 = 32;
/// A stream's memory has room for a job's chunks and for this part of their length besides (1/16): for the nonces, tags and
/// header between them.
const BETWEEN: usize = 16;

/// Seals and opens jobs on a device.
pub struct GpuEngine {
    info: EngineInfo,
    device: Device,
    keccak: keccak::Level,
    limits: Limits,
    streams: Mutex<Streams>,
    /// Notified when a stream is free again.
    freed: Condvar,
    pool: Arc<Pool>,
}

#[derive(Default)]
struct Streams {
    idle: Vec<WorkStream>,
    busy: usize,
}

impl GpuEngine {
    /// An engine on an open device, which has therefore passed its self-test. The CPU computes the tags with `keccak`.
    ///
    /// Nothing is allocated on the device before the first job.
    #[must_use]
    pub fn new(device: Device, keccak: keccak::Level) -> Self {
        let device_info = device.info();
        // If the device is the CPU, short jobs stay in its caches, and there are no copies to overlap with kernels.
        let (streams, preferred) = if device_info.kind == Kind::Cpu { (2, 2 << 20) } else { (4, 16 << 20) };
        // At most a quarter of the device's memory for all streams together.
        let share = device_info.largest_buffer.min(device_info.memory / (4 * streams as u64));
        let room = usize::try_from(share).unwrap_or(usize::MAX).min(preferred + preferred / BETWEEN);
        let len = (room / SLICE).max(1) * SLICE;
        let info = EngineInfo {
            name: "gpu".into(),
            detail: format!("{}, {}, {}, {streams} streams", device_info.name, device_info.api, device_info.driver),
            suites: SUITES,
            workers: streams,
            preferred_job: preferred.min(len - len / (BETWEEN + 1)),
            // A longer job goes through the device in parts.
            largest_job: usize::MAX,
        };
        let limits = Limits { len, slices: (len / 512).max(1) };
        let pool = Pool::new(device.clone(), 2 * streams);
        Self { info, device, keccak, limits, streams: Mutex::default(), freed: Condvar::new(), pool }
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
        let stream = taken.stream.as_mut().expect("it was taken just now");
        let failed = stream.run(job, self.keccak, self.limits).inspect_err(|_| {
            // Nothing may reach the job's memory any more. Memory that a dead device may still reach is never used again.
            let _ = stream.stream.finish();
        });
        if failed.is_err() {
            taken.stream = None;
        }
        failed.map(Verdicts::from_failed)
    }

    /// A stream that nobody else uses. If all are in use, this waits for one.
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

/// A stream in use. When this is dropped, the stream is free again. One that failed is replaced by a new one.
struct Taken<'a> {
    engine: &'a GpuEngine,
    stream: Option<WorkStream>,
}

impl Drop for Taken<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            // The job's memory is about to be dropped, so no copy to it may be under way.
            self.stream.take().map(|mut stream| stream.stream.finish());
        }
        let mut streams = self.engine.streams();
        streams.busy -= 1;
        streams.idle.extend(self.stream.take());
        drop(streams);
        self.engine.freed.notify_one();
    }
}

/// A stream with its own memory, which all its jobs use: allocating and freeing would wait for the other streams.
struct WorkStream {
    stream: Stream,
    launch: AesLaunch,
    data: Buffer,
    digests: Buffer,
    /// Where the digests are copied to.
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
        // These kernels take the same time for all data and keys: see `docs/security.md`.
        let default = AesLaunch::default();
        let threads = default.threads.min(device.max_threads(default.kernel("aes_ctr_spans"))?);
        let launch = AesLaunch { threads, ..default };
        Ok(Self { launch, stream, data, digests, hashed, keys: None, spans: None, slices: None })
    }

    /// Seals or opens a job. Returns the indices of the units that are not authentic.
    fn run(&mut self, job: &mut Job, keccak: keccak::Level, limits: Limits) -> Result<Vec<usize>> {
        let windows = plan::windows(&job.units, job.slice_len(), limits);
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
        pair(buf).swap(units);
        Ok(failed)
    }

    fn seal(&mut self, job: &mut Job, windows: &[Window], keccak: keccak::Level) -> Result<Vec<usize>> {
        let mut digests = Vec::new();
        for (i, window) in windows.iter().enumerate() {
            self.name_spans(window, &job.units, &[])?;
            self.name_slices(window)?;
            self.send(job, window)?;
            self.cipher()?;
            self.hash(job.suite, window)?;
            self.fetch(job, window)?;
            self.zero(window, i + 1 == windows.len())?;
            self.stream.finish()?;
            digests.extend_from_slice(self.digests_of(window));
        }
        Ok(engine::tag(keccak, job, &digests))
    }

    /// Decrypts nothing before its tag is checked.
    fn open(&mut self, job: &mut Job, windows: &[Window], keccak: keccak::Level) -> Result<Vec<usize>> {
        let mut digests = Vec::new();
        for window in windows {
            self.name_slices(window)?;
            self.send(job, window)?;
            self.hash(job.suite, window)?;
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
        // With spans of this length all threads of a group have the same key.
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
            // SAFETY: the front does not change until `run` has returned, and the stream is finished before that. If
            // finishing fails, the device is dead, and the front is neither lent again nor freed. If the CPU then works on
            // the job there, the device reads other bytes, and nobody uses what it makes of them.
            unsafe { self.stream.start_upload(&mut self.data, copy.at, pair.front(), copy.bytes.clone())? };
        }
        Ok(())
    }

    fn cipher(&mut self) -> Result<()> {
        let (Some(keys), Some(spans)) = (&self.keys, &self.spans) else { unreachable!("they were named before") };
        self.stream.aes_ctr_spans(&self.launch, keys, spans, &mut self.data)
    }

    /// Hashes the slices, and starts to copy the digests back.
    fn hash(&mut self, suite: Suite, window: &Window) -> Result<()> {
        let Some(slices) = &self.slices else { unreachable!("they were named before") };
        match suite {
            Suite::Aes256CtrTurboShake => {
                self.stream.turboshake_slices(HASH_THREADS, slices, &self.data, &mut self.digests)?;
            }
            _ => self.stream.sha3_slices(HASH_THREADS, slices, &self.data, &mut self.digests)?,
        }
        // SAFETY: nobody uses the bytes until the stream is finished. If that fails, this value is dropped, and if the
        // device is dead they are not freed.
        unsafe { self.stream.start_download(&self.digests, 0, &mut self.hashed, 0..window.slices * DIGEST) }
    }

    /// The digests of a window, once the stream is finished.
    fn digests_of(&self, window: &Window) -> &[[u8; DIGEST]] {
        self.hashed[..window.slices * DIGEST].as_chunks().0
    }

    /// Starts to copy the result of a window into the back of the job's buffer.
    fn fetch(&mut self, job: &mut Job, window: &Window) -> Result<()> {
        let pair = pair(&mut job.buf);
        for copy in &window.copies {
            // SAFETY: nobody uses the back until the stream is finished. If that fails, the device is dead: the pair is not
            // swapped, and its back is neither lent again nor freed.
            unsafe { self.stream.start_download(&self.data, copy.at, pair.back(), copy.bytes.clone())? };
        }
        Ok(())
    }

    /// Wipes a window's data on the device, and the keys after the last window.
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
