//! What is found where every secret is opened.

use crate::client::Client;
use crate::users::Report;
use phalanx_host::failure::{Code, Failure, Outcome};
use phalanx_host::lines::{complain, shown};
use serde_json::json;
use std::path::Path;

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

/// Fails if something in a backup is damaged, with a line for each thing.
///
/// # Errors
/// If something is damaged.
pub fn judge_backup(report: &Report, backup: &Path) -> Outcome {
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
