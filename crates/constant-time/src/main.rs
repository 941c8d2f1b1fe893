//! Shows that no branch and no address depends on a secret: `docs/evidence-time.md`.
//!
//! - `memcheck` runs everything that works on secrets, for Valgrind, with keys and texts marked as secret. It prints how
//!   many verdicts it let be known.
//! - `leak NAME` runs a planted leak, which Valgrind must report.
//! - `machine-code LIST [PROGRAM]` compares the machine code of the kernels that Valgrind cannot run with a list, and
//!   checks that planted leaks are found in it. `--renew` writes the list.
//!
//! `.ci/constant-time` runs all of these.

mod inputs;
mod kernels;
mod machine_code;
mod planted;
mod valgrind;
mod verdicts;
#[cfg(feature = "whole")]
mod whole;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    let done = match args[..] {
        ["memcheck"] => memcheck(),
        ["leak", name] => planted::run(name),
        ["machine-code", "--renew", list] => machine_code::renew(Path::new(list), &this()),
        ["machine-code", list] => machine_code::check(Path::new(list), &this()),
        ["machine-code", list, program] => machine_code::check(Path::new(list), Path::new(program)),
        _ => Err("usage: phalanx-constant-time memcheck | leak NAME | machine-code [--renew] LIST [PROGRAM]".into()),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

/// This program's file: it contains the kernels.
fn this() -> PathBuf {
    std::env::current_exe().unwrap_or_default()
}

fn memcheck() -> Result<(), String> {
    if !valgrind::is_running() {
        eprintln!("not under Valgrind: this only shows that everything runs");
    }
    kernels::run();
    #[cfg(feature = "whole")]
    whole::run().map_err(|e| e.to_string())?;
    verdicts::print();
    Ok(())
}
