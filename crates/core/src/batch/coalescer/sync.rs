//! The primitives that threads wait with: those of the standard library or, in this crate's own tests, those of a
//! checker that tries many schedules.

#[cfg(test)]
pub(super) use shuttle::{
    sync::{Condvar, Mutex, MutexGuard},
    thread,
};
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
