//! What Linux and macOS have in common.

pub mod files;
pub mod names;
mod spelling;
