//! Mounted volumes beside gocryptfs, on the same backing folders in the same run. Each round lets every contestant do the
//! work once, in another order; the first round is not counted, and checks what comes back.
//!
//! Nothing here knows more of a program than its commands. The backing folder itself is a contestant too, and bindfs, which
//! passes everything on: they show what the work costs without encryption, and what FUSE costs.

mod contestant;
mod fio;
mod sources;
mod work;

use crate::error::Result;
use crate::measure::mounted;
use crate::measure::mounted::unmount_below;
use crate::measure::programs::{find, versions_of};
use crate::measure::scratch::{Backing, Scratch, backings, require_disk};
use crate::measure::setup::Setup;
use crate::measure::steps::{Rows, Step};
use crate::measure::volume::mounts::contestant::Contestants;
use crate::measure::volume::mounts::work::{FULL, QUICK};
use crate::names::mounts::{BINDFS, ENGINE, GOCRYPTFS, MEMORY, RATIO, SUITE_1, SUITE_5, TIME};
use crate::names::volume::EXPERIMENT;
use crate::row::{Bar, Row, median};
use contestant::{Contestant, contestants};
use std::path::Path;
use work::{Task, tasks};

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
    ])
}

/// What these measurements need that is not here.
pub fn missing(setup: &Setup) -> Vec<String> {
    let programs = ["gocryptfs", "bindfs", "fio", "tar", "git"];
    let missing = programs.into_iter().filter(|name| find(name).is_none()).map(String::from);
    let phalanx = (!setup.program.is_file()).then(|| "phalanx".to_owned());
    let fuse = mounted::missing().map(|why| why.trim_start_matches("no ").to_owned());
    missing.chain(phalanx).chain(fuse).collect()
}

/// The steps: one for each backing folder and task.
pub fn steps<'a>(setup: &'a Setup, scratch: &'a Scratch) -> Result<Vec<Step<'a>>> {
    let sizes = if setup.quick { QUICK } else { FULL };
    let mut steps = Vec::new();
    let mut backings = backings(&setup.volume.backing, &setup.out)?;
    if setup.quick {
        backings.truncate(1);
    }
    for Backing { name, folder } in backings {
        for task in tasks(sizes) {
            let (name, folder) = (name.clone(), folder.clone());
            let step = format!("{EXPERIMENT} mounts on {name}: {}", task.name);
            steps.push(Step::new(step, task.weight, move |rows| {
                let list = |place: &Scratch| contestants(&setup.program, place);
                one_task(setup, scratch, &name, &folder, &task, sizes.rounds, list, rows)
            }));
        }
    }
    Ok(steps)
}

#[allow(clippy::too_many_arguments, reason = "a step's whole context")]
fn one_task(
    setup: &Setup,
    scratch: &Scratch,
    backing: &str,
    folder: &Path,
    task: &Task,
    rounds: usize,
    list: impl Fn(&Scratch) -> Contestants,
    rows: &mut Rows<'_>,
) -> Result<()> {
    let row = |operation: &str, measure: &str, scheme: &str| {
        Row::of(EXPERIMENT, backing, [operation, measure, scheme, ENGINE])
    };
    let place = Scratch::within(folder, unmount_below)?;
    let why = match require_disk(folder, task.disk) {
        Err(short) => Some(short.to_string()),
        Ok(()) => (task.prepare)(scratch)?,
    };
    let mut contestants = Vec::new();
    for found in list(&place) {
        match (found, &why) {
            (Ok(contestant), None) => contestants.push((contestant, vec![Vec::new(); task.phases.len()])),
            (found, why) => {
                let (name, missing) = match found {
                    Ok(contestant) => (contestant.name, None),
                    Err((name, missing)) => (name, Some(missing)),
                };
                let why = missing.as_ref().or(why.as_ref()).map_or("", String::as_str);
                for phase in &task.phases {
                    rows.write(row(&phase.operation, TIME, name).not_run(why))?;
                }
            }
        }
    }
    for (contestant, _) in &mut contestants {
        contestant.mount()?;
        (task.fill)(contestant.folder())?;
    }
    for round in 0..=rounds {
        for turn in 0..contestants.len() {
            // Each round begins with another one, because it matters who was at work before.
            let next = (round + turn) % contestants.len();
            let (contestant, seconds) = &mut contestants[next];
            for (phase, seconds) in task.phases.iter().zip(seconds.iter_mut()) {
                if phase.is_fresh {
                    contestant.mount_again()?;
                }
                // What is still to be written of the work before must not disturb this.
                contestant.settle()?;
                let taken = (phase.run)(scratch, contestant.folder(), round == 0)?;
                if round > 0 {
                    seconds.push(taken);
                }
            }
            (task.clean)(contestant.folder())?;
        }
    }
    for (contestant, _) in &mut contestants {
        contestant.unmount()?;
    }
    write(setup, task, &contestants, row, rows)
}

/// The times of a contestant, for each phase.
type Times = Vec<Vec<f64>>;

fn write(
    setup: &Setup,
    task: &Task,
    contestants: &[(Contestant, Times)],
    row: impl Fn(&str, &str, &str) -> Row,
    rows: &mut Rows<'_>,
) -> Result<()> {
    for (i, phase) in task.phases.iter().enumerate() {
        let note = phase.note.map(String::from);
        for (contestant, seconds) in contestants {
            let row = row(&phase.operation, TIME, contestant.name);
            let row = Row { bytes: phase.bytes, items: phase.items, note: note.clone(), ..row };
            rows.write(row.timed(seconds[i].clone()))?;
        }
        let of = |name: &str| {
            let found = contestants.iter().find(|(contestant, _)| contestant.name == name);
            found.and_then(|(_, seconds)| median(&seconds[i]))
        };
        for (name, asked) in [(BINDFS, None), (SUITE_1, phase.asked[0]), (SUITE_5, phase.asked[1])] {
            let Some((ours, peer)) = of(name).zip(of(GOCRYPTFS)) else { continue };
            let bar = asked.map(|at_least| Bar {
                asked: format!("at least {at_least} times as fast as gocryptfs"),
                reached: (!setup.quick).then_some(peer / ours >= at_least),
            });
            let row = row(&phase.operation, RATIO, name);
            rows.write(Row { speedup: Some(peer / ours), over: Some(GOCRYPTFS.into()), bar, ..row })?;
        }
    }
    for (contestant, _) in contestants {
        let Some(peak) = contestant.peak_kib() else { continue };
        let asked = format!("at most {} MiB", MOST_MEMORY >> 10);
        let bar = Bar { asked, reached: (!setup.quick).then_some(peak <= MOST_MEMORY) };
        let bar = contestant.name.starts_with("phalanx").then_some(bar);
        rows.write(Row { peak_kib: Some(peak), bar, ..row(task.name, MEMORY, contestant.name) })?;
    }
    Ok(())
}

#[cfg(test)]
mod tests;
