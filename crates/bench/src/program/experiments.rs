//! The experiments: from the command line to a run and its report.

use super::args::{Copy, Experiments, Verbosity};
use super::failure::{Code, Failure, Outcome, complain, say};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use phalanx_bench::error::Error;
use phalanx_bench::measure::setup::{HpcOptions, PeersOptions, ServiceOptions, Setup};
use phalanx_bench::measure::steps::Watch;
use phalanx_bench::merged;
use phalanx_bench::row::{BUSY, Row};
use phalanx_bench::run::Experiment;
use phalanx_core::engine::Levels;
use phalanx_gpu::Device;
use std::cell::Cell;
use std::io::{self, IsTerminal};
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::time::Duration;
use std::{env, thread};

/// Runs experiments, and writes their report.
pub fn run(args: &Experiments, verbosity: Verbosity) -> Outcome {
    let setup = setup(args)?;
    let meter = Meter::new(verbosity);
    let done = phalanx_bench::run::run(&args.experiments, &setup, &meter);
    meter.finish();
    done?;
    say_where(&setup.out, verbosity)
}

/// Writes the report of a run again, including rows of other machines, and the tables of rows in documents.
pub fn report(
    folder: &Path,
    merge: &[PathBuf],
    documents: &[PathBuf],
    prints_index: bool,
    verbosity: Verbosity,
) -> Outcome {
    merge.iter().try_for_each(|file| merged::add(folder, file))?;
    phalanx_bench::report::write(folder)?;
    documents.iter().try_for_each(|document| phalanx_bench::report::renew(document, folder))?;
    if prints_index {
        return phalanx_bench::report::index(folder)?.lines().try_for_each(say);
    }
    say_where(folder, verbosity)
}

/// Copies a file by several threads: a program to compare with.
pub fn copy(args: &Copy) -> Outcome {
    let threads = args.threads.map_or_else(all_cores, NonZeroUsize::get);
    Ok(phalanx_bench::measure::peers::copy::copy(&args.from, &args.to, threads, (args.piece as usize) << 10)?)
}

fn setup(args: &Experiments) -> Outcome<Setup> {
    let beside = |program: Option<PathBuf>, name| program.map(|program| program.with_file_name(name));
    let of_cargo =
        |package: &str| format!("there is no such program: build it with `cargo build --release -p {package}`");
    // If these programs are missing, the rows of volumes and clusters name them.
    let needs_phalanx = args.phalanx.is_some() || args.experiments.contains(&Experiment::Peers);
    let phalanx = args.phalanx.clone().or_else(|| beside(env::current_exe().ok(), "phalanx"));
    let phalanx = phalanx.filter(|path| needs_phalanx || path.is_file());
    let how = format!("{}, or name one with --phalanx", of_cargo("phalanx"));
    let program = named(phalanx, Path::is_file, &how)?.unwrap_or_default();
    let found = || beside(args.phalanx.clone().or_else(|| env::current_exe().ok()), "phalanx-mpi");
    let mpi = args.hpc.program.clone().or_else(|| found().filter(|path| path.is_file()));
    let mpi = named(mpi, Path::is_file, &of_cargo("phalanx-cluster"))?;
    let java = named(args.hpc.java.clone(), Path::is_file, "there is no such program")?;
    let jars = named(args.hpc.jars.clone(), Path::is_dir, "there is no such folder")?;
    let hpc = HpcOptions { program: mpi, java, jars, ..args.hpc.clone() };
    let trees = named(args.peers.folder.clone(), Path::is_dir, "there is no such folder")?;
    let peers = PeersOptions { folder: trees, ..args.peers.clone() };
    let no_program = "there is no such program";
    let server = || beside(env::current_exe().ok(), "phalanx-server").filter(|path| path.is_file());
    let server = named(args.service.server.clone().or_else(server), Path::is_file, &of_cargo("phalanx-server"))?;
    let vault = named(args.service.vault.clone(), Path::is_file, no_program)?;
    let service = ServiceOptions { server, vault, ..args.service.clone() };
    // Whole commands run in other folders.
    let out = std::path::absolute(&args.run.out).map_err(|e| Error::Path(args.run.out.clone(), e))?;
    Ok(Setup {
        out,
        quick: args.run.quick,
        resume: args.run.resume,
        levels: levels()?,
        threads: all_cores(),
        device: phalanx_gpu::find().and_then(measurable),
        program,
        volume: args.volume.clone(),
        hpc,
        peers,
        service,
    })
}

/// A device whose times are worth a row.
fn measurable(device: Device) -> Result<Device, String> {
    if device.info().is_simulated() {
        return Err(format!("{}: its times say nothing about a GPU", device.info().name));
    }
    Ok(device)
}

/// The absolute path of what the user has named, if anything.
fn named(path: Option<PathBuf>, exists: fn(&Path) -> bool, or: &str) -> Outcome<Option<PathBuf>> {
    match path {
        Some(path) if !exists(&path) => Err(Failure::at(&path, Code::InputOutput, or)),
        Some(path) => std::path::absolute(&path).map(Some).map_err(|e| Error::Path(path, e).into()),
        None => Ok(None),
    }
}

/// The kernels to use: the fastest of this machine, unless the variable PHALANX_KERNELS names others.
pub fn levels() -> Outcome<Levels> {
    let names = env::var("PHALANX_KERNELS").unwrap_or_default();
    names.parse().map_err(|e| Failure::new(Code::Usage, format!("PHALANX_KERNELS: {e}")))
}

/// One thread for each core.
pub fn all_cores() -> usize {
    thread::available_parallelism().map_or(1, |n| n.get())
}

fn say_where(folder: &Path, verbosity: Verbosity) -> Outcome {
    if verbosity.quiet {
        return Ok(());
    }
    say(format!("the report is in {}", folder.join(phalanx_bench::report::FILE).display()))
}

/// A bar with the time left or, if stderr is not a terminal, a line for each step. With `--verbose`, also a line for
/// each row.
struct Meter {
    bar: ProgressBar,
    verbosity: Verbosity,
    /// Whether a line is written for each step.
    has_lines: bool,
    rows: Cell<usize>,
    noisy: Cell<usize>,
}

impl Meter {
    fn new(verbosity: Verbosity) -> Self {
        // Draws nothing if stderr is not a terminal.
        let target = if verbosity.quiet { ProgressDrawTarget::hidden() } else { ProgressDrawTarget::stderr() };
        let bar = ProgressBar::with_draw_target(None, target);
        let style =
            ProgressStyle::with_template("{msg} {wide_bar} {percent}%, {eta} left").expect("a constant template");
        bar.set_style(style.progress_chars("=> "));
        let has_lines = !verbosity.quiet && !io::stderr().is_terminal();
        Self { bar, verbosity, has_lines, rows: Cell::new(0), noisy: Cell::new(0) }
    }

    /// Writes a line that is not an error.
    fn warn(&self, line: String) {
        if !self.verbosity.quiet {
            self.bar.suspend(|| complain(format!("warning: {line}")));
        }
    }

    /// Reports at the end how much was measured on a busy machine.
    fn finish(&self) {
        self.bar.finish_and_clear();
        let (noisy, rows) = (self.noisy.get(), self.rows.get());
        if noisy > 0 {
            let away = (BUSY * 100.0) as u64;
            self.warn(format!(
                "{noisy} of {rows} rows were measured while other work or the host took more than {away} % of the machine; \
                 the report marks them"
            ));
        }
    }
}

impl Watch for Meter {
    fn missing(&self, what: &[String]) {
        if !what.is_empty() {
            self.warn(format!("not here, so not measured: {}", what.join(", ")));
        }
    }

    fn begin(&self, whole: u64, done: u64) {
        self.bar.set_length(whole);
        self.bar.set_position(done);
        // The progress of an earlier run says nothing about the speed of this one.
        self.bar.reset_eta();
        self.bar.enable_steady_tick(Duration::from_secs(1));
    }

    fn step(&self, name: &str) {
        self.bar.set_message(name.to_owned());
        if self.has_lines {
            let part = 100 * self.bar.position() / self.bar.length().unwrap_or(1).max(1);
            complain(format!("{part} % after {} s: {name}", self.bar.elapsed().as_secs()));
        }
    }

    fn row(&self, row: &Row) {
        self.rows.set(self.rows.get() + 1);
        self.noisy.set(self.noisy.get() + usize::from(row.is_noisy()));
        if self.verbosity.verbose {
            let Row { case, operation, measure, scheme, engine, processes, threads, .. } = row;
            let threads = format!("{threads} thread{}", if *threads == 1 { "" } else { "s" });
            let threads = match processes {
                0 => threads,
                n => format!("{n} process{} with {threads}", if *n == 1 { "" } else { "es" }),
            };
            let peak = row.peak_kib.map(|kib| format!("{} MiB", kib >> 10));
            let figure = match (row.median_s, row.speedup.or(row.value)) {
                (Some(median), _) => format!("{:.3?}", Duration::from_secs_f64(median)),
                (None, Some(figure)) => format!("{figure:.2}"),
                (None, None) => peak.or_else(|| row.note.clone()).unwrap_or_default(),
            };
            self.bar.suspend(|| {
                complain(format!(
                    "{case}, {operation}, {measure}: {scheme}, {engine}, {threads}: {figure}{}",
                    row.mark()
                ))
            });
        }
    }

    fn done(&self, weight: u64) {
        self.bar.inc(weight);
    }
}
