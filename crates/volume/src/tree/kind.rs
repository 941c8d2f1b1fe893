//! What an entry of a tree is.

use rustix::fs::FileType;

/// What an entry is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Kind {
    /// A folder.
    Folder,
    /// A regular file.
    File,
    /// A symbolic link.
    Link,
    /// A FIFO.
    Fifo,
    /// A socket.
    Socket,
    /// A character device.
    Char,
    /// A block device.
    Block,
}

impl Kind {
    /// The kind of a stored entry with this type; `None` if the type is unknown.
    pub(super) fn of(file_type: FileType) -> Option<Self> {
        Some(match file_type {
            FileType::Directory => Kind::Folder,
            FileType::RegularFile => Kind::File,
            FileType::Symlink => Kind::Link,
            FileType::Fifo => Kind::Fifo,
            FileType::Socket => Kind::Socket,
            FileType::CharacterDevice => Kind::Char,
            FileType::BlockDevice => Kind::Block,
            FileType::Unknown => return None,
        })
    }
}
