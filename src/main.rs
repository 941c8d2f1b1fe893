//! The command `phalanx`.
#![forbid(unsafe_code)]

use std::process::ExitCode;

#[global_allocator]
static ALLOCATOR: phalanx::last_resort::Allocator = phalanx::last_resort::Allocator;

fn main() -> ExitCode {
    phalanx::main()
}
