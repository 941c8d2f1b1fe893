//! What programs on a machine share.
//!
//! [`protect`] and [`unprotect`] are one call each for a file at a path. [`file`](mod@file) has what they are made of: both ends of a
//! file, temporary names, metadata, and the output of interrupted runs. A [`Keyring`] keeps named keys. The format and the engines are
//! in `phalanx-core`, which knows nothing of files on a host.
#![deny(unsafe_code, missing_docs)]
#![warn(clippy::missing_errors_doc, clippy::must_use_candidate)]

pub mod file;
mod whole;

pub use file::Keyring;
pub use whole::{protect, unprotect, verify};

#[cfg(doctest)]
#[doc = include_str!("../../../GUIDE.md")]
struct Guide;
