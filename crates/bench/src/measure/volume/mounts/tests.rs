//! All tasks with small sizes, with a plain folder, with gocryptfs if it is installed, and with a stand-in for Phalanx.

use super::work::Sizes;
use super::*;
use crate::measure::machine;
use crate::measure::steps::run_steps;
use crate::names::mounts::PLAIN;
use crate::record::Record;
use crate::scripts::script;
use std::fs;
use std::path::{Path, PathBuf};

const TINY: Sizes =
    Sizes { sequential: 1 << 20, random: 256 << 10, small_files: 120, sources: 40, entries: 1100, rounds: 1 };

/// The tasks in a folder, with these contestants.
fn rows(
    out: &Path,
    is_wanted: impl Fn(&Task<'_>) -> bool,
    list: impl Fn(&Scratch) -> Vec<(&'static str, Result<Volume>)> + Copy,
) -> Vec<Row> {
    let setup = Setup::of_tests(out);
    let mut record = Record::open(&setup.out, setup.resume, machine::head(&setup, versions())).unwrap();
    let scratch = Scratch::new(out).unwrap();
    let (setup, backing) = (&setup, &Backing { name: "here".into(), folder: out.into() });
    let mut steps = Vec::new();
    for task in tasks(TINY, &scratch).into_iter().filter(is_wanted) {
        let step = move |rows: &mut Rows<'_>| one_task(setup, backing, &task, TINY.rounds, list, rows);
        steps.push(Step::new(steps.len().to_string(), 1, step));
    }
    run_steps(&mut record, steps, &()).unwrap();
    crate::record::read(out).unwrap().1
}

fn phases(out: &Path, is_wanted: impl Fn(&Task<'_>) -> bool) -> usize {
    let scratch = Scratch::new(out).unwrap();
    tasks(TINY, &scratch).iter().filter(|task| is_wanted(task)).map(|task| task.phases.len()).sum()
}

/// Asserts that this many phases were measured with this contestant, or that its program is missing.
fn assert_measured(rows: &[Row], name: &str, phases: usize) {
    let of: Vec<&Row> = rows.iter().filter(|row| row.scheme == name && row.measure == TIME).collect();
    assert_eq!(of.len(), phases, "{name}");
    for row in of {
        let why = row.note.as_deref().and_then(|note| note.strip_prefix("not run: "));
        match why {
            Some(why) => {
                assert!(["no fio", "no tar", "no git", "no npm"].contains(&why), "{row:?}");
                skip(why);
            }
            None => assert!(row.median_s.is_some_and(|seconds| seconds > 0.0), "{row:?}"),
        }
    }
}

/// Prints what is missing, or fails if PHALANX_REQUIRE names it. The name gocryptfs includes FUSE.
fn skip(why: &str) {
    println!("skipped: {why}");
    let name = why.strip_prefix("no ").filter(|name| !name.starts_with("FUSE")).unwrap_or("gocryptfs");
    let required = std::env::var("PHALANX_REQUIRE").unwrap_or_default();
    assert!(!required.split(',').any(|r| r == name), "PHALANX_REQUIRE names {name}: {why}");
}

#[test]
fn a_plain_folder_does_all_the_work() {
    let out = tempfile::tempdir().unwrap();
    let phases = phases(out.path(), |_| true);
    let rows = rows(
        out.path(),
        |_| true,
        |place| {
            let missing = Err(Error::NotRun("no gocryptfs".into()));
            vec![(PLAIN, Volume::plain(place)), (GOCRYPTFS, missing)]
        },
    );
    assert_measured(&rows, PLAIN, phases);
    let missing = rows.iter().filter(|row| row.scheme == GOCRYPTFS);
    assert!(missing.clone().count() == phases);
    assert!(missing.clone().all(|row| row.note.as_deref() == Some("not run: no gocryptfs") && row.median_s.is_none()));
}

/// A stand-in with Phalanx's commands, which runs gocryptfs.
const STAND_IN: &str = r#"#!/bin/sh
set -e
case "$1 $2" in
  "init --help") echo "--key-file --cipher aes-256-turbo"; exit;;
  "mount --help") echo "--fuse"; exit;;
esac
command=$1 folder=$2; shift 2
case $command in
  init) exec gocryptfs -q -init -scryptn 10 -extpass "echo stand-in" "$folder";;
  mount) exec gocryptfs -q -extpass "echo stand-in" "$folder" "$1";;
  *) exit 2;;
esac
"#;

#[test]
fn mounted_volumes_do_all_the_work_and_are_compared() {
    if let Some(why) = mounted::missing().or_else(|| {
        let is_there = find("gocryptfs").is_some();
        (!is_there).then(|| "no gocryptfs".into())
    }) {
        return skip(&why);
    }
    // bindfs is optional, as in every run.
    let with_bindfs = find("bindfs").is_some();
    if !with_bindfs {
        skip("no bindfs");
    }
    let out = tempfile::tempdir().unwrap();
    let phalanx = script(out.path().join("phalanx"), STAND_IN);
    // fio takes half a second to start.
    let few = |task: &Task<'_>| task.name != "random";
    let phases = phases(out.path(), few);
    let rows = rows(out.path(), few, |place| volumes(&phalanx, place));
    for name in [PLAIN, GOCRYPTFS, SUITE_1, SUITE_5, BY_DEVICE] {
        assert_measured(&rows, name, phases);
    }
    let ceilings = rows.iter().filter(|row| row.scheme == BINDFS && row.measure == RATIO && row.speedup.is_some());
    if with_bindfs {
        assert_measured(&rows, BINDFS, phases);
        assert!(ceilings.count() > 0);
    } else {
        let missing = rows.iter().filter(|row| row.scheme == BINDFS);
        assert!(missing.clone().count() == phases && ceilings.count() == 0);
        assert!(missing.clone().all(|row| row.note.as_deref() == Some("not run: no bindfs")));
    }
    let measured = rows.iter().filter(|row| row.scheme == SUITE_1 && row.measure == TIME && row.median_s.is_some());
    let ratios: Vec<&Row> = rows.iter().filter(|row| row.measure == RATIO && row.scheme == SUITE_1).collect();
    assert_eq!(ratios.len(), measured.count());
    let with_bars = ratios.iter().filter(|row| row.bar.as_ref().is_some_and(|bar| bar.reached.is_none()));
    // All except the synced write have one.
    assert_eq!(with_bars.count(), ratios.len() - 1);
    let memory = rows.iter().filter(|row| row.measure == MEMORY && row.scheme == SUITE_5);
    assert!(memory.clone().count() > 0 && memory.clone().all(|row| row.peak_kib.is_some_and(|kib| kib > 1000)));
    let mut left: Vec<_> = fs::read_dir(out.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    left.sort();
    assert_eq!(left, ["phalanx", "rows.csv", "rows.jsonl"]);
    let mounts = fs::read_to_string("/proc/self/mounts").unwrap();
    assert!(!mounts.contains(&out.path().display().to_string()), "{mounts}");
}

#[test]
fn folders_are_found_or_named() {
    let out = tempfile::tempdir().unwrap();
    let find = |named: &[PathBuf]| backings(named, out.path());
    let found = find(&[]).unwrap();
    assert!(!found.is_empty());
    let named = find(&[out.path().into(), out.path().into()]).unwrap();
    assert!(named[1].name == format!("{} 2", named[0].name));
    assert!(find(&[out.path().join("missing")]).is_err());
}
