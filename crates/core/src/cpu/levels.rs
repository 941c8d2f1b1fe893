//! The instruction sets in use: the fastest of the machine, or those that are named.

use phalanx_kernels::{aes, keccak};
use std::str::FromStr;

/// The kernels in use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Levels {
    /// The kernel for AES-CTR.
    pub aes: aes::Level,
    /// The kernel for SHA3-256 and KMAC256.
    pub keccak: keccak::Level,
}

impl Levels {
    /// The fastest kernels of this machine that compute the known answers.
    #[must_use]
    pub fn detect() -> Self {
        Self {
            aes: fastest(aes::Level::available(), is_right_aes).unwrap_or(aes::Level::Portable),
            keccak: fastest(keccak::Level::available(), is_right_keccak).unwrap_or(keccak::Level::Portable),
        }
    }

    /// Other kernels, to do the same work again: the fastest of this machine below these. There are none below the
    /// portable ones.
    #[must_use]
    pub fn second(self) -> Self {
        let slower_aes = aes::Level::available().take_while(|level| *level < self.aes);
        let slower_keccak = keccak::Level::available().take_while(|level| *level < self.keccak);
        Self {
            aes: fastest(slower_aes, is_right_aes).unwrap_or(aes::Level::Portable),
            keccak: fastest(slower_keccak, is_right_keccak).unwrap_or(keccak::Level::Portable),
        }
    }

    /// The kernels of this machine that are not used because they fail the known answers, in words.
    #[must_use]
    pub fn wrong() -> Vec<String> {
        let used = Self::detect();
        let aes = aes::Level::available().filter(|level| *level > used.aes).map(|level| format!("AES {level}"));
        let keccak = keccak::Level::available().filter(|level| *level > used.keccak);
        aes.chain(keccak.map(|level| format!("SHA-3 {level}"))).collect()
    }

    /// Which of these fails the known answers, in words. They are tested once in a process.
    pub(crate) fn first_wrong(self) -> Option<String> {
        match (is_right_aes(self.aes), is_right_keccak(self.keccak)) {
            (false, _) => Some(format!("AES {}", self.aes)),
            (_, false) => Some(format!("SHA-3 {}", self.keccak)),
            _ => None,
        }
    }
}

/// The last level, in ascending order, that computes the known answers.
fn fastest<L: Copy>(levels: impl Iterator<Item = L>, is_right: impl Fn(L) -> bool) -> Option<L> {
    levels.collect::<Vec<_>>().into_iter().rfind(|level| is_right(*level))
}

fn is_right_aes(level: aes::Level) -> bool {
    level.is_right() && !seems_wrong(level.name())
}

fn is_right_keccak(level: keccak::Level) -> bool {
    level.is_right() && !seems_wrong(level.name())
}

/// Whether a test wants a level to count as wrong. The variable that names such levels works only in builds with debug
/// assertions.
fn seems_wrong(level: &str) -> bool {
    cfg!(debug_assertions)
        && std::env::var("PHALANX_WRONG_KERNELS").is_ok_and(|names| names.split(',').any(|name| name == level))
}

/// The error for the name of a kernel that this machine does not have.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("this machine has no kernel named {0}")]
pub struct NoSuchKernel(pub String);

impl FromStr for Levels {
    type Err = NoSuchKernel;

    /// Parses `AES,KECCAK`. Either name may be empty, and the second one may be left out with its comma: the fastest
    /// kernel of this machine is used then.
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
    #[cfg_attr(miri, ignore = "the known answers again and again")]
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
