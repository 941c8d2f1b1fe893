//! P5's tables: the digest of a key and encryption under it, by size and by threads a block.

use crate::names::keys::{ENERGY, OURS, PRINTED};
use crate::paper::{Value, p5};
use crate::report::answer::{Grid, Pair, Panels, Part, Reason, Said, claim, more, said};
use crate::report::chart::{Chart, Line, Source, Thing};
use crate::report::machine::Machine;
use crate::row::{Row, median};

/// The paper's modes in its order, with their engines.
const MODES: [(&str, &str); 3] = [("CPU", "serial"), ("GPU", "gpu"), ("CPU-GPU", "hybrid")];
/// Phalanx's own: a keyed digest, and authenticated chunks.
const CHUNKS: &str = "KMAC256 and Phalanx's chunks, AES-256-CTR + SHA-3";
/// The same with the fastest suite.
const CHUNKS_5: &str = "KMAC256 and Phalanx's chunks, AES-256-CTR + TurboSHAKE";

fn printed(experiment: &str, mode: &str, size: &str, threads: Option<u64>, measure: &str) -> Option<f64> {
    let is_it = |v: &&Value| {
        v.experiment == experiment
            && v.program.as_deref() == Some(mode)
            && v.case.size.as_deref() == Some(size)
            && v.measure == measure
            && (threads.is_none() || v.case.threads_per_block == threads)
    };
    p5().values.iter().find(is_it).map(|v| v.figure.value.unwrap_or(v.figure.printed))
}

/// The medians in ms.
struct Data<'a> {
    rows: Vec<&'a Row>,
}

impl<'a> Data<'a> {
    fn of(machine: &'a Machine) -> Self {
        let is_it = |row: &&Row| row.operation == "encrypt" && row.measure == "key digest and encryption";
        Self { rows: machine.of("keys").filter(is_it).collect() }
    }

    fn ms(&self, scheme: &str, engine: &str, size: &str) -> Option<f64> {
        let is_it = |row: &&&Row| row.scheme == scheme && row.engine == engine && row.case == size;
        Some(self.rows.iter().find(is_it)?.median_s? * 1e3)
    }
}

/// Table I.
pub fn by_size(machine: &Machine) -> Part {
    let data = Data::of(machine);
    let sizes: Vec<&str> = p5().sweep("sizes", "bytes").into_iter().map(|(size, _)| size).collect();
    let is_gpu = machine.has_gpu();
    let ms = |scheme: &str, engine: &str, size: &str| {
        data.ms(scheme, engine, size).filter(|_| is_gpu || engine == "serial" || engine == "cpu")
    };
    let line = |size: &&str| {
        let mut cells: Vec<Pair> = Vec::new();
        for (mode, engine) in MODES {
            let ours = ms(PRINTED, engine, size);
            cells.push(Pair {
                ours,
                theirs: printed("sizes", mode, size, None, "time"),
                word: ours.is_none().then_some("not run"),
                plain: false,
            });
        }
        let ours = ms(OURS, "serial", size);
        cells.push(Pair {
            ours,
            theirs: printed("sizes", "CPU-GPU", size, None, "time"),
            word: ours.is_none().then_some("not run"),
            plain: false,
        });
        ((*size).to_owned(), cells)
    };
    let mut charts = Vec::new();
    for (title, scheme) in [
        ("as printed: MD5, AES by tables", PRINTED),
        ("the same with Phalanx's kernels", OURS),
        ("KMAC256 and Phalanx's chunks, suite 1", CHUNKS),
        ("KMAC256 and Phalanx's chunks, suite 5", CHUNKS_5),
    ] {
        let mut lines = Vec::new();
        let modes = MODES.into_iter().chain((scheme == CHUNKS || scheme == CHUNKS_5).then_some(("all cores", "cpu")));
        for (mode, engine) in modes {
            let thing = Thing::of_engine(engine);
            let points = sizes.iter().enumerate().filter_map(|(i, size)| Some((i, ms(scheme, engine, size)?)));
            let points: Vec<(usize, f64)> = points.collect();
            if !points.is_empty() {
                lines.push(Line::ours(mode, thing, points));
            }
            let points = sizes.iter().enumerate();
            let points: Vec<(usize, f64)> =
                points.filter_map(|(i, size)| Some((i, printed("sizes", mode, size, None, "time")?))).collect();
            if !points.is_empty() {
                lines.push(Line::paper(format!("{mode}, paper"), thing, points));
            }
        }
        charts.push(Chart {
            title: title.into(),
            x: "size".into(),
            y: "ms".into(),
            places: sizes.iter().map(|size| (*size).to_owned()).collect(),
            lines,
            ..Chart::default()
        });
    }
    // Older runs have one suite only.
    charts.retain(|chart: &Chart| chart.lines.iter().any(|line| line.source == Source::Ours));
    if data.rows.is_empty() {
        charts.clear();
    }
    let range = charts.iter().filter_map(Chart::extent).reduce(|a, b| [a[0].min(b[0]), a[1].max(b[1])]);
    charts.iter_mut().for_each(|chart| chart.range = range);
    let last = sizes.iter().rev().find(|size| ms(PRINTED, "serial", size).is_some()).copied().unwrap_or("1GB");
    let mut all = Vec::new();
    if let Some((here, there)) = ms(PRINTED, "serial", last).zip(printed("sizes", "CPU", last, None, "time")) {
        all.push(said(
            format!("{last} on one thread with tables: {{}} ms here, {{}} ms printed, {{}} × as fast."),
            &[here, there, there / here],
        ));
    }
    if let Some((here, there)) = ms(OURS, "serial", last).zip(printed("sizes", "CPU-GPU", last, None, "time")) {
        let does = if here < there { "less than" } else { "more than" };
        all.push(said(format!("One thread with AES instructions takes {{}} ms for it, {does} the paper's CPU and GPU together with {{}} ms."), &[here, there]));
    }
    if let Some((chunks, keyed)) = ms(CHUNKS, "serial", last).zip(ms(OURS, "serial", last)) {
        all.push(said("A keyed digest and authentication make it {} × as long as bare ECB.", &[chunks / keyed]));
    }
    all.push(match (ms(PRINTED, "gpu", last), ms(PRINTED, "hybrid", last)) {
        (Some(gpu), Some(hybrid)) => {
            said("On the GPU it takes {} ms, with the digest on the CPU {} ms.", &[gpu, hybrid])
        }
        _ => said("The GPU's modes were not run: this machine has no GPU.", &[]),
    });
    all.extend(energy(machine));
    let speedup = |size: &str| Some(ms(PRINTED, "serial", size)? / ms(PRINTED, "hybrid", size)?);
    let each: Vec<f64> = sizes.iter().filter_map(|size| speedup(size)).collect();
    let digest_on_cpu: Vec<bool> = sizes
        .iter()
        .filter_map(|size| more(ms(PRINTED, "gpu", size).map(|m| m * 1.02), ms(PRINTED, "hybrid", size)))
        .collect();
    let grid = Grid {
        caption: "ms: measured, and below it printed; last column: one thread with AES instructions beside the paper's CPU-GPU mode".into(),
        corner: "size".into(),
        columns: ["CPU", "GPU", "CPU-GPU", "CPU today"].map(String::from).to_vec(),
        lines: sizes.iter().map(line).collect(),
        less_is_better: true,
    };
    let of_cpu: Vec<f64> = grid.lines.iter().filter_map(|(_, cells)| cells[0].ratio(true)).collect();
    Part {
        panels: vec![Panels::Charts(charts)],
        said: all,
        claims: vec![
            claim("the time grows with the size", more(ms(PRINTED, "serial", last), ms(PRINTED, "serial", sizes[0]))),
            claim(
                "the GPU's modes beat one thread at every size",
                (!each.is_empty()).then(|| each.iter().all(|n| *n > 1.0)),
            ),
            claim(
                "the digest of the key is better made on the CPU",
                (!digest_on_cpu.is_empty()).then(|| digest_on_cpu.iter().all(|b| *b)),
            ),
            claim(
                "one CPU thread is slower than the printed CPU-GPU mode (with today's AES instructions)",
                more(ms(OURS, "serial", last), printed("sizes", "CPU-GPU", last, None, "time")),
            )
            .unless(Reason::FasterHardware),
        ],
        factor: median(&of_cpu),
        rows: data.rows.len(),
        grid: Some(grid),
    }
}

/// The paper's plan: energy a byte.
fn energy(machine: &Machine) -> Option<Said> {
    let rows: Vec<&Row> = machine.of("keys").filter(|row| row.measure == ENERGY).collect();
    let of = |scheme: &str, engine: &str| rows.iter().find(|row| row.scheme == scheme && row.engine == engine)?.value;
    let [cpu, gpu] = ["serial", "gpu"].map(|engine| of(PRINTED, engine).zip(of(OURS, engine)));
    match (cpu, gpu) {
        (Some((tables, ours)), None) => {
            Some(said("A byte takes {} nJ with tables and {} nJ with AES instructions.", &[tables, ours]))
        }
        (None, Some((tables, ours))) => {
            let text = "On the device, whose energy alone is known here, a byte takes {} nJ with tables and {} nJ with Phalanx's kernels.";
            Some(said(text, &[tables, ours]))
        }
        (Some((tables, ours)), Some((device_tables, device))) => {
            let text = "A byte takes {} nJ with tables and {} nJ with AES instructions; on the device, whose energy is counted alone, {} nJ with tables and {} nJ with Phalanx's kernels.";
            Some(said(text, &[tables, ours, device_tables, device]))
        }
        (None, None) if rows.is_empty() => None,
        (None, None) => Some(said("This machine does not tell what energy a byte takes.", &[])),
    }
}

/// Table II.
pub fn by_threads(machine: &Machine) -> Part {
    let data = Data::of(machine);
    let is_gpu = machine.has_gpu();
    let threads = [128u64, 256, 512, 1024];
    let ms = |n: u64, engine: &str, size: &str| {
        data.ms(&format!("{PRINTED}, {n} threads a block"), engine, size).filter(|_| is_gpu)
    };
    let mut lines = Vec::new();
    for size in ["100MB", "1GB"] {
        for n in threads {
            let mut cells: Vec<Pair> = MODES[1..]
                .iter()
                .map(|(mode, engine)| {
                    let ours = ms(n, engine, size);
                    let theirs = printed("threads", mode, size, Some(n), "time");
                    Pair { ours, theirs, word: ours.is_none().then_some("not run"), plain: false }
                })
                .collect();
            let ours = data.ms(PRINTED, "serial", size).zip(ms(n, "hybrid", size)).map(|(cpu, gpu)| cpu / gpu);
            let theirs = printed("threads", "CPU-GPU", size, Some(n), "total speedup");
            cells.push(Pair { ours, theirs, word: ours.is_none().then_some("not run"), plain: false });
            lines.push((format!("{size}, {n} threads"), cells));
        }
    }
    let falls = more(ms(128, "hybrid", "1GB"), ms(1024, "hybrid", "1GB"));
    let all = match (ms(128, "hybrid", "1GB"), ms(1024, "hybrid", "1GB")) {
        (Some(few), Some(many)) => vec![said(
            "1GB takes {} ms with blocks of 128 threads and {} ms with blocks of 1024: {} × as fast. In the paper it is {} ×.",
            &[few, many, few / many, 476.23 / 365.80],
        )],
        _ => vec![said("Not run: this machine has no GPU.", &[])],
    };
    let best = threads
        .iter()
        .filter_map(|n| Some(data.ms(PRINTED, "serial", "1GB")? / ms(*n, "hybrid", "1GB")?))
        .reduce(f64::max);
    let charts = ["100MB", "1GB"].into_iter().map(|size| {
        let mut lines = Vec::new();
        for (mode, engine) in &MODES[1..] {
            let thing = Thing::of_engine(engine);
            let points: Vec<(usize, f64)> =
                threads.iter().enumerate().filter_map(|(i, n)| Some((i, ms(*n, engine, size)?))).collect();
            if !points.is_empty() {
                lines.push(Line::ours(*mode, thing, points));
            }
            let points = threads.iter().enumerate();
            let points = points.filter_map(|(i, n)| Some((i, printed("threads", mode, size, Some(*n), "time")?)));
            lines.push(Line::paper(format!("{mode}, paper"), thing, points.collect()));
        }
        Chart {
            title: size.into(),
            x: "threads a block".into(),
            y: "ms".into(),
            places: threads.iter().map(u64::to_string).collect(),
            lines,
            ..Chart::default()
        }
    });
    Part {
        panels: vec![Panels::Charts(charts.collect())],
        grid: Some(Grid {
            caption: "ms, and times one thread: measured, and below it printed".into(),
            corner: "file and threads a block".into(),
            columns: ["GPU, ms", "CPU-GPU, ms", "speedup"].map(String::from).to_vec(),
            lines,
            less_is_better: true,
        }),
        said: all,
        claims: vec![
            claim("larger blocks of threads are faster", falls),
            claim("at best 8.5 × one thread, or more", best.map(|n| n > 8.5)),
        ],
        rows: data.rows.iter().filter(|row| row.scheme.ends_with("threads a block")).count(),
        ..Part::default()
    }
}
