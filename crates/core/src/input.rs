//! Opening inputs: regular files only, and never waiting for one.

use crate::{Error, Result};
use rustix::fs::{self, Mode, OFlags};
use std::ffi::OsStr;
use std::fs::{File, Metadata};
use std::io;
use std::os::fd::OwnedFd;
use std::path::Path;

/// Opens a regular file for reading, and says what it is. A symbolic link is followed; folders, pipes, sockets and devices are refused.
pub fn open(path: &Path) -> Result<(File, Metadata)> {
    check(fs::open(path, FLAGS, Mode::empty()))
}

/// Opens a regular file in an opened folder. A symbolic link is not followed.
pub fn open_in(dir: &File, name: &OsStr) -> Result<(File, Metadata)> {
    check(fs::openat(dir, name, FLAGS | OFlags::NOFOLLOW, Mode::empty()))
}

// Without NONBLOCK, opening a pipe that nobody writes to would wait for ever.
const FLAGS: OFlags = OFlags::RDONLY.union(OFlags::CLOEXEC).union(OFlags::NONBLOCK).union(OFlags::NOCTTY);

fn check(opened: rustix::io::Result<OwnedFd>) -> Result<(File, Metadata)> {
    let file = File::from(opened.map_err(|e| Error::Read(e.into()))?);
    let meta = file.metadata().map_err(Error::Read)?;
    let kind = meta.file_type();
    let refuse = |kind: io::ErrorKind, why: &str| Err(Error::Read(io::Error::new(kind, why)));
    if kind.is_dir() {
        refuse(io::ErrorKind::IsADirectory, "it is a folder")
    } else if !kind.is_file() {
        refuse(io::ErrorKind::InvalidInput, "not a regular file (use - to read from a pipe)")
    } else {
        Ok((file, meta))
    }
}
