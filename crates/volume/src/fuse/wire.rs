//! The layout of requests and answers: numbers in the byte order of the machine, each at a multiple of its size.

use crate::tree::{Attr, Kind, Owner};
use rustix::fs::FileType;
use rustix::io::Errno;
use std::time::Duration;

/// What the kernel asks for.
pub mod opcode {
    pub const LOOKUP: u32 = 1;
    pub const FORGET: u32 = 2;
    pub const GETATTR: u32 = 3;
    pub const SETATTR: u32 = 4;
    pub const READLINK: u32 = 5;
    pub const SYMLINK: u32 = 6;
    pub const MKNOD: u32 = 8;
    pub const MKDIR: u32 = 9;
    pub const UNLINK: u32 = 10;
    pub const RMDIR: u32 = 11;
    pub const RENAME: u32 = 12;
    pub const LINK: u32 = 13;
    pub const OPEN: u32 = 14;
    pub const READ: u32 = 15;
    pub const WRITE: u32 = 16;
    pub const STATFS: u32 = 17;
    pub const RELEASE: u32 = 18;
    pub const FSYNC: u32 = 20;
    pub const SETXATTR: u32 = 21;
    pub const GETXATTR: u32 = 22;
    pub const LISTXATTR: u32 = 23;
    pub const REMOVEXATTR: u32 = 24;
    pub const FLUSH: u32 = 25;
    pub const INIT: u32 = 26;
    pub const OPENDIR: u32 = 27;
    pub const READDIR: u32 = 28;
    pub const RELEASEDIR: u32 = 29;
    pub const FSYNCDIR: u32 = 30;
    pub const ACCESS: u32 = 34;
    pub const CREATE: u32 = 35;
    pub const INTERRUPT: u32 = 36;
    pub const DESTROY: u32 = 38;
    pub const BATCH_FORGET: u32 = 42;
    pub const FALLOCATE: u32 = 43;
    pub const READDIRPLUS: u32 = 44;
    pub const RENAME2: u32 = 45;
    pub const LSEEK: u32 = 46;
}

/// The length of the header of each request.
pub const HEAD: usize = 40;

/// The length of what follows the header: the numbers of a request. After them come names and data.
pub fn numbers_len(code: u32) -> usize {
    match code {
        opcode::FORGET | opcode::RENAME | opcode::LINK | opcode::MKDIR | opcode::OPEN | opcode::OPENDIR => 8,
        opcode::SETXATTR | opcode::GETXATTR | opcode::LISTXATTR | opcode::ACCESS | opcode::INTERRUPT => 8,
        opcode::BATCH_FORGET => 8,
        opcode::GETATTR | opcode::MKNOD | opcode::CREATE | opcode::RENAME2 | opcode::FSYNC | opcode::FSYNCDIR => 16,
        opcode::RELEASE | opcode::RELEASEDIR | opcode::FLUSH | opcode::LSEEK => 24,
        opcode::FALLOCATE => 32,
        opcode::READ | opcode::WRITE | opcode::READDIR | opcode::READDIRPLUS => 40,
        opcode::SETATTR => 88,
        _ => 0,
    }
}

/// The header of a request.
#[derive(Clone, Copy, Debug)]
pub struct Head {
    pub opcode: u32,
    pub unique: u64,
    pub node: u64,
    pub by: Owner,
    /// The thread of the program, or 0.
    pub thread: u32,
}

impl Head {
    pub fn read(bytes: &[u8]) -> Result<Self, Errno> {
        let mut fields = Fields(bytes);
        let (_len, opcode) = (fields.u32()?, fields.u32()?);
        let (unique, node) = (fields.u64()?, fields.u64()?);
        let by = Owner { uid: fields.u32()?, gid: fields.u32()? };
        Ok(Self { opcode, unique, node, by, thread: fields.u32()? })
    }

    /// The thread that waits for the answer: 0 if this process cannot see it, and `None` if the kernel makes such requests
    /// for nobody in particular.
    pub fn sender(&self) -> Option<u32> {
        (!matches!(self.opcode, opcode::WRITE | opcode::RELEASE | opcode::RELEASEDIR)).then_some(self.thread)
    }

    /// Nobody waits for an answer, and none may be sent.
    pub fn is_forget(&self) -> bool {
        matches!(self.opcode, opcode::FORGET | opcode::BATCH_FORGET)
    }
}

/// The header of an answer.
pub fn answer_head(unique: u64, answer: Result<usize, Errno>) -> [u8; 16] {
    let (len, error) = match answer {
        Ok(len) => (len, 0),
        // The kernel refuses the numbers from 512 on. They are for its own use, but some file systems let them out.
        Err(errno) if errno.raw_os_error() < 512 => (0, -errno.raw_os_error()),
        Err(_) => (0, -Errno::IO.raw_os_error()),
    };
    let mut head = [0; 16];
    head[..4].copy_from_slice(&(16 + len as u32).to_ne_bytes());
    head[4..8].copy_from_slice(&error.to_ne_bytes());
    head[8..].copy_from_slice(&unique.to_ne_bytes());
    head
}

/// The numbers of a request, in order.
pub struct Fields<'a>(pub &'a [u8]);

impl Fields<'_> {
    fn take<const N: usize>(&mut self) -> Result<[u8; N], Errno> {
        let (first, rest) = self.0.split_first_chunk().ok_or(Errno::IO)?;
        self.0 = rest;
        Ok(*first)
    }

    pub fn u32(&mut self) -> Result<u32, Errno> {
        self.take().map(u32::from_ne_bytes)
    }

    pub fn u64(&mut self) -> Result<u64, Errno> {
        self.take().map(u64::from_ne_bytes)
    }
}

/// Splits a name off the data of a request. A zero ends it.
pub fn name(data: &[u8]) -> Result<(&[u8], &[u8]), Errno> {
    let end = data.iter().position(|byte| *byte == 0).ok_or(Errno::IO)?;
    Ok((&data[..end], &data[end + 1..]))
}

/// How a file is written to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WriteFlags(pub(super) u32);

impl WriteFlags {
    /// The kernel passes on what a program has written earlier.
    #[must_use]
    pub fn is_cached(self) -> bool {
        self.0 & 1 != 0
    }

    /// Set-user-ID and set-group-ID are to be cleared.
    #[must_use]
    pub fn takes_set_ids(self) -> bool {
        self.0 & 4 != 0
    }
}

/// The numbers of an answer, in order. None has more.
pub struct Body {
    bytes: [u8; 160],
    len: usize,
}

impl Body {
    pub fn new() -> Self {
        Self { bytes: [0; 160], len: 0 }
    }

    pub fn u32(mut self, number: u32) -> Self {
        self.bytes[self.len..self.len + 4].copy_from_slice(&number.to_ne_bytes());
        self.len += 4;
        self
    }

    /// Two numbers of 16 bits.
    pub fn pair(self, first: u16, second: u16) -> Self {
        let ([a, b], [c, d]) = (first.to_ne_bytes(), second.to_ne_bytes());
        self.u32(u32::from_ne_bytes([a, b, c, d]))
    }

    pub fn u64(mut self, number: u64) -> Self {
        self.bytes[self.len..self.len + 8].copy_from_slice(&number.to_ne_bytes());
        self.len += 8;
        self
    }

    /// A node that the kernel gets, and how long it may keep the name and the attributes.
    pub fn entry(self, attr: &Attr, lifetime: Duration) -> Self {
        const GENERATION: u64 = 0;
        let (seconds, nanos) = (lifetime.as_secs(), lifetime.subsec_nanos());
        self.u64(attr.number).u64(GENERATION).u64(seconds).u64(seconds).u32(nanos).u32(nanos).attributes(attr)
    }

    /// There is no node of this name: how long the kernel may keep this.
    pub fn no_entry(mut self, lifetime: Duration) -> Self {
        // No number and no generation. All that follows has no meaning.
        self = self.u64(0).u64(0).u64(lifetime.as_secs()).u64(0).u32(lifetime.subsec_nanos());
        self.len = 128;
        self
    }

    /// The attributes of a node, and how long the kernel may keep them.
    pub fn attr(self, attr: &Attr, lifetime: Duration) -> Self {
        self.u64(lifetime.as_secs()).u32(lifetime.subsec_nanos()).u32(0).attributes(attr)
    }

    fn attributes(self, attr: &Attr) -> Self {
        const FLAGS: u32 = 0;
        let times = [attr.atime, attr.mtime, attr.ctime];
        let body = self.u64(attr.number).u64(attr.size).u64(attr.blocks);
        let body = times.iter().fold(body, |body, time| body.u64(time.0.cast_unsigned()));
        let body = times.iter().fold(body, |body, time| body.u32(time.1));
        body.u32(file_type(attr.kind).as_raw_mode() | attr.mode & 0o7777)
            .u32(attr.links)
            .u32(attr.uid)
            .u32(attr.gid)
            .u32(attr.device as u32)
            .u32(attr.block_size)
            .u32(FLAGS)
    }

    pub fn bytes(&self) -> &[u8] {
        &self.bytes[..self.len]
    }
}

fn file_type(kind: Kind) -> FileType {
    match kind {
        Kind::Folder => FileType::Directory,
        Kind::File => FileType::RegularFile,
        Kind::Link => FileType::Symlink,
        Kind::Fifo => FileType::Fifo,
        Kind::Socket => FileType::Socket,
        Kind::Char => FileType::CharacterDevice,
        Kind::Block => FileType::BlockDevice,
    }
}

/// The length of `struct fuse_entry_out`: a node with its attributes, and how long they may be kept.
const ENTRY: usize = 128;

/// The entries of a folder, as many as there is room for.
pub struct Entries<'a> {
    room: &'a mut [u8],
    len: usize,
    lifetime: Duration,
}

impl<'a> Entries<'a> {
    pub(super) fn new(room: &'a mut [u8], lifetime: Duration) -> Self {
        Self { room, len: 0, lifetime }
    }

    pub(super) fn len(&self) -> usize {
        self.len
    }

    /// Whether none was added.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Adds an entry; the list goes on at `next` after it. Returns whether there was no room for it.
    #[must_use]
    pub fn add(&mut self, number: u64, next: u64, kind: Kind, name: &[u8]) -> bool {
        self.push(&[], number, next, kind, name)
    }

    /// Adds an entry with its attributes. The kernel knows it from then on. Returns whether there was no room for it.
    #[must_use]
    pub fn add_known(&mut self, attr: &Attr, next: u64, name: &[u8]) -> bool {
        let entry = Body::new().entry(attr, self.lifetime);
        self.push(entry.bytes(), attr.number, next, attr.kind, name)
    }

    /// Adds an entry to a list of entries with attributes, without any. The kernel looks it up by itself. Returns whether there
    /// was no room for it.
    #[must_use]
    pub fn add_unknown(&mut self, number: u64, next: u64, kind: Kind, name: &[u8]) -> bool {
        self.push(&[0; ENTRY], number, next, kind, name)
    }

    fn push(&mut self, entry: &[u8], number: u64, next: u64, kind: Kind, name: &[u8]) -> bool {
        let kind = file_type(kind).as_raw_mode() >> 12;
        let numbers = Body::new().u64(number).u64(next).u32(name.len() as u32).u32(kind);
        let parts = [entry, numbers.bytes(), name];
        let len = parts.iter().map(|part| part.len()).sum::<usize>().next_multiple_of(8);
        let Some(mut room) = self.room.get_mut(self.len..self.len + len) else { return true };
        for part in parts {
            let (here, rest) = room.split_at_mut(part.len());
            here.copy_from_slice(part);
            room = rest;
        }
        room.fill(0);
        self.len += len;
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn attr() -> Attr {
        let (atime, mtime, ctime) = ((-1, 2), (3, 4), (5, 6));
        let (number, kind, size, blocks, mode, links) = (7, Kind::Link, 8, 9, 0o640, 10);
        let (uid, gid, device, block_size) = (11, 12, 13, 14);
        Attr { number, kind, size, blocks, atime, mtime, ctime, mode, links, uid, gid, device, block_size }
    }

    #[test]
    fn answers_have_the_lengths_of_the_kernels_structures() {
        let lifetime = Duration::new(1, 5);
        let entry = Body::new().entry(&attr(), lifetime);
        assert_eq!(entry.bytes().len(), ENTRY);
        let body = Body::new().attr(&attr(), lifetime);
        assert_eq!(body.bytes().len(), 104);
        assert_eq!(body.bytes()[16..], entry.bytes()[40..], "both end with the same attributes");
        assert_eq!(body.bytes()[40..48], (-1i64).to_ne_bytes());
        assert_eq!(body.bytes()[76..80], (0o120640u32).to_ne_bytes());
        assert_eq!(answer_head(5, Ok(104))[..4], 120u32.to_ne_bytes());
        assert_eq!(answer_head(5, Err(Errno::NOENT))[4..8], (-2i32).to_ne_bytes());
    }

    #[test]
    fn names_end_with_a_zero() {
        assert_eq!(name(b"a\0bc\0"), Ok((&b"a"[..], &b"bc\0"[..])));
        assert_eq!(name(b"\0"), Ok((&b""[..], &b""[..])));
        assert_eq!(name(b"abc"), Err(Errno::IO));
        assert_eq!(name(b""), Err(Errno::IO));
    }

    #[test]
    fn a_list_has_whole_entries_alone() {
        let mut room = [0xff; 100];
        let mut entries = Entries::new(&mut room, Duration::ZERO);
        assert!(!entries.add(1, 2, Kind::Folder, b"nine char"));
        assert_eq!(entries.len(), 40);
        assert!(entries.add(1, 2, Kind::File, &[b'a'; 40]), "it would be longer than what is left");
        assert!(!entries.add(3, 4, Kind::File, &[b'a'; 32]));
        assert_eq!(entries.len(), 96);
        assert_eq!(room[24..40], *b"nine char\0\0\0\0\0\0\0");
        assert_eq!(room[20..24], 4u32.to_ne_bytes(), "DT_DIR");
    }
}
