//! Setting what is known of files, and writing them to their disk.

use super::{Mode, reopened};
use crate::windows::acl;
use crate::windows::io::{Errno, Result};
use crate::windows::nt::{self, SHARE_ALL};
use crate::windows::stat::{self, to_ticks};
use std::fs::File;
use std::os::windows::io::{AsHandle, BorrowedHandle};
use windows_sys::Win32::Storage::FileSystem::{
    FILE_ADD_FILE, FILE_APPEND_DATA, FILE_ATTRIBUTE_DIRECTORY, FILE_ATTRIBUTE_NORMAL, FILE_ATTRIBUTE_READONLY,
    FILE_BASIC_INFO, FILE_READ_ATTRIBUTES, FILE_WRITE_ATTRIBUTES, FileBasicInfo,
};

/// Seconds since 1970, and nanoseconds.
#[derive(Clone, Copy, Debug)]
pub struct Timespec {
    /// The seconds.
    pub tv_sec: i64,
    /// The nanoseconds, or [`UTIME_OMIT`].
    pub tv_nsec: i64,
}

/// Times to set.
#[derive(Clone, Copy, Debug)]
pub struct Timestamps {
    /// The last access.
    pub last_access: Timespec,
    /// The last change of the content.
    pub last_modification: Timespec,
}

/// In the place of nanoseconds: the time stays.
pub const UTIME_OMIT: i64 = -1;

/// Sets the times of an open file or folder.
///
/// # Errors
/// If they cannot be set.
pub fn futimens(file: impl AsHandle, times: &Timestamps) -> Result<()> {
    // 0 means that a time stays.
    let ticks = |time: Timespec| if time.tv_nsec == UTIME_OMIT { 0 } else { to_ticks(time.tv_sec, time.tv_nsec) };
    let basic = FILE_BASIC_INFO {
        LastAccessTime: ticks(times.last_access),
        LastWriteTime: ticks(times.last_modification),
        ..FILE_BASIC_INFO::default()
    };
    set_basic(file.as_handle(), &basic)
}

fn set_basic(file: BorrowedHandle<'_>, basic: &FILE_BASIC_INFO) -> Result<()> {
    let set = |file: BorrowedHandle<'_>| {
        // SAFETY: it is the structure of this class.
        #[expect(unsafe_code)]
        unsafe {
            nt::set(file, FileBasicInfo, basic)
        }
    };
    match set(file) {
        // It was opened only to be read.
        Err(Errno::ACCESS) => set(reopened(file, FILE_READ_ATTRIBUTES | FILE_WRITE_ATTRIBUTES, SHARE_ALL)?.as_handle()),
        done => done,
    }
}

/// Makes an open file one that is not read-only.
pub(super) fn make_writable(file: BorrowedHandle<'_>) -> Result<()> {
    let attributes = stat::basic(file)?.FileAttributes & !FILE_ATTRIBUTE_READONLY;
    let attributes = if attributes == 0 { FILE_ATTRIBUTE_NORMAL } else { attributes };
    set_basic(file, &FILE_BASIC_INFO { FileAttributes: attributes, ..FILE_BASIC_INFO::default() })
}

/// Sets the permissions of an open file or folder, as far as Windows has them: one that nobody may write to is read-only. One that
/// others may not open at all is the user's alone. A file that was made for its user alone, and is to be open to others, gets the
/// list of its folder. All other lists stay as they are.
///
/// # Errors
/// If they cannot be set.
pub fn fchmod(file: impl AsHandle, mode: Mode) -> Result<()> {
    let file = file.as_handle();
    let mode = mode.bits();
    let attributes = stat::basic(file)?.FileAttributes;
    let is_folder = attributes & FILE_ATTRIBUTE_DIRECTORY != 0;
    let read_only = if mode & 0o222 == 0 && !is_folder { FILE_ATTRIBUTE_READONLY } else { 0 };
    if !is_folder && attributes & FILE_ATTRIBUTE_READONLY != read_only {
        let new = attributes & !(FILE_ATTRIBUTE_READONLY | FILE_ATTRIBUTE_NORMAL) | read_only;
        let new = if new == 0 { FILE_ATTRIBUTE_NORMAL } else { new };
        set_basic(file, &FILE_BASIC_INFO { FileAttributes: new, ..FILE_BASIC_INFO::default() })?;
    }
    match mode & 0o077 {
        0 => acl::restrict(file, is_folder),
        _ if is_folder => Ok(()),
        _ => acl::inherit(file),
    }
}

/// Writes an open file to its disk, or the names in an open folder.
///
/// # Errors
/// [`Errno::NOTSUP`] if the file system does not do that for folders, or another error if something was not written.
pub fn fsync(file: impl AsHandle) -> Result<()> {
    let file = file.as_handle();
    if stat::tags(file)?.FileAttributes & FILE_ATTRIBUTE_DIRECTORY == 0 {
        return flush(file);
    }
    // Windows does this for what may be written to.
    match reopened(file, FILE_ADD_FILE, SHARE_ALL).and_then(|folder| nt::flush(folder.as_handle())) {
        Err(Errno::ACCESS | Errno::INVAL | Errno::NOSYS) => Err(Errno::NOTSUP),
        done => done,
    }
}

/// Windows does this for what may be written to, so a file that was opened only to be read is opened once more.
fn flush(file: BorrowedHandle<'_>) -> Result<()> {
    match nt::flush(file) {
        Err(Errno::ACCESS) => nt::flush(reopened(file, FILE_APPEND_DATA, SHARE_ALL)?.as_handle()),
        done => done,
    }
}

/// Writes a file to the disk.
///
/// # Errors
/// If something was not written.
pub fn sync_all(file: &File) -> std::io::Result<()> {
    Ok(flush(file.as_handle())?)
}

/// Writes a file to the disk, without metadata that are not needed to read it.
///
/// # Errors
/// If something was not written.
pub fn sync_data(file: &File) -> std::io::Result<()> {
    Ok(flush(file.as_handle())?)
}
