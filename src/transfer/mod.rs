//! Moving files through an action: single files, and whole trees.

mod action;
mod files;
mod protect;
mod scan;
pub mod tree;

pub use action::{Action, Moved, Transfer};
pub use files::run;
pub use protect::Protect;
