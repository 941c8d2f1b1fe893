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

/// Locks a folder for as long as the file is open, also if the process is killed. What interrupted commands have left is
/// cleared up.
///
/// # Errors
/// If another process has locked it, or its file system has no locks.
pub fn lock(folder: &Folder) -> Outcome<File> {
    let path = folder.path().join("lock");
    let at = |error: std::io::Error| Failure::at(&path, Error::write(error));
    let mut options = OpenOptions::new();
    options.write(true).create(true).truncate(false).mode(0o600).custom_flags(OFlags::NOFOLLOW.bits().cast_signed());
    let file = options.open(&path).map_err(at)?;
    match flock(&file, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => {
            replaced::recover(folder)?;
            backup::clear(folder.path()).map_err(|e| Failure::at(folder.path(), Error::write(e)))?;
            Ok(file)
        }
        Err(rustix::io::Errno::WOULDBLOCK) => {
            let line = format!("{}: another server runs in this folder", shown(folder.path()));
            Err(Failure::new(Code::InputOutput, line))
        }
        Err(error) => Err(at(error.into())),
    }
}
