//! What a device is asked for, whichever interface leads to it: CUDA, OpenCL, or a test's own.
//!
//! Nobody but [`crate::Device`] calls a driver; the trait is open so that tests can run the kernels as plain C, and can
//! let a device fail.

use crate::error::{Error, Reason, Result};
use crate::kernel::{Kernel, Module};
use std::fmt;
use std::time::{Duration, Instant};

/// The interface that leads to a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Api {
    /// NVIDIA's driver.
    Cuda,
    /// An OpenCL driver of any vendor.
    OpenCl,
    /// A driver that the caller brought.
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

/// What a device is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Kind {
    /// A GPU.
    Gpu,
    /// The CPU, through OpenCL.
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

/// What is known of a device before it is opened.
#[derive(Clone, Debug)]
pub struct DeviceInfo {
    /// The interface that leads to it.
    pub api: Api,
    /// Its number among the devices of that interface.
    pub index: usize,
    /// Its name.
    pub name: String,
    /// Its driver's name and version.
    pub driver: String,
    /// What it is.
    pub kind: Kind,
    /// Its memory in bytes.
    pub memory: u64,
    /// The largest buffer in bytes.
    pub largest_buffer: u64,
    /// Its multiprocessors.
    pub compute_units: u32,
    /// The threads that a multiprocessor runs in step (CUDA: a warp); 0 where the driver does not tell.
    pub warp: u32,
    /// The clock of its multiprocessors in MHz, at most; 0 where the driver does not tell.
    pub clock_mhz: u32,
    /// The local (CUDA: shared) memory of a group (CUDA: block) at most, in bytes.
    pub local_memory: u32,
    /// The threads of a group at most.
    pub max_threads: u32,
}

impl DeviceInfo {
    /// An error of this device.
    pub fn error(&self, reason: Reason) -> Error {
        Error { device: format!("{} ({})", self.name, self.api), reason }
    }
}

/// A driver's name for memory of the device.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct MemoryId(pub u64);
/// A driver's name for a stream: work on it is done in order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct StreamId(pub u64);
/// A driver's name for a point in a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct MarkId(pub u64);
/// Memory of the host that the device reaches by itself: an address, and the driver's name for it.
#[derive(Clone, Copy, Debug)]
pub struct PinnedId {
    /// Where it begins.
    pub address: *mut u8,
    /// The driver's name.
    pub name: u64,
}

/// An argument of a kernel. Memory comes first, numbers follow.
#[derive(Clone, Copy, Debug)]
pub enum Argument {
    /// The beginning of memory.
    Memory(MemoryId),
    /// A number.
    Number(u32),
}

/// A kernel with all that it needs to start.
#[derive(Clone, Copy, Debug)]
pub struct Launch<'a> {
    /// Which kernel.
    pub kernel: Kernel,
    /// How many groups.
    pub groups: u32,
    /// How many threads in each.
    pub threads: u32,
    /// The local memory that the host sizes, in bytes.
    pub local: u32,
    /// The arguments, but for that local memory.
    pub arguments: &'a [Argument],
}

/// A way to a device. Every call may come from any thread.
///
/// # Safety
/// Memory must be as long as it was asked for, calls must do what is said here, and a launch must run the entry of that
/// name of [`Module::source`]: [`crate::Device`] is safe because of it.
pub unsafe trait Driver: Send + Sync {
    /// What the device is.
    fn info(&self) -> &DeviceInfo;

    /// Compiles or loads a module, where that has not been done yet.
    fn load(&self, module: Module) -> Result<()>;

    /// The most threads that a group of this kernel can have.
    fn max_threads(&self, kernel: Kernel) -> Result<u32>;

    /// Device memory of `len` > 0 bytes.
    fn allocate(&self, len: usize) -> Result<MemoryId>;

    /// Waits for all work that could use the memory, no longer than `limit` for each stream; then overwrites it with zeros
    /// where the device still can, and frees it. On an error the memory stays.
    ///
    /// # Safety
    /// It is this driver's, has that length, and nobody gives work on it any more.
    unsafe fn free(&self, memory: MemoryId, len: usize, limit: Duration) -> Result<()>;

    /// Pinned memory of `len` > 0 bytes, zeroed, which the CPU reads at full speed (not write-combined).
    fn allocate_pinned(&self, len: usize) -> Result<PinnedId>;

    /// Frees pinned memory. If that takes waiting, then `limit` at most, and where it is not enough the memory is left.
    ///
    /// # Safety
    /// It is this driver's, and nobody uses it any more, the device included.
    unsafe fn free_pinned(&self, pinned: PinnedId, limit: Duration) -> Result<()>;

    /// A new stream.
    fn stream(&self) -> Result<StreamId>;

    /// Ends a stream that has no work left.
    ///
    /// # Safety
    /// It is this driver's, and nobody uses it any more.
    unsafe fn free_stream(&self, stream: StreamId);

    /// Writes zeros, in the stream's order.
    ///
    /// # Safety
    /// The range lies in the memory.
    unsafe fn zero(&self, stream: StreamId, memory: MemoryId, at: usize, len: usize) -> Result<()>;

    /// Copies to the device, and waits until that is done, without a limit: the stream has no other work.
    ///
    /// # Safety
    /// The range lies in the memory.
    unsafe fn upload(&self, stream: StreamId, memory: MemoryId, at: usize, from: &[u8]) -> Result<()>;

    /// Copies from the device, and waits until that is done, without a limit: the stream has no other work.
    ///
    /// # Safety
    /// The range lies in the memory.
    unsafe fn download(&self, stream: StreamId, memory: MemoryId, at: usize, to: &mut [u8]) -> Result<()>;

    /// Starts a copy from pinned memory, in the stream's order.
    ///
    /// # Safety
    /// The range lies in the memory; `from` has `len` bytes of this driver's pinned memory, which stay as they are until
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
    /// # Safety
    /// The range lies in the memory; `to` has `len` bytes of this driver's pinned memory, which nobody uses until the
    /// stream is finished.
    unsafe fn start_download(
        &self,
        stream: StreamId,
        memory: MemoryId,
        at: usize,
        to: *mut u8,
        len: usize,
    ) -> Result<()>;

    /// Copies within the device, in the stream's order.
    ///
    /// # Safety
    /// The ranges lie in the memories and do not overlap.
    unsafe fn copy(&self, stream: StreamId, from: MemoryId, to: MemoryId, len: usize) -> Result<()>;

    /// Starts a kernel, in the stream's order.
    ///
    /// # Safety
    /// The arguments are what the kernel's source asks for, and all that it reaches through them lies in the memories.
    unsafe fn launch(&self, stream: StreamId, launch: &Launch<'_>) -> Result<()>;

    /// Waits for all work of the stream, `limit` at most: [`Reason::TimedOut`] says that some of it may still go on, any
    /// other result that none does.
    fn finish(&self, stream: StreamId, limit: Duration) -> Result<()>;

    /// Marks the point that the stream will have reached after all that it was given so far.
    fn mark(&self, stream: StreamId) -> Result<MarkId>;

    /// The device's time between two marks of one finished stream. Both are used up.
    ///
    /// # Safety
    /// They are this driver's, and not used up.
    unsafe fn between(&self, from: MarkId, to: MarkId) -> Result<Duration>;
}

/// Asks again and again whether something is over: at once for what is short, and then seldom enough to leave the CPU to
/// others. `None` after `limit`.
pub(crate) fn poll<T>(limit: Duration, mut is_over: impl FnMut() -> Option<T>) -> Option<T> {
    const BUSY: Duration = Duration::from_micros(30);
    const PAUSE: Duration = Duration::from_micros(50);
    let start = Instant::now();
    loop {
        // Before the question: while this process was stopped the device has had time, too.
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
