//! The tests of the GPU engine. They are one program, which is linked once and opens each device once.

#[path = "../../../core/tests/common/mod.rs"]
mod common;
#[path = "../common/mod.rs"]
mod devices;

mod absent;
mod cuda_calls;
mod engine;
mod faults;
mod kernels;
mod ptx;
mod reader;
mod resident;
mod sbox;
mod simulated;
mod takeover;
mod writer;
