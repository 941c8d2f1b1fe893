//! The page: one HTML file with its own style and no script. It loads nothing.

use crate::paper::Paper;
use crate::report::answer::{Part, Reason, Said, Verdict};
use crate::report::bars::Bars;
use crate::report::catalogue::{Item, headlines, items, papers};
use crate::report::chart::Chart;
use crate::report::machine::Machine;
use crate::report::section::Table;
use crate::report::tables::sections;
use crate::report::text::{digits, escaped, percent};
use crate::report::{service, summary};
use crate::row::Row;
use std::fmt::Write;

const STYLE: &str = include_str!("page.css");
const HEAD: &str = r#"<!doctype html>
<html lang="en"><head><meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>Five papers on fast AES, measured again</title>
<style>
"#;
/// How to read the charts, with samples of the lines.
const KEY: &str = include_str!("key.html");

/// Makes the page. Pictures have numbers that are unique in it.
pub struct Page<'a> {
    machines: &'a [Machine],
    html: String,
    pictures: usize,
}

/// Writes a line of the page.
macro_rules! line {
    ($page:ident, $($text:tt)*) => {{
        let _ = writeln!($page.html, $($text)*);
    }};
}

/// The 52 tables and figures with links to the page and verdicts, as a table in Markdown.
pub fn index(machines: &[Machine]) -> String {
    let mut text = "| paper | number | what | in the page | verdict | times as fast as printed, in the median |\n|---|---|---|---|---|---|\n".to_owned();
    for answered in answers(machines) {
        let Item { paper, number, title, .. } = answered.item;
        let factor = answered.best().and_then(|best| best.factor).map(digits).unwrap_or_default();
        let (id, words) = (answered.item.id(), answered.verdict.words());
        let _ = writeln!(text, "| P{paper} | {number} | {title} | #{id} | {words} | {factor} |");
    }
    text
}

/// One of the 52 tables and figures, with the indexes of the machines that answer it, and their answers.
struct Answered {
    item: &'static Item,
    parts: Vec<(usize, Part)>,
    /// The verdict of the machine with the most complete answer.
    verdict: Verdict,
}

impl Answered {
    fn of(item: &'static Item, machines: &[Machine]) -> Self {
        let (mut parts, mut silent) = (Vec::new(), None);
        for (i, machine) in machines.iter().enumerate() {
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
        let answered = Self { item, parts, verdict: Verdict::NotRun };
        Self { verdict: answered.best().map_or(Verdict::NotRun, Part::verdict), ..answered }
    }

    /// The first of the most complete answers.
    fn best(&self) -> Option<&Part> {
        self.parts.iter().map(|(_, part)| part).rev().max_by_key(|part| part.judged())
    }
}

fn answers(machines: &[Machine]) -> Vec<Answered> {
    items().iter().map(|item| Answered::of(item, machines)).collect()
}

impl<'a> Page<'a> {
    /// The page of some machines.
    pub fn of(machines: &'a [Machine]) -> String {
        let mut page = Page { machines, html: format!("{HEAD}{STYLE}</style></head>\n<body>\n"), pictures: 0 };
        let answers = answers(machines);
        page.top(&answers);
        page.html += "<main>\n";
        page.index(&answers);
        page.papers(&answers);
        page.rest();
        page.machines();
        page.html += "</main>\n<footer><p>Made by phalanx-bench from the rows of the runs; nothing in it is written by hand but \
                      what the papers' tables and figures show. All raw times are in the files of rows.</p></footer>\n</body></html>\n";
        page.html
    }

    /// Everything above the index.
    fn top(&mut self, answers: &[Answered]) {
        let names: Vec<String> = self.machines.iter().map(|machine| escaped(&machine.name)).collect();
        let names = names.join("; ");
        let quick = match self.machines.iter().any(Machine::is_quick) {
            true => " Some of it is from a short run, with fewer and smaller cases.",
            false => "",
        };
        line!(self, "<header>\n<h1>Five papers on fast AES, measured again</h1>");
        line!(
            self,
            r##"<p class="soft">Their 52 tables and figures of results beside today's: <a href="#machines">{names}</a>.{quick}</p>"##
        );
        self.busy();
        self.headlines();
        self.commands();
        self.tally(answers);
        self.html += &KEY.replace("REPETITIONS", &self.repetitions());
        self.html += "</header>\n";
    }

    /// A sentence with the number of measurements for each median. P1 and P2 print their own numbers.
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
            ("service", "the server", ""),
        ];
        let all: Vec<String> = all.into_iter().filter_map(of).collect();
        if all.is_empty() {
            return "Nothing was measured.".into();
        }
        let all = all.join(", ");
        format!(
            "Each measured figure is a median. It was measured this many times: {all}. The files of rows have all of them."
        )
    }

    /// A warning for each machine that was busy with other work.
    fn busy(&mut self) {
        for machine in self.machines {
            let noisy: Vec<&Row> = machine.rows.iter().filter(|row| row.is_noisy()).collect();
            let most =
                |of: fn(&Row) -> Option<f64>| percent(noisy.iter().filter_map(|row| of(row)).fold(0.0, f64::max));
            let (name, count, all) = (escaped(&machine.name), noisy.len(), machine.rows.len());
            let (others, steal) = (most(|row| row.others), most(|row| row.steal));
            if count > 0 {
                line!(
                    self,
                    r#"<p class="busy"><b>{name} was busy</b> while {count} of its {all} rows were measured: other work took up to {others} of it, its host up to {steal}. These figures, and the verdicts made from them, say little.</p>"#
                );
            }
        }
    }

    fn headlines(&mut self) {
        self.html += r#"<section aria-label="The papers' headlines, then and now"><div class="headlines">"#;
        self.html += "\n";
        for (paper, headline) in (1..).zip(headlines()) {
            let (figure, then) = (&headline.figure, &headline.then);
            line!(
                self,
                r##"<div class="card"><span class="label">P{paper} then</span><p class="big paper">{figure}</p><p>{then}</p><div class="now"><span class="label"><a href="#p{paper}">now</a></span>"##
            );
            let mut is_run = false;
            for machine in self.machines {
                let Some(said) = summary::now(headline, paper, machine) else { continue };
                is_run = true;
                let (big, rest, name) = (sentences(&said[..1]), sentences(&said[1..]), escaped(&machine.name));
                line!(self, r#"<p class="big">{big}</p><p>{rest} <span class="soft">({name})</span></p>"#);
            }
            self.html += if is_run { "" } else { "<p>Not run.</p>" };
            self.html += "</div></div>\n";
        }
        // The box of whole commands shows the last machine that has such rows.
        let of = |machine: &'a Machine| Some((escaped(&machine.name), summary::commands(machine)?.headline));
        if let Some((name, Some([big, text]))) = self.machines.iter().rev().find_map(of) {
            let (big, text) = (escaped(&big.text), escaped(&text.text));
            line!(
                self,
                r##"<div class="card"><span class="label"><a href="#peers">Whole commands now</a></span><p class="big">{big}</p><p>{text} <span class="soft">({name})</span></p></div>"##
            );
        }
        self.html += "</div></section>\n";
    }

    fn commands(&mut self) {
        let of = |machine: &'a Machine| Some((escaped(&machine.name), summary::commands(machine)?));
        let all: Vec<(String, summary::Commands)> = self.machines.iter().filter_map(of).collect();
        if all.is_empty() {
            return;
        }
        self.html += "<section><h3>Whole commands beside other programs</h3>\n";
        for (name, commands) in all {
            line!(self, "<h4>{name}</h4>\n<p>{}</p>", sentences(&commands.said));
            self.bars(&commands.bars);
        }
        self.html += r##"<p class="soft"><code>openssl enc</code> does not authenticate, and <code>restic</code> also looks for equal chunks. More is under <a href="#peers">whole commands</a>.</p></section>"##;
        self.html += "\n";
    }

    fn tally(&mut self, answers: &[Answered]) {
        let count = answers.len();
        self.html += &format!(r#"<section><h3>The {count} tables and figures</h3><ul class="tally">"#);
        let changed = Reason::ALL.into_iter().rev().map(Verdict::Changed);
        for verdict in [Verdict::Holds, Verdict::HoldsInPart].into_iter().chain(changed).chain([Verdict::NotRun]) {
            let count = answers.iter().filter(|answered| answered.verdict == verdict).count();
            let ((sign, class), words) = (verdict.sign(), verdict.words());
            if count > 0 || !matches!(verdict, Verdict::Changed(_)) {
                self.html += &format!(r#"<li><span class="sign-{class}">{sign}</span> <b>{count}</b>{words}</li>"#);
            }
        }
        self.html += "</ul></section>\n";
    }

    /// The papers, and links to their tables and figures.
    fn index(&mut self, answers: &[Answered]) {
        line!(self, r#"<nav aria-label="Tables and figures"><h2 id="index">The papers</h2><div class="index">"#);
        for (i, paper) in (1..).zip(papers()) {
            let (title, authors) = (escaped(&paper.title), escaped(&authors(paper)));
            line!(self, r##"<div><h3><a href="#p{i}">P{i}</a> {title}</h3><p class="soft">{authors}</p><ul>"##);
            for answered in answers.iter().filter(|answered| answered.item.paper == i) {
                let ((sign, class), words) = (answered.verdict.sign(), answered.verdict.words());
                let (id, number) = (answered.item.id(), escaped(&answered.item.number));
                let title = escaped(&answered.item.title);
                line!(
                    self,
                    r##"<li><span class="sign-{class}" title="{words}" aria-label="{words}" role="img">{sign}</span><a href="#{id}">{number}</a><span>{title}</span></li>"##
                );
            }
            self.html += "</ul></div>\n";
        }
        self.html += "</div></nav>\n";
    }

    /// The papers with all their tables and figures, and the rows of their experiments.
    fn papers(&mut self, answers: &[Answered]) {
        for ((i, paper), experiment) in (1..).zip(papers()).zip(["sefps", "users", "hpc", "volume", "keys"]) {
            let (title, authors) = (escaped(&paper.title), escaped(&authors(paper)));
            line!(self, r#"<section><h2 id="p{i}">P{i}: {title}</h2><p class="soft">{authors}</p>"#);
            answers.iter().filter(|answered| answered.item.paper == i).for_each(|answered| self.item(answered));
            self.corrections(paper);
            self.sections(experiment);
            self.html += "</section>\n";
        }
    }

    fn item(&mut self, answered: &Answered) {
        let Item { number, title, form, .. } = answered.item;
        let (id, number, title, form) = (answered.item.id(), escaped(number), escaped(title), escaped(form));
        line!(
            self,
            r#"<article id="{id}"><h3><span class="num">{number}</span>{title}</h3><p class="form">{form}</p>"#
        );
        for (i, part) in &answered.parts {
            let is_named = !answered.item.is_model() && part.has_figures();
            self.part(part, is_named.then_some(&self.machines[*i]));
        }
        self.html += "</article>\n";
    }

    fn part(&mut self, part: &Part, machine: Option<&Machine>) {
        let ((sign, class), words) = (part.verdict().sign(), part.verdict().words());
        self.html += &format!(r#"<p class="verdict"><span class="chip {class}">{sign} {words}</span>"#);
        let machine = machine.map(|machine| format!("on {}", escaped(&machine.name)));
        let factor = part.factor.map(|factor| format!("{} × as fast as printed, in the median", digits(factor)));
        for text in machine.into_iter().chain(factor) {
            self.html += &format!(r#"<span class="on">{text}</span>"#);
        }
        self.html += "</p>\n";
        self.charts(&part.charts);
        if !part.bars.is_empty() {
            self.bars(&part.bars);
        }
        line!(self, r#"<div class="answer"><div><p>{}</p>"#, sentences(&part.said));
        line!(self, r#"<ul class="claims">"#);
        for claim in &part.claims {
            let (sign, class, word) = match claim.holds {
                Some(true) => ("✓", "yes", "holds"),
                Some(false) => ("≠", "no", claim.reason.words()),
                None => ("○", "none", "not run"),
            };
            let text = escaped(&claim.text);
            line!(
                self,
                r#"<li><b class="sign-{class}" aria-hidden="true">{sign}</b>{text}: <span class="sign-{class}">{word}</span></li>"#
            );
        }
        self.html += "</ul></div>\n";
        self.html += &part.grid.as_ref().map(|grid| grid.html()).unwrap_or_default();
        self.html += "</div>\n";
    }

    fn charts(&mut self, charts: &[Chart]) {
        let charts: Vec<&Chart> = charts.iter().filter(|chart| !chart.is_empty()).collect();
        if charts.is_empty() {
            return;
        }
        let narrow = charts.len().is_multiple_of(4);
        line!(self, r#"<div class="panels{}">"#, if narrow { " four" } else { "" });
        for chart in charts {
            let (title, svg) = (escaped(&chart.title), Chart { narrow, ..chart.clone() }.svg(&self.id()));
            line!(self, "<figure><figcaption>{title}</figcaption>{svg}</figure>");
        }
        self.html += "</div>\n";
    }

    fn bars(&mut self, all: &[Bars]) {
        line!(self, r#"<div class="panels">"#);
        for bars in all {
            let (title, svg) = (escaped(&bars.title), bars.svg(&self.id()));
            line!(self, r#"<figure class="bars"><figcaption>{title}</figcaption>{svg}</figure>"#);
        }
        self.html += "</div>\n";
    }

    fn id(&mut self) -> String {
        self.pictures += 1;
        format!("c{}", self.pictures)
    }

    /// The corrections of printed figures, and the doubtful ones.
    fn corrections(&mut self, paper: &Paper) {
        let count = paper.corrections.len() + paper.doubts.len();
        if count == 0 {
            return;
        }
        line!(self, "<details><summary>What is wrong or doubtful in print ({count})</summary><ul>");
        paper.corrections.values().for_each(|text| line!(self, "<li>{}</li>", escaped(text)));
        paper.doubts.values().for_each(|text| line!(self, "<li>Doubtful: {}</li>", escaped(text)));
        self.html += "</ul></details>\n";
    }

    /// The tables of all rows of an experiment, folded up.
    fn sections(&mut self, experiment: &str) {
        for machine in self.machines {
            let rows: Vec<Row> = machine.of(experiment).cloned().collect();
            if rows.is_empty() {
                continue;
            }
            let (count, name) = (rows.len(), escaped(&machine.name));
            line!(self, "<details><summary>All {count} rows measured on {name}</summary>");
            for section in sections(experiment, &rows) {
                line!(self, "<h4>{}</h4>", escaped(&section.title));
                self.charts(&section.charts);
                self.html += &section.table.html();
                if !section.text.is_empty() {
                    line!(self, r#"<p class="soft">{}</p>"#, escaped(&section.text));
                }
            }
            self.html += "</details>\n";
        }
    }

    /// The parts of the page that belong to no paper.
    fn rest(&mut self) {
        for (name, title) in [("peers", "Whole commands"), ("service", "The server"), ("gpu", "The device's kernels")] {
            if self.machines.iter().any(|machine| machine.of(name).next().is_some()) {
                line!(self, r#"<section><h2 id="{name}">{title}</h2>"#);
                if name == "service" {
                    self.service();
                }
                self.sections(name);
                self.html += "</section>\n";
            }
        }
    }

    /// Bars of the server and what stands beside it, for each machine.
    fn service(&mut self) {
        for machine in self.machines {
            let bars = service::bars(machine);
            if !bars.is_empty() {
                line!(self, "<h4>{}</h4>", escaped(&machine.name));
                self.bars(&bars);
            }
        }
    }

    /// The conditions of the runs.
    fn machines(&mut self) {
        self.html += "<section><h2 id=\"machines\">The machines</h2>\n";
        for machine in self.machines {
            line!(self, "<h3>{}</h3>", escaped(&machine.name));
            for head in &machine.heads {
                let (date, commit) = (escaped(&head.date), escaped(&head.commit));
                let rows = head.lines().into_iter().map(|(name, value)| vec![name.into(), value]);
                let table = Table::of(["", ""], rows).html();
                line!(self, "<details><summary>{date}, commit {commit}</summary>\n{table}</details>");
            }
        }
        self.html += "</section>\n";
    }
}

fn sentences(all: &[Said]) -> String {
    all.iter().map(|said| escaped(&said.text)).collect::<Vec<_>>().join(" ")
}

/// The authors and publication, as "A, B and C. Where, when."
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
