//! Known answers, which a level must compute before it is used. A processor that computes wrongly, because it is
//! overclocked, failing or badly emulated, would otherwise make authentic files with wrong content, since tags cover
//! the ciphertext.
//!
//! Each level is tested once in a process, which takes microseconds. The answers are folded to 64 bits, and were
//! computed by the portable kernels, which the tests compare with official vectors.

use std::sync::OnceLock;

/// Whether a level gives the right answers, tested once.
pub(crate) struct Known(OnceLock<bool>);

impl Known {
    pub const fn unasked() -> Self {
        Self(OnceLock::new())
    }

    pub fn ask(&self, answer: impl FnOnce() -> bool) -> bool {
        *self.0.get_or_init(answer)
    }
}

/// Mixes bytes into a number. Any wrong bit and any exchange of words changes the number.
pub(crate) fn fold(start: u64, bytes: &[u8]) -> u64 {
    let mix = |sum: u64, word: u64| (sum ^ word).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(29);
    let (words, rest) = bytes.as_chunks();
    let sum = words.iter().fold(start, |sum, word| mix(sum, u64::from_le_bytes(*word)));
    rest.iter().fold(sum, |sum, byte| mix(sum, u64::from(*byte)))
}

/// Bytes that repeat every 251, so that no two blocks or lanes are equal.
pub(crate) const fn paint<const N: usize>() -> [u8; N] {
    let mut bytes = [0; N];
    let mut i = 0;
    while i < N {
        bytes[i] = (i % 251) as u8;
        i += 1;
    }
    bytes
}
