//! Locks that outlive a panic: whoever panics says so, and what they held is as whole as it was.

use std::sync::{Mutex, MutexGuard, PoisonError};

/// Locks, also after a thread that held the lock has panicked.
pub fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
