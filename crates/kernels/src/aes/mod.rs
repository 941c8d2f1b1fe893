//! AES-128, AES-192 and AES-256 (FIPS 197) in counter mode (SP 800-38A, section 6.5).

mod portable;

use core::fmt;
use zeroize::{Zeroize, ZeroizeOnDrop};

/// The length of an AES block in bytes.
pub const BLOCK: usize = 16;

/// The instruction set that an AES kernel is written for, slowest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Level {
    /// The `aes` crate: bitsliced, or the processor's AES instructions where it finds them.
    Portable,
}

impl Level {
    /// Every level, slowest first, whether this machine has it or not.
    pub const ALL: &[Level] = &[Level::Portable];

    /// The fastest level of this machine.
    pub fn detect() -> Self {
        Self::ALL.iter().copied().rfind(|l| l.is_available()).unwrap_or(Level::Portable)
    }

    /// The levels that this machine has, slowest first.
    pub fn available() -> impl Iterator<Item = Self> {
        Self::ALL.iter().copied().filter(|l| l.is_available())
    }

    /// Whether this machine has the level.
    pub fn is_available(self) -> bool {
        match self {
            Level::Portable => true,
        }
    }

    /// The level's name in commands and reports.
    pub fn name(self) -> &'static str {
        match self {
            Level::Portable => "portable",
        }
    }
}

impl fmt::Display for Level {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// An AES key with its key schedule (FIPS 197, section 5.2), wiped on drop.
#[derive(Clone, Zeroize, ZeroizeOnDrop)]
pub struct Key {
    /// Round keys 0 … rounds, in the order of the standard's bytes; those behind are zero.
    round_keys: [[u8; BLOCK]; 15],
    rounds: usize,
}

impl Key {
    /// Expands a key of 16, 24 or 32 bytes, in time that does not depend on its value.
    ///
    /// # Panics
    /// If the key has another length.
    pub fn new(key: &[u8]) -> Self {
        let rounds = match key.len() {
            16 | 24 | 32 => key.len() / 4 + 6,
            n => panic!("an AES key has 16, 24 or 32 bytes, not {n}"),
        };
        Self { round_keys: portable::expand(key, rounds), rounds }
    }

    /// The key itself: the schedule begins with it.
    fn raw(&self) -> &[u8] {
        &self.round_keys.as_flattened()[..(self.rounds - 6) * 4]
    }
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "AES-{} key", (self.rounds - 6) * 32)
    }
}

/// The counter block that is `blocks` after `counter`: a big-endian addition modulo 2^128.
pub fn counter_after(counter: &[u8; BLOCK], blocks: u64) -> [u8; BLOCK] {
    u128::from_be_bytes(*counter).wrapping_add(u128::from(blocks)).to_be_bytes()
}

/// Encrypts or decrypts `data` in place: AES-CTR with `counter` as the block for its first 16 bytes.
///
/// The whole 16-byte block counts, big-endian, modulo 2^128. `data` may have any length and alignment.
pub fn ctr_xor(level: Level, key: &Key, counter: &[u8; BLOCK], data: &mut [u8]) {
    debug_assert!(level.is_available());
    match level {
        Level::Portable => portable::ctr_xor(key, counter, data),
    }
}
