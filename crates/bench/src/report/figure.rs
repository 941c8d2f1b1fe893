//! Figures of the sections: any number of lines, as panels with a few lines each.

use super::draw::{Chart, Line, Thing};

/// The most measured lines of a panel.
const LINES: usize = 3;

/// Lines over named places on the x axis.
pub struct Figure {
    /// Its title.
    pub title: String,
    /// What the x axis shows.
    pub x: String,
    /// What the y axis shows.
    pub y: String,
    /// The places on the x axis.
    pub places: Vec<String>,
    /// The lines: their names, whether they are printed figures, and their values at the places.
    pub lines: Vec<(String, bool, Vec<Option<f64>>)>,
}

impl Figure {
    /// A figure without lines. The name and whether the axis is logarithmic do not matter any more: the page names its figures,
    /// and the values decide the axis.
    pub fn new(_name: &str, title: &str, x: &str, y: &str, _logarithmic: bool) -> Self {
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
            let points = values.iter().enumerate().filter_map(|(i, value)| Some((i, (*value)?)));
            let points: Vec<(usize, f64)> = points.collect();
            let thing = thing(name);
            // Of the paper's lines the program's name is enough, and of a cluster's that in which they differ.
            let name = match name.split_once("platform ").and_then(|(_, rest)| rest.split_once(' ')) {
                Some((_, program)) if *is_printed => program,
                _ => name.trim_start_matches("phalanx-mpi, "),
            };
            if *is_printed { Line::paper(name, thing, points) } else { Line::ours(name, thing, points) }
        };
        let (printed, measured): (Vec<_>, Vec<_>) = self.lines.iter().partition(|(_, is_printed, _)| *is_printed);
        let chart = |lines: &[&(String, bool, Vec<Option<f64>>)]| Chart {
            title: self.title.clone(),
            x: self.x.clone(),
            y: self.y.clone(),
            places: self.places.clone(),
            lines: lines.iter().chain(&printed).map(|l| line(l)).collect(),
            ..Chart::default()
        };
        let mut charts: Vec<Chart> = measured.chunks(LINES).map(chart).collect();
        charts.retain(|chart| !chart.is_empty());
        let range = charts.iter().filter_map(Chart::extent).reduce(|a, b| [a[0].min(b[0]), a[1].max(b[1])]);
        charts.iter_mut().for_each(|chart| chart.range = range);
        charts
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
    fn many_lines_become_panels_with_one_axis() {
        let mut figure = Figure::new("n", "t", "x", "y", true);
        for i in 0..7 {
            figure.add(&format!("line {i}"), false, "a", 1.0 + f64::from(i));
            figure.add(&format!("line {i}"), false, "b", 2.0 + f64::from(i));
        }
        figure.add("printed: P3 MPICH", true, "b", 0.5);
        let charts = figure.charts();
        let counts: Vec<usize> = charts.iter().map(|chart| chart.lines.len()).collect();
        assert_eq!(counts, [4, 4, 2]);
        assert!(charts.iter().all(|chart| chart.range == Some([0.5, 8.0]) && chart.places == ["a", "b"]));
        assert!(Figure::new("n", "t", "x", "y", true).charts().is_empty());
    }
}
