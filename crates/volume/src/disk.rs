//! The system calls that change stored files and the journal. Tests replace them with calls that fail.

use rustix::fs::{FallocateFlags, fallocate, fdatasync, fsync, syncfs};
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

/// Changes stored files and the journal, and makes changes durable. The default methods use the system's calls; tests
/// override them.
pub trait Disk: Send + Sync {
    /// Writes all bytes at an offset.
    ///
    /// # Errors
    /// If not all of them were written.
    fn write(&self, file: &File, bytes: &[u8], offset: u64) -> io::Result<()> {
        file.write_all_at(bytes, offset)
    }

    /// Sets the length of a file, in bytes.
    ///
    /// # Errors
    /// If the system refuses.
    fn set_len(&self, file: &File, len: u64) -> io::Result<()> {
        file.set_len(len)
    }

    /// Reserves space for a range. The length of the file stays.
    ///
    /// # Errors
    /// If there is no space, or the file system does not know the call.
    fn reserve(&self, file: &File, offset: u64, len: u64) -> io::Result<()> {
        Ok(fallocate(file, FallocateFlags::KEEP_SIZE, offset, len)?)
    }

    /// Reserves space for a range and makes the file at least as long as its end.
    ///
    /// # Errors
    /// If there is no space, or the file system does not know the call.
    fn extend(&self, file: &File, offset: u64, len: u64) -> io::Result<()> {
        Ok(fallocate(file, FallocateFlags::empty(), offset, len)?)
    }

    /// Gives the space of a range back.
    ///
    /// # Errors
    /// If the file system cannot do it.
    fn punch(&self, file: &File, offset: u64, len: u64) -> io::Result<()> {
        Ok(fallocate(file, FallocateFlags::KEEP_SIZE | FallocateFlags::PUNCH_HOLE, offset, len)?)
    }

    /// Syncs a file's content and length.
    ///
    /// # Errors
    /// If the system reports that something was not written.
    fn sync_data(&self, file: &File) -> io::Result<()> {
        Ok(fdatasync(file)?)
    }

    /// Syncs a file with its metadata.
    ///
    /// # Errors
    /// If the system reports that something was not written.
    fn sync_all(&self, file: &File) -> io::Result<()> {
        Ok(fsync(file)?)
    }

    /// Syncs the whole file system.
    ///
    /// # Errors
    /// If the system reports that something was not written.
    fn sync_file_system(&self, file: &File) -> io::Result<()> {
        Ok(syncfs(file)?)
    }
}

/// The system's calls.
#[derive(Clone, Copy, Debug, Default)]
pub struct System;

impl Disk for System {}

/// Whether one call syncs the whole file system and reports lost writes (Linux 5.8 and later).
pub(crate) fn reports_lost_writes(file: &File) -> bool {
    const EXT: u64 = 0xef53;
    const XFS: u64 = 0x5846_5342;
    const BTRFS: u64 = 0x9123_683e;
    let release = rustix::system::uname();
    let mut numbers = release.release().to_str().unwrap_or("").split(['.', '-']).map(|part| part.parse().unwrap_or(0));
    let version: (u32, u32) = (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0));
    version >= (5, 8) && rustix::fs::fstatfs(file).is_ok_and(|stat| [EXT, XFS, BTRFS].contains(&(stat.f_type as u64)))
}
