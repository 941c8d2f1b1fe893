//! P1's figures: speeds and speedups of files protected in SEFPS's layout, beside those of a platform of the paper's.

use crate::names::sefps::{BASELINE, MEANS, ours};
use crate::paper::{Value, p1};
use crate::report::answer::rules::{Facts, Rule, facts, holds};
use crate::report::answer::{Grid, Pair, Panels, Part, Reason};
use crate::report::chart::{Chart, Line, Thing, on_one_axis, points};
use crate::report::machine::Machine;
use crate::row::{Row, median};

/// One of P1's figures.
#[derive(Clone, Copy, Debug)]
pub struct Files {
    /// The paper's platform: 1 or 2.
    pub platform: u32,
    /// `protect` or `unprotect`.
    pub operation: &'static str,
    /// `total`, `AES` or `hash`.
    pub measure: &'static str,
    /// Whether it is about speedups over one thread.
    pub is_speedup: bool,
}

/// The engines in the paper's order, and their names in its programs: CSP, CPP, GPP, HPP.
const ENGINES: [(&str, &str); 4] =
    [("serial", "one thread"), ("cpu", "CPU threads"), ("gpu", "GPU"), ("hybrid", "CPU + GPU")];
/// Phalanx's format, with its default suite.
const FORMAT: &str = "Phalanx's format, AES-256-CTR + SHA-3";
/// The same with the fastest suite.
const FORMAT_5: &str = "Phalanx's format, AES-256-CTR + TurboSHAKE";

/// The rows of one figure on one machine.
struct Data<'a> {
    files: Files,
    rows: Vec<&'a Row>,
    cases: Vec<(String, u64)>,
}

/// What a machine's rows say about it.
pub fn answer(files: Files, machine: &Machine) -> Part {
    let is_it = |row: &&Row| row.operation == files.operation && row.measure == files.measure;
    let rows: Vec<&Row> = machine.of("sefps").filter(is_it).collect();
    let cases = p1().sweep("protect", "bytes").into_iter().map(|(name, bytes)| (name.to_owned(), bytes)).collect();
    let data = Data { files, rows, cases };
    let grid = data.grid();
    let (said, claims) = data.facts(machine).by(data.rules());
    Part {
        panels: vec![Panels::Charts(data.charts())],
        said,
        claims,
        factor: median(&grid.ratios().collect::<Vec<_>>()).filter(|_| !files.is_speedup),
        grid: Some(grid),
        rows: data.rows.len(),
    }
}

impl Data<'_> {
    fn value(&self, row: &Row) -> Option<f64> {
        if self.files.is_speedup { row.speedup } else { row.gb_per_s }
    }

    fn row(&self, scheme: &str, engine: &str, case: &str) -> Option<&Row> {
        self.rows
            .iter()
            .copied()
            .find(|row| (row.scheme.as_str(), row.engine.as_str(), row.case.as_str()) == (scheme, engine, case))
    }

    /// The mean over the large files. A short run has none: then the mean over the largest that it has.
    fn mean(&self, scheme: &str, engine: &str) -> Option<f64> {
        if let Some(row) = self.row(scheme, engine, MEANS) {
            return self.value(row);
        }
        let large = self.cases.iter().rev().filter(|(_, bytes)| *bytes >= 2_000_000);
        let values: Vec<f64> = large.filter_map(|(case, _)| self.value(self.row(scheme, engine, case)?)).collect();
        (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64)
    }

    /// The printed figures of an engine.
    fn printed(&self, engine: &str) -> Vec<&'static Value> {
        let Files { platform, operation, measure, is_speedup } = self.files;
        let wanted = format!("{measure} {}", if is_speedup { "speedup" } else { "speed" });
        let is_it = |v: &&Value| {
            v.experiment == operation
                && v.platform.as_deref() == Some(platform.to_string().as_str())
                && v.engine.as_deref() == Some(engine)
                && v.measure == wanted
                && (v.case.bytes.is_some() || v.case.bytes_range.is_some() || measure == "hash")
        };
        p1().values.iter().filter(is_it).collect()
    }

    fn printed_mean(&self, engine: &str) -> Option<f64> {
        let of = |v: &&&Value| v.case.bytes.is_none();
        self.printed(engine).iter().find(of).map(|v| v.number())
    }

    fn lines(&self, scheme: &str) -> Vec<Line> {
        let mut lines = Vec::new();
        let from = self.cases.iter().position(|(_, bytes)| *bytes >= 12_000_000).unwrap_or(0);
        for (engine, name) in ENGINES {
            let thing = Thing::of_engine(engine);
            let ours = points(&self.cases, |(case, _)| self.value(self.row(scheme, engine, case)?));
            let threads = self.rows.iter().find(|row| row.scheme == scheme && row.engine == engine);
            let threads = threads.map(|row| row.threads).filter(|n| engine == "cpu" && *n > 1);
            let own = threads.map_or_else(|| name.to_owned(), |n| format!("{n} threads"));
            // The hash is one thread's in all programs of the layout: one line is enough.
            let same = self.files.measure == "hash" && engine != "serial" && scheme != FORMAT;
            if !same {
                lines.push(Line::ours(own, thing, ours));
            }
            let printed = self.printed(engine);
            let theirs = points(&self.cases, |(_, bytes)| {
                printed.iter().find(|v| v.case.bytes == Some(*bytes)).map(|v| v.number())
            });
            let label = format!("{name}, paper");
            if let Some(mean) = self.printed_mean(engine) {
                let first = if self.files.measure == "hash" { 0 } else { from };
                lines.push(Line::mean(&label, thing, [first, self.cases.len() - 1], mean));
            }
            // The name stands at the mean's end.
            lines.push(Line::paper("", thing, theirs));
        }
        if self.files.is_speedup && self.files.measure == "total" {
            let bound = points(&self.cases, |(case, _)| self.row(scheme, "cpu", case)?.amdahl);
            lines.push(Line { marked: false, ..Line::ours("Amdahl's bound", Thing::Bound, bound) });
        }
        lines
    }

    fn schemes(&self) -> Vec<(&'static str, String)> {
        let formats = [("Phalanx's format, suite 1", FORMAT), ("Phalanx's format, suite 5", FORMAT_5)];
        let layouts = [
            ("the paper's code: AES by tables", BASELINE.to_owned()),
            ("the same layout, Phalanx's kernels", ours(128)),
        ];
        let formats = formats.map(|(name, scheme)| (name, scheme.to_owned()));
        let all = layouts.into_iter().chain(formats);
        all.filter(|(_, scheme)| self.rows.iter().any(|row| row.scheme == *scheme && self.value(row).is_some()))
            .collect()
    }

    fn charts(&self) -> Vec<Chart> {
        let y = if self.files.is_speedup { "times one thread" } else { "GB/s" };
        let places = || self.cases.iter().map(|(case, _)| case.clone()).collect();
        let chart =
            |(name, scheme): &(&str, String)| Chart::new(*name, "size of the file", y, places(), self.lines(scheme));
        on_one_axis(self.schemes().iter().map(chart).collect())
    }

    fn grid(&self) -> Grid {
        let sizes: Vec<&(String, u64)> = self.cases.iter().take(4).collect();
        let what = if self.files.is_speedup { "Times as fast as one thread" } else { "Speed in GB/s" };
        let mut columns: Vec<String> = sizes.iter().map(|(case, _)| case.clone()).collect();
        columns.push(format!("mean of {MEANS}"));
        let mut lines = Vec::new();
        let is_speedup = self.files.is_speedup;
        for (name, scheme) in [("tables", BASELINE.to_owned()), ("Phalanx's kernels", ours(128))] {
            for (engine, engine_name) in ENGINES {
                if self.files.is_speedup && engine == "serial" {
                    continue;
                }
                let rows = || self.rows.iter().filter(|row| row.scheme == scheme && row.engine == engine);
                let is_run = rows().any(|row| self.value(row).is_some());
                // On a GPU both kinds of code were asked for: one line says that neither was run.
                if !is_run && (name == "tables") != self.device_has_tables(engine) {
                    continue;
                }
                let word = (!is_run).then_some("not run");
                let printed = self.printed(engine);
                let pair = |ours: Option<f64>, theirs: Option<f64>| Pair { ours, theirs, word, plain: is_speedup };
                let mut cells: Vec<Pair> = sizes
                    .iter()
                    .map(|(case, bytes)| {
                        let theirs = printed.iter().find(|v| v.case.bytes == Some(*bytes)).map(|v| v.number());
                        pair(self.row(&scheme, engine, case).and_then(|row| self.value(row)), theirs)
                    })
                    .collect();
                cells.push(pair(self.mean(&scheme, engine), self.printed_mean(engine)));
                lines.push((format!("{engine_name}, {name}"), cells));
            }
        }
        Grid {
            caption: format!("{what}: measured, and below it printed"),
            corner: "program".into(),
            columns,
            lines,
            ..Grid::default()
        }
    }

    /// Whether an engine that was not run stands in the line of the tables.
    fn device_has_tables(&self, engine: &str) -> bool {
        engine == "serial"
            || engine == "cpu"
            || self.rows.iter().all(|row| row.engine != engine || row.scheme == BASELINE)
    }

    /// The fastest engine by its mean, of the layout.
    fn best(&self, engine: &str) -> Option<f64> {
        let schemes = [BASELINE.to_owned(), ours(128)];
        schemes.iter().filter_map(|scheme| self.mean(scheme, engine)).reduce(f64::max)
    }

    /// The rules of the figure, in their order.
    fn rules(&self) -> &'static [&'static [Rule]] {
        match (self.files.is_speedup, self.files.measure) {
            (false, "hash") => &[HASH],
            (false, "total") => &[SPEED, TOTAL_SPEED, DEVICES],
            (false, _) => &[SPEED, DEVICES],
            (true, "AES") => &[GAIN, AES_GAIN, DEVICES, ORDER],
            (true, _) => &[GAIN, TOTAL_GAIN, DEVICES, ORDER],
        }
    }

    fn facts(&self, machine: &Machine) -> Facts {
        let gpu = |engine: &str| self.best(engine).filter(|_| machine.has_gpu());
        let smallest = |engine: &str| self.row(BASELINE, engine, &self.cases[0].0).and_then(|row| row.gb_per_s);
        let threads = self.rows.iter().find(|row| row.engine == "cpu" && row.threads > 1).map_or(1, |row| row.threads);
        let is_opencl = self.best("gpu").is_some() && !machine.has_gpu();
        let (format, cpu) = (self.mean(FORMAT, "cpu"), self.mean(BASELINE, "cpu"));
        let of_serial = |measure: &str| serial_mean(self.files, measure, machine);
        facts! {
            "serial": self.mean(BASELINE, "serial"),
            "cpu": cpu,
            "ours": self.mean(&ours(128), "cpu"),
            "one": self.mean(&ours(128), "serial"),
            "format": format,
            "format_or_cpu": format.or(cpu),
            "bound": self.row(BASELINE, "cpu", MEANS).and_then(|row| row.amdahl),
            "best": self.best("cpu"),
            "gpu": gpu("gpu"),
            "gpu_or_best": gpu("gpu").zip(self.best("cpu")).map(|(a, b)| a.max(b)),
            "hybrid": gpu("hybrid"),
            "opencl": is_opencl.then_some("The device here is the CPU itself, which says nothing about a GPU."),
            "paper": self.printed_mean("hybrid").or(self.printed_mean("serial")),
            "paper.serial": self.printed_mean("serial"),
            "paper.cpu": self.printed_mean("cpu"),
            "paper.hybrid": self.printed_mean("hybrid"),
            "smallest": [&self.cases[0].0],
            "smallest.serial": smallest("serial"),
            "smallest.cpu": smallest("cpu"),
            "hash": of_serial("hash"),
            "aes": of_serial("AES"),
            "threads": [threads],
            "unit": [if self.files.is_speedup { "×" } else { "GB/s" }],
        }
    }
}

/// The mean of one thread in one measure, with Phalanx's kernels. A short run has none: then its largest file.
fn serial_mean(files: Files, measure: &str, machine: &Machine) -> Option<f64> {
    let is_it = |row: &&Row| {
        row.operation == files.operation && row.measure == measure && row.scheme == ours(128) && row.engine == "serial"
    };
    let rows: Vec<&Row> = machine.of("sefps").filter(is_it).collect();
    let mean = rows.iter().find(|row| row.case == MEANS).and_then(|row| row.gb_per_s);
    mean.or_else(|| rows.iter().rev().find_map(|row| row.gb_per_s))
}

/// Speeds of hashing are the same if they differ by less than 15 %. In the paper SHA3-256 is three times as fast as AES on one
/// thread, so that AES is the part to speed up.
const HASH: &[Rule] = &[
    Rule::Say(&["One stream of SHA3-256 runs at {serial} GB/s on one thread; the paper prints {paper} GB/s."]),
    Rule::Say(&[
        "Phalanx's format hashes slices side by side, on {threads} threads at {format} GB/s: {format / one} × one stream.",
    ]),
    Rule::Say(&["The hash is the CPU's work in all four programs."]),
    holds("all programs hash at the same speed", "serial / cpu > 0.85 & 1.15 > serial / cpu"),
    Rule::Claim(
        "one thread hashes faster than it encrypts (with today's AES instructions)",
        "hash > aes",
        Reason::FasterHardware,
    ),
];
const SPEED: &[Rule] = &[
    Rule::Say(&[
        "The paper's serial program does {serial} GB/s on this machine's one thread, {serial / paper.serial} × the printed {paper.serial}.",
    ]),
    Rule::Say(&[
        "{threads} threads with AES instructions do {ours} GB/s in the same layout, {ours > paper.hybrid ? more than : less than} the {paper.hybrid} that the paper prints for its CPUs and GPU together.",
    ]),
    holds("on large files several threads beat one", "cpu > serial"),
    holds("on large files the GPU beats the CPU's threads", "gpu > best"),
    holds("on large files CPU and GPU together are the fastest", "hybrid > gpu_or_best"),
    Rule::Claim("for {smallest} several CPU threads beat one", "smallest.cpu > smallest.serial", Reason::SmallFiles),
];
const TOTAL_SPEED: &[Rule] = &[Rule::Say(&[
    "Phalanx's own format, whose hash is parallel too, does {format} GB/s: {format / ours} × the layout with the same kernels.",
])];
const GAIN: &[Rule] = &[Rule::Say(&[
    "{threads} threads are {cpu} × as fast as one with the paper's code; the paper prints {paper.cpu} × for its CPUs.",
])];
const AES_GAIN: &[Rule] = &[holds("AES gains by several threads", "cpu > 1")];
const TOTAL_GAIN: &[Rule] = &[
    Rule::Say(&["Amdahl's law allows {bound} × here, because one thread hashes."]),
    Rule::Say(&[
        "Phalanx's format hashes on all threads, gains {format} × by them, and {format > bound ? passes that bound : stays below that bound}.",
    ]),
    holds("the total gains by several threads", "cpu > 1"),
    Rule::Claim(
        "the hash, one thread's work, bounds the gain of the whole",
        "bound * 1.25 > format_or_cpu",
        Reason::OtherFormat,
    ),
];
const DEVICES: &[Rule] = &[Rule::Say(&[
    "The GPU alone does {gpu} {unit}, CPU and GPU together {hybrid} {unit}.",
    "{opencl}",
    "GPU and hybrid were not run: this machine has no GPU.",
])];
const ORDER: &[Rule] =
    &[holds("the hybrid gains more than the GPU, and the GPU more than the CPU", "gpu > best & hybrid > gpu")];
