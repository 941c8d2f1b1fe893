//! Locks that can be used after a panic: the panic is reported, and the guarded data is still valid.

use std::sync::{Mutex, MutexGuard, PoisonError};

/// Locks, also after a thread that held the lock has panicked.
pub fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
