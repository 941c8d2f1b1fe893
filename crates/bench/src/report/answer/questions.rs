//! The paper's four questions, answered by sentences that are made from the rows.

use crate::names::study::{ALL_CORES, KEYS, ONE_CORE, OURS, SEVERAL, TABLES, measure, over_measure};
use crate::names::{ahead, kernel_only};
use crate::paper::{Value, p4};
use crate::report::section::{Section, Table};
use crate::report::text::{digits, unique};
use crate::row::{Row, median};
use std::collections::BTreeMap;

/// The inputs of the paper's answers.
pub const INPUTS: [&str; 2] = ["32000 bytes", "5 × 32000 bytes"];
/// The least ratio that counts as a gain. A smaller one may be chance.
const GAIN: f64 = 1.05;

/// All answers.
pub fn section(rows: &[&Row]) -> Section {
    let setting =
        |name: &str| p4().settings.iter().find(|setting| setting.name == name).expect("it is printed").text.clone();
    let lines = [
        ["RQ1 a: is the GPU faster than one core?", &faster(rows, ONE_CORE), &printed(rows, ONE_CORE)],
        ["RQ1 b: is the GPU faster than all cores?", &faster(rows, ALL_CORES), &printed(rows, ALL_CORES)],
        ["RQ2: do streams help?", &streams(rows), &setting("streams")],
        ["RQ3: which implementation is the fastest?", &fastest(rows), &setting("fastest program")],
        ["where CPU and GPU cross", &crossings(rows), &crossing_printed()],
    ];
    let text = "Each answer is made from the rows of this run. AES-128 / AES-192 / AES-256 stand in this order.";
    let table = Table::of(["question", "here", "*printed*"], lines.map(|line| line.map(String::from).to_vec()));
    Section::new("the paper's questions", text, table)
}

fn crossing_printed() -> String {
    let of = |measure: &str| {
        let is_it = |v: &&Value| v.experiment == "file-system" && v.measure == measure;
        &p4().values.iter().find(is_it).expect("it is printed").figure
    };
    let [from, steady, times] = ["fastest from", "steady from", "AES speedup"].map(of);
    format!(
        "the GPU is faster from {} {}; steady from about {} {}; about {} times as fast as the CPU there",
        from.printed, from.printed_unit, steady.printed, steady.printed_unit, times.printed
    )
}

/// Whether a row is of a measure for some length of keys.
fn is_of(row: &Row, measure: impl Fn(u64) -> String) -> bool {
    KEYS.iter().any(|bits| row.measure == measure(*bits))
}

/// An answer. If the device is not a GPU, the answer begins with the kind of device. If the rows that are needed have
/// no times, this is the reason.
fn answered(rows: &[&Row], is_needed: impl Fn(&Row) -> bool, answer: impl Fn() -> String) -> String {
    if let Some(why) = why_not(rows, is_needed) {
        return format!("Not answered: {why}.");
    }
    format!("{}{}", on_what(rows), answer()).trim_end().into()
}

fn why_not<'a>(rows: &[&'a Row], is_needed: impl Fn(&Row) -> bool) -> Option<&'a str> {
    let needed = || rows.iter().copied().filter(|row| is_needed(row));
    let is_run = needed().any(|row| row.median_s.is_some() || row.speedup.is_some());
    (!is_run).then(|| needed().find_map(|row| row.why_not()).unwrap_or("there are no rows"))
}

fn on_what(rows: &[&Row]) -> String {
    let is_run = |row: &&&Row| row.engine == "gpu" && row.median_s.is_some();
    let note = rows.iter().filter(is_run).find_map(|row| row.note.as_deref());
    note.map(|note| format!("Measured {note}. ")).unwrap_or_default()
}

/// All texts or, if they are all the same, only one of them.
fn joined(mut all: Vec<String>) -> String {
    if all.windows(2).all(|pair| pair[0] == pair[1]) {
        all.truncate(1);
    }
    all.join(" / ")
}

pub fn faster(rows: &[&Row], over: &str) -> String {
    let of = |scheme: &str, case: &str, bits: u64| {
        let is_it = |row: &&&Row| row.measure == over_measure(bits, over) && row.scheme == scheme && row.case == case;
        rows.iter().find(is_it)?.speedup
    };
    let kind = |(scheme, how): (&str, &str)| {
        let (mut all, mut texts) = (Vec::new(), Vec::new());
        for case in INPUTS {
            let figures: Vec<f64> = KEYS.into_iter().filter_map(|bits| of(scheme, case, bits)).collect();
            let digits: Vec<String> = figures.iter().copied().map(digits).collect();
            texts.extend((!figures.is_empty()).then(|| format!("{} × at {case}", digits.join(" / "))));
            all.extend(figures);
        }
        let verdict = match all.iter().filter(|n| **n > 1.0).count() {
            _ if all.is_empty() => return format!("{how}: not run. "),
            0 => "no",
            n if n == all.len() => "yes",
            _ => "in part",
        };
        format!("{how}: {verdict}, {}. ", texts.join(", "))
    };
    let kinds = [(TABLES, "With lookup tables on both, as in the paper"), (OURS, "With Phalanx's kernels on both")];
    let is_needed = |row: &Row| is_of(row, |bits| over_measure(bits, over));
    answered(rows, is_needed, || kinds.map(kind).concat())
}

fn printed(rows: &[&Row], over: &str) -> String {
    let of = |case: &&str| {
        let is_it =
            |row: &Row, bits| row.measure == over_measure(bits, over) && row.case == **case && !row.printed.is_empty();
        let value = |bits| Some(rows.iter().find(|row| is_it(row, bits))?.printed[0].value.to_string());
        let values: Vec<String> = KEYS.into_iter().filter_map(value).collect();
        (!values.is_empty()).then(|| format!("{} × at {case}", values.join(" / ")))
    };
    INPUTS.iter().filter_map(of).collect::<Vec<_>>().join(", ")
}

/// "scheme, engine, threads".
pub fn line_name(row: &Row) -> String {
    match (row.engine.as_str(), row.threads) {
        ("cpu", threads) => format!("{}, {threads} threads", row.scheme),
        ("serial", _) => format!("{}, one core", row.scheme),
        (engine, _) => format!("{}, {engine}", row.scheme),
    }
}

/// The inputs that satisfy `is_it`, by their lengths.
fn cases<'a>(rows: &[&'a Row], is_it: impl Fn(&Row) -> bool) -> Vec<&'a str> {
    let all: BTreeMap<u64, &str> =
        rows.iter().filter(|row| is_it(row)).map(|row| (row.bytes, row.case.as_str())).collect();
    all.into_values().collect()
}

/// The first of the cases from which all figures are above a bound. `None` if the last figure is not.
fn from(figures: &[(&str, f64)], bound: f64) -> Option<usize> {
    let above = figures.iter().rev().take_while(|(_, figure)| *figure > bound).count();
    (above > 0).then(|| figures.len() - above)
}

pub fn streams(rows: &[&Row]) -> String {
    let is_one = |row: &Row| row.engine == "gpu" && row.threads == 1 && is_of(row, measure);
    let gain = |case: &str| {
        let of = |one: &&Row| {
            let is_it = |row: &&&Row| {
                row.case == case
                    && row.measure == one.measure
                    && row.threads > 1
                    && row.scheme.strip_prefix(one.scheme.as_str()).is_some_and(|end| end.ends_with(SEVERAL))
            };
            Some(one.median_s? / rows.iter().find(is_it)?.median_s?)
        };
        let gains: Vec<f64> = rows.iter().filter(|row| is_one(row) && row.case == case).filter_map(of).collect();
        median(&gains)
    };
    answered(rows, is_one, || {
        let gains = cases(rows, is_one).into_iter().filter_map(|case| Some((case, gain(case)?)));
        let gains: Vec<(&str, f64)> = gains.collect();
        let verdict = match from(&gains, GAIN) {
            None => "No: several streams are not steadily faster than one at any size".into(),
            Some(at) => format!("Yes, from {} on", gains[at].0),
        };
        let numbers: Vec<String> = gains.iter().map(|(case, gain)| format!("{} × at {case}", digits(*gain))).collect();
        let numbers = numbers.join(", ");
        format!("{verdict}: {numbers} (medians over programs and lengths of keys; less than {GAIN} × counts as none).")
    })
}

pub fn fastest(rows: &[&Row]) -> String {
    let is_study = |row: &Row| row.median_s.is_some() && is_of(row, measure);
    let on_gpu = |row: &Row| is_study(row) && row.engine == "gpu";
    let (at, at_gpu) = (inputs_and_largest(rows, is_study), inputs_and_largest(rows, on_gpu));
    if at.is_empty() {
        return "Not answered: there are no rows.".into();
    }
    let is_granularity = |row: &Row| row.engine == "gpu" && row.threads == 1 && row.scheme.starts_with(TABLES);
    let kernels = |bits| kernel_only(&measure(bits));
    let text = winners(rows, &at, "Of all", &measure, &|_| true)
        + &winners(rows, &at_gpu, "Of the GPU's", &measure, &|row| row.engine == "gpu")
        + &winners(rows, &at_gpu, "Of the granularities, with one stream", &measure, &is_granularity)
        + &winners(rows, &at_gpu, "Of these, by kernels alone", &kernels, &is_granularity);
    let device = why_not(rows, |row| row.engine == "gpu" && row.measure == measure(KEYS[0]));
    let device = device.map(|why| format!("For the GPU: not answered: {why}.")).unwrap_or_default();
    format!("{}{text}{device}", on_what(rows)).trim_end().into()
}

/// The paper's inputs, and the largest that was measured.
fn inputs_and_largest<'a>(rows: &[&'a Row], is_it: impl Fn(&Row) -> bool) -> Vec<&'a str> {
    let mut all = cases(rows, is_it);
    let largest = all.last().copied();
    all.retain(|case| INPUTS.contains(case) || Some(*case) == largest);
    all
}

/// Which of the candidates is the fastest in each case: "name at case, case; name at case".
fn winners(
    rows: &[&Row],
    cases: &[&str],
    what: &str,
    measure: &dyn Fn(u64) -> String,
    is_candidate: &dyn Fn(&Row) -> bool,
) -> String {
    let mut groups: Vec<(String, Vec<&str>)> = Vec::new();
    for case in cases {
        let best = |bits: u64| {
            let measure = measure(bits);
            let of = rows.iter().filter(|row| row.case == *case && row.measure == measure && is_candidate(row));
            let timed = of.filter_map(|row| Some((row.median_s?, row)));
            let (_, best) = timed.min_by(|(a, _), (b, _)| a.total_cmp(b))?;
            Some(if best.engine == "gpu" { best.scheme.clone() } else { line_name(best) })
        };
        let name = joined(KEYS.into_iter().filter_map(best).collect());
        match groups.last_mut() {
            _ if name.is_empty() => {}
            Some((same, cases)) if *same == name => cases.push(case),
            _ => groups.push((name, vec![case])),
        }
    }
    let each: Vec<String> = groups.iter().map(|(name, cases)| format!("{name} at {}", cases.join(", "))).collect();
    if each.is_empty() { String::new() } else { format!("{what}: {}. ", each.join("; ")) }
}

pub fn crossings(rows: &[&Row]) -> String {
    let all = [(TABLES, ONE_CORE), (TABLES, ALL_CORES), (OURS, ONE_CORE), (OURS, ALL_CORES)];
    let text = |(scheme, over): (&str, &str)| {
        let each = joined(KEYS.into_iter().map(|bits| crossing(rows, scheme, &over_measure(bits, over))).collect());
        format!("{scheme}, GPU over {over}: {each}. ")
    };
    answered(rows, |row| is_of(row, |bits| over_measure(bits, ONE_CORE)), || all.map(text).concat())
}

/// The size from which the device is always faster.
fn crossing(rows: &[&Row], scheme: &str, measure: &str) -> String {
    let mut of: Vec<&&Row> = rows.iter().filter(|row| row.measure == measure && row.scheme == scheme).collect();
    of.sort_by_key(|row| row.bytes);
    let figures = of.into_iter().filter_map(|row| Some((row.case.as_str(), row.speedup?)));
    let figures: Vec<(&str, f64)> = figures.collect();
    match (from(&figures, 1.0), figures.last()) {
        (_, None) => "not run".into(),
        (None, Some((largest, _))) => format!("nowhere up to {largest}"),
        (Some(0), _) => format!("everywhere from {} on", figures[0].0),
        (Some(at), _) => format!("between {} and {}", figures[at - 1].0, figures[at].0),
    }
}

/// Whether it pays to make keystream ahead.
pub fn pads(rows: &[&Row]) -> String {
    let cases = unique(rows.iter().map(|row| row.case.as_str()));
    let suite_1 = ahead::sealed(ahead::SUITES[0]);
    let (mut text, mut sooner) = (String::new(), Vec::new());
    for case in &cases {
        let of = |measure: &str, scheme: &str| {
            let is_it = |row: &&&Row| row.case == *case && row.measure == measure && row.scheme == scheme;
            rows.iter().find(is_it)?.median_s
        };
        let at_once = of(ahead::LATENCY, ahead::AT_ONCE);
        let made_ahead = of(ahead::LATENCY, ahead::AHEAD).zip(of(ahead::WORK, ahead::AHEAD));
        let Some((at_once, (xor, work))) = at_once.zip(made_ahead) else { continue };
        if xor * GAIN < at_once {
            sooner.push(*case);
        }
        let ([us_at_once, us_xor], times) = ([at_once, xor].map(|s| digits(s * 1e6)), digits(work / at_once));
        text += &format!(
            " {case}: the XOR takes {us_xor} µs where AES-CTR takes {us_at_once} µs, and {times} times as much work with the making"
        );
        if let Some(seal) = of(ahead::LATENCY, &suite_1) {
            let (us_seal, part) = (digits(seal * 1e6), (at_once - xor) / seal * 100.0);
            let (does, part) = (if part < 0.0 { "adds" } else { "saves" }, digits(part.abs()));
            text += &format!("; of a whole seal of suite 1, {us_seal} µs, it {does} {part} %");
        }
        text += ".";
    }
    let verdict = match (sooner.len(), cases.len()) {
        _ if text.is_empty() => return String::new(),
        (0, _) => "It does not pay: no write is done sooner, and all of them cost more work.".into(),
        (n, all) if n == all => "Every write is encrypted sooner, for more work in all.".into(),
        _ => format!("Only writes of {} are encrypted sooner, and all of them cost more work.", sooner.join(" and ")),
    };
    format!(
        "One core. {verdict}{text} The tag is made from the ciphertext, so no part of it can be made ahead. A pad is as secret as \
         a key, takes as much memory as the data that it is for, and must never be used twice."
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(case: &str, bytes: u64, measure: String, scheme: &str, engine: &str, threads: usize) -> Row {
        let [case, scheme, engine] = [case, scheme, engine].map(String::from);
        let operation = crate::names::study::OPERATION.into();
        Row { case, bytes, measure, scheme, engine, threads, operation, ..Row::default() }
    }

    /// Rows of a device that is faster at the larger size, and gains there from several streams.
    fn with_device() -> Vec<Row> {
        let mut rows = Vec::new();
        for bits in KEYS {
            for (case, bytes, speedup) in [("32000 bytes", 32_000, 0.5), ("1 MiB", 1 << 20, 4.0)] {
                for scheme in [TABLES, OURS] {
                    for over in [ONE_CORE, ALL_CORES] {
                        let row = row(case, bytes, over_measure(bits, over), scheme, "gpu", 1);
                        rows.push(Row { speedup: Some(speedup), ..row });
                    }
                    rows.push(row(case, bytes, measure(bits), scheme, "serial", 1).timed(vec![1.0]));
                }
                for (blocks, factor) in [(16, 1.0), (32, 0.9), (64, 1.1)] {
                    let scheme = format!("{TABLES}, {blocks} bytes a thread");
                    rows.push(row(case, bytes, measure(bits), &scheme, "gpu", 1).timed(vec![factor / speedup]));
                    let streams = format!("{scheme}, {SEVERAL}");
                    let gain = if bytes > 32_000 { 2.0 } else { 1.0 };
                    rows.push(row(case, bytes, measure(bits), &streams, "gpu", 4).timed(vec![factor / speedup / gain]));
                }
            }
        }
        rows
    }

    #[test]
    fn answers_follow_from_the_rows() {
        let rows = with_device();
        let rows: Vec<&Row> = rows.iter().collect();
        let text = faster(&rows, ONE_CORE);
        assert!(
            text.starts_with("With lookup tables on both, as in the paper: no, 0.500 / 0.500 / 0.500 × at 32000"),
            "{text}"
        );
        let text = streams(&rows);
        assert!(text.starts_with("Yes, from 1 MiB on: 1.00 × at 32000 bytes, 2.00 × at 1 MiB"), "{text}");
        let text = fastest(&rows);
        assert!(
            text.contains(
                "Of all: T-tables, one core at 32000 bytes; T-tables, 32 bytes a thread, several streams at 1 MiB."
            ),
            "{text}"
        );
        assert!(text.contains("with one stream: T-tables, 32 bytes a thread at 32000 bytes, 1 MiB."), "{text}");
        let text = crossings(&rows);
        assert!(text.contains("T-tables, GPU over one core: between 32000 bytes and 1 MiB."), "{text}");
    }

    #[test]
    fn without_a_device_the_answer_is_the_reason() {
        let rows: Vec<Row> = with_device()
            .into_iter()
            .map(|row| match row.engine.as_str() {
                "gpu" => Row { speedup: None, median_s: None, gb_per_s: None, ..row }.not_run("no device (why)"),
                _ => row,
            })
            .collect();
        let rows: Vec<&Row> = rows.iter().collect();
        for text in [faster(&rows, ONE_CORE), faster(&rows, ALL_CORES), streams(&rows), crossings(&rows)] {
            assert_eq!(text, "Not answered: no device (why).");
        }
        let text = fastest(&rows);
        assert!(
            text.contains("Of all: T-tables, one core at 32000 bytes") && text.contains("no device (why)"),
            "{text}"
        );
    }

    #[test]
    fn the_papers_answers_are_found() {
        let text = crossing_printed();
        assert!(text.contains("16 KB") && text.contains("about 6"), "{text}");
        assert!(section(&[]).table.rows.iter().all(|line| !line[0].is_empty() && !line[1].is_empty()));
    }

    #[test]
    fn the_answer_about_pads_follows_from_the_rows() {
        let row = |measure: &str, scheme: &str, seconds: f64| {
            row("4 KiB", 4096, measure.into(), scheme, "serial", 1).timed(vec![seconds])
        };
        let seal = ahead::sealed(ahead::SUITES[0]);
        let rows = |xor: f64| {
            [
                row(ahead::LATENCY, ahead::AT_ONCE, 4e-6),
                row(ahead::LATENCY, ahead::AHEAD, xor),
                row(ahead::WORK, ahead::AHEAD, 6e-6),
                row(ahead::LATENCY, &seal, 20e-6),
            ]
        };
        let text = |rows: [Row; 4]| pads(&rows.iter().collect::<Vec<_>>());
        let sooner = text(rows(1e-6));
        assert!(
            sooner.contains("Every write is encrypted sooner") && sooner.contains("1.50 times as much work"),
            "{sooner}"
        );
        assert!(sooner.contains("it saves 15.0 %"), "{sooner}");
        assert!(text(rows(5e-6)).contains("It does not pay"));
        assert_eq!(pads(&[]), "");
    }
}
