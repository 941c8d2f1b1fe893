//! `phalanx-server restore`: makes the folder of a server from a backup.

use super::folder::{Folder, Why};
use super::fresh::Fresh;
use super::report::{judge_backup, report};
use crate::args::Restore;
use crate::client::Client;
use crate::store::{Copies, Sqlite};
use crate::users::Report;
use phalanx_host::Error;
use phalanx_host::failure::{Failure, Outcome};
use phalanx_host::lines::{complain, shown};
use phalanx_host::verbosity::Verbosity;
use phalanx_host::words::count;
use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

/// Restores a backup, when all in it opens.
///
/// # Errors
/// If the folder is not empty and is not to be replaced, the backup is damaged or does not open, or something cannot be
/// read or written.
pub fn run(restore: &Restore, verbosity: Verbosity) -> Outcome {
    let folder = Folder::of(&restore.place.dir)?;
    let backup = Folder::at(restore.from.clone());
    let copies = Copies::in_folder(backup.path());
    for path in [&backup.root(), &copies.rows, &copies.buckets] {
        path.metadata().map_err(|e| Failure::at(path, Error::read(e)))?;
    }
    let fresh = if restore.replace { Fresh::replacing(&folder)? } else { Fresh::begin(&folder)? };
    let inner = fresh.inner();
    copy(&backup.root(), &inner.root())?;
    // What was copied: another reading might give something else.
    let root = backup.open_root_at(&inner.root(), &restore.place.keys, verbosity, Why::ToRestore)?;
    let mut store = Sqlite::create(&inner.store()).map_err(|e| folder.blame(e))?;
    Folder::fill(&mut store, &copies)?;
    drop(store);
    let client = Client::alone(inner, &root, &copies.rows, verbosity)?;
    let lost = if restore.skip_lost_users { client.drop_lost_users()? } else { 0 };
    let report = report(&client)?;
    judge_backup(&report, backup.path())?;
    // It closes the store.
    drop(client);
    fresh.finish()?;
    let Report { keys, users, .. } = report;
    if lost > 0 {
        complain(format!("warning: left out, because their salts do not open: {}", count(lost, "user")));
    }
    if !verbosity.quiet {
        let (keys, users) = (count(keys, "key"), count(users, "user"));
        complain(format!("{}: restored, with {keys} and {users}", shown(folder.path())));
    }
    Ok(())
}

/// Copies a file to one that only this user reads.
fn copy(from: &Path, to: &Path) -> Outcome {
    let mut source = File::open(from).map_err(|e| Failure::at(from, Error::read(e)))?;
    let new = OpenOptions::new().write(true).create_new(true).mode(0o600).open(to);
    let copied = new.and_then(|mut new| io::copy(&mut source, &mut new));
    copied.map(drop).map_err(|e| Failure::at(to, Error::write(e)))
}
