//! The results for the user: progress during the work, and a summary at the end.

use crate::args::{Plan, What};
use crate::message::{FolderStrays, Location, Report, Warned};
use phalanx_host::failure::{self, Code, Failure, Outcome};
use phalanx_host::file::Past;
use phalanx_host::lines::{complain, complain_with, shown};
use phalanx_host::lock::lock;
use phalanx_host::say::say;
use phalanx_host::strays::Strays;
use phalanx_host::transfer::tally::Tally as Counts;
use phalanx_host::warnings::{KEEP_COPY, say_of_special_bits};
use phalanx_host::words::{count, others, past_words, rate, size, summary_of, whole_seconds};
use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// The paths of a tree and of its mirror.
pub struct Root {
    pub input: PathBuf,
    pub output: Option<PathBuf>,
    /// Whether the driver walks through it.
    pub is_walked: bool,
}

/// What the driver and all processes have met that is not a file that is done.
#[derive(Default)]
pub struct Failures {
    /// The failures of all processes, and what else belongs to no tree.
    pub of_all: Arc<Counts>,
    /// What the driver has met in trees, and the paths of their mirrors.
    of_trees: Mutex<Vec<(PathBuf, Arc<Counts>)>>,
}

impl Failures {
    /// The counts of one more tree.
    pub fn of_tree(&self, output: PathBuf) -> Arc<Counts> {
        let counts = Arc::<Counts>::default();
        lock(&self.of_trees).push((output, counts.clone()));
        counts
    }

    fn sum(&self, number: impl Fn(&Counts) -> u64) -> u64 {
        number(&self.of_all) + lock(&self.of_trees).iter().map(|(_, counts)| number(counts)).sum::<u64>()
    }

    /// The worst failure, if there was one.
    pub fn outcome(&self) -> Outcome {
        let of_trees = lock(&self.of_trees);
        of_trees.iter().fold(self.of_all.outcome(), |worst, (_, counts)| failure::worse(worst, counts.outcome()))
    }
}

/// The results so far.
pub struct Tally {
    begun: Instant,
    /// How often progress is shown.
    every: Option<Duration>,
    shown: Instant,
    quiet: bool,
    dry_run: bool,
    verb: &'static str,
    expected: (u64, u64),
    advanced: u64,
    files: u64,
    bytes: u64,
    kept: u64,
    /// The failures of all processes and of the driver, and what the driver has left out.
    failures: Arc<Failures>,
    left_out: u64,
    is_verifying: bool,
    is_quick: bool,
    /// Whether the driver sums up the run.
    is_mirroring: bool,
    /// Whether files are opened.
    opens: bool,
    /// Whether there may be more than one file.
    is_many: bool,
    warned: BTreeSet<Warned>,
    roots: BTreeMap<u32, Root>,
    /// What the mirrors of trees hold without having an input for it.
    strays: BTreeMap<u32, Strays>,
    /// The trees with files to work on.
    filled: BTreeSet<u32>,
    /// The failure to write to standard output, if there was one.
    unsaid: Option<Failure>,
}

impl Tally {
    pub fn new(plan: &Plan, failures: Arc<Failures>) -> Self {
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
            dry_run: plan.run.dry_run,
            verb,
            expected: (0, 0),
            advanced: 0,
            files: 0,
            bytes: 0,
            kept: 0,
            failures,
            left_out: 0,
            opens: !matches!(plan.what, What::Protect { .. }),
            is_mirroring: plan.mirror.is_some(),
            is_quick: matches!(plan.what, What::Verify { quick: true, .. }),
            is_verifying: matches!(plan.what, What::Verify { .. }),
            is_many: plan.destination.recursive || plan.paths.len() > 1,
            warned: BTreeSet::new(),
            roots: BTreeMap::new(),
            strays: BTreeMap::new(),
            filled: BTreeSet::new(),
            unsaid: None,
        }
    }

    /// Notes that there are more files and bytes to do.
    pub fn expect(&mut self, files: u64, bytes: u64) {
        self.expected.0 += files;
        self.expected.1 += bytes;
    }

    /// Notes the paths of the trees.
    pub fn note(&mut self, roots: BTreeMap<u32, Root>) {
        self.roots = roots;
    }

    pub fn advance(&mut self, bytes: u64) {
        self.advanced += bytes;
    }

    /// Writes a failure's line and its hint, and counts it.
    pub fn fail(&mut self, line: &str, hint: Option<&str>, code: u8) {
        let failure = Failure::new(Code::with_exit_code(code), line);
        self.failures.of_all.fail(&match hint {
            Some(hint) => failure.hint(hint),
            None => failure,
        });
    }

    /// Adds a report, except its failures.
    pub fn record(&mut self, report: Report) {
        let Report { files, bytes, kept, kept_bytes, left_out, checked, lines, warnings, strays, filled, .. } = report;
        self.files += files;
        self.bytes += bytes;
        self.kept += kept;
        self.advanced += kept_bytes;
        self.left_out += left_out.len() as u64;
        left_out.into_iter().for_each(complain);
        lines.into_iter().filter(|_| !self.quiet).for_each(complain);
        self.filled.extend(filled);
        let new = warnings.into_iter().filter(|(of, _)| self.warned.insert(*of));
        for (of, line) in new {
            match of {
                Warned::SpecialBits => say_of_special_bits(line),
                Warned::KeyInside(_) => complain_with(line, Some(KEEP_COPY)),
            }
        }
        for FolderStrays { tree, number, first } in strays {
            let first = first.into_iter().map(|path| OsString::from_vec(path).into()).collect();
            self.strays.entry(tree).or_default().join(Strays { number, first });
        }
        for (path, len) in checked.iter().filter(|_| !self.quiet) {
            let path = shown(Path::new(crate::message::name(path)));
            self.unsaid =
                say(format!("{path}: {}: whole and authentic", count(*len, "byte"))).err().or(self.unsaid.take());
        }
    }

    /// Prints how much of a file an interrupted run had done.
    pub fn went_on(&self, location: &Location, done: u64, all: u64) {
        if !self.quiet {
            let path = [&location.folder[..], &location.name].join(&b"/"[..]);
            let path = if location.folder.is_empty() { &location.name } else { &path };
            let words = past_words(Past::Continued { done, all });
            complain(format!("{}: {words}", shown(Path::new(crate::message::name(path)))));
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

    /// Trees in which no manifest was read.
    fn without_manifest(&self) -> impl Iterator<Item = (u32, &Root)> {
        self.roots.iter().map(|(tree, root)| (*tree, root)).filter(|(_, root)| !root.is_walked)
    }

    /// Returns the failure for trees without protected files, which are named.
    fn fail_empty(&self) -> Outcome {
        let empty = self.without_manifest().filter(|(tree, _)| !self.filled.contains(tree));
        let failures: Vec<Failure> = empty.map(|(_, root)| Failure::nothing_protected(&root.input)).collect();
        failure::each(&failures, |failure| {
            failure.report();
            Err(Failure::written(failure.code()))
        })
    }

    /// Names trees with files of which nothing is known but that they are authentic.
    fn name_unlisted(&self) {
        let why = match self.is_verifying {
            true => "no manifest, so nothing is known of what is missing or older",
            false => "no manifest was compared, so nothing is known of what is missing or older",
        };
        let filled = self.without_manifest().filter(|(tree, _)| self.filled.contains(tree));
        filled.for_each(|(_, root)| complain(format!("{}: {why}", shown(&root.input))));
    }

    /// Prints the summary of the work on these machines. `is_whole`: the job was not stopped early.
    pub fn finish(self, hosts: &[&str], is_whole: bool) -> Outcome {
        let (failed, left_out) =
            (self.failures.sum(Counts::failed), self.left_out + self.failures.sum(Counts::left_out));
        let mut empty = Ok(());
        if self.opens && !self.dry_run && !self.quiet {
            self.name_unlisted();
        }
        let machines = hosts.iter().collect::<BTreeSet<_>>().len();
        if self.dry_run {
            let (files, bytes) = self.expected;
            say(format!("would be {}: {}, {}", self.verb, count(files, "file"), size(bytes)))?;
        } else if self.is_verifying {
            if is_whole {
                empty = self.fail_empty();
            }
            if !self.quiet && !self.is_quick && self.is_many && self.files + failed > 0 {
                let (files, bytes) = (count(self.files, "file"), count(self.bytes, "byte"));
                let others = others([(left_out, "left out"), (failed, "failed")]);
                say(format!("{files}, {bytes}: whole and authentic{others}"))?;
            }
        } else if !self.quiet && !self.is_mirroring && self.expected.0 > 0 {
            let mut line = format!("{} {}", self.verb, count(self.files, "file"));
            line += &format!(", {}", summary_of(self.bytes, self.begun.elapsed()));
            line += &format!(", {} on {}", count(hosts.len() as u64, "process"), count(machines as u64, "machine"));
            line += &others([(self.kept, "done before"), (left_out, "left out"), (failed, "failed")]);
            complain(line);
        }
        if !self.quiet {
            let line = |(tree, strays): (_, &Strays)| strays.line(self.roots.get(tree)?.output.as_ref()?);
            let lines = self.strays.iter().filter_map(line);
            lines.for_each(complain);
            for (output, counts) in &*lock(&self.failures.of_trees) {
                counts.strays().line(output).into_iter().for_each(complain);
            }
        }
        if let Some(failure) = self.unsaid {
            return Err(failure);
        }
        failure::worse(self.failures.outcome(), empty)
    }
}
