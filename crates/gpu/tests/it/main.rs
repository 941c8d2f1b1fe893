//! The tests of the GPU engine, in one program: it is compiled and linked once, and opens each device once.

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
mod takeover;
