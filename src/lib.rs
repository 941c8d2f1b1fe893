//! The parts of the command `phalanx`, which `phalanx-mpi` and the Python package share: arguments, keys, engines, failures,
//! places of outputs. See `phalanx --help`, and `docs/` for the format, the design and the threats.
//!
//! Programs that protect files use the crate `phalanx-core`.
#![deny(unsafe_code)]
#![allow(missing_docs, reason = "only our own programs use it: what a name says is not said again")]

pub mod age;
pub mod args;
mod argv;
mod commands;
mod daemon;
pub mod engines;
pub mod failure;
pub mod folders;
mod hardening;
pub mod key_files;
pub mod last_resort;
pub mod paths;
pub mod progress;
mod report;
pub mod secrets;
pub mod signals;
mod stdio;
pub mod strays;
mod transfer;
pub mod verbosity;
pub mod warnings;

use args::Command;
use commands::{completions, init, inspect, key, man, mount, protect, rekey, unprotect, verify, version};
use failure::Outcome;
use phalanx_core::Error;
use std::process::ExitCode;

/// The command `phalanx`.
pub fn main() -> ExitCode {
    failure::guard(|| match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => failure.report(),
    })
}

/// Before anything else: keeps other processes and core dumps from the memory, and finds broken standard output.
///
/// # Errors
/// If standard output cannot be written to.
pub fn begin() -> Outcome {
    hardening::harden();
    signals::survive_limits()?;
    paths::umask();
    stdio::check_error().map_err(Error::Write)?;
    Ok(())
}

/// Before anything secret is read, and before there are other threads: keeps secrets out of swap, and takes the signals that
/// end the process.
///
/// # Errors
/// If signals cannot be caught.
pub fn begin_work() -> Outcome {
    hardening::lock_memory();
    signals::clean_up()
}

fn run() -> Outcome {
    begin()?;
    let args = args::parse()?;
    // Scripts that ask for the version or a page of help do not wait for what only the other commands need.
    if !matches!(args.command, Command::Completions { .. } | Command::Help { .. } | Command::Version) {
        begin_work()?;
    }
    match args.command {
        Command::Protect(protect) => protect::run(protect.validate()?, args.verbosity),
        Command::Unprotect(unprotect) => unprotect::run(unprotect.validate()?, args.verbosity),
        Command::Verify(verify) => verify::run(verify.validate()?, args.verbosity),
        Command::Rekey(rekey) => rekey::run(rekey.validate()?, args.verbosity),
        Command::Init(init) => init::run(init.validate()?, args.verbosity),
        Command::Mount(mount) => mount::run(mount.validate()?, args.verbosity),
        Command::Inspect(inspect) => inspect::run(inspect.validate()?, args.verbosity),
        Command::Key(key) => key::run(key, args.verbosity),
        Command::Engines(engines) => commands::engines::run(&engines, args.verbosity),
        Command::Completions { shell } => completions::print(shell),
        Command::Man { folder } => man::write(&folder),
        Command::Help { command } => args::help(&command),
        Command::Version => version::run(args.verbosity),
    }
}
