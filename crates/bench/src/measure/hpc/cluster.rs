//! P3's cluster part: `phalanx-mpi` under `mpirun` on this machine, by numbers of processes and threads beside the
//! printed times; beside a plain copy by the same processes; with one of them slowed down; and interrupted.
//!
//! The program needs MPI, so this code knows only its command line and what it reports with `--verbose`.

pub(crate) mod cell;
pub(crate) mod compared;
pub(crate) mod interrupted;
pub(crate) mod job;
pub(crate) mod printed;
pub(crate) mod ranks;
pub(crate) mod slowed;
pub(crate) mod timings;

pub use job::end_all;

use crate::measure::hpc::cluster::cell::{Cell, MEMORY_FILES};
use crate::measure::programs::{first_line, versions_of};
use crate::measure::scratch::{Backing, backings};
use crate::measure::setup::HpcOptions;
use crate::measure::{Result, Rows, Setup, Step};
use crate::names::hpc::EXPERIMENT;
use job::Programs;
use std::process::Command;

pub(crate) fn versions(options: &HpcOptions) -> Vec<String> {
    let Some(mpirun) = &options.mpirun else { return versions_of(&[("mpirun", "--version")]) };
    let line = first_line(Command::new(mpirun).arg("--version"));
    line.map(|line| format!("{}: {line}", mpirun.display())).into_iter().collect()
}

/// What these measurements need that this machine lacks.
pub fn missing(options: &HpcOptions) -> Option<String> {
    let why = Programs::find(options).and_then(|programs| programs.copy().map(drop)).err()?;
    Some(why.to_string().trim_start_matches("no ").into())
}

pub(crate) fn steps(setup: &Setup) -> Result<Vec<Step<'_>>> {
    // The bytes to copy and protect, the bytes of the interrupted run, and the rounds of comparisons.
    let (file, interrupted, many_rounds) = match setup.quick {
        true => (32 << 20, 64 << 20, 2),
        false => (2 << 30, 2 << 30, 3),
    };
    let interrupted = setup.hpc.interrupted.unwrap_or(interrupted);
    let mut steps = Vec::new();
    for (i, Backing { name, folder }) in backings(&setup.hpc.folders, &setup.out)?.into_iter().enumerate() {
        let cell = |bytes: u64| Cell { setup, backing: name.clone(), folder: folder.clone(), bytes };
        let mut add = |what: &str, weight: u64, bytes: u64, measure: Box<Measure>| {
            let cell = cell(bytes);
            let step = format!("{EXPERIMENT} cluster on {name}: {what}");
            steps.push(Step::new(step, weight, move |rows| measure(&cell, rows)));
        };
        add("copies", file / 10, file, Box::new(move |cell, rows| compared::measure(cell, many_rounds, rows)));
        // These measurements are about processes and processors, so one folder is enough: in memory, if none is named.
        if i == 0 {
            for (size, bytes) in printed::sizes(setup.quick) {
                add(size, bytes / 30, bytes, Box::new(move |cell, rows| printed::measure(cell, size, 1, rows)));
            }
            add("slowed", file / 10, file, Box::new(move |cell, rows| slowed::measure(cell, many_rounds, rows)));
            add("processes", file / 40, file, Box::new(ranks::measure));
        }
        // Files in memory cannot be taken out of the page cache.
        if !name.starts_with(MEMORY_FILES) {
            let measure = Box::new(|cell: &Cell<'_>, rows: &mut Rows<'_>| interrupted::measure(cell, 1, rows));
            add("interrupted", interrupted / 15, interrupted, measure);
        }
    }
    Ok(steps)
}

type Measure = dyn Fn(&Cell<'_>, &mut Rows<'_>) -> Result<()>;
