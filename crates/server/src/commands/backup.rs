//! `phalanx-server backup`: a copy of the store and of the root key.

use super::client;
use super::folder::Folder;
use crate::args::Backup;
use crate::copies::{FILES, Sink};
use phalanx_host::Error;
use phalanx_host::failure::{Failure, Outcome};
use phalanx_host::file::NewFolder;
use phalanx_host::lines::{complain, shown};
use phalanx_host::verbosity::Verbosity;
use std::fs::{self, File};
use std::io::{self, Write};
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
    parts.finish()?;
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

/// The files of a backup, in a folder that is not finished.
struct Parts {
    to: PathBuf,
    dir: NewFolder,
    file: Option<File>,
}

impl Parts {
    fn new(to: &Path) -> Outcome<Self> {
        let dir = NewFolder::new(to, &FILES).map_err(|e| at(to, e))?;
        Ok(Self { to: to.to_owned(), dir, file: None })
    }

    /// Ends the file that was begun last.
    fn sync(&mut self) -> Outcome {
        self.file.take().map_or(Ok(()), |file| file.sync_all().map_err(|e| at(&self.to, e)))
    }

    fn finish(&mut self) -> Outcome {
        self.sync()?;
        self.dir.finish().map_err(|e| at(&self.to, e))
    }
}

impl Sink for Parts {
    type Error = Failure;

    fn begin(&mut self, number: usize) -> Outcome {
        self.sync()?;
        self.file = Some(self.dir.create(number).map_err(|e| at(&self.to, e))?);
        Ok(())
    }

    fn bytes(&mut self, _number: usize, bytes: &[u8]) -> Outcome {
        let file = self.file.as_mut().ok_or_else(|| at(&self.to, io::ErrorKind::NotFound.into()))?;
        file.write_all(bytes).map_err(|e| at(&self.to, e))
    }
}

fn at(path: &Path, error: io::Error) -> Failure {
    Failure::at(path, Error::write(error))
}
