//! What is done to stored entries by descriptors alone.

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
/// How much of what killed runs have left goes at once, whoever has put it there: nobody has to wait for millions of entries.
pub(super) const MAX_REMOVED: usize = 1024;

/// Opens a folder. One that may be passed but not be read is good for all but lists.
pub(super) fn open_folder(parent: impl AsFd, name: &[u8]) -> Result<OwnedFd, Errno> {
    let open = |how| openat(&parent, name, how | OFlags::DIRECTORY | SAFELY, Mode::empty());
    match open(OFlags::RDONLY) {
        Err(Errno::ACCESS) => open(OFlags::PATH),
        opened => opened,
    }
}

/// Gives each entry of a folder but `.` and `..`: its name, its inode and its type, until told to stop.
pub(super) fn each_entry(folder: &OwnedFd, mut take: impl FnMut(&[u8], u64, FileType) -> bool) -> Result<(), Errno> {
    // Its own descriptor, since the place up to where it has been read belongs to the descriptor.
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
    match renameat_with(from, name, to, new, RenameFlags::NOREPLACE) {
        // A file system that cannot refuse: only this program makes entries, and it holds the folder's lock.
        Err(Errno::INVAL | Errno::NOSYS) => match statat(to, new, AtFlags::SYMLINK_NOFOLLOW) {
            Err(Errno::NOENT) => renameat(from, name, to, new),
            Ok(_) => Err(Errno::EXIST),
            Err(errno) => Err(errno),
        },
        renamed => renamed,
    }
}

/// Removes the file beside a long name, after its entry. One that stays means nothing.
pub(super) fn remove_full(dir: &OwnedFd, stored: &Stored) {
    if stored.full.is_some() {
        let _ = unlinkat(dir, full_name(&stored.entry), AtFlags::empty());
    }
}

/// Whether a name is that of something that is being made or removed.
pub(super) fn is_left(name: &[u8]) -> bool {
    name.starts_with(NEW.as_bytes()) || name.starts_with(GONE.as_bytes())
}

/// The path by which the system gives the inode behind a descriptor that is good for its attributes only. It leads to this
/// inode, whatever has its name now.
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

/// All permissions for the owner.
pub(super) const OWNER_ALL: u32 = 0o700;

/// Does something in a folder to which its owner has no access, where an ordinary file system needs none: to rename or remove
/// a folder one need not read it.
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
