//! The program `phalanx-server`.
#![forbid(unsafe_code)]

use std::process::ExitCode;

#[global_allocator]
static ALLOCATOR: phalanx_host::last_resort::Allocator = phalanx_host::last_resort::Allocator;

fn main() -> ExitCode {
    phalanx_server::main()
}
