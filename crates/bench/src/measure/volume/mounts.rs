//! Mounted volumes compared with gocryptfs, on the same backing folders in the same run. In each round every contestant
//! does the work once, in another order. The first round is not counted. It checks what comes back.
//!
//! This code knows only the programs' commands. The backing folder itself is a contestant too, and shows what the work
//! costs without encryption. So is bindfs, which passes everything on, and shows what FUSE costs.

mod contestant;
mod fio;
mod sources;
mod work;

use crate::measure::mounted::{self, unmount_below};
use crate::measure::programs::{find, versions_of};
use crate::measure::scratch::{Backing, backings, require_disk};
use crate::measure::{Contestant, Error, Result, Row, Rows, Scratch, Setup, Step, in_turns};
use crate::names::mounts::{BINDFS, BY_DEVICE, BY_URING, ENGINE, GOCRYPTFS, MEMORY, RATIO, SUITE_1, SUITE_5, TIME};
use crate::names::volume::EXPERIMENT;
use contestant::{Volume, volumes};
use std::cell::RefCell;
use work::{FULL, QUICK, Task, tasks};

/// The most that a mount may take, in KiB.
const MOST_MEMORY: u64 = 256 << 10;

/// The versions of the programs that these measurements call.
pub fn versions() -> Vec<String> {
    versions_of(&[
        ("gocryptfs", "-version"),
        ("bindfs", "--version"),
        ("fio", "--version"),
        ("fusermount3", "--version"),
        ("tar", "--version"),
        ("git", "--version"),
        ("npm", "--version"),
    ])
}

/// What these measurements need that this machine lacks.
pub fn missing(setup: &Setup) -> Vec<String> {
    let programs = ["gocryptfs", "bindfs", "fio", "tar", "git", "npm"];
    let missing = programs.into_iter().filter(|name| find(name).is_none()).map(String::from);
    let phalanx = (!setup.program.is_file()).then(|| "phalanx".to_owned());
    let fuse = mounted::missing().map(|why| why.trim_start_matches("no ").to_owned());
    missing.chain(phalanx).chain(fuse).collect()
}

/// The steps: one for each backing folder and task.
pub fn steps<'a>(setup: &'a Setup, scratch: &'a Scratch) -> Result<Vec<Step<'a>>> {
    let sizes = if setup.quick { QUICK } else { FULL };
    let mut backings = backings(&setup.volume.backing, &setup.out)?;
    backings.truncate(if setup.quick { 1 } else { backings.len() });
    let mut steps = Vec::new();
    for backing in backings {
        for task in tasks(sizes, scratch) {
            let backing = backing.clone();
            let name = format!("{EXPERIMENT} mounts on {}: {}", backing.name, task.name);
            steps.push(Step::new(name, task.weight, move |rows| {
                one_task(setup, &backing, &task, sizes.rounds, |place| volumes(&setup.program, place), rows)
            }));
        }
    }
    Ok(steps)
}

fn one_task(
    setup: &Setup,
    backing: &Backing,
    task: &Task<'_>,
    rounds: usize,
    list: impl Fn(&Scratch) -> Vec<(&'static str, Result<Volume>)>,
    rows: &mut Rows<'_>,
) -> Result<()> {
    let row = |operation: &str, measure: &str, scheme: &str| {
        Row::of(EXPERIMENT, &backing.name, [operation, measure, scheme, ENGINE])
    };
    let place = Scratch::within(&backing.folder, unmount_below)?;
    let short = require_disk(&backing.folder, task.disk).err().map(|short| Error::NotRun(short.to_string()));
    let why = match short.map_or_else(|| (task.prepare)(), Err) {
        Ok(()) => None,
        Err(error) => Some(error.of_device().ok_or(error)?),
    };
    let mut volumes = Vec::new();
    for (name, found) in list(&place) {
        let why = match (found, &why) {
            (Ok(volume), None) => {
                volumes.push(RefCell::new(volume));
                continue;
            }
            (Err(missing), _) => missing.to_string(),
            (Ok(_), Some(why)) => why.clone(),
        };
        rows.not_run(task.phases.iter().map(|phase| row(&phase.operation, TIME, name)), &why)?;
    }
    for volume in &volumes {
        volume.borrow_mut().mount()?;
        (task.fill)(&volume.borrow().at)?;
    }
    let contestant = |volume| at_work(task, volume, |operation| row(operation, TIME, volume.borrow().name));
    let all = in_turns(volumes.iter().map(contestant).collect(), 1, rounds)?;
    volumes.iter().try_for_each(|volume| volume.borrow_mut().unmount())?;
    write(setup, task, &all, row, rows)?;
    for volume in &volumes {
        let Volume { name, peak_kib: Some(peak), .. } = *volume.borrow() else { continue };
        let bar = setup.bar(format!("at most {} MiB", MOST_MEMORY >> 10), peak <= MOST_MEMORY);
        let bar = bar.filter(|_| name.starts_with("phalanx"));
        rows.write(Row { peak_kib: Some(peak), bar, ..row(task.name, MEMORY, name) })?;
    }
    Ok(())
}

/// A contestant that does all phases of a task on a volume.
fn at_work<'a>(task: &'a Task<'_>, volume: &'a RefCell<Volume>, row: impl Fn(&str) -> Row) -> Contestant<'a> {
    let row = |phase: &work::Phase<'_>| {
        let note = phase.note.map(String::from);
        Row { bytes: phase.bytes, items: phase.items, note, ..row(&phase.operation) }
    };
    Contestant::new(task.phases.iter().map(row).collect(), move |turn| {
        let mut volume = volume.borrow_mut();
        let mut times = Vec::new();
        for phase in &task.phases {
            if phase.is_fresh {
                volume.unmount()?;
                volume.mount()?;
            }
            // Pending writes of earlier work must not disturb this.
            volume.settle()?;
            times.push(Some((phase.run)(&volume.at, turn.is_first)?));
        }
        (task.clean)(&volume.at)?;
        Ok(times)
    })
}

/// Writes the times of each phase, compared with gocryptfs.
fn write(
    setup: &Setup,
    task: &Task<'_>,
    all: &[Vec<Row>],
    row: impl Fn(&str, &str, &str) -> Row,
    rows: &mut Rows<'_>,
) -> Result<()> {
    for (i, phase) in task.phases.iter().enumerate() {
        let of_phase = || all.iter().map(|rows| &rows[i]);
        rows.write_all(of_phase().cloned())?;
        let of = |name: &str| of_phase().find(|row| row.scheme == name).and_then(|row| row.median_s);
        let ways = [(BY_DEVICE, None), (BY_URING, None)];
        let asked = [(BINDFS, None), (SUITE_1, phase.asked[0]), (SUITE_5, phase.asked[1])];
        for (name, asked) in asked.into_iter().chain(ways) {
            let Some((ours, peer)) = of(name).zip(of(GOCRYPTFS)) else { continue };
            let bar = asked.and_then(|at_least| {
                setup.bar(format!("at least {at_least} times as fast as gocryptfs"), peer / ours >= at_least)
            });
            let row = row(&phase.operation, RATIO, name);
            rows.write(Row { speedup: Some(peer / ours), over: Some(GOCRYPTFS.into()), bar, ..row })?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests;
