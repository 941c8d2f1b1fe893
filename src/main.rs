//! The command `phalanx`.
#![forbid(unsafe_code)]

use std::process::ExitCode;

fn main() -> ExitCode {
    phalanx::main()
}
