//! P1: files are protected and unprotected in SEFPS's layout, with the paper's own code and with Phalanx's kernels, and in
//! Phalanx's format.

mod apart;
pub mod averages;
mod case;
mod device;
pub mod layout;
mod programs;
pub mod splits;

use crate::error::{Error, Result};
use crate::measure::device::eq_1;
use crate::measure::scratch;
use crate::measure::scratch::Scratch;
use crate::measure::sefps::case::Case;
use crate::measure::setup::{Setup, processors};
use crate::measure::steps::{Rows, Step};
use crate::names::sefps::{CPU, EXPERIMENT, GPU, HYBRID, RATIO, SERIAL};
use crate::paper::{equations, p1};
use crate::row::{Over, Row};
use programs::{Run, variants};
use std::collections::HashMap;
use std::fs;
use std::path::Path;

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
        let (case, bytes, rounds) = (size.to_string(), *bytes, rounds(setup, *bytes));
        let weight = (bytes / 1000 + 1000) * rounds as u64;
        steps.push(Step::new(format!("{EXPERIMENT} {case}"), weight, move |rows| {
            one_file(setup, scratch, &case, bytes, rounds, rows)
        }));
    }
    if !setup.quick {
        steps.push(Step::new(format!("{EXPERIMENT} averages"), 1, |rows| {
            averages::of(rows.all()).into_iter().try_for_each(|row| rows.write(row))
        }));
    }
    Ok(steps)
}

/// The paper has 20 runs of each program. With as many of large files, this experiment alone would take over an hour.
fn rounds(setup: &Setup, bytes: u64) -> usize {
    match bytes {
        _ if setup.quick => 2,
        0..10_000_000 => 20,
        10_000_000..100_000_000 => 5,
        _ => 2,
    }
}

/// Measures all programs in turn on one file, `rounds` times, and checks each result.
fn one_file(
    setup: &Setup,
    scratch: &Scratch,
    case: &str,
    bytes: u64,
    rounds: usize,
    rows: &mut Rows<'_>,
) -> Result<()> {
    let plain = scratch.file("plain", bytes, bytes)?;
    let (sealed, back) = (scratch.path("sealed"), scratch.path("back"));
    // The output of the CPU's program. A device's program must write the same.
    let wanted = scratch.path("wanted");
    let mut variants = variants(setup, bytes);
    let mut runs: Vec<[Vec<Run>; 2]> = variants.iter().map(|_| Default::default()).collect();
    for round in 0..rounds {
        for (variant, runs) in variants.iter_mut().zip(&mut runs) {
            let Some(sealing) = variant.run("protect", &plain, &sealed)? else { continue };
            let Some(opening) = variant.run("unprotect", &sealed, &back)? else { continue };
            runs[0].push(sealing);
            runs[1].push(opening);
            if round == 0 {
                let is_right = same(&plain, &back)? && (!variant.is_layout_on_device() || same(&wanted, &sealed)?);
                if !is_right {
                    return Err(Error::Program(format!("{}, {}: wrong bytes", variant.scheme, variant.engine)));
                }
                if !wanted.exists() {
                    fs::copy(&sealed, &wanted).map_err(Error::at(&wanted))?;
                }
            }
            // Removed before their write-back begins, so that it does not disturb the next run.
            scratch::remove(&sealed)?;
            scratch::remove(&back)?;
        }
        scratch::remove(&wanted)?;
    }
    let case = Case { name: case, bytes };
    let mut serial: HashMap<_, Row> = HashMap::new();
    for (variant, runs) in variants.iter().zip(&runs) {
        for (operation, runs) in OPERATIONS.iter().zip(runs) {
            if let Err(why) = &variant.program {
                for measure in ["AES", "total"].into_iter().skip(usize::from(!variant.is_layout())) {
                    rows.write(case.row(variant, operation, measure).not_run(why))?;
                }
                continue;
            }
            let total: Vec<f64> = runs.iter().map(|run| run.total).collect();
            let aes: Option<Vec<f64>> = runs.iter().map(|run| run.aes).collect();
            let hash: Option<Vec<f64>> = runs.iter().map(|run| run.hash).collect();
            for (measure, seconds) in [("AES", aes), ("hash", hash), ("total", Some(total))] {
                let Some(seconds) = seconds else { continue };
                let mut row = case.row(variant, operation, measure).timed(seconds);
                let key = |measure: &'static str| (variant.scheme.clone(), *operation, measure);
                if variant.engine == SERIAL {
                    serial.insert(key(measure), row.clone());
                } else if let Some(one) = serial.get(&key(measure)) {
                    let median_s = one.median_s.unwrap_or(f64::NAN);
                    row = row.compared(Over { name: SERIAL, median_s }, None);
                    // Eqs. 6 to 8 are about AES, the only part that is shared.
                    let speedup = row.speedup.filter(|_| measure == "AES");
                    row.efficiency = speedup.and_then(|speedup| efficiency(setup, variant.engine, speedup));
                    let is_bounded = measure == "total" && variant.engine == CPU;
                    row.amdahl = serial.get(&key("AES")).filter(|_| is_bounded).and_then(|aes| {
                        let parallel = aes.median_s? / one.median_s?;
                        Some(equations::amdahl(parallel, processors(variant.threads) as f64))
                    });
                }
                rows.write(row)?;
            }
        }
    }
    apart::rows_of(setup, &case, &plain, rounds, rows)?;
    splits::rows_of(setup, &case, &plain, rounds, rows)?;
    scratch::remove(&plain)
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
    let row = Row {
        threads: setup.threads,
        ..Row::of(EXPERIMENT, "this machine", ["divide", RATIO, "the fixed split", HYBRID])
    };
    match eq_1(setup) {
        Ok(ratio) => {
            let over = format!("the {} CPU cores that do not serve the device", setup.threads - 1);
            Row { speedup: Some(ratio), over: Some(over), ..row }
        }
        Err(why) => row.not_run(&why),
    }
}

fn same(a: &Path, b: &Path) -> Result<bool> {
    Ok(fs::read(a).map_err(Error::at(a))? == fs::read(b).map_err(Error::at(b))?)
}
