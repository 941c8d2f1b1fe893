//! `phalanx-server init`: makes the folder of a server.

use super::folder::Folder;
use crate::args::Init;
use crate::store::Sqlite;
use phalanx_core::{SecretKey, Zeroizing, protect};
use phalanx_host::Error;
use phalanx_host::failure::{Failure, Outcome};
use phalanx_host::file::{Existing, Output};
use phalanx_host::lines::{complain_with, shown};
use phalanx_host::secrets::Recipients;
use phalanx_host::verbosity::Verbosity;
use std::fs::DirBuilder;
use std::io::Write;
use std::os::unix::fs::DirBuilderExt;

/// Makes the folder, with a new root key and an empty store.
///
/// # Errors
/// If it has a server already, or cannot be made.
pub fn run(init: Init, verbosity: Verbosity) -> Outcome {
    let folder = Folder::of(&init.dir)?;
    let path = folder.root();
    let at = |error: Error| Failure::at(&path, error);
    // A second root key would leave what the first one has sealed without any.
    if path.symlink_metadata().is_ok() {
        return Err(at(Error::Exists));
    }
    let recipients = Recipients::new(init.keys, false);
    recipients.find()?;
    let dir = folder.path();
    DirBuilder::new().recursive(true).mode(0o700).create(dir).map_err(|e| Failure::at(dir, Error::write(e)))?;
    let store = Sqlite::create(&folder.store()).map_err(|e| folder.blame(e))?;
    drop(store);
    let root = SecretKey::random()?;
    let protected = protect(&Zeroizing::new(*root.expose())[..], recipients.found())?;
    let output = Output::create(&path, Existing::Keep).map_err(at)?;
    output.file().write_all(&protected).map_err(|e| at(Error::write(e)))?;
    output.commit(Existing::Keep, true).map_err(at)?;
    if !verbosity.quiet {
        let dir = shown(dir);
        complain_with(format!("{dir}: new server made"), Some(&format!("phalanx-server run --dir {dir} serves it")));
    }
    Ok(())
}
