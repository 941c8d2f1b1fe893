//! P4's figures and its four questions: AES by the size of the data on one core, all cores and the GPU.

use crate::names::study;
use crate::names::study::{
    ALL_CORES, KEYS, MORE_THREADS, ONE_CORE, OURS, SEVERAL, TABLES, measure, over_measure, scheme_of_threads,
};
use crate::paper::{Value, p4};
use crate::report::answer::{Grid, Pair, Panels, Part, Reason, claim, more, questions, said};
use crate::report::chart::{Bar, Bars, Chart, Line, Thing};
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
                let points = cases.iter().enumerate();
                let points = points.filter_map(|(i, (_, case))| Some((i, speed(rows, bits, scheme, engine, case)?)));
                let points: Vec<(usize, f64)> = points.collect();
                (!points.is_empty()).then(|| Line::ours(name, thing, points))
            };
            let lines = [
                line("one core", Thing::Serial, scheme, "serial"),
                line("all cores", Thing::Cpu, scheme, "cpu"),
                line(device_name(machine), Thing::Gpu, &on_gpu(scheme), "gpu"),
            ];
            charts.push(Chart {
                title: format!("AES-{bits}, {kind}"),
                x: "bytes encrypted at once".into(),
                y: "GB/s".into(),
                places: cases.iter().map(|(_, case)| case.replace("32000 bytes", "32 KB")).collect(),
                lines: lines.into_iter().flatten().collect(),
                ..Chart::default()
            });
        }
    }
    let range = charts.iter().filter_map(Chart::extent).reduce(|a, b| [a[0].min(b[0]), a[1].max(b[1])]);
    charts.iter_mut().for_each(|chart| chart.range = range);
    charts
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
    let mut all = vec![said(not_on_gpu(machine, rows).map_or_else(|| questions::crossings(rows), String::from), &[])];
    let from = |bits: u64| {
        let all = ratios(rows, TABLES, ONE_CORE, bits);
        let above = all.iter().rev().take_while(|(_, ratio)| *ratio > 1.0).last()?;
        Some(above.0 as f64)
    };
    let first = from(KEYS[0]).filter(|_| machine.has_gpu());
    if let Some(bytes) = first {
        all.push(said(
            "With tables and AES-128 the GPU stays ahead of one core from {} KiB on; the paper's from about 16 KB.",
            &[bytes / 1024.0],
        ));
    }
    let small = ratios(rows, TABLES, ONE_CORE, KEYS[0]).first().map(|(_, ratio)| *ratio).filter(|_| machine.has_gpu());
    let best = speed_of_largest(rows, OURS, "cpu");
    let gpu = speed_of_largest(rows, OURS, "gpu").filter(|_| machine.has_gpu());
    if let Some((cpu, gpu)) = best.zip(gpu) {
        let does = if cpu > gpu { "the CPU still wins" } else { "the GPU wins" };
        all.push(said(format!("With AES instructions and all cores {does} at the largest size: {{}} GB/s against {{}} from host to host."), &[cpu, gpu]));
    }
    Part {
        panels: vec![Panels::Charts(charts(rows, machine))],
        said: all,
        claims: vec![
            claim("for very small data the GPU is slower than one core", small.map(|ratio| ratio < 1.0)),
            claim(
                "from some size on the GPU with tables is faster than one core with tables",
                small.map(|_| first.is_some()),
            ),
            claim("the GPU beats all cores with AES instructions at the largest size", more(gpu, best))
                .unless(Reason::FasterHardware),
        ],
        ..Part::default()
    }
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
    let mut all = Vec::new();
    if let Some((here, printed)) = here.zip(printed) {
        let pattern = format!(
            "At the largest size {} is {{}} × as fast as one core with the same tables; the paper has about {{}} ×.",
            device_name(machine)
        );
        all.push(said(pattern, &[here, printed]));
    }
    all.extend(not_on_gpu(machine, rows).map(|text| said(text, &[])));
    let steady: Vec<(u64, f64)> = cases(rows)
        .iter()
        .filter_map(|(bytes, case)| Some((*bytes, speed(rows, KEYS[0], &on_gpu(TABLES), "gpu", case)?)))
        .collect();
    let after: Vec<f64> = steady.iter().filter(|(bytes, _)| *bytes >= 1 << 20).map(|(_, speed)| *speed).collect();
    let ends = after.iter().copied().reduce(f64::min).zip(after.iter().copied().reduce(f64::max));
    let is_steady = ends.filter(|_| machine.has_gpu()).map(|(least, most)| most / least < 1.5);
    if let Some((least, most)) = ends {
        all.push(said("From 1 MiB on it does between {} and {} GB/s.", &[least, most]));
    }
    Part {
        panels: vec![Panels::Bars(vec![Bars { title, unit: "times the CPU".into(), bars }])],
        said: all,
        claims: vec![
            claim(
                "at large sizes the GPU is about 6 times as fast as the CPU, or more",
                here.filter(|_| machine.has_gpu()).map(|n| n > 4.0),
            ),
            claim("from 1 MB on the speed stays", is_steady),
        ],
        ..Part::default()
    }
}

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
                Pair { ours, theirs, word: ours.is_none().then_some("not run"), plain: true }
            };
            lines.push((format!("{case}, {name}"), KEYS.into_iter().map(cell).collect()));
        }
    }
    let question = if over == ONE_CORE { "one core" } else { "all cores" };
    let of_tables: Vec<f64> =
        INPUTS.iter().flat_map(|case| KEYS.map(|bits| ours(bits, case, TABLES))).flatten().collect();
    let holds = (!of_tables.is_empty() && machine.has_gpu()).then(|| of_tables.iter().all(|n| *n > 1.0));
    let of_ours: Vec<f64> = INPUTS.iter().flat_map(|case| KEYS.map(|bits| ours(bits, case, OURS))).flatten().collect();
    let with_instructions = (!of_ours.is_empty() && machine.has_gpu()).then(|| of_ours.iter().all(|n| *n > 1.0));
    let mut all =
        vec![said(not_on_gpu(machine, rows).map_or_else(|| questions::faster(rows, over), String::from), &[])];
    if let Some(median) = median(&of_ours) {
        all.push(said("Where both have Phalanx's kernels, the median is {} ×.", &[median]));
    }
    Part {
        grid: Some(Grid {
            caption: format!("{} over {question}, times as fast: measured, and below it printed", device_name(machine)),
            corner: "data".into(),
            columns: KEYS.map(|bits| format!("AES-{bits}")).to_vec(),
            lines,
            ..Grid::default()
        }),
        said: all,
        claims: vec![
            claim(format!("with tables the GPU is faster than {question}"), holds),
            claim(format!("and also than {question} with AES instructions"), with_instructions)
                .unless(Reason::FasterHardware),
        ],
        ..Part::default()
    }
}

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
    let gains: Vec<(usize, f64)> =
        cases(rows).iter().enumerate().filter_map(|(i, (_, case))| Some((i, gain(case)?))).collect();
    let all = vec![said(not_on_gpu(machine, rows).map_or_else(|| questions::streams(rows), String::from), &[])];
    let chart = Chart {
        title: "several streams over one, tables with 32 bytes a thread".into(),
        x: "bytes encrypted at once".into(),
        y: "times one stream".into(),
        places: cases(rows).into_iter().map(|(_, case)| case.replace("32000 bytes", "32 KB")).collect(),
        lines: vec![Line::ours("several streams", Thing::Gpu, gains)],
        mark: Some((1.0, "as fast as one".into())),
        ..Chart::default()
    };
    let at = |case: &str| gain(case).filter(|_| machine.has_gpu());
    let large = cases(rows).last().and_then(|(_, case)| at(case));
    Part {
        panels: vec![Panels::Charts(vec![chart])],
        said: all,
        claims: vec![
            claim("at 32,000 bytes streams gain nothing", at(INPUTS[0]).map(|gain| gain < 1.05)),
            claim("on large data they gain", large.map(|gain| gain > 1.05)),
        ],
        ..Part::default()
    }
}

fn fastest(rows: &[&Row], machine: &Machine) -> Part {
    let mut all = vec![said(not_on_gpu(machine, rows).map_or_else(|| questions::fastest(rows), String::from), &[])];
    let of_threads =
        |threads: u32| Some((threads, speed(rows, KEYS[0], &scheme_of_threads(threads), "gpu", INPUTS[1])?));
    let by_threads: Vec<(u32, f64)> = MORE_THREADS.into_iter().filter_map(of_threads).collect();
    if let Some((threads, best)) = by_threads.iter().max_by(|a, b| a.1.total_cmp(&b.1)).filter(|_| machine.has_gpu()) {
        let count = by_threads.len() as f64;
        let text =
            format!("Of {{}} other numbers of threads a block, {{}} are the fastest on {} ({{}} GB/s).", INPUTS[1]);
        all.push(said(text, &[count, f64::from(*threads), *best]));
    }
    let of = |bytes: u32, case: &str| speed(rows, KEYS[0], &format!("{TABLES}, {bytes} bytes a thread"), "gpu", case);
    let lines = INPUTS.iter().map(|case| {
        let cells = GRANULARITIES.map(|bytes| {
            let ours = of(bytes, case);
            Pair { ours, theirs: None, word: ours.is_none().then_some("not run"), plain: true }
        });
        ((*case).to_owned(), cells.to_vec())
    });
    let best = |case: &str| {
        let all: Option<Vec<f64>> = GRANULARITIES.iter().map(|bytes| of(*bytes, case)).collect();
        all.filter(|_| machine.has_gpu()).map(|all| all[1] >= all[0].max(all[2]) * 0.99)
    };
    Part {
        grid: Some(Grid {
            caption: "AES-128 with tables by bytes a GPU thread, GB/s (the paper prints no figures)".into(),
            corner: "data".into(),
            columns: GRANULARITIES.map(|bytes| format!("{bytes} bytes")).to_vec(),
            lines: lines.collect(),
            ..Grid::default()
        }),
        said: all,
        claims: vec![claim(
            "32 bytes a thread are the fastest",
            best(INPUTS[0]).zip(best(INPUTS[1])).map(|(a, b)| a && b),
        )],
        ..Part::default()
    }
}
