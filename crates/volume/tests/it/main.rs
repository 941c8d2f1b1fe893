//! The tests of the crate, in one program.

mod locks;
mod mounted;
mod names;
mod store;
mod tampering;
mod tree;
mod vectors;
mod versions;
mod ways;
