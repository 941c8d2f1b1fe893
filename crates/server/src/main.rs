//! The program `phalanx-server`.
#![forbid(unsafe_code)]

use phalanx_host::last_resort::Allocator;
use std::process::ExitCode;
use zeroizing_alloc::ZeroAlloc;

/// What is freed is wiped: texts and tokens also pass through buffers of HTTP, TLS and JSON that nobody else wipes.
#[global_allocator]
static ALLOCATOR: ZeroAlloc<Allocator> = ZeroAlloc(Allocator);

fn main() -> ExitCode {
    phalanx_server::main()
}
