//! The page: one HTML file with its own style and no script, which loads nothing.

mod items;
mod top;

use super::Section;
use super::draw::{Bars, Chart};
use super::html::escaped;
use super::machine::Machine;
use crate::row::Row;
use std::fmt::Write;

const STYLE: &str = include_str!("page.css");

/// Makes the page. Pictures have numbers that are unique in it.
pub struct Page<'a> {
    machines: &'a [Machine],
    html: String,
    pictures: usize,
}

/// The 52, where they are in the page, and what came of them, as a table in Markdown.
pub fn index(machines: &[Machine]) -> String {
    let page = Page { machines, html: String::new(), pictures: 0 };
    let mut text = "| paper | number | what | in the page | verdict | times as fast as printed, in the median |\n|---|---|---|---|---|---|\n".to_owned();
    for answered in page.answers() {
        let item = &answered.item;
        let factor = answered.factor().map(super::digits).unwrap_or_default();
        let (number, title, words) = (&item.number, &item.title, answered.verdict.words());
        let _ = writeln!(text, "| P{} | {number} | {title} | #{} | {words} | {factor} |", item.paper, item.id());
    }
    text
}

impl<'a> Page<'a> {
    /// The page of some machines. `sections` makes the tables of an experiment's rows.
    pub fn of(machines: &'a [Machine], sections: &dyn Fn(&str, &[Row]) -> Vec<Section>) -> String {
        let mut page = Page { machines, html: String::new(), pictures: 0 };
        let _ = write!(
            page.html,
            "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\n\
             <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
             <title>Five papers on fast AES, measured again</title>\n<style>\n{STYLE}</style></head>\n<body>\n"
        );
        let answers = page.answers();
        page.top(&answers);
        page.html += "<main>\n";
        page.index(&answers);
        page.papers(&answers, sections);
        page.rest(sections);
        page.machines();
        page.html += "</main>\n<footer><p>Made by phalanx-bench from the rows of the runs; nothing in it is written by hand but \
                      what the papers' tables and figures show. All raw times are in the files of rows.</p></footer>\n</body></html>\n";
        page.html
    }

    fn id(&mut self) -> String {
        self.pictures += 1;
        format!("c{}", self.pictures)
    }

    fn charts(&mut self, charts: &[Chart]) {
        if charts.iter().all(Chart::is_empty) {
            return;
        }
        let charts: Vec<&Chart> = charts.iter().filter(|chart| !chart.is_empty()).collect();
        let narrow = charts.len().is_multiple_of(4);
        let _ = writeln!(self.html, "<div class=\"panels{}\">", if narrow { " four" } else { "" });
        for chart in charts {
            let (id, chart) = (self.id(), Chart { narrow, ..chart.clone() });
            let _ = writeln!(
                self.html,
                "<figure><figcaption>{}</figcaption>{}</figure>",
                escaped(&chart.title),
                chart.svg(&id)
            );
        }
        self.html += "</div>\n";
    }

    fn bars(&mut self, all: &[Bars]) {
        self.html += "<div class=\"panels\">\n";
        for bars in all {
            let id = self.id();
            let _ = writeln!(
                self.html,
                "<figure class=\"bars\"><figcaption>{}</figcaption>{}</figure>",
                escaped(&bars.title),
                bars.svg(&id)
            );
        }
        self.html += "</div>\n";
    }

    /// The tables of all rows of some experiments, folded up.
    fn sections(&mut self, experiments: &[&str], sections: &dyn Fn(&str, &[Row]) -> Vec<Section>) {
        for machine in self.machines {
            let count: usize = experiments.iter().map(|name| machine.of(name).count()).sum();
            if count == 0 {
                continue;
            }
            let _ = writeln!(
                self.html,
                "<details><summary>All {count} rows measured on {}</summary>",
                escaped(&machine.name)
            );
            for name in experiments {
                let rows: Vec<Row> = machine.of(name).cloned().collect();
                if rows.is_empty() {
                    continue;
                }
                for section in sections(name, &rows) {
                    let _ = writeln!(self.html, "<h4>{}</h4>", escaped(&section.title));
                    if let Some(figure) = section.figure {
                        self.charts(&figure.charts());
                    }
                    self.html += &section.table.html();
                    if !section.text.is_empty() {
                        let _ = writeln!(self.html, "<p class=\"soft\">{}</p>", escaped(&section.text));
                    }
                }
            }
            self.html += "</details>\n";
        }
    }

    /// What belongs to no paper.
    fn rest(&mut self, sections: &dyn Fn(&str, &[Row]) -> Vec<Section>) {
        let has = |name: &str| self.machines.iter().any(|machine| machine.of(name).next().is_some());
        for (name, title) in [("peers", "Whole commands"), ("gpu", "The device's kernels")] {
            if has(name) {
                let _ = writeln!(self.html, "<section><h2 id=\"{name}\">{title}</h2>");
                self.sections(&[name], sections);
                self.html += "</section>\n";
            }
        }
    }

    /// The conditions of the runs.
    fn machines(&mut self) {
        self.html += "<section><h2 id=\"machines\">The machines</h2>\n";
        for machine in self.machines {
            let _ = writeln!(self.html, "<h3>{}</h3>", escaped(&machine.name));
            for head in &machine.heads {
                let _ = writeln!(
                    self.html,
                    "<details><summary>{}, commit {}</summary>",
                    escaped(&head.date),
                    escaped(&head.commit)
                );
                let rows = head.lines().into_iter().map(|(name, value)| vec![name.into(), value]);
                self.html += &super::Table::of(["", ""], rows).html();
                self.html += "</details>\n";
            }
        }
        self.html += "</section>\n";
    }
}
