//! `phalanx-server status`: whether a server runs in a folder.

use super::dates::date;
use super::folder::Folder;
use super::lock::is_ending;
use super::say::{say, say_json};
use crate::args::Status;
use crate::client::{Client, listens};
use phalanx_host::failure::{Code, Failure, Outcome};
use phalanx_host::lines::shown;
use phalanx_host::words::count;
use serde_json::json;
use std::time::Duration;

/// A server that does not answer within this time does not serve.
const PATIENCE: Duration = Duration::from_secs(10);

/// Says whether a server runs and serves.
///
/// # Errors
/// If none does.
pub fn run(status: &Status) -> Outcome {
    let folder = Folder::of(&status.dir)?;
    folder.must_be_a_servers()?;
    let dir = shown(folder.path());
    let none = || {
        let run = format!("phalanx-server run --dir {} starts one", super::key_options::word(folder.path()));
        Failure::new(Code::Other, format!("{dir}: no server runs here")).hint(run)
    };
    let answer = match Client::running(&folder, PATIENCE)?.get("/v2/status") {
        Ok(answer) => answer,
        // It may have closed its socket meanwhile.
        Err(_) if is_ending(&folder) => return ending(&dir, status.json),
        Err(failure) => return Err(if listens(&folder)? { failure } else { none() }),
    };
    let text = |name: &str| answer[name].as_str().unwrap_or_default().to_owned();
    if status.json {
        say_json(&answer)?;
    } else {
        // One of them has asked this.
        let others = answer["connections"].as_u64().unwrap_or_default().saturating_sub(1);
        let connections = count(others, "other connection");
        let (state, version, since) = (text("state"), text("version"), date(&answer["started"]));
        say(format!("{dir}: {state}, version {version}, since {since}, {connections}"))?;
    }
    if answer["serves"] == true { Ok(()) } else { Err(Failure::written(Code::Other)) }
}

/// Says that a server is ending, which cannot be asked any more.
fn ending(dir: &str, in_json: bool) -> Outcome {
    if in_json {
        say_json(&json!({ "serves": false, "state": "draining" }))?;
        return Err(Failure::written(Code::Other));
    }
    let line = format!("{dir}: a server is ending here: it finishes its requests, and takes no new ones");
    Err(Failure::new(Code::Other, line))
}
