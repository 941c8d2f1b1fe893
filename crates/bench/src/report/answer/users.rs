//! P2's figures: seven ways to encrypt many users' data; and its model of a GPU's occupancy.

use crate::names::users::{AVERAGES, PRINTED};
use crate::paper::occupancy::{COMPUTE_3_5, GCS, Occupancy};
use crate::paper::{Value, p2};
use crate::report::answer::rules::{Rule, facts, holds};
use crate::report::answer::{Grid, Pair, Panels, Part, Reason, claim, said};
use crate::report::chart::{Chart, Line, Thing, on_one_axis};
use crate::report::machine::Machine;
use crate::row::{Row, median};

/// One of P2's figures.
#[derive(Clone, Copy, Debug)]
pub struct Users {
    /// The paper's platform: 1 or 2.
    pub platform: u32,
    /// `regular` or `irregular`.
    pub shape: &'static str,
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
/// Phalanx's batches, authenticated.
const BATCH: [&str; 2] = ["AES-256-CTR + SHA-3", "AES-256-CTR + TurboSHAKE"];

/// AES takes so little that CNC's threads mostly wait for each other.
const RULES: &[Rule] = &[
    Rule::Say(&["One thread, user by user, does {SR} GB/s here, {SR / paper.SR} × the printed {paper.SR}."]),
    Rule::Say(&[
        "The best scheme on the CPU does {best} GB/s, {best > paper.GCS ? more than : less than} the paper's GPU with {paper.GCS}; starting all threads again for each user (CNC) leaves {CNC}.",
    ]),
    Rule::Say(&[
        "On the GPU, GCS does {GCS} GB/s, GCNS {GCNS} and GNC {GNC}.",
        "GCS, GCNS and GNC were not run: this machine has no GPU.",
    ]),
    holds("GCS, coalesced and sliced on the GPU, is the fastest", "GCS > others"),
    holds("on the GPU coalescing pays: GCS and GCNS beat GNC", "GCS > GNC & GCNS > GNC"),
    holds("on the CPU coalescing pays: CCS beats CNC", "CCS > CNC"),
    Rule::Claim("one thread, SR, is the slowest", "worst > SR", Reason::FasterHardware),
];

/// What a machine's rows say about it.
pub fn answer(users: Users, machine: &Machine) -> Part {
    let of_shape = |row: &&Row| row.case.ends_with(&format!(", {}", users.shape)) && !row.measure.contains("beside");
    let rows: Vec<&Row> = machine.of("users").filter(of_shape).collect();
    let swept: Vec<&Row> = rows.iter().copied().filter(|row| row.measure == PRINTED && !is_mean(row)).collect();
    let mean = |scheme: &str| {
        let is_it = |row: &&&Row| is_mean(row) && row.measure == PRINTED && row.scheme == scheme;
        rows.iter().find(is_it).and_then(|row| row.gb_per_s)
    };
    let grid = grid(users, &mean, machine);
    let gpu = |scheme: &str| mean(scheme).filter(|_| machine.has_gpu());
    let of_cpu = ["CCS", "CCNS", "CNC"].iter().filter_map(|scheme| mean(scheme));
    let others = SCHEMES[1..].iter().filter_map(|(scheme, _)| mean(scheme)).reduce(f64::max);
    let facts = facts! {
        "GCS": gpu("GCS"),
        "GCNS": gpu("GCNS"),
        "GNC": gpu("GNC"),
        "CCS": mean("CCS"),
        "CNC": mean("CNC"),
        "SR": mean("SR"),
        "others": others,
        "best": of_cpu.clone().reduce(f64::max),
        "worst": of_cpu.reduce(f64::min),
        "paper.SR": printed(users, "SR"),
        "paper.GCS": printed(users, "GCS"),
    };
    let (said, claims) = facts.by(&[RULES]);
    Part {
        panels: vec![Panels::Charts(charts(users, &swept, &rows))],
        factor: median(&grid.ratios().collect::<Vec<_>>()),
        grid: Some(grid),
        said,
        claims,
        rows: rows.len(),
    }
}

fn is_mean(row: &Row) -> bool {
    row.case.starts_with(AVERAGES)
}

/// The printed mean of a scheme.
fn printed(users: Users, scheme: &str) -> Option<f64> {
    let is_it = |v: &&Value| {
        v.experiment == "users"
            && v.measure == "AES speed"
            && v.platform.as_deref() == Some(users.platform.to_string().as_str())
            && v.program.as_deref() == Some(scheme)
            && v.case.data.as_deref() == Some(users.shape)
    };
    p2().values.iter().find(is_it).map(Value::number)
}

fn grid(users: Users, mean: &dyn Fn(&str) -> Option<f64>, machine: &Machine) -> Grid {
    let serial = (mean("SR"), printed(users, "SR"));
    let line = |(scheme, engine): &(&str, &str)| {
        let on_cpu = *engine == "gpu" && !machine.has_gpu();
        let ours = mean(scheme).filter(|_| !on_cpu);
        let theirs = printed(users, scheme);
        let word = ours.is_none().then_some("not run");
        let speedup = Pair {
            ours: ours.zip(serial.0).map(|(a, b)| a / b),
            theirs: theirs.zip(serial.1).map(|(a, b)| (a / b * 100.0).round() / 100.0),
            word,
            plain: true,
        };
        let speedup = if *scheme == "SR" {
            Pair { ours: serial.0.map(|_| 1.0), plain: true, ..Pair::default() }
        } else {
            speedup
        };
        ((*scheme).to_owned(), vec![Pair { ours, theirs, word, plain: false }, speedup])
    };
    Grid {
        caption: "Mean over all numbers of users: measured, and below it printed".into(),
        corner: "scheme".into(),
        columns: vec!["GB/s".into(), "times SR".into()],
        lines: SCHEMES.iter().map(line).collect(),
        ..Grid::default()
    }
}

fn charts(users: Users, swept: &[&Row], rows: &[&Row]) -> Vec<Chart> {
    let mut counts: Vec<u64> = rows.iter().filter(|row| !is_mean(row)).map(|row| row.items).collect();
    counts.sort_unstable();
    counts.dedup();
    let points = |is_it: &dyn Fn(&Row) -> bool| -> Vec<(usize, f64)> {
        let all = rows.iter().filter(|row| !is_mean(row) && is_it(row));
        let all = all.filter_map(|row| Some((counts.iter().position(|n| *n == row.items)?, row.gb_per_s?)));
        let mut all: Vec<(usize, f64)> = all.collect();
        all.sort_by_key(|(at, _)| *at);
        all
    };
    let places = || counts.iter().map(u64::to_string).collect();
    let chart = |title: &str, lines: Vec<Line>| Chart::new(title, "users", "GB/s", places(), lines);
    let mut charts = Vec::new();
    let last = counts.len().max(1) - 1;
    for (title, wanted) in [
        ("on the CPU, coalesced", &["SR", "CCS", "CCNS"][..]),
        ("on the CPU, one user after another", &["SR", "CNC"]),
        ("on the GPU", &["GCS", "GCNS", "GNC"]),
    ] {
        let mut lines = Vec::new();
        for (scheme, engine) in SCHEMES.iter().filter(|(scheme, _)| wanted.contains(scheme)) {
            let thing = Thing::of_engine(engine);
            let ours = points(&|row| row.measure == PRINTED && row.scheme == *scheme);
            if !ours.is_empty() {
                lines.push(Line::ours(*scheme, thing, ours));
            }
            lines.extend(
                printed(users, scheme).map(|mean| Line::mean(format!("{scheme}, paper"), thing, [0, last], mean)),
            );
        }
        charts.push(chart(title, lines));
    }
    let mut lines = Vec::new();
    for (suite, measure) in [("suite 1", BATCH[0]), ("suite 5", BATCH[1])] {
        for engine in ["serial", "cpu", "gpu", "hybrid"] {
            let ours = points(&|row| row.scheme == "batch" && row.measure == measure && row.engine == engine);
            if !ours.is_empty() {
                lines.push(Line::ours(format!("{engine}, {suite}"), Thing::of_engine(engine), ours));
            }
        }
    }
    if !lines.is_empty() {
        charts.push(chart("Phalanx's batch call, authenticated", lines));
    }
    if swept.is_empty() {
        charts.clear();
    }
    on_one_axis(charts)
}

/// Table III: the model, computed here. It needs no machine.
pub fn occupancy() -> Part {
    let blocks = [256u64, 512, 1024];
    let columns =
        ["register limit", "shared memory limit", "block and warp limit", "warps a block", "active warps", "occupancy"];
    let printed = |block: u64, measure: &str| {
        let is_it = |v: &&Value| {
            v.experiment == "occupancy"
                && v.program.as_deref() == Some("GCS")
                && v.case.threads_per_block == Some(block)
                && v.measure == measure
        };
        p2().values.iter().find(is_it).map(Value::number)
    };
    let line = |block: u64| {
        let row = Occupancy::of(GCS, block as u32, COMPUTE_3_5);
        let warps = f64::from(block as u32 / COMPUTE_3_5.warp);
        let whole = [row.by_registers, row.by_shared, row.by_blocks_and_warps].map(f64::from);
        let ours = [whole[0], whole[1], whole[2], warps, f64::from(row.active_warps), row.ratio() * 100.0];
        let cells = columns.iter().zip(ours);
        let cells = cells.map(|(measure, ours)| Pair {
            ours: Some(ours),
            theirs: printed(block, measure),
            word: None,
            plain: true,
        });
        (format!("{block} threads a block"), cells.collect())
    };
    let lines: Vec<(String, Vec<Pair>)> = blocks.into_iter().map(line).collect();
    let cells: Vec<&Pair> = lines.iter().flat_map(|(_, cells)| cells).collect();
    let equal = cells.iter().filter(|cell| cell.ours == cell.theirs).count();
    let (equal, all) = (equal as f64, cells.len() as f64);
    let rows = cells.len();
    Part {
        said: vec![
            said(
                "Computed by Eqs. 1 to 6 with the paper's registers and shared memory: {} of the {} figures are the printed ones, after corrections of print.",
                &[equal, all],
            ),
            said(
                "It is a model of compute capability 3.0 and 3.5 and says nothing about today's GPUs, which have other limits.",
                &[],
            ),
        ],
        claims: vec![claim("blocks of 256, 512 and 1024 threads each fill a multiprocessor", Some(equal == all))],
        grid: Some(Grid {
            caption: "Blocks and warps on a multiprocessor for GCS: computed, and below it printed".into(),
            corner: "block".into(),
            columns: columns.map(String::from).to_vec(),
            lines,
            ..Grid::default()
        }),
        rows,
        ..Part::default()
    }
}
