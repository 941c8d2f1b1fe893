//! The processes of MPJ Express, all on this machine, with one thread each.

use crate::error::{Error, Result};
use crate::measure::hpc::cluster::cell::{check, write_key};
use crate::measure::hpc::cluster::job::{Job, Programs};
use crate::measure::hpc::cluster::told::Told;
use crate::measure::hpc::java::cell::Cell;
use crate::measure::hpc::java::programs::{Java, Times};
use crate::measure::scratch;
use crate::measure::setup::processors;
use crate::measure::steps::Rows;
use crate::names::cluster::{AT_WORK, OWN, WHOLE};
use crate::names::java::{CLUSTER_JAR, CTR, ENCRYPTION_COLD, ENCRYPTION_WARM, FILES_WARM, PAPERS, PHALANX_MPI};
use crate::row::{Over, Row};
use std::ffi::OsString;
use std::path::Path;

/// The memory that a process takes besides the data, in bytes.
const MEMORY: u64 = 160 << 20;
/// With more processes than this, and more than twice the cores, only the paper's own program runs.
const MOST: usize = 8;

/// If so many processes are for the paper's own program only, says why.
fn too_many(cell: &Cell<'_>, n: usize) -> Option<String> {
    let cores = cell.setup.threads;
    (n > MOST.max(2 * cores)).then(|| format!("{n} processes on {cores} cores"))
}

/// Runs `measure` for each number of processes that fits, and writes rows that say why for the others.
fn each(
    cell: &Cell<'_>,
    rows: &mut Rows<'_>,
    kinds: &[(&str, &str)],
    mut measure: impl FnMut(&Java, usize, &mut Rows<'_>) -> Result<()>,
) -> Result<()> {
    let java = cell.programs(4 * cell.bytes).and_then(|java| java.mpj.clone().map(|()| java));
    for &n in &cell.counts.processes {
        let memory = n as u64 * MEMORY + 3 * cell.bytes;
        let fits = scratch::require_memory(memory).map_err(|short| short.to_string());
        match java.as_ref().map_err(String::clone).and_then(|java| fits.map(|()| java)) {
            Ok(java) => measure(java, n, rows)?,
            Err(why) => {
                rows.not_run(kinds.iter().map(|(measure, scheme)| cell.row(measure, scheme, n, 1)), &why)?;
            }
        }
    }
    Ok(())
}

/// The paper's program.
pub fn papers(cell: &Cell<'_>, rows: &mut Rows<'_>) -> Result<()> {
    let mut one = Singles::default();
    let kinds = [(ENCRYPTION_COLD, PAPERS), (ENCRYPTION_WARM, PAPERS), (FILES_WARM, CTR)];
    each(cell, rows, &kinds, |java, n, rows| {
        let (plain, sealed) = (cell.plain()?, cell.scratch.path("sealed"));
        let rounds = (cell.counts.warm + 1).to_string();
        let run = |mode: &str, memory: u64, paths: &[&Path]| {
            let job = java.papers_of_mpj("DividedRank", n, memory / n as u64, &[mode, "1", &rounds], paths);
            let times = Times::read(&job.run()?.text).of(1);
            match times.1.is_empty() {
                true => Err(Error::Program(format!("Divided: it told no times of {n} processes"))),
                false => Ok(times),
            }
        };
        let (cold, warm) = run("cbc", 3 * cell.bytes, &[&plain])?;
        rows.write(one.compare(cell.row(ENCRYPTION_COLD, PAPERS, n, 1).timed(cold)))?;
        rows.write(one.compare(cell.row(ENCRYPTION_WARM, PAPERS, n, 1).timed(warm)))?;
        let with_files = cell.row(FILES_WARM, CTR, n, 1);
        if let Some(why) = too_many(cell, n) {
            return rows.write(with_files.not_run(&why));
        }
        let (_, warm) = run("ctr", cell.bytes, &[&plain, &sealed])?;
        rows.write(one.compare(with_files.timed(warm)))?;
        scratch::remove(&sealed)
    })
}

/// Whole commands.
pub fn commands(cell: &Cell<'_>, rows: &mut Rows<'_>) -> Result<()> {
    let mut one = Singles::default();
    let kinds = [WHOLE, OWN, AT_WORK].map(|measure| (measure, CLUSTER_JAR));
    each(cell, rows, &kinds, |java, n, rows| match too_many(cell, n) {
        Some(why) => rows.not_run(kinds.iter().map(|(measure, scheme)| cell.row(measure, scheme, n, 1)), &why),
        None => whole(cell, java, n, &mut one, rows),
    })
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

/// Whole commands, in Java and in Rust, in turn. Both sync what they write.
fn whole(cell: &Cell<'_>, java: &Java, n: usize, one: &mut Singles, rows: &mut Rows<'_>) -> Result<()> {
    let (plain, key, sealed) = (cell.plain()?, cell.scratch.path("key"), cell.scratch.path("sealed"));
    let [plain, key, sealed] = [&plain, &key, &sealed].map(|path| path.as_path());
    write_key(key)?;
    let args = ["protect", "--verbose", "--threads", "1", "--key-file"];
    let paths = [key, Path::new("--output"), sealed, plain];
    let rust = Programs::find(&cell.setup.hpc).map(|programs| {
        let more = ["--progress", "0"].map(OsString::from);
        let args = args.iter().map(OsString::from).chain(paths.iter().map(OsString::from)).chain(more);
        programs.job(n, &programs.phalanx_mpi, args)
    });
    let all = [(CLUSTER_JAR, Ok(java.phalanx_cluster(n, &args, &paths))), (PHALANX_MPI, rust)];
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
