//! Moving files through an action: single files, and whole trees.

mod action;
mod ends;
mod files;
mod folder;
mod scan;
mod tally;
pub mod tree;
mod walk;

pub use action::{Action, Moved, Transfer};
pub use ends::{Input, Target, blame};
pub use files::run;
