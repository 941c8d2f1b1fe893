//! The tests of the core, in one program that is compiled and linked once. `leaks` is a separate program, because it
//! searches all memory of its process.

#[path = "../common/mod.rs"]
mod common;

mod batch;
mod bounded;
mod chunks;
mod coalescer;
mod contents;
mod engines;
mod failing_outputs;
mod libraries;
mod pipeline;
mod ranges;
mod reader;
mod reader_faults;
mod secrets;
mod services;
mod stack;
mod tampering;
mod trees;
mod vectors;
mod volume;
mod writer;
