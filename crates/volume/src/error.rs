//! What can go wrong with a volume, and the error number that its users see.

use rustix::io::Errno;
use std::io;

/// The result of an operation on a volume.
pub type Result<T, E = VolumeError> = std::result::Result<T, E>;

/// What can go wrong with a volume.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum VolumeError {
    /// An error of the core, about a header, a chunk or a key.
    #[error(transparent)]
    Core(#[from] phalanx_core::Error),
    /// A file on this host could not be read or made.
    #[error(transparent)]
    Host(phalanx_host::Error),
    /// A system call failed on the backing folder.
    #[error("{what}: {error}")]
    Io {
        /// What was done, as in "cannot read the journal".
        what: &'static str,
        /// What the system said.
        error: io::Error,
    },
    /// Something was altered from outside. Users get an I/O error.
    #[error("{0}")]
    Damaged(String),
    /// An entry of a folder cannot be listed: its name or its type cannot be read.
    #[error("{stored}: it cannot be listed: {errno}")]
    Unlisted {
        /// Its path in the volume's folder, from the root on.
        stored: String,
        /// What the system said.
        errno: Errno,
    },
    /// The error number that any file system gives for a request that it cannot serve: no such entry, it exists …
    #[error("{0}")]
    Refused(#[from] Errno),
    /// Another process uses the volume.
    #[error("it is mounted, or another run is using it")]
    Busy,
    /// The backing file system is full.
    #[error("the backing file system is full")]
    Full,
    /// Changes that had been accepted could not be stored and were dropped.
    #[error("earlier changes could not be stored and were dropped: {0}")]
    Dropped(Errno),
    /// The volume is mounted for reading only, or a failed disk has made it so.
    #[error("the volume cannot be written to")]
    ReadOnly,
    /// The table of versions cannot be used: it is missing or was altered.
    #[error("its table of versions {0}")]
    Versions(&'static str),
    /// Changes of an interrupted run have to be finished before the volume can be read.
    #[error("a run was interrupted, and its changes are not finished")]
    Unfinished,
}

impl From<phalanx_host::Error> for VolumeError {
    fn from(error: phalanx_host::Error) -> Self {
        match error {
            phalanx_host::Error::Core(error) => Self::Core(error),
            error => Self::Host(error),
        }
    }
}

impl VolumeError {
    /// The error number for the user of the volume.
    #[must_use]
    pub fn errno(&self) -> Errno {
        match self {
            Self::Refused(errno) | Self::Dropped(errno) | Self::Unlisted { errno, .. } => *errno,
            Self::ReadOnly | Self::Unfinished => Errno::ROFS,
            Self::Busy => Errno::BUSY,
            Self::Full => Errno::NOSPC,
            Self::Io { error, .. } => Errno::from_io_error(error).unwrap_or(Errno::IO),
            Self::Core(phalanx_core::Error::Memory(_)) => Errno::NOMEM,
            Self::Core(_) | Self::Host(_) | Self::Damaged(_) | Self::Versions(_) => Errno::IO,
        }
    }

    /// The error of a system call. A full file system has its own variant.
    pub(crate) fn io(what: &'static str, error: impl Into<io::Error>) -> Self {
        let error = error.into();
        match Errno::from_io_error(&error) {
            Some(Errno::NOSPC | Errno::DQUOT) => Self::Full,
            _ => Self::Io { what, error },
        }
    }
}
