//! P3's cluster part: `phalanx-mpi` under `mpirun` on this machine, by numbers of processes and threads beside the printed
//! times; beside a plain copy by the same processes; with one of them slowed down; and interrupted.
//!
//! The program needs MPI, so nothing here knows more of it than its command and what it tells with `--verbose`.

mod compared;
mod interrupted;
pub(in crate::hpc) mod job;
mod printed;
mod ranks;
mod slowed;
pub(in crate::hpc) mod told;

pub use job::end_all;

use super::EXPERIMENT;
use crate::peers::programs::versions_of;
use crate::record::{Rows, Step};
use crate::row::{Bar, Row};
use crate::scratch::{self, Random, Scratch, require_disk, require_memory};
use crate::setup::Setup;
use crate::volume::mounts::{Backing, backings, unmount_below};
use crate::{Error, Result};
use job::{Job, Programs};
use phalanx_core::{KdfLimit, KeyId, KeySource, Opener, Password, ProtectedFile, Roster, SecretKey, Sink};
use phalanx_host::file;
use std::ffi::OsString;
use std::fs::File;
use std::io::{Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use told::Told;

/// The engine of these rows.
pub const ENGINE: &str = "cluster";
/// The measure of whole commands, from before the start of `mpirun` to its end.
pub const WHOLE: &str = "whole command";
/// The measure of whole commands less the time of the same command without data.
pub const LESS_START: &str = "whole command less its start";
/// The measure of the times that programs tell: without `mpirun` and MPI's start.
pub const OWN: &str = "its own time";
/// The measure of the longest time that a process was at work.
pub const AT_WORK: &str = "longest process at work";
/// The measure of the part of the time that is for messages.
pub const MESSAGES: &str = "time for messages";
/// The measure of the largest process's memory.
pub const MEMORY: &str = "peak memory of a process";
/// The scheme of rows with the default cipher.
pub const SUITE_1: &str = "phalanx-mpi, suite 1";
/// The scheme of rows with the fastest cipher.
pub const SUITE_5: &str = "phalanx-mpi, suite 5";
/// The file system whose files are memory.
const MEMORY_FILES: &str = "tmpfs";
/// The schemes and their ciphers.
const SUITES: [(&str, &str); 2] = [(SUITE_1, "aes-256"), (SUITE_5, "aes-256-turbo")];
pub use compared::{COPY, DCP, START, over};
pub use interrupted::{GOES_ON, PART};
pub use slowed::{DYNAMIC, FULL_SPEED, SLOWED, STATIC};

/// The version of the launcher.
pub fn versions(options: &super::Options) -> Vec<String> {
    let Some(mpirun) = &options.mpirun else { return versions_of(&[("mpirun", "--version")]) };
    let output = Command::new(mpirun).arg("--version").output();
    let text = output.map(|output| String::from_utf8_lossy(&output.stdout).into_owned()).unwrap_or_default();
    text.lines().next().map(|line| format!("{}: {}", mpirun.display(), line.trim())).into_iter().collect()
}

/// What these measurements need that is not here.
pub fn missing(options: &super::Options) -> Option<String> {
    let why = Programs::find(options).map_or_else(Some, |programs| programs.copy.err())?;
    Some(why.trim_start_matches("no ").into())
}

/// The sizes and counts of a run.
struct Sizes {
    /// The bytes that are copied and protected.
    file: u64,
    /// The bytes of the run that is interrupted.
    interrupted: u64,
    /// The rounds that count.
    rounds: usize,
    /// The rounds of comparisons.
    many_rounds: usize,
}

/// The steps.
pub fn steps(setup: &Setup) -> Result<Vec<Step<'_>>> {
    let mut sizes = match setup.quick {
        true => Sizes { file: 32 << 20, interrupted: 64 << 20, rounds: 1, many_rounds: 2 },
        false => Sizes { file: 2 << 30, interrupted: 2 << 30, rounds: 1, many_rounds: 3 },
    };
    sizes.interrupted = setup.hpc.interrupted.unwrap_or(sizes.interrupted);
    let mut steps = Vec::new();
    for (i, Backing { name, folder }) in backings(&setup.hpc.folders, &setup.out)?.into_iter().enumerate() {
        let step = |what: &str| format!("{EXPERIMENT} cluster on {name}: {what}");
        let cell = |bytes: u64| Cell { setup, backing: name.clone(), folder: folder.clone(), bytes };
        let (file, rounds) = (sizes.file, sizes.many_rounds);
        let it = cell(file);
        steps.push(Step::new(step("copies"), file / 10, move |rows| compared::measure(&it, rounds, rows)));
        // The rest is about processes and processors, so it is measured in one folder: in memory, if none is named.
        if i == 0 {
            for (size, bytes) in printed::sizes(setup.quick) {
                let (cell, rounds) = (cell(bytes), sizes.rounds);
                steps.push(Step::new(step(size), bytes / 30, move |rows| printed::measure(&cell, size, rounds, rows)));
            }
            let it = cell(file);
            steps.push(Step::new(step("slowed"), file / 10, move |rows| slowed::measure(&it, rounds, rows)));
            let it = cell(file);
            steps.push(Step::new(step("processes"), file / 40, move |rows| ranks::measure(&it, rows)));
        }
        if name.starts_with(MEMORY_FILES) {
            // Nothing can be taken out of the page cache there.
            continue;
        }
        let (it, rounds) = (cell(sizes.interrupted), sizes.rounds);
        let weight = sizes.interrupted / 15;
        steps.push(Step::new(step("interrupted"), weight, move |rows| interrupted::measure(&it, rounds, rows)));
    }
    Ok(steps)
}

/// What a step is about: some bytes in a folder.
struct Cell<'a> {
    setup: &'a Setup,
    /// The folder's kind.
    backing: String,
    folder: PathBuf,
    bytes: u64,
}

impl Cell<'_> {
    fn row(&self, operation: &str, measure: &str, scheme: &str, processes: usize, threads: usize) -> Row {
        let case = match self.bytes >> 20 {
            mib if mib << 20 == self.bytes => format!("{mib} MiB on {}", self.backing),
            _ => format!("{} MB on {}", self.bytes / 1_000_000, self.backing),
        };
        Row {
            experiment: EXPERIMENT.into(),
            case,
            operation: operation.into(),
            measure: measure.into(),
            scheme: scheme.into(),
            engine: ENGINE.into(),
            bytes: self.bytes,
            items: 1,
            processes,
            threads,
            note: crowded(processes * threads.max(1), self.setup.threads),
            ..Row::default()
        }
    }

    fn bar(&self, asked: String, reached: bool) -> Option<Bar> {
        Some(Bar { asked, reached: (!self.setup.quick).then_some(reached) })
    }

    /// The programs, and a folder with the data; or why not.
    fn place(&self) -> Result<std::result::Result<Place, String>> {
        let programs = match Programs::find(&self.setup.hpc) {
            Ok(programs) => programs,
            Err(why) => return Ok(Err(why)),
        };
        let needed = 3 * self.bytes;
        let memory = if self.backing.starts_with(MEMORY_FILES) { needed } else { self.bytes };
        if let Err(short) = require_disk(&self.folder, needed).and_then(|()| require_memory(memory)) {
            return Ok(Err(short.to_string()));
        }
        let scratch = Scratch::within(&self.folder, unmount_below)?;
        let plain = scratch.file("plain", self.bytes, self.bytes)?;
        let key = scratch.path("key");
        write_key(&key)?;
        Ok(Ok(Place { programs, plain, key, sealed: scratch.path("sealed"), scratch }))
    }
}

/// The programs, and a folder with the data.
struct Place {
    programs: Programs,
    plain: PathBuf,
    key: PathBuf,
    /// Where outputs go.
    sealed: PathBuf,
    /// Its end removes all of it.
    scratch: Scratch,
}

impl Place {
    /// A job that protects the data.
    fn protect(&self, processes: usize, threads: usize, cipher: &str, more: &[&str]) -> Job {
        let threads = threads.to_string();
        let mut args = vec!["protect", "--verbose", "--progress", "0", "--cipher", cipher, "--threads", &threads];
        args.extend(more);
        let mut args: Vec<OsString> = args.into_iter().map(OsString::from).collect();
        args.extend(["--key-file".into(), self.key.clone().into(), "--output".into(), self.sealed.clone().into()]);
        args.push(self.plain.clone().into());
        self.programs.job(processes, &self.programs.phalanx_mpi, args)
    }

    /// Fails unless what was protected comes back.
    fn check(&self) -> Result<()> {
        let back = self.scratch.path("back");
        let args = ["unprotect".into(), "--key-file".into(), self.key.clone().into(), "--no-sync".into()];
        let paths = ["--output".into(), back.clone().into(), self.sealed.clone().into()];
        self.programs.job(2, &self.programs.phalanx_mpi, args.into_iter().chain(paths)).run()?;
        same(&self.plain, &back)?;
        scratch::remove(&back)
    }
}

/// What rows of more threads than cores say.
pub fn crowded(threads: usize, cores: usize) -> Option<String> {
    (threads > cores).then(|| format!("oversubscribed: {threads} threads on {cores} cores"))
}

/// A file with a key.
pub fn write_key(path: &Path) -> Result<()> {
    let file = File::options().write(true).create(true).truncate(true).mode(0o600).open(path);
    file.and_then(|mut file| file.write_all(&secret())).map_err(Error::at(path))
}

pub(in crate::hpc) fn secret() -> [u8; 32] {
    let mut secret = [0; 32];
    Random::new(7).fill(&mut secret);
    secret
}

/// Fails unless a protected file opens by the key of [`write_key`], and holds what a plain one does.
pub fn check(plain: &Path, sealed: &Path, scratch: &Scratch) -> Result<()> {
    let back = scratch.path("back");
    let input = File::open(sealed).map_err(Error::at(sealed))?;
    let output = File::create(&back).map_err(Error::at(&back))?;
    let opener = Opener::new(OneKey(SecretKey::from_slice(&secret()).expect("32 bytes")), KdfLimit::default());
    ProtectedFile::open(file::source(&input)?, &opener)?.unprotect(
        &Roster::cpu(),
        Sink::ranged(file::Disk::new(&output)),
        &(),
    )?;
    same(plain, &back)?;
    scratch::remove(&back)
}

struct OneKey(SecretKey);

impl KeySource for OneKey {
    fn key(&self, id: &KeyId) -> phalanx_core::Result<Option<SecretKey>> {
        Ok(Some(self.0.clone()).filter(|key| key.id() == *id))
    }

    fn password(&self) -> phalanx_core::Result<Option<Password>> {
        Ok(None)
    }
}

/// Fails unless two files are the same.
fn same(a: &Path, b: &Path) -> Result<()> {
    let open = |path: &Path| File::open(path).map_err(Error::at(path));
    let (mut of_a, mut of_b) = (open(a)?, open(b)?);
    let (mut piece_a, mut piece_b) = (Vec::new(), Vec::new());
    loop {
        for (file, piece, path) in [(&mut of_a, &mut piece_a, a), (&mut of_b, &mut piece_b, b)] {
            piece.clear();
            file.take(4 << 20).read_to_end(piece).map_err(Error::at(path))?;
        }
        if piece_a != piece_b {
            return Err(Error::Program(format!("{}: it is not the file that went in", b.display())));
        }
        if piece_a.is_empty() {
            return Ok(());
        }
    }
}

/// A job that is measured.
struct Contestant {
    /// Its row, without times.
    row: Row,
    job: Job,
    is_slowed: bool,
    /// What it makes: removed after each run.
    output: PathBuf,
    /// The times of the whole command.
    seconds: Vec<f64>,
    /// What it told each time.
    told: Vec<Told>,
}

impl Contestant {
    fn new(row: Row, job: Job, output: &Path) -> Self {
        Self { row, job, is_slowed: false, output: output.to_owned(), seconds: Vec::new(), told: Vec::new() }
    }

    /// Its row with the times of the whole command.
    fn whole(&self) -> Row {
        Row { measure: WHOLE.into(), ..self.row.clone() }.timed(self.seconds.clone())
    }

    /// Its row with a time that it told each time.
    fn told(&self, measure: &str, of: impl Fn(&Told) -> Option<f64>) -> Row {
        let row = Row { measure: measure.into(), ..self.row.clone() };
        match self.told.iter().map(of).collect::<Option<Vec<f64>>>() {
            Some(times) if !times.is_empty() => row.timed(times),
            _ => row.not_run("the program does not tell it"),
        }
    }
}

/// Runs all contestants in turn: one round to warm up, which `check` sees the outputs of, and then those that count. Each round
/// begins with another one.
fn in_turns(
    contestants: &mut [Contestant],
    rounds: usize,
    scratch: &Scratch,
    check: impl Fn(&Contestant) -> Result<()>,
) -> Result<()> {
    for round in 0..=rounds {
        for turn in 0..contestants.len() {
            let next = (round + turn) % contestants.len();
            let contestant = &mut contestants[next];
            let ended = match contestant.is_slowed {
                false => contestant.job.run()?,
                true => {
                    let tell = scratch.path("process");
                    let mut job = contestant.job.start(Some(&tell))?;
                    job.see_all(&tell)?;
                    job.slow_down()?;
                    job.wait()?
                }
            };
            match round {
                0 => check(contestant)?,
                _ => {
                    contestant.told.push(ended.told(contestant.row.bytes));
                    contestant.seconds.push(ended.seconds);
                }
            }
            scratch::remove(&contestant.output)?;
        }
    }
    Ok(())
}

/// Rows that say why nothing was measured.
fn not_run(rows: &mut Rows<'_>, all: impl IntoIterator<Item = Row>, why: &str) -> Result<()> {
    all.into_iter().try_for_each(|row| rows.write(row.not_run(why)))
}

#[cfg(test)]
mod tests;
