//! What the programs of Phalanx share on a machine: both ends of a transfer, trees, keys and passwords, the choice of an engine,
//! signals and failures.
//!
//! Programs that protect files use the crate `phalanx-core`. No file here uses one that uses it, directly or through others.
#![deny(missing_docs)]
#![deny(unsafe_code)]

pub mod age;
pub mod args;
pub mod argv;
pub mod ask;
pub mod engines;
pub mod failure;
pub mod folders;
pub mod hardening;
pub mod home;
pub mod key_files;
pub mod last_resort;
pub mod lines;
pub mod paths;
pub mod report;
pub mod say;
pub mod secret_files;
pub mod secrets;
pub mod signals;
pub mod start;
pub mod stdio;
pub mod strays;
pub mod transfer;
#[cfg(feature = "clap")]
pub mod usage;
pub mod verbosity;
pub mod warnings;
pub mod words;
