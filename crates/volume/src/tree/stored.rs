//! Operations on stored entries that need only descriptors.

use crate::error::{Result, VolumeError};
use crate::folder::{GONE, NEW, SAFELY};
use crate::names::{Stored, full_name};
use rustix::fd::{AsFd, AsRawFd, OwnedFd};
use rustix::fs::{
    AtFlags, CWD, FileType, Mode, OFlags, RawDir, RenameFlags, chmodat, fchmod, fstat, openat, renameat, renameat_with,
    statat, unlinkat,
};
use rustix::io::Errno;
use std::mem::MaybeUninit;

/// How much of a folder is read at once, in bytes.
const BUFFER: usize = 64 << 10;
/// How many leftovers of killed runs are removed at a time. Another program may have planted millions of them, and
/// nobody has to wait for that.
pub(super) const MAX_REMOVED: usize = 1024;

/// Opens a folder. If it may be searched but not read, its descriptor is good for everything except lists.
pub(super) fn open_folder(parent: impl AsFd, name: &[u8]) -> Result<OwnedFd, Errno> {
    let open = |how| openat(&parent, name, how | OFlags::DIRECTORY | SAFELY, Mode::empty());
    match open(OFlags::RDONLY) {
        Err(Errno::ACCESS) => open(OFlags::PATH),
        opened => opened,
    }
}

/// Calls `take` with the name, the inode and the type of each entry of a folder, except `.` and `..`, until it returns
/// `false`.
pub(super) fn each_entry(folder: &OwnedFd, mut take: impl FnMut(&[u8], u64, FileType) -> bool) -> Result<(), Errno> {
    // A new descriptor, because the position in a folder belongs to the descriptor.
    let fd = openat(folder, ".", OFlags::RDONLY | OFlags::DIRECTORY | SAFELY, Mode::empty())?;
    let mut buffer = vec![MaybeUninit::uninit(); BUFFER];
    let mut entries = RawDir::new(fd, &mut buffer);
    while let Some(entry) = entries.next() {
        let entry = entry?;
        let name = entry.file_name().to_bytes();
        if name != b"." && name != b".." && !take(name, entry.ino(), entry.file_type()) {
            break;
        }
    }
    Ok(())
}

/// Renames an entry to a name that is free. The lock of the folder where the name is must be held.
pub(super) fn rename_new(from: &OwnedFd, name: &[u8], to: &OwnedFd, new: &[u8]) -> Result<(), Errno> {
    let renamed = match renameat_with(from, name, to, new, RenameFlags::NOREPLACE) {
        // This file system does not know the flag. Only this program makes entries, and it holds the folder's lock.
        Err(Errno::INVAL | Errno::NOSYS) => match statat(to, new, AtFlags::SYMLINK_NOFOLLOW) {
            Err(Errno::NOENT) => renameat(from, name, to, new),
            Ok(_) => Err(Errno::EXIST),
            Err(errno) => Err(errno),
        },
        renamed => renamed,
    };
    if_undone(renamed, || is_free(from, name) && is_there(to, new))
}

/// Renames an entry over another one. The locks of both folders must be held.
pub(super) fn rename_over(from: &OwnedFd, name: &[u8], to: &OwnedFd, new: &[u8]) -> Result<(), Errno> {
    if_undone(renameat(from, name, to, new), || is_free(from, name) && is_there(to, new))
}

/// What came of a change, if `is_done` says whether it was made. A disk or a network can report as failed what it did, and then what
/// belongs to the entry must not be undone. The names have been looked at under the locks that are still held.
pub(super) fn if_undone(done: Result<(), Errno>, is_done: impl Fn() -> bool) -> Result<(), Errno> {
    match done {
        // These say what was found.
        Err(Errno::NOENT | Errno::EXIST) => done,
        Err(_) if is_done() => Ok(()),
        done => done,
    }
}

/// Whether a folder surely has no entry of this name.
pub(super) fn is_free(dir: &OwnedFd, name: &[u8]) -> bool {
    matches!(statat(dir, name, AtFlags::SYMLINK_NOFOLLOW), Err(Errno::NOENT))
}

fn is_there(dir: &OwnedFd, name: &[u8]) -> bool {
    statat(dir, name, AtFlags::SYMLINK_NOFOLLOW).is_ok()
}

/// Removes the file beside a long name, after its entry. If it stays, it does no harm.
pub(super) fn remove_full(dir: &OwnedFd, stored: &Stored) {
    if stored.full.is_some() {
        let _ = unlinkat(dir, full_name(&stored.entry), AtFlags::empty());
    }
}

/// Whether this is the name of an entry that is being made or removed.
pub(super) fn is_left(name: &[u8]) -> bool {
    name.starts_with(NEW.as_bytes()) || name.starts_with(GONE.as_bytes())
}

/// A path to the inode of a descriptor that is good for attributes only. It leads to this inode, even if something else
/// has its name now.
pub(super) fn through_proc(handle: &OwnedFd) -> String {
    format!("/proc/self/fd/{}", handle.as_raw_fd())
}

/// Changes the permissions of an inode by a descriptor of any kind.
pub(super) fn change_mode(handle: &OwnedFd, mode: u32) -> Result<(), Errno> {
    let mode = Mode::from_raw_mode(mode & 0o7777);
    match fchmod(handle, mode) {
        Err(Errno::BADF) => chmodat(CWD, through_proc(handle), mode, AtFlags::empty()),
        changed => changed,
    }
}

/// The bits of all permissions for the owner.
pub(super) const OWNER_ALL: u32 = 0o700;

/// Runs a function on a folder. If its permissions deny access, the owner gets all of them meanwhile: an ordinary file
/// system needs no access to a folder to rename or remove it.
pub(super) fn with_access<T>(folder: &OwnedFd, run: impl Fn() -> Result<T>) -> Result<T> {
    match run() {
        Err(VolumeError::Refused(Errno::ACCESS)) => {
            let mode = fstat(folder)?.st_mode;
            change_mode(folder, mode | OWNER_ALL)?;
            let done = run();
            change_mode(folder, mode)?;
            done
        }
        done => done,
    }
}
