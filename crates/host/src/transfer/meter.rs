//! Watching work on files.

use crate::file::Past;
use phalanx_core::Progress;

/// Watches work on one file, or on the files of a tree. The bytes that are done reach it through [`Progress`].
pub trait Meter: Progress {
    /// The work begins. Only the first call counts. Without a call, it began when the meter was made.
    fn begin(&self) {}

    /// This became of an interrupted run's output.
    fn past(&self, _past: Past) {}

    /// More files and bytes of a tree were found.
    fn expect(&self, _files: u64, _bytes: u64) {}

    /// All files of a tree were found.
    fn expected_all(&self) {}

    /// A file of a tree is done.
    fn file_done(&self) {}

    /// The work is over.
    fn finish(&self) {}

    /// What was done, and how fast, in words.
    fn summary(&self, bytes: u64) -> String;
}
