//! Devices, their streams and their memory, behind a safe interface.

use crate::driver::{Argument, DeviceInfo, Driver, Launch, MemoryId, PinnedId, StreamId};
use crate::error::{Error, Reason, Result};
use crate::kernel::{Kernel, Module};
#[cfg(feature = "papers")]
use crate::schedule;
use std::fmt;
use std::mem::ManuallyDrop;
use std::ops::{Deref, DerefMut, Range};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;
use zeroize::Zeroizing;

/// Memory lengths are whole blocks of AES: kernels read and write 16 bytes at a time.
pub(crate) const ALIGN: usize = 16;

/// An open device. Clones are the same device.
#[derive(Clone)]
pub struct Device {
    pub(crate) shared: Arc<Shared>,
}

/// Puts a module to known answers.
pub(crate) type SelfTest = fn(&mut Stream, Module) -> Result<()>;

pub(crate) struct Shared {
    driver: ManuallyDrop<Box<dyn Driver>>,
    self_test: SelfTest,
    /// What the self-test of each module found.
    tested: [OnceLock<Result<()>>; Module::ALL.len()],
    /// How long work may take, in milliseconds.
    limit: AtomicU64,
    /// Why the device is not asked any more. What it may still be working on is never freed, and so never used again.
    dead: OnceLock<Error>,
}

impl Drop for Shared {
    fn drop(&mut self) {
        if self.dead.get().is_none() {
            // SAFETY: this is the only place that drops it. A dead device's driver stays: ending it could wait forever.
            unsafe { ManuallyDrop::drop(&mut self.driver) };
        }
    }
}

/// How long work may take unless [`Device::set_time_limit`] says otherwise: far longer than any work that is given.
const TIME_LIMIT: Duration = Duration::from_secs(30);

impl Device {
    /// A device whose modules are put to this self-test before their first data.
    pub(crate) fn untested(driver: Box<dyn Driver>, self_test: SelfTest) -> Self {
        let shared = Shared {
            driver: ManuallyDrop::new(driver),
            self_test,
            tested: Default::default(),
            limit: AtomicU64::new(TIME_LIMIT.as_millis() as u64),
            dead: OnceLock::new(),
        };
        Self { shared: Arc::new(shared) }
    }

    /// What the device is.
    pub fn info(&self) -> &DeviceInfo {
        self.shared.driver.info()
    }

    /// How long each wait for the device may take, 30 seconds unless set here. A device that takes longer is given up:
    /// all later calls fail at once, and what its last work could still reach is neither freed nor used again.
    pub fn set_time_limit(&self, limit: Duration) {
        self.shared.limit.store(u64::try_from(limit.as_millis()).unwrap_or(u64::MAX), Ordering::Relaxed);
    }

    /// Whether it did not answer in time, or its driver said that it is lost.
    pub fn is_dead(&self) -> bool {
        self.shared.dead.get().is_some()
    }

    /// Loads a module and puts it to its self-test, once. Launches do so by themselves before their first data.
    pub fn test(&self, module: Module) -> Result<()> {
        let place = Module::ALL.iter().position(|m| *m == module).expect("ALL has all modules");
        self.shared.tested[place].get_or_init(|| (self.shared.self_test)(&mut Stream::new(self, true)?, module)).clone()
    }

    /// The most threads that a group of this kernel can have here.
    pub fn max_threads(&self, kernel: Kernel) -> Result<u32> {
        self.ask(|driver, _| driver.load(kernel.module).and_then(|()| driver.max_threads(kernel)))
    }

    /// Whether the device has the local memory that a module's tables take.
    pub fn has_room_for(&self, module: Module) -> bool {
        // The round keys and tiles that the kernels keep beside the tables.
        const BESIDE: u32 = 2048;
        module.table_bytes() == 0 || module.table_bytes() + BESIDE <= self.info().local_memory
    }

    /// A new stream.
    pub fn stream(&self) -> Result<Stream> {
        Stream::new(self, false)
    }

    /// Pinned host memory of `len` bytes, zeroed: copies to and from it are fastest.
    pub fn pinned(&self, len: usize) -> Result<Pinned> {
        let id = self.ask(|driver, _| driver.allocate_pinned(len.max(1)))?;
        Ok(Pinned { device: self.clone(), id, len })
    }

    /// Calls the driver, which also learns how long it may wait; not if the device is dead.
    pub(crate) fn ask<T>(&self, call: impl FnOnce(&dyn Driver, Duration) -> Result<T>) -> Result<T> {
        if let Some(error) = self.shared.dead.get() {
            return Err(error.clone());
        }
        let limit = Duration::from_millis(self.shared.limit.load(Ordering::Relaxed));
        call(&**self.shared.driver, limit).inspect_err(|error| {
            if error.reason.is_final() {
                let _ = self.shared.dead.set(error.clone());
            }
        })
    }

    pub(crate) fn refuse<T>(&self, why: impl Into<String>) -> Result<T> {
        Err(self.error(Reason::Refused(why.into())))
    }

    pub(crate) fn error(&self, reason: Reason) -> Error {
        self.info().error(reason)
    }
}

impl fmt::Debug for Device {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Device({}, {})", self.info().name, self.info().api)
    }
}

/// Memory of a device, zeroed when it is made and before it is freed. Its length is a multiple of 16 bytes.
pub struct Buffer {
    device: Device,
    id: MemoryId,
    len: usize,
}

impl Buffer {
    /// Its length in bytes, rounded up to whole blocks.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Never: there is at least a block.
    pub fn is_empty(&self) -> bool {
        false
    }

    pub(crate) fn argument(&self) -> Argument {
        Argument::Memory(self.id)
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        // SAFETY: the memory is this driver's and has that length; nobody can give work on it any more.
        let _ = self.device.ask(|driver, limit| unsafe { driver.free(self.id, self.len, limit) });
    }
}

impl fmt::Debug for Buffer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Buffer({} bytes)", self.len)
    }
}

/// Pinned memory of the host, wiped on drop. That of a dead device stays as it is: the device may still reach it.
pub struct Pinned {
    device: Device,
    id: PinnedId,
    len: usize,
}

// SAFETY: the memory belongs to this value alone, and drivers take calls from any thread.
unsafe impl Send for Pinned {}

impl Deref for Pinned {
    type Target = [u8];
    fn deref(&self) -> &[u8] {
        // SAFETY: the driver gave that many initialized bytes. Copies to them are over when their calls return; who starts
        // one without waiting promises that nobody looks before it is over.
        unsafe { std::slice::from_raw_parts(self.id.address, self.len) }
    }
}

impl DerefMut for Pinned {
    fn deref_mut(&mut self) -> &mut [u8] {
        // SAFETY: as above, and nobody else has them.
        unsafe { std::slice::from_raw_parts_mut(self.id.address, self.len) }
    }
}

impl Drop for Pinned {
    fn drop(&mut self) {
        if self.device.is_dead() {
            return;
        }
        self.fill(0);
        zeroize::optimization_barrier(&**self);
        let _ = self.device.ask(|driver, limit| {
            // SAFETY: the memory is this driver's, and nobody else has it.
            unsafe { driver.free_pinned(self.id, limit) }
        });
    }
}

impl fmt::Debug for Pinned {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Pinned({} bytes)", self.len)
    }
}

/// A queue of a device: what it is given is done in order, beside other streams.
///
/// Copies to and from the host are over when their call returns. Kernels are started only: the next copy on the same
/// stream, or [`Stream::finish`], waits for them and tells of their failures.
pub struct Stream {
    device: Device,
    id: StreamId,
    /// Whether this is the self-test's, which runs kernels that have not passed it yet.
    testing: bool,
    /// T0 and its inverse, once a kernel needed them.
    #[cfg(feature = "papers")]
    tables: Option<[Buffer; 2]>,
}

impl Stream {
    fn new(device: &Device, testing: bool) -> Result<Self> {
        let id = device.ask(|driver, _| driver.stream())?;
        Ok(Self {
            device: device.clone(),
            id,
            testing,
            #[cfg(feature = "papers")]
            tables: None,
        })
    }

    /// Whose stream this is.
    pub fn device(&self) -> &Device {
        &self.device
    }

    /// Zeroed device memory of at least `len` bytes.
    pub fn buffer(&mut self, len: usize) -> Result<Buffer> {
        let len = len.max(1).next_multiple_of(ALIGN);
        let largest = self.device.info().largest_buffer;
        if len as u64 > largest {
            return self.device.refuse(format!("a buffer of {len} bytes: the largest here has {largest}"));
        }
        let id = self.device.ask(|driver, _| driver.allocate(len))?;
        let buffer = Buffer { device: self.device.clone(), id, len };
        self.zero(&buffer, len)?;
        self.finish()?; // for other streams may use it next
        Ok(buffer)
    }

    /// Device memory that holds the bytes.
    pub fn buffer_of(&mut self, bytes: &[u8]) -> Result<Buffer> {
        let mut buffer = self.buffer(bytes.len())?;
        self.upload(&mut buffer, 0, bytes)?;
        Ok(buffer)
    }

    /// Device memory that holds the words, little-endian: that of `old`, if it has room for them. The words may be secret:
    /// the copy made of them is wiped.
    pub(crate) fn buffer_of_words(&mut self, words: &[u32], old: Option<Buffer>) -> Result<Buffer> {
        let mut bytes = Zeroizing::new(Vec::with_capacity(size_of_val(words)));
        bytes.extend(words.iter().flat_map(|word| word.to_le_bytes()));
        self.buffer_again(&bytes, old)
    }

    /// Device memory that holds the bytes: that of `old`, if it has room for them.
    pub(crate) fn buffer_again(&mut self, bytes: &[u8], old: Option<Buffer>) -> Result<Buffer> {
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

    /// Copies bytes to a place in device memory.
    pub fn upload(&mut self, to: &mut Buffer, at: usize, from: &[u8]) -> Result<()> {
        self.check(to, at..at.saturating_add(from.len()))?;
        if from.is_empty() {
            return Ok(());
        }
        // A copy to or from memory that is not pinned has no limit, so all that may hang must be over.
        self.finish()?;
        // SAFETY: the range was checked.
        self.device.ask(|driver, _| unsafe { driver.upload(self.id, to.id, at, from) })
    }

    /// Copies bytes from a place in device memory, after all work that the stream was given.
    pub fn download(&mut self, from: &Buffer, at: usize, to: &mut [u8]) -> Result<()> {
        self.check(from, at..at.saturating_add(to.len()))?;
        self.finish()?;
        if to.is_empty() {
            return Ok(());
        }
        // SAFETY: the range was checked.
        self.device.ask(|driver, _| unsafe { driver.download(self.id, from.id, at, to) })
    }

    /// Starts a copy of pinned bytes to a place in device memory.
    ///
    /// # Safety
    /// The bytes stay as they are until the stream is finished, or for good if it never is.
    pub(crate) unsafe fn start_upload(
        &mut self,
        to: &mut Buffer,
        at: usize,
        from: &Pinned,
        part: Range<usize>,
    ) -> Result<()> {
        self.check(to, at..at.saturating_add(part.len()))?;
        let from = &from[part];
        // SAFETY: the ranges were checked; the caller's promise.
        self.device.ask(|driver, _| unsafe { driver.start_upload(self.id, to.id, at, from.as_ptr(), from.len()) })
    }

    /// Starts a copy from a place in device memory to pinned bytes.
    ///
    /// # Safety
    /// Nobody uses the bytes until the stream is finished; if it never is, nobody ever does.
    pub(crate) unsafe fn start_download(
        &mut self,
        from: &Buffer,
        at: usize,
        to: &mut Pinned,
        part: Range<usize>,
    ) -> Result<()> {
        self.check(from, at..at.saturating_add(part.len()))?;
        let to = &mut to[part];
        // SAFETY: the ranges were checked; the caller's promise.
        self.device.ask(|driver, _| unsafe { driver.start_download(self.id, from.id, at, to.as_mut_ptr(), to.len()) })
    }

    /// Overwrites the beginning of a buffer with zeros, as soon as all that was given before is done.
    pub(crate) fn zero(&mut self, buffer: &Buffer, len: usize) -> Result<()> {
        let len = len.next_multiple_of(ALIGN);
        self.check(buffer, 0..len)?;
        if len == 0 {
            return Ok(());
        }
        // SAFETY: the range was checked.
        self.device.ask(|driver, _| unsafe { driver.zero(self.id, buffer.id, 0, len) })
    }

    /// Copies the first `len` bytes of one buffer to the beginning of another.
    pub fn copy(&mut self, from: &Buffer, to: &mut Buffer, len: usize) -> Result<()> {
        self.check(from, 0..len)?;
        self.check(to, 0..len)?;
        if len == 0 {
            return Ok(());
        }
        // SAFETY: the ranges were checked; `to` is borrowed alone, so they are two memories.
        self.device.ask(|driver, _| unsafe { driver.copy(self.id, from.id, to.id, len) })
    }

    /// Waits for all work that the stream was given.
    pub fn finish(&mut self) -> Result<()> {
        self.device.ask(|driver, limit| driver.finish(self.id, limit))
    }

    /// What `work` gives the stream, and how long the device took for it by its own clock.
    pub fn timed<T>(&mut self, work: impl FnOnce(&mut Self) -> Result<T>) -> Result<(T, Duration)> {
        let from = self.device.ask(|driver, _| driver.mark(self.id))?;
        let done = work(self)?;
        let to = self.device.ask(|driver, _| driver.mark(self.id))?;
        self.finish()?;
        // SAFETY: the driver made both marks just now, on this stream, which is finished.
        let time = self.device.ask(|driver, _| unsafe { driver.between(from, to) })?;
        Ok((done, time))
    }

    /// Refuses buffers of other devices and ranges that reach beyond them.
    pub(crate) fn check(&self, buffer: &Buffer, range: Range<usize>) -> Result<()> {
        if !Arc::ptr_eq(&buffer.device.shared, &self.device.shared) {
            return self.device.refuse("the buffer belongs to another device");
        }
        if range.start > range.end || range.end > buffer.len {
            return self.device.refuse(format!("bytes {range:?} of a buffer of {} bytes", buffer.len));
        }
        Ok(())
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
    /// The arguments are what the kernel's source asks for, and all that it reaches through them lies in the buffers.
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
        // SAFETY: the caller's promise.
        self.device.ask(|driver, _| unsafe { driver.launch(self.id, launch) })
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        // Whatever else became of its work, it is over, unless the device is dead.
        let _ = self.finish();
        let _ = self.device.ask(|driver, _| {
            // SAFETY: the stream is this driver's, nobody else has it, and it is finished.
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
