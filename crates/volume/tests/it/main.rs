//! The volume's tests.

mod names;
mod tree;
