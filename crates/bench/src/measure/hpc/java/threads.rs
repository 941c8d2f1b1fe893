//! 1 to 16 threads of one JVM.

use crate::error::{Error, Result};
use crate::measure::hpc::cluster::cell::{check, write_key};
use crate::measure::hpc::cluster::job::Job;
use crate::measure::hpc::java::cell::Cell;
use crate::measure::hpc::java::programs::Times;
use crate::measure::scratch;
use crate::measure::setup::processors;
use crate::measure::steps::Rows;
use crate::names::cluster::WHOLE;
use crate::names::java::{COMMAND, CTR, ENCRYPTION_COLD, ENCRYPTION_WARM, FILES_WARM, FORMAT, PAPERS, PHALANX};
use std::ffi::OsString;
use std::path::Path;

/// A program that measures itself.
struct Program {
    scheme: &'static str,
    /// What it measures in a JVM that has just started, if that is asked for.
    cold: Option<&'static str>,
    warm: &'static str,
    class: &'static str,
    /// Before the numbers of threads and of rounds.
    args: &'static [&'static str],
    /// How many times the data it holds in memory.
    copies: u64,
    writes: bool,
}

/// The JCE holds the data, a copy with the padding, and the result.
const PAPERS_OWN: [Program; 3] = [
    Program {
        scheme: PAPERS,
        cold: Some(ENCRYPTION_COLD),
        warm: ENCRYPTION_WARM,
        class: "Divided",
        args: &["cbc"],
        copies: 3,
        writes: false,
    },
    Program {
        scheme: CTR,
        cold: None,
        warm: ENCRYPTION_WARM,
        class: "Divided",
        args: &["ctr"],
        copies: 1,
        writes: false,
    },
    Program { scheme: CTR, cold: None, warm: FILES_WARM, class: "Divided", args: &["ctr"], copies: 1, writes: true },
];
const LIBRARY: Program =
    Program { scheme: FORMAT, cold: None, warm: FILES_WARM, class: "Format", args: &[], copies: 1, writes: true };

/// The paper's program, and the same with the mode that Phalanx has.
pub fn papers(cell: &Cell<'_>, rows: &mut Rows<'_>) -> Result<()> {
    PAPERS_OWN.iter().try_for_each(|program| own(cell, program, rows))
}

/// The format, by the library.
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
            return rows.not_run(all, &missing);
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
    let times = run(threads, cell.counts.warm + 1)?;
    write(cell, rows, warm, scheme, |n| Some(times.of(n).1))?;
    if let Some(cold) = cold {
        let mut first: Vec<(usize, Vec<f64>)> = threads.iter().map(|n| (*n, Vec::new())).collect();
        for _ in 0..cell.counts.cold {
            for (n, seconds) in &mut first {
                seconds.extend(run(&[*n], 1)?.of(*n).0);
            }
        }
        write(cell, rows, cold, scheme, |n| Some(first.iter().find(|(of, _)| *of == n)?.1.clone()))?;
    }
    scratch::remove(&sealed)
}

/// Rows of all numbers of threads, with their speedups.
fn write(
    cell: &Cell<'_>,
    rows: &mut Rows<'_>,
    measure: &str,
    scheme: &str,
    of: impl Fn(usize) -> Option<Vec<f64>>,
) -> Result<()> {
    let mut one = None;
    for &n in &cell.counts.threads {
        let seconds = of(n).filter(|seconds| !seconds.is_empty());
        let seconds = seconds.ok_or_else(|| Error::Program(format!("{scheme}: it told no times of {n} threads")))?;
        rows.write(cell.row(measure, scheme, 0, n).timed(seconds).beside(&mut one, "1 thread", processors(n)))?;
    }
    Ok(())
}

/// Whole commands, in Java and in Rust, in turn. Both sync what they write.
pub fn commands(cell: &Cell<'_>, rows: &mut Rows<'_>) -> Result<()> {
    let all = |scheme: &'static str| cell.counts.threads.iter().map(move |n| cell.row(WHOLE, scheme, 0, *n));
    let java = match cell.programs(cell.bytes) {
        Ok(java) => java,
        Err(missing) => return rows.not_run(all(COMMAND), &missing),
    };
    let (plain, key, sealed) = (cell.plain()?, cell.scratch.path("key"), cell.scratch.path("sealed"));
    let [plain, key, sealed] = [&plain, &key, &sealed].map(|path| path.as_path());
    write_key(key)?;
    let call = |n: usize| {
        let n = n.to_string();
        let args: Vec<String> = ["protect", "--quiet", "--threads", &n, "--key-file"].map(str::to_owned).to_vec();
        (args, [key, Path::new("--output"), sealed, plain])
    };
    let has_phalanx = cell.setup.program.is_file();
    let mut times: Vec<(usize, [Vec<f64>; 2])> = cell.counts.threads.iter().map(|n| (*n, Default::default())).collect();
    for round in 0..cell.counts.cold {
        for (n, [of_java, of_rust]) in &mut times {
            let (args, paths) = call(*n);
            let args: Vec<&str> = args.iter().map(String::as_str).collect();
            of_java.push(java.phalanx(&args, &paths).run()?.seconds);
            if round == 0 {
                check(plain, sealed, cell.scratch)?;
            }
            scratch::remove(sealed)?;
            if has_phalanx {
                let all = args.iter().map(OsString::from).chain(paths.iter().map(OsString::from));
                of_rust.push(Job::own(1, &cell.setup.program, all).run()?.seconds);
                scratch::remove(sealed)?;
            }
        }
    }
    let of = |n: usize, which: usize| Some(times.iter().find(|(of, _)| *of == n)?.1[which].clone());
    write(cell, rows, WHOLE, COMMAND, |n| of(n, 0))?;
    match has_phalanx {
        true => write(cell, rows, WHOLE, PHALANX, |n| of(n, 1)),
        false => rows.not_run(all(PHALANX), "no phalanx beside this program"),
    }
}
