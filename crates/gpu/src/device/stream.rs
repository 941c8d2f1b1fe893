//! Streams: queues of work for a device.

use super::{ALIGN, Block, Buffer, Device, Pinned};
#[cfg(feature = "papers")]
use crate::driver::Argument;
use crate::driver::{Launch, Rows, StreamId};
use crate::error::Result;
#[cfg(feature = "papers")]
use crate::schedule;
use std::fmt;
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;
use zeroize::Zeroizing;

/// A queue of work for a device. Its work is done in order, in parallel with that of other streams.
///
/// Copies to and from the host are over when their call returns. Kernels are only started: the next copy on the same
/// stream, or [`Stream::finish`], waits for them and reports their failures.
pub struct Stream {
    device: Device,
    id: StreamId,
    /// Whether this is the stream of a self-test, which runs kernels that have not passed it yet.
    testing: bool,
    /// Gathers bytes for new device memory, for one copy.
    block: Option<Block>,
    /// T0 and its inverse, if a kernel has needed them.
    #[cfg(feature = "papers")]
    tables: Option<[Buffer; 2]>,
}

impl Stream {
    pub(super) fn new(device: &Device, testing: bool) -> Result<Self> {
        let id = device.ask(|driver, _| driver.stream())?;
        Ok(Self {
            device: device.clone(),
            id,
            testing,
            block: None,
            #[cfg(feature = "papers")]
            tables: None,
        })
    }

    /// The device.
    #[must_use]
    pub fn device(&self) -> &Device {
        &self.device
    }

    /// Allocates device memory of at least `len` bytes, zeroed.
    ///
    /// # Errors
    /// [`Reason::Refused`](crate::Reason::Refused) if it is longer than the largest buffer of the device,
    /// [`Reason::OutOfMemory`](crate::Reason::OutOfMemory), or a failure of the driver.
    pub fn buffer(&mut self, len: usize) -> Result<Buffer> {
        let largest = self.device.info().largest_buffer;
        let rounded = len.max(1).checked_next_multiple_of(ALIGN).filter(|rounded| *rounded as u64 <= largest);
        let Some(len) = rounded else {
            return self.device.refuse(format!("a buffer of {len} bytes: the largest here has {largest}"));
        };
        let id = self.device.allocate(|driver| driver.allocate(len))?;
        let buffer = Buffer::new(&self.device, id, len);
        self.zero(&buffer, len)?;
        self.finish()?; // because another stream may use the buffer next
        Ok(buffer)
    }

    /// Allocates device memory for the bytes and copies them there.
    ///
    /// # Errors
    /// As for [`Stream::buffer`].
    pub fn buffer_of(&mut self, bytes: &[u8]) -> Result<Buffer> {
        let mut buffer = self.buffer(bytes.len())?;
        self.upload(&mut buffer, 0, bytes)?;
        Ok(buffer)
    }

    /// Copies the words, little-endian, to device memory: to `old` if that is large enough, otherwise to a new buffer.
    /// The words may be secret, so the host's copy of them is wiped.
    pub(crate) fn buffer_of_words(&mut self, words: &[u32], old: Option<Buffer>) -> Result<Buffer> {
        let mut bytes = Zeroizing::new(Vec::with_capacity(size_of_val(words)));
        bytes.extend(words.iter().flat_map(|word| word.to_le_bytes()));
        self.buffer_again(&bytes, old)
    }

    /// Makes bytes for new device memory gather in this block. The stream is finished, and the block is empty.
    pub(crate) fn gather(&mut self, block: Block) {
        self.block = Some(block);
    }

    /// Drops what was gathered, and nothing gathers from now on.
    pub(crate) fn stop_gathering(&mut self) {
        self.block = None;
    }

    /// Starts copying the gathered bytes to the device, and returns the block.
    ///
    /// # Safety
    /// The block does not change until the stream is finished. If it is never finished, the block never changes.
    pub(crate) unsafe fn send_gathered(&mut self) -> Result<Block> {
        let mut block = self.block.take().expect("`gather` was called");
        let (host, memory, used) = block.both();
        // SAFETY: the caller does not change the block until the stream is finished.
        unsafe { self.start_upload(memory, 0, host, used) }.map(|()| block)
    }

    /// Copies the bytes to device memory: to `old` if that is large enough, otherwise to a new buffer. If a block
    /// gathers new bytes, they are copied with it.
    pub(crate) fn buffer_again(&mut self, bytes: &[u8], old: Option<Buffer>) -> Result<Buffer> {
        if let (Some(block), None) = (&mut self.block, &old)
            && let Some(part) = block.add(bytes)
        {
            return Ok(part);
        }
        match old {
            Some(mut buffer) if buffer.len >= bytes.len() => {
                self.upload(&mut buffer, 0, bytes)?;
                Ok(buffer)
            }
            old => {
                drop(old);
                self.buffer_of(bytes)
            }
        }
    }

    /// Copies bytes to device memory, `at` bytes from its beginning. All earlier work of the stream is done first.
    ///
    /// # Errors
    /// [`Reason::Refused`](crate::Reason::Refused) if the bytes do not fit there or the buffer is on another device.
    /// Otherwise a failure of the driver, possibly of earlier work.
    pub fn upload(&mut self, to: &mut Buffer, at: usize, from: &[u8]) -> Result<()> {
        self.check(to, at..at.saturating_add(from.len()))?;
        if from.is_empty() {
            return Ok(());
        }
        // A copy to or from memory that is not pinned has no time limit, so all work that could hang must be over.
        self.finish()?;
        // SAFETY: the range was checked.
        self.device.ask(|driver, _| unsafe { driver.upload(self.id, to.memory.id, to.at + at, from) })
    }

    /// Copies bytes from device memory, `at` bytes from its beginning. All earlier work of the stream is done first.
    ///
    /// # Errors
    /// [`Reason::Refused`](crate::Reason::Refused) if the range does not lie in the buffer or the buffer is on another
    /// device. Otherwise a failure of the driver, possibly of earlier work.
    pub fn download(&mut self, from: &Buffer, at: usize, to: &mut [u8]) -> Result<()> {
        self.check(from, at..at.saturating_add(to.len()))?;
        self.finish()?;
        if to.is_empty() {
            return Ok(());
        }
        // SAFETY: the range was checked.
        self.device.ask(|driver, _| unsafe { driver.download(self.id, from.memory.id, from.at + at, to) })
    }

    /// Starts a copy of pinned bytes to device memory, `at` bytes from its beginning.
    ///
    /// # Safety
    /// The bytes do not change until the stream is finished. If it is never finished, they never change.
    pub(crate) unsafe fn start_upload(
        &mut self,
        to: &mut Buffer,
        at: usize,
        from: &Pinned,
        part: Range<usize>,
    ) -> Result<()> {
        self.check(to, at..at.saturating_add(part.len()))?;
        self.check_pinned(from)?;
        let from = &from[part];
        let at = to.at + at;
        // SAFETY: the ranges were checked. The caller does not change the bytes until the stream is finished.
        self.device
            .ask(|driver, _| unsafe { driver.start_upload(self.id, to.memory.id, at, from.as_ptr(), from.len()) })
    }

    /// Starts a copy of rows of pinned bytes, the first of them at `from_at`, to device memory, `at` bytes from its
    /// beginning.
    ///
    /// # Safety
    /// As for [`Stream::start_upload`].
    pub(crate) unsafe fn start_upload_rows(
        &mut self,
        to: &mut Buffer,
        at: usize,
        from: &Pinned,
        from_at: usize,
        rows: &Rows,
    ) -> Result<()> {
        let [here, there] = rows.spans();
        self.check(to, at..at.saturating_add(there))?;
        self.check_pinned(from)?;
        let from = &from[from_at..from_at + here];
        let at = to.at + at;
        // SAFETY: the ranges were checked, so each row lies in them. The caller does not change the bytes until the
        // stream is finished.
        self.device.ask(|driver, _| unsafe { driver.start_upload_rows(self.id, to.memory.id, at, from.as_ptr(), rows) })
    }

    /// Starts a copy of rows from device memory, the first of them `at` bytes from its beginning, to pinned bytes from
    /// `to_at` on.
    ///
    /// # Safety
    /// As for [`Stream::start_download`].
    pub(crate) unsafe fn start_download_rows(
        &mut self,
        from: &Buffer,
        at: usize,
        to: &mut Pinned,
        to_at: usize,
        rows: &Rows,
    ) -> Result<()> {
        let [here, there] = rows.spans();
        self.check(from, at..at.saturating_add(there))?;
        self.check_pinned(to)?;
        let to = &mut to[to_at..to_at + here];
        let at = from.at + at;
        // SAFETY: the ranges were checked, so each row lies in them. The caller makes sure that nothing uses the bytes
        // until the stream is finished.
        self.device
            .ask(|driver, _| unsafe { driver.start_download_rows(self.id, from.memory.id, at, to.as_mut_ptr(), rows) })
    }

    /// Starts a copy from device memory, `at` bytes from its beginning, to pinned bytes.
    ///
    /// # Safety
    /// Nothing uses the bytes until the stream is finished. If it is never finished, nothing ever uses them.
    pub(crate) unsafe fn start_download(
        &mut self,
        from: &Buffer,
        at: usize,
        to: &mut Pinned,
        part: Range<usize>,
    ) -> Result<()> {
        self.check(from, at..at.saturating_add(part.len()))?;
        self.check_pinned(to)?;
        let to = &mut to[part];
        let at = from.at + at;
        // SAFETY: the ranges were checked. The caller makes sure that nothing uses the bytes until the stream is
        // finished.
        self.device
            .ask(|driver, _| unsafe { driver.start_download(self.id, from.memory.id, at, to.as_mut_ptr(), to.len()) })
    }

    /// Overwrites the beginning of a buffer with zeros when all earlier work of the stream is done.
    pub(crate) fn zero(&mut self, buffer: &Buffer, len: usize) -> Result<()> {
        self.zero_range(buffer, 0..len.next_multiple_of(ALIGN))
    }

    /// Overwrites a range of a buffer, and nothing else of it, with zeros when all earlier work of the stream is done.
    pub(crate) fn zero_range(&mut self, buffer: &Buffer, range: Range<usize>) -> Result<()> {
        self.check(buffer, range.clone())?;
        if range.is_empty() {
            return Ok(());
        }
        let (at, len) = (buffer.at + range.start, range.len());
        // SAFETY: the range was checked.
        self.device.ask(|driver, _| unsafe { driver.zero(self.id, buffer.memory.id, at, len) })
    }

    /// Starts a copy of the first `len` bytes of one buffer to the beginning of another.
    ///
    /// # Errors
    /// [`Reason::Refused`](crate::Reason::Refused) if a buffer is shorter than `len` or on another device. Otherwise a
    /// failure of the driver.
    pub fn copy(&mut self, from: &Buffer, to: &mut Buffer, len: usize) -> Result<()> {
        self.check(from, 0..len)?;
        self.check(to, 0..len)?;
        if len == 0 {
            return Ok(());
        }
        let (from, to) = ((from.memory.id, from.at), (to.memory.id, to.at));
        // SAFETY: the ranges were checked. `to` is borrowed mutably, so these are two buffers; parts are not copied.
        self.device.ask(|driver, _| unsafe { driver.copy(self.id, from, to, len) })
    }

    /// Starts a copy of a range of one buffer to another, `at` bytes from its beginning.
    pub(crate) fn copy_range(&mut self, from: &Buffer, range: Range<usize>, to: &mut Buffer, at: usize) -> Result<()> {
        self.check(from, range.clone())?;
        self.check(to, at..at.saturating_add(range.len()))?;
        if range.is_empty() {
            return Ok(());
        }
        if Arc::ptr_eq(&from.memory, &to.memory) {
            return self.device.refuse("a copy within one allocation");
        }
        let (from, to) = ((from.memory.id, from.at + range.start), (to.memory.id, to.at + at));
        // SAFETY: the ranges were checked, and lie in two allocations.
        self.device.ask(|driver, _| unsafe { driver.copy(self.id, from, to, range.len()) })
    }

    /// Waits for all work of the stream.
    ///
    /// # Errors
    /// A failure of the driver, possibly of earlier work. [`Reason::TimedOut`](crate::Reason::TimedOut) if the work is
    /// not done within the limit.
    pub fn finish(&mut self) -> Result<()> {
        self.device.ask(|driver, limit| driver.finish(self.id, limit))
    }

    /// Runs `work`, waits for all that it started on the stream, and returns its result and the time that the device
    /// took, by the device's clock.
    ///
    /// # Errors
    /// The error of `work`, or a failure of the driver.
    pub fn timed<T>(&mut self, work: impl FnOnce(&mut Self) -> Result<T>) -> Result<(T, Duration)> {
        let from = self.device.ask(|driver, _| driver.mark(self.id))?;
        let done = work(self)?;
        let to = self.device.ask(|driver, _| driver.mark(self.id))?;
        self.finish()?;
        // SAFETY: the driver made both marks just now, on this stream, which is finished.
        let time = self.device.ask(|driver, _| unsafe { driver.between(from, to) })?;
        Ok((done, time))
    }

    /// Refuses a buffer of another device, and a range that does not lie in the buffer.
    pub(crate) fn check(&self, buffer: &Buffer, range: Range<usize>) -> Result<()> {
        if !Arc::ptr_eq(&buffer.memory.device.shared, &self.device.shared) {
            return self.device.refuse("the buffer belongs to another device");
        }
        if range.start > range.end || range.end > buffer.len {
            return self.device.refuse(format!("bytes {range:?} of a buffer of {} bytes", buffer.len));
        }
        Ok(())
    }

    /// Pinned memory is freed when its own device no longer uses it.
    pub(crate) fn check_pinned(&self, pinned: &Pinned) -> Result<()> {
        if Arc::ptr_eq(&pinned.device.shared, &self.device.shared) {
            return Ok(());
        }
        self.device.refuse("the pinned memory belongs to another device")
    }

    /// T0 on the device, or its inverse.
    #[cfg(feature = "papers")]
    pub(crate) fn tables(&mut self, inverse: bool) -> Result<Argument> {
        if self.tables.is_none() {
            let [forward, back] = schedule::tables();
            self.tables = Some([self.buffer_of_words(&forward, None)?, self.buffer_of_words(&back, None)?]);
        }
        let [forward, back] = self.tables.as_ref().expect("they were made just now");
        Ok(if inverse { back } else { forward }.argument())
    }

    /// Starts a kernel of a module that has passed its self-test.
    ///
    /// # Safety
    /// The arguments are those of the kernel's source, and all that it reaches through them lies in the buffers.
    pub(crate) unsafe fn launch(&mut self, launch: &Launch<'_>) -> Result<()> {
        if launch.groups == 0 {
            return Ok(());
        }
        let module = launch.kernel.module;
        if !self.device.has_room_for(module) {
            let (need, have) = (launch.local, self.device.info().local_memory);
            return self.device.refuse(format!("{} needs {need} bytes of local memory, of {have}", module.name()));
        }
        if !self.testing {
            self.device.test(module)?;
        }
        let most = self.device.max_threads(launch.kernel)?;
        if launch.threads == 0 || launch.threads > most {
            let entry = launch.kernel.entry;
            return self.device.refuse(format!(
                "{entry} of {} takes 1 to {most} threads a group here, not {}",
                module.name(),
                launch.threads
            ));
        }
        // SAFETY: the arguments are those of the kernel, and the caller has made sure that all it reaches lies in the
        // memories.
        self.device.ask(|driver, _| unsafe { driver.launch(self.id, launch) })
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        // After this, its work is over, successful or not, unless the device is dead.
        let _ = self.finish();
        let _ = self.device.ask(|driver, _| {
            // SAFETY: the stream is this driver's, nothing else uses it, and it is finished.
            unsafe { driver.free_stream(self.id) };
            Ok(())
        });
    }
}

impl fmt::Debug for Stream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Stream of {:?}", self.device)
    }
}
