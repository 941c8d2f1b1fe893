//! The cluster's experiments with stand-ins for `mpirun` and `phalanx-mpi`.

use crate::error::Result;
use crate::measure::hpc::cluster::cell::Cell;
use crate::measure::hpc::cluster::job::Programs;
use crate::measure::hpc::cluster::{compared, interrupted, printed, ranks, slowed};
use crate::measure::setup::{HpcOptions, Setup};
use crate::measure::steps::{Rows, Step};
use crate::names::cluster::{
    AT_WORK, COPY, DYNAMIC, FULL_SPEED, LESS_START, MEMORY, MESSAGES, OWN, PART, SLOWED, STATIC, SUITE_1, SUITE_5,
    WHOLE,
};
use crate::row::Row;
use crate::scripts::script;
use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

/// A stand-in for `mpirun`, which starts the processes.
const MPIRUN: &str = r#"#!/bin/sh
n=$2; shift 2
trap 'kill $all 2>/dev/null' TERM
rank=0 all=
while [ $rank -lt $n ]; do
  OMPI_COMM_WORLD_RANK=$rank "$@" & all="$all $!"; rank=$((rank + 1))
done
status=0
for one in $all; do wait $one || status=1; done
exit $status
"#;

/// A stand-in for `phalanx-mpi`, which copies in ten pieces. With `--resume`, every second run waits before the last
/// piece, so that it can be killed.
const PHALANX_MPI: &str = r#"#!/bin/sh
set -e
rank=$OMPI_COMM_WORLD_RANK
what=$1 resume= out= in= division=
while [ $# -gt 0 ]; do
  case $1 in
    --dry-run) exit;;
    --resume) resume=yes;;
    --division) division=$2; shift;;
    --output) out=$2; shift;;
  esac
  in=$1; shift
done
[ $rank != 0 ] || {
  len=$(wc -c < "$in")
  if [ $what = protect ] && [ "$resume" ] && [ -e "$out.part" ]; then
    echo "phalanx-mpi: going on: 900 kB of 1.0 MB were done" >&2
    rm "$out.part"
    cp "$in" "$out"
  else
    i=0 waits=
    while [ $i -lt 10 ]; do
      # Every second run of these is to be killed. Which one it is, is settled before it has written enough for that.
      if [ "$resume" ] && [ $i = 8 ]; then
        if [ -e "$out.next" ]; then rm "$out.next"; waits=yes; else : > "$out.next"; fi
      fi
      [ $i != 9 ] || [ ! "$waits" ] || exec sleep 300
      dd bs=$((len / 10)) count=1 skip=$i seek=$i conv=notrunc if="$in" of="$out.part" 2>/dev/null
      i=$((i + 1))
    done
    cat "$in" > "$out"; rm "$out.part"; sleep 0.1
  fi
}
[ $what != protect ] || {
  echo "phalanx-mpi: here (rank $rank): 0.0${rank}5 s at work, 0.00$rank s for messages, 16 MiB of memory" >&2
  [ $rank != 0 ] || echo "phalanx-mpi: protected 1 file, 1.0 MB in 10 ms, 100 MB/s, 2 processes on 1 machine" >&2
}
"#;

const PARALLEL_COPY: &str = r#"#!/bin/sh
[ $# = 2 ] || shift
[ $OMPI_COMM_WORLD_RANK != 0 ] || { cp "$1" "$2"; [ ! -s "$1" ] || sleep 0.1; echo "parallel-copy: copied $(wc -c < "$1") bytes in 0.020000 s" >&2; }
"#;

/// A setup with the stand-ins, in a folder.
fn setup(out: &Path) -> Setup {
    let programs = out.join("programs");
    fs::create_dir_all(programs.join("examples")).unwrap();
    script(programs.join("examples/parallel-copy"), PARALLEL_COPY);
    let program = Some(script(programs.join("phalanx-mpi"), PHALANX_MPI));
    let mpirun = Some(script(programs.join("mpirun"), MPIRUN));
    Setup { hpc: HpcOptions { program, mpirun, ..HpcOptions::default() }, ..Setup::of_tests(out) }
}

fn cell<'a>(setup: &'a Setup, bytes: u64) -> Cell<'a> {
    Cell { setup, backing: "here".into(), folder: setup.out.clone(), bytes }
}

/// The rows of one step, and the report of them.
fn measured<'a>(setup: &'a Setup, run: impl FnOnce(&mut Rows<'_>) -> Result<()> + 'a) -> (Vec<Row>, String) {
    super::measured(setup, Vec::new(), vec![Step::new("it".into(), 1, run)])
}

const BYTES: u64 = 1_000_000;

#[test]
fn the_printed_numbers_of_processes_are_measured_as_far_as_possible() {
    let out = tempfile::tempdir().unwrap();
    let setup = setup(out.path());
    let bytes = printed::sizes(true)[0].1;
    let cell = Cell { bytes, ..cell(&setup, BYTES) };
    let (rows, report) = measured(&setup, |rows| printed::measure(&cell, "107MBs", 1, rows));
    let of = |measure: &str, processes: usize| {
        rows.iter().filter(move |row| row.measure == measure && row.processes == processes).collect::<Vec<_>>()
    };
    for processes in [1, 4] {
        for measure in [WHOLE, OWN, AT_WORK] {
            let all = of(measure, processes);
            assert_eq!(all.len(), 2 * 2, "{measure}, {processes}");
            assert!(all.iter().all(|row| row.median_s.is_some_and(|s| s > 0.0)), "{all:?}");
            let crowded = |row: &&&Row| row.note.as_ref().is_some_and(|note| note.starts_with("oversubscribed"));
            assert_eq!(all.iter().filter(crowded).count(), if processes == 1 { 0 } else { 4 });
        }
    }
    assert_eq!(of(OWN, 4)[0].median_s, Some(1.07));
    assert_eq!(of(AT_WORK, 4)[0].median_s, Some(0.035));
    assert!(of(OWN, 4)[0].speedup.is_some() && of(OWN, 1)[0].speedup.is_none());
    let missing = of(AT_WORK, 31);
    assert!(missing.len() == 1 && missing[0].note.as_deref() == Some("not run: 31 processes on 2 cores"));
    assert_eq!(missing[0].printed.len(), 2);
    assert!(
        report.contains(r#"<td class="paper">16.65 ms</td>"#) && report.contains("31 processes on 2 cores"),
        "{report}"
    );
}

#[test]
fn copies_are_compared_without_their_start() {
    let out = tempfile::tempdir().unwrap();
    let setup = setup(out.path());
    // There is a ratio only if the work took longer than a start, and a pause of the machine can hide that it does.
    let is_ratio = |row: &&Row| row.speedup.is_some() && row.bar.is_some();
    let all = (0..5).map(|_| measured(&setup, |rows| compared::measure(&cell(&setup, BYTES), 2, rows)));
    let (rows, report) = all
        .inspect(|(rows, _)| println!("{} ratios", rows.iter().filter(is_ratio).count()))
        .find(|(rows, _)| rows.iter().filter(is_ratio).count() == 4)
        .expect("a ratio is missing");
    let ratios: Vec<&Row> = rows.iter().filter(is_ratio).collect();
    assert!(ratios.iter().all(|row| row.speedup.is_some_and(|ratio| ratio > 0.0)), "{ratios:?}");
    for scheme in [SUITE_1, SUITE_5, COPY] {
        let of = |row: &&Row| row.scheme == scheme && row.measure == LESS_START;
        let cases: Vec<&str> = rows.iter().filter(of).map(|row| row.case.as_str()).collect();
        assert_eq!(cases, ["1 MB on here", "1 MB on here, synced"]);
    }
    let synced = rows.iter().filter(|row| row.case.ends_with(", synced") && row.measure == OWN);
    assert!(synced.clone().count() == 3 && synced.clone().all(|row| row.median_s.is_some()));
    assert!(report.contains("protecting beside a plain copy"), "{report}");
}

#[test]
fn one_process_is_slowed_and_each_process_is_watched() {
    let out = tempfile::tempdir().unwrap();
    let setup = setup(out.path());
    let (rows, report) = measured(&setup, |rows| {
        slowed::measure(&cell(&setup, BYTES), 1, rows)?;
        ranks::measure(&cell(&setup, BYTES), rows)
    });
    for scheme in [STATIC, DYNAMIC] {
        for operation in [FULL_SPEED, SLOWED] {
            let of = |row: &&Row| row.scheme == scheme && row.operation == operation && row.measure == OWN;
            assert_eq!(rows.iter().filter(of).filter(|row| row.median_s.is_some()).count(), 2);
        }
    }
    assert!(report.contains("dynamic 1.00 times as fast as static"), "{report}");
    let messages: Vec<&Row> = rows.iter().filter(|row| row.measure == MESSAGES).collect();
    assert_eq!(messages.len(), 2 * 2 * 2);
    // 0.001 s of 0.016 s.
    assert!(
        messages.iter().any(|row| row.processes == 2 && row.value.is_some_and(|part| (part - 1.0 / 16.0).abs() < 1e-9))
    );
    let eight = messages.iter().filter(|row| row.processes == 8);
    assert!(eight.clone().count() == 4 && eight.clone().all(|row| row.bar.is_some()));
    let memory = rows.iter().filter(|row| row.measure == MEMORY);
    assert!(memory.clone().count() == 8 && memory.clone().all(|row| row.peak_kib.is_some() || row.note.is_some()));
}

#[test]
fn an_interrupted_run_is_killed_and_goes_on() {
    let out = tempfile::tempdir().unwrap();
    let setup = setup(out.path());
    let started = Instant::now();
    let (rows, report) = measured(&setup, |rows| interrupted::measure(&cell(&setup, BYTES), 2, rows));
    assert!(started.elapsed() < Duration::from_secs(250), "nothing was killed");
    let parts: Vec<&Row> = rows.iter().filter(|row| row.measure == PART).collect();
    if parts.is_empty() {
        // Some systems do not show what a process writes.
        let why = rows.iter().find_map(|row| row.note.as_deref()).unwrap();
        assert!(why.contains("could not be interrupted"), "{why}");
        return skip("proc-io");
    }
    assert_eq!(parts.len(), 2);
    assert!(parts.iter().all(|row| row.value.is_some() && row.bar.is_some()), "{parts:?}");
    assert!(parts[0].note.as_deref().is_some_and(|note| note.ends_with(": 90 %, 90 %")), "{parts:?}");
    assert!(report.contains("at most 25 % of a whole run"), "{report}");
    assert!(!out.path().join("phalanx-bench-volume").exists());
}

#[test]
fn missing_programs_are_named_in_rows() {
    let out = tempfile::tempdir().unwrap();
    let mut setup = setup(out.path());
    setup.hpc.program = None;
    let (rows, report) = measured(&setup, |rows| {
        let cell = cell(&setup, BYTES);
        printed::measure(&cell, "107MBs", 1, rows)?;
        compared::measure(&cell, 1, rows)?;
        slowed::measure(&cell, 1, rows)?;
        ranks::measure(&cell, rows)?;
        interrupted::measure(&cell, 1, rows)
    });
    assert!(rows.len() > 30 && rows.iter().all(|row| row.median_s.is_none()));
    let why = |row: &&Row| row.note.as_deref() == Some("not run: no phalanx-mpi");
    assert!(rows.iter().filter(why).count() > 30);
    assert!(report.contains("no phalanx-mpi"), "{report}");
}

#[test]
fn a_failed_job_reports_why_and_a_dropped_job_ends() {
    let out = tempfile::tempdir().unwrap();
    let setup = setup(out.path());
    let programs = Programs::find(&setup.hpc).unwrap();
    let failing = script(out.path().join("failing"), "#!/bin/sh\necho it broke >&2; exit 3\n");
    let error = programs.job(2, &failing, []).run().err().unwrap().to_string();
    assert!(error.starts_with("failing with 2 processes: ") && error.contains("it broke"), "{error}");
    let lasting = script(out.path().join("lasting"), "#!/bin/sh\nexec sleep 600\n");
    let id_files = out.path().join("process");
    let started = Instant::now();
    let mut job = programs.job(2, &lasting, []).start(Some(&id_files)).unwrap();
    job.see_all(&id_files).unwrap();
    drop(job);
    assert!(started.elapsed() < Duration::from_secs(300));
    for rank in 0..2 {
        let id = fs::read_to_string(out.path().join(format!("process.{rank}"))).unwrap();
        let status = fs::read_to_string(format!("/proc/{}/status", id.trim())).unwrap_or_default();
        assert!(!status.contains("sleeping"), "{status}");
    }
}

/// Prints what is missing, or fails if PHALANX_REQUIRE names it.
fn skip(what: &str) {
    println!("skipped: no {what}");
    let required = std::env::var("PHALANX_REQUIRE").unwrap_or_default();
    assert!(!required.split(',').any(|r| r == what), "PHALANX_REQUIRE names {what}");
}
