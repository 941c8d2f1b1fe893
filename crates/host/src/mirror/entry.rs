//! An entry of a source, as a manifest lists it.

use phalanx_core::tree::{Entry, Kind, Time};
use rustix::fs::Stat;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;

/// An entry with the permissions and the time that it has now.
#[must_use]
pub fn entry(name: &OsStr, stat: &Stat, kind: Kind) -> Entry {
    Entry { name: name.as_bytes().to_vec(), mode: mode(stat), modified: modified(stat), kind }
}

/// The permissions in a file's mode.
#[must_use]
pub fn mode(stat: &Stat) -> u32 {
    stat.st_mode & 0o7777
}

/// When a file was modified.
#[must_use]
pub fn modified(stat: &Stat) -> Time {
    Time { seconds: stat.st_mtime, nanoseconds: stat.st_mtime_nsec as u32 }
}
