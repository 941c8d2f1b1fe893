//! P1's figures: speeds and speedups of files protected in SEFPS's layout, beside those of a platform of the paper's.

use crate::names::sefps::{BASELINE, MEANS, ours};
use crate::paper::{Value, p1};
use crate::report::answer::{Claim, Grid, Pair, Panels, Part, Reason, Said, claim, more, said};
use crate::report::chart::{Chart, Line, Thing};
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
/// Speeds of hashing that differ by less than this part count as the same.
const SAME: f64 = 0.15;
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
    let mut part = Part {
        panels: vec![Panels::Charts(data.charts())],
        said: data.sentences(machine),
        claims: data.claims(machine),
        factor: median(&grid.ratios().collect::<Vec<_>>()).filter(|_| !files.is_speedup),
        grid: Some(grid),
        rows: data.rows.len(),
    };
    if files.measure == "hash" {
        // The comparison is with AES, whose rows have another measure.
        part.claims.push(hash_beside_aes(files, machine));
    }
    part
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
        self.printed(engine).iter().find(of).map(|v| number(v))
    }

    fn lines(&self, scheme: &str) -> Vec<Line> {
        let mut lines = Vec::new();
        let from = self.cases.iter().position(|(_, bytes)| *bytes >= 12_000_000).unwrap_or(0);
        for (engine, name) in ENGINES {
            let thing = Thing::of_engine(engine);
            let points = self
                .cases
                .iter()
                .enumerate()
                .filter_map(|(i, (case, _))| Some((i, self.value(self.row(scheme, engine, case)?)?)));
            let points: Vec<(usize, f64)> = points.collect();
            let measured = !points.is_empty();
            let threads = self.rows.iter().find(|row| row.scheme == scheme && row.engine == engine);
            let threads = threads.map(|row| row.threads).filter(|n| engine == "cpu" && *n > 1);
            let own = threads.map_or_else(|| name.to_owned(), |n| format!("{n} threads"));
            // The hash is one thread's in all programs of the layout: one line is enough.
            let same = self.files.measure == "hash" && engine != "serial" && scheme != FORMAT;
            if measured && !same {
                lines.push(Line::ours(own, thing, points));
            }
            let printed = self.printed(engine);
            let points: Vec<(usize, f64)> = printed
                .iter()
                .filter_map(|v| {
                    let at = self.cases.iter().position(|(_, bytes)| Some(*bytes) == v.case.bytes)?;
                    Some((at, number(v)))
                })
                .collect();
            let label = format!("{name}, paper");
            if let Some(mean) = self.printed_mean(engine) {
                let first = if self.files.measure == "hash" { 0 } else { from };
                lines.push(Line::mean(&label, thing, [first, self.cases.len() - 1], mean));
            }
            if !points.is_empty() {
                // The name stands at the mean's end.
                lines.push(Line { name: String::new(), ..Line::paper("", thing, points) });
            }
        }
        if self.files.is_speedup && self.files.measure == "total" {
            let bound = self.cases.iter().enumerate();
            let bound = bound.filter_map(|(i, (case, _))| Some((i, self.row(scheme, "cpu", case)?.amdahl?)));
            let points: Vec<(usize, f64)> = bound.collect();
            if !points.is_empty() {
                let mut line = Line::ours("Amdahl's bound", Thing::Bound, points);
                line.marked = false;
                lines.push(line);
            }
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
        let chart = |(name, scheme): &(&str, String)| Chart {
            title: (*name).to_owned(),
            x: "size of the file".into(),
            y: y.into(),
            places: self.cases.iter().map(|(case, _)| case.clone()).collect(),
            lines: self.lines(scheme),
            ..Chart::default()
        };
        let mut charts: Vec<Chart> = self.schemes().iter().map(chart).collect();
        let extents: Vec<[f64; 2]> = charts.iter().filter_map(Chart::extent).collect();
        let range = extents.into_iter().reduce(|a, b| [a[0].min(b[0]), a[1].max(b[1])]);
        charts.iter_mut().for_each(|chart| chart.range = range);
        charts
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
                        let theirs = printed.iter().find(|v| v.case.bytes == Some(*bytes)).map(|v| number(v));
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

    fn sentences(&self, machine: &Machine) -> Vec<Said> {
        let mut all = Vec::new();
        let theirs = self.printed_mean("hybrid").or(self.printed_mean("serial"));
        let threads = self.rows.iter().find(|row| row.engine == "cpu" && row.threads > 1).map_or(1, |row| row.threads);
        match (self.files.is_speedup, self.files.measure) {
            (false, "hash") => {
                if let Some((ours, theirs)) = self.mean(BASELINE, "serial").zip(theirs) {
                    let pattern = "One stream of SHA3-256 runs at {} GB/s on one thread; the paper prints {} GB/s.";
                    all.push(said(pattern, &[ours, theirs]));
                }
                if let Some((many, one)) = self.mean(FORMAT, "cpu").zip(self.mean(&ours(128), "serial")) {
                    let pattern = format!(
                        "Phalanx's format hashes slices side by side, on {threads} threads at {{}} GB/s: {{}} × one stream."
                    );
                    all.push(said(pattern, &[many, many / one]));
                }
            }
            (false, _) => {
                if let Some((here, printed)) = self.mean(BASELINE, "serial").zip(self.printed_mean("serial")) {
                    let pattern =
                        "The paper's serial program does {} GB/s on this machine's one thread, {} × the printed {}.";
                    all.push(said(pattern, &[here, here / printed, printed]));
                }
                let best = self.mean(&ours(128), "cpu");
                let format = self.mean(FORMAT, "cpu");
                if let Some((best, hybrid)) = best.zip(self.printed_mean("hybrid")) {
                    let does = if best > hybrid { "more than" } else { "less than" };
                    let pattern = format!(
                        "{threads} threads with AES instructions do {{}} GB/s in the same layout, {does} the {{}} that the paper prints for its CPUs and GPU together."
                    );
                    all.push(said(pattern, &[best, hybrid]));
                }
                if let Some((format, layout)) = format.zip(best).filter(|_| self.files.measure == "total") {
                    let pattern = "Phalanx's own format, whose hash is parallel too, does {} GB/s: {} × the layout with the same kernels.";
                    all.push(said(pattern, &[format, format / layout]));
                }
            }
            (true, measure) => {
                if let Some((here, printed)) = self.mean(BASELINE, "cpu").zip(self.printed_mean("cpu")) {
                    let pattern = format!(
                        "{threads} threads are {{}} × as fast as one with the paper's code; the paper prints {{}} × for its CPUs."
                    );
                    all.push(said(pattern, &[here, printed]));
                }
                if let Some(bound) =
                    self.row(BASELINE, "cpu", MEANS).and_then(|row| row.amdahl).filter(|_| measure == "total")
                {
                    let format = self.mean(FORMAT, "cpu");
                    let pattern = "Amdahl's law allows {} × here, because one thread hashes.";
                    all.push(said(pattern, &[bound]));
                    if let Some(format) = format {
                        let does = if format > bound { "passes that bound" } else { "stays below that bound" };
                        let pattern =
                            format!("Phalanx's format hashes on all threads, gains {{}} × by them, and {does}.");
                        all.push(said(pattern, &[format]));
                    }
                }
            }
        }
        all.push(self.on_devices(machine));
        all
    }

    fn on_devices(&self, machine: &Machine) -> Said {
        if self.files.measure == "hash" && !self.files.is_speedup {
            return said("The hash is the CPU's work in all four programs.", &[]);
        }
        let unit = if self.files.is_speedup { "×" } else { "GB/s" };
        match (self.best("gpu"), self.best("hybrid")) {
            (Some(gpu), Some(hybrid)) if machine.has_gpu() => {
                said(format!("The GPU alone does {{}} {unit}, CPU and GPU together {{}} {unit}."), &[gpu, hybrid])
            }
            (Some(_), _) if !machine.has_gpu() => {
                said("The device here is the CPU itself, which says nothing about a GPU.", &[])
            }
            _ => said("GPU and hybrid were not run: this machine has no GPU.", &[]),
        }
    }

    fn claims(&self, machine: &Machine) -> Vec<Claim> {
        let gpu = |engine: &str| self.best(engine).filter(|_| machine.has_gpu());
        let cpu = self.best("cpu");
        match (self.files.is_speedup, self.files.measure) {
            (false, "hash") => {
                let speeds: Vec<f64> = ["serial", "cpu"].iter().filter_map(|e| self.mean(BASELINE, e)).collect();
                let same = (speeds.len() == 2).then(|| (speeds[0] / speeds[1] - 1.0).abs() < SAME);
                vec![claim("all programs hash at the same speed", same)]
            }
            (false, _) => {
                let at = |engine: &str| self.row(BASELINE, engine, &self.cases[0].0).and_then(|row| row.gb_per_s);
                let tables = |engine: &str| self.mean(BASELINE, engine);
                vec![
                    claim("on large files several threads beat one", more(tables("cpu"), tables("serial"))),
                    claim("on large files the GPU beats the CPU's threads", more(gpu("gpu"), cpu)),
                    claim(
                        "on large files CPU and GPU together are the fastest",
                        more(gpu("hybrid"), gpu("gpu").zip(cpu).map(|(a, b)| a.max(b))),
                    ),
                    claim(
                        format!("for {} several CPU threads beat one", self.cases[0].0),
                        more(at("cpu"), at("serial")),
                    )
                    .unless(Reason::SmallFiles),
                ]
            }
            (true, "AES") => vec![
                claim("AES gains by several threads", more(self.mean(BASELINE, "cpu"), Some(1.0))),
                claim(
                    "the hybrid gains more than the GPU, and the GPU more than the CPU",
                    ordered(cpu, gpu("gpu"), gpu("hybrid")),
                ),
            ],
            (true, _) => {
                let bound = self.row(BASELINE, "cpu", MEANS).and_then(|row| row.amdahl);
                let speedup = self.mean(BASELINE, "cpu");
                vec![
                    claim("the total gains by several threads", more(speedup, Some(1.0))),
                    claim(
                        "the hash, one thread's work, bounds the gain of the whole",
                        more(bound.map(|b| b * 1.25), self.mean(FORMAT, "cpu").or(speedup)),
                    )
                    .unless(Reason::OtherFormat),
                    claim(
                        "the hybrid gains more than the GPU, and the GPU more than the CPU",
                        ordered(cpu, gpu("gpu"), gpu("hybrid")),
                    ),
                ]
            }
        }
    }
}

fn number(value: &Value) -> f64 {
    value.figure.value.unwrap_or(value.figure.printed)
}

fn ordered(a: Option<f64>, b: Option<f64>, c: Option<f64>) -> Option<bool> {
    let (a, b, c) = (a?, b?, c?);
    Some(a < b && b < c)
}

/// The paper: SHA3-256 is three times as fast as AES on one thread, so that AES is the part to speed up.
fn hash_beside_aes(files: Files, machine: &Machine) -> Claim {
    let mean = |measure: &str, scheme: &str| {
        let is_it = |row: &&Row| {
            row.operation == files.operation && row.measure == measure && row.scheme == scheme && row.engine == "serial"
        };
        let rows: Vec<&Row> = machine.of("sefps").filter(is_it).collect();
        let mean = rows.iter().find(|row| row.case == MEANS).and_then(|row| row.gb_per_s);
        mean.or_else(|| rows.iter().rev().find_map(|row| row.gb_per_s))
    };
    let scheme = ours(128);
    let holds = more(mean("hash", &scheme), mean("AES", &scheme));
    claim("one thread hashes faster than it encrypts (with today's AES instructions)", holds)
        .unless(Reason::FasterHardware)
}
