//! How something is opened, looked at, made and renamed.

use bitflags::bitflags;

bitflags! {
    /// How something is opened.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct OFlags: u32 {
        /// To read it.
        const RDONLY = 0;
        /// To read and write it.
        const RDWR = 1;
        /// To read it, and to write at its end, wherever that is by then.
        const APPEND = 1 << 6;
        /// It is made.
        const CREATE = 1 << 1;
        /// It may not be there before.
        const EXCL = 1 << 2;
        /// It must be a folder.
        const DIRECTORY = 1 << 3;
        /// A link in its place is refused.
        const NOFOLLOW = 1 << 4;
        /// Only to reach entries and to be looked at.
        const PATH = 1 << 5;
        /// No program that is started inherits it. This is always so here.
        const CLOEXEC = 0;
        /// Nothing is waited for. Names of files never lead to what would have to be waited for.
        const NONBLOCK = 0;
        /// It does not become the terminal of the process. There are none of this kind.
        const NOCTTY = 0;
    }

    /// How a name is looked at.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct AtFlags: u32 {
        /// A link is not followed.
        const SYMLINK_NOFOLLOW = 1;
        /// It must be a folder.
        const REMOVEDIR = 1 << 1;
    }

    /// How a name is given.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct RenameFlags: u32 {
        /// Nothing is replaced.
        const NOREPLACE = 1;
    }

    /// Permissions.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct Mode: u32 {
        /// The owner may read.
        const RUSR = 0o400;
        /// The owner may write.
        const WUSR = 0o200;
        /// The owner may do everything.
        const RWXU = 0o700;
        const _ = !0;
    }
}

impl Mode {
    /// The permissions in a mode.
    #[must_use]
    pub const fn from_raw_mode(mode: u32) -> Self {
        Self::from_bits_retain(mode & 0o7777)
    }
}

/// How a file is locked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FlockOperation {
    /// After whoever has it locked.
    LockExclusive,
    /// Now or not at all.
    NonBlockingLockExclusive,
}
