//! Tests of the runner: rows are written as they come, interrupted runs go on, and the two files agree.

use crate::common::setup;
use phalanx_bench::error::{Error, Result};
use phalanx_bench::measure::machine;
use phalanx_bench::measure::steps::{Step, Watch, run_steps};
use phalanx_bench::paper;
use phalanx_bench::record::{CSV, JSON, Line, Record, read};
use phalanx_bench::report;
use phalanx_bench::row::{Bar, Over, Row};
use rustix::process::{Pid, Signal, kill_process};
use std::cell::{Cell, RefCell};
use std::fs;
use std::path::Path;

fn record(out: &Path, resume: bool) -> Result<Record> {
    let setup = setup(out, resume);
    let head = machine::head(&setup, vec!["cp 9".into()]);
    Record::open(&setup.out, setup.resume, head)
}

fn row(step: usize, i: usize) -> Row {
    let names = ["protect", "total", &format!("a \"scheme\", {i}"), "serial"];
    let row = Row {
        bytes: 1000,
        items: 1,
        threads: 1,
        printed: paper::p1().printed(|v| v.case.bytes == Some(5610) && v.measure == "total speed"),
        bar: Some(Bar { asked: "at most 1 ms".into(), reached: Some(i == 0) }),
        note: Some("two\nlines".into()),
        ..Row::of("sefps", format!("case {step}"), names)
    };
    row.timed(vec![0.25, 1.0 / 3.0, 1e-9 * step as f64]).compared(Over { name: "x", median_s: 0.5 }, Some(2))
}

const STEPS: usize = 4;
const ROWS: usize = 3;

/// Steps of three rows each. Each records that it ran, and step number `fails` fails after one row.
fn steps<'a>(ran: &'a RefCell<Vec<usize>>, fails: Option<usize>) -> Vec<Step<'a>> {
    let step = |step: usize| {
        Step::new(format!("step {step}"), 10, move |rows| {
            ran.borrow_mut().push(step);
            for i in 0..ROWS {
                if fails == Some(step) && i == 1 {
                    return Err(Error::Program("cut short".into()));
                }
                rows.write(row(step, i))?;
            }
            Ok(())
        })
    };
    (0..STEPS).map(step).collect()
}

/// The rows of a run without the load, which is different each time.
fn kept(out: &Path) -> Vec<Row> {
    read(out).unwrap().1.into_iter().map(|row| Row { others: None, steal: None, ..row }).collect()
}

fn all_rows() -> Vec<Row> {
    (0..STEPS).flat_map(|step| (0..ROWS).map(move |i| row(step, i))).collect()
}

/// The CSV's records without the head's comments.
fn csv_records(out: &Path) -> Vec<Vec<String>> {
    let mut reader = csv::ReaderBuilder::new().comment(Some(b'#')).has_headers(false).from_path(out.join(CSV)).unwrap();
    reader.records().map(|record| record.unwrap().iter().map(String::from).collect()).collect()
}

fn assert_csv_agrees(out: &Path) {
    let (heads, rows) = read(out).unwrap();
    let records = csv_records(out);
    assert_eq!(records[0], Row::default().fields().map(|(column, _)| column));
    assert_eq!(records.len(), rows.len() + 1);
    for (record, row) in records[1..].iter().zip(&rows) {
        assert_eq!(record[..], row.fields().map(|(_, field)| field));
        // Numbers keep their full precision.
        let seconds: Vec<f64> = record[10].split("; ").map(|s| s.parse().unwrap()).collect();
        assert_eq!(seconds, row.seconds);
        assert_eq!(record[12].parse::<f64>().ok(), row.median_s);
        assert_eq!(record[14].parse::<f64>().ok(), row.speedup);
    }
    let text = fs::read_to_string(out.join(CSV)).unwrap();
    for head in heads {
        for (name, value) in head.lines() {
            assert!(text.contains(&format!("# {name}: {value}\n")), "{name}");
        }
    }
}

#[test]
fn a_whole_run_is_written_row_by_row() {
    let out = tempfile::tempdir().unwrap();
    let ran = RefCell::default();
    /// Reads the files after each row. Every row that was written must be there.
    struct Looking<'a>(&'a Path, Cell<usize>);
    impl Watch for Looking<'_> {
        fn begin(&self, whole: u64, done: u64) {
            assert_eq!((whole, done), (10 * STEPS as u64, 0));
        }
        fn step(&self, _: &str) {}
        fn row(&self, row: &Row) {
            self.1.set(self.1.get() + 1);
            assert!(read(self.0).unwrap().1.last() == Some(row));
            assert_eq!(csv_records(self.0).len(), self.1.get() + 1);
        }
        fn done(&self, weight: u64) {
            assert_eq!(weight, 10);
        }
    }
    let looking = Looking(out.path(), Cell::new(0));
    run_steps(&mut record(out.path(), false).unwrap(), steps(&ran, None), &looking).unwrap();
    assert_eq!(looking.1.get(), STEPS * ROWS);
    assert!(kept(out.path()) == all_rows());
    assert_csv_agrees(out.path());
}

#[test]
fn an_interrupted_run_goes_on_without_losing_or_repeating_a_row() {
    let out = tempfile::tempdir().unwrap();
    let ran = RefCell::default();
    run_steps(&mut record(out.path(), false).unwrap(), steps(&ran, Some(2)), &()).unwrap_err();
    assert!(kept(out.path()) == all_rows()[..7]);
    assert!(matches!(record(out.path(), false), Err(Error::Exists(_))));
    run_steps(&mut record(out.path(), true).unwrap(), steps(&ran, None), &()).unwrap();
    // Finished steps are not measured again, but the interrupted one is.
    assert_eq!(*ran.borrow(), [0, 1, 2, 2, 3]);
    let (heads, rows) = read(out.path()).unwrap();
    assert!(kept(out.path()) == all_rows() && rows.len() == all_rows().len());
    assert_eq!(heads.len(), 2);
    assert_csv_agrees(out.path());
    // A complete run has nothing left to do.
    run_steps(&mut record(out.path(), true).unwrap(), steps(&ran, None), &()).unwrap();
    assert_eq!(ran.borrow().len(), 5);
    assert!(kept(out.path()) == all_rows());
}

#[test]
fn a_run_cut_at_any_byte_can_be_resumed() {
    let out = tempfile::tempdir().unwrap();
    run_steps(&mut record(out.path(), false).unwrap(), steps(&RefCell::default(), None), &()).unwrap();
    let whole = fs::read(out.path().join(JSON)).unwrap();
    for cut in (0..whole.len()).step_by(211).chain([whole.len() - 1]) {
        let out = tempfile::tempdir().unwrap();
        fs::write(out.path().join(JSON), &whole[..cut]).unwrap();
        fs::write(out.path().join(CSV), "half a li").unwrap();
        let before = read(out.path()).map_or(Vec::new(), |_| kept(out.path()));
        run_steps(&mut record(out.path(), true).unwrap(), steps(&RefCell::default(), None), &()).unwrap();
        assert!(kept(out.path()) == all_rows(), "cut at {cut}");
        assert!(before == all_rows()[..before.len()]);
        assert_csv_agrees(out.path());
    }
}

#[test]
fn folders_without_a_fitting_run_are_refused() {
    let out = tempfile::tempdir().unwrap();
    let kept = record(out.path(), false).unwrap();
    let line = record(out.path(), true).err().unwrap().to_string();
    assert!(line.contains("another run is writing it"), "{line}");
    drop(kept);
    let mut other = setup(out.path(), true);
    other.quick = false;
    // A test beside this one that starts a program has for a moment copies of all open files, and so of the lock.
    let line = loop {
        let line = Record::open(&other.out, other.resume, machine::head(&other, vec![])).err().unwrap().to_string();
        if !line.contains("another run is writing it") {
            break line;
        }
        std::thread::yield_now();
    };
    assert!(line.contains("another commit, machine"), "{line}");
    fs::write(out.path().join(JSON), "{\"row\": 1}\n").unwrap();
    let line = record(out.path(), true).err().unwrap().to_string();
    assert!(line.contains("line 1"), "{line}");
    for folder in [tempfile::tempdir().unwrap().path(), out.path()] {
        report::write(folder).unwrap_err();
    }
}

#[test]
fn the_report_is_made_from_the_rows_alone() {
    let out = tempfile::tempdir().unwrap();
    run_steps(&mut record(out.path(), false).unwrap(), steps(&RefCell::default(), None), &()).unwrap();
    report::write(out.path()).unwrap();
    let text = fs::read_to_string(out.path().join(report::FILE)).unwrap();
    // The report has the measured speed of each case, the printed one beside it, and the reason for a correction.
    let line = text.lines().find(|line| line.starts_with("<tr><td>case 1</td>")).unwrap();
    assert!(line.contains("<td>4.00e-6</td>") && line.contains(r#"<td class="paper">0.030343 GB/s</td>"#), "{line}");
    assert!(text.contains(r#"<th class="paper">printed: P1 platform 1 CSP</th>"#));
    assert!(text.contains(&paper::p1().corrections["gbps"]), "{text}");
    assert!(text.contains("cp 9"));
    assert!(
        text.ends_with("</html>\n") && fs::read_dir(out.path()).unwrap().count() == 3,
        "rows twice, and one report"
    );
    // If the report is written again, it is the same.
    report::write(out.path()).unwrap();
    assert_eq!(fs::read_to_string(out.path().join(report::FILE)).unwrap(), text);
}

/// A process that is busy until this is dropped.
struct Busy(Pid);

impl Drop for Busy {
    fn drop(&mut self) {
        let _ = kill_process(self.0, Signal::KILL);
    }
}

/// A row has the part of the machine that was busy with other work while it was measured, and the report marks it.
#[test]
fn rows_record_how_busy_the_machine_was() {
    let script = tempfile::tempdir().unwrap();
    // This starts a process that is not a child of this one, because its parent ends at once.
    let name = script.path().join("pid").to_string_lossy().into_owned();
    let line = format!("(while :; do :; done) & echo $! >'{name}'");
    assert!(std::process::Command::new("sh").args(["-c", &line]).status().unwrap().success());
    let pid: i32 = fs::read_to_string(&name).unwrap().trim().parse().unwrap();
    let busy = Busy(Pid::from_raw(pid).unwrap());
    let measured = || {
        let out = tempfile::tempdir().unwrap();
        let step = Step::new("step".into(), 1, |rows| {
            let used = || {
                let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
                stat.rsplit_once(')').unwrap().1.split_whitespace().nth(11).unwrap().parse::<u64>().unwrap()
            };
            // Wait until it has used half a second of a core, while this process uses almost nothing.
            let before = used();
            while used() < before + 50 {
                std::thread::sleep(std::time::Duration::from_millis(20));
            }
            rows.write(row(0, 0))?;
            // Rows that are written together were measured together.
            rows.write(row(0, 1))
        });
        run_steps(&mut record(out.path(), false).unwrap(), vec![step], &()).unwrap();
        out
    };
    let seen = |out: &tempfile::TempDir| {
        read(out.path()).unwrap().1.iter().all(|row| row.others.is_some_and(|part| part > 0.0))
    };
    // A process that another test has started counts with all its time when it ends, which can hide the other work for once.
    let out = (0..20).map(|_| measured()).find(seen);
    drop(busy);
    let out = out.expect("the other work is seen");
    let (heads, rows) = read(out.path()).unwrap();
    assert!(rows.len() == 2 && rows.iter().all(|row| row.steal.is_some()), "{rows:?}");
    assert_csv_agrees(out.path());
    // The report of such rows does not depend on the number of cores.
    let noisy =
        rows.iter().map(|row| Row { others: Some(0.5), steal: Some(0.1), experiment: "peers".into(), ..row.clone() });
    let lines = noisy.map(|row| Line::Row(Box::new(row)).json());
    fs::write(out.path().join(JSON), Line::Head(Box::new(heads[0].clone())).json() + &lines.collect::<String>())
        .unwrap();
    let page = report::page(out.path()).unwrap();
    assert!(page.contains("was busy</b> while 2 of its 2 rows were measured: other work took up to 50.0 %"), "{page}");
    assert!(page.contains("<td>reached (busy)</td>"), "{page}");
}
