//! The runner: rows as they come, interrupted runs, and the two files that must agree.

use phalanx_bench::head::Head;
use phalanx_bench::record::{CSV, JSON, Record, Step, read, run_steps};
use phalanx_bench::row::{Bar, Over, Row};
use phalanx_bench::{Error, Result, Setup, Watch, paper, report};
use phalanx_core::engine::Levels;
use std::cell::{Cell, RefCell};
use std::fs;
use std::path::Path;

fn setup(out: &Path, resume: bool) -> Setup {
    let (out, levels, device) = (out.to_owned(), Levels::detect(), Err("none was looked for".into()));
    Setup {
        out,
        quick: true,
        resume,
        levels,
        threads: 2,
        device,
        program: "phalanx".into(),
        volume: Default::default(),
        hpc: Default::default(),
    }
}

fn record(out: &Path, resume: bool) -> Result<Record> {
    let setup = setup(out, resume);
    let head = Head::now(&setup, vec!["cp 9".into()]);
    Record::open(&setup, head)
}

fn row(step: usize, i: usize) -> Row {
    let row = Row {
        experiment: "sefps".into(),
        case: format!("case {step}"),
        operation: "protect".into(),
        measure: "total".into(),
        scheme: format!("a \"scheme\", {i}"),
        engine: "serial".into(),
        bytes: 1000,
        items: 1,
        threads: 1,
        printed: paper::p1().printed(|v| v.case.bytes == Some(5610) && v.measure == "total speed"),
        bar: Some(Bar { asked: "at most 1 ms".into(), reached: Some(i == 0) }),
        note: Some("two\nlines".into()),
        ..Row::default()
    };
    row.timed(vec![0.25, 1.0 / 3.0, 1e-9 * step as f64]).compared(Over { name: "x", median_s: 0.5 }, Some(2))
}

const STEPS: usize = 4;
const ROWS: usize = 3;

/// Steps of three rows each. Each counts its runs, and the one named `fails` fails after one row.
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
    assert_eq!(records[0], Row::COLUMNS);
    assert_eq!(records.len(), rows.len() + 1);
    for (record, row) in records[1..].iter().zip(&rows) {
        assert_eq!(record[..], row.fields());
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
    assert!(read(out.path()).unwrap().1 == all_rows());
    assert_csv_agrees(out.path());
}

#[test]
fn a_run_that_was_cut_short_goes_on_without_losing_or_repeating_a_row() {
    let out = tempfile::tempdir().unwrap();
    let ran = RefCell::default();
    run_steps(&mut record(out.path(), false).unwrap(), steps(&ran, Some(2)), &()).unwrap_err();
    assert!(read(out.path()).unwrap().1 == all_rows()[..7]);
    assert!(matches!(record(out.path(), false), Err(Error::Exists(_))));
    run_steps(&mut record(out.path(), true).unwrap(), steps(&ran, None), &()).unwrap();
    // Finished steps are not measured again, but the one in the middle is.
    assert_eq!(*ran.borrow(), [0, 1, 2, 2, 3]);
    let (heads, rows) = read(out.path()).unwrap();
    assert!(rows == all_rows());
    assert_eq!(heads.len(), 2);
    assert_csv_agrees(out.path());
    // A complete run has nothing left to do.
    run_steps(&mut record(out.path(), true).unwrap(), steps(&ran, None), &()).unwrap();
    assert_eq!(ran.borrow().len(), 5);
    assert!(read(out.path()).unwrap().1 == all_rows());
}

#[test]
fn a_run_cut_at_any_byte_can_be_gone_on_with() {
    let out = tempfile::tempdir().unwrap();
    run_steps(&mut record(out.path(), false).unwrap(), steps(&RefCell::default(), None), &()).unwrap();
    let whole = fs::read(out.path().join(JSON)).unwrap();
    for cut in (0..whole.len()).step_by(211).chain([whole.len() - 1]) {
        let out = tempfile::tempdir().unwrap();
        fs::write(out.path().join(JSON), &whole[..cut]).unwrap();
        fs::write(out.path().join(CSV), "half a li").unwrap();
        let kept = read(out.path()).map_or(Vec::new(), |(_, rows)| rows);
        run_steps(&mut record(out.path(), true).unwrap(), steps(&RefCell::default(), None), &()).unwrap();
        assert!(read(out.path()).unwrap().1 == all_rows(), "cut at {cut}");
        assert!(kept == all_rows()[..kept.len()]);
        assert_csv_agrees(out.path());
    }
}

#[test]
fn folders_that_do_not_fit_are_refused() {
    let out = tempfile::tempdir().unwrap();
    let kept = record(out.path(), false).unwrap();
    let line = record(out.path(), true).err().unwrap().to_string();
    assert!(line.contains("another run is writing it"), "{line}");
    drop(kept);
    let mut other = setup(out.path(), true);
    other.quick = false;
    let line = Record::open(&other, Head::now(&other, vec![])).err().unwrap().to_string();
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
    // The measured speed of each case, the printed one beside it, and the reason for a correction.
    let line = text.lines().find(|line| line.starts_with("<tr><td>case 1</td>")).unwrap();
    assert!(line.contains("<td>4.00e-6</td>") && line.contains(r#"<td class="paper">0.030343 GB/s</td>"#), "{line}");
    assert!(text.contains(r#"<th class="paper">printed: P1 platform 1 CSP</th>"#));
    assert!(text.contains(&paper::p1().corrections["gbps"]), "{text}");
    assert!(text.contains("cp 9"));
    assert!(
        text.ends_with("</html>\n") && fs::read_dir(out.path()).unwrap().count() == 3,
        "rows twice, and one report"
    );
    // Written again, it is the same.
    report::write(out.path()).unwrap();
    assert_eq!(fs::read_to_string(out.path().join(report::FILE)).unwrap(), text);
}
