//! Errors of a run. The text of each is one line.

use std::io;
use std::path::{Path, PathBuf};

/// The result of the runner's functions.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Why a run failed.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The core failed.
    #[error(transparent)]
    Core(#[from] phalanx_core::Error),
    /// A file could not be protected, opened or written.
    #[error(transparent)]
    Host(#[from] phalanx_host::Error),
    /// The device failed.
    #[error(transparent)]
    Device(#[from] phalanx_gpu::Error),
    /// A file or folder could not be used.
    #[error("{path}: {1}", path = .0.display())]
    Path(PathBuf, #[source] io::Error),
    /// The folder holds a run already.
    #[error("{}: it holds a run already (--resume continues it, --out names another folder)", .0.display())]
    Exists(PathBuf),
    /// The folder's run does not match this one, or is not a run.
    #[error("{path}: {1}", path = .0.display())]
    Folder(PathBuf, String),
    /// There is not enough disk space or memory.
    #[error("{0}")]
    Resources(String),
    /// Something cannot be measured here. Its rows have the reason.
    #[error("{0}")]
    NotRun(String),
    /// A measured program gave a wrong result.
    #[error("{0}")]
    Program(String),
}

impl Error {
    /// Why rows have no times, if a device is missing or has failed.
    pub fn of_device(&self) -> Option<String> {
        match self {
            Error::NotRun(why) => Some(why.clone()),
            Error::Device(failure) => Some(failure.to_string()),
            Error::Core(phalanx_core::Error::Fault(fault)) => Some(fault.to_string()),
            _ => None,
        }
    }

    /// An error at a path.
    pub fn at(path: &Path) -> impl Fn(io::Error) -> Error + Copy + '_ {
        |e| Error::Path(path.to_owned(), e)
    }
}
