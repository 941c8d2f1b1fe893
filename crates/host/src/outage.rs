//! A store that has failed so often that it is not asked any more.

use crate::Error;
use phalanx_core::Error as CoreError;
use std::io;
use std::sync::atomic::{AtomicUsize, Ordering};

/// So many objects in a row. Each was asked for several times.
const IN_A_ROW: usize = 32;

/// Counts the objects in a row that could not be read or written. It is used by several threads.
#[derive(Debug, Default)]
pub struct Outage(AtomicUsize);

impl Outage {
    /// Notes what came of an object: why it could not be read or written, or nothing.
    pub fn note(&self, error: Option<&Error>) {
        match error {
            // That an object is not there is an answer, and what cannot be one was not asked for.
            Some(Error::Core(CoreError::Read(e) | CoreError::Write(e)))
                if !matches!(e.kind(), io::ErrorKind::NotFound | io::ErrorKind::InvalidInput) =>
            {
                self.0.fetch_add(1, Ordering::Relaxed);
            }
            _ => self.0.store(0, Ordering::Relaxed),
        }
    }

    /// Whether the store is given up.
    #[must_use]
    pub fn is_there(&self) -> bool {
        self.0.load(Ordering::Relaxed) >= IN_A_ROW
    }

    /// Why the rest is not tried.
    #[must_use]
    pub fn error(&self) -> Error {
        Error::read(io::Error::other(format!(
            "the store failed for {IN_A_ROW} objects in a row: it is not asked for more"
        )))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_failures_in_a_row_count() {
        let outage = Outage::default();
        let fail = |kind: io::ErrorKind| outage.note(Some(&Error::read(kind)));
        (1..IN_A_ROW).for_each(|_| fail(io::ErrorKind::BrokenPipe));
        fail(io::ErrorKind::NotFound);
        (1..IN_A_ROW).for_each(|_| fail(io::ErrorKind::BrokenPipe));
        outage.note(None);
        (1..IN_A_ROW).for_each(|_| fail(io::ErrorKind::BrokenPipe));
        assert!(!outage.is_there());
        fail(io::ErrorKind::BrokenPipe);
        assert!(outage.is_there());
    }
}
