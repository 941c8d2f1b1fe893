//! Protecting beside a plain copy of the same data by the same processes, in turn.

use crate::error::Result;
use crate::measure::hpc::cluster::cell::{Cell, Contestant, MEMORY_FILES, Place, SUITES, in_turns, same};
use crate::measure::programs::find;
use crate::measure::steps::Rows;
use crate::names::cluster::{COPY, DCP, LESS_START, OWN, START, SUITE_1, SUITE_5, WHOLE, over};
use crate::row::{Row, median};
use std::ffi::OsString;

/// The least that is asked, by scheme.
const ASKED: [(&str, f64); 2] = [(SUITE_1, 0.6), (SUITE_5, 0.9)];

/// Once with the outputs brought to the disk, and once without, where there is a disk.
pub fn measure(cell: &Cell<'_>, rounds: usize, rows: &mut Rows<'_>) -> Result<()> {
    let place = cell.place()?;
    let is_memory = cell.backing.starts_with(MEMORY_FILES);
    for syncs in [false, true] {
        if syncs && is_memory {
            continue;
        }
        let what = if syncs { ", synced" } else { "" };
        match &place {
            Ok(place) => in_one_way(cell, place, what, syncs, rounds, rows)?,
            Err(why) => {
                let schemes = [COPY, SUITE_1, SUITE_5].map(|scheme| row(cell, what, operation(scheme), scheme));
                rows.not_run(schemes, why)?;
            }
        }
    }
    Ok(())
}

fn operation(scheme: &str) -> &'static str {
    if scheme.starts_with("phalanx") { "protect" } else { "copy" }
}

/// One process for each core, with one thread, as the copy's processes have.
fn row(cell: &Cell<'_>, what: &str, operation: &str, scheme: &str) -> Row {
    let row = cell.row(operation, WHOLE, scheme, cell.setup.threads, 1);
    Row { case: row.case.clone() + what, ..row }
}

fn in_one_way(
    cell: &Cell<'_>,
    place: &Place,
    what: &str,
    syncs: bool,
    rounds: usize,
    rows: &mut Rows<'_>,
) -> Result<()> {
    let n = cell.setup.threads;
    let (no_sync, option) = (!syncs, "--no-sync");
    let mut contestants = Vec::new();
    let mut add = |operation: &str, scheme: &str, job| {
        let row = row(cell, what, operation, scheme);
        let bytes = if operation == START { 0 } else { row.bytes };
        contestants.push(Contestant::new(Row { bytes, ..row }, job, &place.sealed));
    };
    match &place.programs.copy {
        Ok(copy) => {
            let empty = place.scratch.path("empty");
            crate::measure::scratch::write(&empty, 0, 0)?;
            for (operation, from) in [("copy", &place.plain), (START, &empty)] {
                let args = no_sync.then(|| OsString::from(option)).into_iter();
                let args = args.chain([from.clone().into(), place.sealed.clone().into()]);
                add(operation, COPY, place.programs.job(n, copy, args));
            }
        }
        Err(why) => rows.not_run([row(cell, what, "copy", COPY)], why)?,
    }
    match find(DCP) {
        // It ends with a sync of everything.
        Some(dcp) if syncs => {
            let args = [place.plain.clone().into(), place.sealed.clone().into()];
            add("copy", DCP, place.programs.job(n, &dcp, args));
        }
        Some(_) => rows.not_run([row(cell, what, "copy", DCP)], "it always syncs")?,
        None => rows.not_run([row(cell, what, "copy", DCP)], "no dcp")?,
    }
    for (scheme, cipher) in SUITES {
        let more: &[&str] = if no_sync { &[option] } else { &[] };
        add("protect", scheme, place.protect(n, 1, cipher, more));
    }
    let dryrun = place.protect(n, 1, SUITES[0].1, &["--dryrun"]);
    add(START, SUITE_1, dryrun);
    in_turns(&mut contestants, rounds, &place.scratch, |contestant| match contestant.row.operation.as_str() {
        "copy" => same(&place.plain, &place.sealed),
        "protect" => place.check(),
        _ => Ok(()),
    })?;
    write(cell, &contestants, rows)
}

fn write(cell: &Cell<'_>, contestants: &[Contestant], rows: &mut Rows<'_>) -> Result<()> {
    // Both suites start alike, and so do both copies.
    let start = |row: &Row| {
        let is_alike = |other: &&Contestant| {
            other.row.operation == START && operation(&other.row.scheme) == operation(&row.scheme)
        };
        contestants.iter().find(is_alike).and_then(|other| median(&other.seconds))
    };
    let less_start = |contestant: &Contestant| {
        let start = start(&contestant.row)?;
        Some(contestant.seconds.iter().map(|seconds| (seconds - start).max(0.0)).collect::<Vec<f64>>())
    };
    for contestant in contestants {
        rows.write(contestant.whole())?;
        if contestant.row.operation == START {
            continue;
        }
        if let Some(seconds) = less_start(contestant) {
            rows.write(Row { measure: LESS_START.into(), ..contestant.row.clone() }.timed(seconds))?;
        }
        if contestant.row.scheme != DCP {
            rows.write(contestant.told(OWN, |told| told.own))?;
        }
    }
    for (scheme, at_least) in ASKED {
        for copy in contestants.iter().filter(|copy| copy.row.operation == "copy") {
            let ours = contestants.iter().find(|ours| ours.row.scheme == scheme && ours.row.operation == "protect");
            let median_of = |of: &Contestant| less_start(of).and_then(|seconds| median(&seconds)).filter(|s| *s > 0.0);
            let Some((ours, (theirs, mine))) = ours.and_then(|o| Some((o, median_of(copy).zip(median_of(o))?))) else {
                continue;
            };
            let ratio = theirs / mine;
            let measure = format!("{LESS_START}: {}", over(&copy.row.scheme));
            let bar = cell.bar(format!("at least {at_least} times as fast as {}", copy.row.scheme), ratio >= at_least);
            let over = Some(copy.row.scheme.clone());
            rows.write(Row { measure, speedup: Some(ratio), over, bar, ..ours.row.clone() })?;
        }
    }
    Ok(())
}
