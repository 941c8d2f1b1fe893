//! Sections of the page: tables, and charts of them.

use crate::report::chart::Chart;
use crate::report::text::{escaped, unique};
use std::fmt::Write;

/// A table of an experiment. It has charts if none of the papers' own charts shows it.
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

/// A table: the names of its columns, and its rows. Printed figures are between asterisks.
pub struct Table {
    pub columns: Vec<String>,
    pub rows: Vec<Vec<String>>,
}

impl Table {
    pub fn of<const N: usize>(columns: [&str; N], rows: impl IntoIterator<Item = Vec<String>>) -> Self {
        Self { columns: columns.map(String::from).to_vec(), rows: rows.into_iter().collect() }
    }

    /// A table of cells, each with the names of its line and column. Lines and columns are in the order in which they
    /// first appear.
    pub fn pivot(corner: &str, cells: &[[String; 3]]) -> Self {
        let columns = unique(cells.iter().map(|[_, column, _]| column));
        let text = |line: &String, column: &String| {
            let cell = cells.iter().rev().find(|[l, c, _]| l == line && c == column);
            cell.map(|[.., text]| text.clone()).unwrap_or_default()
        };
        let row = |line: &String| {
            let texts = columns.iter().map(|column| text(line, column));
            [line.clone()].into_iter().chain(texts).collect()
        };
        let rows = unique(cells.iter().map(|[line, ..]| line)).into_iter().map(row).collect();
        Self { rows, columns: [corner.to_owned()].into_iter().chain(columns.into_iter().cloned()).collect() }
    }

    /// The table, in a frame that scrolls on narrow screens.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pivots_keep_their_order_and_leave_gaps_empty() {
        let cells = [["b", "y", "1"], ["a", "*x*", "*2*"], ["b", "*x*", "<3"]];
        let html = Table::pivot("size", &cells.map(|cell| cell.map(String::from))).html();
        let rows =
            "<tr><td>b</td><td>1</td><td>&lt;3</td></tr>\n<tr><td>a</td><td></td><td class=\"paper\">2</td></tr>";
        assert!(html.contains(r#"<th>size</th><th>y</th><th class="paper">x</th>"#) && html.contains(rows), "{html}");
    }
}
