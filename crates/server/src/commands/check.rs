//! `phalanx-server check`: opens every secret of the store, or of a backup.

use super::folder::{Folder, Why};
use super::report::{judge, judge_backup, report};
use super::say::{say, say_json};
use crate::args::Check;
use crate::client::Client;
use crate::store::Copies;
use crate::users::Report;
use phalanx_host::failure::Outcome;
use phalanx_host::verbosity::Verbosity;
use phalanx_host::words::count;

/// Checks the store of a server, or a backup.
///
/// # Errors
/// If something is damaged, or the server cannot be reached or opened.
pub fn run(check: Check, verbosity: Verbosity) -> Outcome {
    let folder = Folder::of(&check.place.dir)?;
    let is_backup = folder.is_backup();
    let client = if is_backup {
        let root = folder.open_root(&check.place.keys, verbosity, Why::ToRestore)?;
        Client::alone(&folder, &root, &Copies::in_folder(folder.path()).rows, verbosity)?
    } else {
        Client::to_check(&folder, &check.place.keys, verbosity)?
    };
    let report = report(&client)?;
    if check.json {
        say_json(&report)?;
    } else {
        let Report { keys, versions, buckets, users, tokens, .. } = report;
        let counts = [(keys, "key"), (versions, "version"), (buckets, "bucket"), (users, "user"), (tokens, "token")];
        say(counts.map(|(many, what)| count(many, what)).join(", "))?;
    }
    if is_backup { judge_backup(&report, folder.path()) } else { judge(&report) }
}
