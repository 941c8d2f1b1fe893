//! The paper's four questions, answered by sentences that are made from the rows.

use crate::names::study::{ALL_CORES, KEYS, ONE_CORE, OURS, SEVERAL, TABLES, measure, over_measure};
use crate::names::{ahead, kernel_only};
use crate::paper::p4;
use crate::report::section::{Section, Table};
use crate::report::text::digits;
use crate::row::{Row, median};
use std::collections::BTreeMap;

/// The inputs of the paper's answers.
pub const INPUTS: [&str; 2] = ["32000 bytes", "5 × 32000 bytes"];
/// Less is no gain, but chance.
const GAIN: f64 = 1.05;

/// All answers.
pub fn section(rows: &[&Row]) -> Section {
    let line = |question: &str, here: String, printed: String| vec![question.into(), here, printed];
    let lines = [
        line("RQ1 a: is the GPU faster than one core?", faster(rows, ONE_CORE), printed(rows, ONE_CORE)),
        line("RQ1 b: is the GPU faster than all cores?", faster(rows, ALL_CORES), printed(rows, ALL_CORES)),
        line("RQ2: do streams help?", streams(rows), setting("streams")),
        line("RQ3: which implementation is the fastest?", fastest(rows), setting("fastest program")),
        line("where CPU and GPU cross", crossings(rows), crossing_printed()),
    ];
    let text = "Each answer is made from the rows of this run. AES-128 / AES-192 / AES-256 stand in this order.";
    let table = Table::of(["question", "here", "*printed*"], lines);
    Section::new("the paper's questions", text, table)
}

/// The paper's words on something.
fn setting(name: &str) -> String {
    p4().settings.iter().find(|setting| setting.name == name).map(|setting| setting.text.clone()).unwrap_or_default()
}

fn crossing_printed() -> String {
    let of = |measure: &str| p4().values.iter().find(|v| v.experiment == "file-system" && v.measure == measure);
    let words = |measure: &str, text: &str| {
        of(measure).map(|v| format!("{text} {} {}", v.figure.printed, v.figure.printed_unit))
    };
    let times = of("AES speedup").map(|v| format!("about {} times as fast as the CPU there", v.figure.printed));
    let all = [words("fastest from", "the GPU is faster from"), words("steady from", "steady from about"), times];
    all.into_iter().flatten().collect::<Vec<_>>().join("; ")
}

/// Why the device's rows have no times, if none has.
fn not_answered(rows: &[&Row], is_needed: impl Fn(&Row) -> bool) -> Option<String> {
    let needed: Vec<&&Row> = rows.iter().filter(|row| is_needed(row)).collect();
    if needed.iter().any(|row| row.median_s.is_some() || row.speedup.is_some()) {
        return None;
    }
    let why = needed.iter().find_map(|row| row.why_not()).unwrap_or("there are no rows");
    Some(format!("Not answered: {why}."))
}

/// The beginning of an answer: what kind of device it is about, if that is no GPU.
fn on_what(rows: &[&Row]) -> String {
    let is_run = |row: &&&Row| row.engine == "gpu" && row.median_s.is_some();
    let note = rows.iter().filter(is_run).find_map(|row| row.note.as_deref());
    note.map(|note| format!("Measured {note}. ")).unwrap_or_default()
}

/// The speedups of an input, one for each length of keys.
fn speedups(rows: &[&Row], scheme: &str, over: &str, case: &str) -> Vec<f64> {
    let of = |bits: u64| {
        let is_it = |row: &&&Row| row.measure == over_measure(bits, over) && row.scheme == scheme && row.case == case;
        rows.iter().find(is_it)?.speedup
    };
    KEYS.into_iter().filter_map(of).collect()
}

fn slashes(numbers: &[f64]) -> String {
    numbers.iter().map(|n| digits(*n)).collect::<Vec<_>>().join(" / ")
}

pub fn faster(rows: &[&Row], over: &str) -> String {
    let is_needed = |row: &Row| KEYS.iter().any(|bits| row.measure == over_measure(*bits, over));
    if let Some(why) = not_answered(rows, is_needed) {
        return why;
    }
    let mut text = on_what(rows);
    for (scheme, how) in
        [(TABLES, "With lookup tables on both, as in the paper"), (OURS, "With Phalanx's kernels on both")]
    {
        let each: Vec<(&str, Vec<f64>)> =
            INPUTS.iter().map(|case| (*case, speedups(rows, scheme, over, case))).collect();
        let all: Vec<f64> = each.iter().flat_map(|(_, numbers)| numbers).copied().collect();
        if all.is_empty() {
            text += &format!("{how}: not run. ");
            continue;
        }
        let verdict = match all.iter().filter(|n| **n > 1.0).count() {
            0 => "no",
            n if n == all.len() => "yes",
            _ => "in part",
        };
        let numbers = each.iter().filter(|(_, numbers)| !numbers.is_empty());
        let numbers: Vec<String> = numbers.map(|(case, n)| format!("{} × at {case}", slashes(n))).collect();
        text += &format!("{how}: {verdict}, {}. ", numbers.join(", "));
    }
    text.trim_end().into()
}

fn printed(rows: &[&Row], over: &str) -> String {
    let of = |case: &&str| {
        let is_it = |bits: u64| {
            move |row: &&&Row| row.measure == over_measure(bits, over) && row.case == **case && !row.printed.is_empty()
        };
        let values: Vec<f64> =
            KEYS.into_iter().filter_map(|bits| Some(rows.iter().find(is_it(bits))?.printed[0].value)).collect();
        let values: Vec<String> = values.iter().map(f64::to_string).collect();
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

/// From which of the cases on a figure stays above a bound. `None` if the last one does not.
fn from(figures: &[(&str, f64)], bound: f64) -> Option<usize> {
    let above = figures.iter().rev().take_while(|(_, figure)| *figure > bound).count();
    (above > 0).then(|| figures.len() - above)
}

pub fn streams(rows: &[&Row]) -> String {
    let is_one =
        |row: &Row| row.engine == "gpu" && row.threads == 1 && KEYS.iter().any(|bits| row.measure == measure(*bits));
    if let Some(why) = not_answered(rows, is_one) {
        return why;
    }
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
    let gains: Vec<(&str, f64)> =
        cases(rows, is_one).into_iter().filter_map(|case| Some((case, gain(case)?))).collect();
    let verdict = match from(&gains, GAIN) {
        None => "No: several streams are not steadily faster than one at any size".into(),
        Some(at) => format!("Yes, from {} on", gains[at].0),
    };
    let numbers: Vec<String> = gains.iter().map(|(case, gain)| format!("{} × at {case}", digits(*gain))).collect();
    format!(
        "{}{verdict}: {} (medians over programs and lengths of keys; less than {GAIN} × counts as none).",
        on_what(rows),
        numbers.join(", ")
    )
}

pub fn fastest(rows: &[&Row]) -> String {
    let is_study = |row: &Row| row.median_s.is_some() && KEYS.iter().any(|bits| row.measure == measure(*bits));
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
    let device = match not_answered(rows, |row| row.engine == "gpu" && row.measure == measure(KEYS[0])) {
        Some(why) => format!("For the GPU: {}", why.replace("Not answered", "not answered")),
        None => String::new(),
    };
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
        let mut names: Vec<String> = KEYS.into_iter().filter_map(best).collect();
        if names.windows(2).all(|pair| pair[0] == pair[1]) {
            names.truncate(1);
        }
        let name = names.join(" / ");
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
    let is_needed = |row: &Row| KEYS.iter().any(|bits| row.measure == over_measure(*bits, ONE_CORE));
    if let Some(why) = not_answered(rows, is_needed) {
        return why;
    }
    let mut text = on_what(rows);
    for scheme in [TABLES, OURS] {
        for over in [ONE_CORE, ALL_CORES] {
            let each: Vec<String> = KEYS.into_iter().map(|bits| crossing(rows, scheme, over, bits)).collect();
            let same = each.windows(2).all(|pair| pair[0] == pair[1]);
            let each = if same { each[0].clone() } else { each.join(" / ") };
            text += &format!("{scheme}, GPU over {over}: {each}. ");
        }
    }
    text.trim_end().into()
}

/// From which size on the device is faster, and stays so.
fn crossing(rows: &[&Row], scheme: &str, over: &str, bits: u64) -> String {
    let is_it = |row: &Row| row.measure == over_measure(bits, over) && row.scheme == scheme && row.speedup.is_some();
    let mut figures: Vec<(u64, &str, f64)> = rows
        .iter()
        .filter(|row| is_it(row))
        .filter_map(|row| Some((row.bytes, row.case.as_str(), row.speedup?)))
        .collect();
    figures.sort_by_key(|(bytes, ..)| *bytes);
    let figures: Vec<(&str, f64)> = figures.into_iter().map(|(_, case, speedup)| (case, speedup)).collect();
    match (from(&figures, 1.0), figures.last()) {
        (_, None) => "not run".into(),
        (None, Some((largest, _))) => format!("nowhere up to {largest}"),
        (Some(0), _) => format!("everywhere from {} on", figures[0].0),
        (Some(at), _) => format!("between {} and {}", figures[at - 1].0, figures[at].0),
    }
}

/// Whether keystream that is made ahead pays.
pub fn pads(rows: &[&Row]) -> String {
    let mut cases: Vec<&str> = rows.iter().map(|row| row.case.as_str()).collect();
    cases.dedup();
    let suite_1 = ahead::sealed(ahead::SUITES[0]);
    let (mut text, mut sooner) = (String::new(), Vec::new());
    for case in &cases {
        let of = |measure: &str, scheme: &str| {
            let is_it = |row: &&&Row| row.case == *case && row.measure == measure && row.scheme == scheme;
            rows.iter().find(is_it)?.median_s
        };
        let figures =
            (of(ahead::LATENCY, ahead::AT_ONCE), of(ahead::LATENCY, ahead::AHEAD), of(ahead::WORK, ahead::AHEAD));
        let (Some(at_once), Some(xor), Some(work)) = figures else { continue };
        if xor * GAIN < at_once {
            sooner.push(*case);
        }
        let [us_at_once, us_xor] = [at_once, xor].map(|s| digits(s * 1e6));
        text += &format!(
            " {case}: the XOR takes {us_xor} µs where AES-CTR takes {us_at_once} µs, and {} times as much work with the making",
            digits(work / at_once)
        );
        text += &of(ahead::LATENCY, &suite_1).map_or_else(
            || ".".into(),
            |seal| {
                let part = (at_once - xor) / seal * 100.0;
                let does = if part < 0.0 { "adds" } else { "saves" };
                format!("; of a whole seal of suite 1, {} µs, it {does} {} %.", digits(seal * 1e6), digits(part.abs()))
            },
        );
    }
    let verdict = match (sooner.len(), cases.len()) {
        (0, _) => "It does not pay: no write is done sooner, and all of them cost more work.".into(),
        (n, all) if n == all => "Every write is encrypted sooner, for more work in all.".into(),
        _ => format!("Only writes of {} are encrypted sooner, and all of them cost more work.", sooner.join(" and ")),
    };
    if text.is_empty() {
        return String::new();
    }
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

    /// Rows of a device that wins at the larger size, and gains by streams there.
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
    fn without_a_device_the_reason_is_told() {
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
    fn the_papers_words_are_found() {
        assert!(!setting("streams").is_empty() && !setting("fastest program").is_empty());
        assert!(
            crossing_printed().contains("16 KB") && crossing_printed().contains("about 6"),
            "{}",
            crossing_printed()
        );
    }

    #[test]
    fn whether_a_pad_pays_follows_from_the_rows() {
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
