//! Files by their paths, and who may open them: what std has for it on Unix.

pub use super::spelling::spelling;
use crate::fs::{AtFlags, FlockOperation, OFlags, Stat, flock, statat};
use crate::io::{Errno, Result};
use std::ffi::OsStr;
use std::fs::{DirBuilder, File, Metadata, OpenOptions};
use std::io;
use std::os::fd::AsFd;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

/// Makes a folder that only the user can look into, and with `recursive` those above it. Then it may be there already.
///
/// # Errors
/// If it cannot be made.
pub fn create_private_folder(path: &Path, recursive: bool) -> io::Result<()> {
    DirBuilder::new().recursive(recursive).mode(0o700).create(path)
}

/// Opens a file that only the user can read, to read it and append to it. It is made if it is not there. A link is not followed.
///
/// # Errors
/// If it cannot be opened.
pub fn open_private_log(path: &Path) -> io::Result<File> {
    OpenOptions::new().read(true).append(true).create(true).mode(0o600).custom_flags(unfollowed()).open(path)
}

/// Opens a file to read it. A link is not followed, and nothing is waited for.
///
/// # Errors
/// If it cannot be opened.
pub fn open_unfollowed(path: &Path) -> io::Result<File> {
    OpenOptions::new().read(true).custom_flags(unfollowed()).open(path)
}

fn unfollowed() -> i32 {
    (OFlags::NOFOLLOW | OFlags::NONBLOCK).bits() as i32
}

/// Opens a file that holds a secret, or a pipe that gives one.
///
/// # Errors
/// If it cannot be opened.
pub fn open_secret(path: &Path) -> io::Result<File> {
    File::open(path)
}

/// Opens a folder.
///
/// # Errors
/// If it cannot be opened.
pub fn open_folder(path: &Path) -> io::Result<File> {
    File::open(path)
}

/// Cuts what was opened by [`open_private_log`] to a length. What is written next begins there.
///
/// # Errors
/// If it cannot be cut.
pub fn cut_log(file: &File, len: u64) -> io::Result<()> {
    file.set_len(len)
}

/// Keeps nobody from writing to a file: that is not possible here, where the times of a file tell of each write at once.
///
/// # Errors
/// None.
pub fn keep_from_writers(_folder: impl AsFd, _name: &OsStr) -> Result<Option<File>> {
    Ok(None)
}

/// Locks an open folder until it is closed. `None` if somebody else has it locked for longer than `wait`. Some file systems have no
/// locks: it is then not locked.
#[must_use]
pub fn locked_folder(folder: File, wait: Duration) -> Option<File> {
    const ROUND: Duration = Duration::from_millis(20);
    let begun = Instant::now();
    while flock(&folder, FlockOperation::NonBlockingLockExclusive) == Err(Errno::WOULDBLOCK) {
        if begun.elapsed() >= wait {
            return None;
        }
        thread::sleep(ROUND);
    }
    Some(folder)
}

/// Device and inode of what a path leads to.
///
/// # Errors
/// If it cannot be looked at.
pub fn id_at(path: &Path) -> io::Result<(u64, u64)> {
    std::fs::metadata(path).map(|meta| (meta.dev(), meta.ino()))
}

/// Device and inode of a link, which was looked at.
///
/// # Errors
/// Never.
pub fn id_of_link(_path: &Path, meta: &Metadata) -> io::Result<(u64, u64)> {
    Ok((meta.dev(), meta.ino()))
}

/// Device and inode of an open file, which was looked at.
///
/// # Errors
/// Never.
pub fn id_of_open(_file: &File, meta: &Metadata) -> io::Result<(u64, u64)> {
    Ok((meta.dev(), meta.ino()))
}

/// How many names an open file has, which was looked at.
///
/// # Errors
/// Never.
pub fn names_of_open(_file: &File, meta: &Metadata) -> io::Result<u64> {
    Ok(meta.nlink())
}

/// The permissions of an open file, which was looked at, with set-user-ID and the like.
///
/// # Errors
/// Never.
pub fn mode_of_open(_file: &File, meta: &Metadata) -> io::Result<u32> {
    Ok(meta.mode() & 0o7777)
}

/// Whether an open file, which was looked at, has the permissions of one that was made for its user alone.
#[must_use]
pub fn is_as_made_for_user(_file: &File, stat: &Stat) -> bool {
    stat.st_mode & 0o7777 == 0o600
}

/// Whether others may read a file.
#[must_use]
pub fn is_open_to_others(_path: &Path, meta: &Metadata) -> bool {
    meta.mode() & 0o077 != 0
}

/// What a file in a folder is, which is named from an open folder on. Links are followed on the way to the folder only.
///
/// # Errors
/// If it cannot be looked at.
pub fn stat_within(at: impl AsFd, folder: &Path, name: &str) -> Result<Stat> {
    statat(at, folder.join(name), AtFlags::SYMLINK_NOFOLLOW)
}

/// Whether a path ends in a slash, so that it can only be that of a folder.
#[must_use]
pub fn ends_in_slash(path: &Path) -> bool {
    path.as_os_str().as_encoded_bytes().ends_with(b"/")
}
