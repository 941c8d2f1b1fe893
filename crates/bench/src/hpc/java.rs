//! P3's programs in Java: threads of one JVM, and the processes of MPJ Express. They are the paper's own program, and the
//! format as `java/` has it. Each is measured in a JVM that has just started, and in one that has run the same before.
//!
//! Nothing here knows more of Java than commands, and what they tell on standard error.

mod processes;
mod programs;
mod threads;

pub use processes::{CLUSTER_JAR, PHALANX_MPI};
pub use programs::versions;
pub use threads::{COMMAND, FORMAT, PHALANX};

use super::EXPERIMENT;
use super::cluster::crowded;
use crate::Result;
use crate::paper::{Printed, p3};
use crate::record::{Rows, Step};
use crate::row::Row;
use crate::scratch::{self, Scratch};
use crate::setup::Setup;
use programs::Java;
use std::path::PathBuf;

/// The engine of these rows.
pub const ENGINE: &str = "java";
/// The paper's own program. Its C programs have this mode; that of its Java program is not printed.
pub const PAPERS: &str = "P3's program, AES-256-CBC by the JCE";
/// The same division with the mode that Phalanx has.
pub const CTR: &str = "AES-256-CTR by the JCE";

/// What is measured with which state of the JVM.
pub const ENCRYPTION_COLD: &str = "encryption only, cold";
/// The same, warm.
pub const ENCRYPTION_WARM: &str = "encryption only, warm";
/// With reading and writing, in a JVM that has run the same before.
pub const FILES_WARM: &str = "with reading and writing, warm";

/// The counts of a run. They are small, because most of the time is for starting JVMs: all sizes and numbers of processes take
/// about ten minutes on two cores.
#[derive(Clone)]
struct Counts {
    /// Rounds that count, of one JVM.
    warm: usize,
    /// JVMs that are started to be measured once.
    cold: usize,
    threads: Vec<usize>,
    processes: Vec<usize>,
}

/// The steps: five for each size.
pub fn steps<'a>(setup: &'a Setup, scratch: &'a Scratch) -> Result<Vec<Step<'a>>> {
    let sweep = |experiment: &str, over: &str| p3().sweep(experiment, over).into_iter().map(|(_, n)| n as usize);
    let mut counts = Counts {
        warm: 1,
        cold: 1,
        threads: sweep("mpj-multicore", "threads").collect(),
        processes: sweep("mpj-cluster", "processes").collect(),
    };
    let mut sizes = p3().sweep("mpj-multicore", "bytes");
    if setup.quick {
        counts = Counts { warm: 1, cold: 1, threads: vec![1, 2], processes: vec![1, 4] };
        sizes.truncate(1);
    }
    let largest = sizes.iter().map(|(_, bytes)| *bytes).max().unwrap_or(0);
    scratch::require_disk(&setup.out, 3 * largest)?;
    let mut steps = Vec::new();
    for (size, bytes) in sizes {
        let mut step = |what: &str, weight: u64, measure: fn(&Cell<'_>, &mut Rows<'_>) -> Result<()>| {
            let cell = Cell { setup, scratch, size, bytes, counts: counts.clone() };
            let name = format!("{EXPERIMENT} java {size}: {what}");
            steps.push(Step::new(name, weight, move |rows| measure(&cell, rows)));
        };
        step("P3's program by threads", bytes / 20, threads::papers);
        step("the format by threads", bytes / 15, threads::format);
        step("commands by threads", bytes / 15, threads::commands);
        step("P3's program by processes", bytes / 20 + 50_000_000, processes::papers);
        step("commands by processes", bytes / 15 + 50_000_000, processes::commands);
    }
    Ok(steps)
}

/// What a step is about: a size.
struct Cell<'a> {
    setup: &'a Setup,
    scratch: &'a Scratch,
    /// As printed.
    size: &'static str,
    bytes: u64,
    counts: Counts,
}

impl Cell<'_> {
    /// The data. It is made once for all steps of a size.
    fn plain(&self) -> Result<PathBuf> {
        let path = self.scratch.path("plain-java");
        match std::fs::metadata(&path) {
            Ok(metadata) if metadata.len() == self.bytes => Ok(path),
            _ => self.scratch.file("plain-java", self.bytes, self.bytes),
        }
    }

    fn row(&self, measure: &str, scheme: &str, processes: usize, threads: usize) -> Row {
        let encrypts = [PAPERS, CTR].contains(&scheme);
        Row {
            experiment: EXPERIMENT.into(),
            case: self.size.into(),
            operation: if encrypts { "encrypt" } else { "protect" }.into(),
            measure: measure.into(),
            scheme: scheme.into(),
            engine: ENGINE.into(),
            bytes: self.bytes,
            items: 1,
            processes,
            threads,
            printed: self.printed(measure, scheme, processes, threads),
            note: crowded(processes.max(1) * threads, self.setup.threads),
            ..Row::default()
        }
    }

    /// The printed times: they are of encryption alone, on other machines.
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

    /// The programs, or why there are none; and the memory that they need.
    fn programs(&self, memory: u64) -> std::result::Result<Java, String> {
        let java = Java::find(&self.setup.hpc)?;
        scratch::require_memory(memory).map_err(|short| short.to_string())?;
        Ok(java)
    }
}

/// Writes rows that say why nothing was measured.
fn not_run(rows: &mut Rows<'_>, all: impl IntoIterator<Item = Row>, why: &str) -> Result<()> {
    all.into_iter().try_for_each(|row| rows.write(row.not_run(why)))
}

/// What these measurements need that is not here.
pub fn missing(options: &super::Options) -> Option<String> {
    let why = Java::find(options).map_or_else(Some, |java| java.mpj.err())?;
    Some(why.trim_start_matches("no ").into())
}

#[cfg(test)]
mod tests;
