//! Counting the results of many files, from several threads.

use crate::failure::{Code, Failure, Outcome};
use crate::lock::lock;
use crate::report;
use crate::strays::Strays;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

/// The results so far.
#[derive(Default)]
pub struct Tally {
    files: AtomicU64,
    bytes: AtomicU64,
    failed: AtomicU64,
    left_out: AtomicU64,
    worst: Mutex<Option<Code>>,
    strays: Mutex<Strays>,
    /// Whether nothing is reported.
    silent: bool,
}

impl Tally {
    /// Counts without reporting anything.
    #[must_use]
    pub fn silent() -> Self {
        Self { silent: true, ..Self::default() }
    }

    /// Counts a file that is done, and its bytes.
    pub fn succeed(&self, bytes: u64) {
        self.files.fetch_add(1, Ordering::Relaxed);
        self.bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    /// Writes the failure's line, and counts it.
    pub fn fail(&self, failure: &Failure) {
        if !self.silent {
            failure.report();
        }
        self.failed.fetch_add(1, Ordering::Relaxed);
        let mut worst = lock(&self.worst);
        *worst = (*worst).max(Some(failure.code()));
    }

    /// Reports something that is not a file to work on, and counts it. This is not a failure.
    pub fn leave_out(&self, path: &Path, why: &str) {
        if !self.silent {
            report::left_out(path, why);
        }
        self.left_out.fetch_add(1, Ordering::Relaxed);
    }

    /// Counts an entry of the mirror that has no input. It stays as it is.
    pub fn stray(&self, path: PathBuf) {
        lock(&self.strays).add(path);
    }

    /// The entries of the mirror that have no input.
    pub fn strays(&self) -> Strays {
        lock(&self.strays).clone()
    }

    /// The number of files that are done.
    pub fn files(&self) -> u64 {
        self.files.load(Ordering::Relaxed)
    }

    /// The number of plaintext bytes in them.
    pub fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed)
    }

    /// The number of failures.
    pub fn failed(&self) -> u64 {
        self.failed.load(Ordering::Relaxed)
    }

    /// The number of files that were tried.
    pub fn seen(&self) -> u64 {
        self.files() + self.failed()
    }

    /// The number of entries that were left out.
    pub fn left_out(&self) -> u64 {
        self.left_out.load(Ordering::Relaxed)
    }

    /// The worst failure, if there was one.
    pub fn outcome(&self) -> Outcome {
        lock(&self.worst).map_or(Ok(()), |code| Err(Failure::written(code)))
    }
}
