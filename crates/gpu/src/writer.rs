//! Protecting what lies in a device's memory.
//!
//! What is written gathers on the device, in *windows* of whole chunks. A full window is sealed there, and its ciphertext
//! is copied to the host, while the next one fills and the one before it is written to the output.

use crate::device::{Buffer, Device, Foreign, Pinned, Stream};
use crate::driver::Kind;
use crate::engine::SUITES;
use crate::kernel::Module;
use crate::reader::{WINDOW, fault};
use crate::resident::Resident;
use phalanx_core::engine::{ChunkWriter, Job};
use phalanx_core::{Error, NewFile, Result, Suite};
use phalanx_kernels::keccak;
use std::fmt;
use std::io::{self, Write};
use std::ops::Range;

/// The most windows that there are at once: one fills, one is sealed, and one is written. The fourth is for what differs
/// in time.
const LANES: usize = 4;

/// Protects what lies in memory of a device, where it is sealed. Ciphertext crosses, and the host has no plaintext of what
/// is written so.
///
/// The file is that of [`phalanx_core::Writer`]: only its keys and nonces differ. It is complete after
/// [`DeviceWriter::finish`] has succeeded. After an error, the output does not hold a protected file, and all further
/// calls fail.
///
/// ```no_run
/// # fn save(device: phalanx_gpu::Device, weights: &phalanx_gpu::Buffer, key: phalanx_core::SecretKey) -> Result<(), Box<dyn std::error::Error>> {
/// use phalanx_core::{NewFile, Recipient, Suite};
/// use phalanx_gpu::DeviceWriter;
///
/// let new = NewFile::new(Suite::default(), &[Recipient::key(&key)])?;
/// let file = std::fs::File::create("weights.phx")?;
/// let mut writer = DeviceWriter::new(new, file, device, phalanx_kernels::keccak::Level::detect())?;
/// writer.write(weights, 0..weights.len())?;
/// writer.finish()?;
/// # Ok(()) }
/// ```
pub struct DeviceWriter<W> {
    file: ChunkWriter<W>,
    device: Device,
    keccak: keccak::Level,
    /// The plaintext of a window in bytes, a multiple of the chunk size.
    window: usize,
    /// They are used in turn.
    lanes: Vec<Lane>,
    /// How many there may be.
    most: usize,
    /// The lane whose window is being filled.
    now: usize,
    has_failed: bool,
}

/// A stream, the plaintext of a window on the device, and its stored bytes in the host's memory.
struct Lane {
    /// This is the first field, so that its work is over before memory is freed.
    resident: Resident,
    plain: Buffer,
    sealed: Pinned,
    /// How much of the window is filled, in bytes.
    filled: usize,
    /// The job of the window, if it is being sealed.
    job: Option<Job>,
}

impl<W: Write> DeviceWriter<W> {
    /// Protects as `new` says, to `output`. The CPU computes the tags with `keccak`.
    ///
    /// There are up to four lanes, each with 16 MiB or a chunk on the device, and as much pinned memory: one at first, and
    /// more when there is enough to do for them and enough memory.
    ///
    /// # Errors
    /// [`Error::Fault`] if the device has no kernels for the suite (AES-256-GCM), if it has too little memory, or if it
    /// failed.
    pub fn new(new: NewFile, output: W, device: Device, keccak: keccak::Level) -> Result<Self> {
        if !SUITES.contains(&new.suite()) {
            let refused: crate::Result<()> = device.refuse(format!("it has no {}", new.suite().name()));
            refused.map_err(fault)?;
        }
        if new.suite() == Suite::Aes256CtrTurboShake {
            // Otherwise the first window would do it, and a file would be given up if there is no memory for that.
            device.test(Module::TurboShake).map_err(fault)?;
        }
        let window = (WINDOW as usize).max(new.chunk_size().bytes());
        let most = if device.info().kind == Kind::Cpu { 2 } else { LANES };
        let file = new.chunk_writer(output)?;
        let mut writer = Self { file, device, keccak, window, lanes: Vec::new(), most, now: 0, has_failed: false };
        let first = writer.lane().map_err(fault)?;
        writer.lanes.push(first);
        Ok(writer)
    }

    /// Writes a range of a buffer. When this returns, the range has been copied within the device, and may change.
    ///
    /// # Errors
    /// [`Error::Fault`] if the range does not lie in the buffer, if that is on another device, or if the device failed,
    /// [`Error::Write`] if writing to the output failed, or if an earlier call did.
    pub fn write(&mut self, from: &Buffer, range: Range<usize>) -> Result<()> {
        self.take(range.len(), |stream, to, at, part| {
            stream.copy_range(from, range.start + part.start..range.start + part.end, to, at)?;
            stream.finish()
        })
    }

    /// Writes memory of another library's. When this returns, it has been copied within the device, and may change.
    ///
    /// # Errors
    /// As for [`DeviceWriter::write`].
    pub fn write_foreign(&mut self, from: &Foreign) -> Result<()> {
        self.write(from.buffer(), 0..from.len())
    }

    /// Writes bytes that the host has, such as the header of the plaintext's own format.
    ///
    /// # Errors
    /// As for [`DeviceWriter::write`].
    pub fn write_host(&mut self, bytes: &[u8]) -> Result<()> {
        self.take(bytes.len(), |stream, to, at, part| stream.upload(to, at, &bytes[part]))
    }

    /// Seals what is left, writes it, and flushes the output, which is dropped. Returns the plaintext's length in bytes.
    ///
    /// # Errors
    /// As for [`DeviceWriter::write`].
    pub fn finish(mut self) -> Result<u64> {
        self.check()?;
        self.seal(true)?;
        // The oldest one comes first.
        for next in 1..=self.lanes.len() {
            self.write_out((self.now + next) % self.lanes.len())?;
        }
        self.file.finish()
    }

    /// Takes `len` bytes more. `copy` copies a part of them to a place of a buffer, and waits for that.
    fn take(
        &mut self,
        len: usize,
        copy: impl Fn(&mut Stream, &mut Buffer, usize, Range<usize>) -> crate::Result<()>,
    ) -> Result<()> {
        self.check()?;
        // If it fails, a part has been taken, which the caller cannot know: nothing may follow.
        self.has_failed = true;
        let mut done = 0;
        while done < len {
            // Which chunk is the last is known only at the end. So a full window waits for the next byte.
            if self.lanes[self.now].filled == self.window {
                self.seal(false)?;
                self.turn()?;
            }
            let Lane { resident, plain, filled, .. } = &mut self.lanes[self.now];
            let part = done..done + (self.window - *filled).min(len - done);
            copy(resident.stream(), plain, *filled, part.clone()).map_err(fault)?;
            *filled += part.len();
            done = part.end;
        }
        self.has_failed = false;
        Ok(())
    }

    /// Starts sealing the window that is being filled.
    fn seal(&mut self, last: bool) -> Result<()> {
        let Lane { resident, plain, sealed, filled, job, .. } = &mut self.lanes[self.now];
        let new = self.file.job(std::mem::take(filled), last)?;
        // SAFETY: nothing uses `sealed` before `write_out` has finished the stream. If that fails, all further calls fail,
        // and a lane is dropped after its stream, which waits. If the device is dead, pinned memory is not freed.
        unsafe { resident.start_seal_in_place(&new, plain, sealed) }.map_err(fault)?;
        *job = Some(new);
        Ok(())
    }

    /// Goes on with the next lane. If there may be more, and there is memory, a new one is made.
    fn turn(&mut self) -> Result<()> {
        if self.now + 1 == self.lanes.len() && self.lanes.len() < self.most {
            match self.lane() {
                Ok(lane) => self.lanes.push(lane),
                Err(error) if error.reason.is_final() => return Err(fault(error)),
                Err(_) => self.most = self.lanes.len(),
            }
        }
        self.now = (self.now + 1) % self.lanes.len();
        self.write_out(self.now)
    }

    /// If a lane's window is being sealed, waits for that, and writes it.
    fn write_out(&mut self, lane: usize) -> Result<()> {
        let Lane { resident, sealed, job, .. } = &mut self.lanes[lane];
        let Some(mut job) = job.take() else { return Ok(()) };
        resident.finish_seal(&mut job).map_err(fault)?;
        self.file.write(job, sealed)
    }

    /// Makes a lane with all that its work needs: what fails for want of memory fails here.
    fn lane(&self) -> crate::Result<Lane> {
        let chunk = self.file.chunk_size().bytes();
        let chunks = self.window / chunk;
        let mut stream = self.device.stream()?;
        let plain = stream.buffer(self.window)?;
        let sealed = self.device.pinned(chunks * (chunk + self.file.suite().overhead()))?;
        let mut resident = Resident::new(stream, self.keccak)?;
        resident.reserve(chunks, chunk)?;
        Ok(Lane { resident, plain, sealed, filled: 0, job: None })
    }

    fn check(&self) -> Result<()> {
        if self.has_failed { Err(Error::Write(io::Error::other("an earlier write failed"))) } else { Ok(()) }
    }
}

impl<W: Write> DeviceWriter<W> {
    /// The device.
    #[must_use]
    pub fn device(&self) -> &Device {
        &self.device
    }

    /// The suite.
    #[must_use]
    pub fn suite(&self) -> Suite {
        self.file.suite()
    }
}

impl<W> fmt::Debug for DeviceWriter<W> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "DeviceWriter({:?} on {:?})", self.file, self.device)
    }
}
