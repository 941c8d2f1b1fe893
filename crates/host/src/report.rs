//! `--json` of `protect`, `unprotect` and `verify`: a line of JSON on stdout for each file, as it is done, and one for
//! the run.
//!
//! A failure is written where it is reported, so that none is missing. So the report belongs to the whole process.

use crate::failure::{self, Code, Failure, Outcome};
use crate::lines::{complain, path_hex, shown, warn_to};
use crate::say::say_json;
use serde::Serialize;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, OnceLock, PoisonError};
use std::time::Instant;

static RUN: OnceLock<Run> = OnceLock::new();

/// What has been done so far.
struct Run {
    started: Instant,
    status: Status,
    /// Whether files that are done have lines.
    lines: bool,
    counts: Counts,
    /// More of the last line.
    more: Mutex<Option<serde_json::Value>>,
    /// The warnings that were written.
    warnings: Mutex<Vec<String>>,
    /// Why a line could not be written.
    unwritten: Mutex<Option<Code>>,
}

#[derive(Default)]
struct Counts {
    files: AtomicU64,
    plaintext_bytes: AtomicU64,
    left_out: AtomicU64,
    failed: AtomicU64,
    without_input: AtomicU64,
}

/// What happened to a file.
#[derive(Clone, Copy, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Status {
    /// It was protected.
    Protected,
    /// It was unprotected.
    Unprotected,
    /// It was checked, and is whole and authentic.
    Whole,
    /// It is not a file to work on.
    LeftOut,
    /// It could not be worked on.
    Failed,
}

/// The names of the fields are those of the lines.
#[derive(Serialize)]
struct Line<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    path: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    path_hex: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    output: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    output_hex: Option<String>,
    status: Status,
    /// How many bytes of plaintext it has.
    #[serde(skip_serializing_if = "Option::is_none")]
    plaintext_bytes: Option<u64>,
    /// Who has signed it, if that was checked.
    #[serde(skip_serializing_if = "Option::is_none")]
    signer: Option<&'a str>,
    /// The line on stderr, without the name of the program.
    #[serde(skip_serializing_if = "Option::is_none")]
    message: Option<&'a str>,
    /// The hint on stderr.
    #[serde(skip_serializing_if = "Option::is_none")]
    hint: Option<&'a str>,
    /// The exit code of a run that fails only for this reason.
    #[serde(skip_serializing_if = "Option::is_none")]
    exit_code: Option<u8>,
}

#[derive(Serialize)]
struct Summary {
    files: u64,
    plaintext_bytes: u64,
    left_out: u64,
    failed: u64,
    /// How many entries of a mirror have no input. They stay as they are.
    without_input: u64,
    seconds: f64,
    exit_code: u8,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    warnings: Vec<String>,
    #[serde(flatten, skip_serializing_if = "Option::is_none")]
    more: Option<serde_json::Value>,
}

/// Begins the report. `status` is that of each file that is done.
pub fn begin(status: Status) {
    start(status, true);
}

/// As [`begin`] does, but files that are done have no lines. Failures do.
pub fn begin_brief(status: Status) {
    start(status, false);
}

fn start(status: Status, lines: bool) {
    RUN.get_or_init(|| Run {
        started: Instant::now(),
        status,
        lines,
        counts: Counts::default(),
        more: Mutex::default(),
        warnings: Mutex::default(),
        unwritten: Mutex::default(),
    });
    failure::report_to(failed);
    warn_to(|warning| {
        if let Some(run) = RUN.get() {
            run.warnings.lock().unwrap_or_else(PoisonError::into_inner).push(warning.to_owned());
        }
    });
}

/// Adds fields to the line of the run.
pub fn add(fields: serde_json::Value) {
    if let Some(run) = RUN.get() {
        *run.more.lock().unwrap_or_else(PoisonError::into_inner) = Some(fields);
    }
}

/// An entry of a tree is done, as `status` says, or would be. `from` is where it was, if it is known to be moved.
pub fn entry(path: &Path, status: &str, from: Option<&Path>) -> Outcome {
    let mut fields = serde_json::Map::new();
    let mut add = |name: &str, value: String| drop(fields.insert(name.to_owned(), value.into()));
    for (name, path) in [("path", Some(path)), ("from", from)] {
        let Some(path) = path else { continue };
        add(name, path.to_string_lossy().into_owned());
        if let Some(hex) = path_hex(path) {
            add(&format!("{name}_hex"), hex);
        }
    }
    add("status", status.to_owned());
    say_json(&fields)
}

/// Whether lines are written.
pub fn is_on() -> bool {
    RUN.get().is_some()
}

/// Reports a finished file. `output` is where it was written to, if it was.
pub fn done(path: &Path, output: Option<&Path>, bytes: u64) {
    done_by(path, output, bytes, None);
}

/// Reports a finished file as [`done`] does, and who has signed it.
pub fn done_by(path: &Path, output: Option<&Path>, bytes: u64, signer: Option<&str>) {
    let Some(run) = RUN.get() else { return };
    increase(&run.counts.files, 1);
    increase(&run.counts.plaintext_bytes, bytes);
    if !run.lines {
        return;
    }
    let output_hex = output.and_then(path_hex);
    let output = output.map(|path| path.to_string_lossy().into_owned());
    run.write(&Line { output, output_hex, plaintext_bytes: Some(bytes), signer, ..Line::new(Some(path), run.status) });
}

/// Reports something that is left out. Writes the line that says why, with and without `--json`.
pub fn left_out(path: &Path, why: &str) {
    let line = format!("{}: {why}: left out", shown(path));
    complain(&line);
    let Some(run) = RUN.get() else { return };
    increase(&run.counts.left_out, 1);
    run.write(&Line { message: Some(&line), ..Line::new(Some(path), Status::LeftOut) });
}

/// Reports a failure, and its path if it has one. [`Failure::report`] calls it after [`begin`].
fn failed(path: Option<&Path>, failure: &Failure) {
    let Some(run) = RUN.get() else { return };
    increase(&run.counts.failed, 1);
    let line = Line::new(path, Status::Failed);
    run.write(&Line {
        message: failure.line(),
        hint: failure.advice(),
        exit_code: Some(failure.code().number()),
        ..line
    });
}

/// Records how many entries of a mirror have no input.
pub fn without_input(number: u64) {
    if let Some(run) = RUN.get() {
        increase(&run.counts.without_input, number);
    }
}

/// Ends the report: writes the last line. Returns the outcome, or a failure if lines could not be written.
pub fn end(outcome: Outcome) -> Outcome {
    let Some(run) = RUN.get() else { return outcome };
    let outcome = outcome.map_err(|failure| {
        failure.report();
        Failure::written(failure.code())
    });
    let number = |number: &AtomicU64| number.load(Ordering::Relaxed);
    let Counts { files, plaintext_bytes, left_out, failed, without_input } = &run.counts;
    let written = say_json(&serde_json::json!({ "summary": Summary {
        files: number(files),
        plaintext_bytes: number(plaintext_bytes),
        left_out: number(left_out),
        failed: number(failed),
        without_input: number(without_input),
        seconds: run.started.elapsed().as_secs_f64(),
        exit_code: outcome.as_ref().map_or_else(|failure| failure.code().number(), |()| 0),
        warnings: std::mem::take(&mut *run.warnings.lock().unwrap_or_else(PoisonError::into_inner)),
        more: run.more.lock().unwrap_or_else(PoisonError::into_inner).take(),
    }}));
    let unwritten = run.unwritten.lock().unwrap_or_else(PoisonError::into_inner).take();
    let written = written.and(unwritten.map_or(Ok(()), |code| Err(Failure::written(code))));
    failure::worse(outcome, written)
}

impl Run {
    fn write(&self, line: &Line) {
        if let Err(failure) = say_json(line) {
            *self.unwritten.lock().unwrap_or_else(PoisonError::into_inner) = Some(failure.code());
        }
    }
}

impl Line<'_> {
    fn new(path: Option<&Path>, status: Status) -> Self {
        Self {
            path: path.map(|path| path.to_string_lossy().into_owned()),
            path_hex: path.and_then(path_hex),
            output: None,
            output_hex: None,
            status,
            plaintext_bytes: None,
            signer: None,
            message: None,
            hint: None,
            exit_code: None,
        }
    }
}

fn increase(to: &AtomicU64, number: u64) {
    to.fetch_add(number, Ordering::Relaxed);
}
