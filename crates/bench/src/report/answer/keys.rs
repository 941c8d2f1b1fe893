//! P5's tables: the digest of a key and encryption under it, by size and by threads a block.

use crate::names::keys::{ENERGY, OURS, PRINTED};
use crate::paper::p5;
use crate::report::answer::rules::facts;
use crate::report::answer::{Grid, Pair, Part, all, more};
use crate::report::chart::{Chart, Line, Source, Thing, on_one_axis, points};
use crate::report::machine::Machine;
use crate::row::Row;

/// The paper's modes in its order, with their engines.
const MODES: [(&str, &str); 3] = [("CPU", "serial"), ("GPU", "gpu"), ("CPU-GPU", "hybrid")];
/// Phalanx's own schemes: a keyed digest and authenticated chunks, with the default suite and the fastest one.
const CHUNKS: [&str; 2] =
    ["KMAC256 and Phalanx's chunks, AES-256-CTR + SHA-3", "KMAC256 and Phalanx's chunks, AES-256-CTR + TurboSHAKE"];

/// The printed figure of a mode for a size, and for a number of threads a block if one is given.
fn printed(mode: &str, size: &str, threads: Option<u64>, measure: &str) -> Option<f64> {
    let experiment = if threads.is_some() { "threads" } else { "sizes" };
    p5().number(|v| {
        v.experiment == experiment
            && v.program.as_deref() == Some(mode)
            && v.case.size.as_deref() == Some(size)
            && v.measure == measure
            && (threads.is_none() || v.case.threads_per_block == threads)
    })
}

fn rows(machine: &Machine) -> Vec<&Row> {
    let is_it = |row: &&Row| row.operation == "encrypt" && row.measure == "key digest and encryption";
    machine.of("keys").filter(is_it).collect()
}

/// The median in ms. Rows of a device count only if it is a GPU.
fn ms(rows: &[&Row], machine: &Machine, scheme: &str, engine: &str, size: &str) -> Option<f64> {
    let is_it = |row: &&&Row| row.scheme == scheme && row.engine == engine && row.case == size;
    let is_cpu = engine == "serial" || engine == "cpu";
    Some(rows.iter().find(is_it).filter(|_| is_cpu || machine.has_gpu())?.median_s? * 1e3)
}

/// Lines for some modes, ours and the paper's, over places.
fn lines<T>(
    modes: &[(&str, &str)],
    places: &[T],
    ours: impl Fn(&str, &T) -> Option<f64>,
    theirs: impl Fn(&str, &T) -> Option<f64>,
) -> Vec<Line> {
    let of = |(mode, engine): &(&str, &str)| {
        let thing = Thing::of_engine(engine);
        let paper = Line::paper(format!("{mode}, paper"), thing, points(places, |place| theirs(mode, place)));
        [Line::ours(*mode, thing, points(places, |place| ours(engine, place))), paper]
    };
    modes.iter().flat_map(of).collect()
}

/// The answer to Table I.
pub fn by_size(machine: &Machine) -> Part {
    let rows = rows(machine);
    let sizes: Vec<&str> = p5().sweep("sizes", "bytes").into_iter().map(|(size, _)| size).collect();
    let ms = |scheme: &str, engine: &str, size: &str| ms(&rows, machine, scheme, engine, size);
    let printed = |mode: &str, size: &str| printed(mode, size, None, "time");
    let line = |size: &&str| {
        let modes = MODES.map(|(mode, engine)| Pair::of(ms(PRINTED, engine, size), printed(mode, size)));
        let today = Pair::of(ms(OURS, "serial", size), printed("CPU-GPU", size));
        ((*size).to_owned(), modes.into_iter().chain([today]).collect())
    };
    let caption = "ms: measured, and below it printed; last column: one thread with AES instructions beside the paper's CPU-GPU mode";
    let columns = ["CPU", "GPU", "CPU-GPU", "CPU today"];
    let grid = |lines| Grid::new(caption, "size", columns, lines).of_times(true);
    let of_cpu = |size: &&str| (String::new(), vec![Pair::of(ms(PRINTED, "serial", size), printed("CPU", size))]);
    let last = sizes.iter().rev().find(|size| ms(PRINTED, "serial", size).is_some()).copied().unwrap_or("1GB");
    let speedup = |size: &&str| Some(ms(PRINTED, "serial", size)? / ms(PRINTED, "hybrid", size)?);
    let on_cpu = |size: &&str| more(ms(PRINTED, "gpu", size).map(|m| m * 1.02), ms(PRINTED, "hybrid", size));
    let energies: Vec<&Row> = machine.of("keys").filter(|row| row.measure == ENERGY).collect();
    let energy = |scheme: &str, engine: &str| {
        energies.iter().find(|row| row.scheme == scheme && row.engine == engine).and_then(|row| row.value)
    };
    let of_tables = |engine: &str| energy(PRINTED, engine).filter(|_| energy(OURS, engine).is_some());
    let silent = (!energies.is_empty()).then_some("This machine does not tell what energy a byte takes.");
    Part {
        charts: size_charts(&sizes, &ms),
        factor: grid(sizes.iter().map(of_cpu).collect()).factor(),
        rows: rows.len(),
        grid: Some(grid(sizes.iter().map(line).collect())),
        facts: facts! {
            "last": [last],
            "tables": ms(PRINTED, "serial", last),
            "tables.first": ms(PRINTED, "serial", sizes[0]),
            "ours": ms(OURS, "serial", last),
            "chunks": ms(CHUNKS[0], "serial", last),
            "gpu": ms(PRINTED, "gpu", last),
            "hybrid": ms(PRINTED, "hybrid", last),
            "paper.cpu": printed("CPU", last),
            "paper.hybrid": printed("CPU-GPU", last),
            "gpu_wins": all(sizes.iter().filter_map(speedup).map(|n| n > 1.0)),
            "cpu_digests": all(sizes.iter().filter_map(on_cpu)),
            "energy.tables": of_tables("serial"),
            "energy.ours": energy(OURS, "serial"),
            "energy.device.tables": of_tables("gpu"),
            "energy.device": energy(OURS, "gpu"),
            "energy.silent": silent,
        },
        ..Part::default()
    }
}

/// Charts of times by size, for each kind of code. Older runs have only one suite.
fn size_charts(sizes: &[&str], ms: &dyn Fn(&str, &str, &str) -> Option<f64>) -> Vec<Chart> {
    let with_all_cores = [&MODES[..], &[("all cores", "cpu")]].concat();
    let all = [
        ("as printed: MD5, AES by tables", PRINTED, &MODES[..]),
        ("the same with Phalanx's kernels", OURS, &MODES),
        ("KMAC256 and Phalanx's chunks, suite 1", CHUNKS[0], &with_all_cores),
        ("KMAC256 and Phalanx's chunks, suite 5", CHUNKS[1], &with_all_cores),
    ];
    let chart = |(title, scheme, modes): (&str, &str, &[(&str, &str)])| {
        let theirs = |mode: &str, size: &&str| printed(mode, size, None, "time");
        let lines = lines(modes, sizes, |engine, size| ms(scheme, engine, size), theirs);
        Chart::new(title, "size", "ms", sizes.iter().map(|size| (*size).to_owned()).collect(), lines)
    };
    let is_run = |chart: &Chart| chart.lines.iter().any(|line| line.source == Source::Ours);
    on_one_axis(all.into_iter().map(chart).filter(is_run).collect())
}

/// The answer to Table II.
pub fn by_threads(machine: &Machine) -> Part {
    let rows = rows(machine);
    let (sizes, threads) = (["100MB", "1GB"], [128u64, 256, 512, 1024]);
    let scheme = |n: u64| format!("{PRINTED}, {n} threads a block");
    let of = |n: u64, engine: &str, size: &str| ms(&rows, machine, &scheme(n), engine, size);
    let speedup = |n: u64, size: &str| Some(ms(&rows, machine, PRINTED, "serial", size)? / of(n, "hybrid", size)?);
    let line = |(size, n): (&str, u64)| {
        let times =
            MODES[1..].iter().map(|(mode, engine)| Pair::of(of(n, engine, size), printed(mode, size, Some(n), "time")));
        let speedup = Pair::of(speedup(n, size), printed("CPU-GPU", size, Some(n), "total speedup"));
        (format!("{size}, {n} threads"), times.chain([speedup]).collect())
    };
    let cells = sizes.into_iter().flat_map(|size| threads.map(|n| (size, n)));
    let chart = |size: &str| {
        let theirs = |mode: &str, n: &u64| printed(mode, size, Some(*n), "time");
        let lines = lines(&MODES[1..], &threads, |engine, n| of(*n, engine, size), theirs);
        Chart::new(size, "threads a block", "ms", threads.map(|n| n.to_string()).to_vec(), lines)
    };
    let caption = "ms, and times one thread: measured, and below it printed";
    let columns = ["GPU, ms", "CPU-GPU, ms", "speedup"];
    let grid = Grid::new(caption, "file and threads a block", columns, cells.map(line).collect()).of_times(true);
    Part {
        charts: sizes.map(chart).to_vec(),
        grid: Some(grid),
        facts: facts! {
            "few": of(128, "hybrid", "1GB"),
            "many": of(1024, "hybrid", "1GB"),
            "best": threads.into_iter().filter_map(|n| speedup(n, "1GB")).reduce(f64::max),
        },
        rows: rows.iter().filter(|row| row.scheme.ends_with("threads a block")).count(),
        ..Part::default()
    }
}
