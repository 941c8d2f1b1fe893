//! The tests of the crate.

mod store;
