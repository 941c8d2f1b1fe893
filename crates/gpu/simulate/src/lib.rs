//! NVIDIA's driver, simulated: a library with the functions that `phalanx-gpu` calls. Under the name `libcuda.so.1` in a
//! folder of `LD_LIBRARY_PATH` it takes the driver's place. It is for tests only: `crates/gpu/scripts/simulate`.
//!
//! A module's PTX is translated to C (`translate.rs`), compiled by the machine's C compiler, and run on the CPU, with
//! every access checked (`runtime.c`). What is wrong ends the launch, and all later calls fail with a text that names
//! the kernel, the line of the PTX, the block, the thread and the address.
//!
//! These variables of the environment change what it does:
//!
//! - `PHALANX_SIMULATE=late`: all work of a stream waits until the caller asks whether it is over, and threads and
//!   blocks run in descending order. Otherwise work is done at once and in ascending order.
//! - `PHALANX_SIMULATE_CACHE`: a folder for compiled kernels, which are named by the digest of their code.
//! - `PHALANX_SIMULATE_LOG`: a file to which each launch appends the PTX's SHA3-256, the kernel, and the numbers of its
//!   blocks and threads.
//! - `PHALANX_SIMULATE_REPLACE`: a folder with PTX that is run instead of other PTX, whose SHA3-256 is its name.

mod compile;
mod driver;
mod exports;
mod launch;
mod memory;
mod ptx;
#[cfg(test)]
mod tests;
mod translate;
