//! `phalanx-bench` on the command line: short runs of all experiments, and one that is killed and resumed.

use crate::common::{Ended, Sandbox, has_phalanx, skip};
use phalanx_bench::names::java::{CTR, PAPERS};
use phalanx_bench::record::read;
use phalanx_bench::row::Row;
use rustix::process::{Pid, Signal, kill_process};
use std::env;
use std::fs;
use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

#[test]
fn wrong_usage_prints_one_line_and_exits_with_2() {
    let s = Sandbox::new();
    s.run(&["-q"]).fails(2);
    s.run(&["bogus"]).fails(2);
    s.run(&["keys", "--bogus"]).fails(2);
    s.run(&["keys", "extra"]).fails(2);
    s.run(&["report"]).fails(2);
    s.run(&["report", "missing"]).fails(4);
    s.write("file", "x");
    s.run(&["keys", "--quick", "--out", "file"]).fails(4);
    assert_eq!(s.names(), ["file"]);
    assert!(s.run(&["--help"]).text().contains("sefps-file"));
}

#[test]
fn a_missing_phalanx_is_reported_with_the_way_to_build_it() {
    let s = Sandbox::new();
    for experiment in ["peers", "all"] {
        let line = s.run(&[experiment, "--quick", "--phalanx", "missing"]).fails(4);
        assert!(line.contains("missing: ") && line.contains("cargo build --release -p phalanx"), "{line}");
    }
    s.run(&["sefps", "--phalanx", "missing"]).fails(2);
    assert!(s.names().is_empty());
}

#[test]
fn a_copy_by_threads_is_a_program_to_compare_with() {
    let s = Sandbox::new();
    let bytes = crate::common::painted(3 << 20 | 17);
    s.write("from", &bytes);
    s.run(&["copy", "from", "to"]).ok();
    assert!(s.read("to") == bytes);
    s.run(&["copy", "--threads", "3", "--piece", "64", "from", "again"]).ok();
    assert!(s.read("again") == bytes);
    assert!(s.run(&["copy", "missing", "to"]).fails(4).contains("missing: "));
    if !has_phalanx() {
        return;
    }
    s.run(&["peers", "--quick", "--out", "run"]).ok();
    let rows = rows(&s, "run");
    let ratios = |row: &&Row| row.measure == "whole command: times as fast as copy by threads" && row.speedup.is_some();
    for operation in ["protect", "unprotect"] {
        let measured = rows.iter().filter(|row| row.measure == "whole command" && row.median_s.is_some());
        for row in measured {
            assert!(
                row.note.as_deref().is_some_and(|note| note.contains("memory for the output was fetched")),
                "{row:?}"
            );
        }
        let of = |row: &&Row| row.scheme == "copy by threads" && row.operation == operation && row.median_s.is_some();
        assert_eq!(rows.iter().filter(of).count(), 1, "{operation}");
        assert_eq!(rows.iter().filter(ratios).filter(|row| row.operation == operation).count(), 3, "{operation}");
    }
}

/// If stderr is not a terminal, lines report what is missing, and then the progress of the run.
#[test]
fn a_redirected_run_reports_missing_programs_and_progress() {
    let s = Sandbox::new();
    let args = ["hpc", "--part", "threads", "--part", "cluster", "--quick", "--out", "run"];
    let ended = Ended(without_device(s.command(&args)).env("PATH", "/none").output().unwrap());
    let error = ended.error();
    ended.ok();
    let lines: Vec<&str> = error.lines().collect();
    assert!(lines[0].starts_with("phalanx-bench: warning: not here, so not measured: "), "{error}");
    assert!(
        lines[0].contains("a device (") && (lines[0].contains("mpirun") || lines[0].contains("phalanx-mpi")),
        "{error}"
    );
    let steps: Vec<&&str> = lines.iter().filter(|line| line.contains(" % after ")).collect();
    assert!(steps.len() > 2 && steps[0].starts_with("phalanx-bench: 0 % after "), "{error}");
    let quiet = without_device(s.command(&["-q", "hpc", "--part", "gpu", "--quick", "--out", "quiet"]));
    assert_eq!(Ended({ quiet }.output().unwrap()).error(), "");
}

/// A signal in the middle of the comparison with gocryptfs leaves no mount and no files.
#[test]
fn mounts_of_peers_end_with_a_signal() {
    let s = Sandbox::new();
    let paths = env::var_os("PATH").unwrap_or_default();
    let has_gocryptfs = env::split_paths(&paths).any(|folder| folder.join("gocryptfs").is_file());
    if !has_gocryptfs || !PathBuf::from("/dev/fuse").exists() {
        return skip("gocryptfs");
    }
    if !has_phalanx() {
        return;
    }
    let at = s.path("").canonicalize().unwrap().join("run/scratch/mounted");
    let is_mounted = || {
        let mounts = fs::read_to_string("/proc/self/mounts").unwrap();
        mounts.lines().any(|line| line.split(' ').nth(1) == at.to_str())
    };
    let mut child = start(&s, &["peers", "--quick", "--out", "run"], is_mounted);
    kill_process(Pid::from_child(&child), Signal::TERM).unwrap();
    let status = child.wait().unwrap();
    let left = is_mounted();
    if left {
        Command::new("fusermount").args(["-u", "-z"]).arg(&at).status().unwrap();
    }
    assert_eq!(status.signal(), Some(15), "{status}");
    assert!(!left, "the mount was left behind");
    assert!(!s.exists("run/scratch"));
}

/// The command, as on a machine without a device.
fn without_device(mut command: Command) -> Command {
    command.env("CUDA_VISIBLE_DEVICES", "").env("OCL_ICD_VENDORS", "/none").env_remove("PHALANX_OPENCL_CPU");
    command
}

/// Whether a note reports that there was no device, and why.
fn no_device(note: &str) -> bool {
    note.starts_with("not run: no device (") && note.len() > 30
}

/// Starts a run, and waits until `enough` is true.
fn start(s: &Sandbox, args: &[&str], enough: impl Fn() -> bool) -> Child {
    let child = without_device(s.command(args)).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    let started = Instant::now();
    while !enough() {
        assert!(started.elapsed() < Duration::from_secs(60), "the run does not come along");
        sleep(Duration::from_millis(1));
    }
    child
}

fn report(s: &Sandbox, out: &str) -> String {
    fs::read_to_string(s.path(out).join("report.html")).unwrap()
}

/// The part of a report on one of the papers' tables and figures.
fn article<'a>(report: &'a str, id: &str) -> &'a str {
    let (_, rest) = report.split_once(&format!("<article id=\"{id}\">")).unwrap_or_else(|| panic!("no {id}"));
    rest.split_once("</article>").unwrap().0
}

fn rows(s: &Sandbox, out: &str) -> Vec<Row> {
    read(&s.path(out)).map_or(Vec::new(), |(_, rows)| rows)
}

#[test]
fn a_killed_run_keeps_its_rows_and_goes_on() {
    let s = Sandbox::new();
    let mut child = start(&s, &["sefps", "--quick", "--out", "run"], || rows(&s, "run").len() > 60);
    child.kill().unwrap();
    assert_eq!(child.wait().unwrap().signal(), Some(9), "it was done before it could be killed");
    let kept = rows(&s, "run");
    assert!(s.run(&["sefps", "--quick", "--out", "run"]).fails(4).contains("--resume"));
    assert!(rows(&s, "run") == kept);
    let goes_on = ["sefps", "--quick", "--out", "run", "--resume"];
    Ended(without_device(s.command(&goes_on)).output().unwrap()).ok();
    let all = rows(&s, "run");
    assert!(all[..kept.len()] == kept);
    // Each of 5 files has 6 programs in the layout, both ways, with 3 times each, and 6 programs in the format. It has
    // 6 times of the format's parts, and 4 of the format in memory. It has rows of what was not run: 4 programs in the
    // layout with 2 times each, and 6 in the format. There is also one row with the ratio of Eq. 1.
    assert_eq!(all.len(), 5 * (6 * 2 * 3 + 6 * 2 + 6 + 4 + 4 * 2 * 2 + 6 * 2) + 1);
    for (i, row) in all.iter().enumerate() {
        assert!(all[..i].iter().all(|other| other.key() != row.key()), "twice: {:?}", row.key());
    }
    assert!(s.exists("run/report.html") && !s.exists("run/scratch"));
}

#[test]
fn an_interrupted_run_leaves_its_rows_and_no_files() {
    let s = Sandbox::new();
    let mut child = start(&s, &["hpc", "--quick", "--out", "run"], || s.exists("run/scratch/plain"));
    // The process that started the tests may ignore SIGINT.
    kill_process(Pid::from_child(&child), Signal::TERM).unwrap();
    let status = child.wait().unwrap();
    assert_eq!(status.signal(), Some(15), "{status}");
    let kept = rows(&s, "run").len();
    assert!(kept > 0 && !s.exists("run/scratch"));
    let report = report(&s, "run");
    assert!(report.ends_with("</html>\n") && report.contains(&format!("All {kept} rows measured on ")), "{report}");
}

#[test]
fn the_cluster_part_has_a_short_run() {
    let beside = PathBuf::from(env!("CARGO_BIN_EXE_phalanx-bench")).with_file_name("phalanx-mpi");
    // The launcher of the MPI that phalanx-mpi was built with. That of another MPI starts processes that are strangers.
    let mpirun = env::var("PHALANX_MPIRUN").unwrap_or_else(|_| "mpirun".into());
    let paths = env::var_os("PATH").unwrap_or_default();
    // One with a folder in its name is joined to nothing.
    let has_mpirun = env::split_paths(&paths).any(|folder| folder.join(&mpirun).is_file());
    if !beside.is_file() || !has_mpirun {
        return skip(if has_mpirun { "phalanx-mpi" } else { "mpirun" });
    }
    let s = Sandbox::new();
    let args = ["hpc", "--part", "cluster", "--quick", "--out", "run", "--folder", ".", "--mpirun", &mpirun];
    let text = Ended(s.command(&args).output().unwrap()).text();
    assert!(text.contains("report.html"), "{text}");
    let rows = rows(&s, "run");
    for measure in ["whole command", "its own time", "longest process at work"] {
        let of = |row: &&Row| row.measure == measure && row.processes == 4 && row.case.starts_with("107MBs");
        assert!(
            rows.iter().filter(of).all(|row| row.median_s.is_some()) && rows.iter().any(|row| of(&row)),
            "{measure}"
        );
    }
    for measure in ["time for messages", "peak memory of a process"] {
        let of = |row: &&Row| row.measure == measure && row.processes == 8;
        assert!(rows.iter().filter(of).all(|row| row.value.is_some() || row.peak_kib.is_some()));
        assert_eq!(rows.iter().filter(of).count(), 4);
    }
    assert!(rows.iter().any(|row| row.operation.ends_with("stopped half of the time") && row.median_s.is_some()));
    assert!(fs::read_to_string(s.path("run/report.html")).unwrap().contains("the requirements"));
    assert_eq!(s.names(), ["run"]);
}

#[test]
fn a_missing_phalanx_mpi_is_reported_with_the_way_to_build_it() {
    let s = Sandbox::new();
    let line = s.run(&["hpc", "--part", "cluster", "--phalanx-mpi", "missing"]).fails(4);
    assert!(line.contains("missing: ") && line.contains("cargo build --release -p phalanx-cluster"), "{line}");
    s.run(&["hpc", "--interrupted", "0"]).fails(2);
    s.run(&["keys", "--phalanx-mpi", "missing"]).fails(2);
    assert!(s.names().is_empty());
}

#[test]
fn missing_parts_of_java_are_reported() {
    let s = Sandbox::new();
    assert!(
        s.run(&["hpc", "--part", "java", "--java", "missing"]).fails(4).contains("missing: there is no such program")
    );
    assert!(
        s.run(&["hpc", "--part", "java", "--jars", "missing"]).fails(4).contains("missing: there is no such folder")
    );
    s.run(&["keys", "--java", "missing"]).fails(2);
    assert!(s.names().is_empty());

    s.script("java", "#!/bin/sh\n");
    let cases: [(&str, &[&str], &str); 2] =
        [("jvm", &[], "no java"), ("jars", &["--java", "java", "--jars", "."], "no jars: run mvn -q package in java/")];
    for (out, named, why) in cases {
        let args = [&["hpc", "--part", "java", "--quick", "--out", out], named].concat();
        let text = Ended(s.command(&args).env("PATH", "/none").output().unwrap()).text();
        assert!(text.contains("report.html"), "{text}");
        let rows = rows(&s, out);
        let of_java = |row: &&Row| [PAPERS, CTR].contains(&row.scheme.as_str());
        assert!(rows.iter().filter(of_java).count() > 10);
        for row in rows.iter().filter(of_java) {
            assert_eq!((row.median_s, row.note.clone()), (None, Some(format!("not run: {why}"))), "{row:?}");
        }
    }
}

#[test]
fn every_experiment_has_a_short_run() {
    let s = Sandbox::new();
    // Mounts and clusters have their own tests. The figure is one that the experiment's rows answer.
    for (experiment, figure) in [
        ("sefps", Some("p1-fig-3")),
        ("users", Some("p2-fig-2")),
        ("hpc", Some("p3-fig-5-5")),
        ("volume", Some("p4-fig-2-0")),
        ("keys", Some("p5-table-i")),
        ("peers", None),
    ] {
        if experiment == "peers" && !has_phalanx() {
            continue;
        }
        let started = Instant::now();
        let mut command = without_device(s.command(&[experiment, "--quick", "--out", experiment]));
        match experiment {
            "volume" => drop(command.args(["--part", "study", "--part", "ciphertext", "--part", "ahead"])),
            "hpc" => drop(command.args(["--part", "threads", "--part", "gpu"])),
            _ => {}
        }
        let text = Ended(command.output().unwrap()).text();
        println!("{experiment}: {:?}", started.elapsed());
        assert!(text.contains("report.html"), "{text}");
        let rows = rows(&s, experiment);
        // Each row has times, a ratio or mean of them, or a reason why there are none.
        for row in &rows {
            let why = row.note.as_ref().is_some_and(|note| note.starts_with("not run: "));
            let figures = [row.median_s, row.speedup, row.gb_per_s, row.value];
            assert!(why || figures.iter().any(Option::is_some), "{row:?}");
            assert_eq!(row.experiment, experiment);
        }
        assert!(!s.path(experiment).join("scratch").exists());
        let report = report(&s, experiment);
        assert!(report.contains("<td>processor</td>") && report.contains("<td>quick"), "{report}");
        assert_eq!(report.matches("<article id=").count(), 52);
        if let Some(figure) = figure {
            assert!(article(&report, figure).contains("<svg viewBox"), "{figure}: {report}");
        }
    }
    let hpc = rows(&s, "hpc");
    let on_gpu: Vec<&Row> = hpc.iter().filter(|row| row.engine == "gpu" && row.case == "107MBs").collect();
    assert!(on_gpu.len() == 20 && on_gpu.iter().all(|row| row.note.as_deref().is_some_and(no_device)));
    assert_eq!(on_gpu.iter().flat_map(|row| &row.printed).count(), 10);
    let sefps = rows(&s, "sefps");
    let has = |row: &Row, engine: &str| row.engine == engine && row.measure == "total" && row.case == "255 KB";
    assert!(sefps.iter().any(|row| has(row, "serial") && row.printed.len() == 2 && row.median_s.is_some()));
    assert!(sefps.iter().any(|row| has(row, "cpu") && row.amdahl.is_some_and(|bound| bound >= 1.0)));
    assert!(sefps.iter().any(|row| has(row, "gpu") && row.note.as_deref().is_some_and(no_device)));
    assert!(sefps.iter().any(|row| has(row, "hybrid") && row.note.as_deref().is_some_and(no_device)));
    let users = rows(&s, "users");
    for (scheme, is_run) in [("CCS", true), ("CCNS", true), ("CNC", true), ("SR", true), ("GCS", false), ("GNC", false)]
    {
        for shape in ["regular", "irregular"] {
            let case = format!("200 users, {shape}");
            let mut of =
                users.iter().filter(|row| row.scheme == scheme && row.case == case && row.operation == "encrypt");
            assert!(of.clone().count() >= 2 && of.all(|row| row.median_s.is_some() == is_run), "{scheme}, {shape}");
            let case = format!("mean over the numbers of users, {shape}");
            let mean =
                users.iter().find(|row| row.scheme == scheme && row.case == case && row.measure == "AES-128-CTR");
            // There are both platforms' speeds. GCS on regular data also has both speedups.
            let printed = if (scheme, shape) == ("GCS", "regular") { 4 } else { 2 };
            assert!(
                mean.is_some_and(|row| row.printed.len() == printed && row.gb_per_s.is_some() == is_run),
                "{scheme}"
            );
        }
    }
    for engine in ["gpu", "hybrid"] {
        let of = |row: &&Row| row.engine == engine && row.scheme == "batch" && row.measure == "AES-256-CTR + SHA-3";
        // There is a row for each shape and number of users, and one for each mean.
        assert_eq!(users.iter().filter(of).count(), 2 * (3 + 1), "{engine}");
        assert!(users.iter().filter(of).all(|row| row.note.as_deref().is_some_and(no_device)), "{engine}");
    }
    let page = report(&s, "users");
    let printed = ["<th class=\"paper\">printed, platform 1: over 1 thread</th>", "<td class=\"paper\">54.9</td>"];
    assert!(printed.iter().all(|part| page.contains(part)), "{page}");
    // There are five ratios of batches on any machine, one that needs two cores, and one latency.
    assert!(users.iter().filter(|row| row.bar.is_some()).count() >= 6);
    let latency = |row: &&Row| row.measure.starts_with("latency");
    assert_eq!(users.iter().filter(latency).filter(|row| row.median_s.is_some_and(|s| s > 0.0)).count(), 9);
    let volume = rows(&s, "volume");
    let on_device = volume.iter().filter(|row| row.engine == "gpu");
    assert!(on_device.clone().count() > 0 && on_device.clone().all(|row| row.note.as_deref().is_some_and(no_device)));
    assert_eq!(on_device.filter(|row| row.printed.len() == 1).count(), 2 * 2 * 3);
    // An image and a text each have 5 figures of plaintext and of ciphertext, and 2 of each pair of ciphertexts.
    assert_eq!(volume.iter().filter(|row| row.value.is_some() && row.ideal.is_some()).count(), 2 * (2 * 5 + 2 * 2));
    let page = report(&s, "volume");
    let answers = [
        "<td>RQ1 a: is the GPU faster than one core?</td><td>Not answered: no device (",
        "<td>22 / 21 / 12 × at 32000 bytes, 13 / 12 / 12 × at 5 × 32000 bytes</td>",
        "<td>RQ3: which implementation is the fastest?</td><td>Of all: ",
        "times as much work with the making; of a whole seal of suite 1, ",
    ];
    for answer in answers {
        assert!(page.contains(answer), "{answer}: {page}");
    }
    if !s.exists("peers") {
        return;
    }
    let peers = rows(&s, "peers");
    let memory = peers.iter().find(|row| row.measure == "peak memory" && row.median_s.is_some()).unwrap();
    assert!(memory.peak_kib.is_some_and(|kib| kib > 1000), "{memory:?}");
    assert!(peers.iter().any(|row| row.over.as_deref() == Some("cp") && row.bar.is_some()));
}

#[test]
fn the_parts_of_mirrors_have_a_short_run() {
    if !has_phalanx() {
        return;
    }
    let s = Sandbox::new();
    fs::create_dir(s.path("trees")).unwrap();
    let args = ["peers", "--part", "mirror", "--part", "mirror-memory", "--quick", "--folder", "trees", "--out"];
    s.run(&[&args[..], &["run"]].concat()).ok();
    Ended(s.command(&[&args[..], &["alone"]].concat()).env("PATH", "/none").output().unwrap()).ok();
    assert_eq!(s.names(), ["alone", "run", "trees"]);
    assert_eq!(fs::read_dir(s.path("trees")).unwrap().count(), 0);

    let is_time = |row: &Row| row.measure == "whole command";
    let paths = env::var_os("PATH").unwrap_or_default();
    let is_here = |name: &str| env::split_paths(&paths).any(|folder| folder.join(name).is_file());
    for out in ["run", "alone"] {
        let rows = rows(&s, out);
        let of = |operation: &str| rows.iter().filter(|row| row.operation == operation && is_time(row)).count();
        assert_eq!(
            ["first run", "nothing changed", "5 files changed", "verify --quick"]
                .map(|of_what| of(&format!("mirror, {of_what}"))),
            [3, 4, 3, 2]
        );
        for row in rows.iter().filter(|row| is_time(row)) {
            let program = row.scheme.split([' ', ',']).next().unwrap();
            let runs = program == "phalanx" || (out == "run" && is_here(program));
            assert_eq!(row.median_s.is_some(), runs, "{row:?}");
            assert!(runs || row.note == Some(format!("not run: no {program}")), "{row:?}");
        }
        let memory: Vec<&Row> = rows.iter().filter(|row| row.measure == "peak memory").collect();
        assert!(memory.len() == 2 && memory.iter().all(|row| row.peak_kib.is_some() && row.bar.is_some()));
        assert!(memory.iter().all(|row| row.items == 1000));
    }
    // Each ratio has a requirement, except for those to programs that have no requirement in that case.
    let rows = rows(&s, "run");
    let ratios = |row: &&Row| row.measure.starts_with("whole command: times ");
    assert!(rows.iter().filter(ratios).all(|row| row.speedup.or(row.value).is_some_and(|ratio| ratio > 0.0)));
    let unchanged = rows.iter().find(|row| row.measure.ends_with("times the time of rsync -an --delete"));
    assert_eq!(unchanged.is_some_and(|row| row.value.is_some() && row.bar.is_some()), is_here("rsync"));
    assert_eq!(rows.iter().filter(|row| row.case.starts_with("300 files of 1 to 4 KB and one of 1 MiB")).count(), {
        let peers = [is_here("rclone"), is_here("restic")].into_iter().filter(|here| *here).count();
        12 + 3 * peers + usize::from(is_here("rsync")) + 1
    });
    assert!(s.run(&["peers", "--folder", "missing"]).fails(4).contains("missing: there is no such folder"));
    s.run(&["peers", "--part", "bogus"]).fails(2);
    s.run(&["all", "--part", "mirror"]).fails(2);
}

/// The device is an OpenCL device that is the CPU.
#[test]
fn gpu_parts_run_on_a_device_and_their_rows_join_another_report() {
    let s = Sandbox::new();
    for experiment in ["keys", "sefps", "users", "volume", "hpc"] {
        let mut command = s.command(&[experiment, "--quick", "--out", experiment]);
        match experiment {
            "volume" => drop(command.args(["--part", "study"])),
            "hpc" => drop(command.args(["--part", "gpu"])),
            _ => {}
        }
        Ended(command.env("PHALANX_OPENCL_CPU", "1").env("CUDA_VISIBLE_DEVICES", "").output().unwrap()).ok();
        let (heads, _) = read(&s.path(experiment)).unwrap();
        if heads[0].device.is_none() {
            println!("skipped: no OpenCL device");
            let required = std::env::var("PHALANX_REQUIRE").unwrap_or_default();
            assert!(
                !required.split(',').any(|r| r == "opencl"),
                "PHALANX_REQUIRE names opencl: there is no such device"
            );
            return;
        }
        let page = report(&s, experiment);
        assert!(page.contains("<td>device</td>") && page.contains("through OpenCL"), "{page}");
        assert!(!page.contains("no device ("), "{page}");
    }
    let timed = |experiment: &str, case: &str, engine: &str, scheme: &str, measure: &str| {
        let rows = rows(&s, experiment);
        let is_it = |row: &&Row| {
            row.case == case && row.engine == engine && row.scheme.starts_with(scheme) && row.measure == measure
        };
        let found: Vec<&Row> = rows.iter().filter(is_it).collect();
        assert!(!found.is_empty(), "{experiment}, {case}, {engine}, {scheme}, {measure}");
        assert!(found.iter().all(|row| row.median_s.is_some()), "{found:?}");
    };
    for shape in ["regular", "irregular"] {
        for scheme in ["GCS", "GCNS", "GNC"] {
            for measure in ["AES-128-CTR", "AES-256-CTR, kernel only"] {
                timed("users", &format!("5 users, {shape}"), "gpu", scheme, measure);
            }
        }
        for engine in ["gpu", "hybrid"] {
            timed("users", &format!("5 users, {shape}"), engine, "batch", "AES-256-CTR + SHA-3");
        }
    }
    for engine in ["gpu", "hybrid"] {
        for scheme in ["MD5 and AES-128-ECB as printed", "MD5 and AES-128-ECB with Phalanx's kernels"] {
            timed("keys", "1KB", engine, scheme, "key digest and encryption");
            timed("keys", "1KB", engine, scheme, "key digest and encryption, kernel only");
        }
        for scheme in ["SEFPS as printed", "SEFPS with Phalanx's kernels", "Phalanx's format"] {
            timed("sefps", "255 KB", engine, scheme, "total");
        }
        timed("sefps", "255 KB", engine, "SEFPS", "AES");
    }
    timed("keys", "1KB", "gpu", "KMAC256 and Phalanx's chunks", "key digest and encryption");
    timed("keys", "1000 keys", "gpu", "KMAC256", "time");
    timed("keys", "1000 keys", "gpu", "MD5", "time");
    for scheme in ["T-tables, 16 bytes a thread", "T-tables, 32 bytes a thread, several streams", "Phalanx's kernels"] {
        timed("volume", "5 × 32000 bytes", "gpu", scheme, "AES-192-CTR");
    }
    timed("volume", "4 KiB", "gpu", "T-tables, 64 bytes a thread", "AES-256-CTR, kernel only");
    timed("hpc", "1MB", "gpu", "AES-128-ECB", "encryption only, kernel only");
    timed("hpc", "1MB", "gpu", "AES-128-ECB", "encryption and copies");
    let large: Vec<Row> = rows(&s, "hpc").into_iter().filter(|row| row.case == "107MBs").collect();
    assert!(
        large.len() == 20 && large.iter().all(|row| row.note.as_deref().is_some_and(|why| why.contains("not a GPU")))
    );
    let page = report(&s, "volume");
    assert!(page.contains("<td>RQ2: do streams help?</td><td>Measured through OpenCL on the CPU ("), "{page}");
    timed("sefps", "255 KB", "gpu", "Phalanx's format", "in memory");
    timed("sefps", "255 KB", "hybrid", "Phalanx's format, AES-256-CTR + SHA-3, one queue", "in memory");
    let sefps = rows(&s, "sefps");
    if std::thread::available_parallelism().is_ok_and(|cores| cores.get() > 1) {
        timed("sefps", "255 KB", "hybrid", "Phalanx's format, AES-256-CTR + SHA-3, fixed ratio", "in memory");
        assert!(sefps.iter().any(|row| row.measure == "ratio (Eq. 1)" && row.speedup.is_some_and(|ratio| ratio > 0.0)));
        assert!(sefps.iter().any(|row| row.engine == "hybrid" && row.efficiency.is_some()));
    }
    s.run(&["report", "sefps", "--merge", "keys/rows.jsonl", "--merge", "users/rows.jsonl"]).ok();
    // This is one machine with its device, so their rows are in one part.
    let page = report(&s, "sefps");
    assert!(
        ["p1-fig-3", "p2-fig-2", "p5-table-i"].iter().all(|id| article(&page, id).contains("<svg viewBox")),
        "{page}"
    );
    assert_eq!(page.matches("<tr><td>processor</td>").count(), 3, "{page}");
    assert_eq!(rows(&s, "sefps"), sefps);
    assert!(s.run(&["report", "sefps", "--merge", "sefps/rows.jsonl"]).fails(4).contains("the same run"));
    s.write("hostile", "\x1b[2J{\n");
    assert!(s.run(&["report", "sefps", "--merge", "hostile"]).fails(4).contains("line 1"));
    s.run(&["report", "sefps", "--merge", "missing"]).fails(4);
}
