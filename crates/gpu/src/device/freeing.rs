//! Freeing memory on threads of their own, because that waits for the device, and the caller may hold what the device's
//! work needs: Python's interpreter, for example.

use super::Device;
use crate::driver::{Driver, MemoryId};
use crate::error::{Error, Reason, Result};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

/// The pause after which a driver is asked again that could not wait for others' work.
const PAUSE: Duration = Duration::from_millis(10);

/// How many values are being dropped by threads of their own.
#[derive(Default)]
pub(crate) struct Pending {
    count: Mutex<usize>,
    fewer: Condvar,
}

impl Pending {
    fn count(&self) -> MutexGuard<'_, usize> {
        self.count.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A value to be dropped. It counts as pending until that is done.
struct GivenUp<T> {
    // The fields are dropped in this order.
    _value: T,
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

/// Memory whose address others know. Its drop waits for their work, wipes it and frees it.
pub(super) struct OfOthers {
    pub device: Device,
    pub id: MemoryId,
    pub len: usize,
}

impl Drop for OfOthers {
    fn drop(&mut self) {
        // This fails for good only if the device is dead. Otherwise it cannot wait now, and is asked again.
        while let Err(error) = self.device.ask(|driver, _| driver.finish_others()) {
            if error.reason.is_final() {
                return;
            }
            thread::sleep(PAUSE);
        }
        // SAFETY: the memory is the driver's and has that length. No work can be started on it any more.
        let _ = self.device.ask(|driver, limit| unsafe { driver.free(self.id, self.len, limit) });
    }
}

impl Device {
    /// Drops this on another thread, because freeing the memory of a device waits for its work. If the system gives no
    /// thread, this one does it. [`Device::finish_freeing`] waits until it is done.
    pub fn drop_elsewhere<T: Send + 'static>(&self, value: T) {
        let given_up = GivenUp { _value: value, _counted: Counted::new(self) };
        // A thread that was not started drops what it was given, here.
        let _ = thread::Builder::new().name("phalanx-free".into()).spawn(move || drop(given_up));
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
