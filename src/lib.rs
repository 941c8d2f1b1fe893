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
pub mod secrets;
mod stdio;
mod transfer;
pub mod verbosity;

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

/// Before anything else: keeps secrets out of core dumps and swap, and finds broken standard output.
///
/// # Errors
/// If standard output cannot be written to.
pub fn begin() -> Outcome {
    hardening::harden();
    paths::umask();
    stdio::check_error().map_err(Error::Write)?;
    Ok(())
}

fn run() -> Outcome {
    begin()?;
    let args = args::parse()?;
    failure::clean_up_on_signals()?;
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
