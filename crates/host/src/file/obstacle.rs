//! What is in the place of a file or folder and cannot be used as one.

use std::io;

/// Why what is at a path cannot be read, written or made, where the system itself has no error. It is inside an [`io::Error`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Obstacle {
    /// A folder is there, and a file is wanted.
    #[error("it is a folder")]
    Folder,
    /// A pipe, a socket or a device is there, and a file is wanted.
    #[error("not a regular file")]
    NotRegular,
    /// A folder is to be made, and there is one already.
    #[error("it is a folder already")]
    FolderExists,
    /// A folder is to be made, and something else is there.
    #[error("a link or file is in its way")]
    FileInTheWay,
    /// A file is to get its name, and a folder is there.
    #[error("a folder is in its way")]
    FolderInTheWay,
    /// A file is to be replaced, and it holds a key that is in use or kept.
    #[error("it holds a key or password, which no output replaces")]
    HoldsKey,
}

impl Obstacle {
    /// The obstacle inside an error, if there is one.
    #[must_use]
    pub fn of(error: &io::Error) -> Option<Self> {
        error.get_ref()?.downcast_ref().copied()
    }
}

impl From<Obstacle> for io::Error {
    fn from(obstacle: Obstacle) -> Self {
        let kind = match obstacle {
            Obstacle::Folder | Obstacle::FolderInTheWay => io::ErrorKind::IsADirectory,
            Obstacle::NotRegular => io::ErrorKind::InvalidInput,
            Obstacle::FolderExists | Obstacle::HoldsKey => io::ErrorKind::AlreadyExists,
            Obstacle::FileInTheWay => io::ErrorKind::NotADirectory,
        };
        Self::new(kind, obstacle)
    }
}
