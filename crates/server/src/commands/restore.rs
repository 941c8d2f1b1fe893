//! `phalanx-server restore`: makes the folder of a server from a backup.

use super::check::report;
use super::folder::{Folder, Why};
use super::fresh::Fresh;
use crate::args::Restore;
use crate::client::Client;
use crate::store::{Copies, Sqlite};
use crate::users::Report;
use phalanx_host::Error;
use phalanx_host::failure::{Code, Failure, Outcome};
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
    let root = backup.open_root(&restore.place.keys, verbosity, Why::ToRestore)?;
    let mut store = Sqlite::create(&inner.store()).map_err(|e| folder.blame(e))?;
    Folder::fill(&mut store, &copies)?;
    drop(store);
    let client = Client::alone(inner, &root, &copies.rows, verbosity)?;
    let lost = if restore.skip_lost_users { client.drop_lost_users()? } else { 0 };
    let report = report(&client)?;
    judge(&report, backup.path())?;
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

/// Fails if something in a backup is damaged, with a line for each thing.
///
/// # Errors
/// If something is damaged.
pub fn judge(report: &Report, backup: &Path) -> Outcome {
    let Some((last, others)) = report.damage.split_last() else { return Ok(()) };
    let line = |what: &String| format!("{}: damaged: {what}", shown(backup));
    others.iter().for_each(|what| complain(line(what)));
    let failure = Failure::new(Code::NotAuthentic, line(last));
    Err(if report.lost > 0 {
        failure.hint("if rows.db and buckets.db are of two backups: restore --skip-lost-users leaves these users out")
    } else {
        failure
    })
}
