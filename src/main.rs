//! The command `phalanx`.
#![forbid(unsafe_code)]

use std::process::ExitCode;

#[global_allocator]
static ALLOCATOR: phalanx_host::last_resort::Allocator = phalanx_host::last_resort::Allocator;

fn main() -> ExitCode {
    phalanx::main()
}
