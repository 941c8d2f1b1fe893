//! The attributes of a folder, file or link.

use super::FILE;
use super::nodes::{FolderEntry, Id, Kind};
use crate::tree::{Attr, Kind as Type};
use phalanx_core::format::Header;
use rustix::fs::{self as sys, Mode, Stat};
use std::ffi::OsStr;
use std::fs::File;
use std::io::BufReader;
use std::os::fd::OwnedFd;

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
    pub fn attr(&self, ino: u64) -> Attr {
        attr(ino, self.kind, &self.stat, self.plain.map(|plain| plain.len))
    }
}

pub fn attr(ino: u64, kind: Kind, stat: &Stat, plain_len: Option<u64>) -> Attr {
    let size = plain_len.unwrap_or(u64::try_from(stat.st_size).unwrap_or(0));
    let (kind, may) = match kind {
        Kind::Folder => (Type::Folder, 0o7777),
        Kind::File => (Type::File, 0o555),
        Kind::Link => (Type::Link, 0o777),
    };
    let time = |seconds: i64, nanos: u64| (seconds, u32::try_from(nanos).unwrap_or(0));
    Attr {
        number: ino,
        size,
        blocks: size.div_ceil(512),
        atime: time(stat.st_atime, stat.st_atime_nsec),
        mtime: time(stat.st_mtime, stat.st_mtime_nsec),
        ctime: time(stat.st_ctime, stat.st_ctime_nsec),
        kind,
        mode: stat.st_mode & may,
        links: u32::try_from(stat.st_nlink).unwrap_or(u32::MAX),
        uid: stat.st_uid,
        gid: stat.st_gid,
        device: 0,
        block_size: 4096,
    }
}
