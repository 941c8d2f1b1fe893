//! Whole commands compared with other programs, on the same files in the same run. Each round runs every program once.

pub mod copy;
mod mirror;
pub(crate) mod programs;
mod stores;

use crate::measure::programs::{command, find, finish};
use crate::measure::scratch;
use crate::measure::setup::PeersPart;
use crate::measure::{Contestant, Error, Random, Result, Row, Rows, Scratch, Setup, Step, in_turns, row_of, time};
use crate::names::peers::EXPERIMENT;
use crate::row::Bar;
use phalanx_core::engine::Op;
use programs::Program;
use std::cell::Cell;
use std::fs;
use std::path::Path;

const PEERS: [&str; 8] = ["age", "rage", "openssl enc", "gpg", "gocryptfs", "7z", "rclone", "restic"];
/// The note of rows of whole commands. Older rows do not have it, because this was not done.
pub const FETCHED: &str = "memory for the output was fetched from the host before each run";
const SUITE_1: &str = "phalanx, suite 1";
const SUITE_4: &str = "phalanx, suite 4";
const SUITE_5: &str = "phalanx, suite 5";
/// The suites and their ciphers' names.
const SUITES: [(&str, &str); 3] = [(SUITE_1, "aes-256"), (SUITE_4, "aes-256-gcm"), (SUITE_5, "aes-256-turbo")];

/// A ratio that the project requires for the inputs of a full run: operation, program, program to compare with, and
/// least ratio.
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
/// The longest that a 1 KB file may take, in seconds.
const SMALL_FILE: f64 = 0.005;
/// The most memory for a large file, in KiB.
const MEMORY: u64 = 96 << 10;

/// The input of a set of programs.
#[derive(Clone)]
struct Set<'a> {
    setup: &'a Setup,
    scratch: &'a Scratch,
    case: String,
    bytes: u64,
    items: u64,
    rounds: usize,
    measure: &'static str,
    /// The input of a full run, in words. Requirements are for it.
    bars_are_for: &'static str,
    asked: &'static [Asked],
}

/// The steps of the parts that are asked for.
pub fn steps<'a>(setup: &'a Setup, scratch: &'a Scratch) -> Result<Vec<Step<'a>>> {
    let mut steps = Vec::new();
    if setup.peers.has(PeersPart::Commands) {
        steps.extend(commands(setup, scratch)?);
    }
    if setup.peers.has(PeersPart::Mirror) {
        steps.push(mirror::step(setup, scratch)?);
    }
    if setup.peers.has(PeersPart::MirrorMemory) {
        steps.push(mirror::memory_step(setup, scratch)?);
    }
    if setup.peers.has(PeersPart::Stores) {
        steps.push(stores::step(setup, scratch)?);
    }
    Ok(steps)
}

/// The steps of single commands: one for each case.
fn commands<'a>(setup: &'a Setup, scratch: &'a Scratch) -> Result<Vec<Step<'a>>> {
    let (file, files, large, rounds) = match setup.quick {
        true => (16 << 20, 100, 64 << 20, 2),
        false => (1 << 30, 10_000, 4u64 << 30, 3),
    };
    let disk = (4 * file).max(files * 13 * 40_000).max(2 * large + large / 4);
    scratch::require_disk(&setup.out, disk)?;
    // The files are measured in the page cache.
    scratch::require_memory((4 * file).max(large))?;
    let set = |bytes: u64, measure, bars_are_for, asked| {
        let case = format!("{} MiB", bytes >> 20);
        Set { setup, scratch, case, bytes, items: 1, rounds, measure, bars_are_for, asked }
    };
    let on_file = |measure, asked| set(file, measure, "on 1 GiB", asked);
    let many = Set {
        case: format!("{files} files of 1 to 64 KB"),
        items: files,
        rounds: rounds.min(2),
        ..set(0, "whole command", "on 10,000 files", &MANY_FILES)
    };
    let small_rounds = if setup.quick { 10 } else { 50 };
    let small = Set { case: "1 KB".into(), rounds: small_rounds, ..set(1000, "whole command", "on 1 KB", &[]) };
    let weight = file / 100 * rounds as u64;
    type Measure = fn(&Set<'_>, &mut Rows<'_>) -> Result<()>;
    let all: [(&str, u64, Set<'_>, Measure); 6] = [
        ("whole file", 8 * weight, on_file("whole command", &WHOLE_FILE), whole_file),
        ("synced", 2 * weight, on_file("whole command, synced", &SYNCED), synced),
        ("pipes", 4 * weight, on_file("whole command in pipes", &PIPES), pipes),
        ("many files", files * 20_000, many, many_files),
        ("small file", 1_000_000, small, small_file),
        ("memory", large / 50, set(large, "peak memory", "", &[]), memory),
    ];
    let step = |(name, weight, set, measure): (&str, u64, Set<'a>, Measure)| {
        Step::new(format!("{EXPERIMENT} {name}"), weight, move |rows| measure(&set, rows))
    };
    Ok(all.into_iter().map(step).collect())
}

/// The programs to compare with that are not installed.
pub fn missing(setup: &Setup) -> Vec<String> {
    let found = |name: &str| match name {
        "openssl enc" => find("openssl"),
        "7z" => find("7zz").or_else(|| find("7z")),
        name => find(name),
    };
    let of_commands = PEERS.into_iter().filter(|name| found(name).is_none()).map(String::from);
    let of_mirror = mirror::missing();
    let mut missing = Vec::new();
    missing.extend(of_commands.filter(|_| setup.peers.has(PeersPart::Commands)));
    missing.extend(of_mirror.into_iter().filter(|_| setup.peers.has(PeersPart::Mirror)));
    missing.extend(stores::missing().into_iter().filter(|_| setup.peers.has(PeersPart::Stores)));
    missing
}

impl<'a> Set<'a> {
    fn row(&self, operation: &str, scheme: &str) -> Row {
        row_of(EXPERIMENT, &self.case, [operation, self.measure, scheme, "command"], [self.bytes, self.items], 0)
    }

    /// Phalanx in these suites. Writes a row for each suite that this build does not have.
    fn ours(&self, suites: &[(&'static str, &str)], more: &str, rows: &mut Rows<'_>) -> Result<Vec<Program>> {
        let mut programs = Vec::new();
        for (name, cipher) in suites {
            match programs::phalanx(&self.setup.program, self.scratch, name, cipher, more) {
                Ok(program) => programs.push(program),
                Err(Error::NotRun(why)) => rows.write(self.row("protect", name).not_run(&why))?,
                Err(error) => return Err(error),
            }
        }
        Ok(programs)
    }

    /// The other programs that are installed. Writes rows for those that are not.
    fn peers(&self, names: &[&'static str], rows: &mut Rows<'_>) -> Result<Vec<Program>> {
        let mut programs = Vec::new();
        for name in names {
            match programs::peer(name, self.scratch) {
                Ok(program) => programs.push(program),
                Err(why) => rows.write(self.row("protect", name).not_run(&why.to_string()))?,
            }
        }
        Ok(programs)
    }

    /// A program that protects, with memory for its output.
    fn contestant<'b>(
        &'b self,
        scheme: &str,
        operation: &str,
        mut work: impl FnMut() -> Result<()> + 'b,
        mut after: impl FnMut() -> Result<()> + 'b,
    ) -> Contestant<'b> {
        Contestant::new(vec![self.row(operation, scheme)], move |_| {
            let seconds = self.time(&mut work)?;
            after().map(|()| vec![Some(seconds)])
        })
    }

    fn time(&self, work: impl FnMut() -> Result<()>) -> Result<f64> {
        scratch::fetch_memory(self.bytes);
        let (seconds, done) = time(work);
        done.map(|()| seconds)
    }

    /// Measures them in turn, and compares Phalanx with the others. Phalanx may take `at_most` so many seconds.
    fn measure(&self, contestants: Vec<Contestant<'_>>, at_most: Option<f64>, rows: &mut Rows<'_>) -> Result<()> {
        let all = in_turns(contestants, 1, self.rounds)?.concat();
        for row in &all {
            let limit = at_most.zip(row.median_s).filter(|_| is_ours(&row));
            let bar = limit.map(|(limit, median)| Bar {
                asked: format!("at most {} ms, {}", limit * 1e3, self.bars_are_for),
                reached: Some(median <= limit),
            });
            rows.write(Row { note: Some(FETCHED.into()), bar, ..row.clone() })?;
        }
        for ours in all.iter().filter(is_ours) {
            for peer in all.iter().filter(|peer| peer.operation == ours.operation && !is_ours(peer)) {
                let ratio = peer.median_s.zip(ours.median_s).map(|(peer, ours)| peer / ours);
                let wanted = (ours.operation.as_str(), ours.scheme.as_str(), peer.scheme.as_str());
                let asked =
                    self.asked.iter().find(|(operation, scheme, over, _)| (*operation, *scheme, *over) == wanted);
                let bar = asked.zip(ratio).and_then(|((.., at_least), ratio)| {
                    let asked = format!("at least {at_least} times as fast as {}, {}", peer.scheme, self.bars_are_for);
                    self.setup.bar(asked, ratio >= *at_least)
                });
                let measure = format!("{}: times as fast as {}", self.measure, peer.scheme);
                let row = self.row(&ours.operation, &ours.scheme);
                rows.write(Row { measure, speedup: ratio, over: Some(peer.scheme.clone()), bar, ..row })?;
            }
        }
        Ok(())
    }
}

fn is_ours(row: &&Row) -> bool {
    row.scheme.starts_with("phalanx")
}

fn whole_file(set: &Set<'_>, rows: &mut Rows<'_>) -> Result<()> {
    let plain = set.scratch.file("plain", set.bytes, 1)?;
    // 7z would add an extension to a name that has none.
    let (sealed, back) = (set.scratch.path("sealed.7z"), set.scratch.path(programs::BACK));
    let mut programs = vec![programs::cp(), programs::copy_by_threads()?];
    programs.extend(set.ours(&SUITES, "--no-sync", rows)?);
    programs.extend(set.peers(&PEERS, rows)?);
    programs.iter().try_for_each(Program::renew)?;
    let both = programs.iter().map(|program| {
        let both = ["protect", "unprotect"].map(|operation| set.row(operation, program.name));
        // Each program gets back what it has just protected.
        Contestant::new(both.into(), |turn| {
            let protect = set.time(|| program.run(Op::Seal, &plain, &sealed))?;
            let unprotect = set.time(|| program.run(Op::Open, &sealed, &back))?;
            if turn.is_first {
                scratch::require_same(&plain, &back)?;
            }
            [&sealed, &back].into_iter().try_for_each(|path| scratch::remove(path))?;
            program.renew().map(|()| vec![Some(protect), Some(unprotect)])
        })
    });
    set.measure(both.collect(), None, rows)?;
    drop(programs);
    scratch::remove(&plain)
}

/// All programs protect one file, which is removed each time.
fn one_file(
    set: &Set<'_>,
    programs: &[Program],
    also: Option<&str>,
    at_most: Option<f64>,
    rows: &mut Rows<'_>,
) -> Result<()> {
    let plain = set.scratch.file("plain", set.bytes, 1)?;
    let sealed = set.scratch.path("sealed");
    let contestants = programs.iter().map(|program| {
        let syncs = also.filter(|_| program.name == "cp");
        let scheme = syncs.unwrap_or(program.name);
        let (plain, sealed) = (&plain, &sealed);
        let protect = move || {
            program.run(Op::Seal, plain, sealed)?;
            syncs.map_or(Ok(()), |_| finish(command("sync {sealed}", &[("sealed", sealed)])))
        };
        set.contestant(scheme, "protect", protect, move || scratch::remove(sealed))
    });
    set.measure(contestants.collect(), at_most, rows)?;
    scratch::remove(&plain)
}

fn synced(set: &Set<'_>, rows: &mut Rows<'_>) -> Result<()> {
    let mut programs = vec![programs::cp()];
    programs.extend(set.ours(&SUITES, "", rows)?);
    one_file(set, &programs, Some("cp and sync"), None, rows)
}

fn small_file(set: &Set<'_>, rows: &mut Rows<'_>) -> Result<()> {
    let mut programs = set.ours(&SUITES[..1], "--no-sync", rows)?;
    programs.push(programs::cp());
    programs.extend(set.peers(&["age", "rage", "openssl enc"], rows)?);
    one_file(set, &programs, None, Some(SMALL_FILE), rows)
}

fn pipes(set: &Set<'_>, rows: &mut Rows<'_>) -> Result<()> {
    let plain = set.scratch.file("plain", set.bytes, 1)?;
    let mut programs = set.ours(&SUITES, "", rows)?;
    programs.extend(set.peers(&["age"], rows)?);
    let sealed: Vec<_> = (0..programs.len()).map(|i| set.scratch.path(&format!("sealed {i}"))).collect();
    let mut contestants = Vec::new();
    for (program, sealed) in programs.iter().zip(&sealed) {
        program.run(Op::Seal, &plain, sealed)?;
        for (operation, op, from) in [("protect", Op::Seal, &plain), ("unprotect", Op::Open, sealed)] {
            let dash = Path::new("-");
            let work = move || programs::finish_in_pipes(program.command(op, dash, dash), from);
            contestants.push(set.contestant(program.name, operation, work, || Ok(())));
        }
    }
    set.measure(contestants, None, rows)?;
    sealed.iter().chain([&plain]).try_for_each(|path| scratch::remove(path))
}

fn many_files(set: &Set<'_>, rows: &mut Rows<'_>) -> Result<()> {
    let folder = set.scratch.folder("many")?;
    let (mut set, mut random) = (set.clone(), Random::new(2));
    for i in 0..set.items {
        let len = 1_000 + random.below(63_001);
        scratch::write(&folder.join(i.to_string()), len, i)?;
        set.bytes += len;
    }
    let ours = set.ours(&SUITES, "--recursive --no-sync", rows)?;
    let one_by_one = set.peers(&["age"], rows)?;
    // Each run has its own folder, and no folder is removed before the end. The reason is that ext4 searches everything
    // that was deleted in the last minutes before it gives a new file its number.
    let runs = Cell::new(0);
    let sealed = || set.scratch.path(&format!("many sealed {}", runs.get()));
    let next = || {
        runs.set(runs.get() + 1);
        Ok(())
    };
    let ours = ours.iter().map(|program| {
        let protect = || program.run(Op::Seal, &folder, &sealed());
        set.contestant(program.name, "protect", protect, next)
    });
    let one_by_one = one_by_one.iter().map(|program| {
        let protect = || {
            let sealed = sealed();
            fs::create_dir(&sealed).map_err(Error::at(&sealed))?;
            let mut names = (0..set.items).map(|i| i.to_string());
            names.try_for_each(|name| program.run(Op::Seal, &folder.join(&name), &sealed.join(&name)))
        };
        set.contestant(program.name, "protect", protect, next)
    });
    set.measure(ours.chain(one_by_one).collect(), None, rows)?;
    (0..runs.get()).try_for_each(|run| scratch::remove(&set.scratch.path(&format!("many sealed {run}"))))?;
    scratch::remove(&folder)
}

fn memory(set: &Set<'_>, rows: &mut Rows<'_>) -> Result<()> {
    let plain = set.scratch.file("plain", set.bytes, 1)?;
    let sealed = set.scratch.path("sealed");
    for program in set.ours(&SUITES, "--no-sync", rows)? {
        let (seconds, peak_kib) = time(|| programs::peak_memory(program.command(Op::Seal, &plain, &sealed)));
        let peak_kib = peak_kib?;
        let asked = format!("at most {} MiB on 4 GiB", MEMORY >> 10);
        let bar = peak_kib.and_then(|peak| set.setup.bar(asked, peak <= MEMORY));
        rows.write(Row { peak_kib, bar, ..set.row("protect", program.name) }.timed(vec![seconds]))?;
        scratch::remove(&sealed)?;
    }
    scratch::remove(&plain)
}
