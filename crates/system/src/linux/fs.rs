//! Files: rustix, and what differs between systems.

pub use crate::told::{Birth, FileSystem};
pub use rustix::fs::*;
use rustix::io::{Errno, Result};
use std::ffi::OsStr;
use std::fs::File;
use std::io;
use std::num::NonZeroU64;
use std::os::fd::{AsFd, AsRawFd};

/// Opens a folder only to reach its entries, so it need not be readable.
pub const SEARCH: OFlags = OFlags::PATH;

/// The file system that a file is on.
///
/// # Errors
/// If the system does not tell it.
pub fn file_system(file: impl AsFd) -> Result<FileSystem> {
    Ok(match fstatfs(file)?.f_type as u64 {
        0xef53 => FileSystem::Ext,
        0x5846_5342 | 0x9123_683e => FileSystem::XfsOrBtrfs,
        0x4d44 | 0x2011_bab0 | 0x7366_746e | 0x6573_5546 | 0xff53_4d42 | 0xfe53_4d42 => FileSystem::WithoutPermissions,
        _ => FileSystem::Other,
    })
}

/// Whether [`syncfs`] of the file system that a file is on reports lost writes (from Linux 5.8 on).
///
/// # Errors
/// If the system does not tell the file system.
pub fn reports_lost_writes(file: impl AsFd) -> Result<bool> {
    Ok(matches!(file_system(file)?, FileSystem::Ext | FileSystem::XfsOrBtrfs))
}

/// Writes a file to the disk.
///
/// # Errors
/// If something was not written.
pub fn sync_all(file: &File) -> io::Result<()> {
    file.sync_all()
}

/// Writes a file to the disk, without metadata that are not needed to read it.
///
/// # Errors
/// If something was not written.
pub fn sync_data(file: &File) -> io::Result<()> {
    file.sync_data()
}

/// Reserves space without changing the length of a file.
///
/// # Errors
/// If there is no space, or the file system cannot do it.
pub fn reserve(file: &File, offset: u64, len: u64) -> Result<()> {
    fallocate(file, FallocateFlags::KEEP_SIZE, offset, len)
}

/// Makes a part of a file a hole.
///
/// # Errors
/// If the file system cannot do it.
pub fn punch_hole(file: &File, offset: u64, len: u64) -> Result<()> {
    fallocate(file, FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE, offset, len)
}

/// Starts to write a part of a file to the disk, and keeps it in memory.
pub fn start_write_back(file: &File, offset: u64, len: u64) {
    let _ = fadvise(file, offset, NonZeroU64::new(len), Advice::DontNeed);
}

/// The [`Birth`] of a name in a folder. Links are not followed. `None` if the file system does not tell the time.
pub fn birth(dir: impl AsFd, name: &OsStr) -> Option<Birth> {
    birth_of(statx(dir, name, AtFlags::SYMLINK_NOFOLLOW, StatxFlags::INO | StatxFlags::BTIME))
}

/// The [`Birth`] of an open file.
pub fn birth_of_open(file: impl AsFd) -> Option<Birth> {
    birth_of(statx(file, "", AtFlags::EMPTY_PATH, StatxFlags::INO | StatxFlags::BTIME))
}

fn birth_of(told: Result<Statx>) -> Option<Birth> {
    let needed = (StatxFlags::INO | StatxFlags::BTIME).bits();
    let told = told.ok().filter(|told| told.stx_mask & needed == needed)?;
    Some(Birth { inode: told.stx_ino, seconds: told.stx_btime.tv_sec, nanoseconds: told.stx_btime.tv_nsec })
}

/// Opens a file to which its owner has no permission any more, if `is_fit`. Its owner gets the permission then, while those of others stay,
/// so that the mode still shows that they could open it.
///
/// # Errors
/// [`Errno::ACCESS`] if it is not fit, and those of the system.
pub fn open_without_permission(
    dir: &File,
    name: &str,
    flags: OFlags,
    is_fit: impl FnOnce(&Stat) -> bool,
) -> Result<File> {
    // The path of a descriptor leads to the open file itself, so a link that takes the name meanwhile is not followed.
    let file = openat(dir, name, OFlags::PATH | flags, Mode::empty())?;
    let stat = fstat(&file)?;
    if !is_fit(&stat) {
        return Err(Errno::ACCESS);
    }
    let path = format!("/proc/self/fd/{}", file.as_raw_fd());
    chmod(&*path, Mode::from_raw_mode(stat.st_mode) | Mode::RUSR | Mode::WUSR)?;
    open(&*path, OFlags::RDWR | OFlags::NONBLOCK | OFlags::CLOEXEC, Mode::empty()).map(File::from)
}
