//! Helpers for the tests of both kernels.

/// Bytes that repeat every 251, so that no two neighbouring blocks, slices or lanes are equal.
pub fn paint(len: usize) -> Vec<u8> {
    (0..=250u8).cycle().take(len).collect()
}

/// Loops over lengths, places and counts take each of them, or a few under Miri, which is thousands of times slower.
pub const STEP: usize = if cfg!(miri) { 97 } else { 1 };

/// xorshift64*: the same numbers in every run.
pub struct Random(pub u64);

impl Random {
    pub fn below(&mut self, bound: usize) -> usize {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        (self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 33) as usize % bound
    }
}
