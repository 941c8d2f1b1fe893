//! The report of a run: Markdown tables and SVG figures with measured and printed values, made from the rows alone.

mod figure;
mod gpu;
mod hpc;
mod keys;
mod peers;
mod sefps;
mod users;
mod volume;

use crate::head::Head;
use crate::row::Row;
use crate::{Error, Result, merged, record, row};
use figure::Figure;
use std::fmt::Write;
use std::fs;
use std::path::Path;

/// The report's name in the run's folder.
pub const FILE: &str = "report.md";

/// Reads the rows of a run's folder, and writes the report and its figures there. Rows that were added to the folder
/// follow, each machine under its own name.
pub fn write(out: &Path) -> Result<()> {
    let (heads, rows) = record::read(out)?;
    let mut text = String::from("# Measured, beside what the papers print\n\n");
    text += &machine(&heads);
    let _ = writeln!(
        text,
        "\nEach figure is a median; all raw times are in [{}]({}) and [{}]({}). GB and MB are powers of 10.",
        record::CSV,
        record::CSV,
        record::JSON,
        record::JSON
    );
    text += &experiments(out, &rows, "")?;
    for part in merged::all(out)? {
        let head = &part.heads[0];
        let device = head.device.as_ref().map(|device| format!(" with {}", device.name)).unwrap_or_default();
        let _ = write!(text, "\n# On another machine: {}\n\n", escaped(&format!("{}{device}", head.cpu)));
        text += &machine(&part.heads);
        text += "\nThese rows were measured on that machine and merged into this report.\n";
        text += &experiments(out, &part.rows, &format!("{}-", part.name))?;
    }
    let path = out.join(FILE);
    fs::write(&path, text).map_err(Error::at(&path))
}

/// The heads of one machine's run.
fn machine(heads: &[Head]) -> String {
    let table = |head: &Head| {
        Table::of(["", ""], head.lines().into_iter().map(|(name, value)| vec![name.into(), value])).markdown()
    };
    heads.iter().map(table).collect()
}

/// The sections of all experiments. `prefix` begins the names of their figures' files.
fn experiments(out: &Path, rows: &[Row], prefix: &str) -> Result<String> {
    let mut text = String::new();
    for name in row::EXPERIMENTS {
        let rows: Vec<Row> = rows.iter().filter(|row| row.experiment == name).cloned().collect();
        if rows.is_empty() {
            continue;
        }
        let (title, sections) = match name {
            "sefps" => ("P1: SEFPS", sefps::sections(&rows)),
            "users" => ("P2: many users", users::sections(&rows)),
            "hpc" => ("P3: one file, many threads and processes", hpc::sections(&rows)),
            "volume" => ("P4: a file system that encrypts", volume::sections(&rows)),
            "keys" => ("P5: digests of keys", keys::sections(&rows)),
            "peers" => ("Whole commands compared with other programs", peers::sections(&rows)),
            _ => ("The device's kernels", gpu::sections(&rows)),
        };
        let _ = write!(text, "\n## {title}\n");
        for section in sections {
            let _ = write!(text, "\n### {}\n\n{}", escaped(&section.title), section.table.markdown());
            if !section.text.is_empty() {
                let _ = write!(text, "\n{}\n", escaped(&section.text));
            }
            if let Some(mut figure) = section.figure.filter(|figure| !figure.is_empty()) {
                figure.name.insert_str(0, prefix);
                figure.draw(out)?;
                let _ = write!(text, "\n![{}]({})\n", escaped(&figure.title), figure.file());
            }
        }
        text += &corrections(&rows);
    }
    Ok(text)
}

/// Escapes markup in the texts of rows.
fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('[', "&#91;")
}

/// A part of the report.
struct Section {
    title: String,
    /// Notes that readers need.
    text: String,
    table: Table,
    figure: Option<Figure>,
}

/// Corrections of printed figures, and doubts about them.
fn corrections(rows: &[Row]) -> String {
    let mut lines: Vec<&String> = Vec::new();
    for why in rows.iter().flat_map(|row| &row.printed).flat_map(|printed| &printed.why) {
        if !lines.contains(&why) {
            lines.push(why);
        }
    }
    let list: String = lines.iter().map(|line| format!("- {}\n", escaped(line))).collect();
    if list.is_empty() { list } else { format!("\nIn the printed figures:\n\n{list}") }
}

/// A table: the names of its columns, and its rows.
struct Table {
    columns: Vec<String>,
    rows: Vec<Vec<String>>,
}

impl Table {
    fn of<const N: usize>(columns: [&str; N], rows: impl IntoIterator<Item = Vec<String>>) -> Self {
        Self { columns: columns.map(String::from).to_vec(), rows: rows.into_iter().collect() }
    }

    /// Lines by the row's name, columns by the column's, both in the order in which they come.
    fn pivot<'a>(corner: &str, cells: impl IntoIterator<Item = Cell<'a>>) -> Self {
        let mut table = Self { columns: vec![corner.into()], rows: Vec::new() };
        for Cell { line, column, text } in cells {
            let column = match table.columns.iter().skip(1).position(|c| *c == column) {
                Some(at) => at + 1,
                None => {
                    table.columns.push(column);
                    table.columns.len() - 1
                }
            };
            let row = match table.rows.iter().position(|r| r[0] == line) {
                Some(at) => &mut table.rows[at],
                None => {
                    table.rows.push(vec![line.into()]);
                    table.rows.last_mut().expect("it was pushed")
                }
            };
            row.resize(row.len().max(column + 1), String::new());
            row[column] = text;
        }
        let width = table.columns.len();
        table.rows.iter_mut().for_each(|row| row.resize(width, String::new()));
        table
    }

    fn markdown(&self) -> String {
        let line = |cells: &[String]| {
            let cells: Vec<String> = cells.iter().map(|cell| escaped(cell).replace('|', "\\|")).collect();
            format!("| {} |\n", cells.join(" | "))
        };
        let mut text = line(&self.columns);
        text += &format!("|{}\n", "---|".repeat(self.columns.len()));
        self.rows.iter().for_each(|row| text += &line(row));
        text
    }
}

/// A cell of a table.
struct Cell<'a> {
    line: &'a str,
    column: String,
    text: String,
}

/// A row's measured cell, and the cells of the printed figures beside it, whose measure is `printed`.
fn beside<'a>(
    row: &'a Row,
    column: String,
    cell: impl Fn(&Row) -> Option<String>,
    printed: &'static str,
) -> impl Iterator<Item = Cell<'a>> {
    let text = cell(row).unwrap_or_else(|| why_not(row).map(|_| "not run".into()).unwrap_or_default());
    let measured = Cell { line: &row.case, column, text };
    let printed = row.printed.iter().filter(move |p| p.measure == printed);
    let unit = |p: &crate::paper::Printed| if p.unit == "x" { String::new() } else { format!(" {}", p.unit) };
    let printed = printed.map(move |p| Cell {
        line: &row.case,
        column: format!("*printed: {}*", p.by),
        text: format!("*{}{}*", p.value, unit(p)),
    });
    [measured].into_iter().chain(printed)
}

/// Why a row has no times.
fn why_not(row: &Row) -> Option<&str> {
    row.note.as_deref()?.strip_prefix("not run: ")
}

/// The rows that were not run, and why, as sentences for below a table.
fn not_run<'a>(rows: impl IntoIterator<Item = &'a Row>) -> String {
    let mut reasons: Vec<(&str, Vec<String>)> = Vec::new();
    for (row, why) in rows.into_iter().filter_map(|row| Some((row, why_not(row)?))) {
        let what = program(row);
        match reasons.iter_mut().find(|(reason, _)| *reason == why) {
            Some((_, all)) if all.contains(&what) => {}
            Some((_, all)) => all.push(what),
            None => reasons.push((why, vec![what])),
        }
    }
    reasons.iter().map(|(why, what)| format!(" Not run: {}: {why}.", what.join("; "))).collect()
}

/// Three significant digits.
fn digits(number: f64) -> String {
    match number.abs() {
        n if n >= 100.0 => format!("{number:.0}"),
        n if n >= 10.0 => format!("{number:.1}"),
        n if n >= 1.0 => format!("{number:.2}"),
        n if n >= 0.1 => format!("{number:.3}"),
        n if n >= 0.01 => format!("{number:.4}"),
        0.0 => "0".into(),
        _ => format!("{number:.2e}"),
    }
}

fn gb_per_s(row: &Row) -> Option<String> {
    row.gb_per_s.map(digits)
}

fn milliseconds(row: &Row) -> Option<String> {
    row.median_s.map(|s| digits(s * 1e3))
}

/// "scheme, engine".
fn program(row: &Row) -> String {
    format!("{}, {}", row.scheme, row.engine)
}

fn percent(part: f64) -> String {
    format!("{} %", digits(part * 100.0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pivots_keep_their_order_and_leave_gaps_empty() {
        let cell = |line, column: &str, text: &str| Cell { line, column: column.into(), text: text.into() };
        let cells = [cell("b", "y", "1"), cell("a", "x", "2"), cell("b", "x", "3|4")];
        let text = Table::pivot("size", cells).markdown();
        assert_eq!(text, "| size | y | x |\n|---|---|---|\n| b | 1 | 3\\|4 |\n| a |  | 2 |\n");
    }

    #[test]
    fn three_digits() {
        let cases = [(123.4, "123"), (12.34, "12.3"), (1.234, "1.23"), (0.1234, "0.123"), (0.01234, "0.0123")];
        for (number, text) in cases {
            assert_eq!(digits(number), text);
        }
        assert_eq!(digits(0.0), "0");
        assert_eq!(digits(0.000123), "1.23e-4");
    }
}
