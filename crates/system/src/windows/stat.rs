//! What a file or folder is.

use super::io::{Errno, Result};
use super::nt::{self, Device};
use std::os::windows::io::BorrowedHandle;
use windows_sys::Win32::Storage::FileSystem::{
    FILE_ATTRIBUTE_DIRECTORY, FILE_ATTRIBUTE_READONLY, FILE_ATTRIBUTE_REPARSE_POINT, FILE_ATTRIBUTE_TAG_INFO,
    FILE_BASIC_INFO, FILE_ID_INFO, FILE_STANDARD_INFO, FileAttributeTagInfo, FileBasicInfo, FileIdInfo,
    FileStandardInfo, GetFileInformationByHandle,
};

/// What is known of a file or folder. The fields have the names and meanings that they have on Unix.
#[derive(Clone, Copy, Debug)]
pub struct Stat {
    /// The number of the volume.
    pub st_dev: u64,
    /// The number of the file on it.
    pub st_ino: u64,
    /// What it is, and permissions that stand for those that Windows does not have: everybody may read it, and its owner may write
    /// to it if it is not read-only. Who may open it indeed is in its access control list: [`crate::files::access`].
    pub st_mode: u32,
    /// How many names it has.
    pub st_nlink: u64,
    /// The owner. It says nothing: it is that of the process.
    pub st_uid: u32,
    /// The group. It says nothing either.
    pub st_gid: u32,
    /// The length in bytes.
    pub st_size: i64,
    /// The last access, in seconds.
    pub st_atime: i64,
    /// Its nanoseconds.
    pub st_atime_nsec: u64,
    /// The last change of the content, in seconds.
    pub st_mtime: i64,
    /// Its nanoseconds.
    pub st_mtime_nsec: u64,
    /// The last change of the content or of what is known of it, in seconds.
    pub st_ctime: i64,
    /// Its nanoseconds.
    pub st_ctime_nsec: u64,
    /// When it was made, in seconds.
    pub st_birthtime: i64,
    /// Its nanoseconds.
    pub st_birthtime_nsec: u64,
}

/// What has a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FileType {
    /// A file.
    RegularFile,
    /// A folder.
    Directory,
    /// A symbolic link, or a junction.
    Symlink,
    /// A pipe.
    Fifo,
    /// A console or another device that is read in order.
    CharacterDevice,
    /// A device of blocks. Windows names none like a file.
    BlockDevice,
    /// A socket. Windows names none like a file.
    Socket,
    /// Something else.
    Unknown,
}

const KIND: u32 = 0o170_000;

impl FileType {
    /// The kind that a mode says.
    #[must_use]
    pub const fn from_raw_mode(mode: u32) -> Self {
        match mode & KIND {
            0o100_000 => Self::RegularFile,
            0o040_000 => Self::Directory,
            0o120_000 => Self::Symlink,
            0o010_000 => Self::Fifo,
            0o020_000 => Self::CharacterDevice,
            _ => Self::Unknown,
        }
    }

    /// The bits in a mode that say this kind.
    #[must_use]
    pub const fn as_raw_mode(self) -> u32 {
        match self {
            Self::RegularFile => 0o100_000,
            Self::Directory => 0o040_000,
            Self::Symlink => 0o120_000,
            Self::Fifo => 0o010_000,
            Self::CharacterDevice => 0o020_000,
            Self::BlockDevice | Self::Socket | Self::Unknown => 0,
        }
    }

    /// The kind of an entry with these attributes. A reparse point is a link only if its tag says that it stands for another file:
    /// others are files that a program of the system completes, such as those of a cloud.
    pub(super) const fn of(attributes: u32, tag: u32) -> Self {
        const STANDS_FOR_ANOTHER: u32 = 0x2000_0000;
        if attributes & FILE_ATTRIBUTE_REPARSE_POINT != 0 && tag & STANDS_FOR_ANOTHER != 0 {
            Self::Symlink
        } else if attributes & FILE_ATTRIBUTE_DIRECTORY != 0 {
            Self::Directory
        } else {
            Self::RegularFile
        }
    }
}

/// The kind of an open file or folder on a disk.
pub fn kind(file: BorrowedHandle<'_>) -> Result<FileType> {
    let tags = tags(file)?;
    Ok(FileType::of(tags.FileAttributes, tags.ReparseTag))
}

/// The attributes of an open file or folder, and its tag.
pub fn tags(file: BorrowedHandle<'_>) -> Result<FILE_ATTRIBUTE_TAG_INFO> {
    // SAFETY: it is the structure of this class, and all bits are valid numbers.
    #[expect(unsafe_code)]
    unsafe {
        nt::query(file, FileAttributeTagInfo)
    }
}

/// The times and attributes of an open file or folder.
pub fn basic(file: BorrowedHandle<'_>) -> Result<FILE_BASIC_INFO> {
    // SAFETY: it is the structure of this class, and all bits are valid numbers.
    #[expect(unsafe_code)]
    unsafe {
        nt::query(file, FileBasicInfo)
    }
}

/// What is known of an open file, folder, pipe or device.
pub fn of(file: BorrowedHandle<'_>) -> Result<Stat> {
    let mut stat = Stat {
        st_dev: 0,
        st_ino: 0,
        st_mode: 0,
        st_nlink: 1,
        st_uid: super::process::USER,
        st_gid: super::process::USER,
        st_size: 0,
        st_atime: 0,
        st_atime_nsec: 0,
        st_mtime: 0,
        st_mtime_nsec: 0,
        st_ctime: 0,
        st_ctime_nsec: 0,
        st_birthtime: 0,
        st_birthtime_nsec: 0,
    };
    let kind = match nt::device(file) {
        Device::Disk => kind(file)?,
        Device::Pipe => FileType::Fifo,
        Device::Character => FileType::CharacterDevice,
        Device::Other => FileType::Unknown,
    };
    if nt::device(file) != Device::Disk {
        stat.st_mode = kind.as_raw_mode() | 0o600;
        return Ok(stat);
    }
    let basic = basic(file)?;
    // SAFETY: it is the structure of this class. The system writes 0 or 1 to its flags.
    #[expect(unsafe_code)]
    let standard: FILE_STANDARD_INFO = unsafe { nt::query(file, FileStandardInfo)? };
    (stat.st_dev, stat.st_ino) = id(file)?;
    let write = if basic.FileAttributes & FILE_ATTRIBUTE_READONLY == 0 { 0o200 } else { 0 };
    stat.st_mode = kind.as_raw_mode()
        | match kind {
            FileType::RegularFile => 0o444 | write,
            _ => 0o755,
        };
    stat.st_nlink = standard.NumberOfLinks.into();
    stat.st_size = if kind == FileType::RegularFile { standard.EndOfFile } else { 0 };
    (stat.st_atime, stat.st_atime_nsec) = from_ticks(basic.LastAccessTime);
    (stat.st_mtime, stat.st_mtime_nsec) = from_ticks(basic.LastWriteTime);
    (stat.st_ctime, stat.st_ctime_nsec) = from_ticks(basic.ChangeTime);
    (stat.st_birthtime, stat.st_birthtime_nsec) = from_ticks(basic.CreationTime);
    Ok(stat)
}

/// The numbers of the volume and of the file on it. A number of 128 bits, as ReFS has them, is made shorter: its halves are a folder
/// and a number in it.
fn id(file: BorrowedHandle<'_>) -> Result<(u64, u64)> {
    const SPREAD: u64 = 0x9e37_79b9_7f4a_7c15;
    // SAFETY: it is the structure of this class, and all bits are valid numbers.
    #[expect(unsafe_code)]
    let told: Result<FILE_ID_INFO> = unsafe { nt::query(file, FileIdInfo) };
    if let Ok(told) = told {
        let number = u128::from_le_bytes(told.FileId.Identifier);
        let (low, high) = (number as u64, (number >> 64) as u64);
        return Ok((told.VolumeSerialNumber, low ^ high.wrapping_mul(SPREAD)));
    }
    // Windows 7 and some file systems of a network know only the older call.
    older_id(file)
}

fn older_id(file: BorrowedHandle<'_>) -> Result<(u64, u64)> {
    use std::os::windows::io::AsRawHandle;
    let mut told = windows_sys::Win32::Storage::FileSystem::BY_HANDLE_FILE_INFORMATION::default();
    // SAFETY: the handle is open, and the structure is writable.
    #[expect(unsafe_code)]
    if unsafe { GetFileInformationByHandle(file.as_raw_handle(), &mut told) } == 0 {
        return Err(Errno::last());
    }
    let number = u64::from(told.nFileIndexHigh) << 32 | u64::from(told.nFileIndexLow);
    Ok((told.dwVolumeSerialNumber.into(), number))
}

/// Seconds from 1601, when Windows begins to count, to 1970.
const TO_1970: i64 = 11_644_473_600;
const TICKS: i64 = 10_000_000;

/// Seconds since 1970, and nanoseconds, of a number of 100 nanoseconds since 1601.
fn from_ticks(ticks: i64) -> (i64, u64) {
    (ticks.div_euclid(TICKS) - TO_1970, ticks.rem_euclid(TICKS) as u64 * 100)
}

/// The reverse. A time that Windows cannot have becomes the nearest one that it can have; 0 and negative numbers have a meaning of
/// their own.
pub fn to_ticks(seconds: i64, nanoseconds: i64) -> i64 {
    let ticks = i128::from(seconds) + i128::from(TO_1970);
    let ticks = ticks * i128::from(TICKS) + i128::from(nanoseconds / 100);
    ticks.clamp(1, i64::MAX.into()) as i64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_the_same_there_and_back() {
        for (seconds, nanos) in [(0, 0), (1_700_000_000, 123_456_700), (-1, 999_999_900), (-11_644_473_599, 0)] {
            assert_eq!(from_ticks(to_ticks(seconds, nanos)), (seconds, nanos as u64), "{seconds}");
        }
        assert_eq!(to_ticks(i64::MIN, 0), 1);
        assert_eq!(to_ticks(i64::MAX, 0), i64::MAX);
    }

    #[test]
    fn modes_say_kinds() {
        for kind in [FileType::RegularFile, FileType::Directory, FileType::Symlink, FileType::Fifo] {
            assert_eq!(FileType::from_raw_mode(kind.as_raw_mode() | 0o644), kind);
        }
    }
}
