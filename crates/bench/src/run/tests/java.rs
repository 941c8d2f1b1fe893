//! The experiments in Java with a stand-in for `java`.

use crate::error::Result;
use crate::measure::hpc::cluster::cell::secret;
use crate::measure::hpc::java::cell::{Cell, Counts};
use crate::measure::hpc::java::programs::versions;
use crate::measure::hpc::java::{processes, threads};
use crate::measure::scratch::Scratch;
use crate::measure::setup::{HpcOptions, Setup};
use crate::measure::steps::{Rows, Step};
use crate::names::cluster;
use crate::names::java::{
    CLUSTER_JAR, COMMAND, CTR, ENCRYPTION_COLD, ENCRYPTION_WARM, FILES_WARM, FORMAT, PAPERS, PHALANX, PHALANX_MPI,
};
use crate::row::Row;
use crate::scripts::script;
use phalanx_core::{NewFile, Recipient, Roster, SecretKey, Sink, Suite};
use phalanx_host::file;
use std::fs::{self, File};
use std::path::Path;

/// A stand-in for `java`, which prints times, and copies the file to protect.
const JAVA: &str = r#"#!/bin/sh
set -e
case "$*" in
  --version) echo "openjdk 17.0.0"; exit;;
  *phalanx.papers.*Divided*|*phalanx.papers.Format*)
    while [ $# -gt 3 ]; do
      case $1 in
        *Divided|*DividedRank) shift; [ "$1" != -cp ] || shift 2; shift; break;;
        *Format) shift; break;;
      esac
      shift
    done
    round=0
    while [ $round -lt $2 ]; do
      for n in $(echo "$1" | tr , ' '); do
        if [ $round = 0 ]; then s=0.5; else s=0.$((4 / n))$round; fi
        echo "time $n $round $s" >&2
      done
      round=$((round + 1))
    done;;
  *" protect "*)
    while [ $# -gt 0 ]; do
      case $1 in
        --key-file) key=$2;;
        --output) out=$2;;
        -np) np=$2;;
      esac
      in=$1; shift
    done
    [ "$(wc -c < "$key")" = 32 ] && [ -f "$in" ] && cp "$(dirname "$0")/sealed" "$out"
    [ -z "$np" ] || {
      echo "phalanx-cluster: vm (rank 0): 0.250 s at work, 0.001 s for messages, 90 MiB of memory" >&2
      echo "phalanx-cluster: protected 1 file, 1.0 MB in 0.300 s, 3 MB/s, $np ranks" >&2
    };;
  *) echo "unexpected: $*" >&2; exit 1;;
esac
"#;

const BYTES: u64 = 100_000;

/// A setup with the stand-ins, in a folder.
fn setup(out: &Path) -> Setup {
    let programs = out.join("programs");
    for (module, jar) in
        [("phalanx", "phalanx.jar"), ("cluster", "phalanx-cluster.jar"), ("papers", "phalanx-papers.jar")]
    {
        fs::create_dir_all(programs.join(module).join("target")).unwrap();
        fs::write(programs.join(module).join("target").join(jar), "").unwrap();
    }
    let mpj_home = programs.join("mpj");
    fs::create_dir_all(mpj_home.join("lib")).unwrap();
    fs::write(mpj_home.join("lib/mpj.jar"), "").unwrap();
    script(programs.join("java"), JAVA);
    let hpc = HpcOptions {
        java: Some(programs.join("java")),
        jars: Some(programs),
        mpj_home: Some(mpj_home),
        ..HpcOptions::default()
    };
    Setup { hpc, ..Setup::of_tests(out) }
}

/// Makes the file that the stand-in returns as a protected one.
fn seal(setup: &Setup, scratch: &Scratch) {
    let plain = scratch.file("plain", BYTES, BYTES).unwrap();
    let key = SecretKey::from_slice(&secret()).unwrap();
    let new = NewFile::new(Suite::default(), &[Recipient::key(&key)]).unwrap();
    let output = File::create(setup.out.join("programs/sealed")).unwrap();
    let source = File::open(plain).unwrap();
    new.protect(&Roster::cpu(), file::source(&source).unwrap(), Sink::ranged(file::Disk::new(&output)), &()).unwrap();
}

/// The rows of both steps of a size, and the report of them.
fn measured(setup: &Setup, scratch: &Scratch, bytes: u64) -> (Vec<Row>, String) {
    let cell = || Cell {
        setup,
        scratch,
        size: "107MBs",
        bytes,
        counts: Counts { warm: 2, cold: 2, threads: vec![1, 2, 4], processes: vec![1, 4] },
    };
    type Measure = fn(&Cell<'_>, &mut Rows<'_>) -> Result<()>;
    let all: [Measure; 5] =
        [threads::papers, threads::format, threads::commands, processes::papers, processes::commands];
    let step = |(i, measure): (usize, Measure)| {
        let cell = cell();
        Step::new(i.to_string(), 1, move |rows| measure(&cell, rows))
    };
    super::measured(setup, versions(&setup.hpc), all.into_iter().enumerate().map(step).collect())
}

#[test]
fn threads_and_processes_are_measured_cold_and_warm() {
    let out = tempfile::tempdir().unwrap();
    let setup = setup(out.path());
    let scratch = Scratch::new(out.path()).unwrap();
    seal(&setup, &scratch);
    let (rows, report) = measured(&setup, &scratch, BYTES);
    let of = |measure: &str, scheme: &str, processes: usize, threads: usize| {
        let is_it = |row: &&Row| {
            (row.measure.as_str(), row.scheme.as_str(), row.processes, row.threads)
                == (measure, scheme, processes, threads)
        };
        rows.iter().find(is_it).unwrap_or_else(|| panic!("no {measure}, {scheme}, {processes}, {threads}"))
    };
    assert_eq!(of(ENCRYPTION_COLD, PAPERS, 0, 2).seconds, [0.5, 0.5]);
    for scheme in [PAPERS, CTR] {
        // Rounds 1 and 2 of one JVM.
        assert_eq!(of(ENCRYPTION_WARM, scheme, 0, 1).seconds, [0.41, 0.42]);
        let two = of(ENCRYPTION_WARM, scheme, 0, 2);
        assert!((two.speedup.unwrap() - 0.415 / 0.215).abs() < 1e-9, "{two:?}");
    }
    assert!(of(FILES_WARM, FORMAT, 0, 4).note.as_ref().unwrap().starts_with("oversubscribed: 4 threads on 2"));
    assert_eq!(of(cluster::WHOLE, COMMAND, 0, 1).seconds.len(), 2);
    assert_eq!(of(cluster::WHOLE, PHALANX, 0, 1).note.as_deref(), Some("not run: no phalanx beside this program"));
    assert_eq!(of(ENCRYPTION_COLD, PAPERS, 4, 1).seconds, [0.5]);
    assert_eq!(of(FILES_WARM, CTR, 4, 1).seconds, [0.41, 0.42]);
    assert_eq!(of(cluster::OWN, CLUSTER_JAR, 4, 1).median_s, Some(0.3));
    assert_eq!(of(cluster::AT_WORK, CLUSTER_JAR, 4, 1).median_s, Some(0.25));
    assert_eq!(of(cluster::OWN, PHALANX_MPI, 4, 1).note.as_deref(), Some("not run: no phalanx-mpi"));
    assert!(
        report.contains("107MBs in Java: ms by threads") && report.contains("processes of MPJ Express"),
        "{report}"
    );
    assert!(report.contains("openjdk 17.0.0") && report.contains("Oversubscribed: 4 threads on 2 cores"), "{report}");
    // The output was removed.
    assert!(!scratch.path("sealed").exists());
}

#[test]
fn only_the_papers_program_has_printed_times() {
    let out = tempfile::tempdir().unwrap();
    let setup = Setup::of_tests(out.path());
    let scratch = Scratch::new(out.path()).unwrap();
    let counts = Counts { warm: 1, cold: 1, threads: vec![1], processes: vec![1] };
    let cell = Cell { setup: &setup, scratch: &scratch, size: "107MBs", bytes: 107_000_000, counts };
    let value = |row: Row| row.printed.iter().map(|p| p.value).collect::<Vec<_>>();
    assert_eq!(value(cell.row(ENCRYPTION_WARM, PAPERS, 0, 16)), [136.0]);
    assert_eq!(value(cell.row(ENCRYPTION_COLD, PAPERS, 31, 1)), [15.0]);
    assert!(value(cell.row(ENCRYPTION_WARM, CTR, 0, 16)).is_empty());
    assert!(value(cell.row(FILES_WARM, PAPERS, 0, 16)).is_empty());
}

#[test]
fn missing_programs_are_named_in_rows() {
    let missing = |why: &str, change: fn(&mut HpcOptions), some: fn(&&Row) -> bool| {
        let out = tempfile::tempdir().unwrap();
        let mut setup = setup(out.path());
        change(&mut setup.hpc);
        let scratch = Scratch::new(out.path()).unwrap();
        seal(&setup, &scratch);
        let (rows, report) = measured(&setup, &scratch, BYTES);
        let wanted = format!("not run: {why}");
        let found: Vec<&Row> = rows.iter().filter(some).collect();
        assert!(found.len() >= 10 && found.iter().all(|row| row.note.as_deref() == Some(wanted.as_str())), "{found:?}");
        assert!(report.contains(why), "{report}");
    };
    missing("no jars: run mvn -q package in java/", |hpc| hpc.jars = Some("/nowhere".into()), |_| true);
    missing("no mpj", |hpc| hpc.mpj_home = Some("/nowhere".into()), |row| row.processes > 0);
}
