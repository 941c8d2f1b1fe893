//! Linux.

pub mod fs;
pub mod hardening;
pub mod process;
pub mod signals;
pub mod stdio;
