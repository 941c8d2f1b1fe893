//! What every system is asked, in one form.

/// A file system, as far as programs treat it differently.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FileSystem {
    /// ext2, ext3 or ext4.
    Ext,
    /// XFS or Btrfs.
    XfsOrBtrfs,
    /// FAT, exFAT, NTFS, FUSE or SMB: all files may look as if they had the same permissions.
    WithoutPermissions,
    /// Any other one.
    Other,
}

/// The inode of a file and the time at which it was made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Birth {
    /// The inode.
    pub inode: u64,
    /// The time in seconds.
    pub seconds: i64,
    /// The rest of it in nanoseconds.
    pub nanoseconds: u32,
}

/// The signals that this process ignores and this thread blocks. The lowest bit is signal 1.
#[cfg(unix)]
#[derive(Clone, Copy, Debug)]
pub struct Masks {
    /// Those that are ignored.
    pub ignored: u64,
    /// Those that are blocked.
    pub blocked: u64,
}
