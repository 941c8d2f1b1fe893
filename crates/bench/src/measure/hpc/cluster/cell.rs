//! What the steps of a cluster share: a folder with data, the jobs that are measured there, and checks of what they wrote.

use crate::error::{Error, Result};
use crate::measure::hpc::cluster::job::{Job, Programs};
use crate::measure::hpc::cluster::told::Told;
use crate::measure::mounted::unmount_below;
use crate::measure::scratch;
use crate::measure::scratch::{Random, Scratch, require_disk, require_memory};
use crate::measure::setup::Setup;
use crate::names::cluster::{ENGINE, SUITE_1, SUITE_5, WHOLE};
use crate::names::hpc::EXPERIMENT;
use crate::row::{Bar, Row};
use phalanx_core::{KdfLimit, Opener, ProtectedFile, Roster, SecretKey, Sink};
use phalanx_host::file;
use std::ffi::OsString;
use std::fs::File;
use std::io::{Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

/// The file system whose files are memory.
pub const MEMORY_FILES: &str = "tmpfs";
/// The schemes and their ciphers.
pub const SUITES: [(&str, &str); 2] = [(SUITE_1, "aes-256"), (SUITE_5, "aes-256-turbo")];

/// What a step is about: some bytes in a folder.
pub struct Cell<'a> {
    pub setup: &'a Setup,
    /// The folder's kind.
    pub backing: String,
    pub folder: PathBuf,
    pub bytes: u64,
}

impl Cell<'_> {
    pub fn row(&self, operation: &str, measure: &str, scheme: &str, processes: usize, threads: usize) -> Row {
        let case = match self.bytes >> 20 {
            mib if mib << 20 == self.bytes => format!("{mib} MiB on {}", self.backing),
            _ => format!("{} MB on {}", self.bytes / 1_000_000, self.backing),
        };
        Row {
            bytes: self.bytes,
            items: 1,
            processes,
            threads,
            note: crowded(processes * threads.max(1), self.setup.threads),
            ..Row::of(EXPERIMENT, case, [operation, measure, scheme, ENGINE])
        }
    }

    pub fn bar(&self, asked: String, reached: bool) -> Option<Bar> {
        Some(Bar { asked, reached: (!self.setup.quick).then_some(reached) })
    }

    /// The programs, and a folder with the data; or why not.
    pub fn place(&self) -> Result<std::result::Result<Place, String>> {
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
pub struct Place {
    pub programs: Programs,
    pub plain: PathBuf,
    pub key: PathBuf,
    /// Where outputs go.
    pub sealed: PathBuf,
    /// Its end removes all of it.
    pub scratch: Scratch,
}

impl Place {
    /// A job that protects the data.
    pub fn protect(&self, processes: usize, threads: usize, cipher: &str, more: &[&str]) -> Job {
        let threads = threads.to_string();
        let mut args = vec!["protect", "--verbose", "--progress", "0", "--cipher", cipher, "--threads", &threads];
        args.extend(more);
        let mut args: Vec<OsString> = args.into_iter().map(OsString::from).collect();
        args.extend(["--key-file".into(), self.key.clone().into(), "--output".into(), self.sealed.clone().into()]);
        args.push(self.plain.clone().into());
        self.programs.job(processes, &self.programs.phalanx_mpi, args)
    }

    /// Fails unless what was protected comes back.
    pub fn check(&self) -> Result<()> {
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

pub fn secret() -> [u8; 32] {
    let mut secret = [0; 32];
    Random::new(7).fill(&mut secret);
    secret
}

/// Fails unless a protected file opens by the key of [`write_key`], and holds what a plain one does.
pub fn check(plain: &Path, sealed: &Path, scratch: &Scratch) -> Result<()> {
    let back = scratch.path("back");
    let input = File::open(sealed).map_err(Error::at(sealed))?;
    let output = File::create(&back).map_err(Error::at(&back))?;
    let opener = Opener::new(SecretKey::from_slice(&secret()).expect("32 bytes"), KdfLimit::default());
    ProtectedFile::open(file::source(&input)?, &opener)?.unprotect(
        &Roster::cpu(),
        Sink::ranged(file::Disk::new(&output)),
        &(),
    )?;
    same(plain, &back)?;
    scratch::remove(&back)
}

/// Fails unless two files are the same.
pub fn same(a: &Path, b: &Path) -> Result<()> {
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
pub struct Contestant {
    /// Its row, without times.
    pub row: Row,
    pub job: Job,
    pub is_slowed: bool,
    /// What it makes: removed after each run.
    pub output: PathBuf,
    /// The times of the whole command.
    pub seconds: Vec<f64>,
    /// What it told each time.
    pub told: Vec<Told>,
}

impl Contestant {
    pub fn new(row: Row, job: Job, output: &Path) -> Self {
        Self { row, job, is_slowed: false, output: output.to_owned(), seconds: Vec::new(), told: Vec::new() }
    }

    /// Its row with the times of the whole command.
    pub fn whole(&self) -> Row {
        Row { measure: WHOLE.into(), ..self.row.clone() }.timed(self.seconds.clone())
    }

    /// Its row with a time that it told each time.
    pub fn told(&self, measure: &str, of: impl Fn(&Told) -> Option<f64>) -> Row {
        let row = Row { measure: measure.into(), ..self.row.clone() };
        match self.told.iter().map(of).collect::<Option<Vec<f64>>>() {
            Some(times) if !times.is_empty() => row.timed(times),
            _ => row.not_run("the program does not tell it"),
        }
    }
}

/// Runs all contestants in turn: one round to warm up, which `check` sees the outputs of, and then those that count. Each round
/// begins with another one.
pub fn in_turns(
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
