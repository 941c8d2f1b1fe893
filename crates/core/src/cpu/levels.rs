//! The instruction sets in use: the fastest of the machine, or others by name.

use phalanx_kernels::{aes, keccak};
use std::str::FromStr;

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
    #[must_use]
    pub fn detect() -> Self {
        Self { aes: aes::Level::detect(), keccak: keccak::Level::detect() }
    }
}

/// The error for the name of a kernel that this machine does not have.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("this machine has no kernel named {0}")]
pub struct NoSuchKernel(pub String);

impl FromStr for Levels {
    type Err = NoSuchKernel;

    /// Parses `AES,KECCAK`. Either name may be empty, and the second one may be left out with its comma: the fastest kernel
    /// of this machine is used then.
    fn from_str(names: &str) -> Result<Self, NoSuchKernel> {
        let (aes, keccak) = names.split_once(',').unwrap_or((names, ""));
        let fastest = Self::detect();
        let missing = |name: &str| NoSuchKernel(name.to_owned());
        Ok(Self {
            aes: match aes {
                "" => fastest.aes,
                name => name.parse().ok().filter(|l: &aes::Level| l.is_available()).ok_or_else(|| missing(name))?,
            },
            keccak: match keccak {
                "" => fastest.keccak,
                name => name.parse().ok().filter(|l: &keccak::Level| l.is_available()).ok_or_else(|| missing(name))?,
            },
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn either_kernel_may_be_named() {
        let fastest = Levels::detect();
        let aes = Levels { aes: aes::Level::Portable, ..fastest };
        let keccak = Levels { keccak: keccak::Level::Portable, ..fastest };
        let both = Levels { aes: aes.aes, keccak: keccak.keccak };
        let cases = [("", fastest), (",", fastest), ("portable", aes), ("portable,", aes), (",portable", keccak)];
        for (names, levels) in cases.into_iter().chain([("portable,portable", both)]) {
            assert_eq!(names.parse(), Ok(levels), "{names}");
        }
        for (names, missing) in [("abacus", "abacus"), (",abacus", "abacus"), ("portable,a,b", "a,b")] {
            assert_eq!(names.parse::<Levels>(), Err(NoSuchKernel(missing.into())), "{names}");
        }
    }
}
