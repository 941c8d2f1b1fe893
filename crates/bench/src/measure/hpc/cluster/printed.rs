//! P3's tables of processes: its sizes, by numbers of processes and of threads in each.
//!
//! The paper's times are those of encryption alone, without reading, writing and messages. `phalanx-mpi` does not measure
//! that apart: each chunk is read, sealed and written before the next. The nearest thing that it tells is how long each
//! process was at work, with reading and writing, so the printed times stand beside the longest of these. Encryption alone
//! is measured with threads.

use crate::error::Result;
use crate::measure::hpc::cluster::cell::{Cell, Contestant, SUITES, in_turns};
use crate::measure::machine;
use crate::measure::setup::processors;
use crate::measure::steps::Rows;
use crate::names::cluster::{AT_WORK, OWN, WHOLE};
use crate::paper::{Printed, p3};
use crate::row::{Over, Row};

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

/// The numbers of processes, each with the reason why it is not run, if so.
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

/// One size: all numbers of processes in turn.
pub fn measure(cell: &Cell<'_>, size: &str, rounds: usize, rows: &mut Rows<'_>) -> Result<()> {
    let cores = cell.setup.threads;
    let mut threads = vec![1, cores];
    threads.dedup();
    let row = |scheme: &str, processes: usize, threads: usize, measure: &str| {
        let row = cell.row("protect", measure, scheme, processes, threads);
        let printed = if measure == AT_WORK { printed(cell.bytes, processes) } else { Vec::new() };
        Row { case: format!("{size} on {}", cell.backing), printed, ..row }
    };
    let all = || {
        let of_one = |(n, why): (usize, Option<String>)| {
            let of_threads = move |threads: usize| SUITES.map(|suite| (suite, n, threads));
            threads.iter().copied().flat_map(of_threads).map(move |it| (it, why.clone())).collect::<Vec<_>>()
        };
        processes(cell).into_iter().flat_map(of_one)
    };
    // Each has one row, with the printed times.
    let too_many = |rows: &mut Rows<'_>| {
        let mut missing = processes(cell).into_iter().filter_map(|(n, why)| Some((n, why?)));
        missing.try_for_each(|(n, why)| rows.not_run([row(SUITES[0].0, n, 1, AT_WORK)], &why))
    };
    let place = match cell.place()? {
        Ok(place) => place,
        Err(missing) => {
            for ((scheme, _), n, threads) in all().filter(|(_, why)| why.is_none()).map(|(it, _)| it) {
                rows.not_run([WHOLE, OWN, AT_WORK].map(|measure| row(scheme, n, threads, measure)), &missing)?;
            }
            return too_many(rows);
        }
    };
    let mut contestants = Vec::new();
    for (((scheme, cipher), n, threads), why) in all() {
        match why {
            Some(_) => {}
            None => {
                let job = place.protect(n, threads, cipher, &[]);
                contestants.push(Contestant::new(row(scheme, n, threads, WHOLE), job, &place.sealed));
            }
        }
    }
    in_turns(&mut contestants, rounds, &place.scratch, |_| place.check())?;
    let own = |contestant: &Contestant| contestant.told(OWN, |told| told.own);
    let single = |of: &Row| {
        let one = contestants
            .iter()
            .find(|one| one.row.processes == 1 && one.row.threads == 1 && one.row.scheme == of.scheme);
        one.and_then(|one| own(one).median_s)
    };
    for contestant in &contestants {
        let Row { processes, threads, .. } = contestant.row;
        rows.write(contestant.whole())?;
        let row = own(contestant);
        rows.write(match single(&row) {
            Some(median_s) if (processes, threads) != (1, 1) => {
                let over = Over { name: "1 process with 1 thread", median_s };
                row.compared(over, Some(processors(processes * threads)))
            }
            _ => row,
        })?;
        let row = contestant.told(AT_WORK, |told| told.longest());
        rows.write(Row { printed: printed(cell.bytes, processes), ..row })?;
    }
    too_many(rows)
}
