//! The size of chunks.

use std::fmt;

/// How many bytes of plaintext a chunk holds: a power of two from 4 KiB to 16 MiB, and 1 MiB by default.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct ChunkSize(pub(crate) u8);

impl ChunkSize {
    /// A size in bytes; `None` if the format has no chunks of that size.
    #[must_use]
    pub fn new(bytes: u64) -> Option<Self> {
        let log2 = u8::try_from(bytes.checked_ilog2()?).ok()?;
        (bytes.is_power_of_two() && (12..=24).contains(&log2)).then_some(Self(log2))
    }

    /// The size in bytes.
    #[must_use]
    pub fn bytes(self) -> usize {
        1 << self.0
    }
}

impl Default for ChunkSize {
    fn default() -> Self {
        Self(20)
    }
}

impl fmt::Debug for ChunkSize {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ChunkSize({})", self.bytes())
    }
}
