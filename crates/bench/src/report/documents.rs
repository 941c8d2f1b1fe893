//! Tables of rows in documents, so that no figure there is older than its rows.
//!
//! Such a table is between two lines, `<!-- rows: FOLDER TABLE -->` and `<!-- end of rows -->`. The folder is that of a run,
//! and the table one of these:
//!
//! - `bars`: what the project requires of each figure, and what was measured; `bars users`, of that experiment alone;
//! - `commands`: whole commands on the largest file, beside other programs;
//! - `mounts`: mounted volumes beside gocryptfs.

use super::table::Table;
use super::{Cell, digits, milliseconds};
use crate::head::Head;
use crate::row::{Bar, Row};
use crate::volume::mounts::{CEILING, RATIO};
use crate::{Error, Result, merged, record};
use std::fs;
use std::path::Path;

const BEGIN: &str = "<!-- rows: ";
const END: &str = "<!-- end of rows -->";

/// The document with its tables made anew from the runs in the folder of results.
pub fn renewed(document: &Path, results: &Path) -> Result<String> {
    let text = fs::read_to_string(document).map_err(Error::at(document))?;
    let wrong = |line: &str, why: &str| Error::Folder(document.into(), format!("{line}: {why}"));
    let (mut new, mut lines) = (String::with_capacity(text.len()), text.lines());
    while let Some(line) = lines.next() {
        new += line;
        new.push('\n');
        let Some(names) = line.strip_prefix(BEGIN) else { continue };
        let names = names.strip_suffix(" -->").and_then(|names| names.split_once(' '));
        let (folder, table) = names.ok_or_else(|| wrong(line, "a folder and a table are missing"))?;
        let (table, experiment) = table.split_once(' ').map_or((table, None), |(table, of)| (table, Some(of)));
        let make = match table {
            "bars" => bars,
            "commands" => commands,
            "mounts" => mounts,
            _ => return Err(wrong(line, "there is no such table")),
        };
        let (heads, mut rows) = record::read(&results.join(folder))?;
        rows.extend(merged::all(&results.join(folder))?.into_iter().flat_map(|part| part.rows));
        rows.retain(|row| experiment.is_none_or(|of| row.experiment == of));
        if rows.is_empty() {
            return Err(wrong(line, "there are no such rows"));
        }
        new += &format!("\n{}\n{}\n{END}\n", markdown(&make(&rows)), heads.first().map(source).unwrap_or_default());
        if !lines.any(|line| line == END) {
            return Err(wrong(line, "its end is missing"));
        }
    }
    Ok(new)
}

/// The machine and the commit, as a sentence.
fn source(head: &Head) -> String {
    let Head { cpu, cores, commit, date, .. } = head;
    let day = date.split('T').next().unwrap_or(date);
    format!("{cpu}, {cores} cores, commit `{commit}`, {day}.\n")
}

fn markdown(table: &Table) -> String {
    let line = |cells: &[String]| {
        let cells: Vec<String> = cells.iter().map(|cell| cell.replace('|', "\\|")).collect();
        format!("| {} |\n", cells.join(" | "))
    };
    let rule = format!("|{}\n", "---|".repeat(table.columns.len()));
    let rows: String = table.rows.iter().map(|row| line(row)).collect();
    line(&table.columns) + &rule + &rows
}

/// A figure, bold where it misses what is required.
fn judged(bar: Option<&Bar>, figure: String) -> String {
    if bar.is_some_and(|bar| bar.reached == Some(false)) { format!("**{figure}**") } else { figure }
}

fn bars(rows: &[Row]) -> Table {
    let mut lines: Vec<(Option<u64>, Vec<String>)> = Vec::new();
    for (row, bar) in
        rows.iter().filter_map(|row| Some((row, row.bar.as_ref()?))).filter(|(row, _)| row.measure != RATIO)
    {
        // A row may have a time and its ratio to another: what is asked says which of them is meant.
        let ratio = row.speedup.filter(|_| bar.asked.starts_with("at least"));
        let measured = match (row.peak_kib, row.value, ratio) {
            (Some(kib), ..) => format!("{} MiB", digits(kib as f64 / 1024.0)),
            (_, Some(value), _) => digits(value),
            (.., Some(ratio)) => digits(ratio),
            _ => format!("{} ms", milliseconds(row).unwrap_or_default()),
        };
        let measure = row.measure.split(": times as fast").next().unwrap_or(&row.measure);
        let what = format!("{}: {}, {measure}; {}", row.case, row.operation, row.scheme);
        let line = vec![what, bar.asked.clone(), judged(Some(bar), measured)];
        // Rows of several processes and threads have the same words. Of memory the largest counts, and of the rest the last,
        // with the most of them.
        match lines.iter_mut().find(|(_, old)| old[..2] == line[..2]) {
            Some((most, _)) if row.peak_kib.is_some() && *most > row.peak_kib => {}
            Some(old) => *old = (row.peak_kib, line),
            None => lines.push((row.peak_kib, line)),
        }
    }
    Table::of(["what", "required", "measured"], lines.into_iter().map(|(_, line)| line))
}

fn commands(rows: &[Row]) -> Table {
    let is_one = |row: &&Row| {
        row.experiment == "peers" && row.measure == "whole command" && row.items == 1 && row.median_s.is_some()
    };
    let largest = rows.iter().filter(is_one).map(|row| row.bytes).max();
    let mut rows: Vec<&Row> = rows.iter().filter(is_one).filter(|row| Some(row.bytes) == largest).collect();
    rows.sort_by(|a, b| a.median_s.partial_cmp(&b.median_s).expect("times are numbers"));
    rows.sort_by_key(|row| row.operation != "protect");
    let cells = rows.into_iter().map(|row| {
        let text = milliseconds(row).unwrap_or_default();
        Cell { line: &row.scheme, column: format!("{}, ms", row.operation), text }
    });
    Table::pivot("program", cells)
}

fn mounts(rows: &[Row]) -> Table {
    let rows: Vec<&Row> = rows.iter().filter(|row| row.measure == RATIO).collect();
    let required = |operation: &str| {
        let mut all: Vec<&str> = Vec::new();
        for bar in rows.iter().filter(|row| row.operation == operation).filter_map(|row| row.bar.as_ref()) {
            let least = bar.asked.split(' ').nth(2).unwrap_or_default();
            if !all.contains(&least) {
                all.push(least);
            }
        }
        all.join("; suite 5 ")
    };
    let mut cells = Vec::new();
    for row in &rows {
        let line = row.operation.as_str();
        cells.push(Cell { line, column: "at least".into(), text: required(line) });
        let scheme = row.scheme.strip_prefix("phalanx, ").unwrap_or(&row.scheme);
        let figure = row.speedup.map_or_else(|| "not run".into(), digits);
        let text = if row.scheme == CEILING { figure } else { judged(row.bar.as_ref(), figure) };
        cells.push(Cell { line, column: format!("{}: {scheme}", row.case), text });
    }
    Table::pivot("times as fast as gocryptfs", cells)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bars_show_what_is_asked_and_the_largest_memory() {
        let bar = |asked: &str| Some(Bar { asked: asked.into(), reached: Some(true) });
        let memory =
            |kib: u64| Row { measure: "m".into(), peak_kib: Some(kib), bar: bar("at most 128 MiB"), ..Row::default() };
        let timed = |measure: &str, asked: &str| {
            let row = Row { measure: measure.into(), bar: bar(asked), ..Row::default() };
            Row { speedup: Some(3.0), ..row.timed(vec![0.002]) }
        };
        let rows =
            [memory(2048), memory(4096), memory(1024), timed("r", "at least 2 times"), timed("t", "at most 5 ms")];
        let measured: Vec<String> = bars(&rows).rows.into_iter().map(|line| line[2].clone()).collect();
        assert_eq!(measured, ["4.00 MiB", "3.00", "2.00 ms"]);
    }
}
