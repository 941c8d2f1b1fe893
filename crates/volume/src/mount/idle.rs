//! Unmounting a mount that nobody uses.
//!
//! Each request to the program counts as use and restarts the clock. When the time has run out, the kernel is asked to
//! unmount. It refuses while a file, a folder or a working directory is open, which restarts the clock too.
//!
//! Programs that show how full disks are, such as `df`, often ask all mounts for the free space and the attributes of
//! the topmost folder. This does not count as use.

use super::{MountError, Stopper};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Unmounts a mount that nobody uses.
pub struct Idler {
    pub(super) stopper: Stopper,
    pub(super) clock: Arc<Clock>,
}

impl Idler {
    /// Waits until nobody has used the mount for this long, and unmounts it. Calls `failed` the first time that the
    /// system refuses for a reason other than use. Returns when the mount is gone, even if somebody else has unmounted
    /// it.
    pub fn stop_after(&self, limit: Duration, failed: impl FnOnce(MountError)) {
        let (mut begun, mut failed) = (self.clock.start, Some(failed));
        loop {
            begun = begun.max(self.clock.last());
            let left = limit.saturating_sub(begun.elapsed());
            if self.clock.ends_within(left) {
                return;
            }
            // The mount may have been used while this thread slept.
            if self.clock.last() > begun {
                continue;
            }
            match self.stopper.stop_if_unused() {
                Ok(true) => return,
                Ok(false) => {}
                Err(e) => drop(failed.take().map(|failed| failed(e))),
            }
            begun = Instant::now();
        }
    }
}

/// When a mount was used last, and whether it is still there.
pub(super) struct Clock {
    start: Instant,
    /// Nanoseconds after the start.
    used: AtomicU64,
    is_over: Mutex<bool>,
    ended: Condvar,
}

impl Clock {
    pub fn new() -> Self {
        Self { start: Instant::now(), used: AtomicU64::new(0), is_over: Mutex::default(), ended: Condvar::new() }
    }

    /// Records that it is used.
    pub fn used(&self) {
        self.used.store(self.start.elapsed().as_nanos() as u64, Ordering::Relaxed);
    }

    fn last(&self) -> Instant {
        self.start + Duration::from_nanos(self.used.load(Ordering::Relaxed))
    }

    /// Records that the session has ended.
    pub fn end(&self) {
        *self.is_over.lock().unwrap_or_else(PoisonError::into_inner) = true;
        self.ended.notify_all();
    }

    fn ends_within(&self, time: Duration) -> bool {
        let is_over = self.is_over.lock().unwrap_or_else(PoisonError::into_inner);
        let waited = self.ended.wait_timeout_while(is_over, time, |is_over| !*is_over);
        *waited.unwrap_or_else(PoisonError::into_inner).0
    }
}
