//! The parts of the command `phalanx`. What our other programs share with it is in the crate `phalanx-host`. See
//! `phalanx --help`, and `docs/` for the format, the design and the threats.
//!
//! Programs that protect files use the crate `phalanx-core`.
#![deny(unsafe_code)]
#![allow(missing_docs, reason = "only its own program uses it: what a name says is not said again")]

mod args;
mod commands;
#[cfg(target_os = "linux")]
mod daemon;
mod progress;
mod transfer;
mod usage;
#[cfg(target_os = "linux")]
mod volume_engines;
#[cfg(target_os = "linux")]
pub mod volume_failures;

use args::Command;
use commands::{completions, inspect, key, man, mirror, protect, rekey, unprotect, verify, version};
#[cfg(target_os = "linux")]
use commands::{init, mount};
use phalanx_host::failure::{self, Outcome};
use phalanx_host::{ask, start};
use std::process::ExitCode;
use zeroize::Zeroizing;

/// The command `phalanx`.
pub fn main() -> ExitCode {
    ask::by(|question| rpassword::prompt_password(question).map(Zeroizing::new));
    failure::guard(|| match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => failure.report(),
    })
}

fn run() -> Outcome {
    start::begin()?;
    let mut args = usage::parse()?;
    // The version, help and completions come at once: only the other commands need this.
    if !matches!(args.command, Command::Completions { .. } | Command::Help { .. } | Command::Version) {
        start::begin_work()?;
    }
    if let Some(stores) = args.command.take_stores() {
        stores.install();
    }
    match args.command {
        Command::Mirror(mirror) => mirror::run(mirror.validate()?, args.verbosity),
        Command::Protect(protect) => protect::run(protect.validate()?, args.verbosity),
        Command::Unprotect(unprotect) => unprotect::run(unprotect.validate()?, args.verbosity),
        Command::Verify(verify) => verify::run(verify.validate()?, args.verbosity),
        Command::Rekey(rekey) => rekey::run(rekey.validate()?, args.verbosity),
        #[cfg(target_os = "linux")]
        Command::Init(init) => init::run(init.validate()?, args.verbosity),
        #[cfg(target_os = "linux")]
        Command::Mount(mount) => mount::run(mount.validate()?, args.verbosity),
        Command::Inspect(inspect) => inspect::run(inspect.validate()?, args.verbosity),
        Command::Key(key) => key::run(key, args.verbosity),
        Command::Engines(engines) => commands::engines::run(&engines, args.verbosity),
        Command::Completions { shell } => completions::print(shell),
        Command::Man { folder } => man::write(&folder),
        Command::Help { command } => usage::help(&command),
        Command::Version => version::run(args.verbosity),
    }
}
