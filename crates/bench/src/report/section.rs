//! Sections of the page: tables, and charts of them.

use crate::report::chart::Chart;
use crate::report::text::{digits, escaped};
use crate::row::Row;
use std::fmt::Write;

/// A table of an experiment, with charts if they are none of the papers' own.
pub struct Section {
    pub title: String,
    /// Notes that readers need.
    pub text: String,
    pub table: Table,
    pub charts: Vec<Chart>,
}

impl Section {
    pub fn new(title: impl Into<String>, text: impl Into<String>, table: Table) -> Self {
        Self { title: title.into(), text: text.into(), table, charts: Vec::new() }
    }
}

/// A table: the names of its columns, and its rows. Printed figures stand between asterisks.
pub struct Table {
    pub columns: Vec<String>,
    pub rows: Vec<Vec<String>>,
}

impl Table {
    pub fn of<const N: usize>(columns: [&str; N], rows: impl IntoIterator<Item = Vec<String>>) -> Self {
        Self { columns: columns.map(String::from).to_vec(), rows: rows.into_iter().collect() }
    }

    /// A table of cells, each with the names of its line and column, which stand in the order in which they come.
    pub fn pivot(corner: &str, cells: impl IntoIterator<Item = [String; 3]>) -> Self {
        let mut table = Self { columns: vec![corner.into()], rows: Vec::new() };
        for [line, column, text] in cells {
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
                    table.rows.push(vec![line]);
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

/// The rows that were not run, and why, as sentences for below a table.
pub fn not_run<'a>(rows: impl IntoIterator<Item = &'a Row>) -> String {
    let mut reasons: Vec<(&str, Vec<String>)> = Vec::new();
    for (row, why) in rows.into_iter().filter_map(|row| Some((row, row.why_not()?))) {
        let what = format!("{}, {}", row.scheme, row.engine);
        match reasons.iter_mut().find(|(reason, _)| *reason == why) {
            Some((_, all)) if all.contains(&what) => {}
            Some((_, all)) => all.push(what),
            None => reasons.push((why, vec![what])),
        }
    }
    reasons.iter().map(|(why, what)| format!(" Not run: {}: {why}.", what.join("; "))).collect()
}

/// A row's median.
pub fn milliseconds(row: &Row) -> Option<String> {
    row.median_s.map(|s| digits(s * 1e3))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pivots_keep_their_order_and_leave_gaps_empty() {
        let cells = [["b", "y", "1"], ["a", "*x*", "*2*"], ["b", "*x*", "<3"]];
        let html = Table::pivot("size", cells.map(|cell| cell.map(String::from))).html();
        let rows =
            "<tr><td>b</td><td>1</td><td>&lt;3</td></tr>\n<tr><td>a</td><td></td><td class=\"paper\">2</td></tr>";
        assert!(html.contains(r#"<th>size</th><th>y</th><th class="paper">x</th>"#) && html.contains(rows), "{html}");
    }
}
