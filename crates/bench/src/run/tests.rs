//! Small experiments with stand-ins for their programs, from the run to the page. They need none of the programs.

mod cluster;
mod java;
mod service;

use crate::measure::machine;
use crate::measure::setup::Setup;
use crate::measure::steps::{Step, run_steps};
use crate::record::{JSON, Record, read};
use crate::report;
use crate::row::Row;
use std::fs;

/// The rows of a run of these steps alone, and its report.
fn measured(setup: &Setup, versions: Vec<String>, steps: Vec<Step<'_>>) -> (Vec<Row>, String) {
    let _ = fs::remove_file(setup.out.join(JSON));
    let mut record = Record::open(&setup.out, setup.resume, machine::head(setup, versions)).unwrap();
    run_steps(&mut record, steps, &()).unwrap();
    report::write(&setup.out).unwrap();
    let (_, rows) = read(&setup.out).unwrap();
    (rows, fs::read_to_string(setup.out.join(report::FILE)).unwrap())
}
