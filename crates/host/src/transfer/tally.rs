//! Counting the results of many files, from several threads.

use crate::failure::{Code, Failure, Outcome};
use crate::lines::{complain, shown};
use crate::lock::lock;
use crate::report;
use crate::strays::Strays;
use crate::transfer::meter::Meter;
use crate::words::{arrow, count, others};
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

/// What happens to failures, and to what is left out.
#[derive(Default)]
enum Then {
    /// They are reported.
    #[default]
    Report,
    /// They are only counted.
    Count,
    /// They are kept for the caller.
    Keep(Mutex<Kept>),
}

/// What a tally has kept.
#[derive(Debug, Default)]
pub struct Kept {
    /// The failures, in the order in which they happened.
    pub failures: Vec<Failure>,
    /// The paths of what is no file to work on, and why.
    pub left_out: Vec<(PathBuf, String)>,
}

/// The results so far.
#[derive(Default)]
pub struct Tally {
    files: AtomicU64,
    bytes: AtomicU64,
    failed: AtomicU64,
    left_out: AtomicU64,
    worst: Mutex<Option<Code>>,
    strays: Mutex<Strays>,
    then: Then,
}

impl Tally {
    /// Counts without reporting anything.
    #[must_use]
    pub fn silent() -> Self {
        Self { then: Then::Count, ..Self::default() }
    }

    /// Counts, and keeps failures and what is left out instead of reporting it.
    #[must_use]
    pub fn keeping() -> Self {
        Self { then: Then::Keep(Mutex::default()), ..Self::default() }
    }

    /// What was kept so far. From now on it is the caller's.
    pub fn take(&self) -> Kept {
        if let Then::Keep(kept) = &self.then { std::mem::take(&mut *lock(kept)) } else { Kept::default() }
    }

    /// Counts a file that is done, and its bytes.
    pub fn succeed(&self, bytes: u64) {
        self.files.fetch_add(1, Ordering::Relaxed);
        self.bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    /// Writes the failure's line or keeps it, and counts it.
    pub fn fail(&self, failure: &Failure) {
        match &self.then {
            Then::Report => drop(failure.report()),
            Then::Count => {}
            Then::Keep(kept) => lock(kept).failures.push(failure.clone()),
        }
        self.failed.fetch_add(1, Ordering::Relaxed);
        let mut worst = lock(&self.worst);
        *worst = (*worst).max(Some(failure.code()));
    }

    /// Reports or keeps something that is not a file to work on, and counts it. This is not a failure.
    pub fn leave_out(&self, path: &Path, why: &str) {
        match &self.then {
            Then::Report => report::left_out(path, why),
            Then::Count => {}
            Then::Keep(kept) => lock(kept).left_out.push((path.to_owned(), why.to_owned())),
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

    /// Says what was done with the files of a folder.
    pub fn tell(&self, input: &Path, output: &Path, meter: &dyn Meter) {
        let (files, done) = (count(self.files(), "file"), meter.summary(self.bytes()));
        let line = format!("{} {} {}: {files}, {done}", shown(input), arrow(), shown(output));
        complain(line + &others([(self.left_out(), "left out"), (self.failed(), "failed")]));
        self.strays().line(output).into_iter().for_each(complain);
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Error;
    use std::io;

    #[test]
    fn a_keeping_tally_has_the_errors_of_all_failures() {
        let tally = Tally::keeping();
        tally.fail(&Failure::at(Path::new("a"), Error::read(io::Error::from_raw_os_error(2))));
        tally.fail(&Failure::new(Code::NotAuthentic, "a line"));
        tally.leave_out(Path::new("pipe"), "a pipe");
        let Kept { failures, left_out } = tally.take();
        assert_eq!(left_out, [(PathBuf::from("pipe"), "a pipe".to_owned())]);
        let [first, second] = <[Failure; 2]>::try_from(failures).unwrap();
        assert_eq!(first.path(), Some(Path::new("a")));
        assert!(first.line().unwrap().starts_with("a: "));
        let Some(Error::Core(phalanx_core::Error::Read(e))) = first.into_error() else {
            panic!("it is an error of a read")
        };
        assert_eq!(e.raw_os_error(), Some(2));
        assert_eq!((second.line(), second.path()), (Some("a line"), None));
        assert!(second.into_error().is_none());
        // They are counted all the same.
        assert_eq!((tally.failed(), tally.left_out()), (2, 1));
        assert_eq!(tally.outcome().unwrap_err().code(), Code::NotAuthentic);
        assert!(tally.take().failures.is_empty());
    }

    #[test]
    fn a_silent_tally_keeps_nothing() {
        let tally = Tally::silent();
        tally.fail(&Failure::new(Code::Other, "a line"));
        assert_eq!(tally.failed(), 1);
        assert!(tally.take().failures.is_empty());
    }
}
