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
use std::path::Path;

/// Writes where the store is.
fn write_url(path: &Path, url: &str) -> Outcome {
    let at = |error: Error| Failure::at(path, error);
    let output = Output::create(path, Existing::Keep).map_err(at)?;
    writeln!(output.file(), "{url}").map_err(|e| at(Error::write(e)))?;
    output.commit(Existing::Keep, true).map(drop).map_err(at)
}

#[cfg(feature = "postgres")]
fn place(url: &str) -> Outcome<crate::store::Place> {
    crate::store::Place::parse(url).map_err(|error| Failure::usage(format!("--store: {}", bare(error))))
}

/// Makes the tables of a store of several servers, for a new root key.
#[cfg(feature = "postgres")]
fn make_tables(url: &str, root: &SecretKey) -> Outcome {
    let made = crate::store::Postgres::create(&place(url)?, crate::keys::root::Root::new(root).mark());
    made.map_err(|error| {
        let has_tables = matches!(error, crate::store::Error::Refused(_));
        let line = format!("--store: {}", bare(error));
        let failure = Failure::new(phalanx_host::failure::Code::InputOutput, line);
        if has_tables { failure.hint(LEFT) } else { failure }
    })
}

/// What helps if `init` was interrupted when it had made the tables, and not yet the folder. What is in them may be of use,
/// so that only a person can know that they are nobody's.
#[cfg(feature = "postgres")]
const LEFT: &str = "if no folder opens them, because an init was interrupted: DROP TABLE phalanx_state, phalanx_keys, \
                    phalanx_versions, phalanx_buckets, phalanx_users, phalanx_tokens";

#[cfg(feature = "postgres")]
fn bare(error: crate::store::Error) -> String {
    if let crate::store::Error::Failed(text) = error { text } else { error.to_string() }
}

#[cfg(not(feature = "postgres"))]
fn place(_: &str) -> Outcome {
    Err(Failure::usage("--store: this program was built without PostgreSQL"))
}

#[cfg(not(feature = "postgres"))]
fn make_tables(url: &str, _: &SecretKey) -> Outcome {
    place(url)
}

/// Makes the folder, with a new root key and an empty store.
///
/// # Errors
/// If it has a server already, or cannot be made.
pub fn run(init: Init, verbosity: Verbosity) -> Outcome {
    let folder = Folder::of(&init.dir)?;
    refuse_second(&folder)?;
    // A password in it must not be written anywhere.
    init.store.as_deref().map(place).transpose()?;
    // Before anything is made: a password may be asked for.
    let options = key_options::that_open(&init.keys);
    let recipients = Recipients::new(init.keys, false);
    recipients.find()?;
    let fresh = Fresh::begin(&folder)?;
    let path = fresh.inner().root();
    let at = |error: Error| Failure::at(&path, error);
    let root = SecretKey::random()?;
    match &init.store {
        None => drop(Sqlite::create(&fresh.inner().store()).map_err(|e| folder.blame(e))?),
        Some(url) => write_url(&fresh.inner().shared(), url)?,
    }
    let protected = protect(&Zeroizing::new(*root.expose())[..], recipients.found())?;
    let output = Output::create(&path, Existing::Keep).map_err(at)?;
    output.file().write_all(&protected).map_err(|e| at(Error::write(e)))?;
    output.commit(Existing::Keep, true).map_err(at)?;
    if let Some(url) = &init.store {
        make_tables(url, &root)?;
    }
    fresh.finish()?;
    if !verbosity.quiet {
        let dir = shown(folder.path());
        let run = format!("phalanx-server run --dir {}{options}", key_options::word(folder.path()));
        complain_with(format!("{dir}: server created"), Some(&format!("start it: {run}")));
    }
    Ok(())
}
