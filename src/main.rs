//! The command `phalanx`: see `phalanx --help`, and `docs/` for the format, the design and the threats.
#![deny(unsafe_code)]

mod args;
mod argv;
mod auto;
mod calibrate;
mod completions;
mod drivers;
mod ends;
mod engines;
mod failure;
mod folder;
mod hardening;
mod inspect;
mod kept;
mod key;
mod key_copies;
mod key_files;
mod lanes;
mod last_resort;
mod manual;
mod paths;
mod progress;
mod protect;
mod salvage;
mod scan;
mod secrets;
mod stdio;
mod tally;
mod transfer;
mod tree;
mod unprotect;
mod verify;
mod walk;

use args::Command;
use failure::Outcome;
use phalanx_core::Error;
use std::process::ExitCode;

fn main() -> ExitCode {
    failure::guard(|| match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => failure.report(),
    })
}

fn run() -> Outcome {
    hardening::harden();
    paths::umask();
    stdio::check_error().map_err(Error::Write)?;
    let args = args::parse()?;
    failure::clean_up_on_signals()?;
    match args.command {
        Command::Protect(protect) => protect::run(protect.validate()?, args.verbosity),
        Command::Unprotect(unprotect) => unprotect::run(unprotect.validate()?, args.verbosity),
        Command::Verify(verify) => verify::run(verify.validate()?, args.verbosity),
        Command::Inspect(inspect) => inspect::run(&inspect),
        Command::Key(key) => key::run(key, args.verbosity),
        Command::Engines(engines) => engines::run(&engines),
        Command::Completions { shell } => completions::print(shell),
        Command::Man { folder } => manual::man(&folder),
        Command::Help { command } => args::help(&command),
        Command::Version => failure::say(concat!("phalanx ", env!("CARGO_PKG_VERSION"))),
    }
}
