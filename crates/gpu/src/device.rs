//! A safe interface to devices, their streams and their memory.

mod block;
mod foreign;
mod freeing;
mod stream;
mod target;

pub(crate) use block::Block;
pub use foreign::{Foreign, Gate};
pub use stream::Stream;
pub use target::Target;

use crate::driver::{Argument, DeviceInfo, Driver, Kind, MemoryId, PinnedId};
use crate::error::{Error, Reason, Result};
use crate::kernel::{Kernel, Module};
use freeing::Pending;
use std::fmt;
use std::mem::ManuallyDrop;
use std::ops::{Deref, DerefMut, Range};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;

/// The length of device memory is a multiple of this, in bytes: kernels read and write one block of AES at a time.
pub(crate) const ALIGN: usize = 16;

/// An open device. Clones are the same device.
///
/// If it does not answer within its time limit, or its driver reports that it is lost, it is *dead*: all later calls
/// fail immediately with the error that ended it.
#[derive(Clone)]
pub struct Device {
    pub(crate) shared: Arc<Shared>,
}

/// Compares what a module computes with known answers.
pub(crate) type SelfTest = fn(&mut Stream, Module) -> Result<()>;

pub(crate) struct Shared {
    driver: ManuallyDrop<Box<dyn Driver>>,
    self_test: SelfTest,
    /// The result of the self-test of each module.
    tested: [Mutex<Option<Result<()>>>; Module::ALL.len()],
    /// How long a wait may take, in milliseconds.
    limit: AtomicU64,
    /// See [`Device::prepared_in`].
    pub(crate) prepared_in: OnceLock<Duration>,
    pending: Pending,
    /// Why the device is not used any more. Memory that it may still be working on is never freed, so it is never used
    /// for anything else.
    dead: OnceLock<Error>,
}

impl Drop for Shared {
    fn drop(&mut self) {
        if self.dead.get().is_none() {
            // SAFETY: this is the only place that drops it. The driver of a dead device stays: ending it could wait
            // forever.
            unsafe { ManuallyDrop::drop(&mut self.driver) };
        }
    }
}

/// How long a wait may take unless [`Device::set_time_limit`] says otherwise: far longer than any work takes.
const TIME_LIMIT: Duration = Duration::from_secs(30);

/// The same for a device that is the CPU. It shares its cores with all that runs on the machine.
const TIME_LIMIT_OF_CPU: Duration = Duration::from_secs(300);

impl Device {
    /// A device whose modules must pass this self-test before they get data.
    pub(crate) fn untested(driver: Box<dyn Driver>, self_test: SelfTest) -> Self {
        let limit = if driver.info().kind == Kind::Cpu { TIME_LIMIT_OF_CPU } else { TIME_LIMIT };
        let shared = Shared {
            driver: ManuallyDrop::new(driver),
            self_test,
            tested: Default::default(),
            limit: AtomicU64::new(limit.as_millis() as u64),
            prepared_in: OnceLock::new(),
            pending: Pending::default(),
            dead: OnceLock::new(),
        };
        Self { shared: Arc::new(shared) }
    }

    /// The properties of the device.
    #[must_use]
    pub fn info(&self) -> &DeviceInfo {
        self.shared.driver.info()
    }

    /// Sets how long each wait for the device may take. Without this call it is 30 seconds, and 300 for a device that is
    /// the CPU. A device that takes longer is dead, and the memory that its last work can still reach is neither freed
    /// nor used again.
    pub fn set_time_limit(&self, limit: Duration) {
        self.shared.limit.store(u64::try_from(limit.as_millis()).unwrap_or(u64::MAX), Ordering::Relaxed);
    }

    /// Whether the device did not answer in time, or its driver reported that it is lost.
    #[must_use]
    pub fn is_dead(&self) -> bool {
        self.shared.dead.get().is_some()
    }

    /// Loads a module and runs its self-test. Only the first call does so; later ones give the same result, unless there
    /// was too little memory. Each launch calls this itself.
    ///
    /// # Errors
    /// [`Reason::Build`] if the module does not build, [`Reason::SelfTest`] if an answer is wrong, [`Reason::Refused`]
    /// if the device has too little local memory, [`Reason::OutOfMemory`], or a failure of the driver.
    pub fn test(&self, module: Module) -> Result<()> {
        let mut tested = self.shared.tested[module as usize].lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(result) = &*tested {
            return result.clone();
        }
        let result = Stream::new(self, true).and_then(|mut stream| (self.shared.self_test)(&mut stream, module));
        if !matches!(&result, Err(Error { reason: Reason::OutOfMemory(_), .. })) {
            *tested = Some(result.clone());
        }
        result
    }

    /// The largest number of threads that a group of this kernel can have on this device.
    ///
    /// # Errors
    /// [`Reason::Build`] if the module does not build, or a failure of the driver, also if the module has no such
    /// kernel.
    pub fn max_threads(&self, kernel: Kernel) -> Result<u32> {
        self.ask(|driver, _| driver.load(kernel.module).and_then(|()| driver.max_threads(kernel)))
    }

    /// Whether the device has enough local memory for a module's tables.
    #[must_use]
    pub fn has_room_for(&self, module: Module) -> bool {
        // For the round keys and tiles, which the kernels keep in addition to the tables.
        const BESIDE: u32 = 2048;
        module.table_bytes() == 0 || module.table_bytes() + BESIDE <= self.info().local_memory
    }

    /// Opens a stream.
    ///
    /// # Errors
    /// A failure of the driver.
    pub fn stream(&self) -> Result<Stream> {
        Stream::new(self, false)
    }

    /// Allocates pinned host memory of `len` bytes, zeroed. Copies to and from it are the fastest.
    ///
    /// # Errors
    /// [`Reason::OutOfMemory`], or a failure of the driver.
    pub fn pinned(&self, len: usize) -> Result<Pinned> {
        let id = self.allocate(|driver| driver.allocate_pinned(len.max(1)))?;
        Ok(Pinned { device: self.clone(), id, len })
    }

    /// Pinned memory that kernels can write to, so that the digests of a job come back without a copy. `None` if this
    /// device does not support it.
    ///
    /// # Errors
    /// As for [`Device::pinned`].
    pub(crate) fn mapped(&self, len: usize) -> Result<Option<Buffer>> {
        let host = self.pinned(len.max(1).next_multiple_of(ALIGN))?;
        // SAFETY: the memory is this driver's, and is freed when the buffer is.
        let id = self.ask(|driver, _| unsafe { driver.mapped(host.id) })?;
        let len = host.len;
        let buffer = |id| Buffer {
            memory: Arc::new(Allocation {
                device: self.clone(),
                id,
                len,
                host: Some(host),
                is_foreign: false,
                is_shared: AtomicBool::new(false),
                is_freed_elsewhere: AtomicBool::new(false),
            }),
            at: 0,
            len,
        };
        Ok(id.map(buffer))
    }

    /// How long it took to load and test the kernels that the engine uses. On its first use on a machine, the driver
    /// compiles them, which takes seconds. Then it keeps the compiled code.
    #[must_use]
    pub fn prepared_in(&self) -> Duration {
        self.shared.prepared_in.get().copied().unwrap_or_default()
    }

    /// Calls the driver, unless the device is dead. The call also gets the time limit.
    pub(crate) fn ask<T>(&self, call: impl FnOnce(&dyn Driver, Duration) -> Result<T>) -> Result<T> {
        if let Some(error) = self.shared.dead.get() {
            return Err(error.clone());
        }
        call(&**self.shared.driver, self.limit()).inspect_err(|error| {
            if error.reason.is_final() {
                let _ = self.shared.dead.set(error.clone());
            }
        })
    }

    fn limit(&self) -> Duration {
        Duration::from_millis(self.shared.limit.load(Ordering::Relaxed))
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

/// Memory of a device. It is zeroed when it is allocated and before it is freed. Its length is a multiple of 16 bytes.
pub struct Buffer {
    memory: Arc<Allocation>,
    /// Where it begins in the allocation. A part of an allocation is only made for kernels' arguments and for copies.
    at: usize,
    len: usize,
}

/// Memory that is allocated and freed as one.
struct Allocation {
    device: Device,
    id: MemoryId,
    len: usize,
    /// The host's memory, if this is pinned memory that kernels reach.
    host: Option<Pinned>,
    /// Whether it is another library's, which frees it.
    is_foreign: bool,
    /// Whether other libraries know its address.
    is_shared: AtomicBool,
    /// See [`Buffer::free_elsewhere`].
    is_freed_elsewhere: AtomicBool,
}

impl Buffer {
    pub(crate) fn new(device: &Device, id: MemoryId, len: usize) -> Self {
        Self::of(device, id, len, false)
    }

    fn of(device: &Device, id: MemoryId, len: usize, is_foreign: bool) -> Self {
        let [is_shared, is_freed_elsewhere] = Default::default();
        let memory =
            Allocation { device: device.clone(), id, len, host: None, is_foreign, is_shared, is_freed_elsewhere };
        Self { memory: Arc::new(memory), at: 0, len }
    }

    /// Its length in bytes: the requested length, rounded up to a multiple of 16.
    #[must_use]
    pub fn len(&self) -> usize {
        self.len
    }

    /// `false`: a buffer has at least 16 bytes.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        false
    }

    /// The memory for kernels of other libraries in this process; `None` if the driver has no addresses (OpenCL), or if
    /// the memory is the host's. All work of a [`Stream`] on it should be finished before they use it.
    #[must_use]
    pub fn share(&self) -> Option<SharedMemory> {
        if self.memory.host.is_some() {
            return None;
        }
        let address = self.memory.device.shared.driver.address(self.memory.id)? + self.at as u64;
        self.memory.is_shared.store(true, Ordering::Relaxed);
        Some(SharedMemory { _memory: self.memory.clone(), address })
    }

    /// Makes another thread free it when it is dropped, as if others knew its address. So no drop waits for the device.
    pub fn free_elsewhere(&self) {
        self.memory.is_freed_elsewhere.store(true, Ordering::Relaxed);
    }

    /// If other libraries know the address, waits for all work on the device that this process has started, without a
    /// limit. So what they write is complete.
    ///
    /// # Errors
    /// [`Reason::Failed`] while another library captures work as a graph, or another failure of the driver.
    pub fn finish_others(&self) -> Result<()> {
        let is_shared = self.memory.is_shared.load(Ordering::Relaxed);
        if is_shared { self.device().ask(|driver, _| driver.finish_others()) } else { Ok(()) }
    }

    /// The device that it is on.
    #[must_use]
    pub fn device(&self) -> &Device {
        &self.memory.device
    }

    /// The same bytes as another value, for threads that write to different places.
    pub(crate) fn alias(&self) -> Self {
        Self { memory: self.memory.clone(), at: self.at, len: self.len }
    }

    /// A range of the bytes, as a separate buffer. Both ends are multiples of 16, and there is at least one block.
    pub(crate) fn part(&self, range: Range<usize>) -> Self {
        assert!(range.start < range.end && range.end <= self.len && range.start.is_multiple_of(ALIGN));
        Self { memory: self.memory.clone(), at: self.at + range.start, len: range.len() }
    }

    /// The host's view of pinned memory that kernels reach. All work that writes there is finished.
    pub(crate) fn host(&self) -> Option<&[u8]> {
        self.memory.host.as_ref().map(|host| &host[self.at..self.at + self.len])
    }

    pub(crate) fn argument(&self) -> Argument {
        Argument::Memory(self.memory.id, self.at)
    }
}

/// Memory of a device whose address other libraries in this process know. It is wiped and freed when this and its
/// [`Buffer`] have been dropped.
///
/// Before that, all work on the device is waited for that this process has started, without a limit: nobody tells when
/// the kernels of others are over. So another thread does it, and dropping this waits for nothing. An allocation for
/// which there is too little memory waits for that thread.
pub struct SharedMemory {
    _memory: Arc<Allocation>,
    address: u64,
}

impl SharedMemory {
    /// The address of the first byte, as kernels have it.
    #[must_use]
    pub fn address(&self) -> u64 {
        self.address
    }
}

impl fmt::Debug for SharedMemory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SharedMemory({:#x})", self.address)
    }
}

impl Drop for Allocation {
    fn drop(&mut self) {
        // Pinned memory frees itself, and memory of others is theirs.
        if self.host.is_some() || self.is_foreign {
            return;
        }
        let (id, len) = (self.id, self.len);
        if *self.is_shared.get_mut() || *self.is_freed_elsewhere.get_mut() {
            // SAFETY: the memory is this driver's and has that length. No work can be started on it any more.
            unsafe { self.device.free_of_others(id, len) };
        } else {
            // SAFETY: as above.
            let _ = self.device.ask(|driver, limit| unsafe { driver.free(id, len, limit) });
        }
    }
}

impl fmt::Debug for Buffer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Buffer({} bytes)", self.len)
    }
}

/// Pinned memory of the host, wiped on drop. If the device is dead, it is neither wiped nor freed, because the device
/// may still reach it.
pub struct Pinned {
    device: Device,
    id: PinnedId,
    len: usize,
}

// SAFETY: the memory belongs to this value alone, and drivers take calls from any thread.
unsafe impl Send for Pinned {}
// SAFETY: a shared reference only reads.
unsafe impl Sync for Pinned {}

impl Deref for Pinned {
    type Target = [u8];
    fn deref(&self) -> &[u8] {
        // SAFETY: the driver gave that many initialized bytes. Copies to them are over when their calls return. A
        // caller that starts a copy without waiting must make sure that nothing reads the bytes before it is over.
        unsafe { std::slice::from_raw_parts(self.id.address, self.len) }
    }
}

impl DerefMut for Pinned {
    fn deref_mut(&mut self) -> &mut [u8] {
        // SAFETY: the driver gave that many initialized bytes, no copy to them is in progress (see above), and this
        // borrow is exclusive.
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
            // SAFETY: the memory is this driver's, and nothing else uses it.
            unsafe { driver.free_pinned(self.id, limit) }
        });
    }
}

impl fmt::Debug for Pinned {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Pinned({} bytes)", self.len)
    }
}
