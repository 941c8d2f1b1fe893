//! Charts as SVG within the page: text that can be selected, a title and a description for screen readers, and colours
//! by classes, so that the page's style sheet decides them for light and dark.

use crate::report::text::{digits, escaped};
use std::fmt::Write;

/// The width of a chart, and of a narrow one, of which four are side by side. The unit is arbitrary: the page scales
/// charts.
pub const WIDTH: f64 = 380.0;
const NARROW: f64 = 290.0;
const HEIGHT: f64 = 250.0;
/// The space above the plot, for the unit of the y axis, and below it, for the names of the places and what they are.
const TOP: f64 = 22.0;
const BOTTOM: f64 = 38.0;
/// About the width of a character of a label, and of a bold one, as at the ends of lines.
pub const CHARACTER: f64 = 6.1;
const BOLD: f64 = 7.2;
const RADIUS: f64 = 2.6;

/// What a line shows. Each thing has the same colour everywhere.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Thing {
    Serial,
    Cpu,
    Gpu,
    Hybrid,
    Cluster,
    Java,
    /// A program that is neither Phalanx nor from a paper.
    Peer,
    /// A bound or a model.
    Bound,
}

impl Thing {
    /// The thing that an engine's name in rows stands for.
    pub fn of_engine(engine: &str) -> Self {
        match engine {
            "serial" => Thing::Serial,
            "gpu" => Thing::Gpu,
            "hybrid" => Thing::Hybrid,
            "cluster" => Thing::Cluster,
            "java" => Thing::Java,
            _ => Thing::Cpu,
        }
    }

    /// The class in the style sheet.
    pub fn class(self) -> String {
        format!("{self:?}").to_lowercase()
    }
}

/// Whose figures a line has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    /// Measured: solid.
    Ours,
    /// Printed in a paper: dashed, with hollow points.
    Paper,
}

/// A line of a chart. Its name is at its end.
#[derive(Clone, Debug)]
pub struct Line {
    pub name: String,
    pub thing: Thing,
    pub source: Source,
    /// The places, counted from 0, and the values there.
    pub points: Vec<(usize, f64)>,
    /// Whether the points are marked. A mean over several places is a line without points.
    pub marked: bool,
}

impl Line {
    pub fn ours(name: impl Into<String>, thing: Thing, points: Vec<(usize, f64)>) -> Self {
        Self { name: name.into(), thing, source: Source::Ours, points, marked: true }
    }

    pub fn paper(name: impl Into<String>, thing: Thing, points: Vec<(usize, f64)>) -> Self {
        Self { name: name.into(), thing, source: Source::Paper, points, marked: true }
    }

    /// A printed mean over the places from the first to the last.
    pub fn mean(name: impl Into<String>, thing: Thing, [first, last]: [usize; 2], value: f64) -> Self {
        let (source, points) = (Source::Paper, vec![(first, value), (last, value)]);
        Self { name: name.into(), thing, source, points, marked: false }
    }
}

/// Lines over named places that have an order.
#[derive(Clone, Debug, Default)]
pub struct Chart {
    pub title: String,
    pub x: String,
    pub y: String,
    pub places: Vec<String>,
    pub lines: Vec<Line>,
    /// A horizontal line with a name.
    pub mark: Option<(f64, String)>,
    /// The least and the largest value to show, so that several charts can have the same axis.
    pub range: Option<[f64; 2]>,
    /// Whether it is one of four side by side.
    pub narrow: bool,
}

/// The points of those places that have a value.
pub fn points<T>(places: &[T], value: impl Fn(&T) -> Option<f64>) -> Vec<(usize, f64)> {
    places.iter().enumerate().filter_map(|(i, place)| Some((i, value(place)?))).collect()
}

/// Gives several charts the same axis.
pub fn on_one_axis(mut charts: Vec<Chart>) -> Vec<Chart> {
    let range = charts.iter().filter_map(Chart::extent).reduce(|a, b| [a[0].min(b[0]), a[1].max(b[1])]);
    charts.iter_mut().for_each(|chart| chart.range = range);
    charts
}

impl Chart {
    /// Lines over places: a title, what the places are, and the unit of the values. Only positive values are drawn, and
    /// lines without any are left out.
    pub fn new(title: impl Into<String>, x: &str, y: &str, places: Vec<String>, mut lines: Vec<Line>) -> Self {
        lines.iter_mut().for_each(|line| line.points.retain(|(_, value)| *value > 0.0));
        lines.retain(|line| !line.points.is_empty());
        Self { title: title.into(), x: x.into(), y: y.into(), places, lines, ..Self::default() }
    }

    pub fn is_empty(&self) -> bool {
        self.lines.is_empty()
    }

    /// The least and the largest value.
    fn extent(&self) -> Option<[f64; 2]> {
        let values = self.lines.iter().flat_map(|line| &line.points).map(|(_, value)| [*value; 2]);
        values.reduce(|a, b| [a[0].min(b[0]), a[1].max(b[1])])
    }

    /// The chart in words, for readers who cannot see it.
    fn described(&self) -> String {
        let line = |line: &Line| {
            let whose = if line.source == Source::Paper { "printed" } else { "measured" };
            let each = |(place, value): &(usize, f64)| {
                let name = self.places.get(*place).map_or("", String::as_str);
                format!("{name}: {}", digits(*value))
            };
            let first = line.points.first().map(each)?;
            let last = line.points.last().filter(|_| line.points.len() > 1).map(each);
            let to = last.map(|last| format!(" to {last}")).unwrap_or_default();
            Some(format!("{} ({whose}), {first}{to}", line.name))
        };
        let lines: Vec<String> = self.lines.iter().filter(|line| !line.name.is_empty()).filter_map(line).collect();
        format!("{} by {}. {}.", self.y, self.x, lines.join("; "))
    }

    /// The chart. `id` is unique in the page.
    pub fn svg(&self, id: &str) -> String {
        let Some([least, largest]) = self.range.or(self.extent()) else { return String::new() };
        let width = if self.narrow { NARROW } else { WIDTH };
        let longest = self.lines.iter().map(|line| short(&line.name).chars().count()).max().unwrap_or(0);
        let right = (longest as f64 * BOLD + 12.0).max(24.0);
        let scale = Scale::new(least, largest, [HEIGHT - BOTTOM, TOP]);
        let ticks = scale.ticks();
        let widest = ticks.iter().map(|(_, text)| text.chars().count()).max().unwrap_or(1);
        let left = widest as f64 * CHARACTER + 9.0;
        let plot = Plot { left, right: width - right, count: self.places.len(), scale };
        let mut svg = opened(id, [width, HEIGHT], &self.title, &self.described());
        let _ = write!(svg, r#"<text class="unit" x="0" y="11">{}</text>"#, escaped(&self.y));
        for (value, text) in &ticks {
            let y = plot.scale.at(*value);
            let _ = write!(svg, r#"<path class="grid" d="M{left:.0} {y:.1}H{:.0}"/>"#, plot.right);
            let _ = write!(svg, r#"<text class="tick end" x="{:.0}" y="{:.1}">{text}</text>"#, left - 5.0, y + 4.0);
        }
        if let Some((value, name)) = self.mark.as_ref().filter(|(value, _)| (least..=largest).contains(value)) {
            let y = plot.scale.at(*value);
            let _ = write!(svg, r#"<path class="mark" d="M{left:.0} {y:.1}H{:.0}"/>"#, plot.right);
            let (x, above) = (left + 3.0, y - 3.0);
            let _ = write!(svg, r#"<text class="tick" x="{x:.0}" y="{above:.1}">{}</text>"#, escaped(name));
        }
        plot.name_places(&mut svg, &self.places, &self.x);
        // Our lines are drawn above the paper's.
        let mut lines: Vec<&Line> = self.lines.iter().collect();
        lines.sort_by_key(|line| line.source == Source::Ours);
        lines.iter().for_each(|line| plot.draw(&mut svg, line));
        let ends = self.lines.iter().filter(|line| !line.name.is_empty()).filter_map(|line| {
            let (place, value) = line.points.last()?;
            Some(([plot.x(*place), plot.scale.at(*value)], line))
        });
        write_names(&mut svg, plot.right + 8.0, [TOP, HEIGHT - BOTTOM + 4.0], ends.collect());
        svg + "</svg>"
    }
}

/// The beginning of an SVG element.
pub fn opened(id: &str, [width, height]: [f64; 2], title: &str, description: &str) -> String {
    format!(
        r#"<svg viewBox="0 0 {width:.0} {height:.0}" role="img" aria-labelledby="{id}-t {id}-d"><title id="{id}-t">{}</title><desc id="{id}-d">{}</desc>"#,
        escaped(title),
        escaped(description)
    )
}

/// Where the values of a chart lie.
struct Plot {
    left: f64,
    right: f64,
    count: usize,
    scale: Scale,
}

impl Plot {
    fn x(&self, place: usize) -> f64 {
        let inner = 8.0;
        let width = self.right - self.left - 2.0 * inner;
        self.left + inner + width * place as f64 / (self.count.max(2) - 1) as f64
    }

    /// The names of as many places as fit.
    fn name_places(&self, svg: &mut String, places: &[String], what: &str) {
        let bottom = HEIGHT - BOTTOM;
        let _ = write!(svg, r#"<path class="axis" d="M{:.0} {bottom:.0}H{:.0}"/>"#, self.left, self.right);
        let half = |i: usize| places[i].chars().count() as f64 * CHARACTER / 2.0 + 4.0;
        // The last name comes first, then the first name, then those between from left to right.
        let last = places.len().saturating_sub(1);
        let mut taken: Vec<usize> = Vec::new();
        for i in [last].into_iter().chain(0..last).take(places.len()) {
            if taken.iter().all(|j| (self.x(i) - self.x(*j)).abs() >= half(i) + half(*j)) {
                taken.push(i);
            }
        }
        for i in taken {
            let (x, y) = (self.x(i), bottom + 15.0);
            let _ = write!(svg, r#"<path class="axis" d="M{x:.1} {bottom:.0}v3"/>"#);
            let _ = write!(svg, r#"<text class="tick mid" x="{x:.1}" y="{y:.0}">{}</text>"#, escaped(&places[i]));
        }
        let middle = (self.left + self.right) / 2.0;
        let y = HEIGHT - 5.0;
        let _ = write!(svg, r#"<text class="tick mid what" x="{middle:.0}" y="{y:.0}">{}</text>"#, escaped(what));
    }

    fn draw(&self, svg: &mut String, line: &Line) {
        let points: Vec<[f64; 2]> = line.points.iter().map(|(x, v)| [self.x(*x), self.scale.at(*v)]).collect();
        let paper = if line.source == Source::Paper { "paper " } else { "" };
        let class = format!("{paper}{}", line.thing.class());
        let path: Vec<String> = points.iter().map(|[x, y]| format!("{x:.1} {y:.1}")).collect();
        let _ = write!(svg, r#"<path class="l {class}" d="M{}"/>"#, path.join("L"));
        if line.marked {
            let d = RADIUS * 2.0;
            let dot = |[x, y]: &[f64; 2]| {
                let x = x - RADIUS;
                format!("M{x:.1} {y:.1}a{RADIUS} {RADIUS} 0 1 0 {d} 0a{RADIUS} {RADIUS} 0 1 0-{d} 0")
            };
            let dots: String = points.iter().map(dot).collect();
            let _ = write!(svg, r#"<path class="p {class}" d="{dots}"/>"#);
        }
    }
}

/// If the largest value is at least this many times the least one, the axis is logarithmic.
const WIDE: f64 = 15.0;

/// Maps values to heights.
struct Scale {
    logarithmic: bool,
    least: f64,
    largest: f64,
    /// The heights of the least and the largest value.
    span: [f64; 2],
}

impl Scale {
    fn new(least: f64, largest: f64, span: [f64; 2]) -> Self {
        match largest / least > WIDE {
            true => Self { logarithmic: true, least: least * 0.85, largest: largest * 1.15, span },
            false => Self { logarithmic: false, least: 0.0, largest: largest * 1.06, span },
        }
    }

    fn at(&self, value: f64) -> f64 {
        let part = match self.logarithmic {
            true => (value / self.least).ln() / (self.largest / self.least).ln(),
            false => (value - self.least) / (self.largest - self.least),
        };
        self.span[0] + (self.span[1] - self.span[0]) * part
    }

    /// Round values on the axis, with their texts.
    fn ticks(&self) -> Vec<(f64, String)> {
        let values = if self.logarithmic { self.powers() } else { self.steps() };
        values.into_iter().map(|value| (value, tick(value))).collect()
    }

    fn powers(&self) -> Vec<f64> {
        let decades = (self.largest / self.least).log10();
        let of_decade: &[f64] = match decades {
            d if d < 2.2 => &[1.0, 2.0, 5.0],
            _ => &[1.0],
        };
        let step = if decades > 7.0 { 2 } else { 1 };
        let (first, last) = (self.least.log10().floor() as i32, self.largest.log10().ceil() as i32);
        let all = (first..=last).filter(|power| power.rem_euclid(step) == 0);
        let all = all.flat_map(|power| of_decade.iter().map(move |n| n * 10f64.powi(power)));
        all.filter(|value| (self.least..=self.largest).contains(value)).collect()
    }

    fn steps(&self) -> Vec<f64> {
        let rough = self.largest / 4.0;
        let power = 10f64.powf(rough.log10().floor());
        let step = [1.0, 2.0, 2.5, 5.0, 10.0].map(|n| n * power).into_iter().find(|step| *step >= rough * 0.999);
        let step = step.unwrap_or(rough);
        (0..).map(|i| f64::from(i) * step).take_while(|value| *value <= self.largest).collect()
    }
}

/// The text of a tick, without trailing zeros.
fn tick(value: f64) -> String {
    if value == 0.0 || value >= 100.0 {
        return match value {
            v if v >= 1e6 => format!("{}M", v / 1e6),
            v if v >= 1e4 => format!("{}k", v / 1e3),
            v => format!("{v:.0}"),
        };
    }
    let text = if value < 0.01 { format!("{value:.6}") } else { digits(value) };
    text.trim_end_matches('0').trim_end_matches('.').into()
}

/// The height of a name.
const NAME: f64 = 12.5;
/// How far a name may be from its line's end before a thin line leads to it.
const NEAR: f64 = 4.0;

/// The most characters of a name.
const LONGEST: usize = 19;

/// Writes the names of lines at `x`, between two heights. Each has the place of its line's end.
fn write_names(svg: &mut String, x: f64, within: [f64; 2], mut ends: Vec<([f64; 2], &Line)>) {
    ends.sort_by(|(a, _), (b, _)| a[1].total_cmp(&b[1]));
    let wanted: Vec<f64> = ends.iter().map(|(at, _)| at[1]).collect();
    for (([from, height], line), y) in ends.iter().zip(apart(&wanted, within)) {
        let class = line.thing.class();
        let paper = if line.source == Source::Paper { " of-paper" } else { "" };
        if (y - height).abs() > NEAR || x - from > 16.0 {
            let (from, to) = (from + 4.0, x - 2.0);
            let _ = write!(svg, r#"<path class="lead" d="M{from:.1} {height:.1}L{to:.1} {y:.1}"/>"#);
        }
        let name = escaped(&short(&line.name));
        let below = y + 4.0;
        let _ = write!(svg, r#"<text class="name {class}{paper}" x="{x:.0}" y="{below:.1}">{name}</text>"#);
    }
}

/// A short name that fits beside a chart. The description has the whole name.
fn short(name: &str) -> String {
    match name.char_indices().nth(LONGEST) {
        Some((at, _)) => format!("{}…", name[..at].trim_end_matches([' ', ','])),
        None => name.to_owned(),
    }
}

/// Moves heights, which are in rising order, apart as little as necessary, and keeps them within bounds.
fn apart(wanted: &[f64], [top, bottom]: [f64; 2]) -> Vec<f64> {
    // Neighbours that are too near become one group around their middle, until no groups touch.
    let mut groups: Vec<(f64, usize)> = Vec::new();
    for y in wanted {
        groups.push((*y, 1));
        while let [.., (above, n), (below, m)] = groups[..] {
            if below - above >= NAME * (n + m) as f64 / 2.0 {
                break;
            }
            groups.truncate(groups.len() - 2);
            groups.push(((above * n as f64 + below * m as f64) / (n + m) as f64, n + m));
        }
    }
    let mut heights = Vec::new();
    for (middle, n) in groups {
        heights.extend((0..n).map(|i| middle + NAME * (i as f64 - (n - 1) as f64 / 2.0)));
    }
    let mut least = top;
    for y in &mut heights {
        *y = y.max(least);
        least = *y + NAME;
    }
    let mut most = bottom;
    for y in heights.iter_mut().rev() {
        *y = y.min(most);
        most = *y - NAME;
    }
    heights
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chart() -> Chart {
        let lines = vec![
            Line::ours("CPU <2>", Thing::Cpu, vec![(0, 1.0), (1, 10.0), (2, 100.0)]),
            Line::paper("CPU, paper", Thing::Cpu, vec![(0, 0.5)]),
            Line::mean("GPU, paper", Thing::Gpu, [0, 2], 40.0),
        ];
        let places = ["1 KB", "1 MB", "1 GB"].map(String::from).to_vec();
        let [title, x, y] = ["speed & time", "size", "GB/s"].map(String::from);
        Chart { title, x, y, places, lines, ..Chart::default() }
    }

    #[test]
    fn a_chart_has_title_description_and_names_at_the_ends_of_lines() {
        let svg = chart().svg("c");
        for part in [
            r#"aria-labelledby="c-t c-d""#,
            r#"<title id="c-t">speed &amp; time</title>"#,
            "CPU &lt;2&gt; (measured), 1 KB: 1.00 to 1 GB: 100",
            "CPU, paper (printed), 1 KB: 0.500",
            r#"class="l paper gpu""#,
            ">CPU &lt;2&gt;</text>",
        ] {
            assert!(svg.contains(part), "{part}: {svg}");
        }
        // The mean has no points.
        assert_eq!(svg.matches(r#"class="p "#).count(), 2, "{svg}");
        assert!(Chart::default().svg("none").is_empty() && Chart::default().is_empty());
    }

    fn texts(least: f64, largest: f64) -> Vec<String> {
        Scale::new(least, largest, [100.0, 0.0]).ticks().into_iter().map(|(_, text)| text).collect()
    }

    #[test]
    fn wide_ranges_are_logarithmic_and_ticks_are_round() {
        assert_eq!(texts(0.01, 20.0), ["0.01", "0.1", "1", "10"]);
        assert_eq!(texts(1.0, 30.0), ["1", "2", "5", "10", "20"]);
        assert_eq!(texts(1.0, 7.9), ["0", "2.5", "5", "7.5"]);
        assert_eq!(texts(500.0, 40_000.0), ["500", "1000", "2000", "5000", "10k", "20k"]);
    }

    #[test]
    fn values_lie_within_the_plot() {
        for (least, largest) in [(0.001, 1000.0), (3.0, 4.0), (5.0, 5.0)] {
            let scale = Scale::new(least, largest, [100.0, 0.0]);
            for value in [least, largest] {
                assert!((0.0..=100.0).contains(&scale.at(value)), "{value}");
            }
            assert!(scale.at(largest) <= scale.at(least));
        }
    }

    #[test]
    fn names_do_not_overlap_and_stay_within_the_chart() {
        for wanted in [vec![], vec![50.0], vec![50.0, 50.0, 51.0], vec![0.0, 1.0, 2.0, 199.0, 200.0, 200.0]] {
            let heights = apart(&wanted, [10.0, 200.0]);
            assert_eq!(heights.len(), wanted.len());
            assert!(heights.windows(2).all(|pair| pair[1] - pair[0] >= NAME - 1e-9), "{heights:?}");
            assert!(heights.iter().all(|y| (10.0 - 1e-9..=200.0 + 1e-9).contains(y)), "{heights:?}");
        }
        assert_eq!(apart(&[50.0, 100.0], [0.0, 200.0]), [50.0, 100.0]);
    }
}
