//! P5's tables: the digest of a key and encryption under it, by size and by threads a block.

use crate::names::keys::{ENERGY, OURS, PRINTED};
use crate::paper::{Value, p5};
use crate::report::answer::rules::{Rule, facts, holds};
use crate::report::answer::{Grid, Pair, Panels, Part, Reason, Said, more};
use crate::report::chart::{Chart, Line, Source, Thing, on_one_axis, points};
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
    p5().values.iter().find(is_it).map(Value::number)
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

const BY_SIZE: &[Rule] = &[
    Rule::Say(&[
        "{last} on one thread with tables: {tables} ms here, {paper.cpu} ms printed, {paper.cpu / tables} × as fast.",
    ]),
    Rule::Say(&[
        "One thread with AES instructions takes {ours} ms for it, {paper.hybrid > ours ? less than : more than} the paper's CPU and GPU together with {paper.hybrid} ms.",
    ]),
    Rule::Say(&["A keyed digest and authentication make it {chunks / ours} × as long as bare ECB."]),
    Rule::Say(&[
        "On the GPU it takes {gpu} ms, with the digest on the CPU {hybrid} ms.",
        "The GPU's modes were not run: this machine has no GPU.",
    ]),
    holds("the time grows with the size", "tables > tables.first"),
    holds("the GPU's modes beat one thread at every size", "gpu_wins"),
    holds("the digest of the key is better made on the CPU", "cpu_digests"),
    Rule::Claim(
        "one CPU thread is slower than the printed CPU-GPU mode (with today's AES instructions)",
        "ours > paper.hybrid",
        Reason::FasterHardware,
    ),
];

/// Table I.
pub fn by_size(machine: &Machine) -> Part {
    let data = Data::of(machine);
    let sizes: Vec<&str> = p5().sweep("sizes", "bytes").into_iter().map(|(size, _)| size).collect();
    let is_gpu = machine.has_gpu();
    let ms = |scheme: &str, engine: &str, size: &str| {
        data.ms(scheme, engine, size).filter(|_| is_gpu || engine == "serial" || engine == "cpu")
    };
    let line = |size: &&str| {
        let of = |scheme: &str, engine: &str, mode: &str| {
            Pair::of(ms(scheme, engine, size), printed("sizes", mode, size, None, "time"))
        };
        let modes = MODES.map(|(mode, engine)| of(PRINTED, engine, mode));
        let cells = modes.into_iter().chain([of(OURS, "serial", "CPU-GPU")]).collect();
        ((*size).to_owned(), cells)
    };
    let charts = if data.rows.is_empty() { Vec::new() } else { size_charts(&sizes, &ms) };
    let last = sizes.iter().rev().find(|size| ms(PRINTED, "serial", size).is_some()).copied().unwrap_or("1GB");
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
    let facts = facts! {
        "last": [last],
        "tables": ms(PRINTED, "serial", last),
        "tables.first": ms(PRINTED, "serial", sizes[0]),
        "ours": ms(OURS, "serial", last),
        "chunks": ms(CHUNKS, "serial", last),
        "gpu": ms(PRINTED, "gpu", last),
        "hybrid": ms(PRINTED, "hybrid", last),
        "paper.cpu": printed("sizes", "CPU", last, None, "time"),
        "paper.hybrid": printed("sizes", "CPU-GPU", last, None, "time"),
        "gpu_wins": (!each.is_empty()).then(|| each.iter().all(|n| *n > 1.0)),
        "cpu_digests": (!digest_on_cpu.is_empty()).then(|| digest_on_cpu.iter().all(|b| *b)),
    };
    let (mut said, claims) = facts.by(&[BY_SIZE]);
    said.extend(energy(machine));
    let of_cpu: Vec<f64> = grid.lines.iter().filter_map(|(_, cells)| cells[0].ratio(true)).collect();
    Part {
        panels: vec![Panels::Charts(on_one_axis(charts))],
        said,
        claims,
        factor: median(&of_cpu),
        rows: data.rows.len(),
        grid: Some(grid),
    }
}

/// Times by size, for each kind of code. Older runs have one suite only.
fn size_charts(sizes: &[&str], ms: &dyn Fn(&str, &str, &str) -> Option<f64>) -> Vec<Chart> {
    let chart = |(title, scheme, modes): (&str, &str, &[(&str, &str)])| {
        let line = |(mode, engine): &(&str, &str)| {
            let thing = Thing::of_engine(engine);
            let paper = points(sizes, |size| printed("sizes", mode, size, None, "time"));
            let ours = points(sizes, |size| ms(scheme, engine, size));
            [Line::ours(*mode, thing, ours), Line::paper(format!("{mode}, paper"), thing, paper)]
        };
        let places = sizes.iter().map(|size| (*size).to_owned()).collect();
        Chart::new(title, "size", "ms", places, modes.iter().flat_map(line).collect())
    };
    let [cpu, gpu, hybrid] = MODES;
    let of_chunks = [cpu, gpu, hybrid, ("all cores", "cpu")];
    let all = [
        ("as printed: MD5, AES by tables", PRINTED, &MODES[..]),
        ("the same with Phalanx's kernels", OURS, &MODES),
        ("KMAC256 and Phalanx's chunks, suite 1", CHUNKS, &of_chunks),
        ("KMAC256 and Phalanx's chunks, suite 5", CHUNKS_5, &of_chunks),
    ];
    let charts = all.map(chart).into_iter();
    charts.filter(|chart| chart.lines.iter().any(|line| line.source == Source::Ours)).collect()
}

/// The paper's plan: energy a byte.
fn energy(machine: &Machine) -> Option<Said> {
    let rows: Vec<&Row> = machine.of("keys").filter(|row| row.measure == ENERGY).collect();
    let of = |scheme: &str, engine: &str| rows.iter().find(|row| row.scheme == scheme && row.engine == engine)?.value;
    let is_silent = !rows.is_empty();
    let facts = facts! {
        "tables": of(PRINTED, "serial").zip(of(OURS, "serial")).map(|(tables, _)| tables),
        "ours": of(OURS, "serial"),
        "device.tables": of(PRINTED, "gpu").zip(of(OURS, "gpu")).map(|(tables, _)| tables),
        "device": of(OURS, "gpu"),
        "silent": is_silent.then_some("This machine does not tell what energy a byte takes."),
    };
    facts.by(&[ENERGIES]).0.pop()
}

const ENERGIES: &[Rule] = &[Rule::Say(&[
    "A byte takes {tables} nJ with tables and {ours} nJ with AES instructions; on the device, whose energy is counted alone, {device.tables} nJ with tables and {device} nJ with Phalanx's kernels.",
    "A byte takes {tables} nJ with tables and {ours} nJ with AES instructions.",
    "On the device, whose energy alone is known here, a byte takes {device.tables} nJ with tables and {device} nJ with Phalanx's kernels.",
    "{silent}",
])];

const BY_THREADS: &[Rule] = &[
    Rule::Say(&[
        "1GB takes {few} ms with blocks of 128 threads and {many} ms with blocks of 1024: {few / many} × as fast. In the paper it is {476.23 / 365.80} ×.",
        "Not run: this machine has no GPU.",
    ]),
    holds("larger blocks of threads are faster", "few > many"),
    holds("at best 8.5 × one thread, or more", "best > 8.5"),
];

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
            let of = |(mode, engine): &(&str, &str)| {
                Pair::of(ms(n, engine, size), printed("threads", mode, size, Some(n), "time"))
            };
            let speedup = data.ms(PRINTED, "serial", size).zip(ms(n, "hybrid", size)).map(|(cpu, gpu)| cpu / gpu);
            let speedup = Pair::of(speedup, printed("threads", "CPU-GPU", size, Some(n), "total speedup"));
            let cells = MODES[1..].iter().map(of).chain([speedup]).collect();
            lines.push((format!("{size}, {n} threads"), cells));
        }
    }
    let best = threads
        .iter()
        .filter_map(|n| Some(data.ms(PRINTED, "serial", "1GB")? / ms(*n, "hybrid", "1GB")?))
        .reduce(f64::max);
    let charts = ["100MB", "1GB"].into_iter().map(|size| {
        let line = |(mode, engine): &(&str, &str)| {
            let thing = Thing::of_engine(engine);
            let paper = points(&threads, |n| printed("threads", mode, size, Some(*n), "time"));
            let ours = points(&threads, |n| ms(*n, engine, size));
            [Line::ours(*mode, thing, ours), Line::paper(format!("{mode}, paper"), thing, paper)]
        };
        let lines = MODES[1..].iter().flat_map(line).collect();
        Chart::new(size, "threads a block", "ms", threads.iter().map(u64::to_string).collect(), lines)
    });
    let facts = facts! { "few": ms(128, "hybrid", "1GB"), "many": ms(1024, "hybrid", "1GB"), "best": best };
    let (said, claims) = facts.by(&[BY_THREADS]);
    Part {
        panels: vec![Panels::Charts(charts.collect())],
        grid: Some(Grid {
            caption: "ms, and times one thread: measured, and below it printed".into(),
            corner: "file and threads a block".into(),
            columns: ["GPU, ms", "CPU-GPU, ms", "speedup"].map(String::from).to_vec(),
            lines,
            less_is_better: true,
        }),
        said,
        claims,
        rows: data.rows.iter().filter(|row| row.scheme.ends_with("threads a block")).count(),
        ..Part::default()
    }
}
