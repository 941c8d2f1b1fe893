//! Conversions between the types of the tree and those of FUSE.

use crate::error::VolumeError;
use crate::tree::{Attr, Kind, Owner};
use fuser::{Errno, FileAttr, FileType, INodeNo, ReplyXattr, Request, TimeOrNow};
use rustix::fs::Timespec;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// How long the kernel may cache names and attributes. Nobody else should change the volume; if somebody does, it shows
/// after this time.
pub(super) const TTL: Duration = Duration::from_secs(1);

pub(super) fn errno(error: &VolumeError) -> Errno {
    match error.errno() {
        // `ENOSYS` would make the kernel never send this request again and treat it as done.
        rustix::io::Errno::NOSYS => Errno::EIO,
        errno => Errno::from_i32(errno.raw_os_error()),
    }
}

pub(super) fn owner(request: &Request) -> Owner {
    Owner { uid: request.uid(), gid: request.gid() }
}

pub(super) fn file_attr(attr: &Attr) -> FileAttr {
    FileAttr {
        ino: INodeNo(attr.number),
        size: attr.size,
        blocks: attr.blocks,
        atime: time(attr.atime),
        mtime: time(attr.mtime),
        ctime: time(attr.ctime),
        crtime: UNIX_EPOCH,
        kind: file_type(attr.kind),
        perm: attr.mode as u16,
        nlink: attr.links,
        uid: attr.uid,
        gid: attr.gid,
        rdev: attr.device as u32,
        blksize: attr.block_size,
        flags: 0,
    }
}

pub(super) fn file_type(kind: Kind) -> FileType {
    match kind {
        Kind::Folder => FileType::Directory,
        Kind::File => FileType::RegularFile,
        Kind::Link => FileType::Symlink,
        Kind::Fifo => FileType::NamedPipe,
        Kind::Socket => FileType::Socket,
        Kind::Char => FileType::CharDevice,
        Kind::Block => FileType::BlockDevice,
    }
}

pub(super) fn kind(file_type: rustix::fs::FileType) -> Option<Kind> {
    use rustix::fs::FileType as Type;
    Some(match file_type {
        Type::RegularFile => Kind::File,
        Type::Fifo => Kind::Fifo,
        Type::Socket => Kind::Socket,
        Type::CharacterDevice => Kind::Char,
        Type::BlockDevice => Kind::Block,
        _ => return None,
    })
}

/// Converts seconds, which may lie before 1970, and nanoseconds.
fn time((seconds, nanos): (i64, u32)) -> SystemTime {
    let whole = Duration::from_secs(seconds.unsigned_abs());
    let base = if seconds < 0 { UNIX_EPOCH.checked_sub(whole) } else { UNIX_EPOCH.checked_add(whole) };
    base.and_then(|base| base.checked_add(Duration::from_nanos(nanos.into()))).unwrap_or(UNIX_EPOCH)
}

pub(super) fn time_or_now(time: TimeOrNow) -> Timespec {
    let time = match time {
        TimeOrNow::SpecificTime(time) => time,
        TimeOrNow::Now => SystemTime::now(),
    };
    match time.duration_since(UNIX_EPOCH) {
        Ok(since) => Timespec { tv_sec: since.as_secs() as i64, tv_nsec: since.subsec_nanos().into() },
        Err(before) => {
            let before = before.duration();
            let (seconds, nanos) = (before.as_secs() as i64, i64::from(before.subsec_nanos()));
            if nanos == 0 {
                Timespec { tv_sec: -seconds, tv_nsec: 0 }
            } else {
                Timespec { tv_sec: -seconds - 1, tv_nsec: 1_000_000_000 - nanos }
            }
        }
    }
}

/// Answers with the value if there is room for it, or with its length if `room` is 0.
pub(super) fn sized(value: &[u8], room: u32, reply: ReplyXattr) {
    match room as usize {
        0 => reply.size(value.len() as u32),
        room if room < value.len() => reply.error(Errno::ERANGE),
        _ => reply.data(value),
    }
}
