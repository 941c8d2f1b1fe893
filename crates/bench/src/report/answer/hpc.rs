//! P3's tables and figures: times, throughputs and speedups by threads, processes and GPU threads.
//!
//! A row belongs to a table if it carries one of the table's printed figures, so that programs can be added to the experiment
//! without a change here.

use crate::names::cluster::{AT_WORK, OWN};
use crate::paper::{Value, p3};
use crate::report::answer::rules::{Facts, Rule, facts, holds};
use crate::report::answer::{Grid, Pair, Panels, Part, claim, more};
use crate::report::chart::{Chart, Line, Thing, on_one_axis, points};
use crate::report::machine::Machine;
use crate::row::{Row, median};

/// One of P3's tables and figures.
#[derive(Clone, Copy, Debug)]
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
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Program {
    /// Java threads.
    Java,
    /// Java processes with MPJ Express.
    JavaCluster,
    /// C with OpenMP.
    OpenMp,
    /// C with MPICH.
    Mpich,
    /// C with CUDA.
    Cuda,
}

use Program::{Cuda, Java, JavaCluster, Mpich, OpenMp};

impl Program {
    pub(super) const ALL: [Program; 5] = [Java, JavaCluster, OpenMp, Mpich, Cuda];

    /// Its experiment in the paper's data, and the table of its times.
    fn source(self) -> [&'static str; 2] {
        match self {
            Java => ["mpj-multicore", "Table 5.1"],
            JavaCluster => ["mpj-cluster", "Table 5.3"],
            OpenMp => ["openmp", "Table 5.5"],
            Mpich => ["mpich", "Table 5.7"],
            Cuda => ["cuda", "Table 5.9"],
        }
    }

    fn name(self) -> &'static str {
        match self {
            Java => "Java threads",
            JavaCluster => "Java cluster",
            OpenMp => "OpenMP",
            Mpich => "MPICH cluster",
            Cuda => "CUDA",
        }
    }

    /// What it has several of.
    fn workers(self) -> &'static str {
        match self {
            Java | OpenMp => "threads",
            JavaCluster | Mpich => "processes",
            Cuda => "GPU threads",
        }
    }

    fn thing(self) -> Thing {
        match self {
            Java => Thing::Java,
            JavaCluster | Mpich => Thing::Cluster,
            OpenMp => Thing::Cpu,
            Cuda => Thing::Gpu,
        }
    }

    fn count(self, value: &Value) -> Option<u64> {
        match self {
            Java | OpenMp => value.case.threads,
            JavaCluster | Mpich => value.case.processes,
            Cuda => value.case.gpu_threads,
        }
    }

    fn is_cluster(self) -> bool {
        matches!(self, JavaCluster | Mpich)
    }
}

/// The paper's times of a program.
struct Printed {
    /// The sizes, by name and in bytes.
    sizes: Vec<(String, u64)>,
    /// The numbers of threads or processes.
    counts: Vec<u64>,
    values: Vec<(u64, u64, f64)>,
}

impl Printed {
    fn of(program: Program) -> Self {
        let [experiment, _] = program.source();
        let mut all = Printed { sizes: Vec::new(), counts: Vec::new(), values: Vec::new() };
        for v in p3().values.iter().filter(|v| v.experiment == experiment && v.measure == "time") {
            let (Some(bytes), Some(count)) = (v.case.bytes, program.count(v)) else { continue };
            let size = v.case.size.clone().unwrap_or_default();
            if all.sizes.iter().all(|(_, known)| *known != bytes) {
                all.sizes.push((size, bytes));
            }
            if !all.counts.contains(&count) {
                all.counts.push(count);
            }
            all.values.push((bytes, count, v.number()));
        }
        all.counts.sort_unstable();
        all
    }

    fn ms(&self, bytes: u64, count: u64) -> Option<f64> {
        self.values.iter().find(|(b, n, _)| (*b, *n) == (bytes, count)).map(|(.., ms)| *ms)
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
    let [_, table] = program.source();
    let printed = Printed::of(program);
    let mut all: Vec<Ours> = Vec::new();
    for row in machine.of("hpc") {
        let figure = row.printed.iter().find(|p| p.r#where == table && p.measure == "time");
        // Of a cluster's processes with several threads each, those with one: the paper's machines are 31, ours is one.
        let Some(figure) = figure.filter(|_| !program.is_cluster() || row.threads == 1) else { continue };
        let cell = printed.values.iter().find(|(bytes, count, ms)| {
            let is_count = match program {
                Java | OpenMp | Cuda => row.threads as u64 == *count,
                JavaCluster | Mpich => row.processes as u64 == *count,
            };
            *bytes == row.bytes && is_count && *ms == figure.value
        });
        let Some((bytes, count, _)) = cell else { continue };
        // A process of a cluster may not have told its time at work, and has no speedup in it.
        let own = own_time(row, machine);
        let Some(median) = row.median_s.or_else(|| own?.median_s) else { continue };
        let name = name(program, row);
        let one = (*count == 1 && !program.is_cluster()).then_some(1.0);
        let times = (*bytes, *count, median * 1e3, row.speedup.or_else(|| own?.speedup).or(one));
        match all.iter_mut().find(|ours| ours.name == name) {
            Some(ours) if ours.ms(*bytes, *count).is_some() => {}
            Some(ours) => ours.times.push(times),
            None => all.push(Ours { thing: thing(program, row), name, times: vec![times] }),
        }
    }
    // Java beside Java.
    let wants_java = matches!(program, Java | JavaCluster);
    all.sort_by_key(|ours| (ours.thing == Thing::Java) != wants_java);
    all
}

/// The program's own time, beside the row of its longest process at work.
fn own_time<'a>(row: &Row, machine: &'a Machine) -> Option<&'a Row> {
    if row.measure != AT_WORK {
        return None;
    }
    let is_it = |other: &&Row| {
        other.measure == OWN
            && (&other.case, &other.operation, &other.scheme) == (&row.case, &row.operation, &row.scheme)
            && (other.processes, other.threads) == (row.processes, row.threads)
    };
    machine.of("hpc").find(is_it)
}

fn name(program: Program, row: &Row) -> String {
    // A JVM that has just started, and one that has run the same before.
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
        false => program.thing(),
    }
}

/// What a machine's rows say about one of them.
pub fn answer(what: Hpc, machine: &Machine) -> Part {
    match what {
        Hpc::Times(program) => Part { panels: Vec::new(), ..times(program, machine, false) },
        Hpc::Time(program) => Part { grid: None, ..times(program, machine, false) },
        Hpc::Throughput(program) => Part { grid: None, ..times(program, machine, true) },
        Hpc::Speedup(program) => speedups(program, machine),
        Hpc::All => all_speedups(machine),
        Hpc::ByGpuThreads => by_gpu_threads(machine),
    }
}

fn times(program: Program, machine: &Machine, is_throughput: bool) -> Part {
    let (printed, ours) = (Printed::of(program), ours(program, machine));
    let figure = |bytes: u64, ms: f64| if is_throughput { bytes as f64 / ms / 1e6 } else { ms };
    let unit = if is_throughput { "GB/s" } else { "ms" };
    let chart = |(size, bytes): &(String, u64)| {
        let mut lines = Vec::new();
        for ours in ours.iter().take(3) {
            let times = points(&printed.counts, |n| Some(figure(*bytes, ours.ms(*bytes, *n)?)));
            lines.push(Line::ours(short(&ours.name), ours.thing, times));
        }
        let theirs = points(&printed.counts, |n| Some(figure(*bytes, printed.ms(*bytes, *n)?)));
        lines.push(Line::paper("paper", program.thing(), theirs));
        Chart::new(size, program.workers(), unit, printed.counts.iter().map(|n| count_text(*n)).collect(), lines)
    };
    let charts = if ours.is_empty() { Vec::new() } else { printed.sizes.iter().map(chart).collect() };
    let first = ours.first();
    let line = |count: &u64| {
        let cell = |(_, bytes): &(String, u64)| {
            let of = first.and_then(|ours| ours.ms(*bytes, *count));
            let theirs = printed.ms(*bytes, *count);
            let round = |x: f64| if is_throughput { (x * 1000.0).round() / 1000.0 } else { x };
            Pair::of(of.map(|ms| figure(*bytes, ms)), theirs.map(|ms| round(figure(*bytes, ms))))
        };
        (count_text(*count), printed.sizes.iter().map(cell).collect())
    };
    let program_name = first.map_or_else(|| "nothing was run".to_owned(), |ours| ours.name.clone());
    let grid = Grid {
        caption: format!("{unit}: measured ({program_name}), and below it printed ({})", program.name()),
        corner: program.workers().into(),
        columns: printed.sizes.iter().map(|(size, _)| size.clone()).collect(),
        lines: printed.counts.iter().map(line).collect(),
        less_is_better: !is_throughput,
    };
    let (said, mut claims) = facts_of(program, machine, &printed, first).by(rules(program, is_throughput));
    if program == Java && first.is_none_or(|ours| ours.thing != Thing::Java) {
        claims.insert(1, claim("Java's threads do so too", None));
    }
    Part {
        factor: median(&grid.ratios().collect::<Vec<_>>()),
        rows: ours.iter().map(|ours| ours.times.len()).sum(),
        panels: vec![Panels::Charts(on_one_axis(charts))],
        claims,
        said,
        grid: Some(grid),
    }
}

/// The rules of a program's times, in their order.
fn rules(program: Program, is_throughput: bool) -> &'static [&'static [Rule]] {
    match program {
        Java | OpenMp if is_throughput => &[TIMES, THREADS, THROUGHPUT],
        Java | OpenMp => &[TIMES, THREADS, BEYOND],
        JavaCluster | Mpich => &[TIMES, PROCESSES],
        Cuda => &[TIMES, GPU_THREADS],
    }
}

const TIMES: &[Rule] = &[Rule::Say(&[
    "{size}: {ms} ms at best here ({name}), {paper} ms at best in the paper ({count} {workers}): {paper / ms} × as fast.",
    "{why not}",
])];
const THREADS: &[Rule] = &[
    Rule::Say(&[
        "More threads make it {best} × as fast as one on this machine's {cores} cores; the paper's node has 16 logical cores.",
    ]),
    Rule::Say(&["{no java}"]),
    holds("up to the number of cores, more threads take less time", "falls"),
];
const THROUGHPUT: &[Rule] = &[holds("the largest file has the highest throughput", "last > first")];
const BEYOND: &[Rule] = &[holds("beyond the number of cores, more threads gain nothing", "no_gain")];
const PROCESSES: &[Rule] = &[
    Rule::Say(&["{of encryption}"]),
    holds("more processes take less time (4 processes on one machine)", "falls"),
    holds("31 nodes take less time than 16", ""),
];
const GPU_THREADS: &[Rule] = &[
    holds("more GPU threads take less time, up to a limit", "falls"),
    holds("beyond the limit the time stays", "stays"),
];

fn facts_of(program: Program, machine: &Machine, printed: &Printed, ours: Option<&Ours>) -> Facts {
    let cores = machine.heads[0].cores;
    // The largest that was measured: a run may have ended before.
    let measured = |(_, bytes): &&(String, u64)| ours.is_some_and(|ours| ours.fastest_ms(*bytes).is_some());
    let size = printed.sizes.iter().rfind(measured);
    let bytes = size.map(|(_, bytes)| *bytes);
    let theirs = printed.counts.iter().filter_map(|n| Some((printed.ms(bytes?, *n)?, *n)));
    let theirs = theirs.min_by(|a, b| a.0.total_cmp(&b.0));
    let each = |is: &dyn Fn(u64, &Ours) -> Option<bool>| {
        let all: Vec<bool> = printed.sizes.iter().filter_map(|(_, bytes)| is(*bytes, ours?)).collect();
        (!all.is_empty()).then(|| all.iter().all(|holds| *holds))
    };
    let less = |few: u64, many: u64| each(&|bytes, ours| more(ours.ms(bytes, few), ours.ms(bytes, many)));
    let at_cores = printed.counts.iter().copied().filter(|n| *n <= (cores as u64).max(2)).max().unwrap_or(1);
    let most = printed.counts.last().copied().unwrap_or(1);
    let no_gain = each(&|bytes, ours| Some(ours.ms(bytes, most)? > ours.ms(bytes, at_cores)? * 0.8));
    let stays = each(&|bytes, ours| {
        let (a, b) = (ours.ms(bytes, 1_000_000)?, ours.ms(bytes, 10_000_000)?);
        Some((a / b - 1.0).abs() < 0.25)
    });
    let throughput = |size: Option<&(String, u64)>| Some(size?.1 as f64 / ours?.fastest_ms(size?.1)?);
    let why_not = match program {
        Cuda => "Not run here: this machine has no GPU, or its rows were not measured.",
        _ => "Not run here: there are no rows.",
    };
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
        "workers": [program.workers()],
        "why not": ours.is_none().then_some(why_not),
        "best": bytes.and_then(|bytes| ours?.best(bytes)),
        "cores": [cores],
        "no java": is_other.then_some("No Java was measured on this machine: the program beside the paper's is Phalanx's AES."),
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

/// A number of threads: "500", "100k", "50M".
fn count_text(count: u64) -> String {
    match count {
        n if n >= 1_000_000 && n % 1_000_000 == 0 => format!("{}M", n / 1_000_000),
        n if n >= 1_000 && n % 1_000 == 0 => format!("{}k", n / 1_000),
        n => n.to_string(),
    }
}

/// A name that fits beside a line.
fn short(name: &str) -> String {
    name.chars().take(18).collect()
}

/// The printed speedup or efficiency of a program.
fn printed_speedup(program: Program, measure: &str, bytes: u64) -> Option<f64> {
    let [experiment, _] = program.source();
    let is_it = |v: &&Value| v.experiment == experiment && v.measure == measure && v.case.bytes == Some(bytes);
    let own = p3().values.iter().find(is_it);
    // CUDA's are in the comparison only.
    let in_comparison = |v: &&Value| {
        v.experiment == "comparison"
            && v.measure == measure
            && v.case.bytes == Some(bytes)
            && v.program.as_deref().is_some_and(|name| name.starts_with("CUDA"))
    };
    let of_cuda = || p3().values.iter().find(in_comparison).filter(|_| program == Cuda);
    own.or_else(of_cuda).map(Value::number)
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

const OF_NODE: &[&[Rule]] = &[
    &[
        Rule::Say(&[
            "At best {here} × one thread on {cores} cores here, {paper} × on a node with 16 logical cores in the paper.",
            "Not run here.",
        ]),
        Rule::Say(&["Of each core's power it uses {here / cores * 100} %, the paper {paper / 16 * 100} %."]),
    ],
    GROWS,
];
const OF_CLUSTER: &[&[Rule]] = &[
    &[
        Rule::Say(&[
            "At best {here} × one thread on {cores} cores here, {paper} × on 31 nodes with 16 logical cores each in the paper.",
            "Not run here.",
        ]),
        Rule::Say(&[
            "That is {here / cores * 100} % of what this machine's cores could give; more than one machine was not at hand.",
        ]),
    ],
    GROWS,
    &[holds("31 nodes speed it up by more than 31", "")],
];
const GROWS: &[Rule] =
    &[holds("several workers beat one", "here > 1"), holds("the speedup grows with the size of the file", "grows")];

/// One of the tables of speedups.
fn speedups(program: Program, machine: &Machine) -> Part {
    let (sizes, all) = (Printed::of(program).sizes, ours(program, machine));
    let first = all.first();
    let bests: Vec<Option<f64>> = sizes.iter().map(|(_, bytes)| best(program, machine, first, *bytes)).collect();
    let cores = machine.heads[0].cores as f64;
    let word = first.is_none().then_some("not run");
    let pair = |ours: Option<f64>, theirs: Option<f64>| Pair { ours, theirs, word, plain: true };
    let each = |measure: &'static str, scale: f64| -> Vec<Pair> {
        let all = sizes.iter().zip(&bests);
        all.map(|((_, bytes), best)| pair(best.map(|b| b * scale), printed_speedup(program, measure, *bytes))).collect()
    };
    let mut lines = vec![("speedup".to_owned(), each("speedup", 1.0))];
    if matches!(program, Java | OpenMp) {
        lines.push(("efficiency, %".to_owned(), each("efficiency", 100.0 / cores)));
    }
    let known: Vec<f64> = bests.iter().flatten().copied().collect();
    let largest = known.iter().copied().reduce(f64::max);
    let theirs = sizes.iter().filter_map(|(_, bytes)| printed_speedup(program, "speedup", *bytes)).reduce(f64::max);
    let grows = (known.len() == sizes.len() && known.len() > 1).then(|| known[known.len() - 1] > known[0]);
    let is_java = first.is_some_and(|ours| ours.thing == Thing::Java);
    let facts = facts! { "here": largest, "cores": Some(cores), "paper": theirs, "grows": grows };
    let (said, mut claims) = facts.by(if program.is_cluster() { OF_CLUSTER } else { OF_NODE });
    if program == Java && !is_java {
        claims.push(claim("Java's threads do so too", None));
    }
    Part {
        rows: all.iter().map(|ours| ours.times.len()).sum(),
        grid: Some(Grid {
            caption: "Speedup over one thread: measured, and below it printed".into(),
            columns: sizes.into_iter().map(|(size, _)| size).collect(),
            lines,
            ..Grid::default()
        }),
        said,
        claims,
        ..Part::default()
    }
}

const ALL: &[Rule] = &[
    Rule::Say(&["Threads of one process reach {threads} × one thread here, on {cores} cores."]),
    Rule::Say(&["Processes on this one machine reach {cluster} ×; a second machine was not at hand."]),
    Rule::Say(&[
        "The GPU reaches {gpu} × one CPU thread, with its copies.",
        "CUDA was not run: there are no rows of a GPU.",
    ]),
    holds("threads beat one thread", "threads > 1"),
    holds("a cluster's processes, here of one machine, beat one thread", "cluster > 1"),
    holds("a cluster beats one node", ""),
    holds("the GPU beats the CPU's threads", "gpu > threads"),
];

/// Table 5.10.
fn all_speedups(machine: &Machine) -> Part {
    let sizes = Printed::of(OpenMp).sizes;
    let each: Vec<(Program, Vec<Ours>)> = Program::ALL.into_iter().map(|p| (p, ours(p, machine))).collect();
    let line = |(program, all): &(Program, Vec<Ours>)| {
        let cells = sizes.iter().map(|(_, bytes)| {
            let ours = best(*program, machine, all.first(), *bytes);
            Pair::of(ours, printed_speedup(*program, "speedup", *bytes)).plain()
        });
        (program.name().to_owned(), cells.collect())
    };
    let lines: Vec<(String, Vec<Pair>)> = each.iter().map(line).collect();
    let largest = |at: usize| lines[at].1.iter().filter_map(|pair| pair.ours).reduce(f64::max);
    let (threads, cluster, gpu) = (largest(2), largest(3), largest(4).filter(|_| machine.has_gpu()));
    let facts =
        facts! { "threads": threads, "cluster": cluster, "gpu": gpu, "cores": Some(machine.heads[0].cores as f64) };
    let (said, claims) = facts.by(&[ALL]);
    Part {
        claims,
        rows: each.iter().flat_map(|(_, all)| all).map(|ours| ours.times.len()).sum(),
        grid: Some(Grid {
            caption: "Best speedup over one thread: measured, and below it printed (corrected where the print contradicts itself)".into(),
            corner: "program".into(),
            columns: sizes.into_iter().map(|(size, _)| size).collect(),
            lines,
            ..Grid::default()
        }),
        said,
        ..Part::default()
    }
}

const BY_GPU_THREADS: &[Rule] = &[
    Rule::Say(&[
        "At best the GPU is {best} × one CPU thread (median over the sizes).",
        "Not run here: there are no rows of a GPU. The dashed lines are the quotients of the printed times.",
    ]),
    holds("the GPU beats one CPU thread", "best > 1"),
    holds("larger files gain more", "grows"),
];

/// Figure 5.12.
fn by_gpu_threads(machine: &Machine) -> Part {
    let (times, all) = (Printed::of(Cuda), ours(Cuda, machine));
    let of_c = Printed::of(OpenMp);
    let chart = |(size, bytes): &(String, u64)| {
        let line = |ours: &Ours| {
            let times = points(&times.counts, |n| Some(serial_ms(machine, *bytes)? / ours.ms(*bytes, *n)?));
            Line::ours(short(&ours.name), Thing::Gpu, times)
        };
        let theirs = points(&times.counts, |n| Some(of_c.ms(*bytes, 1)? / times.ms(*bytes, *n)?));
        let lines = all.iter().map(line).chain([Line::paper("paper", Thing::Gpu, theirs)]).collect();
        Chart::new(
            size,
            "GPU threads",
            "times one CPU thread",
            times.counts.iter().map(|n| count_text(*n)).collect(),
            lines,
        )
    };
    let charts = times.sizes.iter().map(chart).collect();
    let first = all.first();
    let bests: Vec<f64> = times.sizes.iter().filter_map(|(_, bytes)| best(Cuda, machine, first, *bytes)).collect();
    let is_gpu = machine.has_gpu();
    let grows = (bests.len() > 1 && is_gpu).then(|| bests[bests.len() - 1] > bests[0]);
    let facts = facts! { "best": median(&bests).filter(|_| is_gpu), "grows": grows };
    let (said, claims) = facts.by(&[BY_GPU_THREADS]);
    Part {
        panels: vec![Panels::Charts(on_one_axis(charts))],
        said,
        claims,
        rows: all.iter().map(|ours| ours.times.len()).sum(),
        ..Part::default()
    }
}
