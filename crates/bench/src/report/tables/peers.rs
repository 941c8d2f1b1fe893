//! The tables of whole commands.

use crate::report::section::{Section, Table, milliseconds};
use crate::report::text::digits;
use crate::row::Row;

pub fn sections(rows: &[Row]) -> Vec<Section> {
    let is_ratio = |row: &&Row| row.speedup.is_some();
    let (ratios, measured): (Vec<&Row>, Vec<&Row>) = rows.iter().partition(is_ratio);
    vec![bars(rows), commands(&measured), comparisons(&ratios)]
}

fn input(row: &Row) -> String {
    format!("{}: {}, {}", row.case, row.operation, row.measure)
}

/// The requirements of the project.
fn bars(rows: &[Row]) -> Section {
    let line = |row: &Row| {
        let bar = row.bar.as_ref()?;
        let measured = match (row.speedup, row.peak_kib) {
            (Some(ratio), _) => digits(ratio),
            (_, Some(kib)) => format!("{} MiB", digits(kib as f64 / 1024.0)),
            _ => format!("{} ms", milliseconds(row)?),
        };
        Some(vec![input(row), row.scheme.clone(), bar.asked.clone(), measured, bar.verdict().to_owned() + row.mark()])
    };
    let table = Table::of(["what", "program", "asked", "measured", ""], rows.iter().filter_map(line));
    Section::new("the requirements", String::new(), table)
}

fn commands(rows: &[&Row]) -> Section {
    let line = |row: &&Row| {
        let times = match (milliseconds(row), &row.note) {
            (Some(times), _) => times + row.mark(),
            (None, note) => note.clone().unwrap_or_default(),
        };
        let range = |pick: fn(f64, f64) -> f64| row.seconds.iter().copied().reduce(pick).map(|s| digits(s * 1e3));
        let between = range(f64::min).zip(range(f64::max)).map(|(least, most)| format!("{least} to {most}"));
        let peak = row.peak_kib.map(|kib| format!("{} MiB", digits(kib as f64 / 1024.0)));
        let speed = row.gb_per_s.filter(|_| row.bytes > 100_000).map(digits);
        let cells = [Some(input(row)), Some(row.scheme.clone()), Some(times), between, speed, peak];
        cells.map(Option::unwrap_or_default).to_vec()
    };
    let columns = ["what", "program", "median, ms", "best and worst, ms", "GB/s", "peak memory"];
    let text = "Every round runs each program once. The first round is not counted. `cp` neither encrypts nor checks, \
                nor does `copy by threads`: a thread for each core that copies 1 MiB at a time, as a whole process too; \
                `openssl enc` does not authenticate. `restic` looks for equal chunks, and syncs what it writes; its compression is \
                off.";
    let table = Table::of(columns, rows.iter().map(line));
    Section::new("the commands", text, table)
}

fn comparisons(rows: &[&Row]) -> Section {
    let line = |row: &&Row| {
        let cells = [Some(input(row)), Some(row.scheme.clone()), row.over.clone(), row.speedup.map(digits)];
        cells.map(Option::unwrap_or_default).to_vec()
    };
    let table = Table::of(["what", "program", "beside", "times as fast"], rows.iter().map(line));
    Section::new("ratios of the medians", String::new(), table)
}
