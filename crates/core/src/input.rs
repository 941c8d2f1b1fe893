//! Opening inputs: regular files only, and never waiting for one.

use crate::{Error, Result};
use rustix::fs::{self, Mode, OFlags};
use std::fs::File;
use std::io;
use std::path::Path;

/// Opens a regular file for reading. A symbolic link is followed; folders, pipes, sockets and devices are refused.
pub fn open(path: &Path) -> Result<File> {
    // Without NONBLOCK, opening a pipe that nobody writes to would wait for ever.
    let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NONBLOCK | OFlags::NOCTTY;
    let file = File::from(fs::open(path, flags, Mode::empty()).map_err(|e| Error::Read(e.into()))?);
    let kind = file.metadata().map_err(Error::Read)?.file_type();
    let refuse = |kind: io::ErrorKind, why: &str| Err(Error::Read(io::Error::new(kind, why)));
    if kind.is_dir() {
        refuse(io::ErrorKind::IsADirectory, "it is a folder")
    } else if !kind.is_file() {
        refuse(io::ErrorKind::InvalidInput, "not a regular file (use - to read from a pipe)")
    } else {
        Ok(file)
    }
}
