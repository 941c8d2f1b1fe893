//! What Windows does not have, or what is not done there. All of it fails, and the programs do without.

use super::{Gid, Uid};
use crate::told::FileSystem;
use crate::windows::io::{Errno, Result};
use std::ffi::{CStr, CString, OsStr};
use std::fs::File;
use std::os::windows::io::AsHandle;

/// The file system that a file is on. Windows has lists of access instead of permissions, so none looks as if it had none.
///
/// # Errors
/// Never.
pub fn file_system(_file: impl AsHandle) -> Result<FileSystem> {
    Ok(FileSystem::Other)
}

/// Whether [`syncfs`] reports lost writes. It does not exist.
///
/// # Errors
/// Never.
pub fn reports_lost_writes(_file: impl AsHandle) -> Result<bool> {
    Ok(false)
}

/// Writes a whole file system to its disk.
///
/// # Errors
/// Always.
pub fn syncfs(_file: impl AsHandle) -> Result<()> {
    Err(Errno::NOSYS)
}

/// Reserves space without changing the length of a file.
///
/// # Errors
/// Always.
pub fn reserve(_file: &File, _offset: u64, _len: u64) -> Result<()> {
    Err(Errno::NOTSUP)
}

/// Makes a part of a file a hole.
///
/// # Errors
/// Always: the part is written with zeros instead.
pub fn punch_hole(_file: &File, _offset: u64, _len: u64) -> Result<()> {
    Err(Errno::NOTSUP)
}

/// Starts to write a part of a file to the disk. Windows has no such call: it starts by itself.
pub fn start_write_back(_file: &File, _offset: u64, _len: u64) {}

/// A place in a file to look for.
#[derive(Clone, Copy, Debug)]
pub enum SeekFrom {
    /// The next byte that is not in a hole.
    Data(u64),
    /// The next hole.
    Hole(u64),
}

/// Looks for data or holes.
///
/// # Errors
/// Always.
pub fn seek(_file: impl AsHandle, _place: SeekFrom) -> Result<u64> {
    Err(Errno::NOTSUP)
}

/// Gives a file to another owner.
///
/// # Errors
/// Always.
pub fn fchown(_file: impl AsHandle, _owner: Option<Uid>, _group: Option<Gid>) -> Result<()> {
    Err(Errno::PERM)
}

/// How an attribute is set.
#[derive(Clone, Copy, Debug)]
pub struct XattrFlags(());

impl XattrFlags {
    /// Whether it is there or not.
    #[must_use]
    pub fn empty() -> Self {
        Self(())
    }
}

/// The value of an extended attribute.
///
/// # Errors
/// Always.
pub fn fgetxattr<N: ?Sized>(_file: impl AsHandle, _name: &N, _value: &mut [u8]) -> Result<usize> {
    Err(Errno::NOTSUP)
}

/// The length of the value of an extended attribute.
///
/// # Errors
/// Always.
pub fn fgetxattr_query<N: ?Sized>(_file: impl AsHandle, _name: &N) -> Result<usize> {
    Err(Errno::NOTSUP)
}

/// The names of the extended attributes.
///
/// # Errors
/// Always.
pub fn flistxattr(_file: impl AsHandle, _names: &mut [u8]) -> Result<usize> {
    Err(Errno::NOTSUP)
}

/// The length of their names.
///
/// # Errors
/// Always.
pub fn flistxattr_query(_file: impl AsHandle) -> Result<usize> {
    Err(Errno::NOTSUP)
}

/// Removes an extended attribute.
///
/// # Errors
/// Always.
pub fn fremovexattr<N: ?Sized>(_file: impl AsHandle, _name: &N) -> Result<()> {
    Err(Errno::NOTSUP)
}

/// Sets an extended attribute.
///
/// # Errors
/// Always.
pub fn fsetxattr<N: ?Sized>(_file: impl AsHandle, _name: &N, _value: &[u8], _how: XattrFlags) -> Result<()> {
    Err(Errno::NOTSUP)
}

/// Makes a symbolic link. Windows lets only administrators and developers do that, and a link there says whether it leads to a file
/// or to a folder, which links elsewhere do not.
///
/// # Errors
/// Always: [`Errno::NOLINKS`].
pub fn symlinkat(_target: &CStr, _folder: impl AsHandle, _name: impl AsRef<OsStr>) -> Result<()> {
    Err(Errno::NOLINKS)
}

/// The target of a symbolic link.
///
/// # Errors
/// Always: [`Errno::NOLINKS`].
pub fn readlinkat(_folder: impl AsHandle, _name: impl AsRef<OsStr>, _buffer: Vec<u8>) -> Result<CString> {
    Err(Errno::NOLINKS)
}
