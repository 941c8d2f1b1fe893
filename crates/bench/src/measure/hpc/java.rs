//! P3's programs in Java: threads of one JVM, and the processes of MPJ Express. They are the paper's own program, and
//! Phalanx's format as `java/` implements it. Each is measured in a JVM that has just started, and in one that has run
//! the same before.
//!
//! This code knows only the commands of these programs, and what they report on standard error.

pub(crate) mod cell;
pub(crate) mod processes;
pub(crate) mod programs;
pub(crate) mod threads;

pub use programs::versions;

use crate::measure::hpc::java::cell::{Cell, Counts};
use crate::measure::scratch;
use crate::measure::setup::HpcOptions;
use crate::measure::{Result, Rows, Scratch, Setup, Step};
use crate::names::hpc::EXPERIMENT;
use crate::paper::p3;
use programs::Java;

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

/// What these measurements need that this machine lacks.
pub fn missing(options: &HpcOptions) -> Option<String> {
    match Java::find(options) {
        Ok(java) if java.has_mpj => None,
        Ok(_) => Some("mpj".into()),
        Err(missing) => Some(missing.to_string().trim_start_matches("no ").into()),
    }
}
