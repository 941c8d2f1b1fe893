//! The top of the page: what a manager reads in a minute, and how to read the rest.

use super::Page;
use super::items::Answered;
use crate::report::answer::{Reason, Verdict};
use crate::report::html::escaped;
use crate::report::machine::Machine;
use crate::report::{percent, summary};
use crate::row::Row;
use std::fmt::Write;

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
        for headline in summary::headlines(self.machines) {
            let _ = writeln!(
                self.html,
                "<div class=\"card\"><span class=\"label\">P{0} then</span><p class=\"big paper\">{1}</p><p>{2}</p>\
                 <div class=\"now\"><span class=\"label\"><a href=\"#p{0}\">now</a></span>",
                headline.paper, headline.figure, headline.then
            );
            for (name, said) in &headline.now {
                let Some((big, rest)) = said.split_first() else { continue };
                let rest: Vec<String> = rest.iter().map(|said| escaped(&said.text)).collect();
                let (big, rest, name) = (escaped(&big.text), rest.join(" "), escaped(name));
                let _ =
                    writeln!(self.html, "<p class=\"big\">{big}</p><p>{rest} <span class=\"soft\">({name})</span></p>");
            }
            if headline.now.is_empty() {
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
        let Some((big, text)) = commands.headline else { return };
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
            let text: Vec<String> = commands.said.iter().map(|said| escaped(&said.text)).collect();
            let _ = writeln!(self.html, "<p>{}</p>", text.join(" "));
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
