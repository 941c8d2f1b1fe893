//! Sections of the page: tables, and figures of any number of lines.

use crate::report::chart::{Chart, Line, Thing, on_one_axis, points};
use crate::report::text::{digits, escaped};
use crate::row::Row;
use std::fmt::Write;

/// A table of an experiment, with a figure if it is in none of the papers' own.
pub struct Section {
    pub title: String,
    /// Notes that readers need.
    pub text: String,
    pub table: Table,
    pub figure: Option<Figure>,
}

impl Section {
    pub fn new(title: impl Into<String>, text: impl Into<String>, table: Table) -> Self {
        Self { title: title.into(), text: text.into(), table, figure: None }
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

/// The most measured lines of a panel.
const LINES: usize = 3;

/// Lines over named places on the x axis.
pub struct Figure {
    pub title: String,
    pub x: String,
    pub y: String,
    pub places: Vec<String>,
    /// The lines: their names, whether they are printed figures, and their values at the places.
    pub lines: Vec<(String, bool, Vec<Option<f64>>)>,
}

impl Figure {
    pub fn new(title: &str, x: &str, y: &str) -> Self {
        let [title, x, y] = [title, x, y].map(String::from);
        Self { title, x, y, places: Vec::new(), lines: Vec::new() }
    }

    /// Adds a value to a line. Line and place are added if they are new.
    pub fn add(&mut self, line: &str, is_printed: bool, place: &str, value: f64) {
        let at = self.places.iter().position(|p| p == place).unwrap_or_else(|| {
            self.places.push(place.into());
            self.places.len() - 1
        });
        let index = self.lines.iter().position(|(name, ..)| name == line).unwrap_or_else(|| {
            self.lines.push((line.into(), is_printed, Vec::new()));
            self.lines.len() - 1
        });
        let values = &mut self.lines[index].2;
        values.resize(values.len().max(at + 1), None);
        values[at] = Some(value);
    }

    /// Its panels: a few measured lines in each, and all printed ones.
    pub fn charts(&self) -> Vec<Chart> {
        let line = |(name, is_printed, values): &(String, bool, Vec<Option<f64>>)| {
            let points = points(values, |value| *value);
            let thing = thing(name);
            // Of the paper's lines the program's name is enough, and of a cluster's that in which they differ.
            let name = match name.split_once("platform ").and_then(|(_, rest)| rest.split_once(' ')) {
                Some((_, program)) if *is_printed => program,
                _ => name.trim_start_matches("phalanx-mpi, "),
            };
            if *is_printed { Line::paper(name, thing, points) } else { Line::ours(name, thing, points) }
        };
        let (printed, measured): (Vec<_>, Vec<_>) = self.lines.iter().partition(|(_, is_printed, _)| *is_printed);
        let chart = |lines: &[&(String, bool, Vec<Option<f64>>)]| {
            let lines = lines.iter().chain(&printed).map(|l| line(l)).collect();
            Chart::new(&self.title, &self.x, &self.y, self.places.clone(), lines)
        };
        let mut charts: Vec<Chart> = measured.chunks(LINES).map(chart).collect();
        charts.retain(|chart| !chart.is_empty());
        on_one_axis(charts)
    }
}

/// What a line shows, by its name.
fn thing(name: &str) -> Thing {
    let has = |part: &str| name.contains(part);
    match () {
        () if has("MPJ") || has("Java") => Thing::Java,
        () if has("hybrid") => Thing::Hybrid,
        () if has("gpu") || has("GPU") || has("CUDA") => Thing::Gpu,
        () if has("mpi") || has("MPICH") || has("process") => Thing::Cluster,
        () if has("serial") || has("1 thread") => Thing::Serial,
        () if has("gocryptfs") || has("folder itself") => Thing::Peer,
        () => Thing::Cpu,
    }
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

    #[test]
    fn many_lines_become_panels_with_one_axis() {
        let mut figure = Figure::new("t", "x", "y");
        for i in 0..7 {
            figure.add(&format!("line {i}"), false, "a", 1.0 + f64::from(i));
            figure.add(&format!("line {i}"), false, "b", 2.0 + f64::from(i));
        }
        figure.add("printed: P3 MPICH", true, "b", 0.5);
        let charts = figure.charts();
        let counts: Vec<usize> = charts.iter().map(|chart| chart.lines.len()).collect();
        assert_eq!(counts, [4, 4, 2]);
        assert!(charts.iter().all(|chart| chart.range == Some([0.5, 8.0]) && chart.places == ["a", "b"]));
        assert!(Figure::new("t", "x", "y").charts().is_empty());
    }
}
