//! Whole commands compared with other programs, on the same files in the same run. Each round runs every program once.

pub mod copy;
pub(crate) mod programs;

use crate::error::{Error, Result};
use crate::measure::programs::{find, finish};
use crate::measure::scratch;
use crate::measure::scratch::{Random, Scratch};
use crate::measure::setup::Setup;
use crate::measure::steps::{Rows, Step};
use crate::measure::times::time;
use crate::names::peers::EXPERIMENT;
use crate::row::{Bar, Row, median};
use programs::{Phalanx, Program, Work};
use std::cell::Cell;
use std::fs;
use std::path::Path;
use std::process::Command;

const PEERS: [&str; 8] = ["age", "rage", "openssl enc", "gpg", "gocryptfs", "7z", "rclone", "restic"];
/// The note of rows of whole commands since this is so.
pub const FETCHED: &str = "memory for the output was fetched from the host before each run";
const SUITE_1: &str = "phalanx, suite 1";
const SUITE_4: &str = "phalanx, suite 4";
const SUITE_5: &str = "phalanx, suite 5";
/// The suites that are measured beside suite 1, and their ciphers' names.
const OTHER_SUITES: [(&str, &str); 2] = [(SUITE_4, "aes-256-gcm"), (SUITE_5, "aes-256-turbo")];

/// A ratio that the project requires, for the inputs of a full run: operation, program, the program to compare with, and
/// the least ratio.
type Asked = (&'static str, &'static str, &'static str, f64);

const WHOLE_FILE: [Asked; 5] = [
    ("protect", SUITE_1, "age", 2.2),
    ("unprotect", SUITE_1, "age", 2.5),
    ("protect", SUITE_1, "cp", 0.65),
    ("protect", SUITE_4, "cp", 0.8),
    ("protect", SUITE_5, "cp", 0.9),
];
const SYNCED: [Asked; 1] = [("protect", SUITE_1, "cp and sync", 0.9)];
const PIPES: [Asked; 2] = [("protect", SUITE_1, "age", 1.5), ("unprotect", SUITE_1, "age", 1.5)];
const MANY_FILES: [Asked; 1] = [("protect", SUITE_1, "age", 20.0)];
/// The inputs that requirements are for, in words.
const GIB: &str = "on 1 GiB";
const MANY: &str = "on 10,000 files";
/// The longest that a 1 KB file may take, in seconds.
const SMALL_FILE: f64 = 0.005;
/// The most memory for a large file, in KiB.
const MEMORY: u64 = 96 << 10;

/// The sizes in bytes and counts of a run.
struct Sizes {
    file: u64,
    files: u64,
    large: u64,
    rounds: usize,
}

/// The steps: one for each case.
pub fn steps<'a>(setup: &'a Setup, scratch: &'a Scratch) -> Result<Vec<Step<'a>>> {
    let sizes = match setup.quick {
        true => Sizes { file: 16 << 20, files: 100, large: 64 << 20, rounds: 2 },
        false => Sizes { file: 1 << 30, files: 10_000, large: 4 << 30, rounds: 3 },
    };
    let disk = (4 * sizes.file).max(sizes.files * 13 * 40_000).max(2 * sizes.large + sizes.large / 4);
    scratch::require_disk(&setup.out, disk)?;
    // The files are measured in the page cache.
    scratch::require_memory((4 * sizes.file).max(sizes.large))?;
    let Sizes { file, files, large, rounds } = sizes;
    let weight = |bytes: u64| bytes / 100 * rounds as u64;
    let case = |bytes: u64| format!("{} MiB", bytes >> 20);
    let name = |what: &str| format!("{EXPERIMENT} {what}");
    let set = move |case: String, bytes, rounds, measure, bars_are_for| Set {
        case,
        bytes,
        items: 1,
        rounds,
        measure,
        bars_are_for,
        judges: !setup.quick,
        at_most: None,
    };
    let on_file = move |measure| set(case(file), file, rounds, measure, GIB);
    Ok(vec![
        Step::new(name("whole file"), 8 * weight(file), move |rows| {
            whole_file(setup, scratch, &on_file("whole command"), rows)
        }),
        Step::new(name("synced"), 2 * weight(file), move |rows| {
            synced(setup, scratch, &on_file("whole command, synced"), rows)
        }),
        Step::new(name("pipes"), 4 * weight(file), move |rows| {
            pipes(setup, scratch, &on_file("whole command in pipes"), rows)
        }),
        Step::new(name("many files"), files * 20_000, move |rows| {
            let case = format!("{files} files of 1 to 64 KB");
            let set = Set { items: files, ..set(case, 0, rounds.min(2), "whole command", MANY) };
            many_files(setup, scratch, set, rows)
        }),
        Step::new(name("small file"), 1_000_000, move |rows| {
            let set = set("1 KB".into(), 1000, if rounds > 2 { 50 } else { 10 }, "whole command", "on 1 KB");
            small_file(setup, scratch, &Set { judges: true, at_most: Some(SMALL_FILE), ..set }, rows)
        }),
        Step::new(name("memory"), large / 50, move |rows| {
            memory(setup, scratch, &set(case(large), large, 1, "peak memory", ""), rows)
        }),
    ])
}

/// The programs to compare with that are not installed.
pub fn missing() -> Vec<String> {
    let found = |name: &str| match name {
        "openssl enc" => find("openssl"),
        "7z" => find("7zz").or_else(|| find("7z")),
        name => find(name),
    };
    PEERS.into_iter().filter(|name| found(name).is_none()).map(String::from).collect()
}

/// The input of a set of programs.
struct Set {
    case: String,
    bytes: u64,
    items: u64,
    rounds: usize,
    measure: &'static str,
    /// The input that requirements are for, in words: that of a full run.
    bars_are_for: &'static str,
    /// Whether this input is measured.
    judges: bool,
    /// The longest that Phalanx may take, in seconds.
    at_most: Option<f64>,
}

impl Set {
    fn row(&self, operation: &str, scheme: &str) -> Row {
        Row {
            bytes: self.bytes,
            items: self.items,
            ..Row::of(EXPERIMENT, self.case.clone(), [operation, self.measure, scheme, "command"])
        }
    }

    /// Runs all contestants in turn: one round to warm up, and then those that count.
    fn measure(&self, contestants: &mut [Contestant<'_>], asked: &[Asked], rows: &mut Rows<'_>) -> Result<()> {
        for round in 0..=self.rounds {
            for contestant in contestants.iter_mut() {
                scratch::fetch_memory(self.bytes);
                let (seconds, done) = time(&contestant.run);
                done?;
                if round > 0 {
                    contestant.seconds.push(seconds);
                }
                (contestant.after)()?;
            }
        }
        for contestant in contestants.iter() {
            let row = self.row(contestant.operation, contestant.scheme).timed(contestant.seconds.clone());
            let row = Row { note: Some(FETCHED.into()), ..row };
            let limit = self.at_most.zip(row.median_s).filter(|_| is_ours(&contestant));
            let bar = limit.map(|(limit, median)| Bar {
                asked: format!("at most {} ms, {}", limit * 1e3, self.bars_are_for),
                reached: self.judges.then_some(median <= limit),
            });
            rows.write(Row { bar, ..row })?;
        }
        for ours in contestants.iter().filter(is_ours) {
            for peer in contestants.iter().filter(|peer| peer.operation == ours.operation && !is_ours(peer)) {
                let ratio = median(&peer.seconds).zip(median(&ours.seconds)).map(|(peer, ours)| peer / ours);
                let wanted = (ours.operation, ours.scheme, peer.scheme);
                let bar = asked.iter().find(|(operation, scheme, over, _)| (*operation, *scheme, *over) == wanted);
                let bar = bar.zip(ratio).map(|((.., at_least), ratio)| Bar {
                    asked: format!("at least {at_least} times as fast as {}, {}", peer.scheme, self.bars_are_for),
                    reached: self.judges.then_some(ratio >= *at_least),
                });
                let row = self.row(ours.operation, ours.scheme);
                let measure = format!("{}: times as fast as {}", self.measure, peer.scheme);
                rows.write(Row { measure, speedup: ratio, over: Some(peer.scheme.into()), bar, ..row })?;
            }
        }
        Ok(())
    }
}

fn is_ours(contestant: &&Contestant<'_>) -> bool {
    contestant.scheme.starts_with("phalanx")
}

/// A program in one operation.
struct Contestant<'a> {
    scheme: &'static str,
    operation: &'static str,
    run: Box<dyn Fn() -> Result<()> + 'a>,
    /// Called after each run, and not timed.
    after: Box<dyn Fn() -> Result<()> + 'a>,
    seconds: Vec<f64>,
}

impl<'a> Contestant<'a> {
    fn new(
        scheme: &'static str,
        operation: &'static str,
        run: impl Fn() -> Result<()> + 'a,
        after: impl Fn() -> Result<()> + 'a,
    ) -> Self {
        Self { scheme, operation, run: Box::new(run), after: Box::new(after), seconds: Vec::new() }
    }
}

/// Phalanx in each suite that it supports. A row names each suite that it does not.
fn ours(phalanx: &Phalanx, set: &Set, more: &'static [&str], rows: &mut Rows<'_>) -> Result<Vec<Program>> {
    let mut programs = vec![phalanx.program(SUITE_1, "aes-256", more)];
    for (name, cipher) in OTHER_SUITES {
        if phalanx.knows(cipher) {
            programs.push(phalanx.program(name, cipher, more));
        } else {
            rows.write(set.row("protect", name).not_run("this build does not have the suite"))?;
        }
    }
    Ok(programs)
}

/// The other programs that are installed. Rows name those that are not.
fn peers(names: &[&'static str], scratch: &Scratch, set: &Set, rows: &mut Rows<'_>) -> Result<Vec<Program>> {
    let mut programs = Vec::new();
    for name in names {
        match programs::peer(name, scratch) {
            Ok(program) => programs.push(program),
            Err(why) => rows.write(set.row("protect", name).not_run(&why))?,
        }
    }
    Ok(programs)
}

fn whole_file(setup: &Setup, scratch: &Scratch, set: &Set, rows: &mut Rows<'_>) -> Result<()> {
    let plain = scratch.file("plain", set.bytes, 1)?;
    // 7z would add an extension to a name that has none.
    let (sealed, back) = (scratch.path("sealed.7z"), scratch.path(programs::BACK));
    let phalanx = Phalanx::new(&setup.program, scratch)?;
    let mut programs = vec![programs::cp(), programs::copy_by_threads()?];
    programs.extend(ours(&phalanx, set, &["--no-sync"], rows)?);
    programs.extend(peers(&PEERS, scratch, set, rows)?);
    let clean = |program: &Program| {
        let outputs = [Some(&sealed), Some(&back), program.keeps.as_ref()];
        outputs.into_iter().flatten().try_for_each(|path| scratch::remove(path))
    };
    for program in &programs {
        program.run(Work::Protect(&plain, &sealed))?;
        program.run(Work::Unprotect(&sealed, &back))?;
        if fs::read(&plain).map_err(Error::at(&plain))? != fs::read(&back).map_err(Error::at(&back))? {
            return Err(Error::Program(format!("{}: what came back is not the file", program.name)));
        }
        clean(program)?;
        program.renew()?;
    }
    // Each program gets back what it has just protected.
    let mut contestants = Vec::new();
    for program in &programs {
        let protect = || program.run(Work::Protect(&plain, &sealed));
        contestants.push(Contestant::new(program.name, "protect", protect, || Ok(())));
        let unprotect = || program.run(Work::Unprotect(&sealed, &back));
        contestants.push(Contestant::new(program.name, "unprotect", unprotect, || {
            clean(program)?;
            program.renew()
        }));
    }
    set.measure(&mut contestants, &WHOLE_FILE, rows)?;
    drop(contestants);
    drop(programs);
    scratch::remove(&plain)
}

fn synced(setup: &Setup, scratch: &Scratch, set: &Set, rows: &mut Rows<'_>) -> Result<()> {
    let plain = scratch.file("plain", set.bytes, 1)?;
    let sealed = scratch.path("sealed");
    let phalanx = Phalanx::new(&setup.program, scratch)?;
    let (cp, ours) = (programs::cp(), ours(&phalanx, set, &[], rows)?);
    let copy = || {
        cp.run(Work::Protect(&plain, &sealed))?;
        let mut sync = Command::new("sync");
        sync.arg(&sealed);
        finish(sync)
    };
    let clean = || scratch::remove(&sealed);
    let mut contestants = vec![Contestant::new("cp and sync", "protect", copy, clean)];
    for program in &ours {
        let protect = || program.run(Work::Protect(&plain, &sealed));
        contestants.push(Contestant::new(program.name, "protect", protect, clean));
    }
    set.measure(&mut contestants, &SYNCED, rows)?;
    scratch::remove(&plain)
}

fn pipes(setup: &Setup, scratch: &Scratch, set: &Set, rows: &mut Rows<'_>) -> Result<()> {
    let plain = scratch.file("plain", set.bytes, 1)?;
    let phalanx = Phalanx::new(&setup.program, scratch)?;
    let mut programs = ours(&phalanx, set, &[], rows)?;
    programs.extend(peers(&["age"], scratch, set, rows)?);
    let dash = Path::new("-");
    let mut contestants = Vec::new();
    for (i, program) in programs.iter().enumerate() {
        let sealed = scratch.path(&format!("sealed {i}"));
        program.run(Work::Protect(&plain, &sealed))?;
        let plain = &plain;
        let protect = move || programs::finish_in_pipes(program.command(Work::Protect(dash, dash)), plain);
        let unprotect = move || programs::finish_in_pipes(program.command(Work::Unprotect(dash, dash)), &sealed);
        contestants.push(Contestant::new(program.name, "protect", protect, || Ok(())));
        contestants.push(Contestant::new(program.name, "unprotect", unprotect, || Ok(())));
    }
    set.measure(&mut contestants, &PIPES, rows)?;
    (0..programs.len()).try_for_each(|i| scratch::remove(&scratch.path(&format!("sealed {i}"))))?;
    scratch::remove(&plain)
}

fn many_files(setup: &Setup, scratch: &Scratch, mut set: Set, rows: &mut Rows<'_>) -> Result<()> {
    let folder = scratch.folder("many")?;
    let mut random = Random::new(2);
    for i in 0..set.items {
        let len = 1_000 + random.below(63_001);
        scratch::write(&folder.join(i.to_string()), len, i)?;
        set.bytes += len;
    }
    let phalanx = Phalanx::new(&setup.program, scratch)?;
    let ours = ours(&phalanx, &set, &["--recursive", "--no-sync"], rows)?;
    let one_by_one = peers(&["age"], scratch, &set, rows)?;
    // Each run has its own folder, and none is removed before the end: before ext4 gives a new file its number, it looks
    // through everything that was deleted in the last minutes.
    let runs = Cell::new(0);
    let sealed = || scratch.path(&format!("many sealed {}", runs.get()));
    let next = || {
        runs.set(runs.get() + 1);
        Ok(())
    };
    let mut contestants = Vec::new();
    for program in &ours {
        let protect = || program.run(Work::Protect(&folder, &sealed()));
        contestants.push(Contestant::new(program.name, "protect", protect, next));
    }
    for program in &one_by_one {
        let protect = || {
            let sealed = sealed();
            fs::create_dir(&sealed).map_err(Error::at(&sealed))?;
            (0..set.items)
                .map(|i| i.to_string())
                .try_for_each(|name| program.run(Work::Protect(&folder.join(&name), &sealed.join(&name))))
        };
        contestants.push(Contestant::new(program.name, "protect", protect, next));
    }
    set.measure(&mut contestants, &MANY_FILES, rows)?;
    drop(contestants);
    (0..runs.get()).try_for_each(|run| scratch::remove(&scratch.path(&format!("many sealed {run}"))))?;
    scratch::remove(&folder)
}

fn small_file(setup: &Setup, scratch: &Scratch, set: &Set, rows: &mut Rows<'_>) -> Result<()> {
    let plain = scratch.file("plain", set.bytes, 1)?;
    let sealed = scratch.path("sealed");
    let phalanx = Phalanx::new(&setup.program, scratch)?;
    let ours = phalanx.program(SUITE_1, "aes-256", &["--no-sync"]);
    let mut programs = vec![programs::cp()];
    programs.extend(peers(&["age", "rage", "openssl enc"], scratch, set, rows)?);
    let clean = || scratch::remove(&sealed);
    let mut contestants = Vec::new();
    for program in [&ours].into_iter().chain(&programs) {
        let protect = || program.run(Work::Protect(&plain, &sealed));
        contestants.push(Contestant::new(program.name, "protect", protect, clean));
    }
    set.measure(&mut contestants, &[], rows)?;
    scratch::remove(&plain)
}

fn memory(setup: &Setup, scratch: &Scratch, set: &Set, rows: &mut Rows<'_>) -> Result<()> {
    let plain = scratch.file("plain", set.bytes, 1)?;
    let sealed = scratch.path("sealed");
    let phalanx = Phalanx::new(&setup.program, scratch)?;
    for program in ours(&phalanx, set, &["--no-sync"], rows)? {
        let (seconds, peak_kib) = time(|| programs::peak_memory(program.command(Work::Protect(&plain, &sealed))));
        let peak_kib = peak_kib?;
        let asked = format!("at most {} MiB on 4 GiB", MEMORY >> 10);
        let bar = peak_kib.map(|peak| Bar { asked, reached: set.judges.then_some(peak <= MEMORY) });
        rows.write(Row { peak_kib, bar, ..set.row("protect", program.name) }.timed(vec![seconds]))?;
        scratch::remove(&sealed)?;
    }
    scratch::remove(&plain)
}
