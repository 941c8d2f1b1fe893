//! Reading a protected file into a device's memory.
//!
//! A read is divided into *windows* of whole chunks. Several lanes take one window after another: they read its stored
//! bytes into pinned memory, copy them to the device, check all tags, decrypt there, and copy what was asked for to its
//! place. So while one lane reads, others copy and decrypt.

mod lanes;

use crate::device::{Buffer, Device, Target};
use crate::driver::Kind;
use crate::engine::{LANES, SUITES};
use crate::resident::{Resident, Sealed};
use lanes::{Lane, Lanes, Taken};
use phalanx_core::engine::{Bind, Fault, Verdicts};
use phalanx_core::{Error, ReadAt, Reader, Result};
use phalanx_kernels::keccak;
use std::fmt;
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread;

/// How much plaintext a window has, in bytes, unless a single chunk is longer: enough for the device to be busy.
pub(crate) const WINDOW: u64 = 16 << 20;

/// Reads a protected file into memory of a device, new or given, where it is decrypted. The host has no plaintext of what is read so.
/// But [`Reader`] has opened the last chunk once, by the CPU, to prove the file's length.
///
/// ```no_run
/// # fn open(device: phalanx_gpu::Device, key: phalanx_core::SecretKey) -> Result<(), Box<dyn std::error::Error>> {
/// use phalanx_core::{KdfLimit, Opener, Reader};
/// use phalanx_gpu::DeviceReader;
///
/// let file = std::fs::File::open("weights.phx")?;
/// let reader = Reader::open(file, &Opener::new(key, KdfLimit::default()))?;
/// let there = DeviceReader::new(reader.clone(), device, phalanx_kernels::keccak::Level::detect())?;
/// let weights = there.read(0..reader.len())?;
/// // Kernels on any stream of the device can now read `weights`.
/// # Ok(()) }
/// ```
pub struct DeviceReader<S> {
    file: Reader<S>,
    device: Device,
    keccak: keccak::Level,
    /// The plaintext of a window in bytes, a multiple of the chunk size.
    window: u64,
    lanes: Lanes,
}

impl<S: ReadAt + Send + Sync + 'static> DeviceReader<S> {
    /// Reads this file. The CPU computes the tags with `keccak`.
    ///
    /// A lane has pinned memory for 16 MiB or a chunk, and as much on the device, or less if the range of a read is
    /// shorter. There are eight at most, for all reads together, and two if the device is the CPU. They keep their memory
    /// until this value is dropped. A read for which there is none waits for one.
    ///
    /// # Errors
    /// [`Reason::Refused`](crate::Reason::Refused) if the device has no kernels for the file's suite (AES-256-GCM).
    pub fn new(file: Reader<S>, device: Device, keccak: keccak::Level) -> crate::Result<Self> {
        if !SUITES.contains(&file.suite()) {
            return device.refuse(format!("it has no {}", file.suite().name()));
        }
        let window = WINDOW.max(file.chunk_size().bytes() as u64);
        let lanes = Lanes::new(if device.info().kind == Kind::Cpu { 2 } else { LANES });
        Ok(Self { file, device, keccak, window, lanes })
    }

    /// Reads a range of the plaintext into new memory of the device, from its beginning on, and waits until that is
    /// done. Any stream can then use it. A range that exceeds the plaintext stops at its end. Bytes after the range are
    /// zeros.
    ///
    /// Nothing is returned before every tag is found to be right.
    ///
    /// # Errors
    /// [`Error::Altered`] names the first chunk that is not authentic. [`Error::Changed`] or [`Error::Read`] if the
    /// source cannot be read, and [`Error::Fault`] if the device failed, or has too little memory.
    pub fn read(&self, range: Range<u64>) -> Result<Buffer> {
        let (range, len) = self.within(&range)?;
        let target = self.device.stream().and_then(|mut stream| stream.buffer(len)).map_err(fault)?;
        if len > 0 {
            self.fill(&range, &target)?;
        }
        Ok(target)
    }

    /// Reads a range of the plaintext into memory that exists already, from its beginning on, waits until that is done, and
    /// returns how many bytes that were. Any stream can then use them. A range that exceeds the plaintext stops at its end.
    /// What lies behind the range stays as it is.
    ///
    /// This returns when every tag is found to be right. Windows of the range are copied to the memory as soon as their own
    /// tags are, so it holds nothing that is not authentic at any time, but it may hold a part of the range.
    ///
    /// # Errors
    /// [`Error::Fault`] if the memory is too short or on another device, which then stays as it is. Otherwise those of
    /// [`DeviceReader::read`]: once the read has begun, the place of the range holds zeros after an error, unless the device
    /// cannot write them any more.
    pub fn read_into(&self, range: Range<u64>, target: &mut Target) -> Result<usize> {
        let (range, len) = self.within(&range)?;
        let target = target.buffer();
        let mut stream = self.device.stream().map_err(fault)?;
        stream.check(target, 0..len).map_err(fault)?;
        if len == 0 {
            return Ok(0);
        }
        self.fill(&range, target).map(|()| len).inspect_err(|_| {
            // If this fails, the device has failed, which the caller finds out.
            let _ = stream.zero_range(target, 0..len).and_then(|()| stream.finish());
        })
    }

    /// The part of a range that the plaintext has, and its length.
    fn within(&self, range: &Range<u64>) -> Result<(Range<u64>, usize)> {
        let end = range.end.min(self.file.len());
        let start = range.start.min(end);
        let len =
            usize::try_from(end - start).map_err(|_| Error::Memory(format!("{} bytes are needed", end - start)))?;
        Ok((start..end, len))
    }

    /// Fills a buffer with a range. After an error, it has only plaintext of chunks that are authentic.
    fn fill(&self, range: &Range<u64>, target: &Buffer) -> Result<()> {
        let windows = range.start / self.window..range.end.div_ceil(self.window);
        let helpers = (windows.end - windows.start).min(self.lanes.most() as u64) - 1;
        let next = AtomicU64::new(windows.start);
        let failed: Mutex<Option<(u64, Error)>> = Mutex::default();
        let work = |mut taken: Taken<'_>| {
            let mut at = windows.start;
            let open = || -> Result<()> {
                loop {
                    at = next.fetch_add(1, Ordering::Relaxed);
                    if at >= windows.end {
                        return taken.give_back().map_err(fault);
                    }
                    self.open_window(taken.lane(), at, range, target)?;
                }
            };
            if let Err(error) = open() {
                // No other window is begun. All windows before this one have been begun, and may fail too.
                next.store(windows.end, Ordering::Relaxed);
                let mut failed = failed.lock().unwrap_or_else(PoisonError::into_inner);
                if failed.as_ref().is_none_or(|(first, _)| at < *first) {
                    *failed = Some((at, error));
                }
            }
        };
        let len = self.lane_len(range);
        let take = |waits| self.lanes.take(len, waits, || self.lane(len));
        let first = take(true).map_err(fault)?.expect("it waits");
        thread::scope(|scope| {
            for _ in 0..helpers {
                // With too little memory or threads, or if other reads use the lanes, fewer do the work.
                let Ok(Some(lane)) = take(false) else { break };
                let _ = thread::Builder::new().name("phalanx-device".into()).spawn_scoped(scope, || work(lane));
            }
            work(first);
        });
        failed.into_inner().unwrap_or_else(PoisonError::into_inner).map_or(Ok(()), |(_, error)| Err(error))
    }

    /// Opens a window, and starts copying the part of it that is in the range to its place.
    fn open_window(&self, lane: &mut Lane, window: u64, range: &Range<u64>, target: &Buffer) -> Result<()> {
        let start = range.start.max(window * self.window);
        let end = range.end.min((window + 1) * self.window);
        let mut job = self.file.job(start..end, &mut lane.sealed)?;
        let opened = lane.resident.start_open(&mut job, Sealed::Pinned(&lane.sealed), &mut lane.plain, 0);
        check(&opened.map_err(fault)?, |failed| &job.units[failed].bind)?;
        let from = (start % self.file.chunk_size().bytes() as u64) as usize;
        let from = from..from + (end - start) as usize;
        let at = (start - range.start) as usize;
        lane.resident.stream().copy_range(&lane.plain, from, &mut target.alias(), at).map_err(fault)
    }

    /// How much plaintext a lane has to hold for a range, in bytes: whole chunks, and a window at most.
    fn lane_len(&self, range: &Range<u64>) -> usize {
        let chunk = self.file.chunk_size().bytes() as u64;
        self.window.min(range.end.next_multiple_of(chunk) - range.start / chunk * chunk) as usize
    }

    /// Makes a lane for so much plaintext, with all that its work needs: what fails for want of memory fails here.
    fn lane(&self, len: usize) -> crate::Result<Lane> {
        let chunk = self.file.chunk_size().bytes();
        let chunks = len / chunk;
        let mut stream = self.device.stream()?;
        let plain = stream.buffer(len)?;
        let sealed = self.device.pinned(chunks * (chunk + self.file.suite().overhead()))?;
        let mut resident = Resident::new(stream, self.keccak)?;
        resident.reserve(chunks, chunk)?;
        Ok(Lane { resident, sealed, plain })
    }
}

impl<S> DeviceReader<S> {
    /// The file.
    #[must_use]
    pub fn file(&self) -> &Reader<S> {
        &self.file
    }

    /// The device.
    #[must_use]
    pub fn device(&self) -> &Device {
        &self.device
    }
}

impl<S> fmt::Debug for DeviceReader<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "DeviceReader({:?} on {:?})", self.file, self.device)
    }
}

/// An error if a chunk failed.
fn check<'u>(verdicts: &Verdicts, bind: impl Fn(usize) -> &'u Bind) -> Result<()> {
    match verdicts.failed().first().map(|failed| bind(*failed)) {
        Some(&Bind::Chunk { index, last }) => Err(Error::Altered { chunk: index, last }),
        Some(Bind::Message { .. }) => unreachable!("a file has chunks"),
        None => Ok(()),
    }
}

pub(crate) fn fault(error: crate::Error) -> Error {
    Error::Fault(Fault { engine: "gpu".into(), reason: error.to_string() })
}
