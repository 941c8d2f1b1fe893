//! The instruction sets in use.

use phalanx_kernels::{aes, keccak};

/// The kernels in use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Levels {
    /// For AES-CTR.
    pub aes: aes::Level,
    /// For SHA3-256 and KMAC256.
    pub keccak: keccak::Level,
}

impl Levels {
    /// The fastest of this machine.
    pub fn detect() -> Self {
        Self { aes: aes::Level::detect(), keccak: keccak::Level::detect() }
    }
}
