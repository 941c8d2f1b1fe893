//! Standard output.

use super::nt;
use std::ffi::OsString;
use std::io::stdout;
use std::os::windows::ffi::OsStringExt;
use std::os::windows::io::AsHandle;
use std::path::PathBuf;

/// The path of the file that standard output is. `None` if it is no file.
#[must_use]
pub fn output_file() -> Option<PathBuf> {
    let stdout = stdout();
    let is_file = nt::device(stdout.as_handle()) == nt::Device::Disk;
    let path = is_file.then(|| nt::path(stdout.as_handle()).ok()).flatten()?;
    Some(OsString::from_wide(&path).into())
}
