//! The program `phalanx-bench`: the papers' experiments, whole commands compared with other programs, and their
//! reports.
#![forbid(unsafe_code)]

mod program;

use std::process::ExitCode;

fn main() -> ExitCode {
    program::run().map_or_else(|failure| failure.report(), |()| ExitCode::SUCCESS)
}
