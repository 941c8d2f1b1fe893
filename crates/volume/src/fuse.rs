//! The kernel's FUSE protocol: what it asks of a file system ([`Filesystem`]), and the two ways by which it asks.
//!
//! - `device`: requests are read from `/dev/fuse`, and answers are written to it. Every kernel has this.
//! - `ring`: each core has a queue of its own, and a thread on it answers a request and takes the next one in one system
//!   call of io_uring. Linux 6.14 and later have this, if root has switched it on.
//!
//! `wire` has the layout of requests and answers, `serve` calls the file system, and `init` is the agreement with the
//! kernel that begins a session.

mod awake;
#[allow(unsafe_code)]
mod device;
mod init;
#[allow(unsafe_code)]
mod ring;
mod serve;
mod wire;

pub use wire::{Entries, WriteFlags};

pub(crate) use device::{Device, Notifier};
pub(crate) use init::Offer;
pub(crate) use ring::{Ring, roam};
pub(crate) use serve::{Admitted, Server};

use crate::tree::{Attr, Owner};
use rustix::io::Errno;
use std::time::Duration;

/// The answer to a request, or the error number that the program gets.
pub type Answer<T> = Result<T, Errno>;

/// The number of the topmost folder.
pub const ROOT: u64 = 1;

/// The longest data of a request or an answer, in bytes.
pub(crate) const LONGEST: usize = 1 << 20;

/// How much of a file system's work the kernel takes over.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Caching {
    /// The kernel keeps what is written, and passes it on in large pieces. The file system has to clear set-user-ID and
    /// set-group-ID itself when content is changed. In return the kernel does not look for capabilities before each
    /// write. Without this, the kernel drops what it keeps of a file whose length or time of modification has changed.
    pub writes: bool,
    /// Nothing changes but by the kernel's requests. So the kernel may keep names, names that do not exist, and attributes
    /// for an hour instead of a second, and the targets of links for as long as it likes.
    pub is_exclusive: bool,
    /// The file system lists folders with attributes.
    pub lists_attributes: bool,
}

impl Caching {
    /// How long the kernel may keep names and attributes without asking again.
    pub(crate) fn lifetime(self) -> Duration {
        Duration::from_secs(if self.is_exclusive { 3600 } else { 1 })
    }
}

/// What is opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Opened {
    /// The number by which the kernel names it in requests.
    pub handle: u64,
    /// Whether what the kernel has kept of it is still right.
    pub keeps: bool,
}

/// A time that a program sets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Time {
    /// The present.
    Now,
    /// Seconds, which may lie before 1970, and nanoseconds.
    At(i64, u32),
}

/// The attributes that a program sets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Change {
    /// The permission bits.
    pub mode: Option<u32>,
    /// The owner.
    pub uid: Option<u32>,
    /// The group.
    pub gid: Option<u32>,
    /// The length of a file.
    pub size: Option<u64>,
    /// Set-user-ID and set-group-ID are to be cleared, if the content changes.
    pub takes_set_ids: bool,
    /// The file through which the program does this, if it has opened it.
    pub handle: Option<u64>,
    /// The time of the last access.
    pub atime: Option<Time>,
    /// The time of the last modification.
    pub mtime: Option<Time>,
}

/// What `statfs` says.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Space {
    /// Size in units of `fragment`.
    pub blocks: u64,
    /// Free blocks.
    pub free: u64,
    /// Free blocks for users.
    pub available: u64,
    /// Inodes.
    pub files: u64,
    /// Free inodes.
    pub free_files: u64,
    /// The preferred size of a request.
    pub block: u32,
    /// The longest name.
    pub longest_name: u32,
    /// The size of a block.
    pub fragment: u32,
}

/// A file system, as the kernel sees it: nodes have numbers, and what is opened has handles.
///
/// Threads call it at the same time. What a file system does not have stays at its default. The error numbers are those
/// of the system calls by which programs ask.
#[allow(unused_variables, clippy::missing_errors_doc)]
pub trait Filesystem: Send + Sync + 'static {
    /// What the kernel may keep.
    fn caching(&self) -> Caching;

    /// The session has ended.
    fn destroy(&self) {}

    /// Finds an entry of a folder. The kernel knows it from then on, until [`Self::forget`].
    fn lookup(&self, parent: u64, name: &[u8]) -> Answer<Attr>;

    /// The kernel forgets a node that it got so many times.
    fn forget(&self, number: u64, times: u64) {}

    /// The attributes of a node.
    fn getattr(&self, number: u64) -> Answer<Attr>;

    /// Changes attributes.
    fn setattr(&self, by: Owner, number: u64, change: &Change) -> Answer<Attr> {
        Err(Errno::NOSYS)
    }

    /// The target of a link.
    fn readlink(&self, number: u64) -> Answer<Vec<u8>> {
        Err(Errno::NOSYS)
    }

    /// Makes a file, a device node, a pipe or a socket. `mode` has its type too.
    fn mknod(&self, by: Owner, parent: u64, name: &[u8], mode: u32, device: u32) -> Answer<Attr> {
        Err(Errno::NOSYS)
    }

    /// Makes a folder.
    fn mkdir(&self, by: Owner, parent: u64, name: &[u8], mode: u32) -> Answer<Attr> {
        Err(Errno::NOSYS)
    }

    /// Removes an entry that is not a folder.
    fn unlink(&self, parent: u64, name: &[u8]) -> Answer<()> {
        Err(Errno::NOSYS)
    }

    /// Removes an empty folder.
    fn rmdir(&self, parent: u64, name: &[u8]) -> Answer<()> {
        Err(Errno::NOSYS)
    }

    /// Makes a symbolic link.
    fn symlink(&self, by: Owner, parent: u64, name: &[u8], target: &[u8]) -> Answer<Attr> {
        Err(Errno::NOSYS)
    }

    /// Renames an entry. The flags are those of `renameat2`.
    fn rename(&self, parent: u64, name: &[u8], to: u64, new_name: &[u8], flags: u32) -> Answer<()> {
        Err(Errno::NOSYS)
    }

    /// Gives a node another name.
    fn link(&self, number: u64, parent: u64, name: &[u8]) -> Answer<Attr> {
        Err(Errno::NOSYS)
    }

    /// Opens a file. The flags are those of `open`.
    fn open(&self, number: u64, flags: i32) -> Answer<Opened>;

    /// Makes a file and opens it.
    fn create(&self, by: Owner, parent: u64, name: &[u8], mode: u32) -> Answer<(Attr, Opened)> {
        Err(Errno::NOSYS)
    }

    /// Reads from a file. Returns how many bytes there are: fewer only at its end.
    fn read(&self, handle: u64, offset: u64, out: &mut [u8]) -> Answer<usize>;

    /// Writes all of the data to a file.
    fn write(&self, by: Owner, number: u64, handle: u64, offset: u64, data: &[u8], flags: WriteFlags) -> Answer<()> {
        Err(Errno::NOSYS)
    }

    /// A program closes a file. Others may have it open with the same handle.
    fn flush(&self, handle: u64) -> Answer<()> {
        Err(Errno::NOSYS)
    }

    /// Nobody uses this handle of a file any more. Nobody waits for the answer.
    fn release(&self, handle: u64);

    /// Puts a file on the disk: its data, and otherwise its attributes too.
    fn fsync(&self, number: u64, handle: u64, data_only: bool) -> Answer<()> {
        Err(Errno::NOSYS)
    }

    /// Opens a folder. What the kernel has kept of its list is right if the answer says so.
    fn opendir(&self, number: u64) -> Answer<Opened>;

    /// Lists a folder from a position on: 0, or the one that the last entry named as the next.
    fn readdir(&self, number: u64, handle: u64, offset: u64, entries: &mut Entries<'_>) -> Answer<()>;

    /// Lists a folder with the attributes of its entries, which the kernel knows from then on.
    fn readdirplus(&self, number: u64, handle: u64, offset: u64, entries: &mut Entries<'_>) -> Answer<()> {
        Err(Errno::NOSYS)
    }

    /// Nobody uses this handle of a folder any more.
    fn releasedir(&self, handle: u64) {}

    /// Puts a folder on the disk.
    fn fsyncdir(&self, number: u64) -> Answer<()> {
        Err(Errno::NOSYS)
    }

    /// How full the file system is.
    fn statfs(&self) -> Answer<Space>;

    /// Sets an extended attribute. The flags are those of `setxattr`.
    fn setxattr(&self, number: u64, name: &[u8], value: &[u8], flags: u32) -> Answer<()> {
        Err(Errno::NOSYS)
    }

    /// The value of an extended attribute.
    fn getxattr(&self, number: u64, name: &[u8]) -> Answer<Vec<u8>> {
        Err(Errno::NOSYS)
    }

    /// The names of the extended attributes, each with a zero after it.
    fn listxattr(&self, number: u64) -> Answer<Vec<u8>> {
        Err(Errno::NOSYS)
    }

    /// Removes an extended attribute.
    fn removexattr(&self, number: u64, name: &[u8]) -> Answer<()> {
        Err(Errno::NOSYS)
    }

    /// Makes room or holes. The mode is that of `fallocate`.
    fn fallocate(&self, by: Owner, number: u64, handle: u64, offset: u64, len: u64, mode: u32) -> Answer<()> {
        Err(Errno::NOSYS)
    }

    /// Finds data or a hole. `whence` is that of `lseek`.
    fn lseek(&self, handle: u64, offset: i64, whence: u32) -> Answer<u64> {
        Err(Errno::NOSYS)
    }
}
