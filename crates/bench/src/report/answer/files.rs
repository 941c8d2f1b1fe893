//! P1's figures: speeds and speedups of files protected in SEFPS's layout, beside those of one of the paper's
//! platforms.

use crate::names::sefps::{BASELINE, MEANS, ours};
use crate::paper::p1;
use crate::report::answer::rules::{Facts, facts};
use crate::report::answer::{Grid, Pair, Part};
use crate::report::chart::{Chart, Line, Thing, on_one_axis, points};
use crate::report::machine::Machine;
use crate::row::Row;
use serde::Deserialize;

/// One of P1's figures.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Files {
    platform: String,
    operation: String,
    /// `total`, `AES` or `hash`.
    measure: String,
    /// Whether it shows speedups over one thread.
    is_speedup: bool,
}

/// The engines in the paper's order, and their names in its programs: CSP, CPP, GPP, HPP.
const ENGINES: [(&str, &str); 4] =
    [("serial", "one thread"), ("cpu", "CPU threads"), ("gpu", "GPU"), ("hybrid", "CPU + GPU")];
/// Phalanx's format, with its default suite and the fastest.
const FORMATS: [&str; 2] = ["Phalanx's format, AES-256-CTR + SHA-3", "Phalanx's format, AES-256-CTR + TurboSHAKE"];

/// The rows of one figure on one machine, and the paper's files.
struct Data<'a> {
    files: &'a Files,
    rows: Vec<&'a Row>,
    cases: Vec<(&'static str, u64)>,
}

/// The answer of a machine's rows to a figure.
pub fn answer(files: &Files, machine: &Machine) -> Part {
    let is_it = |row: &&Row| row.operation == files.operation && row.measure == files.measure;
    let data = Data { files, rows: machine.of("sefps").filter(is_it).collect(), cases: p1().sweep("protect", "bytes") };
    let grid = data.grid();
    Part {
        charts: data.charts(),
        facts: data.facts(machine),
        factor: grid.factor().filter(|_| !files.is_speedup),
        grid: Some(grid),
        rows: data.rows.len(),
        ..Part::default()
    }
}

impl Data<'_> {
    fn figure(&self, row: &Row) -> Option<f64> {
        if self.files.is_speedup { row.speedup } else { row.gb_per_s }
    }

    fn of(&self, scheme: &str, engine: &str) -> impl Iterator<Item = &Row> {
        self.rows.iter().copied().filter(move |row| row.scheme == scheme && row.engine == engine)
    }

    fn row(&self, scheme: &str, engine: &str, case: &str) -> Option<&Row> {
        self.of(scheme, engine).find(|row| row.case == case)
    }

    fn ours(&self, scheme: &str, engine: &str, case: &str) -> Option<f64> {
        self.figure(self.row(scheme, engine, case)?)
    }

    /// The mean over the large files. A short run has no such row, so this is then the mean over its files of 2 MB and
    /// more.
    fn mean(&self, scheme: &str, engine: &str) -> Option<f64> {
        if let Some(row) = self.row(scheme, engine, MEANS) {
            return self.figure(row);
        }
        let large = self.cases.iter().rev().filter(|(_, bytes)| *bytes >= 2_000_000);
        let values: Vec<f64> = large.filter_map(|(case, _)| self.ours(scheme, engine, case)).collect();
        (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64)
    }

    /// The better mean of the layout, with tables or with Phalanx's kernels.
    fn best(&self, engine: &str) -> Option<f64> {
        [BASELINE, &ours(128)].iter().filter_map(|scheme| self.mean(scheme, engine)).reduce(f64::max)
    }

    /// The printed figure of an engine for a size, or its mean.
    fn printed(&self, engine: &str, bytes: Option<u64>) -> Option<f64> {
        let Files { platform, operation, measure, is_speedup } = self.files;
        let wanted = format!("{measure} {}", if *is_speedup { "speedup" } else { "speed" });
        p1().number(|v| {
            v.experiment == *operation
                && v.platform.as_ref() == Some(platform)
                && v.engine.as_deref() == Some(engine)
                && v.measure == wanted
                && v.case.bytes == bytes
                && (bytes.is_some() || v.case.bytes_range.is_some() || measure == "hash")
        })
    }

    fn lines(&self, scheme: &str) -> Vec<Line> {
        let is_hash = self.files.measure == "hash";
        let large = self.cases.iter().position(|(_, bytes)| *bytes >= 12_000_000).unwrap_or(0);
        let averaged = [if is_hash { 0 } else { large }, self.cases.len() - 1];
        let mut lines = Vec::new();
        for (engine, name) in ENGINES {
            let thing = Thing::of_engine(engine);
            let own = match self.of(scheme, engine).next() {
                Some(row) if engine == "cpu" && row.threads > 1 => format!("{} threads", row.threads),
                _ => name.into(),
            };
            // All programs of the layout hash with one thread, so one line is enough.
            if !is_hash || engine == "serial" || scheme == FORMATS[0] {
                lines.push(Line::ours(own, thing, points(&self.cases, |(case, _)| self.ours(scheme, engine, case))));
            }
            let mean = self.printed(engine, None);
            lines.extend(mean.map(|mean| Line::mean(format!("{name}, paper"), thing, averaged, mean)));
            // Only the line of the mean has the name.
            lines.push(Line::paper("", thing, points(&self.cases, |(_, bytes)| self.printed(engine, Some(*bytes)))));
        }
        if self.files.is_speedup && self.files.measure == "total" {
            let bound = points(&self.cases, |(case, _)| self.row(scheme, "cpu", case)?.amdahl);
            lines.push(Line { marked: false, ..Line::ours("Amdahl's bound", Thing::Bound, bound) });
        }
        lines
    }

    fn charts(&self) -> Vec<Chart> {
        let y = if self.files.is_speedup { "times one thread" } else { "GB/s" };
        let schemes = [
            ("the paper's code: AES by tables", BASELINE),
            ("the same layout, Phalanx's kernels", &ours(128)),
            ("Phalanx's format, suite 1", FORMATS[0]),
            ("Phalanx's format, suite 5", FORMATS[1]),
        ];
        let is_run = |scheme: &str| self.rows.iter().any(|row| row.scheme == scheme && self.figure(row).is_some());
        let of = schemes.into_iter().filter(|(_, scheme)| is_run(scheme));
        let places = || self.cases.iter().map(|(case, _)| (*case).to_owned()).collect();
        let chart = |(name, scheme)| Chart::new(name, "size of the file", y, places(), self.lines(scheme));
        on_one_axis(of.map(chart).collect())
    }

    fn grid(&self) -> Grid {
        let is_speedup = self.files.is_speedup;
        let sizes = &self.cases[..4];
        let mut lines = Vec::new();
        for (name, scheme) in [("tables", BASELINE), ("Phalanx's kernels", &ours(128))] {
            for (engine, engine_name) in &ENGINES[usize::from(is_speedup)..] {
                let is_run = self.of(scheme, engine).any(|row| self.figure(row).is_some());
                // On a GPU there are both kinds of code. If neither was run, one line is enough.
                if !is_run && (name == "tables") != self.device_has_tables(engine) {
                    continue;
                }
                let word = (!is_run).then_some("not run");
                let pair = |ours, theirs| Pair { ours, theirs, word, plain: is_speedup };
                let of_size = |(case, bytes): &(&str, u64)| {
                    pair(self.ours(scheme, engine, case), self.printed(engine, Some(*bytes)))
                };
                let mean = pair(self.mean(scheme, engine), self.printed(engine, None));
                lines.push((format!("{engine_name}, {name}"), sizes.iter().map(of_size).chain([mean]).collect()));
            }
        }
        let what = if is_speedup { "Times as fast as one thread" } else { "Speed in GB/s" };
        let is_whole = self.rows.iter().any(|row| row.case == MEANS);
        let last = if is_whole { format!("mean of {MEANS}") } else { "mean of the files from 2 MB on".into() };
        let columns = sizes.iter().map(|(case, _)| (*case).to_owned()).chain([last]);
        Grid::new(format!("{what}: measured, and below it printed"), "program", columns, lines)
    }

    /// Whether an engine that was not run is shown in the line of the tables.
    fn device_has_tables(&self, engine: &str) -> bool {
        let is_cpu = engine == "serial" || engine == "cpu";
        is_cpu || self.rows.iter().all(|row| row.engine != engine || row.scheme == BASELINE)
    }

    fn facts(&self, machine: &Machine) -> Facts {
        let gpu = |engine: &str| self.best(engine).filter(|_| machine.has_gpu());
        let smallest = |engine: &str| self.row(BASELINE, engine, self.cases[0].0)?.gb_per_s;
        let threads = self.rows.iter().find(|row| row.engine == "cpu" && row.threads > 1).map_or(1, |row| row.threads);
        let is_opencl = self.best("gpu").is_some() && !machine.has_gpu();
        let (format, cpu) = (self.mean(FORMATS[0], "cpu"), self.mean(BASELINE, "cpu"));
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
            "paper": self.printed("hybrid", None).or(self.printed("serial", None)),
            "paper.serial": self.printed("serial", None),
            "paper.cpu": self.printed("cpu", None),
            "paper.hybrid": self.printed("hybrid", None),
            "smallest": [self.cases[0].0],
            "smallest.serial": smallest("serial"),
            "smallest.cpu": smallest("cpu"),
            "hash": self.serial_mean("hash", machine),
            "aes": self.serial_mean("AES", machine),
            "threads": [threads],
            "unit": [if self.files.is_speedup { "×" } else { "GB/s" }],
        }
    }

    /// The mean of one thread in one measure, with Phalanx's kernels. A short run has none, so its largest file is
    /// used.
    fn serial_mean(&self, measure: &str, machine: &Machine) -> Option<f64> {
        let scheme = ours(128);
        let is_it = |row: &&Row| {
            (&row.operation, row.measure.as_str(), &row.scheme, row.engine.as_str())
                == (&self.files.operation, measure, &scheme, "serial")
        };
        let rows: Vec<&Row> = machine.of("sefps").filter(is_it).collect();
        let mean = rows.iter().find(|row| row.case == MEANS).and_then(|row| row.gb_per_s);
        mean.or_else(|| rows.iter().rev().find_map(|row| row.gb_per_s))
    }
}
