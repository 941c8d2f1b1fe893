//! The primitives that threads wait with: those of the standard library or, in this crate's own tests, those of a
//! checker that tries many schedules.

#[cfg(test)]
pub(super) use shuttle::{
    sync::{Condvar, Mutex, MutexGuard},
    thread,
};
use std::time::Instant;
#[cfg(not(test))]
pub(super) use std::{
    sync::{Condvar, Mutex, MutexGuard},
    thread,
};

/// Locks, even after a thread has panicked: no lock here is held where a panic is possible.
pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
}

/// Waits to be notified.
pub(super) fn wait<'a, T>(condvar: &Condvar, guard: MutexGuard<'a, T>) -> MutexGuard<'a, T> {
    condvar.wait(guard).unwrap_or_else(|poisoned| poisoned.into_inner())
}

/// Waits for a notification or for the time to come. May return early.
#[cfg(not(test))]
pub(super) fn wait_until<'a, T>(
    condvar: &Condvar,
    _mutex: &Mutex<T>,
    guard: MutexGuard<'a, T>,
    time: Instant,
) -> MutexGuard<'a, T> {
    let left = time.saturating_duration_since(Instant::now());
    condvar.wait_timeout(guard, left).unwrap_or_else(|poisoned| poisoned.into_inner()).0
}

/// The checker has no clock, so any wait may end at any time.
#[cfg(test)]
pub(super) fn wait_until<'a, T>(
    _condvar: &Condvar,
    mutex: &'a Mutex<T>,
    guard: MutexGuard<'a, T>,
    _time: Instant,
) -> MutexGuard<'a, T> {
    drop(guard);
    thread::yield_now();
    lock(mutex)
}

/// Whether the time has come.
pub(super) fn has_come(time: Instant) -> bool {
    #[cfg(test)]
    if shuttle::rand::Rng::gen_bool(&mut shuttle::rand::thread_rng(), 0.5) {
        return false;
    }
    Instant::now() >= time
}
