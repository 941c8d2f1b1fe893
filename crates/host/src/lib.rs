//! What programs on a machine share. See [`file`](mod@file).
#![deny(unsafe_code, missing_docs)]
#![warn(clippy::missing_errors_doc, clippy::must_use_candidate)]

pub mod file;

pub use file::Keyring;

#[cfg(doctest)]
#[doc = include_str!("../../../GUIDE.md")]
struct Guide;
