//! Files: rustix with the types that it has on Linux, and what differs between systems.

pub use super::acl::remove as remove_access_list;
pub use super::folders::{Dir, DirEntry};
pub use crate::told::{Birth, FileSystem};
use rustix::fs as system;
pub use rustix::fs::*;
use rustix::io::{Errno, Result};
use rustix::path::Arg;
use std::ffi::{CStr, OsStr};
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, OwnedFd};

/// Opens a folder only to reach its entries. Here it must be readable.
pub const SEARCH: OFlags = OFlags::RDONLY;

/// What the system tells about a file, in the types that Linux has.
#[derive(Clone, Copy, Debug)]
#[expect(missing_docs, reason = "the names are those of stat(2)")]
pub struct Stat {
    pub st_dev: u64,
    pub st_ino: u64,
    pub st_mode: u32,
    pub st_nlink: u64,
    pub st_uid: u32,
    pub st_gid: u32,
    pub st_size: i64,
    pub st_atime: i64,
    pub st_atime_nsec: u64,
    pub st_mtime: i64,
    pub st_mtime_nsec: u64,
    pub st_ctime: i64,
    pub st_ctime_nsec: u64,
}

impl From<system::Stat> for Stat {
    fn from(stat: system::Stat) -> Self {
        Self {
            // As std's `MetadataExt::dev`.
            st_dev: stat.st_dev as u64,
            st_ino: stat.st_ino,
            st_mode: stat.st_mode.into(),
            st_nlink: stat.st_nlink.into(),
            st_uid: stat.st_uid,
            st_gid: stat.st_gid,
            st_size: stat.st_size,
            st_atime: stat.st_atime,
            st_atime_nsec: stat.st_atime_nsec as u64,
            st_mtime: stat.st_mtime,
            st_mtime_nsec: stat.st_mtime_nsec as u64,
            st_ctime: stat.st_ctime,
            st_ctime_nsec: stat.st_ctime_nsec as u64,
        }
    }
}

/// What an entry of a folder is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[expect(missing_docs, reason = "the names are those of rustix")]
pub enum FileType {
    RegularFile,
    Directory,
    Symlink,
    Fifo,
    Socket,
    CharacterDevice,
    BlockDevice,
    Unknown,
}

impl From<system::FileType> for FileType {
    fn from(kind: system::FileType) -> Self {
        match kind {
            system::FileType::RegularFile => Self::RegularFile,
            system::FileType::Directory => Self::Directory,
            system::FileType::Symlink => Self::Symlink,
            system::FileType::Fifo => Self::Fifo,
            system::FileType::Socket => Self::Socket,
            system::FileType::CharacterDevice => Self::CharacterDevice,
            system::FileType::BlockDevice => Self::BlockDevice,
            system::FileType::Unknown => Self::Unknown,
        }
    }
}

impl FileType {
    /// The kind in a mode of stat(2).
    #[must_use]
    pub const fn from_raw_mode(mode: u32) -> Self {
        match mode & 0o170_000 {
            0o100_000 => Self::RegularFile,
            0o040_000 => Self::Directory,
            0o120_000 => Self::Symlink,
            0o010_000 => Self::Fifo,
            0o140_000 => Self::Socket,
            0o020_000 => Self::CharacterDevice,
            0o060_000 => Self::BlockDevice,
            _ => Self::Unknown,
        }
    }
}

/// Permissions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mode(u32);

impl Mode {
    /// Its owner may read it.
    pub const RUSR: Self = Self(0o400);
    /// Its owner may write to it.
    pub const WUSR: Self = Self(0o200);
    /// Its owner may do all.
    pub const RWXU: Self = Self(0o700);

    /// None, or that of a file which is not made.
    #[must_use]
    pub const fn empty() -> Self {
        Self(0)
    }

    /// Those in a mode of stat(2).
    #[must_use]
    pub const fn from_raw_mode(mode: u32) -> Self {
        Self(mode & 0o7777)
    }

    const fn native(self) -> system::Mode {
        system::Mode::from_bits_retain(self.0 as u16)
    }
}

impl std::ops::BitOr for Mode {
    type Output = Self;

    fn bitor(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
}

/// fstat(2).
///
/// # Errors
/// Those of the system.
pub fn fstat(file: impl AsFd) -> Result<Stat> {
    system::fstat(file).map(Stat::from)
}

/// fstatat(2).
///
/// # Errors
/// Those of the system.
pub fn statat(dir: impl AsFd, path: impl Arg, flags: AtFlags) -> Result<Stat> {
    system::statat(dir, path, flags).map(Stat::from)
}

/// open(2).
///
/// # Errors
/// Those of the system.
pub fn open(path: impl Arg, flags: OFlags, mode: Mode) -> Result<OwnedFd> {
    system::open(path, flags, mode.native())
}

/// openat(2).
///
/// # Errors
/// Those of the system.
pub fn openat(dir: impl AsFd, path: impl Arg, flags: OFlags, mode: Mode) -> Result<OwnedFd> {
    system::openat(dir, path, flags, mode.native())
}

/// mkdirat(2).
///
/// # Errors
/// Those of the system.
pub fn mkdirat(dir: impl AsFd, path: impl Arg, mode: Mode) -> Result<()> {
    system::mkdirat(dir, path, mode.native())
}

/// fchmod(2).
///
/// # Errors
/// Those of the system.
pub fn fchmod(file: impl AsFd, mode: Mode) -> Result<()> {
    system::fchmod(file, mode.native())
}

/// The file system that a file is on.
///
/// # Errors
/// If the system does not tell it.
pub fn file_system(file: impl AsFd) -> Result<FileSystem> {
    let name = fstatfs(file)?.f_fstypename.map(|c| c as u8);
    let name = CStr::from_bytes_until_nul(&name).map_or(&b""[..], CStr::to_bytes);
    let is_without = [&b"msdos"[..], b"exfat", b"ntfs", b"smbfs", b"macfuse", b"osxfuse", b"lifs"].contains(&name);
    Ok(if is_without { FileSystem::WithoutPermissions } else { FileSystem::Other })
}

/// Whether [`syncfs`] reports lost writes. It does not exist here, so that each file is synced on its own.
///
/// # Errors
/// None.
pub fn reports_lost_writes(_: impl AsFd) -> Result<bool> {
    Ok(false)
}

/// The system has no call that syncs one file system.
///
/// # Errors
/// [`Errno::NOTSUP`], always.
pub fn syncfs(_: impl AsFd) -> Result<()> {
    Err(Errno::NOTSUP)
}

/// Writes a file or folder to the disk, and out of the disk's own cache. Where the file system cannot do the latter, such as those of
/// networks, it is the server's duty, or nobody's.
///
/// # Errors
/// If something was not written.
pub fn fsync(file: impl AsFd) -> Result<()> {
    match system::fcntl_fullfsync(&file) {
        Err(Errno::NOTSUP | Errno::OPNOTSUPP | Errno::NOTTY | Errno::INVAL | Errno::NODEV) => system::fsync(file),
        done => done,
    }
}

/// Writes a file to the disk, as [`fsync`] does.
///
/// # Errors
/// If something was not written.
pub fn sync_all(file: &File) -> io::Result<()> {
    Ok(fsync(file)?)
}

/// Writes a file to the disk, as [`fsync`] does.
///
/// # Errors
/// If something was not written.
pub fn sync_data(file: &File) -> io::Result<()> {
    Ok(fsync(file)?)
}

/// Space cannot be reserved without changing the length of a file.
///
/// # Errors
/// [`Errno::NOTSUP`], always.
pub fn reserve(_: &File, _: u64, _: u64) -> Result<()> {
    Err(Errno::NOTSUP)
}

/// Holes are not made in files that exist.
///
/// # Errors
/// [`Errno::NOTSUP`], always.
pub fn punch_hole(_: &File, _: u64, _: u64) -> Result<()> {
    Err(Errno::NOTSUP)
}

/// The system decides by itself when it begins to write.
pub fn start_write_back(_: &File, _: u64, _: u64) {}

/// The [`Birth`] of a name in a folder. Links are not followed. `None` if the file system does not tell the time.
pub fn birth(dir: impl AsFd, name: &OsStr) -> Option<Birth> {
    birth_of(system::statat(dir, name, AtFlags::SYMLINK_NOFOLLOW))
}

/// The [`Birth`] of an open file.
pub fn birth_of_open(file: impl AsFd) -> Option<Birth> {
    birth_of(system::fstat(file))
}

fn birth_of(told: Result<system::Stat>) -> Option<Birth> {
    let told = told.ok().filter(|told| told.st_birthtime > 0)?;
    Some(Birth { inode: told.st_ino, seconds: told.st_birthtime, nanoseconds: told.st_birthtime_nsec as u32 })
}

/// Opens a file to which its owner may not write any more, if `is_fit`, to lock it. There is no descriptor by which its permissions could
/// be changed safely if its owner may not read it either.
///
/// # Errors
/// [`Errno::ACCESS`] if it is not fit, and those of the system.
pub fn open_without_permission(
    dir: &File,
    name: &str,
    flags: OFlags,
    is_fit: impl FnOnce(&Stat) -> bool,
) -> Result<File> {
    let file = File::from(openat(dir, name, OFlags::RDONLY | flags, Mode::empty())?);
    if is_fit(&fstat(&file)?) { Ok(file) } else { Err(Errno::ACCESS) }
}
