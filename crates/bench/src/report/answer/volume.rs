//! P4's figures and questions: AES by the size of the data on the CPU and on a GPU.

use crate::names::study;
use crate::names::study::{
    ALL_CORES, KEYS, MORE_THREADS, ONE_CORE, OURS, SEVERAL, TABLES, measure, over_measure, scheme_of_threads,
};
use crate::paper::p4;
use crate::report::answer::questions;
use crate::report::answer::questions::INPUTS;
use crate::report::answer::rules::facts;
use crate::report::answer::{Grid, Pair, Part, all};
use crate::report::bars::{Bar, Bars};
use crate::report::chart::{Chart, Line, Thing, on_one_axis, points};
use crate::report::machine::Machine;
use crate::row::{Row, median};
use serde::Deserialize;

/// One of P4's figures and questions.
#[derive(Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Volume {
    /// Figure 2.0: the size from which the GPU is faster than the CPU.
    Crossing,
    /// Figure 2.1: how much faster the GPU is where both speeds are steady.
    Plateau,
    /// The GPU compared with one core, or with all cores.
    Faster(String),
    Streams,
    /// The fastest program.
    Fastest,
}

/// The granularities: bytes a thread.
const GRANULARITIES: [u32; 3] = [16, 32, 64];

/// The rows of AES by size on one machine.
struct Data<'a> {
    machine: &'a Machine,
    rows: Vec<&'a Row>,
    /// The inputs by their size.
    cases: Vec<(u64, &'a str)>,
}

/// The answer of a machine's rows to a figure or question.
pub fn answer(what: &Volume, machine: &Machine) -> Part {
    let rows: Vec<&Row> = machine.of("volume").filter(|row| row.operation == study::OPERATION).collect();
    if rows.is_empty() {
        return Part::default();
    }
    let mut cases: Vec<(u64, &str)> = rows.iter().map(|row| (row.bytes, row.case.as_str())).collect();
    cases.sort_unstable();
    cases.dedup();
    let data = Data { machine, rows, cases };
    let part = match what {
        Volume::Crossing => data.crossing(),
        Volume::Plateau => data.plateau(),
        Volume::Faster(over) => data.faster(over),
        Volume::Streams => data.streams(),
        Volume::Fastest => data.fastest(),
    };
    Part { rows: data.rows.len(), ..part }
}

/// The device's program that is compared with the CPU's.
fn on_gpu(scheme: &str) -> String {
    if scheme == TABLES { format!("{TABLES}, 32 bytes a thread") } else { scheme.to_owned() }
}

impl Data<'_> {
    fn find(&self, is_it: impl Fn(&Row) -> bool) -> Option<&Row> {
        self.rows.iter().copied().find(|row| is_it(row))
    }

    fn speed(&self, bits: u64, scheme: &str, engine: &str, case: &str) -> Option<f64> {
        let is_it = |row: &Row| {
            row.measure == measure(bits) && row.scheme == scheme && row.engine == engine && row.case == case
        };
        self.find(is_it)?.gb_per_s
    }

    /// The name of the device's line.
    fn device_name(&self) -> &'static str {
        if self.machine.has_gpu() { "GPU" } else { "CPU by OpenCL" }
    }

    fn if_gpu<T>(&self, known: Option<T>) -> Option<T> {
        known.filter(|_| self.machine.has_gpu())
    }

    fn not_on_gpu(&self) -> Option<&'static str> {
        let is_run = self.find(|row| row.engine == "gpu" && row.median_s.is_some()).is_some();
        match (self.machine.has_gpu(), is_run) {
            (true, true) => None,
            (_, false) => Some("No device was measured."),
            (false, true) => Some("The device is the CPU itself, through OpenCL: this says nothing about a GPU."),
        }
    }

    /// The answer in words, or the reason why there is none for a GPU.
    fn words(&self, answer: impl Fn(&[&Row]) -> String) -> String {
        self.not_on_gpu().map_or_else(|| answer(&self.rows), String::from)
    }

    /// Speeds by size, for each length of keys and kind of kernels.
    fn charts(&self) -> Vec<Chart> {
        let mut charts = Vec::new();
        for (scheme, kind) in [(TABLES, "tables, as in the paper"), (OURS, "Phalanx's kernels")] {
            for bits in KEYS {
                let line = |name: &str, thing: Thing, scheme: &str, engine: &str| {
                    Line::ours(name, thing, points(&self.cases, |(_, case)| self.speed(bits, scheme, engine, case)))
                };
                let lines = vec![
                    line("one core", Thing::Serial, scheme, "serial"),
                    line("all cores", Thing::Cpu, scheme, "cpu"),
                    line(self.device_name(), Thing::Gpu, &on_gpu(scheme), "gpu"),
                ];
                charts.push(self.chart(format!("AES-{bits}, {kind}"), "GB/s", lines));
            }
        }
        on_one_axis(charts)
    }

    fn chart(&self, title: impl Into<String>, y: &str, lines: Vec<Line>) -> Chart {
        let places = self.cases.iter().map(|(_, case)| case.replace("32000 bytes", "32 KB")).collect();
        Chart::new(title, "bytes encrypted at once", y, places, lines)
    }

    /// The ratios of the device's speed to the CPU's, by size.
    fn ratios(&self, scheme: &str, over: &str, bits: u64) -> Vec<(u64, f64)> {
        let of = self.rows.iter().filter(|row| row.measure == over_measure(bits, over) && row.scheme == scheme);
        let mut all: Vec<(u64, f64)> = of.filter_map(|row| Some((row.bytes, row.speedup?))).collect();
        all.sort_by_key(|(bytes, _)| *bytes);
        all
    }

    fn speed_of_largest(&self, scheme: &str, engine: &str) -> Option<f64> {
        self.cases.iter().rev().find_map(|(_, case)| self.speed(KEYS[0], scheme, engine, case))
    }

    fn crossing(&self) -> Part {
        let ratios = self.ratios(TABLES, ONE_CORE, KEYS[0]);
        let first = ratios.iter().rev().take_while(|(_, ratio)| *ratio > 1.0).last().map(|(bytes, _)| *bytes as f64);
        let small = self.if_gpu(ratios.first().map(|(_, ratio)| *ratio));
        let facts = facts! {
            "answer": [self.words(questions::crossings)],
            "first": self.if_gpu(first),
            "passes": small.map(|_| first.is_some()),
            "small": small,
            "cpu": self.speed_of_largest(OURS, "cpu"),
            "gpu": self.if_gpu(self.speed_of_largest(OURS, "gpu")),
        };
        Part { charts: self.charts(), facts, ..Part::default() }
    }

    fn plateau(&self) -> Part {
        let printed = p4().number(|v| v.experiment == "file-system" && v.measure == "AES speedup");
        let last = |over: &str, bits: u64| self.ratios(TABLES, over, bits).last().map(|(_, ratio)| *ratio);
        let bar = |name: String, value: f64, printed: bool| Bar { name, thing: Thing::Gpu, value, printed };
        let mut bars = Vec::new();
        for bits in KEYS {
            for over in [ONE_CORE, ALL_CORES] {
                bars.extend(last(over, bits).map(|value| bar(format!("AES-{bits} over {over}"), value, false)));
            }
        }
        bars.extend(printed.map(|value| bar("the paper's CPU".into(), value, true)));
        let title = format!("{} over the CPU at the largest size, tables on both", self.device_name());
        let steady = self.cases.iter().filter(|(bytes, _)| *bytes >= 1 << 20);
        let steady = steady.filter_map(|(_, case)| self.speed(KEYS[0], &on_gpu(TABLES), "gpu", case));
        let (least, most) = (steady.clone().reduce(f64::min), steady.reduce(f64::max));
        let here = last(ONE_CORE, KEYS[0]);
        let facts = facts! {
            "device": [self.device_name()],
            "here": here,
            "here.gpu": self.if_gpu(here),
            "paper": printed,
            "not on GPU": self.not_on_gpu(),
            "least": least,
            "most": most,
            "span": self.if_gpu(most.zip(least).map(|(most, least)| most / least)),
        };
        Part { bars: vec![Bars { title, unit: "times the CPU".into(), bars }], facts, ..Part::default() }
    }

    fn faster(&self, over: &str) -> Part {
        let is_it = |row: &Row, bits: u64, case: &str| row.measure == over_measure(bits, over) && row.case == case;
        let printed = |bits: u64, case: &str| {
            self.find(|row| is_it(row, bits, case) && !row.printed.is_empty()).map(|row| row.printed[0].value)
        };
        let ours = |bits: u64, case: &str, scheme: &str| {
            self.find(|row| is_it(row, bits, case) && row.scheme == scheme)?.speedup
        };
        let mut lines = Vec::new();
        for (scheme, name) in [(TABLES, "tables on both"), (OURS, "Phalanx's kernels on both")] {
            for case in INPUTS {
                let theirs = |bits: u64| printed(bits, case).filter(|_| scheme == TABLES);
                let cells = KEYS.map(|bits| Pair::of(ours(bits, case, scheme), theirs(bits)).plain());
                lines.push((format!("{case}, {name}"), cells.to_vec()));
            }
        }
        let each = |scheme: &str| -> Vec<f64> {
            INPUTS.iter().flat_map(|case| KEYS.map(|bits| ours(bits, case, scheme))).flatten().collect()
        };
        let wins = |figures: Vec<f64>| self.if_gpu(all(figures.into_iter().map(|n| n > 1.0)));
        let facts = facts! {
            "answer": [self.words(|rows| questions::faster(rows, over))],
            "median": median(&each(OURS)),
            "question": [over],
            "tables": wins(each(TABLES)),
            "ours": wins(each(OURS)),
        };
        let caption = format!("{} over {over}, times as fast: measured, and below it printed", self.device_name());
        let columns = KEYS.map(|bits| format!("AES-{bits}"));
        Part { grid: Some(Grid::new(caption, "data", columns, lines)), facts, ..Part::default() }
    }

    fn streams(&self) -> Part {
        let gain = |case: &str| {
            let of = |bits: u64| {
                let scheme = on_gpu(TABLES);
                let several = self.find(|row| {
                    row.measure == measure(bits)
                        && row.case == case
                        && row.engine == "gpu"
                        && row.scheme.strip_prefix(&scheme).is_some_and(|end| end.ends_with(SEVERAL))
                })?;
                Some(several.gb_per_s? / self.speed(bits, &scheme, "gpu", case)?)
            };
            median(&KEYS.into_iter().filter_map(of).collect::<Vec<_>>())
        };
        let lines = vec![Line::ours("several streams", Thing::Gpu, points(&self.cases, |(_, case)| gain(case)))];
        let title = "several streams over one, tables with 32 bytes a thread";
        let mark = Some((1.0, "as fast as one".into()));
        let facts = facts! {
            "answer": [self.words(questions::streams)],
            "small": self.if_gpu(gain(INPUTS[0])),
            "large": self.if_gpu(self.cases.last().and_then(|(_, case)| gain(case))),
        };
        Part { charts: vec![Chart { mark, ..self.chart(title, "times one stream", lines) }], facts, ..Part::default() }
    }

    fn fastest(&self) -> Part {
        let of_threads =
            |threads: u32| Some((threads, self.speed(KEYS[0], &scheme_of_threads(threads), "gpu", INPUTS[1])?));
        let by_threads: Vec<(u32, f64)> = MORE_THREADS.into_iter().filter_map(of_threads).collect();
        let best_threads = self.if_gpu(by_threads.iter().max_by(|a, b| a.1.total_cmp(&b.1)));
        let of =
            |bytes: u32, case: &str| self.speed(KEYS[0], &format!("{TABLES}, {bytes} bytes a thread"), "gpu", case);
        let line = |case: &str| (case.to_owned(), GRANULARITIES.map(|n| Pair::of(of(n, case), None).plain()).to_vec());
        let best = |case: &str| {
            let all: Option<Vec<f64>> = GRANULARITIES.iter().map(|bytes| of(*bytes, case)).collect();
            self.if_gpu(all).map(|all| all[1] >= all[0].max(all[2]) * 0.99)
        };
        let facts = facts! {
            "answer": [self.words(questions::fastest)],
            "count": Some(by_threads.len() as f64),
            "threads": best_threads.map(|(threads, _)| f64::from(*threads)),
            "speed": best_threads.map(|(_, speed)| *speed),
            "case": [INPUTS[1]],
            "both": best(INPUTS[0]).zip(best(INPUTS[1])).map(|(a, b)| a && b),
        };
        let caption = "AES-128 with tables by bytes a GPU thread, GB/s (the paper prints no figures)";
        let columns = GRANULARITIES.map(|bytes| format!("{bytes} bytes"));
        Part { grid: Some(Grid::new(caption, "data", columns, INPUTS.map(line).to_vec())), facts, ..Part::default() }
    }
}
