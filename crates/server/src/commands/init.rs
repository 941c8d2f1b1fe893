//! `phalanx-server init`: makes the folder of a server.

use super::folder::Folder;
use super::fresh::{Fresh, refuse_second};
use super::key_options;
use crate::args::Init;
use crate::store::Sqlite;
use phalanx_core::{SecretKey, Zeroizing, protect};
use phalanx_host::Error;
use phalanx_host::failure::{Failure, Outcome};
use phalanx_host::file::{Existing, Output};
use phalanx_host::lines::{complain_with, shown};
use phalanx_host::secrets::Recipients;
use phalanx_host::verbosity::Verbosity;
use std::io::Write;

/// Makes the folder, with a new root key and an empty store.
///
/// # Errors
/// If it has a server already, or cannot be made.
pub fn run(init: Init, verbosity: Verbosity) -> Outcome {
    let folder = Folder::of(&init.dir)?;
    refuse_second(&folder)?;
    // Before anything is made: a password may be asked for.
    let options = key_options::that_open(&init.keys);
    let recipients = Recipients::new(init.keys, false);
    recipients.find()?;
    let fresh = Fresh::begin(&folder)?;
    let path = fresh.inner().root();
    let at = |error: Error| Failure::at(&path, error);
    drop(Sqlite::create(&fresh.inner().store()).map_err(|e| folder.blame(e))?);
    let root = SecretKey::random()?;
    let protected = protect(&Zeroizing::new(*root.expose())[..], recipients.found())?;
    let output = Output::create(&path, Existing::Keep).map_err(at)?;
    output.file().write_all(&protected).map_err(|e| at(Error::write(e)))?;
    output.commit(Existing::Keep, true).map_err(at)?;
    fresh.finish()?;
    if !verbosity.quiet {
        let dir = shown(folder.path());
        let run = format!("phalanx-server run --dir {}{options}", key_options::word(folder.path()));
        complain_with(format!("{dir}: server created"), Some(&format!("start it: {run}")));
    }
    Ok(())
}
