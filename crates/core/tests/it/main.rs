//! The tests of the core, in one program: it is compiled and linked once. `leaks` is another one, because it searches all
//! memory of its process.

#[path = "../common/mod.rs"]
mod common;

mod batch;
mod coalescer;
mod contents;
mod engines;
mod pipeline;
mod ranges;
mod reader;
mod reader_faults;
mod stack;
mod tampering;
mod trees;
mod vectors;
mod volume;
mod writer;
