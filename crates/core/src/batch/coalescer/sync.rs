//! What threads wait by: the standard library's, and in this crate's own tests a checker's, which tries many schedules.

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

/// Locks, also behind a thread that panicked: no lock here is held while anything can.
pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
}

/// Waits to be notified.
pub(super) fn wait<'a, T>(condvar: &Condvar, guard: MutexGuard<'a, T>) -> MutexGuard<'a, T> {
    condvar.wait(guard).unwrap_or_else(|poisoned| poisoned.into_inner())
}

/// Waits to be notified, or for the time to come; returns early now and then.
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

/// The checker has no clock: any wait may end at any time.
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
