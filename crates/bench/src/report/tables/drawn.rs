//! Charts of tables. They show the speeds, and the printed times as speeds, over one of the row's words.

use super::words::At;
use crate::report::chart::{Chart, Line, Thing, on_one_axis, points};
use crate::report::text::unique;
use serde::Deserialize;

/// The most measured lines of a panel.
const LINES: usize = 3;

/// The definition of a chart: patterns of its places and lines, and the condition for rows whose speeds are drawn.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Drawn {
    x: String,
    place: String,
    line: String,
    #[serde(default)]
    when: String,
}

/// A point of a line, with the names of the line and of the place.
struct Point {
    line: String,
    place: String,
    value: f64,
}

impl Drawn {
    /// Panels. Each has a few measured lines and all printed ones.
    pub fn charts(&self, title: &str, rows: &[At<'_>]) -> Vec<Chart> {
        let mut all = Vec::new();
        for at in rows {
            let place = at.fill(&self.place).unwrap_or_default();
            let ours = at.row.gb_per_s.filter(|_| at.holds(&self.when)).zip(at.fill(&self.line));
            all.extend(ours.map(|(value, line)| Point { line, place: place.clone(), value }));
            all.extend(at.row.printed.iter().filter(|p| p.unit == "ms").map(|p| {
                let value = at.row.bytes as f64 / p.value / 1e6;
                Point { line: format!("{PRINTED}{}", p.by), place: place.clone(), value }
            }));
        }
        let places = unique(all.iter().map(|point| &point.place));
        let names = unique(all.iter().map(|point| point.line.as_str()));
        let line = |name: &str| {
            let is_it = |point: &&Point, place: &String| point.line == name && point.place == *place;
            let value = |place: &&String| Some(all.iter().rev().find(|point| is_it(point, place))?.value);
            drawn(name, points(&places, value))
        };
        let (printed, measured): (Vec<&str>, Vec<&str>) = names.iter().partition(|name| name.starts_with(PRINTED));
        let chart = |some: &[&str]| {
            let lines = some.iter().chain(&printed).map(|name| line(name)).collect();
            Chart::new(title, &self.x, "GB/s", places.iter().map(|place| (*place).clone()).collect(), lines)
        };
        let charts = measured.chunks(LINES).map(chart).filter(|chart| !chart.is_empty());
        on_one_axis(charts.collect())
    }
}

/// The beginning of the names of printed lines.
const PRINTED: &str = "printed: ";

/// A line with its name. For the paper's lines the program's name is enough. For a cluster's lines it is the part in
/// which they differ.
fn drawn(name: &str, points: Vec<(usize, f64)>) -> Line {
    let has = |part: &str| name.contains(part);
    let thing = match () {
        () if has("MPJ") || has("Java") => Thing::Java,
        () if has("gpu") || has("GPU") || has("CUDA") => Thing::Gpu,
        () if has("mpi") || has("MPICH") || has("process") => Thing::Cluster,
        () => Thing::Cpu,
    };
    if !name.starts_with(PRINTED) {
        return Line::ours(name.trim_start_matches("phalanx-mpi, "), thing, points);
    }
    let program = name.split_once("platform ").and_then(|(_, rest)| rest.split_once(' '));
    Line::paper(program.map_or(name, |(_, program)| program), thing, points)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::paper::p3;
    use crate::row::Row;

    #[test]
    fn many_lines_become_panels_with_one_axis() {
        let of = |(scheme, threads): (usize, usize)| {
            let row = Row::of("hpc", "c", ["encrypt", "time", &format!("line {scheme}"), "cpu"]);
            Row { threads, gb_per_s: Some((scheme + threads) as f64), ..row }
        };
        let mut rows: Vec<Row> = (0..7).flat_map(|scheme| [(scheme, 1), (scheme, 2)]).map(of).collect();
        rows[1].printed = p3().printed(|v| v.experiment == "openmp" && v.measure == "time");
        rows[1].printed.truncate(1);
        rows[1].bytes = (rows[1].printed[0].value * 0.5e6) as u64;
        let [x, place, line, when] = ["threads", "{threads}", "{scheme}", ""].map(String::from);
        let at: Vec<At<'_>> = rows.iter().map(|row| At::of(row, &[])).collect();
        let charts = Drawn { x, place, line, when }.charts("t", &at);
        let counts: Vec<usize> = charts.iter().map(|chart| chart.lines.len()).collect();
        assert_eq!(counts, [4, 4, 2]);
        assert!(charts.iter().all(|chart| chart.range == Some([0.5, 8.0]) && chart.places == ["1", "2"]));
    }
}
