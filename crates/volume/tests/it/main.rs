//! The tests of the crate, in one program.

mod names;
mod store;
mod tree;
mod vectors;
