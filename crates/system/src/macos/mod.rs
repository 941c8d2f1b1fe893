//! macOS, with the types and names that Linux has.

mod acl;
mod folders;
pub mod fs;
pub mod hardening;
pub mod process;
pub mod signals;
pub mod stdio;
