//! `phalanx-server backup`: a copy of the store and of the root key.

use super::client;
use super::folder::Folder;
use super::fresh::sync;
use crate::args::Backup;
use crate::copies::{FILES, Sink};
use phalanx_host::Error;
use phalanx_host::failure::{Failure, Outcome};
use phalanx_host::lines::{complain, shown};
use phalanx_host::verbosity::Verbosity;
use std::ffi::OsString;
use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
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

/// The folder in which a backup is written. What is left of it is deleted on drop.
struct Parts {
    dir: PathBuf,
    file: Option<File>,
}

impl Parts {
    fn new(to: &Path) -> Outcome<Self> {
        let mut name = OsString::from(".");
        name.push(to.file_name().unwrap_or_default());
        name.push(format!(".{:016x}", random().map_err(|e| at(to, e))?));
        let dir = to.with_file_name(name);
        DirBuilder::new().mode(0o700).create(&dir).map_err(|e| at(to, e))?;
        Ok(Self { dir, file: None })
    }

    fn path(&self, number: usize) -> PathBuf {
        self.dir.join(FILES[number])
    }

    fn finish(&mut self, to: &Path) -> Outcome {
        self.file = None;
        for number in 0..FILES.len() {
            sync(&self.path(number))?;
        }
        sync(&self.dir)?;
        fs::rename(&self.dir, to).map_err(|e| at(to, e))?;
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

impl Drop for Parts {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.dir);
    }
}

fn random() -> io::Result<u64> {
    let mut bytes = [0; 8];
    getrandom::fill(&mut bytes).map_err(io::Error::other)?;
    Ok(u64::from_le_bytes(bytes))
}

fn at(path: &Path, error: io::Error) -> Failure {
    Failure::at(path, Error::write(error))
}
