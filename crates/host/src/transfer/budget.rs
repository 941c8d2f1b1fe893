//! A bound on the bytes of files that are on their way to or from a store.

use crate::lock::lock;
use std::sync::{Condvar, Mutex, PoisonError};

/// Bytes that may be in memory.
pub(super) struct Budget {
    most: u64,
    free: Mutex<u64>,
    changed: Condvar,
}

impl Budget {
    pub(super) fn new(most: u64) -> Self {
        Self { most, free: Mutex::new(most), changed: Condvar::new() }
    }

    /// Waits until so many bytes are free, or all, and takes them.
    pub(super) fn take(&self, bytes: u64) -> Share<'_> {
        let bytes = bytes.min(self.most);
        let mut free = lock(&self.free);
        while *free < bytes {
            free = self.changed.wait(free).unwrap_or_else(PoisonError::into_inner);
        }
        *free -= bytes;
        Share { budget: self, bytes }
    }
}

/// A part of a [`Budget`], until it is dropped.
pub(super) struct Share<'a> {
    budget: &'a Budget,
    bytes: u64,
}

impl Drop for Share<'_> {
    fn drop(&mut self) {
        *lock(&self.budget.free) += self.bytes;
        self.budget.changed.notify_all();
    }
}
