//! The report of a run: Markdown tables and SVG figures, measured beside printed, from the rows alone.

mod figure;
mod hpc;
mod keys;
mod peers;
mod sefps;
mod users;

use crate::row::Row;
use crate::run;
use crate::{Error, Result};
use figure::Figure;
use std::fmt::Write;
use std::fs;
use std::path::Path;

/// The report's name in the run's folder.
pub const FILE: &str = "report.md";

/// Reads the rows of a run's folder, and writes the report and its figures beside them.
pub fn write(out: &Path) -> Result<()> {
    let (heads, rows) = run::read(out)?;
    let mut text = String::from("# Measured, beside what the papers print\n\n");
    for head in &heads {
        text += &Table::of(["", ""], head.lines().into_iter().map(|(name, value)| vec![name.into(), value])).markdown();
    }
    let _ = writeln!(
        text,
        "\nEach figure is a median; all raw times are in [{}]({}) and [{}]({}). GB and MB are powers of 10.",
        run::CSV,
        run::CSV,
        run::JSON,
        run::JSON
    );
    type Sections = fn(&[Row]) -> Vec<Section>;
    let experiments: [(&str, &str, Sections); 5] = [
        ("sefps", "P1: SEFPS", sefps::sections),
        ("users", "P2: many users", users::sections),
        ("hpc", "P3: one file, many threads", hpc::sections),
        ("keys", "P5: digests of keys", keys::sections),
        ("peers", "Whole commands beside other programs", peers::sections),
    ];
    for (name, title, sections) in experiments {
        let rows: Vec<Row> = rows.iter().filter(|row| row.experiment == name).cloned().collect();
        if rows.is_empty() {
            continue;
        }
        let _ = write!(text, "\n## {title}\n");
        for section in sections(&rows) {
            let _ = write!(text, "\n### {}\n\n{}", section.title, section.table.markdown());
            if !section.text.is_empty() {
                let _ = write!(text, "\n{}\n", section.text);
            }
            if let Some(figure) = section.figure.filter(|figure| !figure.is_empty()) {
                figure.draw(out)?;
                let _ = write!(text, "\n![{}]({})\n", figure.title, figure.file());
            }
        }
        text += &corrections(&rows);
    }
    let path = out.join(FILE);
    fs::write(&path, text).map_err(Error::at(&path))
}

/// A part of the report.
struct Section {
    title: String,
    /// What must be known to read it.
    text: String,
    table: Table,
    figure: Option<Figure>,
}

/// What was corrected in the printed figures, or is doubtful in them.
fn corrections(rows: &[Row]) -> String {
    let mut lines: Vec<&String> = Vec::new();
    for why in rows.iter().flat_map(|row| &row.printed).flat_map(|printed| &printed.why) {
        if !lines.contains(&why) {
            lines.push(why);
        }
    }
    let list: String = lines.iter().map(|line| format!("- {line}\n")).collect();
    if list.is_empty() { list } else { format!("\nIn the printed figures:\n\n{list}") }
}

/// A table: its columns' names, and its rows.
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
            let cells: Vec<String> = cells.iter().map(|cell| cell.replace('|', "\\|")).collect();
            format!("| {} |\n", cells.join(" | "))
        };
        let mut text = line(&self.columns);
        text += &format!("|{}\n", "---|".repeat(self.columns.len()));
        self.rows.iter().for_each(|row| text += &line(row));
        text
    }
}

/// A cell on its way into a table.
struct Cell<'a> {
    line: &'a str,
    column: String,
    text: String,
}

/// A row's measured cell, and those of the printed figures beside it, whose measure is `printed`.
fn beside<'a>(
    row: &'a Row,
    column: String,
    cell: impl Fn(&Row) -> Option<String>,
    printed: &'static str,
) -> impl Iterator<Item = Cell<'a>> {
    let text = cell(row).or_else(|| row.note.clone()).unwrap_or_default();
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

/// Three digits that count.
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
