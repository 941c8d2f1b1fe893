//! Figures as SVG.

use crate::{Error, Result};
use plotters::coord::Shift;
use plotters::coord::ranged1d::{AsRangedCoord, ValueFormatter};
use plotters::prelude::*;
use std::io;
use std::path::Path;

const SIZE: (u32, u32) = (1100, 520);
/// Where the names of the lines begin.
const LEGEND: i32 = 720;
/// Colours that most people can distinguish, with a colour blindness too (after Okabe and Ito).
const COLORS: [RGBColor; 8] = [
    RGBColor(0, 114, 178),
    RGBColor(213, 94, 0),
    RGBColor(0, 158, 115),
    RGBColor(204, 121, 167),
    RGBColor(86, 180, 233),
    RGBColor(230, 159, 0),
    RGBColor(90, 90, 90),
    RGBColor(160, 130, 0),
];

/// Lines over named places on the x axis.
pub struct Figure {
    /// The file's name, without its extension.
    pub name: String,
    /// Its title.
    pub title: String,
    /// What the x axis shows.
    pub x: String,
    /// What the y axis shows.
    pub y: String,
    /// Whether the y axis is logarithmic.
    pub logarithmic: bool,
    /// Whether the points of a line are joined, because the places have an order.
    pub joined: bool,
    /// The places on the x axis.
    pub places: Vec<String>,
    /// The lines: their names, whether they are printed figures, and their values at the places.
    pub lines: Vec<(String, bool, Vec<Option<f64>>)>,
}

impl Figure {
    /// A figure without lines.
    pub fn new(name: &str, title: &str, x: &str, y: &str, logarithmic: bool) -> Self {
        let [name, title, x, y] = [name, title, x, y].map(String::from);
        Self { name, title, x, y, logarithmic, joined: true, places: Vec::new(), lines: Vec::new() }
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

    /// Whether there is nothing to draw.
    pub fn is_empty(&self) -> bool {
        self.values().next().is_none()
    }

    /// The file's name.
    pub fn file(&self) -> String {
        // A name may come from rows, and must not lead to another folder.
        let allowed = |c: char| if c.is_ascii_alphanumeric() || c == '-' { c } else { '_' };
        format!("{}.svg", self.name.chars().take(200).map(allowed).collect::<String>())
    }

    fn values(&self) -> impl Iterator<Item = f64> {
        self.lines.iter().flat_map(|(.., values)| values.iter().flatten().copied()).filter(|v| *v > 0.0)
    }

    /// Writes the file into a folder.
    pub fn draw(&self, folder: &Path) -> Result<()> {
        let path = folder.join(self.file());
        let mut text = String::new();
        self.draw_into(&mut text).map_err(|e| Error::Path(path.clone(), io::Error::other(e.to_string())))?;
        std::fs::write(&path, text).map_err(Error::at(&path))
    }

    fn draw_into(&self, text: &mut String) -> std::result::Result<(), Box<dyn std::error::Error + '_>> {
        let root = SVGBackend::with_string(text, SIZE).into_drawing_area();
        root.fill(&WHITE)?;
        let (root, legend) = root.split_horizontally(LEGEND);
        let largest = self.values().fold(0.0, f64::max) * 1.1;
        if self.logarithmic {
            let smallest = self.values().fold(f64::MAX, f64::min) * 0.9;
            self.plot(&root, (smallest..largest).log_scale())?;
        } else {
            self.plot(&root, 0.0..largest)?;
        }
        self.name_lines(&legend)?;
        root.present()?;
        Ok(())
    }

    fn name_lines(
        &self,
        legend: &DrawingArea<SVGBackend<'_>, Shift>,
    ) -> std::result::Result<(), Box<dyn std::error::Error + '_>> {
        for (i, (name, is_printed, _)) in self.lines.iter().enumerate() {
            let y = 48 + 20 * i as i32;
            let style = line_style(i, *is_printed);
            let end = if *is_printed { 14 } else { 22 };
            legend.draw(&PathElement::new(vec![(0, y), (end, y)], style))?;
            legend.draw(&Circle::new((11, y), 3, style.filled()))?;
            legend.draw(&Text::new(name.clone(), (30, y - 6), ("sans-serif", 12)))?;
        }
        Ok(())
    }

    fn plot<Y>(
        &self,
        root: &DrawingArea<SVGBackend<'_>, Shift>,
        y: Y,
    ) -> std::result::Result<(), Box<dyn std::error::Error + '_>>
    where
        Y: AsRangedCoord<Value = f64>,
        Y::CoordDescType: ValueFormatter<f64>,
    {
        let x = -0.5..self.places.len() as f64 - 0.5;
        let mut chart = ChartBuilder::on(root);
        chart.caption(&self.title, ("sans-serif", 20)).margin(12);
        chart.set_label_area_size(LabelAreaPosition::Left, 70).set_label_area_size(LabelAreaPosition::Bottom, 48);
        let mut chart = chart.build_cartesian_2d::<_, _>(x, y)?;
        let place = |x: &f64| match self.places.get(x.round() as usize) {
            Some(place) if (x - x.round()).abs() < 0.01 && *x > -0.01 => place.clone(),
            _ => String::new(),
        };
        chart
            .configure_mesh()
            .disable_x_mesh()
            .light_line_style(WHITE)
            .x_labels(2 * self.places.len() + 2)
            .x_label_formatter(&place)
            .y_label_formatter(&|y| super::digits(*y))
            .x_desc(&self.x)
            .y_desc(&self.y)
            .draw()?;
        for (i, (_, is_printed, values)) in self.lines.iter().enumerate() {
            let style = line_style(i, *is_printed);
            let known = values.iter().enumerate().filter_map(|(x, y)| Some((x as f64, (*y)?)));
            let points: Vec<(f64, f64)> = known.filter(|(_, y)| *y > 0.0).collect();
            if *is_printed {
                chart.draw_series(DashedLineSeries::new(points.iter().copied(), 4, 4, style))?;
            } else if self.joined {
                chart.draw_series(LineSeries::new(points.iter().copied(), style))?;
            }
            chart.draw_series(points.iter().map(|point| Circle::new(*point, 3, style.filled())))?;
        }
        Ok(())
    }
}

/// Printed figures are dashed and thin.
fn line_style(i: usize, is_printed: bool) -> ShapeStyle {
    COLORS[i % COLORS.len()].stroke_width(if is_printed { 1 } else { 2 })
}
