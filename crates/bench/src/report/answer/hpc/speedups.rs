//! P3's speedups: of each program, of all beside each other, and by GPU threads.

use super::{Cuda, Java, OpenMp, Ours, Printed, Program, count_text, ours, short};
use crate::paper::{Value, p3};
use crate::report::answer::{Grid, Pair, Panels, Part, claim, more, said};
use crate::report::draw::{Chart, Line, Thing};
use crate::report::machine::Machine;
use crate::row::median;

/// The printed speedup or efficiency of a program.
fn printed(program: Program, measure: &str, bytes: u64) -> Option<f64> {
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
    own.or_else(of_cuda).map(|v| v.figure.value.unwrap_or(v.figure.printed))
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

/// One of the tables of speedups.
pub fn of(program: Program, machine: &Machine) -> Part {
    let (sizes, all) = (Printed::of(program).sizes, ours(program, machine));
    let first = all.first();
    let bests: Vec<Option<f64>> = sizes.iter().map(|(_, bytes)| best(program, machine, first, *bytes)).collect();
    let cores = machine.heads[0].cores as f64;
    let word = first.is_none().then_some("not run");
    let pair = |ours: Option<f64>, theirs: Option<f64>| Pair { ours, theirs, word, plain: true };
    let each = |measure: &'static str, scale: f64| -> Vec<Pair> {
        let all = sizes.iter().zip(&bests);
        all.map(|((_, bytes), best)| pair(best.map(|b| b * scale), printed(program, measure, *bytes))).collect()
    };
    let mut lines = vec![("speedup".to_owned(), each("speedup", 1.0))];
    if matches!(program, Java | OpenMp) {
        lines.push(("efficiency, %".to_owned(), each("efficiency", 100.0 / cores)));
    }
    let known: Vec<f64> = bests.iter().flatten().copied().collect();
    let largest = known.iter().copied().reduce(f64::max);
    let mut sentences = Vec::new();
    let theirs = sizes.iter().filter_map(|(_, bytes)| printed(program, "speedup", *bytes)).reduce(f64::max);
    match largest.zip(theirs) {
        Some((here, there)) => {
            let on = if program.is_cluster() {
                "31 nodes with 16 logical cores each"
            } else {
                "a node with 16 logical cores"
            };
            let pattern = format!("At best {{}} × one thread on {{}} cores here, {{}} × on {on} in the paper.");
            sentences.push(said(pattern, &[here, cores, there]));
            if program.is_cluster() {
                let part = here / cores * 100.0;
                sentences.push(said(
                    "That is {} % of what this machine's cores could give; more than one machine was not at hand.",
                    &[part],
                ));
            } else {
                let (here, there) = (here / cores * 100.0, there / 16.0 * 100.0);
                sentences.push(said("Of each core's power it uses {} %, the paper {} %.", &[here, there]));
            }
        }
        None => sentences.push(said("Not run here.", &[])),
    }
    let grows = (known.len() == sizes.len() && known.len() > 1).then(|| known[known.len() - 1] > known[0]);
    let mut claims = vec![claim("several workers beat one", largest.map(|l| l > 1.0))];
    claims.push(claim("the speedup grows with the size of the file", grows));
    if program == Java && first.is_none_or(|ours| ours.thing != Thing::Java) {
        claims.push(claim("Java's threads do so too", None));
    }
    if program.is_cluster() {
        claims.push(claim("31 nodes speed it up by more than 31", None));
    }
    Part {
        rows: all.iter().map(|ours| ours.times.len()).sum(),
        grid: Some(Grid {
            caption: "Speedup over one thread: measured, and below it printed".into(),
            columns: sizes.into_iter().map(|(size, _)| size).collect(),
            lines,
            ..Grid::default()
        }),
        said: sentences,
        claims,
        ..Part::default()
    }
}

/// Table 5.10.
pub fn all(machine: &Machine) -> Part {
    let sizes = Printed::of(OpenMp).sizes;
    let each: Vec<(Program, Vec<Ours>)> = Program::ALL.into_iter().map(|p| (p, ours(p, machine))).collect();
    let line = |(program, all): &(Program, Vec<Ours>)| {
        let cells = sizes.iter().map(|(_, bytes)| {
            let ours = best(*program, machine, all.first(), *bytes);
            Pair {
                ours,
                theirs: printed(*program, "speedup", *bytes),
                word: ours.is_none().then_some("not run"),
                plain: true,
            }
        });
        (program.name().to_owned(), cells.collect())
    };
    let lines: Vec<(String, Vec<Pair>)> = each.iter().map(line).collect();
    let largest = |at: usize| lines[at].1.iter().filter_map(|pair| pair.ours).reduce(f64::max);
    let (threads, cluster, gpu) = (largest(2), largest(3), largest(4).filter(|_| machine.has_gpu()));
    let mut sentences = Vec::new();
    if let Some(threads) = threads {
        let pattern = "Threads of one process reach {} × one thread here, on {} cores.";
        sentences.push(said(pattern, &[threads, machine.heads[0].cores as f64]));
    }
    if let Some(cluster) = cluster {
        sentences.push(said("Processes on this one machine reach {} ×; a second machine was not at hand.", &[cluster]));
    }
    sentences.push(match gpu {
        Some(gpu) => said("The GPU reaches {} × one CPU thread, with its copies.", &[gpu]),
        None => said("CUDA was not run: there are no rows of a GPU.", &[]),
    });
    Part {
        claims: vec![
            claim("threads beat one thread", threads.map(|n| n > 1.0)),
            claim("a cluster's processes, here of one machine, beat one thread", cluster.map(|n| n > 1.0)),
            claim("a cluster beats one node", None),
            claim("the GPU beats the CPU's threads", more(gpu, threads)),
        ],
        rows: each.iter().flat_map(|(_, all)| all).map(|ours| ours.times.len()).sum(),
        grid: Some(Grid {
            caption: "Best speedup over one thread: measured, and below it printed (corrected where the print contradicts itself)".into(),
            corner: "program".into(),
            columns: sizes.into_iter().map(|(size, _)| size).collect(),
            lines,
            ..Grid::default()
        }),
        said: sentences,
        ..Part::default()
    }
}

/// Figure 5.12.
pub fn by_gpu_threads(machine: &Machine) -> Part {
    let (times, all) = (Printed::of(Cuda), ours(Cuda, machine));
    let of_c = Printed::of(OpenMp);
    let chart = |(size, bytes): &(String, u64)| {
        let mut lines = Vec::new();
        for ours in &all {
            let points = times.counts.iter().enumerate();
            let points = points.filter_map(|(i, n)| Some((i, serial_ms(machine, *bytes)? / ours.ms(*bytes, *n)?)));
            lines.push(Line::ours(short(&ours.name), Thing::Gpu, points.collect()));
        }
        let points = times.counts.iter().enumerate();
        let points = points.filter_map(|(i, n)| Some((i, of_c.ms(*bytes, 1)? / times.ms(*bytes, *n)?))).collect();
        lines.push(Line::paper("paper", Thing::Gpu, points));
        Chart {
            title: size.clone(),
            x: "GPU threads".into(),
            y: "times one CPU thread".into(),
            places: times.counts.iter().map(|n| count_text(*n)).collect(),
            lines,
            ..Chart::default()
        }
    };
    let mut charts: Vec<Chart> = times.sizes.iter().map(chart).collect();
    let range = charts.iter().filter_map(Chart::extent).reduce(|a, b| [a[0].min(b[0]), a[1].max(b[1])]);
    charts.iter_mut().for_each(|chart| chart.range = range);
    let first = all.first();
    let bests: Vec<f64> = times.sizes.iter().filter_map(|(_, bytes)| best(Cuda, machine, first, *bytes)).collect();
    let is_gpu = machine.has_gpu();
    let said = match median(&bests).filter(|_| is_gpu) {
        Some(best) => vec![said("At best the GPU is {} × one CPU thread (median over the sizes).", &[best])],
        None => vec![said(
            "Not run here: there are no rows of a GPU. The dashed lines are the quotients of the printed times.",
            &[],
        )],
    };
    let grows = (bests.len() > 1 && is_gpu).then(|| bests[bests.len() - 1] > bests[0]);
    Part {
        panels: vec![Panels::Charts(charts)],
        said,
        claims: vec![
            claim("the GPU beats one CPU thread", median(&bests).filter(|_| is_gpu).map(|b| b > 1.0)),
            claim("larger files gain more", grows),
        ],
        rows: all.iter().map(|ours| ours.times.len()).sum(),
        ..Part::default()
    }
}
