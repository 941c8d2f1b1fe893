//! `phalanx-server backup`: a copy of the store and of the root key.

use super::client;
use super::folder::Folder;
use super::fresh::sync;
use crate::args::Backup;
use crate::store::Copies;
use phalanx_host::Error;
use phalanx_host::failure::{Failure, Outcome};
use phalanx_host::lines::{complain, shown};
use phalanx_host::verbosity::Verbosity;
use serde_json::json;
use std::ffi::OsString;
use std::fs::{self, DirBuilder};
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

/// Writes a backup, which appears whole or not at all.
///
/// # Errors
/// If the folder exists and is not empty, or something cannot be read or written.
pub fn run(backup: &Backup, verbosity: Verbosity) -> Outcome {
    let folder = Folder::of(&backup.place.dir)?;
    let to = std::path::absolute(&backup.to).map_err(|e| at(&backup.to, e))?;
    if fs::read_dir(&to).is_ok_and(|mut entries| entries.next().is_some()) {
        return Err(at(&to, io::ErrorKind::DirectoryNotEmpty.into()));
    }
    let client = client(&backup.place, verbosity)?;
    let parts = Parts::new(&to)?;
    client.post("/v2/manage/backup", &json!({ "to": parts.0 }))?;
    let root = parts.0.join("root.phx");
    fs::copy(folder.root(), &root).map_err(|e| at(&root, e))?;
    let Copies { rows, buckets } = Copies::in_folder(&parts.0);
    for path in [&root, &rows, &buckets, &parts.0] {
        sync(path)?;
    }
    fs::rename(&parts.0, &to).map_err(|e| at(&to, e))?;
    to.parent().map_or(Ok(()), sync)?;
    if !verbosity.quiet {
        complain(format!("{}: backup written", shown(&to)));
    }
    Ok(())
}

/// The folder in which a backup is written. What is left of it is deleted on drop.
struct Parts(PathBuf);

impl Parts {
    fn new(to: &Path) -> Outcome<Self> {
        let mut name = OsString::from(".");
        name.push(to.file_name().unwrap_or_default());
        name.push(format!(".{:016x}", random().map_err(|e| at(to, e))?));
        let path = to.with_file_name(name);
        DirBuilder::new().mode(0o700).create(&path).map_err(|e| at(&path, e))?;
        Ok(Self(path))
    }
}

impl Drop for Parts {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
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
