//! A device that fails on demand.

use super::plain_c::PlainC;
use phalanx_gpu::driver::{Driver, Launch, MarkId, MemoryId, PinnedId, StreamId};
use phalanx_gpu::{Device, DeviceInfo, Error, Kernel, Module, Reason, Result};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// How the chosen call fails.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum How {
    /// Only this call fails.
    Once,
    /// Only this call fails, because there is too little memory.
    OutOfMemory,
    /// The device has vanished permanently.
    Lost,
    /// The call succeeds, but work that the device gets afterwards does not end.
    Hangs,
}

pub const NEVER: usize = usize::MAX / 2;

/// Which call fails, and what the device has recorded.
pub struct Script {
    /// How many calls come before the one that fails.
    pub fails: AtomicUsize,
    /// How many downloads come before the one with a flipped bit.
    pub lies: AtomicUsize,
    /// How many bytes of the device's memory are left, and how many allocations there are, pinned memory included.
    pub room: AtomicUsize,
    pub allocations: AtomicUsize,
    how: How,
    hangs: AtomicBool,
    /// Whether the call that failed was a wait. A failure of a stream's last wait, after its results have arrived, is
    /// not reported.
    was_wait: AtomicBool,
    /// Whether the device is dead. Each later call counts as a mistake.
    given_up: AtomicBool,
    mistakes: AtomicUsize,
    /// The addresses and lengths of copies that are in progress when the device hangs.
    under_way: Mutex<Vec<(usize, usize)>>,
    events: Mutex<Vec<Event>>,
    /// Where copies within the device went, and their lengths.
    copies: Mutex<Vec<(usize, usize)>>,
}

/// What the device was asked to do, in order.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Event {
    /// A kernel.
    Launch(&'static str),
    /// A wait for all work so far.
    Finish,
    /// A copy to the device that was started: the address here and there, and the length.
    Upload(usize, usize, usize),
}

impl Script {
    pub fn new(how: How) -> Arc<Self> {
        Arc::new(Self {
            fails: AtomicUsize::new(NEVER),
            lies: AtomicUsize::new(NEVER),
            room: AtomicUsize::new(NEVER),
            allocations: AtomicUsize::new(0),
            how,
            hangs: AtomicBool::new(false),
            was_wait: AtomicBool::new(false),
            given_up: AtomicBool::new(false),
            mistakes: AtomicUsize::new(0),
            under_way: Mutex::default(),
            events: Mutex::default(),
            copies: Mutex::default(),
        })
    }

    /// Opens a device with this script.
    pub fn open(self: &Arc<Self>) -> Result<Device> {
        Device::with_driver(Box::new(Faulty { device: PlainC::new(), script: self.clone() }))
    }

    /// Whether the chosen call has come.
    pub fn has_failed(&self) -> bool {
        self.fails.load(Ordering::SeqCst) > NEVER
    }

    /// Whether the chosen call has come, but the failure may not have been reported: see `was_wait`.
    pub fn has_failed_quietly(&self) -> bool {
        self.was_wait.load(Ordering::SeqCst) && matches!(self.how, How::Once | How::OutOfMemory)
    }

    /// Forgets calls of a dead device. If there are several workers, one may call before it learns that another's call
    /// failed.
    pub fn forget_mistakes(&self) {
        self.mistakes.store(0, Ordering::SeqCst);
    }

    pub fn mistakes(&self) -> usize {
        self.mistakes.load(Ordering::SeqCst)
    }

    /// Lets the device wake up and continue its copies. The host's memory must still exist.
    pub fn wake_up(&self) {
        for (address, len) in self.under_way.lock().unwrap().drain(..) {
            // SAFETY: pinned memory of a dead device is never freed, and nothing reads it any more.
            unsafe { (address as *mut u8).write_bytes(0xee, len) };
        }
    }

    /// What the device was asked to do since this was called last.
    pub fn take_events(&self) -> Vec<Event> {
        std::mem::take(&mut self.events.lock().unwrap())
    }

    /// Where copies within the device went since this was called last, and their lengths.
    pub fn take_copies(&self) -> Vec<(usize, usize)> {
        std::mem::take(&mut self.copies.lock().unwrap())
    }

    fn note(&self, event: Event) {
        self.events.lock().unwrap().push(event);
    }

    fn error(&self, reason: Reason) -> Error {
        Error { device: "faulty".into(), reason }
    }

    fn step(&self) -> Result<()> {
        if self.given_up.load(Ordering::SeqCst) {
            self.mistakes.fetch_add(1, Ordering::SeqCst);
        }
        if !counts_down_to_zero(&self.fails) {
            return Ok(());
        }
        match self.how {
            How::Once => Err(self.error(Reason::Failed("something", "it is\nbroken".into()))),
            How::OutOfMemory => Err(self.error(Reason::OutOfMemory(1))),
            How::Lost => {
                self.given_up.store(true, Ordering::SeqCst);
                Err(self.error(Reason::Lost("something", "it is gone".into())))
            }
            How::Hangs => {
                self.hangs.store(true, Ordering::SeqCst);
                Ok(())
            }
        }
    }
}

fn counts_down_to_zero(counter: &AtomicUsize) -> bool {
    counter.try_update(Ordering::SeqCst, Ordering::SeqCst, |n| Some(n.wrapping_sub(1))) == Ok(0)
}

/// Works like plain C, except for the failures in the script.
struct Faulty {
    device: PlainC,
    script: Arc<Script>,
}

impl Faulty {
    fn step(&self) -> Result<()> {
        self.script.step()
    }

    fn wait(&self, limit: Duration) -> Result<()> {
        if self.script.hangs.load(Ordering::SeqCst) {
            std::thread::sleep(limit);
            self.script.given_up.store(true, Ordering::SeqCst);
            return Err(self.script.error(Reason::TimedOut(limit)));
        }
        Ok(())
    }
}

// SAFETY: calls are passed on to plain C, or fail before they do anything.
unsafe impl Driver for Faulty {
    fn info(&self) -> &DeviceInfo {
        self.device.info()
    }
    fn load(&self, module: Module) -> Result<()> {
        self.step().and_then(|()| self.device.load(module))
    }
    fn max_threads(&self, kernel: Kernel) -> Result<u32> {
        self.step().and_then(|()| self.device.max_threads(kernel))
    }
    fn allocate(&self, len: usize) -> Result<MemoryId> {
        self.step()?;
        let less = |room: usize| room.checked_sub(len);
        let full = |_| self.script.error(Reason::OutOfMemory(len));
        self.script.room.try_update(Ordering::SeqCst, Ordering::SeqCst, less).map_err(full)?;
        self.script.allocations.fetch_add(1, Ordering::SeqCst);
        self.device.allocate(len)
    }
    unsafe fn free(&self, memory: MemoryId, len: usize, limit: Duration) -> Result<()> {
        if self.script.given_up.load(Ordering::SeqCst) {
            self.script.mistakes.fetch_add(1, Ordering::SeqCst);
        }
        self.wait(limit)?;
        self.script.room.fetch_add(len, Ordering::SeqCst);
        self.script.allocations.fetch_sub(1, Ordering::SeqCst);
        // SAFETY: the memory is ours, and the caller starts no work on it any more.
        unsafe { self.device.free(memory, len, limit) }
    }
    fn allocate_pinned(&self, len: usize) -> Result<PinnedId> {
        self.step()?;
        self.script.allocations.fetch_add(1, Ordering::SeqCst);
        self.device.allocate_pinned(len)
    }
    unsafe fn free_pinned(&self, pinned: PinnedId, limit: Duration) -> Result<()> {
        if self.script.given_up.load(Ordering::SeqCst) {
            self.script.mistakes.fetch_add(1, Ordering::SeqCst);
        }
        self.script.allocations.fetch_sub(1, Ordering::SeqCst);
        // SAFETY: the memory is ours, and the caller has ended all use of it, the device's too.
        unsafe { self.device.free_pinned(pinned, limit) }
    }
    unsafe fn mapped(&self, pinned: PinnedId) -> Result<Option<MemoryId>> {
        // SAFETY: the memory is ours, and the caller uses the address only until it is freed.
        self.step().and_then(|()| unsafe { self.device.mapped(pinned) })
    }
    fn stream(&self) -> Result<StreamId> {
        self.step().and_then(|()| self.device.stream())
    }
    unsafe fn free_stream(&self, stream: StreamId) {
        // SAFETY: the stream is ours, and the caller does not use it any more.
        unsafe { self.device.free_stream(stream) }
    }
    unsafe fn zero(&self, stream: StreamId, memory: MemoryId, at: usize, len: usize) -> Result<()> {
        // SAFETY: the caller has made sure that the range lies in the memory.
        self.step().and_then(|()| unsafe { self.device.zero(stream, memory, at, len) })
    }
    unsafe fn upload(&self, stream: StreamId, memory: MemoryId, at: usize, from: &[u8]) -> Result<()> {
        // SAFETY: the caller has made sure that the range lies in the memory.
        self.step().and_then(|()| unsafe { self.device.upload(stream, memory, at, from) })
    }
    unsafe fn download(&self, stream: StreamId, memory: MemoryId, at: usize, to: &mut [u8]) -> Result<()> {
        // SAFETY: the caller has made sure that the range lies in the memory.
        self.step().and_then(|()| unsafe { self.device.download(stream, memory, at, to) })?;
        if counts_down_to_zero(&self.script.lies) {
            *to.last_mut().unwrap() ^= 1;
        }
        Ok(())
    }
    unsafe fn start_upload(
        &self,
        stream: StreamId,
        memory: MemoryId,
        at: usize,
        from: *const u8,
        len: usize,
    ) -> Result<()> {
        self.script.note(Event::Upload(from as usize, memory.0 as usize + at, len));
        // SAFETY: the range lies in the memory, and the caller keeps the `len` bytes of `from` unchanged until the copy
        // is over.
        self.step().and_then(|()| unsafe { self.device.start_upload(stream, memory, at, from, len) })
    }
    unsafe fn start_download(
        &self,
        stream: StreamId,
        memory: MemoryId,
        at: usize,
        to: *mut u8,
        len: usize,
    ) -> Result<()> {
        self.step()?;
        if self.script.hangs.load(Ordering::SeqCst) {
            self.script.under_way.lock().unwrap().push((to as usize, len));
            return Ok(());
        }
        // SAFETY: the range lies in the memory, and the caller lets nobody use the `len` bytes of `to` until the copy
        // is over.
        unsafe { self.device.start_download(stream, memory, at, to, len) }
    }
    unsafe fn copy(&self, stream: StreamId, from: (MemoryId, usize), to: (MemoryId, usize), len: usize) -> Result<()> {
        self.script.copies.lock().unwrap().push((to.0.0 as usize + to.1, len));
        // SAFETY: the caller has made sure that the ranges lie in the memories and do not overlap.
        self.step().and_then(|()| unsafe { self.device.copy(stream, from, to, len) })
    }
    unsafe fn launch(&self, stream: StreamId, launch: &Launch<'_>) -> Result<()> {
        self.script.note(Event::Launch(launch.kernel.entry));
        // SAFETY: the arguments are those of the kernel, and the caller has made sure that all it reaches lies in the
        // memories.
        self.step().and_then(|()| unsafe { self.device.launch(stream, launch) })
    }
    fn finish(&self, stream: StreamId, limit: Duration) -> Result<()> {
        self.step().inspect_err(|_| self.script.was_wait.store(true, Ordering::SeqCst))?;
        self.wait(limit)?;
        self.script.note(Event::Finish);
        self.device.finish(stream, limit)
    }
    fn mark(&self, stream: StreamId) -> Result<MarkId> {
        self.step().and_then(|()| self.device.mark(stream))
    }
    unsafe fn between(&self, from: MarkId, to: MarkId) -> Result<Duration> {
        // SAFETY: the marks are ours, and the caller has not consumed them before.
        self.step().and_then(|()| unsafe { self.device.between(from, to) })
    }
}
