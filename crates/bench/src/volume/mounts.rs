//! Mounted volumes beside gocryptfs, on the same backing folders in the same run. Each round lets every contestant do the
//! work once, in another order; the first round is not counted, and checks what comes back.
//!
//! Nothing here knows more of a program than its commands. The backing folder itself is a contestant too, and bindfs, which
//! passes everything on: they show what the work costs without encryption, and what FUSE costs.

mod contestant;
mod fio;
mod mounted;
mod sources;
mod work;

pub use mounted::unmount_all;
pub(crate) use mounted::{Mounted, unmount_below};

use super::EXPERIMENT;
use crate::head::file_system;
use crate::peers::programs::{find, versions_of};
use crate::record::{Rows, Step};
use crate::row::{Bar, Row, median};
use crate::scratch::{Scratch, require_disk};
use crate::setup::Setup;
use crate::{Error, Result};
use contestant::{BINDFS, Contestant, GOCRYPTFS, PLAIN, SUITE_1, SUITE_5, contestants};
use std::path::{Path, PathBuf};
use work::{Task, tasks};

/// All contestants, in the order of tables.
pub const CONTESTANTS: [&str; 5] = [PLAIN, BINDFS, GOCRYPTFS, SUITE_1, SUITE_5];
/// The contestant that shows what is possible without encryption.
pub const CEILING: &str = BINDFS;
/// The engine of these rows: whole commands, or work through a mount.
pub const ENGINE: &str = "mount";
/// The measure of the times.
pub const TIME: &str = "time";
/// The measure of the ratios.
pub const RATIO: &str = "times as fast as gocryptfs";
/// The measure of the memory.
pub const MEMORY: &str = "peak memory of the mount";
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

/// The sizes and counts of a run.
#[derive(Clone, Copy)]
struct Sizes {
    /// The bytes that are written and read in order.
    sequential: u64,
    /// The bytes that are read and written at random.
    random: u64,
    /// The small files that are made, read and deleted.
    small_files: u64,
    /// The files of the source tree.
    sources: u64,
    /// The entries that are listed.
    entries: u64,
    /// The rounds that count.
    rounds: usize,
}

/// One round, because a round on a disk takes minutes: so all experiments together took 51 minutes on two cores.
const FULL: Sizes =
    Sizes { sequential: 1 << 30, random: 256 << 20, small_files: 10_000, sources: 3_000, entries: 20_000, rounds: 1 };
const QUICK: Sizes =
    Sizes { sequential: 32 << 20, random: 8 << 20, small_files: 300, sources: 200, entries: 10_000, rounds: 1 };

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

/// A folder that is measured in.
pub(crate) struct Backing {
    /// The kind of its file system, and more if there are several of it.
    pub name: String,
    /// Its path.
    pub folder: PathBuf,
}

/// The folders that were named, or else one in memory and the run's own, on a disk.
pub(crate) fn backings(folders: &[PathBuf], out: &Path) -> Result<Vec<Backing>> {
    let mut all: Vec<Backing> = Vec::new();
    let named = !folders.is_empty();
    let folders = if named { folders.to_vec() } else { vec!["/dev/shm".into(), out.to_owned()] };
    for folder in folders {
        let kind = file_system(&folder);
        let same = all.iter().filter(|backing| backing.name.split(' ').next() == Some(kind.as_str())).count();
        if !named && (same > 0 || !folder.is_dir()) {
            continue;
        }
        let folder = std::path::absolute(&folder).and_then(|path| path.canonicalize()).map_err(Error::at(&folder))?;
        let name = if same == 0 { kind } else { format!("{kind} {}", same + 1) };
        all.push(Backing { name, folder });
    }
    Ok(all)
}

/// Who takes part, or why not.
type Contestants = Vec<std::result::Result<Contestant, (&'static str, String)>>;

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
    let row = |operation: &str, measure: &str, scheme: &str| Row {
        experiment: EXPERIMENT.into(),
        case: backing.into(),
        operation: operation.into(),
        measure: measure.into(),
        scheme: scheme.into(),
        engine: ENGINE.into(),
        ..Row::default()
    };
    let place = Scratch::within(folder, mounted::unmount_below)?;
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
