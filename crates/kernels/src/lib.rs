//! The two kernels of Phalanx: AES in counter mode, and SHA-3 over many inputs at once.
//!
//! They do no I/O, start no threads and allocate nothing. Each kernel exists in several *levels*, one for each
//! instruction set that it is written for. All levels give the same bytes. [`aes::Level`] and [`keccak::Level`] are
//! chosen independently. In no level does a table index or a branch depend on a secret.
//!
//! [`base64`] is here because it must be as fast, and as silent about secrets.
#![deny(missing_docs)]
#![deny(unsafe_op_in_unsafe_fn)]
#![warn(clippy::missing_errors_doc, clippy::missing_panics_doc, clippy::must_use_candidate)]

/// Whether the processor has all these features. The compiler may use what a feature implies, so this is checked too.
#[cfg(target_arch = "x86_64")]
macro_rules! has {
    ($($feature:tt),+) => { $(is_x86_feature_detected!($feature))&&+ };
}

pub mod aes;
mod answers;
pub mod base64;
pub mod keccak;

use core::fmt;

/// The error for a name that no level has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UnknownLevel;

impl fmt::Display for UnknownLevel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("no level of this kernel has that name")
    }
}

impl core::error::Error for UnknownLevel {}
