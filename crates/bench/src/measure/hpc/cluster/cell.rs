//! What the steps of a cluster share: a folder with data, the jobs that are measured there, and checks of what they
//! wrote.

use crate::measure::hpc::cluster::job::{Job, Programs};
use crate::measure::mounted::unmount_below;
use crate::measure::scratch::{self, random, require_disk, require_memory, require_same};
use crate::measure::{Contestant, Error, Result, Row, Scratch, Setup, in_turns, row_of};
use crate::names::cluster::{ENGINE, OWN, SUITE_1, SUITE_5, WHOLE};
use crate::names::hpc::EXPERIMENT;
use phalanx_core::{KdfLimit, Opener, ProtectedFile, Roster, SecretKey, Sink};
use phalanx_host::file;
use std::ffi::OsString;
use std::fs::File;
use std::path::{Path, PathBuf};

/// The file system whose files are memory.
pub const MEMORY_FILES: &str = "tmpfs";
/// The schemes and their ciphers.
pub const SUITES: [(&str, &str); 2] = [(SUITE_1, "aes-256"), (SUITE_5, "aes-256-turbo")];

/// The subject of a step: some bytes in a folder.
pub struct Cell<'a> {
    pub setup: &'a Setup,
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
        let row = row_of(EXPERIMENT, case, [operation, measure, scheme, ENGINE], [self.bytes, 1], threads);
        Row { processes, note: crowded(processes * threads.max(1), self.setup.threads), ..row }
    }

    /// The programs, and a folder with the data. The inner error explains why there are none.
    pub fn place(&self) -> Result<std::result::Result<Place, String>> {
        let programs = match Programs::find(&self.setup.hpc) {
            Ok(programs) => programs,
            Err(missing) => return Ok(Err(missing.to_string())),
        };
        let needed = 3 * self.bytes;
        let memory = if self.backing.starts_with(MEMORY_FILES) { needed } else { self.bytes };
        if let Err(short) = require_disk(&self.folder, needed).and_then(|()| require_memory(memory)) {
            return Ok(Err(short.to_string()));
        }
        let scratch = Scratch::within(&self.folder, unmount_below)?;
        let plain = scratch.file("plain", self.bytes, self.bytes)?;
        let key = scratch.secret("key", &secret())?;
        Ok(Ok(Place { programs, plain, key, sealed: scratch.path("sealed"), bytes: self.bytes, scratch }))
    }
}

pub struct Place {
    pub programs: Programs,
    pub plain: PathBuf,
    pub key: PathBuf,
    /// The path of outputs.
    pub sealed: PathBuf,
    pub bytes: u64,
    /// The folder. It is removed when this is dropped.
    pub scratch: Scratch,
}

impl Place {
    pub fn protect(&self, processes: usize, threads: usize, cipher: &str, more: &[&str]) -> Job {
        let threads = threads.to_string();
        let mut args = vec!["protect", "--verbose", "--progress", "0", "--cipher", cipher, "--threads", &threads];
        args.extend(more);
        let mut args: Vec<OsString> = args.into_iter().map(OsString::from).collect();
        args.extend(["--key-file".into(), self.key.clone().into(), "--output".into(), self.sealed.clone().into()]);
        args.push(self.plain.clone().into());
        self.programs.job(processes, &self.programs.phalanx_mpi, args)
    }

    /// Fails unless the protected file opens to the original data.
    pub fn check(&self) -> Result<()> {
        let back = self.scratch.path("back");
        let args = ["unprotect".into(), "--key-file".into(), self.key.clone().into(), "--no-sync".into()];
        let paths = ["--output".into(), back.clone().into(), self.sealed.clone().into()];
        self.programs.job(2, &self.programs.phalanx_mpi, args.into_iter().chain(paths)).run()?;
        require_same(&self.plain, &back)?;
        scratch::remove(&back)
    }
}

pub type MakeJob<'a> = Box<dyn Fn(&Place) -> Result<Job> + 'a>;

/// A job that is to be measured.
pub struct Planned<'a> {
    /// Its row, without the measure.
    pub row: Row,
    pub measures: &'static [&'static str],
    pub is_slowed: bool,
    /// Makes the job at a place. The error explains why there is none.
    pub job: MakeJob<'a>,
    /// Checks the output of the first run.
    pub check: fn(&Place) -> Result<()>,
}

/// Measures all jobs in turn. Returns the rows of each. If there is no place, they explain why.
pub fn measured(
    place: &std::result::Result<Place, String>,
    planned: Vec<Planned<'_>>,
    rounds: usize,
) -> Result<Vec<Vec<Row>>> {
    let contestant = |Planned { row, measures, is_slowed, job, check }: Planned<'_>| {
        let rows = measures.iter().map(|measure| Row { measure: (*measure).into(), ..row.clone() }).collect();
        let (place, job) = match place.as_ref().map(|place| (place, job(place))) {
            Err(why) => return Ok(Contestant::missing(rows, why.clone())),
            Ok((_, Err(Error::NotRun(why)))) => return Ok(Contestant::missing(rows, why)),
            Ok((place, job)) => (place, job?),
        };
        Ok(Contestant::new(rows, move |turn| {
            let ended = if is_slowed { job.run_slowed(&place.scratch)? } else { job.run()? };
            if turn.is_first {
                check(place)?;
            }
            scratch::remove(&place.sealed)?;
            let timings = ended.timings(place.bytes);
            let of = |measure: &&str| match *measure {
                WHOLE => Some(ended.seconds),
                OWN => timings.own,
                _ => timings.longest(),
            };
            Ok(measures.iter().map(of).collect())
        }))
    };
    in_turns(planned.into_iter().map(contestant).collect::<Result<_>>()?, 1, rounds)
}

/// The note of rows with more threads than cores.
pub fn crowded(threads: usize, cores: usize) -> Option<String> {
    (threads > cores).then(|| format!("oversubscribed: {threads} threads on {cores} cores"))
}

pub fn secret() -> [u8; 32] {
    random(7)
}

/// Fails unless a protected file opens with the key of [`secret`] to the content of a plain one.
pub fn check(plain: &Path, sealed: &Path, scratch: &Scratch) -> Result<()> {
    let back = scratch.path("back");
    let input = File::open(sealed).map_err(Error::at(sealed))?;
    let output = File::create(&back).map_err(Error::at(&back))?;
    let opener = Opener::new(SecretKey::from_slice(&secret()).expect("32 bytes"), KdfLimit::default());
    let sink = Sink::ranged(file::Disk::new(&output));
    ProtectedFile::open(file::source(&input)?, &opener)?.unprotect(&Roster::cpu(), sink, &())?;
    require_same(plain, &back)?;
    scratch::remove(&back)
}
