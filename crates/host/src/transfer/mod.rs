//! Moving files: both ends of a transfer, and the walk through a tree.

pub mod ends;
pub mod folder;
pub mod tally;
pub mod walk;
