//! What the steps in Java share: a size, and the counts of a run.

use crate::measure::hpc::cluster::cell::{check, crowded, secret};
use crate::measure::hpc::cluster::job::{Ended, Job};
use crate::measure::hpc::java::programs::Java;
use crate::measure::scratch;
use crate::measure::{Result, Row, Scratch, Setup, row_of};
use crate::names::hpc::EXPERIMENT;
use crate::names::java::{CTR, ENCRYPTION_COLD, ENCRYPTION_WARM, ENGINE, PAPERS};
use crate::paper::{Printed, p3};
use std::ffi::OsString;
use std::path::PathBuf;

/// The counts of a run. They are small, because most of the time is for starting JVMs: all sizes and numbers of
/// processes take about ten minutes on two cores.
#[derive(Clone)]
pub struct Counts {
    /// The rounds of one JVM that are counted.
    pub warm: usize,
    /// The number of JVMs that are started and measured once.
    pub cold: usize,
    pub threads: Vec<usize>,
    pub processes: Vec<usize>,
}

/// The subject of a step: a size.
pub struct Cell<'a> {
    pub setup: &'a Setup,
    pub scratch: &'a Scratch,
    /// The size as printed.
    pub size: &'static str,
    pub bytes: u64,
    pub counts: Counts,
}

impl Cell<'_> {
    /// The data. It is made once for all steps of a size.
    pub fn plain(&self) -> Result<PathBuf> {
        let path = self.scratch.path("plain-java");
        match std::fs::metadata(&path) {
            Ok(metadata) if metadata.len() == self.bytes => Ok(path),
            _ => self.scratch.file("plain-java", self.bytes, self.bytes),
        }
    }

    pub fn row(&self, measure: &str, scheme: &str, processes: usize, threads: usize) -> Row {
        let operation = if [PAPERS, CTR].contains(&scheme) { "encrypt" } else { "protect" };
        let names = [operation, measure, scheme, ENGINE];
        Row {
            processes,
            printed: self.printed(measure, scheme, processes, threads),
            note: crowded(processes.max(1) * threads, self.setup.threads),
            ..row_of(EXPERIMENT, self.size, names, [self.bytes, 1], threads)
        }
    }

    /// The printed times. They are those of encryption alone, on other machines.
    fn printed(&self, measure: &str, scheme: &str, processes: usize, threads: usize) -> Vec<Printed> {
        if scheme != PAPERS || ![ENCRYPTION_COLD, ENCRYPTION_WARM].contains(&measure) {
            return Vec::new();
        }
        let of = |n: usize| Some(n as u64).filter(|n| *n > 0);
        p3().printed(|v| {
            v.measure == "time"
                && v.case.bytes == Some(self.bytes)
                && match v.experiment.as_str() {
                    "mpj-multicore" => processes == 0 && v.case.threads == of(threads),
                    "mpj-cluster" => processes > 0 && v.case.processes == of(processes),
                    _ => false,
                }
        })
    }

    /// The programs, if there is enough memory for them. The error explains why they are not run.
    pub fn programs(&self, memory: u64) -> Result<Java> {
        let java = Java::find(&self.setup.hpc)?;
        scratch::require_memory(memory).map(|()| java)
    }
}

pub struct Ends<'a> {
    scratch: &'a Scratch,
    plain: PathBuf,
    key: PathBuf,
    sealed: PathBuf,
}

impl<'a> Ends<'a> {
    pub fn new(cell: &Cell<'a>) -> Result<Self> {
        let scratch = cell.scratch;
        let (plain, key) = (cell.plain()?, scratch.secret("key", &secret())?);
        Ok(Self { scratch, plain, key, sealed: scratch.path("sealed") })
    }

    /// The given arguments, of which the last takes the key, and then the key, the output and the input.
    pub fn args(&self, args: &[&str]) -> impl Iterator<Item = OsString> + use<> {
        let args: Vec<OsString> = args.iter().map(OsString::from).collect();
        let [key, sealed, plain] = [&self.key, &self.sealed, &self.plain].map(|path| path.clone().into());
        args.into_iter().chain([key, "--output".into(), sealed, plain])
    }

    /// Runs a job to its end, and removes its output. With `is_checked`, checks the output first.
    pub fn run(&self, job: &Job, is_checked: bool) -> Result<Ended> {
        let ended = job.run()?;
        if is_checked {
            check(&self.plain, &self.sealed, self.scratch)?;
        }
        scratch::remove(&self.sealed).map(|()| ended)
    }
}
