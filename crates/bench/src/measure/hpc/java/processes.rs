//! The processes of MPJ Express, all on this machine, with one thread each.

use crate::measure::hpc::cluster::job::Programs;
use crate::measure::hpc::java::cell::{Cell, Ends};
use crate::measure::hpc::java::programs::{Java, Times};
use crate::measure::scratch;
use crate::measure::{Contestant, Error, Over, Result, Row, Rows, in_turns, processors};
use crate::names::cluster::{AT_WORK, OWN, WHOLE};
use crate::names::java::{CLUSTER_JAR, CTR, ENCRYPTION_COLD, ENCRYPTION_WARM, FILES_WARM, PAPERS, PHALANX_MPI};
use std::ffi::OsString;
use std::path::Path;

/// The memory that a process takes besides the data, in bytes.
const MEMORY: u64 = 160 << 20;
/// With more processes than this, and more than twice the cores, only the paper's own program runs.
const MOST: usize = 8;

/// The reason why only the paper's own program runs with this number of processes. `None` if all programs do.
fn too_many(cell: &Cell<'_>, n: usize) -> Option<String> {
    let cores = cell.setup.threads;
    (n > MOST.max(2 * cores)).then(|| format!("{n} processes on {cores} cores"))
}

/// Runs `measure` for each number of processes that fits. For the others, writes rows with the reason.
fn each(
    cell: &Cell<'_>,
    rows: &mut Rows<'_>,
    kinds: &[(&str, &str)],
    measure: impl Fn(&Java, usize, &mut Rows<'_>) -> Result<()>,
) -> Result<()> {
    let java = cell.programs(4 * cell.bytes).and_then(|java| match java.has_mpj {
        true => Ok(java),
        false => Err(Error::NotRun("no mpj".into())),
    });
    for &n in &cell.counts.processes {
        let fits = scratch::require_memory(n as u64 * MEMORY + 3 * cell.bytes);
        let why = java.as_ref().map(drop).err().map(Error::to_string).or(fits.err().map(|short| short.to_string()));
        match (&java, why) {
            (Ok(java), None) => measure(java, n, rows)?,
            (_, why) => {
                let all = kinds.iter().map(|(measure, scheme)| cell.row(measure, scheme, n, 1));
                rows.not_run(all, &why.unwrap_or_default())?;
            }
        }
    }
    Ok(())
}

/// Writes a row, compared with the row of one process.
fn write(row: Row, rows: &mut Rows<'_>) -> Result<()> {
    let is_one = |one: &&Row| {
        one.processes == 1
            && (&one.case, &one.engine) == (&row.case, &row.engine)
            && (&one.measure, &one.scheme) == (&row.measure, &row.scheme)
    };
    let one = rows.all().iter().find(is_one).and_then(|one| one.median_s).filter(|_| row.processes > 1);
    let cores = processors(row.processes);
    rows.write(match one.filter(|_| row.median_s.is_some()) {
        Some(median_s) => row.compared(Over { name: "1 process", median_s }, Some(cores)),
        None => row,
    })
}

/// Measures the paper's program.
pub fn papers(cell: &Cell<'_>, rows: &mut Rows<'_>) -> Result<()> {
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
        write(cell.row(ENCRYPTION_COLD, PAPERS, n, 1).timed(cold), rows)?;
        write(cell.row(ENCRYPTION_WARM, PAPERS, n, 1).timed(warm), rows)?;
        let with_files = cell.row(FILES_WARM, CTR, n, 1);
        if let Some(why) = too_many(cell, n) {
            return rows.write(with_files.not_run(&why));
        }
        let (_, warm) = run("ctr", cell.bytes, &[&plain, &sealed])?;
        write(with_files.timed(warm), rows)?;
        scratch::remove(&sealed)
    })
}

/// Measures whole commands, in Java and in Rust, in turn. Both sync what they write.
pub fn commands(cell: &Cell<'_>, rows: &mut Rows<'_>) -> Result<()> {
    let measures = [WHOLE, OWN, AT_WORK];
    each(cell, rows, &measures.map(|measure| (measure, CLUSTER_JAR)), |java, n, rows| {
        let of = |scheme: &str| measures.map(|measure| cell.row(measure, scheme, n, 1)).to_vec();
        if let Some(why) = too_many(cell, n) {
            return rows.not_run(of(CLUSTER_JAR), &why);
        }
        let ends = Ends::new(cell)?;
        let args = ["protect", "--verbose", "--threads", "1", "--key-file"];
        let of_rust = Programs::find(&cell.setup.hpc).map(|programs| {
            let args = ends.args(&args).chain(["--progress", "0"].map(OsString::from));
            programs.job(n, &programs.phalanx_mpi, args)
        });
        let all = [(CLUSTER_JAR, Ok(java.phalanx_cluster(n, ends.args(&args)))), (PHALANX_MPI, of_rust)];
        let contestant = |(scheme, job)| match job {
            Err(missing) => Contestant::missing(of(scheme), Error::to_string(&missing)),
            Ok(job) => Contestant::new(of(scheme), {
                let ends = &ends;
                move |turn| {
                    let ended = ends.run(&job, turn.is_first)?;
                    let timings = ended.timings(cell.bytes);
                    Ok(vec![Some(ended.seconds), timings.own, timings.longest()])
                }
            }),
        };
        let all = in_turns(all.into_iter().map(contestant).collect(), 0, cell.counts.cold)?;
        all.into_iter().flatten().try_for_each(|row| write(row, rows))
    })
}
