//! Files by their paths, and who may open them.

pub use super::acl::{Access, access, user_as_text};
use super::fs::reopened;
use super::names::checked;
use super::nt::{self, How, SHARE_ALL};
use crate::fs::{AtFlags, CWD, Mode, OFlags, Stat, fstat, lock_folder, make_private_folder, open, openat, statat};
use crate::io::{Errno, Result};
use crate::parent;
use std::ffi::{OsStr, OsString};
use std::fs::{File, Metadata};
use std::io;
use std::os::windows::ffi::OsStringExt;
use std::os::windows::fs::OpenOptionsExt;
use std::os::windows::io::AsHandle;
use std::path::{Path, PathBuf};
use std::time::Duration;
use windows_sys::Wdk::Storage::FileSystem::{FILE_OPEN, FILE_OPEN_REPARSE_POINT};
use windows_sys::Win32::Storage::FileSystem::{
    FILE_GENERIC_WRITE, FILE_READ_DATA, FILE_SHARE_DELETE, FILE_SHARE_READ, SECURITY_IDENTIFICATION,
};

/// Makes a folder that only the user can look into, and with `recursive` those above it. Then it may be there already.
///
/// # Errors
/// If it cannot be made.
pub fn create_private_folder(path: &Path, recursive: bool) -> io::Result<()> {
    if recursive && path.is_dir() {
        return Ok(());
    }
    let Some(name) = path.file_name() else { return Err(Errno::BADNAME.into()) };
    let folder = parent(path);
    if recursive && !folder.is_dir() {
        create_private_folder(folder, true)?;
    }
    let above = open(folder, OFlags::PATH | OFlags::DIRECTORY, Mode::empty())?;
    match make_private_folder(&above, name) {
        Err(Errno::EXIST) if recursive && path.is_dir() => Ok(()),
        made => Ok(made?),
    }
}

/// Opens a file that only the user can read, to read it and append to it. It is made if it is not there. A link is not followed.
///
/// # Errors
/// If it cannot be opened.
pub fn open_private_log(path: &Path) -> io::Result<File> {
    let flags = OFlags::APPEND | OFlags::CREATE | OFlags::NOFOLLOW;
    Ok(open(path, flags, Mode::RUSR | Mode::WUSR)?.into())
}

/// Opens a file to read it. A link is not followed.
///
/// # Errors
/// If it cannot be opened.
pub fn open_unfollowed(path: &Path) -> io::Result<File> {
    Ok(open(path, OFlags::RDONLY | OFlags::NOFOLLOW, Mode::empty())?.into())
}

/// Opens a file that holds a secret, or a pipe that gives one. Who serves the pipe may learn who the user is, and do nothing in the
/// user's name.
///
/// # Errors
/// If it cannot be opened.
pub fn open_secret(path: &Path) -> io::Result<File> {
    File::options().read(true).security_qos_flags(SECURITY_IDENTIFICATION).open(path)
}

/// Opens a folder, which std does not do.
///
/// # Errors
/// If it cannot be opened.
pub fn open_folder(path: &Path) -> io::Result<File> {
    Ok(open(path, OFlags::RDONLY | OFlags::DIRECTORY, Mode::empty())?.into())
}

/// Cuts what was opened by [`open_private_log`] to a length. What is written next begins there. Windows cuts no file that is opened
/// only to append to it, so it is opened once more.
///
/// # Errors
/// If it cannot be cut.
pub fn cut_log(file: &File, len: u64) -> io::Result<()> {
    File::from(reopened(file.as_handle(), FILE_GENERIC_WRITE, SHARE_ALL)?).set_len(len)
}

/// Opens a file in an open folder, so that nobody can write to it until the returned one is closed. Windows tells the time of a write only
/// when whoever has written has closed the file, so before this, not even the times say whether it is as it was.
///
/// # Errors
/// [`Errno::BUSY`] if somebody has it open to write to it, or another error.
pub fn keep_from_writers(folder: impl AsHandle, name: &OsStr) -> Result<Option<File>> {
    let how = How {
        access: FILE_READ_DATA,
        share: FILE_SHARE_READ | FILE_SHARE_DELETE,
        disposition: FILE_OPEN,
        options: FILE_OPEN_REPARSE_POINT,
        security: None,
    };
    nt::create(Some(folder.as_handle()), &checked(name)?, how).map(|file| Some(file.into()))
}

/// Locks an open folder until the returned one is closed. `None` if somebody else has it locked for longer than `wait`. Some file
/// systems have no locks: it is then not locked.
#[must_use]
pub fn locked_folder(folder: File, wait: Duration) -> Option<File> {
    match lock_folder(&folder, wait) {
        Ok(locked) => Some(locked),
        Err(Errno::WOULDBLOCK) => None,
        Err(_) => Some(folder),
    }
}

/// The numbers of the volume and of the file that a path leads to.
///
/// # Errors
/// If it cannot be looked at.
pub fn id_at(path: &Path) -> io::Result<(u64, u64)> {
    let stat = statat(CWD, path, AtFlags::empty())?;
    Ok((stat.st_dev, stat.st_ino))
}

/// The numbers of the volume and of a link.
///
/// # Errors
/// If it cannot be looked at.
pub fn id_of_link(path: &Path, _meta: &Metadata) -> io::Result<(u64, u64)> {
    let stat = statat(CWD, path, AtFlags::SYMLINK_NOFOLLOW)?;
    Ok((stat.st_dev, stat.st_ino))
}

/// The numbers of the volume and of an open file.
///
/// # Errors
/// If it cannot be looked at.
pub fn id_of_open(file: &File, _meta: &Metadata) -> io::Result<(u64, u64)> {
    let stat = fstat(file)?;
    Ok((stat.st_dev, stat.st_ino))
}

/// How many names an open file has.
///
/// # Errors
/// If it cannot be looked at.
pub fn names_of_open(file: &File, _meta: &Metadata) -> io::Result<u64> {
    Ok(fstat(file)?.st_nlink)
}

/// The permissions of an open file, as far as Windows has them.
///
/// # Errors
/// If it cannot be looked at.
pub fn mode_of_open(file: &File, _meta: &Metadata) -> io::Result<u32> {
    let mode = fstat(file)?.st_mode & 0o7777;
    Ok(if is_users_alone(file) { mode & 0o700 } else { mode })
}

/// Whether an open file is still one that was made for its user alone.
#[must_use]
pub fn is_as_made_for_user(file: &File, stat: &Stat) -> bool {
    stat.st_mode & 0o200 != 0 && is_users_alone(file)
}

fn is_users_alone(file: &File) -> bool {
    access(file).is_ok_and(|access| access == Access { is_own: true, read: false, write: false })
}

/// Whether others may read a file.
#[must_use]
pub fn is_open_to_others(path: &Path, _meta: &Metadata) -> bool {
    File::open(path).is_ok_and(|file| access(&file).is_ok_and(|access| access.read || access.write))
}

/// What a file in a folder is, whose name leads there from an open folder on.
///
/// # Errors
/// If it cannot be looked at.
pub fn stat_within(at: impl AsHandle, folder: &Path, name: &str) -> Result<Stat> {
    let folder = openat(at, folder, OFlags::PATH | OFlags::DIRECTORY, Mode::empty())?;
    statat(folder, name, AtFlags::SYMLINK_NOFOLLOW)
}

/// The name of an entry of an open folder as it is stored there, for a name that was typed: `A` and `a` are one name. It is the typed one
/// if Windows does not tell the other.
#[must_use]
pub fn spelling(folder: impl AsHandle, typed: &OsStr, _inode: u64) -> OsString {
    let path = openat(folder, typed, OFlags::PATH | OFlags::NOFOLLOW, Mode::empty())
        .and_then(|file| nt::path(file.as_handle()));
    let path = path.map(|path| PathBuf::from(OsString::from_wide(&path)));
    path.ok().and_then(|path| Some(path.file_name()?.to_owned())).unwrap_or_else(|| typed.to_owned())
}

/// Whether a path ends in a slash, so that it can only be that of a folder.
#[must_use]
pub fn ends_in_slash(path: &Path) -> bool {
    path.as_os_str().as_encoded_bytes().ends_with(b"/") || path.as_os_str().as_encoded_bytes().ends_with(b"\\")
}
