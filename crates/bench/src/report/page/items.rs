//! The index by paper, and the 52 tables and figures.

use super::Page;
use crate::paper::Paper;
use crate::report::Section;
use crate::report::answer::{Grid, Panels, Part, Verdict};
use crate::report::catalogue::{Item, items, papers};
use crate::report::digits;
use crate::report::html::escaped;
use crate::row::Row;
use std::fmt::Write;

/// The experiments of each paper.
const EXPERIMENTS: [&str; 5] = ["sefps", "users", "hpc", "volume", "keys"];

/// One of the 52 with its answers.
pub struct Answered {
    /// The table or figure.
    pub item: Item,
    /// The machines that answer it, by their places, and their answers.
    pub parts: Vec<(usize, Part)>,
    /// The judgement of the machine that has most to say.
    pub verdict: Verdict,
}

impl Answered {
    /// How many times as fast as printed the machine of the verdict is, in the median.
    pub fn factor(&self) -> Option<f64> {
        self.best()?.factor
    }

    fn best(&self) -> Option<&Part> {
        let known = |part: &Part| part.claims.iter().filter(|claim| claim.holds.is_some()).count();
        // The first of those that know most.
        self.parts.iter().map(|(_, part)| part).rev().max_by_key(|part| known(part))
    }
}

impl Page<'_> {
    /// All answers of all machines.
    pub fn answers(&self) -> Vec<Answered> {
        let one = |item: Item| {
            let mut parts: Vec<(usize, Part)> = Vec::new();
            let mut silent = None;
            for (i, machine) in self.machines.iter().enumerate() {
                let part = item.answer(machine);
                if part.is_answered() || part.grid.as_ref().is_some_and(Grid::has_ours) {
                    parts.push((i, part));
                    if item.is_model() {
                        break;
                    }
                } else if silent.as_ref().is_none_or(|(_, known): &(usize, Part)| known.rows < part.rows) {
                    silent = Some((i, part));
                }
            }
            if parts.is_empty() {
                parts.extend(silent);
            }
            let mut answered = Answered { item, parts, verdict: Verdict::NotRun };
            answered.verdict = answered.best().map_or(Verdict::NotRun, Part::verdict);
            answered
        };
        items().into_iter().map(one).collect()
    }

    /// The papers, and links to their tables and figures.
    pub fn index(&mut self, answers: &[Answered]) {
        self.html += "<nav aria-label=\"Tables and figures\"><h2 id=\"index\">The papers</h2><div class=\"index\">\n";
        for (i, paper) in papers().into_iter().enumerate() {
            let _ = writeln!(
                self.html,
                "<div><h3><a href=\"#p{0}\">P{0}</a> {1}</h3><p class=\"soft\">{2}</p><ul>",
                i + 1,
                escaped(&paper.title),
                escaped(&authors(paper))
            );
            for answered in answers.iter().filter(|answered| answered.item.paper == i + 1) {
                let (sign, class) = answered.verdict.sign();
                let _ = writeln!(
                    self.html,
                    "<li><span class=\"sign-{class}\" title=\"{0}\" aria-label=\"{0}\" role=\"img\">{sign}</span>\
                     <a href=\"#{1}\">{2}</a><span>{3}</span></li>",
                    answered.verdict.words(),
                    answered.item.id(),
                    escaped(&answered.item.number),
                    escaped(&answered.item.title)
                );
            }
            self.html += "</ul></div>\n";
        }
        self.html += "</div></nav>\n";
    }

    /// The papers with all their tables and figures.
    pub fn papers(&mut self, answers: &[Answered], sections: &dyn Fn(&str, &[Row]) -> Vec<Section>) {
        for (i, paper) in papers().into_iter().enumerate() {
            let _ = writeln!(
                self.html,
                "<section><h2 id=\"p{0}\">P{0}: {1}</h2><p class=\"soft\">{2}</p>",
                i + 1,
                escaped(&paper.title),
                escaped(&authors(paper))
            );
            for answered in answers.iter().filter(|answered| answered.item.paper == i + 1) {
                self.item(answered);
            }
            self.corrections(paper);
            self.sections(&[EXPERIMENTS[i]], sections);
            self.html += "</section>\n";
        }
    }

    fn item(&mut self, answered: &Answered) {
        let Answered { item, parts, .. } = answered;
        let _ = writeln!(
            self.html,
            "<article id=\"{}\"><h3><span class=\"num\">{}</span>{}</h3><p class=\"form\">{}</p>",
            item.id(),
            escaped(&item.number),
            escaped(&item.title),
            escaped(&item.form)
        );
        for (i, part) in parts {
            let has_figures = part.is_answered() || part.grid.as_ref().is_some_and(Grid::has_ours);
            let is_named = !item.is_model() && has_figures;
            self.part(part, is_named.then_some(self.machines[*i].name.as_str()));
        }
        self.html += "</article>\n";
    }

    fn part(&mut self, part: &Part, machine: Option<&str>) {
        let verdict = part.verdict();
        let (sign, class) = verdict.sign();
        let _ =
            write!(self.html, "<p class=\"verdict\"><span class=\"chip {class}\">{sign} {}</span>", verdict.words());
        if let Some(machine) = machine {
            let _ = write!(self.html, "<span class=\"on\">on {}</span>", escaped(machine));
        }
        if let Some(factor) = part.factor {
            let _ =
                write!(self.html, "<span class=\"on\">{} × as fast as printed, in the median</span>", digits(factor));
        }
        self.html += "</p>\n";
        for panels in &part.panels {
            match panels {
                Panels::Charts(charts) => self.charts(charts),
                Panels::Bars(bars) => self.bars(bars),
            }
        }
        let text: Vec<String> = part.said.iter().map(|said| escaped(&said.text)).collect();
        let _ = writeln!(self.html, "<div class=\"answer\"><div><p>{}</p>", text.join(" "));
        self.html += "<ul class=\"claims\">\n";
        for claim in &part.claims {
            let (sign, class, word) = match claim.holds {
                Some(true) => ("✓", "yes", "holds"),
                Some(false) => ("≠", "no", claim.reason.words()),
                None => ("○", "none", "not run"),
            };
            let _ = writeln!(
                self.html,
                "<li><b class=\"sign-{class}\" aria-hidden=\"true\">{sign}</b>{}: <span class=\"sign-{class}\">{word}</span></li>",
                escaped(&claim.text)
            );
        }
        self.html += "</ul></div>\n";
        if let Some(grid) = &part.grid {
            self.html += &grid.html();
        }
        self.html += "</div>\n";
    }

    /// What was corrected in print, and what is doubtful.
    fn corrections(&mut self, paper: &Paper) {
        if paper.corrections.is_empty() && paper.doubts.is_empty() {
            return;
        }
        let count = paper.corrections.len() + paper.doubts.len();
        let _ = writeln!(self.html, "<details><summary>What is wrong or doubtful in print ({count})</summary><ul>");
        for text in paper.corrections.values() {
            let _ = writeln!(self.html, "<li>{}</li>", escaped(text));
        }
        for text in paper.doubts.values() {
            let _ = writeln!(self.html, "<li>Doubtful: {}</li>", escaped(text));
        }
        self.html += "</ul></details>\n";
    }
}

/// "A, B and C. Where, when."
fn authors(paper: &Paper) -> String {
    let authors = match paper.authors.split_last() {
        Some((last, [])) => last.clone(),
        Some((last, others)) => format!("{} and {last}", others.join(", ")),
        None => String::new(),
    };
    let venue = paper.venue.as_deref().map(|venue| venue.split(" (so cited").next().unwrap_or(venue));
    let year = paper.year.map(|year| year.to_string());
    let when: Vec<String> = venue.map(String::from).into_iter().chain(year).collect();
    if when.is_empty() { format!("{authors}.") } else { format!("{authors}. {}.", when.join(", ")) }
}
