//! P4's figures and its four questions: AES by the size of the data on one core, all cores and the GPU.

use crate::names::study;
use crate::names::study::{
    ALL_CORES, KEYS, MORE_THREADS, ONE_CORE, OURS, SEVERAL, TABLES, measure, over_measure, scheme_of_threads,
};
use crate::paper::{Value, p4};
use crate::report::answer::questions;
use crate::report::answer::rules::{Facts, Rule, facts, holds};
use crate::report::answer::{Grid, Pair, Panels, Part, Reason};
use crate::report::chart::{Bar, Bars, Chart, Line, Thing, on_one_axis, points};
use crate::report::machine::Machine;
use crate::row::{Row, median};

/// One of P4's figures and questions.
#[derive(Clone, Copy, Debug)]
pub enum Volume {
    /// Figure 2.0: where the GPU passes the CPU.
    Crossing,
    /// Figure 2.1: how much faster it is where both are steady.
    Plateau,
    /// The GPU beside one core, or all.
    Faster(&'static str),
    /// Streams.
    Streams,
    /// The fastest program.
    Fastest,
}

/// The inputs of the paper's answers.
const INPUTS: [&str; 2] = ["32000 bytes", "5 × 32000 bytes"];
/// The granularities: bytes a thread.
const GRANULARITIES: [u32; 3] = [16, 32, 64];

/// What a machine's rows say about it.
pub fn answer(what: Volume, machine: &Machine) -> Part {
    let rows: Vec<&Row> = machine.of("volume").filter(|row| row.operation == study::OPERATION).collect();
    if rows.is_empty() {
        return Part::default();
    }
    let mut part = match what {
        Volume::Crossing => crossing(&rows, machine),
        Volume::Plateau => plateau(&rows, machine),
        Volume::Faster(over) => faster(&rows, machine, over),
        Volume::Streams => streams(&rows, machine),
        Volume::Fastest => fastest(&rows, machine),
    };
    part.rows = rows.len();
    part
}

/// The cases by their size.
fn cases(rows: &[&Row]) -> Vec<(u64, String)> {
    let mut all: Vec<(u64, String)> = rows.iter().map(|row| (row.bytes, row.case.clone())).collect();
    all.sort();
    all.dedup();
    all
}

fn speed(rows: &[&Row], bits: u64, scheme: &str, engine: &str, case: &str) -> Option<f64> {
    let is_it =
        |row: &&&Row| row.measure == measure(bits) && row.scheme == scheme && row.engine == engine && row.case == case;
    rows.iter().find(is_it)?.gb_per_s
}

/// The name of the device's line.
fn device_name(machine: &Machine) -> &'static str {
    if machine.has_gpu() { "GPU" } else { "CPU by OpenCL" }
}

fn on_gpu(scheme: &str) -> String {
    if scheme == TABLES { format!("{TABLES}, 32 bytes a thread") } else { scheme.to_owned() }
}

/// Speeds by size, for each length of keys and kind of kernels.
fn charts(rows: &[&Row], machine: &Machine) -> Vec<Chart> {
    let cases = cases(rows);
    let mut charts = Vec::new();
    for (scheme, kind) in [(TABLES, "tables, as in the paper"), (OURS, "Phalanx's kernels")] {
        for bits in KEYS {
            let line = |name: &str, thing: Thing, scheme: &str, engine: &str| {
                Line::ours(name, thing, points(&cases, |(_, case)| speed(rows, bits, scheme, engine, case)))
            };
            let lines = [
                line("one core", Thing::Serial, scheme, "serial"),
                line("all cores", Thing::Cpu, scheme, "cpu"),
                line(device_name(machine), Thing::Gpu, &on_gpu(scheme), "gpu"),
            ];
            charts.push(Chart::new(
                format!("AES-{bits}, {kind}"),
                "bytes encrypted at once",
                "GB/s",
                places(&cases),
                lines.into(),
            ));
        }
    }
    on_one_axis(charts)
}

fn places(cases: &[(u64, String)]) -> Vec<String> {
    cases.iter().map(|(_, case)| case.replace("32000 bytes", "32 KB")).collect()
}

/// The device over the CPU, by size.
fn ratios(rows: &[&Row], scheme: &str, over: &str, bits: u64) -> Vec<(u64, f64)> {
    let is_it = |row: &&&Row| row.measure == over_measure(bits, over) && row.scheme == scheme;
    let mut all: Vec<(u64, f64)> =
        rows.iter().filter(is_it).filter_map(|row| Some((row.bytes, row.speedup?))).collect();
    all.sort_by_key(|(bytes, _)| *bytes);
    all
}

fn not_on_gpu(machine: &Machine, rows: &[&Row]) -> Option<&'static str> {
    let is_run = rows.iter().any(|row| row.engine == "gpu" && row.median_s.is_some());
    match (machine.has_gpu(), is_run) {
        (true, true) => None,
        (_, false) => Some("No device was measured."),
        (false, true) => Some("The device is the CPU itself, through OpenCL: this says nothing about a GPU."),
    }
}

fn crossing(rows: &[&Row], machine: &Machine) -> Part {
    let from = |bits: u64| {
        let all = ratios(rows, TABLES, ONE_CORE, bits);
        let above = all.iter().rev().take_while(|(_, ratio)| *ratio > 1.0).last()?;
        Some(above.0 as f64)
    };
    let first = from(KEYS[0]).filter(|_| machine.has_gpu());
    let small = ratios(rows, TABLES, ONE_CORE, KEYS[0]).first().map(|(_, ratio)| *ratio).filter(|_| machine.has_gpu());
    let best = speed_of_largest(rows, OURS, "cpu");
    let gpu = speed_of_largest(rows, OURS, "gpu").filter(|_| machine.has_gpu());
    let facts = facts! {
        "answer": [answer_on_gpu(machine, rows, questions::crossings)],
        "first": first,
        "passes": small.map(|_| first.is_some()),
        "small": small,
        "cpu": best,
        "gpu": gpu,
    };
    Part { panels: vec![Panels::Charts(charts(rows, machine))], ..told(&facts, CROSSING) }
}

const CROSSING: &[Rule] = &[
    Rule::Say(&["{answer}"]),
    Rule::Say(&[
        "With tables and AES-128 the GPU stays ahead of one core from {first / 1024} KiB on; the paper's from about 16 KB.",
    ]),
    Rule::Say(&[
        "With AES instructions and all cores {cpu > gpu ? the CPU still wins : the GPU wins} at the largest size: {cpu} GB/s against {gpu} from host to host.",
    ]),
    holds("for very small data the GPU is slower than one core", "1 > small"),
    holds("from some size on the GPU with tables is faster than one core with tables", "passes"),
    Rule::Claim(
        "the GPU beats all cores with AES instructions at the largest size",
        "gpu > cpu",
        Reason::FasterHardware,
    ),
];

/// A part of what the rules make of the facts.
fn told(facts: &Facts, rules: &[Rule]) -> Part {
    let (said, claims) = facts.by(&[rules]);
    Part { said, claims, ..Part::default() }
}

/// The answer in words, or why there is none for a GPU.
fn answer_on_gpu(machine: &Machine, rows: &[&Row], answer: impl Fn(&[&Row]) -> String) -> String {
    not_on_gpu(machine, rows).map_or_else(|| answer(rows), String::from)
}

fn speed_of_largest(rows: &[&Row], scheme: &str, engine: &str) -> Option<f64> {
    let is_it = |row: &&&Row| row.measure == measure(KEYS[0]) && row.scheme == scheme && row.engine == engine;
    let all = rows.iter().filter(is_it).filter(|row| row.gb_per_s.is_some());
    all.max_by_key(|row| row.bytes)?.gb_per_s
}

fn plateau(rows: &[&Row], machine: &Machine) -> Part {
    let is_it = |v: &&Value| v.experiment == "file-system" && v.measure == "AES speedup";
    let printed = p4().values.iter().find(is_it).map(|v| v.figure.printed);
    let mut bars = Vec::new();
    for bits in KEYS {
        for (over, name) in [(ONE_CORE, "one core"), (ALL_CORES, "all cores")] {
            let last = ratios(rows, TABLES, over, bits).last().map(|(_, ratio)| *ratio);
            let name = format!("AES-{bits} over {name}");
            bars.extend(last.map(|value| Bar { name, thing: Thing::Gpu, value, printed: false }));
        }
    }
    let here = ratios(rows, TABLES, ONE_CORE, KEYS[0]).last().map(|(_, ratio)| *ratio);
    bars.extend(printed.map(|value| Bar { name: "the paper's CPU".into(), thing: Thing::Gpu, value, printed: true }));
    let title = format!("{} over the CPU at the largest size, tables on both", device_name(machine));
    let steady: Vec<(u64, f64)> = cases(rows)
        .iter()
        .filter_map(|(bytes, case)| Some((*bytes, speed(rows, KEYS[0], &on_gpu(TABLES), "gpu", case)?)))
        .collect();
    let after: Vec<f64> = steady.iter().filter(|(bytes, _)| *bytes >= 1 << 20).map(|(_, speed)| *speed).collect();
    let ends = after.iter().copied().reduce(f64::min).zip(after.iter().copied().reduce(f64::max));
    let on_gpu = |figure: Option<f64>| figure.filter(|_| machine.has_gpu());
    let facts = facts! {
        "device": [device_name(machine)],
        "here": here,
        "here.gpu": on_gpu(here),
        "paper": printed,
        "not on GPU": not_on_gpu(machine, rows),
        "least": ends.map(|(least, _)| least),
        "most": ends.map(|(_, most)| most),
        "span": on_gpu(ends.map(|(least, most)| most / least)),
    };
    let bars = Bars { title, unit: "times the CPU".into(), bars };
    Part { panels: vec![Panels::Bars(vec![bars])], ..told(&facts, PLATEAU) }
}

const PLATEAU: &[Rule] = &[
    Rule::Say(&[
        "At the largest size {device} is {here} × as fast as one core with the same tables; the paper has about {paper} ×.",
    ]),
    Rule::Say(&["{not on GPU}"]),
    Rule::Say(&["From 1 MiB on it does between {least} and {most} GB/s."]),
    holds("at large sizes the GPU is about 6 times as fast as the CPU, or more", "here.gpu > 4"),
    holds("from 1 MB on the speed stays", "1.5 > span"),
];

fn faster(rows: &[&Row], machine: &Machine, over: &'static str) -> Part {
    let printed = |bits: u64, case: &str| {
        let is_it =
            |row: &&&Row| row.measure == over_measure(bits, over) && row.case == case && !row.printed.is_empty();
        rows.iter().find(is_it).map(|row| row.printed[0].value)
    };
    let ours = |bits: u64, case: &str, scheme: &str| {
        let is_it = |row: &&&Row| row.measure == over_measure(bits, over) && row.case == case && row.scheme == scheme;
        rows.iter().find(is_it)?.speedup
    };
    let mut lines = Vec::new();
    for (scheme, name) in [(TABLES, "tables on both"), (OURS, "Phalanx's kernels on both")] {
        for case in INPUTS {
            let cell = |bits: u64| {
                let ours = ours(bits, case, scheme);
                let theirs = printed(bits, case).filter(|_| scheme == TABLES);
                Pair::of(ours, theirs).plain()
            };
            lines.push((format!("{case}, {name}"), KEYS.into_iter().map(cell).collect()));
        }
    }
    let question = if over == ONE_CORE { "one core" } else { "all cores" };
    let all =
        |scheme: &str| INPUTS.iter().flat_map(|case| KEYS.map(|bits| ours(bits, case, scheme))).flatten().collect();
    let (of_tables, of_ours): (Vec<f64>, Vec<f64>) = (all(TABLES), all(OURS));
    let wins = |all: &[f64]| (!all.is_empty() && machine.has_gpu()).then(|| all.iter().all(|n| *n > 1.0));
    let facts = facts! {
        "answer": [answer_on_gpu(machine, rows, |rows| questions::faster(rows, over))],
        "median": median(&of_ours),
        "question": [question],
        "tables": wins(&of_tables),
        "ours": wins(&of_ours),
    };
    Part {
        grid: Some(Grid {
            caption: format!("{} over {question}, times as fast: measured, and below it printed", device_name(machine)),
            corner: "data".into(),
            columns: KEYS.map(|bits| format!("AES-{bits}")).to_vec(),
            lines,
            ..Grid::default()
        }),
        ..told(&facts, FASTER)
    }
}

const FASTER: &[Rule] = &[
    Rule::Say(&["{answer}"]),
    Rule::Say(&["Where both have Phalanx's kernels, the median is {median} ×."]),
    holds("with tables the GPU is faster than {question}", "tables"),
    Rule::Claim("and also than {question} with AES instructions", "ours", Reason::FasterHardware),
];

fn streams(rows: &[&Row], machine: &Machine) -> Part {
    let gain = |case: &str| {
        let of = |bits: u64| {
            let scheme = on_gpu(TABLES);
            let several = rows.iter().find(|row| {
                row.measure == measure(bits)
                    && row.case == case
                    && row.engine == "gpu"
                    && row.scheme.strip_prefix(scheme.as_str()).is_some_and(|end| end.ends_with(SEVERAL))
            })?;
            Some(several.gb_per_s? / speed(rows, bits, &scheme, "gpu", case)?)
        };
        median(&KEYS.into_iter().filter_map(of).collect::<Vec<_>>())
    };
    let gains = points(&cases(rows), |(_, case)| gain(case));
    let title = "several streams over one, tables with 32 bytes a thread";
    let lines = vec![Line::ours("several streams", Thing::Gpu, gains)];
    let chart = Chart::new(title, "bytes encrypted at once", "times one stream", places(&cases(rows)), lines);
    let chart = Chart { mark: Some((1.0, "as fast as one".into())), ..chart };
    let at = |case: &str| gain(case).filter(|_| machine.has_gpu());
    let large = cases(rows).last().and_then(|(_, case)| at(case));
    let facts = facts! {
        "answer": [answer_on_gpu(machine, rows, questions::streams)],
        "small": at(INPUTS[0]),
        "large": large,
    };
    Part { panels: vec![Panels::Charts(vec![chart])], ..told(&facts, STREAMS) }
}

const STREAMS: &[Rule] = &[
    Rule::Say(&["{answer}"]),
    holds("at 32,000 bytes streams gain nothing", "1.05 > small"),
    holds("on large data they gain", "large > 1.05"),
];

fn fastest(rows: &[&Row], machine: &Machine) -> Part {
    let of_threads =
        |threads: u32| Some((threads, speed(rows, KEYS[0], &scheme_of_threads(threads), "gpu", INPUTS[1])?));
    let by_threads: Vec<(u32, f64)> = MORE_THREADS.into_iter().filter_map(of_threads).collect();
    let best_threads = by_threads.iter().max_by(|a, b| a.1.total_cmp(&b.1)).filter(|_| machine.has_gpu());
    let of = |bytes: u32, case: &str| speed(rows, KEYS[0], &format!("{TABLES}, {bytes} bytes a thread"), "gpu", case);
    let lines = INPUTS.iter().map(|case| {
        let cells = GRANULARITIES.map(|bytes| {
            let ours = of(bytes, case);
            Pair::of(ours, None).plain()
        });
        ((*case).to_owned(), cells.to_vec())
    });
    let best = |case: &str| {
        let all: Option<Vec<f64>> = GRANULARITIES.iter().map(|bytes| of(*bytes, case)).collect();
        all.filter(|_| machine.has_gpu()).map(|all| all[1] >= all[0].max(all[2]) * 0.99)
    };
    let facts = facts! {
        "answer": [answer_on_gpu(machine, rows, questions::fastest)],
        "count": Some(by_threads.len() as f64),
        "threads": best_threads.map(|(threads, _)| f64::from(*threads)),
        "speed": best_threads.map(|(_, speed)| *speed),
        "case": [INPUTS[1]],
        "both": best(INPUTS[0]).zip(best(INPUTS[1])).map(|(a, b)| a && b),
    };
    Part {
        grid: Some(Grid {
            caption: "AES-128 with tables by bytes a GPU thread, GB/s (the paper prints no figures)".into(),
            corner: "data".into(),
            columns: GRANULARITIES.map(|bytes| format!("{bytes} bytes")).to_vec(),
            lines: lines.collect(),
            ..Grid::default()
        }),
        ..told(&facts, FASTEST)
    }
}

const FASTEST: &[Rule] = &[
    Rule::Say(&["{answer}"]),
    Rule::Say(&["Of {count} other numbers of threads a block, {threads} are the fastest on {case} ({speed} GB/s)."]),
    holds("32 bytes a thread are the fastest", "both"),
];
