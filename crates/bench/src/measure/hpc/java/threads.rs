//! 1 to 16 threads of one JVM.

use crate::measure::hpc::cluster::job::Job;
use crate::measure::hpc::java::cell::{Cell, Ends};
use crate::measure::hpc::java::programs::Times;
use crate::measure::scratch;
use crate::measure::{Contestant, Error, Result, Rows, in_turns};
use crate::names::cluster::WHOLE;
use crate::names::java::{COMMAND, CTR, ENCRYPTION_COLD, ENCRYPTION_WARM, FILES_WARM, FORMAT, PAPERS, PHALANX};
use std::path::Path;

/// A program that measures itself.
struct Program {
    scheme: &'static str,
    /// The measure in a JVM that has just started, if that is measured.
    cold: Option<&'static str>,
    warm: &'static str,
    class: &'static str,
    /// The arguments before the numbers of threads and of rounds.
    args: &'static [&'static str],
    /// How many copies of the data it has in memory.
    copies: u64,
    writes: bool,
}

/// The paper's program. The JCE holds the data, a copy with the padding, and the result.
const CBC: Program = Program {
    scheme: PAPERS,
    cold: Some(ENCRYPTION_COLD),
    warm: ENCRYPTION_WARM,
    class: "Divided",
    args: &["cbc"],
    copies: 3,
    writes: false,
};
/// The program with Phalanx's mode.
const IN_MEMORY: Program = Program { scheme: CTR, cold: None, args: &["ctr"], copies: 1, ..CBC };
const WITH_FILES: Program = Program { warm: FILES_WARM, writes: true, ..IN_MEMORY };
const LIBRARY: Program = Program { scheme: FORMAT, class: "Format", args: &[], ..WITH_FILES };

/// Measures the paper's program, and the same program with Phalanx's mode.
pub fn papers(cell: &Cell<'_>, rows: &mut Rows<'_>) -> Result<()> {
    [CBC, IN_MEMORY, WITH_FILES].iter().try_for_each(|program| own(cell, program, rows))
}

/// Measures Phalanx's format with the library in Java.
pub fn format(cell: &Cell<'_>, rows: &mut Rows<'_>) -> Result<()> {
    own(cell, &LIBRARY, rows)
}

fn own(cell: &Cell<'_>, program: &Program, rows: &mut Rows<'_>) -> Result<()> {
    let Program { scheme, cold, warm, class, args, copies, writes } = *program;
    let threads = &cell.counts.threads;
    let memory = copies * cell.bytes;
    let java = match cell.programs(memory + cell.bytes) {
        Ok(java) => java,
        Err(missing) => {
            let measures = || cold.into_iter().chain([warm]);
            let all = threads.iter().flat_map(|n| measures().map(|measure| cell.row(measure, scheme, 0, *n)));
            return rows.not_run(all, &missing.to_string());
        }
    };
    let (plain, sealed) = (cell.plain()?, cell.scratch.path("sealed"));
    let run = |threads: &[usize], rounds: usize| {
        let threads = threads.iter().map(usize::to_string).collect::<Vec<_>>().join(",");
        let rounds = rounds.to_string();
        let args = [args, &[threads.as_str(), rounds.as_str()]].concat();
        let paths: &[&Path] = if writes { &[&plain, &sealed] } else { &[&plain] };
        Ok::<_, Error>(Times::read(&java.papers(class, memory, &args, paths).run()?.text))
    };
    let mut write = |measure: &str, of: &dyn Fn(usize) -> Result<Vec<f64>>| {
        let mut all = Vec::new();
        for &n in threads {
            let seconds = of(n)?;
            if seconds.is_empty() {
                return Err(Error::Program(format!("{scheme}: it told no times of {n} threads")));
            }
            all.push(cell.row(measure, scheme, 0, n).timed(seconds));
        }
        rows.beside_first(all, "1 thread").map(drop)
    };
    let times = run(threads, cell.counts.warm + 1)?;
    write(warm, &|n| Ok(times.of(n).1))?;
    if let Some(cold) = cold {
        write(cold, &|n| {
            let first = (0..cell.counts.cold).map(|_| run(&[n], 1).map(|times| times.of(n).0));
            Ok(first.collect::<Result<Vec<_>>>()?.concat())
        })?;
    }
    scratch::remove(&sealed)
}

/// Measures whole commands, in Java and in Rust, in turn. Both sync what they write.
pub fn commands(cell: &Cell<'_>, rows: &mut Rows<'_>) -> Result<()> {
    let threads = || cell.counts.threads.iter().copied();
    let java = match cell.programs(cell.bytes) {
        Ok(java) => java,
        Err(missing) => {
            return rows.not_run(threads().map(|n| cell.row(WHOLE, COMMAND, 0, n)), &missing.to_string());
        }
    };
    let ends = Ends::new(cell)?;
    let args = |n: usize| ends.args(&["protect", "--quiet", "--threads", &n.to_string(), "--key-file"]);
    let contestant = |scheme: &str, n: usize, job: Job| {
        let ends = &ends;
        Contestant::new(vec![cell.row(WHOLE, scheme, 0, n)], move |turn| {
            Ok(vec![Some(ends.run(&job, turn.is_first)?.seconds)])
        })
    };
    let mut all: Vec<_> = threads().map(|n| contestant(COMMAND, n, java.phalanx(args(n)))).collect();
    let program = &cell.setup.program;
    all.extend(threads().map(|n| match program.is_file() {
        true => contestant(PHALANX, n, Job::own(1, program, args(n))),
        false => Contestant::missing(vec![cell.row(WHOLE, PHALANX, 0, n)], "no phalanx beside this program".into()),
    }));
    let all = in_turns(all, 0, cell.counts.cold)?.concat();
    let (of_java, of_rust) = all.split_at(threads().count());
    rows.beside_first(of_java.iter().cloned(), "1 thread")?;
    rows.beside_first(of_rust.iter().cloned(), "1 thread").map(drop)
}
