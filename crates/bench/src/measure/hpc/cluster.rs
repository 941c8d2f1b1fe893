//! P3's cluster part: `phalanx-mpi` under `mpirun` on this machine, by numbers of processes and threads beside the printed
//! times; beside a plain copy by the same processes; with one of them slowed down; and interrupted.
//!
//! The program needs MPI, so nothing here knows more of it than its command and what it tells with `--verbose`.

pub(crate) mod cell;
pub(crate) mod compared;
pub(crate) mod interrupted;
pub(crate) mod job;
pub(crate) mod printed;
pub(crate) mod ranks;
pub(crate) mod slowed;
pub(crate) mod told;

pub use job::end_all;

use crate::error::Result;
use crate::measure::hpc::cluster::cell::{Cell, MEMORY_FILES};
use crate::measure::programs::versions_of;
use crate::measure::scratch::{Backing, backings};
use crate::measure::setup::{HpcOptions, Setup};
use crate::measure::steps::Step;
use crate::names::hpc::EXPERIMENT;
use job::Programs;
use std::process::Command;

/// The version of the launcher.
pub fn versions(options: &HpcOptions) -> Vec<String> {
    let Some(mpirun) = &options.mpirun else { return versions_of(&[("mpirun", "--version")]) };
    let output = Command::new(mpirun).arg("--version").output();
    let text = output.map(|output| String::from_utf8_lossy(&output.stdout).into_owned()).unwrap_or_default();
    text.lines().next().map(|line| format!("{}: {}", mpirun.display(), line.trim())).into_iter().collect()
}

/// What these measurements need that is not here.
pub fn missing(options: &HpcOptions) -> Option<String> {
    let why = Programs::find(options).map_or_else(Some, |programs| programs.copy.err())?;
    Some(why.trim_start_matches("no ").into())
}

/// The sizes and counts of a run.
struct Sizes {
    /// The bytes that are copied and protected.
    file: u64,
    /// The bytes of the run that is interrupted.
    interrupted: u64,
    /// The rounds that count.
    rounds: usize,
    /// The rounds of comparisons.
    many_rounds: usize,
}

/// The steps.
pub fn steps(setup: &Setup) -> Result<Vec<Step<'_>>> {
    let mut sizes = match setup.quick {
        true => Sizes { file: 32 << 20, interrupted: 64 << 20, rounds: 1, many_rounds: 2 },
        false => Sizes { file: 2 << 30, interrupted: 2 << 30, rounds: 1, many_rounds: 3 },
    };
    sizes.interrupted = setup.hpc.interrupted.unwrap_or(sizes.interrupted);
    let mut steps = Vec::new();
    for (i, Backing { name, folder }) in backings(&setup.hpc.folders, &setup.out)?.into_iter().enumerate() {
        let step = |what: &str| format!("{EXPERIMENT} cluster on {name}: {what}");
        let cell = |bytes: u64| Cell { setup, backing: name.clone(), folder: folder.clone(), bytes };
        let (file, rounds) = (sizes.file, sizes.many_rounds);
        let it = cell(file);
        steps.push(Step::new(step("copies"), file / 10, move |rows| compared::measure(&it, rounds, rows)));
        // The rest is about processes and processors, so it is measured in one folder: in memory, if none is named.
        if i == 0 {
            for (size, bytes) in printed::sizes(setup.quick) {
                let (cell, rounds) = (cell(bytes), sizes.rounds);
                steps.push(Step::new(step(size), bytes / 30, move |rows| printed::measure(&cell, size, rounds, rows)));
            }
            let it = cell(file);
            steps.push(Step::new(step("slowed"), file / 10, move |rows| slowed::measure(&it, rounds, rows)));
            let it = cell(file);
            steps.push(Step::new(step("processes"), file / 40, move |rows| ranks::measure(&it, rows)));
        }
        if name.starts_with(MEMORY_FILES) {
            // Nothing can be taken out of the page cache there.
            continue;
        }
        let (it, rounds) = (cell(sizes.interrupted), sizes.rounds);
        let weight = sizes.interrupted / 15;
        steps.push(Step::new(step("interrupted"), weight, move |rows| interrupted::measure(&it, rounds, rows)));
    }
    Ok(steps)
}
