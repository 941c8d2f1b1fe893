//! The command `phalanx`: see `phalanx --help`, and `docs/` for the format, the design and the threats.
#![deny(unsafe_code)]

mod age;
mod args;
mod argv;
mod commands;
mod daemon;
mod engines;
mod failure;
mod hardening;
mod key_files;
mod last_resort;
mod paths;
mod progress;
mod secrets;
mod stdio;
mod transfer;
mod verbosity;

use args::Command;
use commands::{completions, init, inspect, key, man, mount, protect, rekey, unprotect, verify};
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
        Command::Rekey(rekey) => rekey::run(rekey.validate()?, args.verbosity),
        Command::Init(init) => init::run(init.validate()?, args.verbosity),
        Command::Mount(mount) => mount::run(mount.validate()?, args.verbosity),
        Command::Inspect(inspect) => inspect::run(&inspect),
        Command::Key(key) => key::run(key, args.verbosity),
        Command::Engines(engines) => commands::engines::run(&engines),
        Command::Completions { shell } => completions::print(shell),
        Command::Man { folder } => man::write(&folder),
        Command::Help { command } => args::help(&command),
        Command::Version => failure::say(concat!("phalanx ", env!("CARGO_PKG_VERSION"))),
    }
}
