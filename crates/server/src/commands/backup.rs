//! `phalanx-server backup`: a copy of the store and of the root key.

use super::client;
use super::folder::Folder;
use super::fresh::sync;
use crate::args::Backup;
use crate::copies::{FILES, Sink};
use phalanx_host::Error;
use phalanx_host::failure::{Failure, Outcome};
use phalanx_host::file::NewFolder;
use phalanx_host::lines::{complain, shown};
use phalanx_host::verbosity::Verbosity;
use rustix::fs::{FlockOperation, OFlags, flock};
use std::ffi::{OsStr, OsString};
use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

/// Writes a backup, which appears whole or not at all. The server only sends it: the files are this user's own, and lie
/// where this process sees them.
///
/// # Errors
/// If the folder exists and is not empty, or something cannot be read or written.
pub fn run(backup: &Backup, verbosity: Verbosity) -> Outcome {
    let to = std::path::absolute(&backup.to).map_err(|e| at(&backup.to, e))?;
    match fs::read_dir(&to).map(|mut entries| entries.next().is_some()) {
        Ok(true) => return Err(at(&to, io::ErrorKind::DirectoryNotEmpty.into())),
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(at(&to, error)),
        _ => {}
    }
    refuse_inside(&Folder::of(&backup.place.dir)?, &to)?;
    let client = client(&backup.place, verbosity)?;
    let mut parts = Parts::new(&to)?;
    client.receive_backup(&mut parts)?;
    parts.finish(&to)?;
    if !verbosity.quiet {
        complain(format!("{}: backup written", shown(&to)));
    }
    Ok(())
}

/// Refuses a backup in the server's own folder: it would be lost with the folder.
fn refuse_inside(folder: &Folder, to: &Path) -> Outcome {
    let outer = to.parent().and_then(|parent| parent.canonicalize().ok());
    // What cannot be found is refused later.
    match (outer, folder.path().canonicalize()) {
        (Some(outer), Ok(dir)) if outer.starts_with(&dir) => {
            Err(Failure::usage(format!("{}: it is in the server's own folder", shown(to))))
        }
        _ => Ok(()),
    }
}

/// The folder in which a backup is written: `.NAME.` and 16 random digits, locked for as long as somebody writes to it. What
/// is left of it is deleted on drop, by a signal that ends the process, or by the next backup of this name.
struct Parts {
    dir: NewFolder,
    file: Option<File>,
    /// Where the file system has no locks, nobody clears up either.
    _lock: Option<File>,
}

impl Parts {
    fn new(to: &Path) -> Outcome<Self> {
        clear_left(to)?;
        let mut name = start(to);
        name.push(format!("{:016x}", random().map_err(|e| at(to, e))?));
        let make = |dir: &Path| DirBuilder::new().mode(0o700).create(dir);
        let dir = NewFolder::make(&to.with_file_name(name), make).map_err(|e| at(to, e))?;
        let lock = locked(dir.path());
        Ok(Self { dir, file: None, _lock: lock })
    }

    fn path(&self, number: usize) -> PathBuf {
        self.dir.path().join(FILES[number])
    }

    fn finish(&mut self, to: &Path) -> Outcome {
        self.file = None;
        for number in 0..FILES.len() {
            sync(&self.path(number))?;
        }
        sync(self.dir.path())?;
        self.dir.rename(to).map_err(|e| at(to, e))?;
        to.parent().map_or(Ok(()), sync)
    }
}

impl Sink for Parts {
    type Error = Failure;

    fn begin(&mut self, number: usize) -> Outcome {
        let path = self.path(number);
        let file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&path);
        self.file = Some(file.map_err(|e| at(&path, e))?);
        Ok(())
    }

    fn bytes(&mut self, number: usize, bytes: &[u8]) -> Outcome {
        let path = self.path(number);
        let file = self.file.as_mut().ok_or_else(|| at(&path, io::ErrorKind::NotFound.into()))?;
        file.write_all(bytes).map_err(|e| at(&path, e))
    }
}

/// How the folders begin in which backups of this name are written.
fn start(to: &Path) -> OsString {
    let mut start = OsString::from(".");
    start.push(to.file_name().unwrap_or_default());
    start.push(".");
    start
}

/// Deletes what backups of this name have left that were killed: it has the keys of users.
fn clear_left(to: &Path) -> Outcome {
    let start = start(to);
    let is_ours = |name: &OsStr| {
        let digits = name.as_bytes().strip_prefix(start.as_bytes());
        digits.is_some_and(|digits| digits.len() == 16 && digits.iter().all(u8::is_ascii_hexdigit))
    };
    // What is wrong with the outer folder shows when something is made in it.
    let Some(Ok(entries)) = to.parent().map(fs::read_dir) else { return Ok(()) };
    for entry in entries.flatten().filter(|entry| is_ours(&entry.file_name())) {
        let path = entry.path();
        let Some(_lock) = locked(&path) else { continue };
        match fs::remove_dir_all(&path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(at(&path, error)),
            _ => {}
        }
    }
    Ok(())
}

/// Locks a folder of this user for as long as the file is open, unless somebody else has locked it.
fn locked(dir: &Path) -> Option<File> {
    let flags = (OFlags::NOFOLLOW | OFlags::DIRECTORY).bits().cast_signed();
    let file = OpenOptions::new().read(true).custom_flags(flags).open(dir).ok()?;
    let is_own = file.metadata().ok()?.uid() == rustix::process::geteuid().as_raw();
    (is_own && flock(&file, FlockOperation::NonBlockingLockExclusive).is_ok()).then_some(file)
}

fn random() -> io::Result<u64> {
    let mut bytes = [0; 8];
    getrandom::fill(&mut bytes).map_err(io::Error::other)?;
    Ok(u64::from_le_bytes(bytes))
}

fn at(path: &Path, error: io::Error) -> Failure {
    Failure::at(path, Error::write(error))
}
