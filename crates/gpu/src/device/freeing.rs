//! Freeing memory on other threads, because that waits for the device, and the caller may hold what the device's
//! work needs: Python's interpreter, for example.

use super::Device;
use crate::driver::{Driver, MemoryId};
use crate::error::{Error, Reason, Result};
use std::mem;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

/// The pause after which a driver is asked again that could not wait for others' work.
const PAUSE: Duration = Duration::from_millis(10);

/// What is being given up by other threads.
#[derive(Default)]
pub(crate) struct Pending {
    /// How many values.
    count: Mutex<usize>,
    fewer: Condvar,
    /// The memory that waits to be freed.
    memory: Mutex<Waiting>,
}

/// Memory whose address others know, until a thread takes it.
#[derive(Default)]
struct Waiting {
    memory: Vec<GivenUp<OfOthers>>,
    /// Whether there is a thread that takes it. It ends when nothing waits.
    is_taken: bool,
}

impl Pending {
    fn count(&self) -> MutexGuard<'_, usize> {
        self.count.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn waiting(&self) -> MutexGuard<'_, Waiting> {
        self.memory.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// All memory that waits. If there is none, the thread that asks for it ends.
    fn take(&self) -> Vec<GivenUp<OfOthers>> {
        let mut waiting = self.waiting();
        waiting.is_taken = !waiting.memory.is_empty();
        mem::take(&mut waiting.memory)
    }
}

/// A value to be dropped. It counts as pending until that is done.
struct GivenUp<T> {
    // The fields are dropped in this order.
    value: T,
    _counted: Counted,
}

struct Counted(Device);

impl Counted {
    fn new(device: &Device) -> Self {
        *device.shared.pending.count() += 1;
        Self(device.clone())
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        let pending = &self.0.shared.pending;
        *pending.count() -= 1;
        pending.fewer.notify_all();
    }
}

/// Memory whose address others know.
struct OfOthers {
    id: MemoryId,
    len: usize,
}

impl Device {
    /// Drops this on another thread, because freeing the memory of a device waits for its work. If the system gives no
    /// thread, this one does it. [`Device::finish_freeing`] waits until it is done.
    pub fn drop_elsewhere<T: Send + 'static>(&self, value: T) {
        let given_up = GivenUp { value, _counted: Counted::new(self) };
        // A thread that was not started drops what it was given, here.
        let _ = thread::Builder::new().name("phalanx-free".into()).spawn(move || drop(given_up));
    }

    /// Wipes and frees memory whose address others know, when their work is over. One thread of the device does it for all
    /// such memory, so that a program may give up any number of arrays at once.
    ///
    /// # Safety
    /// The memory is this driver's and has that length. No work is started on it any more.
    pub(super) unsafe fn free_of_others(&self, id: MemoryId, len: usize) {
        let given_up = GivenUp { value: OfOthers { id, len }, _counted: Counted::new(self) };
        let mut waiting = self.shared.pending.waiting();
        waiting.memory.push(given_up);
        let is_taken = mem::replace(&mut waiting.is_taken, true);
        drop(waiting);
        let device = self.clone();
        let start = || thread::Builder::new().name("phalanx-free".into()).spawn(move || device.free_waiting());
        if !is_taken && start().is_err() {
            self.free_waiting();
        }
    }

    /// Frees all memory that waits, until there is none.
    fn free_waiting(&self) {
        loop {
            let memory = self.shared.pending.take();
            if memory.is_empty() {
                return;
            }
            if !self.finish_all_others() {
                continue;
            }
            for GivenUp { value: OfOthers { id, len }, _counted } in memory {
                // SAFETY: who gave it up has promised that it is the driver's, has that length, and is not used.
                let _ = self.ask(|driver, limit| unsafe { driver.free(id, len, limit) });
            }
        }
    }

    /// Waits for the work of others. It fails for good only if the device is dead. Otherwise it cannot wait now, and is asked
    /// again. Returns whether the work is over.
    fn finish_all_others(&self) -> bool {
        while let Err(error) = self.ask(|driver, _| driver.finish_others()) {
            if error.reason.is_final() {
                return false;
            }
            thread::sleep(PAUSE);
        }
        true
    }

    /// Waits until all memory that was given up so far is wiped and freed, at most for the time limit. Memory whose
    /// address others know is given up when the last of its users has dropped it, and freed by another thread. Returns
    /// whether all is freed.
    #[must_use]
    pub fn finish_freeing(&self) -> bool {
        let pending = &self.shared.pending;
        let waited = pending.fewer.wait_timeout_while(pending.count(), self.limit(), |count| *count > 0);
        !waited.unwrap_or_else(PoisonError::into_inner).1.timed_out()
    }

    /// Allocates. If there is too little memory while some is being freed, waits for that, and tries once more.
    pub(super) fn allocate<T>(&self, allocate: impl Fn(&dyn Driver) -> Result<T>) -> Result<T> {
        let is_freeing = || *self.shared.pending.count() > 0;
        let was_freeing = is_freeing();
        match self.ask(|driver, _| allocate(driver)) {
            Err(Error { reason: Reason::OutOfMemory(_), .. }) if was_freeing || is_freeing() => {
                let _ = self.finish_freeing();
                self.ask(|driver, _| allocate(driver))
            }
            done => done,
        }
    }
}
