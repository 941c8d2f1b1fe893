//! P3's tables of processes: its sizes, by numbers of processes and of threads in each.
//!
//! The paper's times are those of encryption alone, without reading, writing and messages. `phalanx-mpi` does not
//! measure this separately, because it reads, seals and writes each chunk before the next. The closest figure that it
//! reports is how long each process was at work, with reading and writing. So the printed times are compared with the
//! longest of these. Encryption alone is measured with threads.

use crate::measure::hpc::cluster::cell::{Cell, Place, Planned, SUITES, measured};
use crate::measure::machine;
use crate::measure::{Over, Result, Row, Rows, processors};
use crate::names::cluster::{AT_WORK, OWN, WHOLE};
use crate::paper::{Printed, p3};

/// The paper's programs for clusters, by the name of their experiments.
const PROGRAMS: [&str; 2] = ["mpich", "mpj-cluster"];
/// More processes than this are not started on a small machine.
const PROCESSES: u64 = 8;
/// The memory that a process may take, in bytes.
const MEMORY: u64 = 128 << 20;

/// The paper's sizes, as printed, and in bytes.
pub fn sizes(is_quick: bool) -> Vec<(&'static str, u64)> {
    let mut sizes = p3().sweep("mpich", "bytes");
    sizes.truncate(if is_quick { 1 } else { sizes.len() });
    sizes
}

/// The numbers of processes. Those that are not run have a reason.
fn processes(cell: &Cell<'_>) -> Vec<(usize, Option<String>)> {
    let cores = cell.setup.threads as u64;
    let most = if cell.setup.quick { 4 } else { PROCESSES.max(2 * cores) };
    let memory = machine::memory("MemAvailable").unwrap_or(u64::MAX);
    let why = |n: u64| match n {
        n if n > most => Some(format!("{n} processes on {cores} cores")),
        n if n * MEMORY > memory => Some(format!("{n} processes in {memory} bytes of memory")),
        _ => None,
    };
    p3().sweep("mpich", "processes").into_iter().map(|(_, n)| (n as usize, why(n))).collect()
}

fn printed(bytes: u64, processes: usize) -> Vec<Printed> {
    p3().printed(|v| {
        PROGRAMS.contains(&v.experiment.as_str())
            && v.case.bytes == Some(bytes)
            && v.case.processes == Some(processes as u64)
            && v.measure == "time"
    })
}

/// Measures one size with all numbers of processes in turn.
pub fn measure(cell: &Cell<'_>, size: &str, rounds: usize, rows: &mut Rows<'_>) -> Result<()> {
    let mut threads = vec![1, cell.setup.threads];
    threads.dedup();
    let row = |scheme: &str, processes: usize, threads: usize| {
        let row = cell.row("protect", AT_WORK, scheme, processes, threads);
        Row { case: format!("{size} on {}", cell.backing), ..row }
    };
    let mut planned = Vec::new();
    for n in processes(cell).into_iter().filter_map(|(n, why)| why.is_none().then_some(n)) {
        for threads in threads.iter().copied() {
            planned.extend(SUITES.map(|(scheme, cipher)| Planned {
                row: row(scheme, n, threads),
                measures: &[WHOLE, OWN, AT_WORK],
                is_slowed: false,
                job: Box::new(move |place: &Place| Ok(place.protect(n, threads, cipher, &[]))),
                check: Place::check,
            }));
        }
    }
    let all = measured(&cell.place()?, planned, rounds)?;
    let single = |of: &Row| {
        let is_it =
            |row: &&Row| (row.processes, row.threads, &row.scheme, &row.measure) == (1, 1, &of.scheme, &of.measure);
        all.iter().flatten().find(is_it).and_then(|row| row.median_s)
    };
    for row in all.iter().flatten() {
        let (n, over) = (row.processes * row.threads, "1 process with 1 thread");
        let median_s = single(row).filter(|_| row.measure == OWN && n > 1);
        let row = match median_s {
            Some(median_s) => row.clone().compared(Over { name: over, median_s }, Some(processors(n))),
            None => row.clone(),
        };
        let printed = if row.measure == AT_WORK { printed(cell.bytes, row.processes) } else { Vec::new() };
        rows.write(Row { printed, ..row })?;
    }
    // Each number of processes that is too large gets one row, with the printed times.
    for (n, why) in processes(cell).into_iter().filter_map(|(n, why)| Some((n, why?))) {
        rows.write(Row { printed: printed(cell.bytes, n), ..row(SUITES[0].0, n, 1) }.not_run(&why))?;
    }
    Ok(())
}
