//! The lock of a folder: one server at a time.

use super::folder::Folder;
use super::replaced;
use crate::manage::backup;
use phalanx_host::Error;
use phalanx_host::failure::{Code, Failure, Outcome};
use phalanx_host::lines::shown;
use rustix::fs::{FlockOperation, OFlags, flock};
use std::fs::{File, OpenOptions};
use std::os::unix::fs::OpenOptionsExt;
use std::os::unix::net::UnixStream;
use std::thread::sleep;
use std::time::{Duration, Instant};

/// So long a command is waited for.
const PATIENCE: Duration = Duration::from_secs(5);
/// How often it is tried meanwhile.
const PAUSE: Duration = Duration::from_millis(20);

/// Locks a folder for as long as the file is open, also if the process is killed. What interrupted commands have left is
/// cleared up.
///
/// # Errors
/// If another process has locked it, or its file system has no locks.
pub fn lock(folder: &Folder) -> Outcome<File> {
    let file = open(folder)?;
    if is_locked(folder, &file)? { Ok(file) } else { Err(taken(folder)) }
}

/// Locks a folder as [`lock`] does, and waits for a while if it is only a command that has it.
///
/// # Errors
/// Those of [`lock`].
pub fn lock_soon(folder: &Folder) -> Outcome<File> {
    let (file, end) = (open(folder)?, Instant::now() + PATIENCE);
    while !is_locked(folder, &file)? {
        if Instant::now() >= end || UnixStream::connect(folder.socket()).is_ok() {
            return Err(taken(folder));
        }
        sleep(PAUSE);
    }
    Ok(file)
}

fn open(folder: &Folder) -> Outcome<File> {
    let mut options = OpenOptions::new();
    options.write(true).create(true).truncate(false).mode(0o600).custom_flags(OFlags::NOFOLLOW.bits().cast_signed());
    let path = folder.path().join("lock");
    options.open(&path).map_err(|e| Failure::at(&path, Error::write(e)))
}

/// Locks a file, unless another process has locked it.
fn is_locked(folder: &Folder, file: &File) -> Outcome<bool> {
    match flock(file, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => {
            replaced::recover(folder)?;
            backup::clear(folder.path()).map_err(|e| Failure::at(folder.path(), Error::write(e)))?;
            Ok(true)
        }
        Err(rustix::io::Errno::WOULDBLOCK) => Ok(false),
        Err(error) => Err(Failure::at(&folder.path().join("lock"), Error::write(error.into()))),
    }
}

fn taken(folder: &Folder) -> Failure {
    Failure::new(Code::InputOutput, format!("{}: another server runs in this folder", shown(folder.path())))
}
