//! The program `phalanx-server`: seals and opens many users' records, each under a key of its own, for clients that speak
//! HTTP as Vault's Transit does. See `docs/server.md`.
//!
//! A request comes in through `http`, which knows who the caller is, and goes to `transit` (JSON) or to `records` (octet
//! streams). Both fill a `batch` with what the `keys` give, `work` seals or opens it, and the answer is written from it.
//! The `store` keeps keys, tokens and users' salts.
#![forbid(unsafe_code)]
#![allow(missing_docs, reason = "only its own program uses it")]

mod args;
mod audit;
mod batch;
mod caller;
mod changes;
mod client;
mod commands;
mod copies;
mod follow;
#[cfg(feature = "fuzzing")]
#[doc(hidden)]
pub mod fuzzing;
mod http;
mod in_flight;
mod keys;
mod limits;
mod manage;
mod metrics;
mod notify;
mod rates;
mod records;
mod refusal;
mod rights;
mod server;
mod store;
mod tokens;
mod transit;
mod users;
mod words;
mod work;

use args::{Cli, Command};
use clap::CommandFactory;
use phalanx_host::failure::{self, Outcome};
use phalanx_host::{ask, lines, start, usage};
use std::process::ExitCode;
use zeroize::Zeroizing;

/// The program `phalanx-server`.
pub fn main() -> ExitCode {
    lines::complain_as("phalanx-server");
    failure::hints_by(words::hint);
    usage::elsewhere_by(words::elsewhere);
    ask::by(|question| rpassword::prompt_password(question).map(Zeroizing::new));
    failure::guard(|| match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => failure.report(),
    })
}

/// The definition of the command line, for man pages.
#[doc(hidden)]
pub fn command() -> clap::Command {
    Cli::command()
}

fn run() -> Outcome {
    start::begin()?;
    let cli = parse()?;
    start::begin_work()?;
    match cli.command {
        Command::Init(init) => commands::init::run(init, cli.verbosity),
        Command::Run(run) => commands::run::run(run, cli.verbosity),
        Command::Key(key) => commands::key::run(key, cli.verbosity),
        Command::User(user) => commands::user::run(user, cli.verbosity),
        Command::Token(token) => commands::token::run(token, cli.verbosity),
        Command::Backup(backup) => commands::backup::run(&backup, cli.verbosity),
        Command::Restore(restore) => commands::restore::run(&restore, cli.verbosity),
        Command::Status(status) => commands::status::run(&status),
        Command::Check(check) => commands::check::run(check, cli.verbosity),
        Command::Rewrap(rewrap) => commands::rewrap::run(rewrap, cli.verbosity),
    }
}

fn parse() -> Outcome<Cli> {
    let command = usage::with_short_help(Cli::command());
    let given = words::asking_for_help(usage::given()?);
    usage::parse_from(command.clone(), &given).or_else(|error| usage::end(&command, error, &given))
}
