//! What programs on a machine share: files and trees, keys and passwords, the choice of an engine, signals and
//! failures.
//!
//! [`protect`] and [`unprotect`] process a file at a path in one call. [`file`](mod@file) has their parts: both ends of
//! a file, temporary names, metadata, and the output of interrupted runs. A [`Keyring`] keeps named keys. The format
//! and the engines are in `phalanx-core`, which knows nothing of files on a host.
//!
//! The other modules are for the programs of Phalanx. The files of this crate do not depend on each other in a circle.
#![deny(missing_docs)]
#![deny(unsafe_code)]

pub mod age;
pub mod args;
pub mod argv;
pub mod ask;
pub mod engines;
mod error;
pub mod failure;
pub mod file;
pub mod folders;
pub mod hand;
pub mod home;
pub mod key_files;
pub mod last_resort;
pub mod lines;
pub mod lock;
pub mod locked_keys;
#[cfg(feature = "man")]
pub mod man;
pub mod mirror;
pub mod outage;
pub mod passwords;
pub mod paths;
pub mod report;
pub mod say;
pub mod secret_files;
pub mod secrets;
pub mod services;
#[cfg_attr(windows, path = "windows/signals.rs")]
pub mod signals;
pub mod signatures;
pub mod start;
#[cfg_attr(windows, path = "windows/stdio.rs")]
pub mod stdio;
pub mod strays;
pub mod transfer;
#[cfg(feature = "clap")]
pub mod usage;
pub mod verbosity;
pub mod volumes;
pub mod warnings;
mod whole;
pub mod words;

pub use error::{Error, Refused, Result};
pub use file::Keyring;
pub use whole::{protect, unprotect, verify};

#[cfg(doctest)]
#[doc = include_str!("../../../GUIDE.md")]
struct Guide;
