//! What `rekey` reports: the ways into a file, before a change and after it.

use crate::commands::inspect::SlotReport;
use crate::commands::key_names::KeyNames;
use phalanx_core::format::Header;
use phalanx_host::failure::Outcome;
use phalanx_host::file::Unfinished;
use phalanx_host::lines::{complain, path_hex, shown};
use phalanx_host::say::{say, say_json};
use phalanx_host::verbosity::Verbosity;
use serde::Serialize;
use std::path::Path;
use std::sync::{Mutex, PoisonError};

/// What was done to a file.
pub struct Report {
    before: Header,
    opened_by: usize,
    pub unfinished: Unfinished,
    /// The new header, where the ways in were changed.
    pub after: Option<Header>,
    pub fresh: bool,
    /// Keys and recipients that were to be removed, but have no slot.
    pub missing: Vec<String>,
}

impl Report {
    pub fn new(before: &Header, opened_by: usize, unfinished: Unfinished) -> Self {
        Self { before: before.clone(), opened_by, unfinished, after: None, fresh: false, missing: Vec::new() }
    }

    /// Whether the file has changed.
    pub fn is_changed(&self) -> bool {
        self.after.is_some() || self.unfinished == Unfinished::Finished
    }
}

/// The names of the fields are those of `--json`.
#[derive(Serialize)]
struct Line {
    path: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    path_hex: Option<String>,
    changed: bool,
    fresh: bool,
    /// What became of a change that was interrupted, if there was one.
    interrupted: Option<&'static str>,
    opened_by: usize,
    before: Vec<SlotReport>,
    after: Vec<SlotReport>,
}

/// Reports files, from any thread. The report of a file is printed in one piece.
pub struct Reporter {
    json: bool,
    quiet: bool,
    /// Used only to show the names of keys.
    keys: KeyNames,
    turn: Mutex<()>,
}

impl Reporter {
    pub fn new(json: bool, verbosity: Verbosity) -> Self {
        Self { json, quiet: verbosity.quiet, keys: KeyNames::of_user(), turn: Mutex::default() }
    }

    /// Writes a line to stderr, unless the run is quiet.
    pub fn note(&self, line: String) {
        let _turn = self.turn.lock().unwrap_or_else(PoisonError::into_inner);
        if !self.quiet {
            complain(line);
        }
    }

    pub fn tell(&self, path: &Path, report: &Report) -> Outcome {
        let _turn = self.turn.lock().unwrap_or_else(PoisonError::into_inner);
        if !self.quiet {
            for what in &report.missing {
                complain(format!("warning: {}: {what} has no slot in it, so nothing was removed", shown(path)));
            }
        }
        if self.json {
            return say_json(&self.line(path, report));
        }
        if self.quiet {
            return Ok(());
        }
        say(shown(path))?;
        match report.unfinished {
            Unfinished::None => {}
            Unfinished::Finished => say("  an interrupted change was finished")?,
            Unfinished::Discarded => say("  what an interrupted change had left was removed")?,
        }
        let Some(after) = &report.after else { return self.list(&report.before, Some(report.opened_by)) };
        say("  before")?;
        self.list(&report.before, Some(report.opened_by))?;
        say(if report.fresh { "  after, under a new file key" } else { "  after" })?;
        self.list(after, None)
    }

    /// Reports a file that was done under another name.
    pub fn tell_other_name(&self, path: &Path) -> Outcome {
        let _turn = self.turn.lock().unwrap_or_else(PoisonError::into_inner);
        if self.json {
            let mut line = serde_json::json!({ "path": path.to_string_lossy(), "changed": false, "other_name": true });
            if let Some(hex) = path_hex(path) {
                line["path_hex"] = hex.into();
            }
            return say_json(&line);
        }
        if self.quiet {
            return Ok(());
        }
        say(shown(path))?;
        say("  another name of a file that this run has done")
    }

    fn list(&self, header: &Header, opened_by: Option<usize>) -> Outcome {
        (1..).zip(self.slots(header)).try_for_each(|(number, slot)| {
            let opened = if opened_by == Some(number) { ", which opened it now" } else { "" };
            say(format!("  slot {number:<5} {}{opened}", slot.text()))
        })
    }

    fn slots(&self, header: &Header) -> Vec<SlotReport> {
        header.slots().iter().map(|slot| SlotReport::new(slot, &self.keys)).collect()
    }

    fn line(&self, path: &Path, report: &Report) -> Line {
        Line {
            path: path.to_string_lossy().into_owned(),
            path_hex: path_hex(path),
            changed: report.is_changed(),
            fresh: report.fresh,
            interrupted: match report.unfinished {
                Unfinished::None => None,
                Unfinished::Finished => Some("finished"),
                Unfinished::Discarded => Some("discarded"),
            },
            opened_by: report.opened_by,
            before: self.slots(&report.before),
            after: self.slots(report.after.as_ref().unwrap_or(&report.before)),
        }
    }
}
