//! 1 to 16 threads of one JVM.

use super::programs::{Java, Times};
use super::{CTR, Cell, ENCRYPTION_COLD, ENCRYPTION_WARM, FILES_COLD, FILES_WARM, PAPERS, not_run};
use crate::hpc::cluster::job::Job;
use crate::hpc::cluster::{WHOLE, check, write_key};
use crate::record::Rows;
use crate::row::{Over, Row};
use crate::setup::processors;
use crate::{Error, Result, scratch};
use std::ffi::OsString;
use std::path::{Path, PathBuf};

/// The format, by the library.
pub const FORMAT: &str = "Phalanx's format, suite 1, in Java";
/// The command in Java.
pub const COMMAND: &str = "phalanx.jar, suite 1";
/// The command in Rust, beside it.
pub const PHALANX: &str = "phalanx, suite 1";

/// A program that measures itself: its measures when cold and when warm, and how it is called.
struct Program {
    scheme: &'static str,
    measures: [&'static str; 2],
    class: &'static str,
    /// Before the numbers of threads and of rounds, and the paths.
    args: &'static [&'static str],
    /// How many times the data it holds in memory.
    copies: u64,
    paths: Vec<PathBuf>,
}

impl Program {
    fn job(&self, java: &Java, bytes: u64, threads: &[usize], rounds: usize) -> Job {
        let (threads, rounds) =
            (threads.iter().map(usize::to_string).collect::<Vec<_>>().join(","), rounds.to_string());
        let mut args = self.args.to_vec();
        args.extend([threads.as_str(), rounds.as_str()]);
        let paths: Vec<&Path> = self.paths.iter().map(PathBuf::as_path).collect();
        java.papers(self.class, self.copies * bytes, &args, &paths)
    }
}

/// One size.
pub fn measure(cell: &Cell<'_>, rows: &mut Rows<'_>) -> Result<()> {
    let counts = &cell.counts;
    let [plain, sealed, key] = ["plain", "sealed", "key"].map(|name| cell.scratch.path(name));
    let encryption = [ENCRYPTION_COLD, ENCRYPTION_WARM];
    let files = [FILES_COLD, FILES_WARM];
    let both = || vec![plain.clone(), sealed.clone()];
    let programs = [
        // The JCE holds the data, a copy with the padding, and the result.
        Program {
            scheme: PAPERS,
            measures: encryption,
            class: "Divided",
            args: &["cbc"],
            copies: 3,
            paths: vec![plain.clone()],
        },
        Program {
            scheme: CTR,
            measures: encryption,
            class: "Divided",
            args: &["ctr"],
            copies: 1,
            paths: vec![plain.clone()],
        },
        Program { scheme: CTR, measures: files, class: "Divided", args: &["ctr"], copies: 1, paths: both() },
        Program { scheme: FORMAT, measures: files, class: "Format", args: &[], copies: 1, paths: both() },
    ];
    let java = match cell.programs(4 * cell.bytes) {
        Ok(java) => java,
        Err(missing) => {
            let of = |program: &Program, n: usize| program.measures.map(|m| cell.row(m, program.scheme, 0, n));
            let all = programs.iter().flat_map(|program| counts.threads.iter().flat_map(|n| of(program, *n)));
            not_run(rows, all, &missing)?;
            return not_run(rows, counts.threads.iter().map(|n| cell.row(WHOLE, COMMAND, 0, *n)), &missing);
        }
    };
    cell.scratch.file("plain", cell.bytes, cell.bytes)?;
    write_key(&key)?;
    for program in &programs {
        let [cold, warm] = program.measures;
        let text = program.job(&java, cell.bytes, &counts.threads, counts.warm + 1).run()?.text;
        let times = Times::read(&text);
        let of = |n: usize| Some(times.of(n).1);
        write(cell, rows, warm, program.scheme, of)?;
        let mut first: Vec<(usize, Vec<f64>)> = counts.threads.iter().map(|n| (*n, Vec::new())).collect();
        for _ in 0..counts.cold {
            for (n, seconds) in &mut first {
                let text = program.job(&java, cell.bytes, &[*n], 1).run()?.text;
                seconds.extend(Times::read(&text).of(*n).0);
            }
        }
        write(cell, rows, cold, program.scheme, |n| Some(first.iter().find(|(of, _)| *of == n)?.1.clone()))?;
        scratch::remove(&sealed)?;
    }
    commands(cell, &java, [&plain, &sealed, &key], rows)?;
    scratch::remove(&key)?;
    scratch::remove(&plain)
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
        let mut row = cell.row(measure, scheme, 0, n).timed(seconds);
        match one {
            None => one = row.median_s,
            Some(median_s) => row = row.compared(Over { name: "1 thread", median_s }, Some(processors(n))),
        }
        rows.write(row)?;
    }
    Ok(())
}

/// Whole commands, in Java and in Rust, in turn. Both sync what they write.
fn commands(cell: &Cell<'_>, java: &Java, [plain, sealed, key]: [&Path; 3], rows: &mut Rows<'_>) -> Result<()> {
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
        false => {
            let all: Vec<Row> = cell.counts.threads.iter().map(|n| cell.row(WHOLE, PHALANX, 0, *n)).collect();
            not_run(rows, all, "no phalanx beside this program")
        }
    }
}
