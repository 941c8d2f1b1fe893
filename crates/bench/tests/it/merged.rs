//! Rows of other machines are added to a report under their own machine's name. Hostile rows are refused.

use crate::common::setup;
use phalanx_bench::head::{DeviceHead, Head};
use phalanx_bench::measure::machine;
use phalanx_bench::measure::setup::Setup;
use phalanx_bench::measure::steps::{Step, run_steps};
use phalanx_bench::merged;
use phalanx_bench::record::{CSV, JSON, Line, Record, read};
use phalanx_bench::report;
use phalanx_bench::row::Row;
use std::fs;
use std::path::{Path, PathBuf};

fn row(engine: &str, seconds: f64) -> Row {
    let row = Row::of("hpc", "107MBs", ["encrypt", "encryption only", "AES-256-CTR", engine]);
    Row { bytes: 1_000_000_000, items: 1, threads: 1, ..row }.timed(vec![seconds; 3])
}

/// A run's folder with one row.
fn run(out: &Path) -> Setup {
    let setup = setup(out, true);
    let mut record = Record::open(&setup.out, setup.resume, machine::head(&setup, vec![])).unwrap();
    let step = Step::new("step".into(), 1, |rows| rows.write(row("cpu", 0.5)));
    run_steps(&mut record, vec![step], &()).unwrap();
    setup
}

/// The head of a machine with a GPU.
fn elsewhere(out: &Path) -> Head {
    let [name, kind, api, driver] = ["Example <b>GPU</b>", "GPU", "CUDA", "CUDA 12.0"].map(String::from);
    let device = DeviceHead { name, kind, api, driver, memory: 1 << 30, multiprocessors: 13, warp: 32, clock_mhz: 706 };
    Head { cpu: "another processor".into(), device: Some(device), ..machine::head(&setup(out, true), vec![]) }
}

fn lines(head: &Head, rows: &[Row]) -> String {
    let rows = rows.iter().map(|row| Line::Row(Box::new(row.clone())).json());
    [Line::Head(Box::new(head.clone())).json()].into_iter().chain(rows).collect()
}

fn file(folder: &Path, text: impl AsRef<[u8]>) -> PathBuf {
    let path = folder.join("from-elsewhere.jsonl");
    fs::write(&path, text).unwrap();
    path
}

fn names(out: &Path) -> Vec<String> {
    let mut names: Vec<String> =
        fs::read_dir(out).unwrap().map(|e| e.unwrap().file_name().to_string_lossy().into_owned()).collect();
    names.sort();
    names
}

#[test]
fn another_machines_rows_join_under_its_own_name() {
    let (out, from) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let setup = run(out.path());
    let own = [JSON, CSV].map(|name| fs::read(out.path().join(name)).unwrap());
    // One row differs from our own only in its times. The other is one of the device script.
    let gpu = Row { experiment: "gpu".into(), measure: "kernel".into(), ..row("gpu", 0.001) };
    let given = file(from.path(), lines(&elsewhere(out.path()), &[row("cpu", 0.25), gpu]));
    merged::add(out.path(), &given).unwrap();
    merged::add(out.path(), &given).unwrap();
    report::write(out.path()).unwrap();
    let text = fs::read_to_string(out.path().join(report::FILE)).unwrap();
    let (here, there) = text.split_once("rows measured on another processor").unwrap();
    assert!(here.contains("<tr><td>1</td><td>500</td>") && !here.contains("<td>250</td>"), "{here}");
    assert!(there.contains("<tr><td>1</td><td>250</td>") && !there.contains("<td>500</td>"), "{there}");
    assert!(there.contains("<td>processor</td><td>another processor, "), "{there}");
    assert!(text.contains("Example &lt;b&gt;GPU&lt;/b&gt;") && !text.contains("<b>GPU"), "{text}");
    let merged: Vec<String> = names(out.path()).into_iter().filter(|name| name.starts_with("merged-")).collect();
    let [rows] = &merged[..] else { panic!("{merged:?}") };
    assert!(rows.ends_with(".jsonl"), "{merged:?}");
    // Our own rows are unchanged, and a run continues only them.
    assert_eq!([JSON, CSV].map(|name| fs::read(out.path().join(name)).unwrap()), own);
    assert_eq!(read(out.path()).unwrap().1, [row("cpu", 0.5)]);
    let mut record = Record::open(&setup.out, setup.resume, machine::head(&setup, vec![])).unwrap();
    let again = Step::new("step".into(), 1, |_| panic!("it is done"));
    let more = Step::new("more".into(), 1, |rows| {
        assert_eq!(rows.all(), [row("cpu", 0.5)]);
        // Rows of the other machine do not count as measured.
        rows.write(row("gpu", 0.125))
    });
    run_steps(&mut record, vec![again, more], &()).unwrap();
    drop(record);
    report::write(out.path()).unwrap();
    let again = fs::read_to_string(out.path().join(report::FILE)).unwrap();
    assert!(again.contains("rows measured on another processor"), "a new report has lost them");
}

#[test]
fn each_machine_of_a_file_stands_alone() {
    let (out, from) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    run(out.path());
    let head = elsewhere(out.path());
    let opencl = DeviceHead { api: "OpenCL".into(), ..head.device.clone().unwrap() };
    let second = Head { device: Some(opencl), ..head.clone() };
    // The first machine's run was resumed.
    let resumed = Head { date: "2030-01-01T00:00:00Z".into(), ..head.clone() };
    let text =
        [lines(&head, &[row("cpu", 0.5)]), lines(&resumed, &[row("gpu", 0.25)]), lines(&second, &[row("gpu", 0.125)])];
    merged::add(out.path(), &file(from.path(), text.concat())).unwrap();
    let parts = merged::all(out.path()).unwrap();
    let shape: Vec<(usize, usize)> = parts.iter().map(|part| (part.heads.len(), part.rows.len())).collect();
    assert_eq!(shape, [(2, 2), (1, 1)]);
}

/// Each bad file causes one line with its name and the reason, and leaves no file.
#[test]
fn wrong_and_hostile_files_are_refused() {
    let (out, from) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    run(out.path());
    let before = names(out.path());
    let head = elsewhere(out.path());
    let whole = lines(&head, &[row("gpu", 0.5)]);
    let with = |row: Row| lines(&head, &[row]).into_bytes();
    let base = row("gpu", 0.5);
    let own = fs::read(out.path().join(JSON)).unwrap();
    let cases: Vec<(&str, Vec<u8>)> = vec![
        ("holds no rows", Vec::new()),
        ("holds no rows", lines(&head, &[]).into()),
        ("no text", vec![0xff, 0xfe, b'\n']),
        ("line 1: not a line", b"\x1b[31mnot a run\n".to_vec()),
        ("line 2: not a line", whole[..whole.len() - 20].into()),
        ("line 1: not a line", whole.replacen("\"quick\"", "\"\\u001b[2J\"", 1).into()),
        ("line 1: a row before", whole.lines().nth(1).unwrap().into()),
        ("a row twice", lines(&head, &[base.clone(), base.clone()]).into()),
        ("not known", with(Row { experiment: "../../etc".into(), ..base.clone() })),
        ("control characters", with(Row { case: "a\u{1b}[31m".into(), ..base.clone() })),
        ("control characters", with(Row { note: Some("two\nlines".into()), ..base.clone() })),
        ("too long", with(Row { scheme: "x".repeat(5000), ..base.clone() })),
        ("control characters", lines(&Head { cpu: "a\nb".into(), ..head.clone() }, std::slice::from_ref(&base)).into()),
        ("nothing can measure", with(Row { speedup: Some(-1.0), ..base.clone() })),
        ("nothing can measure", with(Row { amdahl: Some(1e300), ..base.clone() })),
        ("a median", with(Row { median_s: Some(0.1), ..base.clone() })),
        ("a median", with(Row { seconds: Vec::new(), ..base.clone() })),
        ("a speed", with(Row { gb_per_s: Some(9.0), ..base.clone() })),
        ("the same run", own),
        ("longer than", vec![b' '; 17 << 20]),
        ("not a line", "[".repeat(100_000).into()),
        (
            "more rows",
            (0..20_001)
                .fold(lines(&head, &[]), |text, i| {
                    text + &Line::Row(Box::new(Row { case: i.to_string(), ..base.clone() })).json()
                })
                .into(),
        ),
    ];
    for (why, bytes) in cases {
        let path = file(from.path(), bytes);
        let line = merged::add(out.path(), &path).unwrap_err().to_string();
        assert!(line.contains(why) && line.starts_with(path.to_str().unwrap()), "{why}: {line}");
        assert!(!line.chars().any(char::is_control) && line.len() < 300, "{line:?}");
        assert_eq!(names(out.path()), before, "{why}");
    }
    for odd in [from.path().to_owned(), "/dev/zero".into(), from.path().join("missing")] {
        merged::add(out.path(), &odd).unwrap_err();
    }
    // Rows can only be added to a run.
    let good = file(from.path(), whole);
    merged::add(&from.path().join("missing"), &good).unwrap_err();
    merged::add(out.path(), &good).unwrap();
}

/// No text in rows becomes markup or the name of a file.
#[test]
fn hostile_texts_in_rows_leave_the_report_one_file() {
    let (out, from) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let inner = out.path().join("inner");
    fs::create_dir(&inner).unwrap();
    run(&inner);
    let before = names(&inner);
    let hostile = "/../../escaped\"><script>";
    let escaping = Row { case: hostile.into(), scheme: hostile.into(), note: Some(hostile.into()), ..row("gpu", 0.5) };
    merged::add(&inner, &file(from.path(), lines(&elsewhere(&inner), &[escaping]))).unwrap();
    report::write(&inner).unwrap();
    assert_eq!(names(out.path()), ["inner"]);
    let new: Vec<String> = names(&inner).into_iter().filter(|name| !before.contains(name)).collect();
    assert!(new.len() == 2 && new[0].starts_with("merged-") && new[1] == "report.html", "{new:?}");
    assert!(!fs::read_to_string(inner.join(report::FILE)).unwrap().contains("<script"));
}

/// A folder of runs has one report of them all.
#[test]
fn a_folder_of_runs_has_one_report() {
    let out = tempfile::tempdir().unwrap();
    report::write(out.path()).unwrap_err();
    for name in ["a", "b"] {
        fs::create_dir(out.path().join(name)).unwrap();
        run(&out.path().join(name));
    }
    report::write(out.path()).unwrap();
    assert_eq!(names(out.path()), ["a", "b", "report.html"]);
    // Both runs are of this machine, with the same row.
    let text = fs::read_to_string(out.path().join(report::FILE)).unwrap();
    assert!(text.contains("All 1 rows measured on ") && text.matches("<td>processor</td>").count() == 2, "{text}");
}
