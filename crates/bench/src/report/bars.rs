//! Charts of bars, within the page or as a file of their own.

use crate::report::chart::{CHARACTER, Thing, WIDTH, opened};
use crate::report::text::{digits, escaped};
use std::fmt::Write;

/// The height of a bar with its gap.
const STEP: f64 = 20.0;

/// The width of a bold character.
const BOLD: f64 = 7.2;

/// A bar.
#[derive(Clone, Debug)]
pub struct Bar {
    pub name: String,
    pub thing: Thing,
    pub value: f64,
    /// Whether it is printed in a paper: hollow and dashed.
    pub printed: bool,
}

/// Bars from 0. Each has its name on the left and its value on the right.
#[derive(Clone, Debug, Default)]
pub struct Bars {
    pub title: String,
    pub unit: String,
    pub bars: Vec<Bar>,
}

/// The style of a chart in a file of its own, on a light or dark background.
const ALONE: &str = "<style>text{font:11px system-ui,sans-serif;fill:#6b7683}.unit,.name{font-weight:600}.end{text-anchor:end}\
                     .b,.name{fill:#8a929c}.b.cpu,.name.cpu{fill:#2f86d0}</style>";

impl Bars {
    /// The chart as a file of its own.
    pub fn alone(&self) -> String {
        let svg = self.svg("chart").replacen("<svg ", "<svg xmlns=\"http://www.w3.org/2000/svg\" ", 1);
        match svg.find("</desc>") {
            Some(at) => format!("{}{ALONE}{}\n", &svg[..at + 7], &svg[at + 7..]),
            None => svg,
        }
    }

    /// The chart. `id` is unique in the page.
    pub fn svg(&self, id: &str) -> String {
        let largest = self.bars.iter().map(|bar| bar.value).fold(0.0, f64::max);
        if largest <= 0.0 {
            return String::new();
        }
        let each: Vec<String> = self.bars.iter().map(|bar| format!("{}: {}", bar.name, digits(bar.value))).collect();
        let height = STEP * self.bars.len() as f64 + 18.0;
        let mut svg = opened(id, [WIDTH, height], &self.title, &format!("{}. {}.", self.unit, each.join("; ")));
        let longest = self.bars.iter().map(|bar| bar.name.chars().count()).max().unwrap_or(0);
        let left = (longest as f64 * CHARACTER + 14.0).min(WIDTH * 0.55);
        let digit_count = self.bars.iter().map(|bar| digits(bar.value).chars().count()).max().unwrap_or(0);
        let room = WIDTH - left - (digit_count as f64 * BOLD + 8.0).max(44.0);
        let _ = write!(svg, r#"<text class="unit" x="{left:.0}" y="11">{}</text>"#, escaped(&self.unit));
        for (i, bar) in self.bars.iter().enumerate() {
            let (y, width) = (18.0 + STEP * i as f64, (room * bar.value / largest).max(1.0));
            let text = y + 12.5;
            let class = bar.thing.class();
            let paper = if bar.printed { " paper" } else { "" };
            let end = left - 6.0;
            let _ = write!(svg, r#"<text class="tick end" x="{end:.0}" y="{text:.1}">{}</text>"#, escaped(&bar.name));
            let _ = write!(
                svg,
                r#"<rect class="b {class}{paper}" x="{left:.1}" y="{:.1}" width="{width:.1}" height="14"/>"#,
                y + 1.0
            );
            let after = left + width + 5.0;
            let _ =
                write!(svg, r#"<text class="name {class}" x="{after:.1}" y="{text:.1}">{}</text>"#, digits(bar.value));
        }
        svg + "</svg>"
    }
}
