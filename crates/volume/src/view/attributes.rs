//! The attributes of a folder, file or link.

use super::FILE;
use super::nodes::{FolderEntry, Id, Kind};
use fuser::{FileAttr, FileType, INodeNo};
use phalanx_core::format::Header;
use rustix::fs::{self as sys, Mode, Stat};
use std::ffi::OsStr;
use std::fs::File;
use std::io::BufReader;
use std::os::fd::OwnedFd;
use std::time::{Duration, SystemTime};

/// The length of the plaintext, computed from the header and the file's length. It is not authenticated before the file
/// is opened. It is 0 if the file cannot be a protected file; opening it reports why.
pub fn plain_len(folder: &OwnedFd, stored: &OsStr, stat: &Stat) -> u64 {
    let len = || -> Option<u64> {
        let file = File::from(sys::openat(folder, stored, FILE, Mode::empty()).ok()?);
        if Id::of(&sys::fstat(&file).ok()?) != Id::of(stat) {
            return None;
        }
        let header = Header::read(&mut BufReader::with_capacity(4096, file)).ok()?;
        header.layout_for_file(u64::try_from(stat.st_size).ok()?).ok().map(|layout| layout.plaintext_len())
    };
    len().unwrap_or(0)
}

impl FolderEntry {
    pub fn attr(&self, ino: u64) -> FileAttr {
        attr(ino, self.kind, &self.stat, self.plain.map(|plain| plain.len))
    }
}

pub fn attr(ino: u64, kind: Kind, stat: &Stat, plain_len: Option<u64>) -> FileAttr {
    let size = plain_len.unwrap_or(u64::try_from(stat.st_size).unwrap_or(0));
    let (kind, may) = match kind {
        Kind::Folder => (FileType::Directory, 0o7777),
        Kind::File => (FileType::RegularFile, 0o555),
        Kind::Link => (FileType::Symlink, 0o777),
    };
    let mtime = time(stat.st_mtime, stat.st_mtime_nsec);
    FileAttr {
        ino: INodeNo(ino),
        size,
        blocks: size.div_ceil(512),
        atime: time(stat.st_atime, stat.st_atime_nsec),
        mtime,
        ctime: time(stat.st_ctime, stat.st_ctime_nsec),
        crtime: mtime,
        kind,
        perm: stat.st_mode as u16 & may,
        nlink: u32::try_from(stat.st_nlink).unwrap_or(u32::MAX),
        uid: stat.st_uid,
        gid: stat.st_gid,
        rdev: 0,
        blksize: 4096,
        flags: 0,
    }
}

/// A time of the file system, which may lie before 1970.
pub(super) fn time(seconds: i64, nanos: u64) -> SystemTime {
    let whole = Duration::from_secs(seconds.unsigned_abs());
    let at =
        if seconds < 0 { SystemTime::UNIX_EPOCH.checked_sub(whole) } else { SystemTime::UNIX_EPOCH.checked_add(whole) };
    at.and_then(|at| at.checked_add(Duration::from_nanos(nanos))).unwrap_or(SystemTime::UNIX_EPOCH)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_may_lie_before_1970() {
        let (second, half) = (Duration::from_secs(1), Duration::from_millis(500));
        assert_eq!(time(1, 500_000_000), SystemTime::UNIX_EPOCH + second + half);
        assert_eq!(time(-1, 500_000_000), SystemTime::UNIX_EPOCH - half);
        // No time of a file system makes this panic.
        for seconds in [i64::MIN, i64::MAX] {
            let _ = time(seconds, u64::MAX);
        }
    }
}
