//! `phalanx-server check`: opens every secret of the store, or of a backup.

use super::folder::{Folder, Why};
use super::restore;
use super::say::{say, say_json};
use crate::args::Check;
use crate::client::Client;
use crate::store::Copies;
use crate::users::Report;
use phalanx_host::failure::{Code, Failure, Outcome};
use phalanx_host::lines::complain;
use phalanx_host::verbosity::Verbosity;
use phalanx_host::words::count;
use serde_json::json;

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
    if is_backup { restore::judge(&report, folder.path()) } else { judge(&report) }
}

/// Asks for a report.
///
/// # Errors
/// If there is none.
pub fn report(client: &Client) -> Outcome<Report> {
    let answer = client.post("/v2/manage/check", &json!({}))?;
    serde_json::from_value(answer).map_err(|_| Failure::new(Code::Other, "the server answers no report"))
}

/// Fails if something is damaged, with a line for each thing.
///
/// # Errors
/// If something is damaged.
pub fn judge(report: &Report) -> Outcome {
    let Some((last, others)) = report.damage.split_last() else { return Ok(()) };
    let line = |what: &String| format!("damaged: {what}");
    others.iter().for_each(|what| complain(line(what)));
    Err(Failure::new(Code::NotAuthentic, line(last)).hint("restore it from a backup"))
}
