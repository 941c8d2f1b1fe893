//! P3's tables and figures: times, throughputs and speedups by threads, processes and GPU threads.
//!
//! A row belongs to a table if it has one of the table's printed figures. So programs can be added to the experiment
//! without a change here.

use crate::names::cluster::{AT_WORK, OWN};
use crate::names::hpc::COPIED;
use crate::paper::{Value, p3};
use crate::report::answer::rules::{Facts, facts};
use crate::report::answer::{Grid, Pair, Part, all, more};
use crate::report::chart::{Chart, Line, Thing, on_one_axis, points};
use crate::report::machine::Machine;
use crate::row::{Row, median};
use serde::Deserialize;

/// One of P3's tables and figures.
#[derive(Clone, Copy, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Hpc {
    /// The table of times in ms.
    Times(Program),
    /// The figure of times in ms.
    Time(Program),
    /// GB/s.
    Throughput(Program),
    /// Speedups of the largest number of workers, and efficiencies where they are printed.
    Speedup(Program),
    /// Table 5.10: speedups of all programs.
    All,
    /// Figure 5.12: speedups by GPU threads.
    ByGpuThreads,
}

/// One of the paper's programs.
#[derive(Clone, Copy, PartialEq, Eq, Deserialize)]
pub enum Program {
    Java,
    JavaCluster,
    OpenMp,
    Mpich,
    Cuda,
}

use Program::{Cuda, Java, JavaCluster, Mpich, OpenMp};

/// A program's experiment in the paper's data, the table of its times, its name, and the name of its workers.
struct About {
    experiment: &'static str,
    table: &'static str,
    name: &'static str,
    workers: &'static str,
    thing: Thing,
}

impl Program {
    const ALL: [Program; 5] = [Java, JavaCluster, OpenMp, Mpich, Cuda];

    fn about(self) -> About {
        let ([experiment, table, name, workers], thing) = match self {
            Java => (["mpj-multicore", "Table 5.1", "Java threads", "threads"], Thing::Java),
            JavaCluster => (["mpj-cluster", "Table 5.3", "Java cluster", "processes"], Thing::Cluster),
            OpenMp => (["openmp", "Table 5.5", "OpenMP", "threads"], Thing::Cpu),
            Mpich => (["mpich", "Table 5.7", "MPICH cluster", "processes"], Thing::Cluster),
            Cuda => (["cuda", "Table 5.9", "CUDA", "GPU threads"], Thing::Gpu),
        };
        About { experiment, table, name, workers, thing }
    }

    fn is_cluster(self) -> bool {
        matches!(self, JavaCluster | Mpich)
    }

    /// The number of workers of a printed figure.
    fn count(self, value: &Value) -> Option<u64> {
        match self {
            Java | OpenMp => value.case.threads,
            JavaCluster | Mpich => value.case.processes,
            Cuda => value.case.gpu_threads,
        }
    }

    /// A printed speedup or efficiency. Those of CUDA are only in the comparison.
    fn printed(self, measure: &str, bytes: u64) -> Option<f64> {
        let is_ours = |v: &Value| match self {
            Cuda => v.experiment == "comparison" && v.program.as_deref().is_some_and(|name| name.starts_with("CUDA")),
            _ => v.experiment == self.about().experiment,
        };
        p3().number(|v| v.measure == measure && v.case.bytes == Some(bytes) && is_ours(v))
    }
}

/// The paper's times of a program.
struct Printed {
    /// The sizes, by name and in bytes.
    sizes: Vec<(String, u64)>,
    /// The numbers of threads or processes.
    counts: Vec<u64>,
    /// Bytes, number of workers, and ms.
    values: Vec<(u64, u64, f64)>,
}

impl Printed {
    fn of(program: Program) -> Self {
        let mut all = Printed { sizes: Vec::new(), counts: Vec::new(), values: Vec::new() };
        let experiment = program.about().experiment;
        for v in p3().values.iter().filter(|v| v.experiment == experiment && v.measure == "time") {
            let (Some(bytes), Some(count)) = (v.case.bytes, program.count(v)) else { continue };
            all.sizes.push((v.case.size.clone().unwrap_or_default(), bytes));
            all.counts.push(count);
            all.values.push((bytes, count, v.number()));
        }
        all.sizes.sort_by_key(|(_, bytes)| *bytes);
        all.sizes.dedup();
        all.counts.sort_unstable();
        all.counts.dedup();
        all
    }

    fn ms(&self, bytes: u64, count: u64) -> Option<f64> {
        self.values.iter().find(|(b, n, _)| (*b, *n) == (bytes, count)).map(|(.., ms)| *ms)
    }

    fn places(&self) -> Vec<String> {
        self.counts.iter().map(|n| count_text(*n)).collect()
    }

    fn columns(&self) -> impl Iterator<Item = &String> {
        self.sizes.iter().map(|(size, _)| size)
    }

    /// Calls `of` for each size, and returns the results in the order of sizes.
    fn each<T>(&self, of: impl Fn(u64) -> T) -> Vec<T> {
        self.sizes.iter().map(|(_, bytes)| of(*bytes)).collect()
    }
}

/// One of our programs beside the paper's.
struct Ours {
    name: String,
    thing: Thing,
    /// Bytes, number of workers, ms, and the speedup over one thread.
    times: Vec<(u64, u64, f64, Option<f64>)>,
}

impl Ours {
    fn ms(&self, bytes: u64, count: u64) -> Option<f64> {
        self.times.iter().find(|(b, n, ..)| (*b, *n) == (bytes, count)).map(|(_, _, ms, _)| *ms)
    }

    /// The best speedup over one thread.
    fn best(&self, bytes: u64) -> Option<f64> {
        let all = self.times.iter().filter(|(b, ..)| *b == bytes).filter_map(|(.., speedup)| *speedup);
        all.reduce(f64::max)
    }

    fn fastest_ms(&self, bytes: u64) -> Option<f64> {
        self.times.iter().filter(|(b, ..)| *b == bytes).map(|(_, _, ms, _)| *ms).reduce(f64::min)
    }
}

/// Our programs, the one that is most like the paper's first.
fn ours(program: Program, machine: &Machine) -> Vec<Ours> {
    let table = program.about().table;
    let printed = Printed::of(program);
    let mut all: Vec<Ours> = Vec::new();
    for row in machine.of("hpc") {
        let figure = row.printed.iter().find(|p| p.r#where == table && p.measure == "time");
        // Rows of a cluster count only if its processes have one thread each: the paper has 31 machines, and we have
        // one.
        let Some(figure) = figure.filter(|_| !program.is_cluster() || row.threads == 1) else { continue };
        let count = if program.is_cluster() { row.processes } else { row.threads } as u64;
        if !printed.values.contains(&(row.bytes, count, figure.value)) {
            continue;
        }
        // The processes of a cluster may not have reported their time at work. Rows of it have no speedup.
        let own = own_time(row, machine);
        let Some(median) = row.median_s.or_else(|| own?.median_s) else { continue };
        let one = (count == 1 && !program.is_cluster()).then_some(1.0);
        let times = (row.bytes, count, median * 1e3, row.speedup.or_else(|| own?.speedup).or(one));
        let name = name(program, row);
        match all.iter_mut().find(|ours| ours.name == name) {
            Some(ours) if ours.ms(row.bytes, count).is_some() => {}
            Some(ours) => ours.times.push(times),
            None => all.push(Ours { thing: thing(program, row), name, times: vec![times] }),
        }
    }
    // Programs in Java are compared with programs in Java.
    let wants_java = matches!(program, Java | JavaCluster);
    all.sort_by_key(|ours| (ours.thing == Thing::Java) != wants_java);
    all
}

/// The row with the program's own time, for the row of its longest process at work.
fn own_time<'a>(row: &Row, machine: &'a Machine) -> Option<&'a Row> {
    let is_it = |other: &&Row| {
        other.measure == OWN
            && (&other.case, &other.operation, &other.scheme) == (&row.case, &row.operation, &row.scheme)
            && (other.processes, other.threads) == (row.processes, row.threads)
    };
    machine.of("hpc").find(is_it).filter(|_| row.measure == AT_WORK)
}

fn name(program: Program, row: &Row) -> String {
    // The JVM has just started, or it has run the same before.
    match row.measure.rsplit_once(", ").filter(|_| thing(program, row) == Thing::Java) {
        Some((_, state)) => format!("Java, {state}"),
        None if program.is_cluster() => row.scheme.trim_start_matches("phalanx-mpi, ").to_owned(),
        None => row.scheme.clone(),
    }
}

fn thing(program: Program, row: &Row) -> Thing {
    match row.scheme.contains("Java") || row.scheme.contains("JCE") {
        true => Thing::Java,
        false if program == Java => Thing::Cpu,
        false => program.about().thing,
    }
}

/// The answer of a machine's rows to one of these tables and figures.
pub fn answer(what: Hpc, machine: &Machine) -> Part {
    match what {
        Hpc::Times(program) => Part { charts: Vec::new(), ..times(program, machine, false) },
        Hpc::Time(program) => Part { grid: None, ..times(program, machine, false) },
        Hpc::Throughput(program) => Part { grid: None, ..times(program, machine, true) },
        Hpc::Speedup(program) => speedups(program, machine),
        Hpc::All => all_speedups(machine),
        Hpc::ByGpuThreads => by_gpu_threads(machine),
    }
}

/// The answer about times of a program, or about throughputs.
fn times(program: Program, machine: &Machine, is_throughput: bool) -> Part {
    let (printed, all, about) = (Printed::of(program), ours(program, machine), program.about());
    let figure = |bytes: u64, ms: f64| if is_throughput { bytes as f64 / ms / 1e6 } else { ms };
    let unit = if is_throughput { "GB/s" } else { "ms" };
    let chart = |(size, bytes): &(String, u64)| {
        let of = |ours: &Ours| {
            let times = points(&printed.counts, |n| Some(figure(*bytes, ours.ms(*bytes, *n)?)));
            Line::ours(short(&ours.name), ours.thing, times)
        };
        let theirs = points(&printed.counts, |n| Some(figure(*bytes, printed.ms(*bytes, *n)?)));
        let lines = all.iter().take(3).map(of).chain([Line::paper("paper", about.thing, theirs)]);
        Chart::new(size, about.workers, unit, printed.places(), lines.collect())
    };
    let charts = printed.sizes.iter().filter(|_| !all.is_empty()).map(chart).collect();
    let first = all.first();
    let line = |count: &u64| {
        let round = |x: f64| if is_throughput { (x * 1000.0).round() / 1000.0 } else { x };
        let cell = |bytes: u64| {
            let ours = first.and_then(|ours| Some(figure(bytes, ours.ms(bytes, *count)?)));
            Pair::of(ours, printed.ms(bytes, *count).map(|ms| round(figure(bytes, ms))))
        };
        (count_text(*count), printed.each(cell))
    };
    let name = first.map_or("nothing was run", |ours| &ours.name);
    let caption = format!("{unit}: measured ({name}), and below it printed ({})", about.name);
    let lines = printed.counts.iter().map(line).collect();
    let grid = Grid::new(caption, about.workers, printed.columns(), lines).of_times(!is_throughput);
    Part {
        charts: on_one_axis(charts),
        factor: grid.factor(),
        grid: Some(grid),
        facts: facts_of(program, machine, &printed, first),
        rows: count_rows(&all),
        ..Part::default()
    }
}

fn count_rows(all: &[Ours]) -> usize {
    all.iter().map(|ours| ours.times.len()).sum()
}

fn facts_of(program: Program, machine: &Machine, printed: &Printed, ours: Option<&Ours>) -> Facts {
    let cores = machine.heads[0].cores;
    // This is the largest size that was measured, because a run may have ended early.
    let measured = |(_, bytes): &&(String, u64)| ours.is_some_and(|ours| ours.fastest_ms(*bytes).is_some());
    let size = printed.sizes.iter().rfind(measured);
    let bytes = size.map(|(_, bytes)| *bytes);
    let theirs = printed.counts.iter().filter_map(|n| Some((printed.ms(bytes?, *n)?, *n)));
    let theirs = theirs.min_by(|a, b| a.0.total_cmp(&b.0));
    let each =
        |is: &dyn Fn(u64, &Ours) -> Option<bool>| all(printed.each(|bytes| is(bytes, ours?)).into_iter().flatten());
    let less = |few: u64, many: u64| each(&|bytes, ours| more(ours.ms(bytes, few), ours.ms(bytes, many)));
    let at_cores = printed.counts.iter().copied().filter(|n| *n <= (cores as u64).max(2)).max().unwrap_or(1);
    let most = printed.counts.last().copied().unwrap_or(1);
    let no_gain = each(&|bytes, ours| Some(ours.ms(bytes, most)? > ours.ms(bytes, at_cores)? * 0.8));
    let stays =
        each(&|bytes, ours| Some((ours.ms(bytes, 1_000_000)? / ours.ms(bytes, 10_000_000)? - 1.0).abs() < 0.25));
    let throughput = |size: Option<&(String, u64)>| Some(size?.1 as f64 / ours?.fastest_ms(size?.1)?);
    let is_other = program == Java && ours.is_some_and(|ours| ours.thing != Thing::Java);
    let of_encryption = format!(
        "The paper's times are of encryption alone on up to 31 nodes. Ours contain reading, hashing and writing, by processes on one machine with {cores} cores."
    );
    let on_gpu = |holds: Option<bool>| holds.filter(|_| machine.has_gpu());
    facts! {
        "size": [size.map_or("", |(size, _)| size)],
        "ms": bytes.and_then(|bytes| ours?.fastest_ms(bytes)),
        "name": [ours.map_or("", |ours| &ours.name)],
        "paper": theirs.map(|(ms, _)| ms),
        "count": [theirs.map(|(_, n)| count_text(n)).unwrap_or_default()],
        "workers": [program.about().workers],
        "best": bytes.and_then(|bytes| ours?.best(bytes)),
        "cores": [cores],
        "no java": is_other.then_some("No Java was measured on this machine: the program beside the paper's is Phalanx's AES."),
        "java too": java_too(program, ours),
        "of encryption": bytes.map(|_| of_encryption.as_str()),
        "falls": match program {
            Java | OpenMp => less(1, at_cores),
            JavaCluster | Mpich => less(1, 4),
            Cuda => on_gpu(less(1_000, 100_000)),
        },
        "first": throughput(printed.sizes.first()),
        "last": throughput(printed.sizes.last()),
        "no_gain": no_gain.filter(|_| most > at_cores),
        "stays": on_gpu(stays),
    }
}

/// A conclusion that cannot be judged if Java was not measured.
fn java_too(program: Program, ours: Option<&Ours>) -> Option<&'static str> {
    let is_open = program == Java && ours.is_none_or(|ours| ours.thing != Thing::Java);
    is_open.then_some("Java's threads do so too")
}

/// A number of threads: "500", "100k", "50M".
fn count_text(count: u64) -> String {
    match count {
        n if n >= 1_000_000 && n % 1_000_000 == 0 => format!("{}M", n / 1_000_000),
        n if n >= 1_000 && n % 1_000 == 0 => format!("{}k", n / 1_000),
        n => n.to_string(),
    }
}

/// A short name that fits beside a line.
fn short(name: &str) -> String {
    name.chars().take(18).collect()
}

/// The time of one CPU thread in ms, which the speedups of GPUs compare with.
fn serial_ms(machine: &Machine, bytes: u64) -> Option<f64> {
    ours(OpenMp, machine).first()?.ms(bytes, 1)
}

/// Our best speedup over one thread.
fn best(program: Program, machine: &Machine, first: Option<&Ours>, bytes: u64) -> Option<f64> {
    match program {
        Cuda => Some(serial_ms(machine, bytes)? / first?.fastest_ms(bytes)?),
        _ => first?.best(bytes),
    }
}

/// How many times as fast as one CPU thread a GPU is with the copies, which the printed times leave out.
fn with_copies(machine: &Machine, bytes: u64) -> Option<f64> {
    let rows = machine.of("hpc").filter(|row| row.measure == COPIED && row.bytes == bytes);
    let fastest = rows.filter_map(|row| row.median_s).reduce(f64::min).filter(|_| machine.has_gpu())?;
    Some(serial_ms(machine, bytes)? / (fastest * 1e3))
}

/// Whether the last of several figures is larger than the first.
fn grows(figures: &[f64]) -> Option<bool> {
    (figures.len() > 1).then(|| figures[figures.len() - 1] > figures[0])
}

/// One of the tables of speedups.
fn speedups(program: Program, machine: &Machine) -> Part {
    let (printed, all) = (Printed::of(program), ours(program, machine));
    let (first, cores) = (all.first(), machine.heads[0].cores as f64);
    let word = first.is_none().then_some("not run");
    let each = |measure: &str, scale: f64| {
        printed.each(|bytes| {
            let ours = best(program, machine, first, bytes).map(|best| best * scale);
            Pair { ours, theirs: program.printed(measure, bytes), word, plain: true }
        })
    };
    let mut lines = vec![("speedup".to_owned(), each("speedup", 1.0))];
    let known: Vec<f64> = lines[0].1.iter().filter_map(|pair| pair.ours).collect();
    let facts = facts! {
        "here": known.iter().copied().reduce(f64::max),
        "cores": Some(cores),
        "paper": lines[0].1.iter().filter_map(|pair| pair.theirs).reduce(f64::max),
        "grows": grows(&known).filter(|_| known.len() == printed.sizes.len()),
        "java too": java_too(program, first),
    };
    if matches!(program, Java | OpenMp) {
        lines.push(("efficiency, %".to_owned(), each("efficiency", 100.0 / cores)));
    }
    let caption = "Speedup over one thread: measured, and below it printed";
    let grid = Some(Grid::new(caption, "", printed.columns(), lines));
    Part { rows: count_rows(&all), grid, facts, ..Part::default() }
}

/// Table 5.10.
fn all_speedups(machine: &Machine) -> Part {
    let printed = Printed::of(OpenMp);
    let each = Program::ALL.map(|program| (program, ours(program, machine)));
    let line = |(program, all): &(Program, Vec<Ours>)| {
        let cell = |bytes: u64| {
            let ours = best(*program, machine, all.first(), bytes);
            Pair::of(ours, program.printed("speedup", bytes)).plain()
        };
        (program.about().name.to_owned(), printed.each(cell))
    };
    let lines: Vec<(String, Vec<Pair>)> = each.iter().map(line).collect();
    let largest = |at: usize| lines[at].1.iter().filter_map(|pair| pair.ours).reduce(f64::max);
    let facts = facts! {
        "threads": largest(2),
        "cluster": largest(3),
        "gpu": largest(4).filter(|_| machine.has_gpu()),
        "copied": printed.each(|bytes| with_copies(machine, bytes)).into_iter().flatten().reduce(f64::max),
        "cores": Some(machine.heads[0].cores as f64),
    };
    let caption =
        "Best speedup over one thread: measured, and below it printed (corrected where the print contradicts itself)";
    let grid = Some(Grid::new(caption, "program", printed.columns(), lines));
    Part { rows: each.iter().map(|(_, all)| count_rows(all)).sum(), grid, facts, ..Part::default() }
}

/// Figure 5.12.
fn by_gpu_threads(machine: &Machine) -> Part {
    let (printed, of_c, all) = (Printed::of(Cuda), Printed::of(OpenMp), ours(Cuda, machine));
    let chart = |(size, bytes): &(String, u64)| {
        let line = |ours: &Ours| {
            let times = points(&printed.counts, |n| Some(serial_ms(machine, *bytes)? / ours.ms(*bytes, *n)?));
            Line::ours(short(&ours.name), Thing::Gpu, times)
        };
        let theirs = points(&printed.counts, |n| Some(of_c.ms(*bytes, 1)? / printed.ms(*bytes, *n)?));
        let lines = all.iter().map(line).chain([Line::paper("paper", Thing::Gpu, theirs)]).collect();
        Chart::new(size, "GPU threads", "times one CPU thread", printed.places(), lines)
    };
    let bests: Vec<f64> = printed.each(|bytes| best(Cuda, machine, all.first(), bytes)).into_iter().flatten().collect();
    let is_gpu = machine.has_gpu();
    Part {
        charts: on_one_axis(printed.sizes.iter().map(chart).collect()),
        facts: facts! { "best": median(&bests).filter(|_| is_gpu), "grows": grows(&bests).filter(|_| is_gpu) },
        rows: count_rows(&all),
        ..Part::default()
    }
}
