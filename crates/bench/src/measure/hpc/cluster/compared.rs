//! Protecting compared with a plain copy of the same data by the same processes, in turn.

use crate::measure::hpc::cluster::cell::{Cell, MEMORY_FILES, MakeJob, Place, Planned, SUITES, measured};
use crate::measure::programs::require;
use crate::measure::scratch::{self, require_same};
use crate::measure::{Error, Result, Row, Rows};
use crate::names::cluster::{COPY, DCP, LESS_START, OWN, START, SUITE_1, SUITE_5, WHOLE, over};
use std::ffi::OsString;
use std::path::PathBuf;

/// The least ratio that is required, by scheme.
const ASKED: [(&str, f64); 2] = [(SUITE_1, 0.6), (SUITE_5, 0.9)];

/// Compares without syncing the outputs and, if they are on a disk, with syncing them.
pub fn measure(cell: &Cell<'_>, rounds: usize, rows: &mut Rows<'_>) -> Result<()> {
    let place = cell.place()?;
    in_one_way(cell, &place, false, rounds, rows)?;
    match cell.backing.starts_with(MEMORY_FILES) {
        true => Ok(()),
        false => in_one_way(cell, &place, true, rounds, rows),
    }
}

fn in_one_way(
    cell: &Cell<'_>,
    place: &std::result::Result<Place, String>,
    syncs: bool,
    rounds: usize,
    rows: &mut Rows<'_>,
) -> Result<()> {
    // There is one process for each core. Each has one thread, like the processes of the copy.
    let n = cell.setup.threads;
    let planned = |operation: &str, scheme: &str, job: MakeJob<'static>| {
        let row = cell.row(operation, WHOLE, scheme, n, 1);
        let bytes = if operation == START { 0 } else { row.bytes };
        let measures: &[&str] = if operation == START || scheme == DCP { &[WHOLE] } else { &[WHOLE, OWN] };
        let check = match operation {
            "copy" => |place: &Place| require_same(&place.plain, &place.sealed),
            "protect" => Place::check,
            _ => |_: &Place| Ok(()),
        };
        let case = row.case.clone() + if syncs { ", synced" } else { "" };
        Planned { row: Row { case, bytes, ..row }, measures, is_slowed: false, job, check }
    };
    let no_sync: &[&str] = if syncs { &[] } else { &["--no-sync"] };
    let copy = move |place: &Place, from: PathBuf| {
        let args = no_sync.iter().map(OsString::from).chain([from.into(), place.sealed.clone().into()]);
        Ok(place.programs.job(n, place.programs.copy()?, args))
    };
    let empty = move |place: &Place| {
        let empty = place.scratch.path("empty");
        scratch::write(&empty, 0, 0)?;
        copy(place, empty)
    };
    let dcp = move |place: &Place| {
        let dcp = require(DCP)?;
        if !syncs {
            return Err(Error::NotRun("it always syncs".into()));
        }
        Ok(place.programs.job(n, &dcp, [place.plain.clone().into(), place.sealed.clone().into()]))
    };
    let mut all = vec![
        planned("copy", COPY, Box::new(move |place| copy(place, place.plain.clone()))),
        planned(START, COPY, Box::new(empty)),
        planned("copy", DCP, Box::new(dcp)),
    ];
    for (scheme, cipher) in SUITES {
        all.push(planned("protect", scheme, Box::new(move |place| Ok(place.protect(n, 1, cipher, no_sync)))));
    }
    all.push(planned(START, SUITE_1, Box::new(move |place| Ok(place.protect(n, 1, SUITES[0].1, &["--dry-run"])))));
    let (measured, missing): (Vec<_>, Vec<_>) =
        measured(place, all, rounds)?.into_iter().partition(|rows| rows[0].why_not().is_none());
    // For each that is missing, one row explains why.
    let is_named = |row: &Row| row.operation != START && (place.is_ok() || row.scheme != DCP);
    rows.write_all(missing.into_iter().map(|rows| rows[0].clone()).filter(is_named))?;
    write(cell, &measured, rows)
}

fn write(cell: &Cell<'_>, all: &[Vec<Row>], rows: &mut Rows<'_>) -> Result<()> {
    let is_copy = |row: &Row| !row.scheme.starts_with("phalanx");
    let less_start = |row: &Row| {
        // Both suites take the same time to start, and so do both copies.
        let is_alike = |other: &&Vec<Row>| other[0].operation == START && is_copy(&other[0]) == is_copy(row);
        let start = all.iter().find(is_alike)?[0].median_s?;
        let seconds = row.seconds.iter().map(|seconds| (seconds - start).max(0.0)).collect();
        Some(Row { measure: LESS_START.into(), ..row.clone() }.timed(seconds))
    };
    for of_one in all {
        rows.write(of_one[0].clone())?;
        if of_one[0].operation != START {
            rows.write_all(less_start(&of_one[0]))?;
            rows.write_all(of_one[1..].iter().cloned())?;
        }
    }
    for (scheme, at_least) in ASKED {
        for copy in all.iter().map(|rows| &rows[0]).filter(|row| row.operation == "copy") {
            let ours = all.iter().map(|rows| &rows[0]).find(|row| row.scheme == scheme && row.operation == "protect");
            let positive = |row: &Row| less_start(row)?.median_s.filter(|seconds| *seconds > 0.0);
            let Some((ours, ratio)) = ours.and_then(|ours| Some((ours, positive(copy)? / positive(ours)?))) else {
                continue;
            };
            let asked = format!("at least {at_least} times as fast as {}", copy.scheme);
            rows.write(Row {
                measure: format!("{LESS_START}: {}", over(&copy.scheme)),
                speedup: Some(ratio),
                over: Some(copy.scheme.clone()),
                bar: cell.setup.bar(asked, ratio >= at_least),
                ..without_times(ours)
            })?;
        }
    }
    Ok(())
}

fn without_times(row: &Row) -> Row {
    Row { seconds: Vec::new(), median_s: None, gb_per_s: None, runs_per_time: 0, ..row.clone() }
}
