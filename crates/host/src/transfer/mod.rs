//! Moving files: what is done to each, both ends of a transfer, and the walk through a tree.

pub mod action;
mod budget;
mod count;
pub mod ends;
pub mod folder;
pub mod listed;
pub mod meter;
pub mod objects;
pub mod protect;
pub mod tally;
pub mod tree;
pub mod unprotect;
pub mod walk;
