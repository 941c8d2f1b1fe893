//! Standard input, output and error: rustix, and what differs between systems.

use rustix::fs::{FileType, fstat, getpath};
pub use rustix::stdio::*;
use std::ffi::OsString;
use std::os::fd::AsFd;
use std::os::unix::ffi::OsStringExt;
use std::path::PathBuf;

/// A pipe's buffer grows by itself.
pub fn widen_pipe(_: impl AsFd) {}

/// The path of the file that standard output is. `None` if it is no file.
#[must_use]
pub fn output_file() -> Option<PathBuf> {
    let stat = fstat(stdout()).ok()?;
    let is_file = FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile;
    let path = is_file.then(|| getpath(stdout()).ok())??;
    Some(OsString::from_vec(path.into_bytes()).into())
}
