//! Counting what becomes of many files, from several threads.

use crate::failure::{Code, Failure, Outcome};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

/// What has been done so far.
#[derive(Default)]
pub struct Tally {
    files: AtomicU64,
    bytes: AtomicU64,
    failed: AtomicU64,
    worst: Mutex<Option<Code>>,
}

impl Tally {
    /// Counts a file of so many bytes.
    pub fn succeed(&self, bytes: u64) {
        self.files.fetch_add(1, Ordering::Relaxed);
        self.bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    /// Writes the failure's line, and counts it.
    pub fn fail(&self, failure: &Failure) {
        failure.report();
        self.failed.fetch_add(1, Ordering::Relaxed);
        let mut worst = self.worst.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        *worst = (*worst).max(Some(failure.code()));
    }

    /// How many files were done.
    pub fn files(&self) -> u64 {
        self.files.load(Ordering::Relaxed)
    }

    /// How many bytes of plaintext these have.
    pub fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed)
    }

    /// How many failed.
    pub fn failed(&self) -> u64 {
        self.failed.load(Ordering::Relaxed)
    }

    /// The worst that happened.
    pub fn outcome(&self) -> Outcome {
        let worst = *self.worst.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        worst.map_or(Ok(()), |code| Err(Failure::told(code)))
    }
}
