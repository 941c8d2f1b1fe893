//! The interface to the drivers: CUDA, OpenCL, or one that a test provides.
//!
//! Only [`crate::Device`] calls a driver. The trait is public so that tests can run the kernels as plain C and make a
//! device fail.

use crate::error::{Error, Reason, Result};
use crate::kernel::{Kernel, Module};
use std::fmt;
use std::time::{Duration, Instant};

/// The interface through which a device is reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Api {
    /// NVIDIA's driver.
    Cuda,
    /// An OpenCL driver of any vendor.
    OpenCl,
    /// A driver that the caller provides.
    Other,
}

impl fmt::Display for Api {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Api::Cuda => "CUDA",
            Api::OpenCl => "OpenCL",
            Api::Other => "other",
        })
    }
}

/// The kind of a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Kind {
    /// A GPU.
    Gpu,
    /// The CPU, through OpenCL or a simulated driver.
    Cpu,
    /// Anything else.
    Other,
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Kind::Gpu => "GPU",
            Kind::Cpu => "CPU",
            Kind::Other => "other",
        })
    }
}

/// The properties of a device, which are known before it is opened.
#[derive(Clone, Debug)]
pub struct DeviceInfo {
    /// The interface through which it is reached.
    pub api: Api,
    /// Its number among the devices of that interface.
    pub index: usize,
    /// Its name.
    pub name: String,
    /// Its driver's name and version.
    pub driver: String,
    /// Its kind.
    pub kind: Kind,
    /// Its memory in bytes.
    pub memory: u64,
    /// The largest buffer in bytes.
    pub largest_buffer: u64,
    /// The number of its multiprocessors.
    pub compute_units: u32,
    /// The number of threads that a multiprocessor runs in step (CUDA: a warp). 0 if the driver does not report it.
    pub warp: u32,
    /// The highest clock of its multiprocessors in MHz. 0 if the driver does not report it.
    pub clock_mhz: u32,
    /// The most local (CUDA: shared) memory that a group (CUDA: block) can have, in bytes.
    pub local_memory: u32,
    /// The most threads that a group can have.
    pub max_threads: u32,
}

impl DeviceInfo {
    /// Whether NVIDIA's driver is simulated on the CPU, for tests. Such times say nothing about a GPU.
    #[must_use]
    pub fn is_simulated(&self) -> bool {
        self.api == Api::Cuda && self.kind == Kind::Cpu
    }

    /// An error that names this device.
    #[must_use]
    pub fn error(&self, reason: Reason) -> Error {
        Error { device: format!("{} ({})", self.name, self.api), reason }
    }
}

/// A driver's identifier for memory of the device.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct MemoryId(pub u64);
/// A driver's identifier for a stream. Work on a stream is done in order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct StreamId(pub u64);
/// A driver's identifier for a point in a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct MarkId(pub u64);
/// Pinned memory of the host, which the device can access directly.
#[derive(Clone, Copy, Debug)]
pub struct PinnedId {
    /// Its first byte.
    pub address: *mut u8,
    /// The driver's identifier for it.
    pub name: u64,
}

/// An argument of a kernel. Memory comes first, and numbers follow.
#[derive(Clone, Copy, Debug)]
pub enum Argument {
    /// Memory, from this byte on.
    Memory(MemoryId, usize),
    /// A number.
    Number(u32),
}

/// Pieces of equal length. From one to the next it is always as far in the host's memory, and always as far in the
/// device's. They do not overlap.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rows {
    /// The length of each.
    pub len: usize,
    /// How many there are.
    pub count: usize,
    /// From the beginning of one to that of the next, in the host's memory.
    pub pitch_here: usize,
    /// The same in the device's memory.
    pub pitch_there: usize,
}

impl Rows {
    /// From the beginning of the first to the end of the last, in the host's memory and in the device's.
    #[must_use]
    pub fn spans(&self) -> [usize; 2] {
        [self.pitch_here, self.pitch_there].map(|pitch| match self.count {
            0 => 0,
            count => (count - 1) * pitch + self.len,
        })
    }

    /// Copies each row by a call of its own. It gets the row's place in the host's memory and in the device's.
    pub(crate) fn each(&self, mut copy: impl FnMut(usize, usize) -> Result<()>) -> Result<()> {
        (0..self.count).try_for_each(|row| copy(row * self.pitch_here, row * self.pitch_there))
    }
}

/// A kernel and what it needs to start.
#[derive(Clone, Copy, Debug)]
pub struct Launch<'a> {
    /// The kernel.
    pub kernel: Kernel,
    /// The number of groups.
    pub groups: u32,
    /// The number of threads in each group.
    pub threads: u32,
    /// The local memory whose size the host sets, in bytes.
    pub local: u32,
    /// The arguments, without that local memory.
    pub arguments: &'a [Argument],
}

/// A device, accessed through its driver. Any call may come from any thread. Lengths and places are in bytes.
///
/// # Safety
/// Allocations have the requested length, calls do what their documentation says, and a launch runs the entry of that
/// name in [`Module::source`]. The safety of [`crate::Device`] depends on this.
pub unsafe trait Driver: Send + Sync {
    /// The properties of the device.
    fn info(&self) -> &DeviceInfo;

    /// Compiles or loads a module, unless it is loaded already.
    ///
    /// # Errors
    /// [`Reason::Build`] if it does not compile, [`Reason::Failed`] or [`Reason::Lost`] if the driver reports another
    /// error.
    fn load(&self, module: Module) -> Result<()>;

    /// The most threads that a group of this kernel can have.
    ///
    /// # Errors
    /// As for [`Driver::load`]. [`Reason::Failed`] if the module has no such kernel.
    fn max_threads(&self, kernel: Kernel) -> Result<u32>;

    /// Allocates device memory of `len` > 0 bytes.
    ///
    /// # Errors
    /// [`Reason::OutOfMemory`] if there is too little, [`Reason::Failed`] or [`Reason::Lost`] if the driver reports
    /// another error.
    fn allocate(&self, len: usize) -> Result<MemoryId>;

    /// Memory that another library in this process has at this address, if it is this device's. It is neither freed nor
    /// written to.
    ///
    /// # Errors
    /// [`Reason::Refused`] if it is not this device's memory, or if the driver has no addresses.
    fn foreign(&self, address: u64, len: usize) -> Result<MemoryId> {
        let _ = (address, len);
        Err(self.info().error(Reason::Refused("memory of other libraries is not taken here".into())))
    }

    /// Waits for all work so far of a stream of another library's, without a limit.
    ///
    /// # Errors
    /// [`Reason::Refused`] if the driver has no such streams, [`Reason::Failed`] or [`Reason::Lost`] if it reports an
    /// error.
    ///
    /// # Safety
    /// It is a stream of the driver's: a handle, or the number of a default stream.
    unsafe fn finish_foreign(&self, stream: u64) -> Result<()> {
        let _ = stream;
        Err(self.info().error(Reason::Refused("streams of other libraries are not taken here".into())))
    }

    /// Opens a stream for other libraries, which make it wait for their work. Nothing else is done on it, so no memory is
    /// kept for it, and [`Driver::finish_foreign`] waits for it.
    ///
    /// # Errors
    /// As for [`Driver::finish_foreign`].
    fn stream_for_others(&self) -> Result<StreamId> {
        Err(self.info().error(Reason::Refused("streams of other libraries are not taken here".into())))
    }

    /// The address of the memory for other libraries in this process, if they can use it at all.
    fn address(&self, memory: MemoryId) -> Option<u64> {
        let _ = memory;
        None
    }

    /// Waits for all work on the device that this process has started, also that of other libraries, without a limit.
    ///
    /// # Errors
    /// [`Reason::Failed`] if the driver cannot wait now, because another library captures work as a graph, whose capture the
    /// driver then ends, and [`Reason::Lost`] if it reports another error.
    fn finish_others(&self) -> Result<()> {
        Ok(())
    }

    /// Waits for all work that could use the memory, at most `limit` for each stream. Then overwrites it with zeros, if
    /// the device still can, and frees it.
    ///
    /// # Errors
    /// [`Reason::TimedOut`] if the work is not done within the limit, [`Reason::Failed`] or [`Reason::Lost`] if the
    /// driver reports an error. The memory is then not freed.
    ///
    /// # Safety
    /// The memory is this driver's and has that length, and no work is started on it any more.
    unsafe fn free(&self, memory: MemoryId, len: usize, limit: Duration) -> Result<()>;

    /// Allocates pinned memory of `len` > 0 bytes, zeroed, which the CPU reads at full speed (not write-combined).
    ///
    /// # Errors
    /// As for [`Driver::allocate`].
    fn allocate_pinned(&self, len: usize) -> Result<PinnedId>;

    /// Frees pinned memory. If this has to wait, it waits at most `limit`.
    ///
    /// # Errors
    /// As for [`Driver::free`].
    ///
    /// # Safety
    /// The memory is this driver's, and nothing uses it any more, including the device.
    unsafe fn free_pinned(&self, pinned: PinnedId, limit: Duration) -> Result<()>;

    /// Pinned memory as kernels access it, if they can. What they write there is in the host's memory when the stream
    /// is finished.
    ///
    /// # Errors
    /// [`Reason::Failed`] or [`Reason::Lost`] if the driver reports an error.
    ///
    /// # Safety
    /// The memory is this driver's. The result is not used after the memory is freed, and not passed to
    /// [`Driver::free`].
    unsafe fn mapped(&self, pinned: PinnedId) -> Result<Option<MemoryId>> {
        let _ = pinned;
        Ok(None)
    }

    /// Opens a stream.
    ///
    /// # Errors
    /// [`Reason::Failed`] or [`Reason::Lost`] if the driver reports an error.
    fn stream(&self) -> Result<StreamId>;

    /// Closes a stream that has no work left.
    ///
    /// # Safety
    /// The stream is this driver's, and nothing uses it any more.
    unsafe fn free_stream(&self, stream: StreamId);

    /// Starts writing zeros, in the stream's order.
    ///
    /// # Errors
    /// [`Reason::Failed`] or [`Reason::Lost`] if the driver reports an error.
    ///
    /// # Safety
    /// The range lies in the memory.
    unsafe fn zero(&self, stream: StreamId, memory: MemoryId, at: usize, len: usize) -> Result<()>;

    /// Copies to the device and waits until that is done, without a limit. The stream has no other work.
    ///
    /// # Errors
    /// [`Reason::Failed`] or [`Reason::Lost`] if the driver reports an error.
    ///
    /// # Safety
    /// The range lies in the memory.
    unsafe fn upload(&self, stream: StreamId, memory: MemoryId, at: usize, from: &[u8]) -> Result<()>;

    /// Copies from the device and waits until that is done, without a limit. The stream has no other work.
    ///
    /// # Errors
    /// [`Reason::Failed`] or [`Reason::Lost`] if the driver reports an error.
    ///
    /// # Safety
    /// The range lies in the memory.
    unsafe fn download(&self, stream: StreamId, memory: MemoryId, at: usize, to: &mut [u8]) -> Result<()>;

    /// Starts a copy from pinned memory, in the stream's order.
    ///
    /// # Errors
    /// [`Reason::Failed`] or [`Reason::Lost`] if the driver reports an error.
    ///
    /// # Safety
    /// The range lies in the memory. `from` has `len` bytes of this driver's pinned memory, which do not change until
    /// the stream is finished.
    unsafe fn start_upload(
        &self,
        stream: StreamId,
        memory: MemoryId,
        at: usize,
        from: *const u8,
        len: usize,
    ) -> Result<()>;

    /// Starts a copy to pinned memory, in the stream's order.
    ///
    /// # Errors
    /// [`Reason::Failed`] or [`Reason::Lost`] if the driver reports an error.
    ///
    /// # Safety
    /// The range lies in the memory. `to` has `len` bytes of this driver's pinned memory, which nothing uses until the
    /// stream is finished.
    unsafe fn start_download(
        &self,
        stream: StreamId,
        memory: MemoryId,
        at: usize,
        to: *mut u8,
        len: usize,
    ) -> Result<()>;

    /// Starts a copy of rows from pinned memory, in the stream's order. The first is copied from `from` to `at`.
    ///
    /// # Errors
    /// [`Reason::Failed`] or [`Reason::Lost`] if the driver reports an error. Some rows may be on their way then.
    ///
    /// # Safety
    /// As for [`Driver::start_upload`], for each row.
    unsafe fn start_upload_rows(
        &self,
        stream: StreamId,
        memory: MemoryId,
        at: usize,
        from: *const u8,
        rows: &Rows,
    ) -> Result<()> {
        // SAFETY: this is what the caller promises for each row.
        rows.each(|here, there| unsafe {
            self.start_upload(stream, memory, at + there, from.wrapping_add(here), rows.len)
        })
    }

    /// Starts a copy of rows to pinned memory, in the stream's order. The first is copied from `at` to `to`.
    ///
    /// # Errors
    /// As for [`Driver::start_upload_rows`].
    ///
    /// # Safety
    /// As for [`Driver::start_download`], for each row.
    unsafe fn start_download_rows(
        &self,
        stream: StreamId,
        memory: MemoryId,
        at: usize,
        to: *mut u8,
        rows: &Rows,
    ) -> Result<()> {
        // SAFETY: this is what the caller promises for each row.
        rows.each(|here, there| unsafe {
            self.start_download(stream, memory, at + there, to.wrapping_add(here), rows.len)
        })
    }

    /// Starts a copy of `len` bytes within the device, in the stream's order. Each place is a memory and the byte in
    /// it.
    ///
    /// # Errors
    /// [`Reason::Failed`] or [`Reason::Lost`] if the driver reports an error.
    ///
    /// # Safety
    /// The ranges lie in the memories and do not overlap.
    unsafe fn copy(&self, stream: StreamId, from: (MemoryId, usize), to: (MemoryId, usize), len: usize) -> Result<()>;

    /// Starts a kernel, in the stream's order.
    ///
    /// # Errors
    /// As for [`Driver::max_threads`].
    ///
    /// # Safety
    /// The arguments are those of the kernel's source, and all that it reaches through them lies in the memories.
    unsafe fn launch(&self, stream: StreamId, launch: &Launch<'_>) -> Result<()>;

    /// Waits for all work of the stream, at most `limit`.
    ///
    /// # Errors
    /// [`Reason::TimedOut`] if some of the work may still be running. After any other result none is.
    /// [`Reason::Failed`] or [`Reason::Lost`] if the driver reports an error, possibly of earlier work.
    fn finish(&self, stream: StreamId, limit: Duration) -> Result<()>;

    /// Marks the point that the stream reaches after all its work so far.
    ///
    /// # Errors
    /// [`Reason::Failed`] or [`Reason::Lost`] if the driver reports an error.
    fn mark(&self, stream: StreamId) -> Result<MarkId>;

    /// The device's time between two marks of one finished stream. This call consumes both.
    ///
    /// # Errors
    /// [`Reason::Failed`] or [`Reason::Lost`] if the driver reports an error.
    ///
    /// # Safety
    /// The marks are this driver's and were not consumed before.
    unsafe fn between(&self, from: MarkId, to: MarkId) -> Result<Duration>;
}

/// Polls until something is over: at first without pauses, because a pause would take longer than a short job, then
/// with pauses that free the CPU. `None` after `limit`.
pub(crate) fn poll<T>(limit: Duration, mut is_over: impl FnMut() -> Option<T>) -> Option<T> {
    const BUSY: Duration = Duration::from_micros(300);
    const PAUSE: Duration = Duration::from_micros(50);
    let start = Instant::now();
    loop {
        // The time is taken before the question: if this process was stopped in between, the device had that time too.
        let elapsed = start.elapsed();
        if let Some(result) = is_over() {
            return Some(result);
        }
        match elapsed {
            elapsed if elapsed >= limit => return None,
            elapsed if elapsed < BUSY => std::thread::yield_now(),
            _ => std::thread::sleep(PAUSE),
        }
    }
}
