//! Tables of rows in documents, so that no figure there is older than its rows.
//!
//! Such a table is between two lines, `<!-- rows: FOLDER TABLE -->` and `<!-- end of rows -->`. The folder is that of a
//! run, and the table one of these:
//!
//! - `bars`: what the project requires of each figure, and what was measured; `bars users`, of that experiment alone;
//! - `commands`: whole commands on the largest file, beside other programs;
//! - `mounts`: mounted volumes beside gocryptfs;
//! - `headlines`: a line or two of each of these.

use crate::error::{Error, Result};
use crate::head::Head;
use crate::names::mounts::{CEILING, RATIO};
use crate::names::peers::COPY;
use crate::report::section::Table;
use crate::report::text::{digits, unique};
use crate::row::{Bar, Row};
use crate::{merged, record};
use std::fs;
use std::path::Path;

const BEGIN: &str = "<!-- rows: ";
const END: &str = "<!-- end of rows -->";

/// The document with its tables renewed from the runs in the folder of results.
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
            "headlines" => headlines,
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

/// A sentence with the machine and the commit.
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

fn milliseconds(row: &Row) -> String {
    row.median_s.map(|seconds| digits(seconds * 1e3)).unwrap_or_default()
}

/// A figure. It is bold if it misses the requirement.
fn judged(bar: Option<&Bar>, figure: String) -> String {
    if bar.is_some_and(|bar| bar.reached == Some(false)) { format!("**{figure}**") } else { figure }
}

fn bars(rows: &[Row]) -> Table {
    let mut lines: Vec<(Option<u64>, Vec<String>)> = Vec::new();
    for (row, bar) in
        rows.iter().filter_map(|row| Some((row, row.bar.as_ref()?))).filter(|(row, _)| row.measure != RATIO)
    {
        // A row may have a time and its ratio to another. The requirement shows which of them is meant.
        let ratio = row.speedup.filter(|_| bar.asked.starts_with("at least"));
        let measured = match (row.peak_kib, row.value, ratio) {
            (Some(kib), ..) => format!("{} MiB", digits(kib as f64 / 1024.0)),
            (_, Some(value), _) => digits(value),
            (.., Some(ratio)) => digits(ratio),
            _ => format!("{} ms", milliseconds(row)),
        };
        let measure = row.measure.split(": times as fast").next().unwrap_or(&row.measure);
        let what = format!("{}: {}, {measure}; {}", row.case, row.operation, row.scheme);
        let line = vec![what, bar.asked.clone(), judged(Some(bar), measured) + row.mark()];
        // Rows with several numbers of processes and threads have the same words. For memory the largest figure is
        // shown. For everything else it is the last one, which has the most processes and threads.
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
        let best = row.seconds.iter().copied().reduce(f64::min).map(|best| digits(best * 1e3));
        let text = format!("{} ({}){}", milliseconds(row), best.unwrap_or_default(), row.mark());
        [row.scheme.clone(), format!("{}, ms (best)", row.operation), text]
    });
    Table::pivot("program", &cells.collect::<Vec<_>>())
}

fn mounts(rows: &[Row]) -> Table {
    let rows: Vec<&Row> = rows.iter().filter(|row| row.measure == RATIO).collect();
    let required = |operation: &str| {
        let bars = rows.iter().filter(|row| row.operation == operation).filter_map(|row| row.bar.as_ref());
        unique(bars.map(|bar| bar.asked.split(' ').nth(2).unwrap_or_default())).join("; suite 5 ")
    };
    let mut cells = Vec::new();
    for row in &rows {
        let line = &row.operation;
        cells.push([line.clone(), "at least".into(), required(line)]);
        let scheme = row.scheme.strip_prefix("phalanx, ").unwrap_or(&row.scheme);
        let figure = row.speedup.map_or_else(|| "not run".into(), digits);
        let text = if row.scheme == CEILING { figure } else { judged(row.bar.as_ref(), figure) } + row.mark();
        cells.push([line.clone(), format!("{}: {scheme}", row.case), text]);
    }
    Table::pivot("times as fast as gocryptfs", &cells)
}

fn headlines(rows: &[Row]) -> Table {
    let mut lines = Vec::new();
    let is_file =
        |row: &&Row| row.experiment == "peers" && row.measure == "whole command" && row.operation == "protect";
    let files: Vec<&Row> = rows.iter().filter(is_file).filter(|row| row.items == 1).collect();
    let largest = files.iter().filter(|row| row.median_s.is_some()).map(|row| row.bytes).max();
    let files: Vec<&Row> = files.into_iter().filter(|row| Some(row.bytes) == largest).collect();
    let seconds = |scheme: &str| files.iter().find(|row| row.scheme == scheme)?.median_s;
    for row in files.iter().filter(|row| row.scheme.starts_with("phalanx")) {
        let (Some(median), Some(speed)) = (row.median_s, row.gb_per_s) else { continue };
        let over = ["cp", COPY, "age"].into_iter().filter_map(|peer| Some((digits(seconds(peer)? / median), peer)));
        let over: Vec<String> = over.map(|(ratio, peer)| format!("{ratio} × {peer}")).collect();
        let what = format!("protect a file of {}, {}", row.case, row.scheme);
        lines.push(vec![what, format!("{} GB/s, {}", digits(speed), over.join(", "))]);
    }
    let ceiling = |of: &Row| {
        let is_it = |row: &&Row| {
            row.scheme == CEILING && (&row.case, &row.operation, &row.measure) == (&of.case, &of.operation, &of.measure)
        };
        let ratio = rows.iter().find(is_it).and_then(|row| row.speedup);
        ratio.map_or_else(String::new, |ratio| format!("; {CEILING}, without encryption, {}", digits(ratio)))
    };
    // Ratios with the same words are shown from the least to the greatest.
    let mut ratios: Vec<(String, String, String, Vec<f64>)> = Vec::new();
    for row in rows.iter().filter(|row| row.scheme.starts_with("phalanx") || row.scheme == "batch") {
        let (Some(ratio), Some((of, peer))) = (row.speedup, row.measure.split_once("times as fast as ")) else {
            continue;
        };
        let what = match row.experiment.as_str() {
            "users" if row.bar.is_some() => format!("{} {}, {}", row.operation, row.case, of.trim_end_matches(": ")),
            "volume" if row.operation.starts_with("sequential") => {
                format!("mounted volume on {}, {}", row.case, row.operation)
            }
            "hpc" if row.bar.is_some() => format!("phalanx-mpi {}, {}", row.operation, row.case),
            _ => continue,
        };
        match ratios.iter_mut().find(|(known, of, ..)| (known, of.as_str()) == (&what, peer)) {
            Some((.., all)) => all.push(ratio),
            None => ratios.push((what, peer.to_owned(), ceiling(row), vec![ratio])),
        }
    }
    for (what, peer, ceiling, mut all) in ratios {
        all.sort_by(f64::total_cmp);
        let (least, greatest) = (digits(all[0]), digits(all[all.len() - 1]));
        let span = if least == greatest { least } else { format!("{least} to {greatest}") };
        lines.push(vec![what, format!("{span} × {peer}{ceiling}")]);
    }
    Table::of(["what", "how fast"], lines)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headlines_have_speeds_and_spans() {
        let file = |scheme: &str, seconds: f64| {
            let (experiment, case) = ("peers".into(), "1024 MiB".into());
            let row = Row { experiment, case, operation: "protect".into(), scheme: scheme.into(), ..Row::default() };
            Row { measure: "whole command".into(), bytes: 1 << 30, items: 1, ..row }.timed(vec![seconds])
        };
        let ratio = |suite: u32, ratio: f64| Row {
            experiment: "volume".into(),
            case: "tmpfs".into(),
            operation: "sequential read".into(),
            measure: RATIO.into(),
            scheme: format!("phalanx, suite {suite}"),
            speedup: Some(ratio),
            ..Row::default()
        };
        let bindfs = Row { scheme: CEILING.into(), ..ratio(1, 4.0) };
        let files = [file("cp", 1.0), file(COPY, 0.5), file("phalanx, suite 1", 2.0)];
        let rows: Vec<Row> = files.into_iter().chain([bindfs, ratio(5, 3.0), ratio(1, 1.5)]).collect();
        let lines = headlines(&rows).rows;
        assert_eq!(
            lines[0],
            ["protect a file of 1024 MiB, phalanx, suite 1", "0.537 GB/s, 0.500 × cp, 0.250 × copy by threads"]
        );
        assert_eq!(
            lines[1],
            ["mounted volume on tmpfs, sequential read", "1.50 to 3.00 × gocryptfs; bindfs, without encryption, 4.00"]
        );
        assert_eq!(lines.len(), 2);
    }

    #[test]
    fn bars_show_requirements_and_the_largest_memory() {
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
