//! Windows, by the calls of NT: they open what lies in an open folder by its name there, as `openat` does on Unix.
//!
//! What Windows does not have fails with an error that says so.

mod acl;
pub mod at;
pub mod console;
mod dir;
pub mod files;
pub mod fs;
pub mod hardening;
pub mod io;
pub mod names;
mod nt;
pub mod pipe;
pub mod process;
mod stat;
pub mod stdio;
