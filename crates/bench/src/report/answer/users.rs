//! P2's figures about seven ways to encrypt many users' data, and its model of a GPU's occupancy.

use crate::names::users::{AVERAGES, PRINTED};
use crate::paper::occupancy::{COMPUTE_3_5, GCS, Occupancy};
use crate::paper::p2;
use crate::report::answer::rules::facts;
use crate::report::answer::{Grid, Pair, Part};
use crate::report::chart::{Chart, Line, Thing, on_one_axis};
use crate::report::machine::Machine;
use crate::row::Row;
use serde::Deserialize;

/// One of P2's figures.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Users {
    platform: String,
    /// `regular` or `irregular`.
    shape: String,
}

/// The schemes in the paper's order, each with its engine.
const SCHEMES: [(&str, &str); 7] = [
    ("GCS", "gpu"),
    ("GCNS", "gpu"),
    ("GNC", "gpu"),
    ("CCS", "cpu"),
    ("CCNS", "cpu"),
    ("CNC", "cpu"),
    ("SR", "serial"),
];

/// The answer of a machine's rows to a figure.
pub fn answer(users: &Users, machine: &Machine) -> Part {
    let of_shape = |row: &&Row| row.case.ends_with(&format!(", {}", users.shape)) && !row.measure.contains("beside");
    let (means, swept): (Vec<&Row>, Vec<&Row>) =
        machine.of("users").filter(of_shape).partition(|row| row.case.starts_with(AVERAGES));
    let mean = |scheme: &str| means.iter().find(|row| row.measure == PRINTED && row.scheme == scheme)?.gb_per_s;
    let grid = users.grid(&mean, machine);
    let gpu = |scheme: &str| mean(scheme).filter(|_| machine.has_gpu());
    let of_cpu = ["CCS", "CCNS", "CNC"].into_iter().filter_map(mean);
    let facts = facts! {
        "GCS": gpu("GCS"),
        "GCNS": gpu("GCNS"),
        "GNC": gpu("GNC"),
        "CCS": mean("CCS"),
        "CNC": mean("CNC"),
        "SR": mean("SR"),
        "others": SCHEMES[1..].iter().filter_map(|(scheme, _)| mean(scheme)).reduce(f64::max),
        "best": of_cpu.clone().reduce(f64::max),
        "worst": of_cpu.reduce(f64::min),
        "paper.SR": users.printed("SR"),
        "paper.GCS": users.printed("GCS"),
    };
    let rows = means.len() + swept.len();
    Part { charts: users.charts(&swept), factor: grid.factor(), grid: Some(grid), facts, rows, ..Part::default() }
}

impl Users {
    /// The printed mean of a scheme.
    fn printed(&self, scheme: &str) -> Option<f64> {
        p2().number(|v| {
            v.experiment == "users"
                && v.measure == "AES speed"
                && v.platform.as_ref() == Some(&self.platform)
                && v.program.as_deref() == Some(scheme)
                && v.case.data.as_ref() == Some(&self.shape)
        })
    }

    fn grid(&self, mean: &dyn Fn(&str) -> Option<f64>, machine: &Machine) -> Grid {
        let serial = (mean("SR"), self.printed("SR"));
        let line = |(scheme, engine): &(&str, &str)| {
            let ours = mean(scheme).filter(|_| *engine != "gpu" || machine.has_gpu());
            let theirs = self.printed(scheme);
            let ratio = |(a, b): (f64, f64)| (a / b * 100.0).round() / 100.0;
            let speedup = match *scheme {
                "SR" => Pair { ours: serial.0.map(|_| 1.0), ..Pair::default() },
                _ => Pair {
                    ours: ours.zip(serial.0).map(|(a, b)| a / b),
                    theirs: theirs.zip(serial.1).map(ratio),
                    word: ours.is_none().then_some("not run"),
                    plain: true,
                },
            };
            ((*scheme).to_owned(), vec![Pair::of(ours, theirs), speedup])
        };
        let caption = "Mean over all numbers of users: measured, and below it printed";
        Grid::new(caption, "scheme", ["GB/s", "times SR"], SCHEMES.iter().map(line).collect())
    }

    fn charts(&self, rows: &[&Row]) -> Vec<Chart> {
        if rows.iter().all(|row| row.measure != PRINTED) {
            return Vec::new();
        }
        let mut counts: Vec<u64> = rows.iter().map(|row| row.items).collect();
        counts.sort_unstable();
        counts.dedup();
        let line = |name: &str, engine: &str, is_it: &dyn Fn(&Row) -> bool| {
            let all = rows.iter().filter(|row| is_it(row));
            let place = |row: &Row| counts.iter().position(|n| *n == row.items);
            let mut points: Vec<(usize, f64)> = all.filter_map(|row| Some((place(row)?, row.gb_per_s?))).collect();
            points.sort_by_key(|(at, _)| *at);
            Line::ours(name, Thing::of_engine(engine), points)
        };
        let chart = |title: &str, lines: Vec<Line>| {
            Chart::new(title, "users", "GB/s", counts.iter().map(u64::to_string).collect(), lines)
        };
        let bare = [
            ("on the CPU, coalesced", &["SR", "CCS", "CCNS"][..]),
            ("on the CPU, one user after another", &["SR", "CNC"]),
            ("on the GPU", &["GCS", "GCNS", "GNC"]),
        ];
        let of_schemes = |(title, wanted): (&str, &[&str])| {
            let schemes = SCHEMES.iter().filter(|(scheme, _)| wanted.contains(scheme));
            let lines = schemes.flat_map(|(scheme, engine)| {
                let ours = line(scheme, engine, &|row| row.measure == PRINTED && row.scheme == *scheme);
                let (name, ends) = (format!("{scheme}, paper"), [0, counts.len() - 1]);
                let mean = self.printed(scheme).map(|mean| Line::mean(name, Thing::of_engine(engine), ends, mean));
                [Some(ours), mean].into_iter().flatten()
            });
            chart(title, lines.collect())
        };
        let mut charts: Vec<Chart> = bare.into_iter().map(of_schemes).collect();
        let mut lines = Vec::new();
        for (suite, measure) in [("suite 1", "AES-256-CTR + SHA-3"), ("suite 5", "AES-256-CTR + TurboSHAKE")] {
            for engine in ["serial", "cpu", "gpu", "hybrid"] {
                let is_it = |row: &Row| row.scheme == "batch" && row.measure == measure && row.engine == engine;
                lines.push(line(&format!("{engine}, {suite}"), engine, &is_it));
            }
        }
        charts.push(chart("Phalanx's batch call, authenticated", lines));
        charts.retain(|chart| !chart.lines.is_empty());
        on_one_axis(charts)
    }
}

/// The answer to Table III: the model, computed here. It needs no machine.
pub fn occupancy() -> Part {
    let columns =
        ["register limit", "shared memory limit", "block and warp limit", "warps a block", "active warps", "occupancy"];
    let printed = |block: u32, measure: &str| {
        p2().number(|v| {
            v.experiment == "occupancy"
                && v.program.as_deref() == Some("GCS")
                && v.case.threads_per_block == Some(block.into())
                && v.measure == measure
        })
    };
    let line = |block: u32| {
        let row = Occupancy::of(GCS, block, COMPUTE_3_5);
        let warps = block / COMPUTE_3_5.warp;
        let ours = [row.by_registers, row.by_shared, row.by_blocks_and_warps, warps, row.active_warps].map(f64::from);
        let ours = ours.into_iter().chain([row.ratio() * 100.0]);
        let cells = ours.zip(columns).map(|(ours, measure)| Pair::of(Some(ours), printed(block, measure)).plain());
        (format!("{block} threads a block"), cells.collect())
    };
    let lines: Vec<(String, Vec<Pair>)> = [256, 512, 1024].into_iter().map(line).collect();
    let cells: Vec<&Pair> = lines.iter().flat_map(|(_, cells)| cells).collect();
    let (rows, equal) = (cells.len(), cells.iter().filter(|cell| cell.ours == cell.theirs).count());
    let caption = "Blocks and warps on a multiprocessor for GCS: computed, and below it printed";
    Part {
        facts: facts! { "equal": Some(equal as f64), "all": Some(rows as f64), "fits": Some(equal == rows) },
        grid: Some(Grid::new(caption, "block", columns, lines)),
        rows,
        ..Part::default()
    }
}
