//! P1: files are protected and unprotected in SEFPS's layout, with the paper's own code and with Phalanx's kernels, and
//! in Phalanx's format.

pub mod averages;
mod device;
pub mod layout;
mod memory;
mod programs;

use crate::measure::device::eq_1;
use crate::measure::{
    Contestant, Error, Over, Result, Row, Rows, Scratch, Setup, Step, in_turns, processors, row_of, scratch,
};
use crate::names::sefps::{CPU, EXPERIMENT, GPU, HYBRID, RATIO, SERIAL};
use crate::paper::{equations, p1};
use phalanx_core::engine::Op;
use programs::{Variant, variants};
pub(crate) use programs::{format, format_run};
use std::fs;

const OPERATIONS: [&str; 2] = ["protect", "unprotect"];

/// The steps: one for each file, because all programs are measured in turn on the same file, and one for the averages.
pub fn steps<'a>(setup: &'a Setup, scratch: &'a Scratch) -> Result<Vec<Step<'a>>> {
    let mut sizes = p1().sweep("protect", "bytes");
    if setup.quick {
        sizes.truncate(5);
    }
    let largest = sizes.iter().map(|(_, bytes)| *bytes).max().unwrap_or(0);
    scratch::require_disk(&setup.out, 4 * largest)?;
    // The layout needs the whole file in memory. Files in the page cache need three times that.
    scratch::require_memory(5 * largest)?;
    let mut steps = vec![Step::new(format!("{EXPERIMENT} {RATIO}"), 1, |rows| rows.write(ratio_row(setup)))];
    for (size, bytes) in &sizes {
        let (case, rounds) = (Case { name: size.to_string(), bytes: *bytes }, rounds(setup, *bytes));
        let weight = (bytes / 1000 + 1000) * rounds as u64;
        steps.push(Step::new(format!("{EXPERIMENT} {size}"), weight, move |rows| {
            one_file(setup, scratch, &case, rounds, rows)
        }));
    }
    if !setup.quick {
        steps.push(Step::new(format!("{EXPERIMENT} averages"), 1, |rows| rows.write_all(averages::of(rows.all()))));
    }
    Ok(steps)
}

/// The paper has 20 runs of each program. With so many for large files too, this experiment alone would take over an
/// hour.
fn rounds(setup: &Setup, bytes: u64) -> usize {
    match bytes {
        _ if setup.quick => 2,
        0..10_000_000 => 20,
        10_000_000..100_000_000 => 5,
        _ => 2,
    }
}

/// A file that all programs are measured on.
struct Case {
    name: String,
    bytes: u64,
}

impl Case {
    fn row(&self, names: [&str; 4], threads: usize) -> Row {
        row_of(EXPERIMENT, &self.name, names, [self.bytes, 1], threads)
    }

    fn row_of(&self, variant: &Variant, operation: &str, measure: &str) -> Row {
        let is_printed = variant.is_layout() && variant.scheme.ends_with("AES-128");
        let printed = p1().printed(|v| {
            is_printed
                && v.experiment == operation
                && v.engine.as_deref() == Some(variant.engine)
                && v.measure == format!("{measure} speed")
                && v.case.bytes == Some(self.bytes)
        });
        let threads = if measure == "hash" { 1 } else { variant.threads };
        Row { printed, ..self.row([operation, measure, &variant.scheme, variant.engine], threads) }
    }
}

/// Measures all programs in turn on one file, `rounds` times, and checks each result.
fn one_file(setup: &Setup, scratch: &Scratch, case: &Case, rounds: usize, rows: &mut Rows<'_>) -> Result<()> {
    let plain = scratch.file("plain", case.bytes, case.bytes)?;
    let (sealed, back) = (scratch.path("sealed"), scratch.path("back"));
    // The output of the CPU's program is kept here. A device's program must write the same.
    let wanted = scratch.path("wanted");
    let contestant = |variant: Variant| {
        let measures: &[&str] = if variant.is_layout() { &["AES", "hash", "total"] } else { &["total"] };
        let of = |operation| measures.iter().map(move |measure| (operation, *measure));
        let all = OPERATIONS.into_iter().flat_map(of);
        let all = all.map(|(operation, measure)| case.row_of(&variant, operation, measure)).collect();
        let is_layout_on_device = variant.is_layout() && [GPU, HYBRID].contains(&variant.engine);
        let mut program = match variant.program {
            Ok(program) => program,
            Err(why) => return Contestant::missing(all, why.to_string()),
        };
        let (plain, sealed, back, wanted) = (&plain, &sealed, &back, &wanted);
        Contestant::new(all, move |turn| {
            let sealing = program.run(Op::Seal, plain, sealed)?;
            let opening = program.run(Op::Open, sealed, back)?;
            if turn.is_first {
                scratch::require_same(plain, back)?;
                if is_layout_on_device {
                    scratch::require_same(wanted, sealed)?;
                }
                if !wanted.exists() {
                    fs::copy(sealed, wanted).map_err(Error::at(wanted))?;
                }
            }
            // The files are removed before their write-back begins, so that it does not disturb the next run.
            scratch::remove(sealed)?;
            scratch::remove(back)?;
            Ok([sealing, opening].concat())
        })
    };
    let all = in_turns(variants(setup, case.bytes).into_iter().map(contestant).collect(), 0, rounds)?.concat();
    scratch::remove(&wanted)?;
    for row in &all {
        // The device does not compute the hash, so it needs no row for it.
        if row.measure != "hash" || row.why_not().is_none() {
            rows.write(beside_serial(setup, row, &all))?;
        }
    }
    memory::parts_of_format(setup, case, &plain, rounds, rows)?;
    memory::splits(setup, case, &plain, rounds, rows)?;
    scratch::remove(&plain)
}

/// Adds to a row its speedup over one thread, and the figures that follow from it.
fn beside_serial(setup: &Setup, row: &Row, all: &[Row]) -> Row {
    let serial = |measure: &str| {
        let is_it = |one: &&Row| {
            let same = (&one.scheme, &one.operation) == (&row.scheme, &row.operation);
            same && one.engine == SERIAL && one.measure == measure
        };
        all.iter().find(is_it).and_then(|one| one.median_s)
    };
    let Some(one) = serial(&row.measure).filter(|_| row.engine != SERIAL && row.median_s.is_some()) else {
        return row.clone();
    };
    let row = row.clone().compared(Over { name: SERIAL, median_s: one }, None);
    // Eqs. 6 to 8 are about AES, the only part that is shared.
    let speedup = row.speedup.filter(|_| row.measure == "AES");
    let efficiency = speedup.and_then(|speedup| efficiency(setup, &row.engine, speedup));
    let aes = serial("AES").filter(|_| row.measure == "total" && row.engine == CPU);
    let amdahl = aes.map(|aes| equations::amdahl(aes / one, processors(row.threads) as f64));
    Row { efficiency, amdahl, ..row }
}

/// Eqs. 6, 7 and 8.
fn efficiency(setup: &Setup, engine: &str, speedup: f64) -> Option<f64> {
    let cores = processors(setup.threads) as f64;
    match (engine, eq_1(setup)) {
        (CPU, _) => Some(equations::cpu_efficiency(speedup, cores)),
        (GPU, Ok(ratio)) => Some(equations::gpu_efficiency(speedup, ratio, cores)),
        (HYBRID, Ok(ratio)) => Some(equations::hybrid_efficiency(speedup, ratio, cores)),
        _ => None,
    }
}

fn ratio_row(setup: &Setup) -> Row {
    let names = ["divide", RATIO, "the fixed split", HYBRID];
    let row = Row { threads: setup.threads, ..Row::of(EXPERIMENT, "this machine", names) };
    match eq_1(setup) {
        Ok(ratio) => {
            let over = format!("the {} CPU cores that do not serve the device", setup.threads - 1);
            Row { speedup: Some(ratio), over: Some(over), ..row }
        }
        Err(why) => row.not_run(&why.to_string()),
    }
}
