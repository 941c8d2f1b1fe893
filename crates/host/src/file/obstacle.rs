//! What is in the way of a file or folder.

use std::io;

/// Why something at a path cannot be read, written or made, although the system reports no error. It is inside an
/// [`io::Error`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Obstacle {
    /// It is a folder, and a file is needed.
    #[error("it is a folder")]
    Folder,
    /// It is the beginning of the names of objects, and an object is needed.
    #[error("it is a folder of objects")]
    Objects,
    /// It is a pipe, a socket or a device, and a file is needed.
    #[error("not a regular file")]
    NotRegular,
    /// A folder is to be made, and it exists already.
    #[error("it is a folder already")]
    FolderExists,
    /// A folder is to be made, and something else has its name.
    #[error("a link or file is in its way")]
    FileInTheWay,
    /// A file is to get its name, and a folder has it.
    #[error("a folder is in its way")]
    FolderInTheWay,
    /// A file is to be replaced, but holds a key that is in use or kept.
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
            Obstacle::Folder | Obstacle::Objects | Obstacle::FolderInTheWay => io::ErrorKind::IsADirectory,
            Obstacle::NotRegular => io::ErrorKind::InvalidInput,
            Obstacle::FolderExists | Obstacle::HoldsKey => io::ErrorKind::AlreadyExists,
            Obstacle::FileInTheWay => io::ErrorKind::NotADirectory,
        };
        Self::new(kind, obstacle)
    }
}
