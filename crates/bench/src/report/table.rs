//! Tables of the sections: lines by columns, both in the order in which they come.

use super::html::escaped;
use crate::paper::Printed;
use crate::row::Row;
use std::fmt::Write;

/// A table: the names of its columns, and its rows. Printed figures stand between asterisks.
pub struct Table {
    pub columns: Vec<String>,
    pub rows: Vec<Vec<String>>,
}

/// A cell of a table.
pub struct Cell<'a> {
    pub line: &'a str,
    pub column: String,
    pub text: String,
}

impl Table {
    /// A table with fixed columns.
    pub fn of<const N: usize>(columns: [&str; N], rows: impl IntoIterator<Item = Vec<String>>) -> Self {
        Self { columns: columns.map(String::from).to_vec(), rows: rows.into_iter().collect() }
    }

    /// Lines by the row's name, columns by the column's, both in the order in which they come.
    pub fn pivot<'a>(corner: &str, cells: impl IntoIterator<Item = Cell<'a>>) -> Self {
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

    /// The table, in a frame that scrolls where the screen is narrow.
    pub fn html(&self) -> String {
        let cell = |tag: &str, text: &str| match text.strip_prefix('*').and_then(|text| text.strip_suffix('*')) {
            Some(printed) => format!(r#"<{tag} class="paper">{}</{tag}>"#, escaped(printed)),
            None => format!("<{tag}>{}</{tag}>", escaped(text)),
        };
        let mut html = String::from(r#"<div class="scroll" tabindex="0"><table class="full"><thead><tr>"#);
        self.columns.iter().for_each(|column| html += &cell("th", column));
        html += "</tr></thead><tbody>\n";
        for row in &self.rows {
            let cells: String = row.iter().map(|text| cell("td", text)).collect();
            let _ = writeln!(html, "<tr>{cells}</tr>");
        }
        html + "</tbody></table></div>\n"
    }
}

/// A row's measured cell, and the cells of the printed figures beside it, whose measure is `printed`.
pub fn beside<'a>(
    row: &'a Row,
    column: String,
    cell: impl Fn(&Row) -> Option<String>,
    printed: &'static str,
) -> impl Iterator<Item = Cell<'a>> {
    let text = cell(row).unwrap_or_else(|| why_not(row).map(|_| "not run".into()).unwrap_or_default());
    let measured = Cell { line: &row.case, column, text };
    let printed = row.printed.iter().filter(move |p| p.measure == printed);
    let unit = |p: &Printed| if p.unit == "x" { String::new() } else { format!(" {}", p.unit) };
    let printed = printed.map(move |p| Cell {
        line: &row.case,
        column: format!("*printed: {}*", p.by),
        text: format!("*{}{}*", p.value, unit(p)),
    });
    [measured].into_iter().chain(printed)
}

/// Why a row has no times.
pub fn why_not(row: &Row) -> Option<&str> {
    row.note.as_deref()?.strip_prefix("not run: ")
}

/// The rows that were not run, and why, as sentences for below a table.
pub fn not_run<'a>(rows: impl IntoIterator<Item = &'a Row>) -> String {
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
pub fn digits(number: f64) -> String {
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

/// A row's speed.
pub fn gb_per_s(row: &Row) -> Option<String> {
    row.gb_per_s.map(digits)
}

/// A row's median.
pub fn milliseconds(row: &Row) -> Option<String> {
    row.median_s.map(|s| digits(s * 1e3))
}

/// "scheme, engine".
pub fn program(row: &Row) -> String {
    format!("{}, {}", row.scheme, row.engine)
}

/// A part of 1.
pub fn percent(part: f64) -> String {
    format!("{} %", digits(part * 100.0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pivots_keep_their_order_and_leave_gaps_empty() {
        let cell = |line, column: &str, text: &str| Cell { line, column: column.into(), text: text.into() };
        let cells = [cell("b", "y", "1"), cell("a", "*x*", "*2*"), cell("b", "*x*", "<3")];
        let html = Table::pivot("size", cells).html();
        let rows =
            "<tr><td>b</td><td>1</td><td>&lt;3</td></tr>\n<tr><td>a</td><td></td><td class=\"paper\">2</td></tr>";
        assert!(html.contains(r#"<th>size</th><th>y</th><th class="paper">x</th>"#) && html.contains(rows), "{html}");
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
