//! `phalanx bench`: the papers' experiments, and whole commands beside other programs.

use crate::args::{Bench, BenchRun, Verbosity};
use crate::failure::{Code, Failure, Outcome, complain, shown};
use crate::progress::count;
use crate::{gpu, lanes};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use phalanx_bench::row::Row;
use phalanx_bench::{Error, Experiment, Setup, Watch};
use std::path::{Path, PathBuf};
use std::time::Duration;

pub fn run(bench: Bench, verbosity: Verbosity) -> Outcome {
    let (experiments, args) = match bench {
        Bench::Report { folder, merge } => {
            merge.iter().try_for_each(|file| phalanx_bench::merged::add(&folder, file)).map_err(failed)?;
            phalanx_bench::report::write(&folder).map_err(failed)?;
            return told(&folder, verbosity);
        }
        Bench::Sefps(args) => (vec![Experiment::Sefps], args),
        Bench::Users(args) => (vec![Experiment::Users], args),
        Bench::Hpc(args) => (vec![Experiment::Hpc], args),
        Bench::Keys(args) => (vec![Experiment::Keys], args),
        Bench::Peers(args) => (vec![Experiment::Peers], args),
        Bench::All(args) => (Experiment::ALL.to_vec(), args),
    };
    let setup = setup(args)?;
    let meter = Meter::new(verbosity);
    let done = phalanx_bench::run(&experiments, &setup, &meter);
    meter.bar.finish_and_clear();
    done.map_err(failed)?;
    told(&setup.out, verbosity)
}

fn setup(args: BenchRun) -> Outcome<Setup> {
    let program =
        std::env::current_exe().map_err(|e| Failure::new(Code::Other, format!("cannot find this program: {e}")))?;
    let BenchRun { quick, out, resume } = args;
    // Whole commands run in other folders.
    let out = std::path::absolute(&out).map_err(|e| failed(Error::Path(out, e)))?;
    Ok(Setup {
        out,
        quick,
        resume,
        levels: lanes::levels()?,
        threads: lanes::all_cores(),
        device: gpu::find(),
        program,
    })
}

fn told(folder: &Path, verbosity: Verbosity) -> Outcome {
    if !verbosity.quiet {
        let report: PathBuf = folder.join(phalanx_bench::report::FILE);
        crate::failure::say(format!("the report is in {}", shown(&report)))?;
    }
    Ok(())
}

fn failed(error: Error) -> Failure {
    let line = error.to_string();
    match error {
        Error::Core(error) => error.into(),
        Error::Path(..) | Error::Exists(_) | Error::Folder(..) | Error::Resources(_) => {
            Failure::new(Code::InputOutput, line)
        }
        Error::Program(_) | Error::Device(_) => Failure::new(Code::Other, line),
    }
}

/// A bar with the time left; each row as a line with `--verbose`.
struct Meter {
    bar: ProgressBar,
    verbose: bool,
}

impl Meter {
    fn new(verbosity: Verbosity) -> Self {
        // Draws nothing where stderr is not a terminal.
        let target = if verbosity.quiet { ProgressDrawTarget::hidden() } else { ProgressDrawTarget::stderr() };
        let bar = ProgressBar::with_draw_target(None, target);
        let style =
            ProgressStyle::with_template("{msg} {wide_bar} {percent}%, {eta} left").expect("a constant template");
        bar.set_style(style.progress_chars("=> "));
        Self { bar, verbose: verbosity.verbose }
    }
}

impl Watch for Meter {
    fn begin(&self, whole: u64, done: u64) {
        self.bar.set_length(whole);
        self.bar.set_position(done);
        // What an earlier run did says nothing about the speed of this one.
        self.bar.reset_eta();
        self.bar.enable_steady_tick(Duration::from_secs(1));
    }

    fn step(&self, name: &str) {
        self.bar.set_message(name.to_owned());
    }

    fn row(&self, row: &Row) {
        if self.verbose {
            let Row { case, operation, measure, scheme, engine, threads, .. } = row;
            let threads = count(*threads as u64, "thread");
            let figure = match (row.median_s, row.speedup, &row.note) {
                (Some(median), ..) => format!("{:.3?}", Duration::from_secs_f64(median)),
                (None, Some(ratio), _) => format!("{ratio:.2}"),
                (None, None, note) => note.clone().unwrap_or_default(),
            };
            self.bar.suspend(|| {
                complain(format!("{case}, {operation}, {measure}: {scheme}, {engine}, {threads}: {figure}"))
            });
        }
    }

    fn done(&self, weight: u64) {
        self.bar.inc(weight);
    }
}
