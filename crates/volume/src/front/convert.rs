//! Conversions between the results of the tree and the answers to the kernel.

use crate::error::Result;
use crate::fuse::{Answer, Time};
use crate::tree::Kind;
use rustix::fs::{FileType, Timespec};
use rustix::io::Errno;
use std::time::{SystemTime, UNIX_EPOCH};

pub(super) fn answer<T>(result: Result<T>) -> Answer<T> {
    result.map_err(|error| match error.errno() {
        // `ENOSYS` would make the kernel never send this request again and treat it as done.
        Errno::NOSYS => Errno::IO,
        errno => errno,
    })
}

/// The kind that `mknod` makes.
pub(super) fn kind(file_type: FileType) -> Option<Kind> {
    Some(match file_type {
        FileType::RegularFile => Kind::File,
        FileType::Fifo => Kind::Fifo,
        FileType::Socket => Kind::Socket,
        FileType::CharacterDevice => Kind::Char,
        FileType::BlockDevice => Kind::Block,
        _ => return None,
    })
}

pub(super) fn timespec(time: Time) -> Timespec {
    match time {
        Time::At(seconds, nanos) => Timespec { tv_sec: seconds, tv_nsec: nanos.into() },
        Time::Now => {
            // A clock before 1970 is wrong.
            let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
            Timespec { tv_sec: since.as_secs().cast_signed(), tv_nsec: since.subsec_nanos().into() }
        }
    }
}
