//! Tests of the page and its sentences, with the committed rows and with changed ones.

use super::answer::{Claim, Part, Reason, Said, Verdict};
use super::catalogue::{headlines, items};
use super::machine::{Machine, joined};
use super::page::Page;
use super::text::digits;
use super::{runs, summary};
use std::path::{Path, PathBuf};

fn results() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("results")
}

fn machines() -> Vec<Machine> {
    joined(runs(&results()).unwrap())
}

/// The machine with the most complete answer to one of the 52 tables and figures, and this answer.
fn best<'a>(machines: impl IntoIterator<Item = &'a Machine>, id: &str) -> (&'a Machine, Part) {
    let answers = machines.into_iter().map(|machine| (machine, answer(machine, id)));
    answers.max_by_key(|(_, part)| part.judged()).unwrap()
}

/// The best answer of a machine without a GPU.
fn best_of_cpus<'a>(machines: &'a [Machine], id: &str) -> (&'a Machine, Part) {
    best(machines.iter().filter(|machine| !machine.has_gpu()), id)
}

fn answer(machine: &Machine, id: &str) -> Part {
    items().iter().find(|item| item.id() == id).unwrap_or_else(|| panic!("no {id}")).answer(machine)
}

/// The machines' sentences for each headline.
fn all_headlines(machines: &[Machine]) -> Vec<Vec<Vec<Said>>> {
    let now = |(i, headline)| machines.iter().filter_map(|machine| summary::now(headline, i + 1, machine)).collect();
    headlines().iter().enumerate().map(now).collect()
}

/// A copy of a machine in which all times are multiplied by a factor.
fn changed(machine: &Machine, factor: impl Fn(&crate::row::Row) -> f64) -> Machine {
    let rows = machine.rows.iter().map(|row| {
        let factor = factor(row);
        let mut row = row.clone();
        row.seconds.iter_mut().for_each(|seconds| *seconds *= factor);
        row.median_s = row.median_s.map(|median| median * factor);
        row.gb_per_s = row.gb_per_s.map(|speed| speed / factor);
        row.speedup = row.speedup.map(|speedup| speedup / factor);
        row
    });
    Machine { name: machine.name.clone(), heads: machine.heads.clone(), rows: rows.collect() }
}

#[test]
fn each_of_the_52_is_in_the_page_with_a_verdict() {
    let machines = machines();
    let page = Page::of(&machines);
    let items = items();
    assert_eq!(items.len(), 52);
    for item in items {
        let id = item.id();
        assert_eq!(page.matches(&format!("<article id=\"{id}\">")).count(), 1, "{id}");
        assert!(page.contains(&format!("<a href=\"#{id}\">")), "{id} is not in the index");
        let article = page.split(&format!("<article id=\"{id}\">")).nth(1).unwrap().split("</article>").next().unwrap();
        assert!(article.contains("class=\"chip "), "{id} has no verdict");
        assert!(
            article.contains("<ul class=\"claims\">\n<li>") || article.contains("not run"),
            "{id} has no conclusions"
        );
    }
    // The page loads nothing, and runs nothing.
    for forbidden in ["<script", "http://", "https://", "src=", "@import", "url("] {
        assert!(!page.contains(forbidden), "{forbidden}");
    }
    for svg in page.split("<svg viewBox").skip(1).map(|rest| rest.split("</svg>").next().unwrap()) {
        let described = svg.contains("<title id=") && svg.contains("<desc id=");
        assert!(described || svg.contains("aria-hidden=\"true\""), "{svg}");
    }
    assert!(!page.contains("NaN") && !page.contains(">inf"), "a figure that is none");
}

/// Asserts that a sentence contains the texts of all its figures in their order.
fn names_its_figures(said: &Said) {
    let mut rest = said.text.as_str();
    for figure in &said.figures {
        let whole = format!("{figure:.0}");
        let at = [digits(*figure), whole].into_iter().filter_map(|text| Some((rest.find(&text)?, text.len()))).min();
        let (at, len) = at.unwrap_or_else(|| panic!("{figure} is not in {:?}", said.text));
        rest = &rest[at + len..];
    }
}

#[test]
fn sentences_name_the_figures_of_the_rows() {
    let machines = machines();
    let mut count = 0;
    for machine in &machines {
        for item in items() {
            for said in item.answer(machine).said {
                names_its_figures(&said);
                count += said.figures.len();
            }
        }
    }
    assert!(count > 100, "{count}");
    // One of them is computed here from the rows again.
    let (machine, part) = best_of_cpus(&machines, "p1-fig-4");
    let mean = |scheme: &str, engine: &str| {
        let is_it = |row: &&crate::row::Row| {
            row.operation == "protect" && row.measure == "AES" && row.scheme.starts_with(scheme) && row.engine == engine
        };
        let large = |row: &&crate::row::Row| row.bytes >= 12_500_000;
        let speeds: Vec<f64> = machine.rows.iter().filter(is_it).filter(large).filter_map(|row| row.gb_per_s).collect();
        speeds.iter().sum::<f64>() / speeds.len() as f64
    };
    let serial = mean("SEFPS as printed", "serial");
    assert!((part.said[0].figures[0] / serial - 1.0).abs() < 1e-9, "{:?}", part.said);
    assert!((part.said[0].figures[1] / (serial / 0.046357) - 1.0).abs() < 1e-6, "{:?}", part.said);
    let fast = mean("SEFPS with Phalanx's kernels, AES-128", "cpu");
    assert!((part.said[1].figures[0] / fast - 1.0).abs() < 1e-9, "{:?}", part.said);
}

#[test]
fn other_rows_give_other_sentences() {
    let machines = machines();
    for id in ["p1-fig-3", "p1-fig-5", "p2-fig-2", "p3-table-5-1", "p3-fig-5-6", "p5-table-i"] {
        let (machine, part) = best(&machines, id);
        let twice = answer(&changed(machine, |_| 2.0), id);
        assert_ne!(part.said, twice.said, "{id}");
        assert!(part.factor.unwrap() > twice.factor.unwrap() * 1.99, "{id}");
    }
    let headlines = |machines: &[Machine]| -> Vec<String> {
        all_headlines(machines).into_iter().flatten().flatten().map(|said| said.text).collect()
    };
    // Everything runs at half the speed, except the paper's own programs.
    let slower: Vec<Machine> = machines
        .iter()
        .map(|machine| changed(machine, |row| if row.scheme.contains("T-tables") { 1.0 } else { 2.0 }))
        .collect();
    let (before, after) = (headlines(&machines), headlines(&slower));
    assert_eq!(before.len(), after.len());
    assert!(before.iter().filter(|text| !after.contains(text)).count() >= 5, "{before:?} {after:?}");
}

/// The reason for a conclusion that does not hold is in the head, in the index and beside the conclusion.
#[test]
fn conclusions_that_do_not_hold_have_a_reason() {
    let machines = machines();
    let page = Page::of(&machines);
    assert!(!page.contains("a conclusion no longer holds") && !page.contains("does not hold here"));
    let verdict = |id: &str| best_of_cpus(&machines, id).1.verdict();
    assert_eq!(verdict("p1-fig-3"), Verdict::Changed(Reason::SmallFiles));
    assert_eq!(verdict("p1-fig-5"), Verdict::Changed(Reason::FasterHardware));
    assert_eq!(verdict("p1-fig-11"), Verdict::Changed(Reason::OtherFormat));
    let tally = page.split("<ul class=\"tally\">").nth(1).unwrap().split("</ul>").next().unwrap();
    for reason in [Reason::OtherFormat, Reason::FasterHardware, Reason::Refuted] {
        assert!(tally.contains(reason.words()), "{tally}");
    }
}

/// Each box of the head begins with a speed of this machine.
#[test]
fn the_boxes_of_the_head_begin_with_speeds() {
    let machines = machines();
    let headlines = all_headlines(&machines);
    assert!(headlines.len() == 5 && headlines.iter().all(|now| !now.is_empty()));
    for said in headlines.iter().flatten() {
        assert!(said[0].text.ends_with(" GB/s"), "{said:?}");
    }
    let commands = machines.iter().rev().find_map(summary::commands).unwrap();
    assert!(commands.headline.unwrap()[0].text.ends_with(" GB/s"));
}

fn holds(claims: &[Claim], part: &str) -> Option<bool> {
    claims.iter().find(|claim| claim.text.contains(part)).unwrap_or_else(|| panic!("{part}: {claims:?}")).holds
}

#[test]
fn conclusions_change_with_the_rows() {
    let machines = machines();
    let slow_threads = |row: &crate::row::Row| if row.engine == "cpu" { 100.0 } else { 1.0 };
    for (id, text) in [
        ("p1-fig-3", "on large files several threads beat one"),
        ("p1-fig-7", "AES gains by several threads"),
        ("p3-table-5-5", "up to the number of cores"),
        ("p3-table-5-6", "several workers beat one"),
    ] {
        let (machine, part) = best(&machines, id);
        assert_eq!(holds(&part.claims, text), Some(true), "{id}");
        let slow = answer(&changed(machine, slow_threads), id);
        assert_eq!(holds(&slow.claims, text), Some(false), "{id}");
        assert_eq!(slow.verdict(), Verdict::Changed(Reason::Refuted), "{id}");
    }
    // With AES instructions the hash is the slower part. Without them it is not.
    let (machine, part) = best(&machines, "p1-fig-5");
    let text = "one thread hashes faster than it encrypts";
    assert_eq!(holds(&part.claims, text), Some(false));
    let slow_aes = |row: &crate::row::Row| if row.measure == "AES" { 100.0 } else { 1.0 };
    assert_eq!(holds(&answer(&changed(machine, slow_aes), "p1-fig-5").claims, text), Some(true));
    // One thread was the slowest in the paper, but is not any more.
    let (machine, part) = best(&machines, "p2-fig-4");
    assert_eq!(holds(&part.claims, "SR, is the slowest"), Some(false));
    let slow_serial = |row: &crate::row::Row| if row.engine == "serial" { 100.0 } else { 1.0 };
    assert_eq!(holds(&answer(&changed(machine, slow_serial), "p2-fig-4").claims, "SR, is the slowest"), Some(true));
}

#[test]
fn without_rows_everything_is_shown_as_not_run() {
    let heads = machines().remove(0).heads;
    let empty = Machine { name: "empty".into(), heads, rows: Vec::new() };
    for item in items().iter().filter(|item| !item.is_model()) {
        let part = item.answer(&empty);
        assert_eq!(part.verdict(), Verdict::NotRun, "{}", item.id());
        assert!(part.said.iter().all(|said| said.figures.is_empty()), "{}: {:?}", item.id(), part.said);
    }
    let page = Page::of(&[empty]);
    assert!(page.matches("<article id=").count() == 52);
}

/// Rows of a GPU answer questions that a machine without a GPU leaves open. Rows of a device that is the CPU do not.
#[test]
fn only_a_gpu_answers_for_gpus() {
    let machines = machines();
    let opencl = machines.iter().find(|machine| machine.heads.iter().any(|head| head.device.is_some())).unwrap();
    assert!(!opencl.has_gpu());
    assert_eq!(answer(opencl, "p4-rq1-a").verdict(), Verdict::NotRun);
    let mut gpu = changed(opencl, |_| 1.0);
    gpu.heads.iter_mut().flat_map(|head| &mut head.device).for_each(|device| device.kind = "GPU".into());
    let part = answer(&gpu, "p4-rq1-a");
    assert!(matches!(part.verdict(), Verdict::Changed(_)), "a slow device loses against one core");
    let fast = changed(&gpu, |row| if row.measure.contains("times as fast") { 0.001 } else { 1.0 });
    assert_eq!(answer(&fast, "p4-rq1-a").verdict(), Verdict::Holds);
}
