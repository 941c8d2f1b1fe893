//! The processes of MPJ Express, all on this machine, with one thread each.

use super::programs::{Java, Times};
use super::{CTR, Cell, ENCRYPTION_COLD, ENCRYPTION_WARM, FILES_COLD, FILES_WARM, PAPERS, not_run};
use crate::hpc::cluster::job::{Job, Programs};
use crate::hpc::cluster::told::Told;
use crate::hpc::cluster::{AT_WORK, OWN, WHOLE, check, write_key};
use crate::record::Rows;
use crate::row::{Over, Row};
use crate::setup::processors;
use crate::{Error, Result, scratch};
use std::ffi::OsString;
use std::path::Path;

/// The command for clusters in Java.
pub const CLUSTER_JAR: &str = "phalanx-cluster.jar, suite 1";
/// The one in Rust, beside it.
pub const PHALANX_MPI: &str = "phalanx-mpi, suite 1";
/// The memory that a process takes besides the data, in bytes.
const MEMORY: u64 = 160 << 20;
/// More processes than this are not started by `mpirun` beside those of Java.
const OF_RUST: usize = 8;

/// What the paper's programs measure: the mode, and whether they read and write.
const PAPERS_OWN: [(&str, &str, [&str; 2], bool); 2] =
    [(PAPERS, "cbc", [ENCRYPTION_COLD, ENCRYPTION_WARM], false), (CTR, "ctr", [FILES_COLD, FILES_WARM], true)];

/// One size: all numbers of processes.
pub fn measure(cell: &Cell<'_>, rows: &mut Rows<'_>) -> Result<()> {
    let java = cell.programs(4 * cell.bytes).and_then(|java| java.mpj.clone().map(|()| java));
    let mut one = Singles::default();
    let paths = ["plain", "sealed", "key"].map(|name| cell.scratch.path(name));
    let [plain, sealed, key] = [&paths[0], &paths[1], &paths[2]].map(|path| path.as_path());
    if java.is_ok() {
        cell.scratch.file("plain", cell.bytes, cell.bytes)?;
        write_key(key)?;
    }
    for &n in &cell.counts.processes {
        let memory = n as u64 * MEMORY + 3 * cell.bytes;
        let fits = scratch::require_memory(memory).map_err(|short| short.to_string());
        match java.as_ref().map_err(String::clone).and_then(|java| fits.map(|()| java)) {
            Ok(java) => {
                papers(cell, java, n, [plain, sealed], &mut one, rows)?;
                format(cell, java, n, [plain, sealed, key], &mut one, rows)?;
            }
            Err(why) => {
                let papers = PAPERS_OWN.iter().flat_map(|(scheme, _, measures, _)| measures.map(|m| (m, *scheme)));
                let all = papers.chain([WHOLE, OWN, AT_WORK].map(|measure| (measure, CLUSTER_JAR)));
                not_run(rows, all.map(|(measure, scheme)| cell.row(measure, scheme, n, 1)), &why)?;
            }
        }
    }
    [plain, sealed, key].into_iter().try_for_each(scratch::remove)
}

/// The medians of one process, by measure and scheme.
#[derive(Default)]
struct Singles(Vec<(String, String, f64)>);

impl Singles {
    /// Compares a row with that of one process, or keeps it as such.
    fn compare(&mut self, row: Row) -> Row {
        let is_it = |(measure, scheme, _): &&(String, String, f64)| *measure == row.measure && *scheme == row.scheme;
        match self.0.iter().find(is_it).map(|(.., median_s)| *median_s) {
            Some(median_s) => {
                let (over, n) = (Over { name: "1 process", median_s }, row.processes);
                row.compared(over, Some(processors(n)))
            }
            None => {
                let (measure, scheme) = (row.measure.clone(), row.scheme.clone());
                self.0.extend(row.median_s.filter(|_| row.processes == 1).map(|median_s| (measure, scheme, median_s)));
                row
            }
        }
    }
}

/// The paper's program.
fn papers(
    cell: &Cell<'_>,
    java: &Java,
    n: usize,
    [plain, sealed]: [&Path; 2],
    one: &mut Singles,
    rows: &mut Rows<'_>,
) -> Result<()> {
    for (scheme, mode, measures, writes) in PAPERS_OWN {
        let rounds = (cell.counts.warm + 1).to_string();
        let paths = if writes { vec![plain, sealed] } else { vec![plain] };
        let job = java.papers_of_mpj("DividedRank", n, 3 * cell.bytes / n as u64, &[mode, "1", &rounds], &paths);
        let (cold, warm) = Times::read(&job.run()?.text).of(1);
        for (measure, seconds) in measures.into_iter().zip([cold, warm]) {
            if seconds.is_empty() {
                return Err(Error::Program(format!("{scheme}: it told no times of {n} processes")));
            }
            rows.write(one.compare(cell.row(measure, scheme, n, 1).timed(seconds)))?;
        }
        scratch::remove(sealed)?;
    }
    Ok(())
}

/// Whole commands, in Java and, for few processes, in Rust, in turn. Both sync what they write.
fn format(
    cell: &Cell<'_>,
    java: &Java,
    n: usize,
    [plain, sealed, key]: [&Path; 3],
    one: &mut Singles,
    rows: &mut Rows<'_>,
) -> Result<()> {
    let args = ["protect", "--verbose", "--threads", "1", "--key-file"];
    let paths = [key, Path::new("--output"), sealed, plain];
    let mut all = vec![(CLUSTER_JAR, Ok(java.phalanx_cluster(n, &args, &paths)))];
    if n <= OF_RUST {
        let rust = Programs::find(&cell.setup.hpc).map(|programs| {
            let more = ["--progress", "0"].map(OsString::from);
            let args = args.iter().map(OsString::from).chain(paths.iter().map(OsString::from)).chain(more);
            programs.job(n, &programs.phalanx_mpi, args)
        });
        all.push((PHALANX_MPI, rust));
    }
    let mut times: Vec<Vec<(f64, Told)>> = vec![Vec::new(); all.len()];
    for round in 0..cell.counts.cold {
        for ((_, job), times) in all.iter().zip(&mut times) {
            let Ok(job): &Result<Job, String> = job else { continue };
            let ended = job.run()?;
            times.push((ended.seconds, ended.told(cell.bytes)));
            if round == 0 {
                check(plain, sealed, cell.scratch)?;
            }
            scratch::remove(sealed)?;
        }
    }
    for ((scheme, job), times) in all.iter().zip(times) {
        let whole = times.iter().map(|(seconds, _)| Some(*seconds)).collect();
        let own = times.iter().map(|(_, told)| told.own).collect();
        let at_work = times.iter().map(|(_, told)| told.longest()).collect();
        let measures: [(&str, Option<Vec<f64>>); 3] = [(WHOLE, whole), (OWN, own), (AT_WORK, at_work)];
        for (measure, seconds) in measures {
            let row = cell.row(measure, scheme, n, 1);
            rows.write(match (job, seconds) {
                (Err(why), _) => row.not_run(why),
                (Ok(_), None) => row.not_run("the program does not tell it"),
                (Ok(_), Some(seconds)) => one.compare(row.timed(seconds)),
            })?;
        }
    }
    Ok(())
}
