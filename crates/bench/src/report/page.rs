//! The page: one HTML file with its own style and no script, which loads nothing.

use crate::paper::Paper;
use crate::report::answer::{Part, Reason, Said, Verdict};
use crate::report::catalogue::{Item, headlines, items, papers};
use crate::report::chart::{Bars, Chart};
use crate::report::machine::Machine;
use crate::report::section::{Section, Table};
use crate::report::summary;
use crate::report::text::{digits, escaped, percent};
use crate::row::Row;
use std::fmt::Write;

const STYLE: &str = include_str!("page.css");

/// Makes the tables of an experiment's rows.
type Sections = fn(&str, &[Row]) -> Vec<Section>;

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
        let item = answered.item;
        let factor = answered.factor().map(digits).unwrap_or_default();
        let (number, title, words) = (&item.number, &item.title, answered.verdict.words());
        let _ = writeln!(text, "| P{} | {number} | {title} | #{} | {words} | {factor} |", item.paper, item.id());
    }
    text
}

impl<'a> Page<'a> {
    /// The page of some machines. `sections` makes the tables of an experiment's rows.
    pub fn of(machines: &'a [Machine], sections: Sections) -> String {
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
    fn sections(&mut self, experiments: &[&str], sections: Sections) {
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
    fn rest(&mut self, sections: Sections) {
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
                self.html += &Table::of(["", ""], rows).html();
                self.html += "</details>\n";
            }
        }
        self.html += "</section>\n";
    }
}

/// Samples of the lines.
const KEY: &str = r#"<ul class="key">
<li><svg viewBox="0 0 34 12" aria-hidden="true"><path class="l cpu" d="M2 6H32"/><path class="p cpu" d="M14.4 6a2.6 2.6 0 1 0 5.2 0a2.6 2.6 0 1 0-5.2 0"/></svg> measured here</li>
<li><svg viewBox="0 0 34 12" aria-hidden="true"><path class="l paper cpu" d="M2 6H32"/><path class="p paper cpu" d="M14.4 6a2.6 2.6 0 1 0 5.2 0a2.6 2.6 0 1 0-5.2 0"/></svg> printed in the paper; without points: a mean</li>
<li><svg viewBox="0 0 34 12" aria-hidden="true"><path class="l serial" d="M2 6H32"/></svg> one thread</li>
<li><svg viewBox="0 0 34 12" aria-hidden="true"><path class="l cpu" d="M2 6H32"/></svg> CPU threads</li>
<li><svg viewBox="0 0 34 12" aria-hidden="true"><path class="l gpu" d="M2 6H32"/></svg> GPU</li>
<li><svg viewBox="0 0 34 12" aria-hidden="true"><path class="l hybrid" d="M2 6H32"/></svg> CPU and GPU</li>
<li><svg viewBox="0 0 34 12" aria-hidden="true"><path class="l cluster" d="M2 6H32"/></svg> processes of a cluster</li>
<li><svg viewBox="0 0 34 12" aria-hidden="true"><path class="l java" d="M2 6H32"/></svg> Java</li>
</ul>
"#;

impl Page<'_> {
    /// Everything above the index.
    pub fn top(&mut self, answers: &[Answered]) {
        let names: Vec<String> = self.machines.iter().map(|machine| escaped(&machine.name)).collect();
        let quick = if self.machines.iter().any(|machine| machine.is_quick()) {
            " Some of it is from a short run, with fewer and smaller cases."
        } else {
            ""
        };
        let _ = writeln!(
            self.html,
            "<header>\n<h1>Five papers on fast AES, measured again</h1>\n\
             <p class=\"soft\">Their 52 tables and figures of results beside today's: <a href=\"#machines\">{}</a>.{quick}</p>",
            names.join("; ")
        );
        self.busy();
        self.headlines();
        self.commands();
        self.tally(answers);
        self.html += "<h3>How to read the charts</h3>\n";
        self.html += KEY;
        let _ = writeln!(self.html, "<p class=\"soft\">{}</p>", self.repetitions());
        self.html += "<p class=\"soft\">GB and MB are powers of 10, except in P5, which counts in \
                      powers of 1024. In tables the paper's figure stands below ours, and n × says that ours is n times as \
                      fast.</p>\n</header>\n";
    }

    /// How many times the medians are of. P1 and P2 print how many theirs are means of.
    fn repetitions(&self) -> String {
        let of = |(name, paper, theirs): (&str, &str, &str)| {
            let rows = self.machines.iter().flat_map(|machine| machine.of(name));
            let counts: Vec<usize> = rows.map(|row| row.seconds.len()).filter(|count| *count > 0).collect();
            let (least, most) = (counts.iter().min()?, counts.iter().max()?);
            let ours = if least == most { least.to_string() } else { format!("{least} to {most}") };
            Some(format!("{ours} in {paper}{theirs}"))
        };
        let all = [
            ("sefps", "P1", " (the paper took 20)"),
            ("users", "P2", " (the paper took 100)"),
            ("hpc", "P3", ""),
            ("volume", "P4", ""),
            ("keys", "P5", ""),
            ("peers", "whole commands", ""),
        ];
        let all: Vec<String> = all.into_iter().filter_map(of).collect();
        if all.is_empty() {
            return "Nothing was measured.".into();
        }
        format!(
            "Each measured figure is a median. It was measured this many times: {}. The files of rows have all of them.",
            all.join(", ")
        )
    }

    /// A warning for each machine that was busy with other work.
    fn busy(&mut self) {
        for machine in self.machines {
            let noisy: Vec<&Row> = machine.rows.iter().filter(|row| row.is_noisy()).collect();
            let most = |of: fn(&Row) -> Option<f64>| noisy.iter().filter_map(|row| of(row)).fold(0.0, f64::max);
            if noisy.is_empty() {
                continue;
            }
            let _ = writeln!(
                self.html,
                "<p class=\"busy\"><b>{} was busy</b> while {} of its {} rows were measured: other work took up to {} of it, its \
                 host up to {}. These figures, and the verdicts made from them, say little.</p>",
                escaped(&machine.name),
                noisy.len(),
                machine.rows.len(),
                percent(most(|row| row.others)),
                percent(most(|row| row.steal)),
            );
        }
    }

    fn headlines(&mut self) {
        self.html += "<section aria-label=\"The papers' headlines, then and now\"><div class=\"headlines\">\n";
        for (i, headline) in headlines().iter().enumerate() {
            let _ = writeln!(
                self.html,
                "<div class=\"card\"><span class=\"label\">P{0} then</span><p class=\"big paper\">{1}</p><p>{2}</p>\
                 <div class=\"now\"><span class=\"label\"><a href=\"#p{0}\">now</a></span>",
                i + 1,
                headline.figure,
                headline.then
            );
            let mut is_run = false;
            for machine in self.machines {
                let Some(said) = summary::now(headline, i + 1, machine) else { continue };
                is_run = true;
                let (big, rest, name) = (escaped(&said[0].text), sentences(&said[1..]), escaped(&machine.name));
                let _ =
                    writeln!(self.html, "<p class=\"big\">{big}</p><p>{rest} <span class=\"soft\">({name})</span></p>");
            }
            if !is_run {
                self.html += "<p>Not run.</p>";
            }
            self.html += "</div></div>\n";
        }
        self.card_of_commands();
        self.html += "</div></section>\n";
    }

    /// The card of whole commands: the last machine that has rows of them.
    fn card_of_commands(&mut self) {
        let of = |machine: &Machine| Some((machine.name.clone(), summary::commands(machine)?));
        let Some((name, commands)) = self.machines.iter().rev().find_map(of) else { return };
        let Some([big, text]) = commands.headline else { return };
        let _ = writeln!(
            self.html,
            "<div class=\"card\"><span class=\"label\"><a href=\"#peers\">Whole commands now</a></span>\
             <p class=\"big\">{}</p><p>{} <span class=\"soft\">({})</span></p></div>",
            escaped(&big.text),
            escaped(&text.text),
            escaped(&name)
        );
    }

    fn commands(&mut self) {
        let all: Vec<(String, summary::Commands)> =
            self.machines.iter().filter_map(|m| Some((m.name.clone(), summary::commands(m)?))).collect();
        if all.is_empty() {
            return;
        }
        self.html += "<section><h3>Whole commands beside other programs</h3>\n";
        for (name, commands) in all {
            let _ = writeln!(self.html, "<h4>{}</h4>", escaped(&name));
            let _ = writeln!(self.html, "<p>{}</p>", sentences(&commands.said));
            self.bars(&commands.bars);
        }
        self.html += "<p class=\"soft\"><code>openssl enc</code> does not authenticate, and <code>restic</code> also looks for equal chunks. More is under <a href=\"#peers\">whole \
                      commands</a>.</p></section>\n";
    }

    fn tally(&mut self, answers: &[Answered]) {
        let _ = write!(self.html, "<section><h3>The {} tables and figures</h3><ul class=\"tally\">", answers.len());
        let changed = Reason::ALL.into_iter().rev().map(Verdict::Changed);
        for verdict in [Verdict::Holds, Verdict::HoldsInPart].into_iter().chain(changed).chain([Verdict::NotRun]) {
            let count = answers.iter().filter(|answered| answered.verdict == verdict).count();
            if count == 0 && matches!(verdict, Verdict::Changed(_)) {
                continue;
            }
            let (sign, class) = verdict.sign();
            let _ = write!(
                self.html,
                "<li><span class=\"sign-{class}\">{sign}</span> <b>{count}</b>{}</li>",
                verdict.words()
            );
        }
        self.html += "</ul></section>\n";
    }
}

/// The experiments of each paper.
const EXPERIMENTS: [&str; 5] = ["sefps", "users", "hpc", "volume", "keys"];

/// One of the 52 with its answers.
pub struct Answered {
    /// The table or figure.
    pub item: &'static Item,
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
        // The first of those that know most.
        self.parts.iter().map(|(_, part)| part).rev().max_by_key(|part| part.judged())
    }
}

impl Page<'_> {
    /// All answers of all machines.
    pub fn answers(&self) -> Vec<Answered> {
        let one = |item: &'static Item| {
            let mut parts: Vec<(usize, Part)> = Vec::new();
            let mut silent = None;
            for (i, machine) in self.machines.iter().enumerate() {
                let part = item.answer(machine);
                if part.has_figures() {
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
        items().iter().map(one).collect()
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
    pub fn papers(&mut self, answers: &[Answered], sections: Sections) {
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
            let is_named = !item.is_model() && part.has_figures();
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
        self.charts(&part.charts);
        if !part.bars.is_empty() {
            self.bars(&part.bars);
        }
        let _ = writeln!(self.html, "<div class=\"answer\"><div><p>{}</p>", sentences(&part.said));
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

fn sentences(all: &[Said]) -> String {
    all.iter().map(|said| escaped(&said.text)).collect::<Vec<_>>().join(" ")
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
