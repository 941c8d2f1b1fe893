//! Reading a protected file into a device's memory.
//!
//! A read is divided into *windows* of whole chunks. Several lanes take one window after another: they read its stored
//! bytes into pinned memory, copy them to the device, check all tags, decrypt there, and copy what was asked for to its
//! place. So while one lane reads, others copy and decrypt.

use crate::device::{Buffer, Device, Pinned};
use crate::driver::Kind;
use crate::engine::{LANES, SUITES};
use crate::resident::{Resident, Sealed};
use phalanx_core::engine::{Bind, Fault, Verdicts};
use phalanx_core::{
    ChunkSize, Error, KeySource, Opener, RangeOpening, RangeReader, ReadAt, Result, Roster, Suite, read_full_at,
};
use phalanx_kernels::keccak;
use std::fmt;
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

/// How much plaintext a window has, in bytes, unless a single chunk is longer: enough for the device to be busy.
const WINDOW: u64 = 16 << 20;

/// A protected file whose plaintext is read into memory of a device, where it is decrypted. The host has no plaintext
/// of what is read so, except for the last chunk, which is opened once to prove the length.
///
/// ```no_run
/// # fn open(device: phalanx_gpu::Device, key: phalanx_core::SecretKey) -> phalanx_core::Result<()> {
/// use phalanx_core::{KdfLimit, Opener, Roster};
/// use phalanx_gpu::DeviceReader;
///
/// let file = std::fs::File::open("weights.phx").map_err(phalanx_core::Error::Read)?;
/// let keys = Opener::new(key, KdfLimit::default());
/// let level = phalanx_kernels::keccak::Level::detect();
/// let reader = DeviceReader::open(device, file, &keys, Roster::cpu().into(), level)?;
/// let weights = reader.read(0..reader.len())?;
/// // Kernels on any stream of the device can now read `weights`.
/// # Ok(()) }
/// ```
pub struct DeviceReader<S> {
    device: Device,
    source: S,
    file: RangeReader,
    keccak: keccak::Level,
    /// The plaintext of a window in bytes, a multiple of the chunk size.
    window: u64,
    /// Lanes that no read is using. They keep their memory, because pinning takes long.
    idle: Mutex<Vec<Lane>>,
}

/// A stream, the stored bytes of a window in the host's memory, and its plaintext on the device.
struct Lane {
    resident: Resident,
    sealed: Pinned,
    plain: Buffer,
}

impl<S: ReadAt + Sync> DeviceReader<S> {
    /// Opens a protected file. The CPU opens the last chunk by `roster`, and computes the tags with `keccak`.
    ///
    /// # Errors
    /// As for [`RangeOpening::feed`] and [`RangeOpening::open`]; [`Error::Read`] if the source cannot be read, and
    /// [`Error::Fault`] if the device has no kernels for the file's suite (AES-256-GCM).
    pub fn open(
        device: Device,
        source: S,
        keys: &Opener<impl KeySource>,
        roster: Arc<Roster>,
        keccak: keccak::Level,
    ) -> Result<Self> {
        let mut opening = RangeOpening::new(source.size().map_err(Error::Read)?);
        while let Some(range) = opening.needs() {
            let mut bytes = vec![0; (range.end - range.start) as usize];
            read_full_at(&source, &mut bytes, range.start)?;
            opening.feed(&bytes)?;
        }
        let file = opening.open(keys, roster)?;
        if !SUITES.contains(&file.suite()) {
            let refused = device.refuse::<()>(format!("it has no {}", file.suite().name()));
            return refused.map_err(fault).map(|()| unreachable!("it was refused"));
        }
        let window = WINDOW.max(file.chunk_size().bytes() as u64);
        Ok(Self { device, source, file, keccak, window, idle: Mutex::default() })
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
        let end = range.end.min(self.len());
        let range = range.start.min(end)..end;
        let len = usize::try_from(range.end - range.start)
            .map_err(|_| Error::Memory(format!("{} bytes are needed", range.end - range.start)))?;
        let target = self.device.stream().and_then(|mut stream| stream.buffer(len)).map_err(fault)?;
        if len > 0 {
            self.fill(&range, &target)?;
        }
        Ok(target)
    }

    /// Fills a buffer with a range. After an error, it has only plaintext of chunks that are authentic.
    fn fill(&self, range: &Range<u64>, target: &Buffer) -> Result<()> {
        let windows = range.start / self.window..range.end.div_ceil(self.window);
        let most = if self.device.info().kind == Kind::Cpu { 2 } else { LANES as u64 };
        let helpers = (windows.end - windows.start).min(most) - 1;
        let next = AtomicU64::new(windows.start);
        let failed: Mutex<Option<(u64, Error)>> = Mutex::default();
        let work = |lane: Lane| {
            let mut lane = lane;
            let mut at = windows.start;
            let mut take = || -> Result<()> {
                loop {
                    at = next.fetch_add(1, Ordering::Relaxed);
                    if at >= windows.end {
                        return lane.clear(self.window as usize).map_err(fault);
                    }
                    self.open_window(&mut lane, at, range, target)?;
                }
            };
            match take() {
                Ok(()) => self.idle().push(lane),
                Err(error) => {
                    // No other window is begun. All windows before this one have been begun, and may fail too.
                    next.store(windows.end, Ordering::Relaxed);
                    let mut failed = failed.lock().unwrap_or_else(PoisonError::into_inner);
                    if failed.as_ref().is_none_or(|(first, _)| at < *first) {
                        *failed = Some((at, error));
                    }
                }
            }
        };
        let first = self.lane().map_err(fault)?;
        thread::scope(|scope| {
            for _ in 0..helpers {
                // With too little memory or threads, fewer lanes do the work.
                let Ok(lane) = self.lane() else { break };
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
        let stored = self.file.needs(start..end);
        let sealed = &mut lane.sealed[..(stored.end - stored.start) as usize];
        read_full_at(&self.source, sealed, stored.start)?;
        let mut job = self.file.job(start..end, sealed)?;
        let opened = lane.resident.start_open(&mut job, Sealed::Pinned(&lane.sealed), &mut lane.plain, 0);
        check(&opened.map_err(fault)?, |failed| &job.units[failed].bind)?;
        let from = (start % self.file.chunk_size().bytes() as u64) as usize;
        let from = from..from + (end - start) as usize;
        let at = (start - range.start) as usize;
        lane.resident.stream().copy_range(&lane.plain, from, &mut target.alias(), at).map_err(fault)
    }

    /// A lane that nobody uses.
    fn lane(&self) -> crate::Result<Lane> {
        if let Some(lane) = self.idle().pop() {
            return Ok(lane);
        }
        let plain_len = self.window.min(self.len().next_multiple_of(self.file.chunk_size().bytes() as u64));
        let sealed = self.file.needs(0..plain_len);
        let mut stream = self.device.stream()?;
        let plain = stream.buffer(plain_len as usize)?;
        let sealed = self.device.pinned((sealed.end - sealed.start) as usize)?;
        Ok(Lane { resident: Resident::new(stream, self.keccak)?, sealed, plain })
    }
}

impl<S> DeviceReader<S> {
    /// The length of the plaintext in bytes, which is authentic.
    #[must_use]
    pub fn len(&self) -> u64 {
        self.file.len()
    }

    /// Whether the plaintext has no bytes.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.file.is_empty()
    }

    /// The file's suite.
    #[must_use]
    pub fn suite(&self) -> Suite {
        self.file.suite()
    }

    /// How many bytes of plaintext a chunk holds.
    #[must_use]
    pub fn chunk_size(&self) -> ChunkSize {
        self.file.chunk_size()
    }

    /// The source.
    #[must_use]
    pub fn source(&self) -> &S {
        &self.source
    }

    /// The device.
    #[must_use]
    pub fn device(&self) -> &Device {
        &self.device
    }

    fn idle(&self) -> std::sync::MutexGuard<'_, Vec<Lane>> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Lane {
    /// Waits for all its work, and wipes the plaintext.
    fn clear(&mut self, used: usize) -> crate::Result<()> {
        let used = used.min(self.plain.len());
        let stream = self.resident.stream();
        stream.zero(&self.plain, used)?;
        stream.finish()
    }
}

impl<S> fmt::Debug for DeviceReader<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "DeviceReader({}, {} bytes, {:?})", self.suite().name(), self.len(), self.device)
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

fn fault(error: crate::Error) -> Error {
    Error::Fault(Fault { engine: "gpu".into(), reason: error.to_string() })
}
