//! The two kernels that Phalanx is made of, AES in counter mode and SHA-3 over many inputs at once.
//!
//! No I/O, no threads, no allocation. Each kernel exists in several *levels*, one for each instruction set it is
//! written for; all levels give the same bytes. [`aes::Level`] and [`keccak::Level`] are chosen each on its own.
//! No level looks up a table, or branches, by a secret.
#![deny(missing_docs)]
#![deny(unsafe_op_in_unsafe_fn)]
#![warn(clippy::missing_errors_doc, clippy::missing_panics_doc, clippy::must_use_candidate)]

pub mod aes;
pub mod keccak;

use core::fmt;

/// The name is not that of any level.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UnknownLevel;

impl fmt::Display for UnknownLevel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("no level of this kernel has that name")
    }
}

impl core::error::Error for UnknownLevel {}
