//! What was done, for the user: progress while it is done, and a summary at the end.

use crate::args::{Plan, What};
use crate::message::{Report, Spot};
use phalanx::failure::{Code, Failure, Outcome, complain, say, shown};
use phalanx::progress::{count, others, past_words, rate, size, summary_of, whole_seconds};
use phalanx_core::file::Past;
use std::collections::BTreeSet;
use std::path::Path;
use std::time::{Duration, Instant};

/// The results so far.
pub struct Tally {
    begun: Instant,
    /// How often progress is shown.
    every: Option<Duration>,
    shown: Instant,
    quiet: bool,
    dryrun: bool,
    verb: &'static str,
    expected: (u64, u64),
    advanced: u64,
    files: u64,
    bytes: u64,
    kept: u64,
    failed: u64,
    left_out: u64,
    is_verifying: bool,
    worst: Option<Code>,
    /// Why standard output could not be written to.
    unsaid: Option<Failure>,
}

impl Tally {
    pub fn new(plan: &Plan) -> Self {
        let quiet = plan.verbosity.quiet;
        let every = Some(plan.run.progress).filter(|seconds| *seconds > 0 && !quiet).map(Duration::from_secs);
        let verb = match plan.what {
            What::Protect { .. } => "protected",
            What::Unprotect { .. } => "unprotected",
            What::Verify { .. } => "checked",
        };
        let now = Instant::now();
        Self {
            begun: now,
            every,
            shown: now,
            quiet,
            dryrun: plan.run.dryrun,
            verb,
            expected: (0, 0),
            advanced: 0,
            files: 0,
            bytes: 0,
            kept: 0,
            failed: 0,
            left_out: 0,
            is_verifying: matches!(plan.what, What::Verify { .. }),
            worst: None,
            unsaid: None,
        }
    }

    /// Notes that there are more files and bytes to do.
    pub fn expect(&mut self, files: u64, bytes: u64) {
        self.expected.0 += files;
        self.expected.1 += bytes;
    }

    pub fn advance(&mut self, bytes: u64) {
        self.advanced += bytes;
    }

    /// Writes a failure's line, and counts it.
    pub fn fail(&mut self, line: &str, code: u8) {
        complain(line);
        self.failed += 1;
        self.worst = self.worst.max(Some(Code::with_exit_code(code)));
    }

    /// Takes a report, except its failures.
    pub fn record(&mut self, report: Report) {
        let Report { files, bytes, kept, kept_bytes, left_out, checked, lines, .. } = report;
        self.files += files;
        self.bytes += bytes;
        self.kept += kept;
        self.advanced += kept_bytes;
        self.left_out += left_out.len() as u64;
        left_out.into_iter().chain(lines).filter(|_| !self.quiet).for_each(complain);
        for (path, len) in checked.iter().filter(|_| !self.quiet) {
            let path = shown(Path::new(crate::worker::name(path)));
            self.unsaid =
                say(format!("{path}: {}: whole and authentic", count(*len, "byte"))).err().or(self.unsaid.take());
        }
    }

    /// Says how much of a file an interrupted run had done.
    pub fn went_on(&self, spot: &Spot, done: u64, all: u64) {
        if !self.quiet {
            let path = [&spot.folder[..], &spot.name].join(&b"/"[..]);
            let path = if spot.folder.is_empty() { &spot.name } else { &path };
            let words = past_words(Past::Continued { done, all });
            complain(format!("{}: {words}", shown(Path::new(crate::worker::name(path)))));
        }
    }

    /// Shows the progress, if it is time.
    pub fn show(&mut self) {
        if self.every.is_none_or(|every| self.shown.elapsed() < every) {
            return;
        }
        self.shown = Instant::now();
        let time = self.begun.elapsed();
        let speed = self.advanced as f64 / time.as_secs_f64().max(1e-9);
        let left = self.expected.1.saturating_sub(self.advanced) as f64 / speed.max(1.0);
        let (done, all) = (size(self.advanced), size(self.expected.1));
        let mut line = format!("{} of {}, {done} of {all}", self.files, count(self.expected.0, "file"));
        line += &format!(" in {}, {}", whole_seconds(time), rate(speed));
        if self.advanced > 0 {
            line += &format!(", {} left", whole_seconds(Duration::from_secs_f64(left.min(1e9))));
        }
        complain(line);
    }

    /// Says what was done, on these machines.
    pub fn finish(self, hosts: &[&str]) -> Outcome {
        let machines = hosts.iter().collect::<BTreeSet<_>>().len();
        if self.dryrun {
            let (files, bytes) = self.expected;
            say(format!("would be {}: {}, {}", self.verb, count(files, "file"), size(bytes)))?;
        } else if self.is_verifying {
            let failures = if self.failed > 0 { format!("; {} failed", self.failed) } else { String::new() };
            if !self.quiet && self.files + self.failed > 1 {
                let (files, bytes) = (count(self.files, "file"), count(self.bytes, "byte"));
                say(format!("{files}, {bytes}: whole and authentic{failures}"))?;
            }
        } else if !self.quiet && self.expected.0 > 0 {
            let mut line = format!("{} {}", self.verb, count(self.files, "file"));
            line += &format!(", {}", summary_of(self.bytes, self.begun.elapsed()));
            line += &format!(", {} on {}", count(hosts.len() as u64, "process"), count(machines as u64, "machine"));
            line += &others([(self.kept, "done before"), (self.left_out, "left out"), (self.failed, "failed")]);
            complain(line);
        }
        if let Some(failure) = self.unsaid {
            return Err(failure);
        }
        self.worst.map_or(Ok(()), |code| Err(Failure::told(code)))
    }
}
