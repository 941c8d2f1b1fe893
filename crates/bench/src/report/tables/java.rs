//! The programs in Java, by threads and by processes, beside the printed ones and those in Rust.

use crate::names::java::{COMMAND, CTR, ENCRYPTION_WARM, FILES_WARM, FORMAT, PHALANX};
use crate::report::section::{Cell, Figure, Section, Table, missing, ms};
use crate::report::text::digits;
use crate::row::Row;

/// Rows in Java, and those in Rust that do the same: scheme and measure of each.
const SAME: [([&str; 2], [&str; 2]); 3] = [
    ([CTR, ENCRYPTION_WARM], ["AES-256-CTR", "encryption only"]),
    ([CTR, FILES_WARM], ["AES-256-CTR", "with reading and writing"]),
    ([FORMAT, FILES_WARM], ["Phalanx's format, AES-256-CTR + SHA-3", "with reading and writing"]),
];

/// The tables of all sizes. `others` are the rows of threads in Rust, if they were measured in the same run.
pub fn sections(rows: &[&Row], others: &[&Row]) -> Vec<Section> {
    let mut sizes: Vec<&str> = rows.iter().map(|row| row.case.as_str()).collect();
    sizes.dedup();
    sizes.sort_by_key(|size| rows.iter().find(|row| row.case == *size).map(|row| row.bytes));
    sizes.dedup();
    let mut sections = Vec::new();
    for size in sizes {
        let (processes, threads): (Vec<&Row>, Vec<&Row>) =
            rows.iter().copied().filter(|row| row.case == size).partition(|row| row.processes > 0);
        let others: Vec<&Row> = others.iter().copied().filter(|row| row.case == size).collect();
        sections.extend([by_threads(size, &threads, &others), by_processes(size, &processes)]);
    }
    sections.retain(|section| !section.table.rows.is_empty());
    sections
}

fn by_threads(size: &str, rows: &[&Row], others: &[&Row]) -> Section {
    let title = format!("{size} in Java: ms by threads");
    let lines: Vec<String> = rows.iter().map(|row| row.threads.to_string()).collect();
    let mut figure = Figure::new(&title, "threads", "GB/s");
    let mut cells = cells(rows, &lines, &mut figure);
    for (row, line) in rows.iter().zip(&lines) {
        if let Some((other, ratio)) = beside(row, rows, others) {
            cells.push(Cell { line, column: format!("{}: ms", told(other)), text: ms(other) });
            let column = format!("{} / the same in Rust", told(row));
            cells.push(Cell { line, column, text: digits(ratio) });
        }
    }
    let text = format!(
        "Cold: the first time in a JVM that has just started. Warm: later times in one JVM. A whole command contains the start \
         of the JVM, and syncs its output. A ratio is speed / speed: below 1, Java is slower. The printed times are of encryption \
         alone, on 16 logical cores.{}{}",
        crowded(rows),
        missing(rows)
    );
    Section::new(title, text, Table::pivot("threads", cells)).drawn(figure)
}

fn by_processes(size: &str, rows: &[&Row]) -> Section {
    let title = format!("{size} in Java: ms by processes of MPJ Express");
    let lines: Vec<String> = rows.iter().map(|row| row.processes.to_string()).collect();
    let mut figure = Figure::new(&title, "processes", "GB/s");
    let cells = cells(rows, &lines, &mut figure);
    let text = format!(
        "All processes are on this machine, with one thread each; the printed times are of as many machines, with 16 threads on \
         each, and of encryption alone. Its own time: without the start of JVMs and of MPJ Express.{}{}",
        crowded(rows),
        missing(rows)
    );
    Section::new(title, text, Table::pivot("processes", cells)).drawn(figure)
}

fn told(row: &Row) -> String {
    format!("{}, {}", row.scheme, row.measure)
}

/// Times, speedups, and printed times.
fn cells<'a>(rows: &[&Row], lines: &'a [String], figure: &mut Figure) -> Vec<Cell<'a>> {
    let mut cells = Vec::new();
    for (row, line) in rows.iter().zip(lines) {
        cells.push(Cell { line, column: format!("{}: ms", told(row)), text: ms(row) });
        if let Some(speedup) = row.speedup {
            cells.push(Cell { line, column: format!("{}: speedup", told(row)), text: digits(speedup) });
        }
        if let Some(speed) = row.gb_per_s {
            figure.add(&told(row), false, line, speed);
        }
        for p in row.printed.iter().filter(|p| p.unit == "ms") {
            let text = format!("*{} {}*", p.value, p.unit);
            cells.push(Cell { line, column: format!("*printed: {}, encryption only*", p.by), text });
            figure.add(&format!("printed: {}", p.by), true, line, row.bytes as f64 / p.value / 1e6);
        }
    }
    cells
}

/// The row in Rust that does the same with as many threads, and the speed of Java over its speed.
fn beside<'a>(row: &Row, rows: &[&'a Row], others: &[&'a Row]) -> Option<(&'a Row, f64)> {
    let is_it = |other: &&&Row, [scheme, measure]: [&str; 2]| {
        other.scheme == scheme && other.measure == measure && other.threads == row.threads
    };
    let other = match SAME.iter().find(|(java, _)| *java == [row.scheme.as_str(), row.measure.as_str()]) {
        Some((_, rust)) => others.iter().find(|other| is_it(other, *rust))?,
        None if row.scheme == COMMAND => rows.iter().find(|other| is_it(other, [PHALANX, &row.measure]))?,
        None => return None,
    };
    Some((other, other.median_s? / row.median_s?))
}

fn crowded(rows: &[&Row]) -> String {
    let mut notes: Vec<&str> = rows.iter().filter_map(|row| row.note.as_deref()).collect();
    notes.retain(|note| note.starts_with("oversubscribed"));
    notes.dedup();
    let mut all: Vec<&str> = Vec::new();
    notes.into_iter().for_each(|note| {
        if !all.contains(&note) {
            all.push(note);
        }
    });
    let all: Vec<&str> = all.iter().map(|note| note.trim_start_matches("oversubscribed: ")).collect();
    if all.is_empty() { String::new() } else { format!(" Oversubscribed: {}.", all.join("; ")) }
}
