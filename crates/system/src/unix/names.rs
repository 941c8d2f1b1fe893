//! Names: what std has for them on Unix, and what differs between systems.

pub use std::os::unix::ffi::*;

use crate::io::Result;
use std::borrow::Cow;
use std::ffi::OsStr;
use std::path::Path;

/// A name in a folder, as it is stored, perhaps by another system.
#[must_use]
pub fn stored_name(bytes: &[u8]) -> &OsStr {
    OsStr::from_bytes(bytes)
}

/// Refuses a name that nothing new can have. The system itself refuses those that it does not allow.
///
/// # Errors
/// Never.
pub fn check_new(_name: &OsStr) -> Result<()> {
    Ok(())
}

/// The bytes of a relative path, with slashes between the names.
#[must_use]
pub fn slashed(path: &Path) -> Cow<'_, [u8]> {
    path.as_os_str().as_bytes().into()
}
