//! `phalanx-server restore`: makes the folder of a server from a backup.

use super::check::{judge, report};
use super::folder::Folder;
use super::fresh::Fresh;
use crate::args::Restore;
use crate::client::Client;
use crate::store::{BUCKETS, Copies, ROWS, Sqlite};
use phalanx_host::Error;
use phalanx_host::failure::{Failure, Outcome};
use phalanx_host::lines::{complain, shown};
use phalanx_host::verbosity::Verbosity;
use std::fs;

/// Restores a backup, when all in it opens.
///
/// # Errors
/// If the folder is not empty, the backup is damaged or does not open, or something cannot be read or written.
pub fn run(restore: &Restore, verbosity: Verbosity) -> Outcome {
    let folder = Folder::of(&restore.place.dir)?;
    let backup = Folder::at(restore.from.clone());
    let Copies { rows, buckets } = Copies::in_folder(backup.path());
    let fresh = Fresh::begin(&folder)?;
    let inner = fresh.inner();
    let copied = fs::copy(backup.root(), inner.root());
    copied.map_err(|e| Failure::at(&backup.root(), Error::read(e)))?;
    let mut store = Sqlite::create(&inner.store()).map_err(|e| folder.blame(e))?;
    for (path, tables) in [(&rows, ROWS), (&buckets, BUCKETS)] {
        let metadata = path.metadata();
        metadata.map_err(|e| Failure::at(path, Error::read(e)))?;
        store.take_from(path, tables).map_err(|e| Folder::blame_at(path, e))?;
    }
    drop(store);
    let client = Client::alone(inner, &restore.place.keys, verbosity)?;
    let report = report(&client)?;
    judge(&report)?;
    // It closes the store.
    drop(client);
    fresh.finish()?;
    if !verbosity.quiet {
        complain(format!("{}: restored, with {} keys and {} users", shown(folder.path()), report.keys, report.users));
    }
    Ok(())
}
