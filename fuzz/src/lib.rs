//! Shared by the fuzz targets: bytes that steer, files made by the reference, and the expected results.
#![forbid(unsafe_code)]

pub mod alter;
pub mod made;
pub mod manifests;
pub mod model;
pub mod reader;

/// The fuzzer's bytes, used one after another as decisions. After their end, zeros follow.
pub struct Steer<'a>(pub &'a [u8]);

impl<'a> Steer<'a> {
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub fn byte(&mut self) -> u8 {
        let Some((first, rest)) = self.0.split_first() else { return 0 };
        self.0 = rest;
        *first
    }

    pub fn flag(&mut self) -> bool {
        self.byte() & 1 == 1
    }

    /// A number below `n`, which is at most 65536; 0 if `n` is 0.
    pub fn below(&mut self, n: usize) -> usize {
        if n <= 256 { usize::from(self.byte()) % n.max(1) } else { usize::from(self.u16()) % n }
    }

    pub fn u16(&mut self) -> u16 {
        u16::from_le_bytes([self.byte(), self.byte()])
    }

    pub fn u32(&mut self) -> u32 {
        u32::from(self.u16()) | u32::from(self.u16()) << 16
    }

    pub fn u64(&mut self) -> u64 {
        u64::from(self.u32()) | u64::from(self.u32()) << 32
    }

    pub fn pick<T: Copy>(&mut self, from: &[T]) -> T {
        from[self.below(from.len())]
    }

    /// Up to `n` bytes.
    pub fn take(&mut self, n: usize) -> &'a [u8] {
        let (taken, rest) = self.0.split_at(n.min(self.0.len()));
        self.0 = rest;
        taken
    }
}

/// FNV-1a of the first bytes. It decides, by the input alone, which of the slower checks run.
pub fn hash(bytes: &[u8]) -> u64 {
    bytes.iter().take(64).fold(0xcbf2_9ce4_8422_2325, |h, b| (h ^ u64::from(*b)).wrapping_mul(0x0100_0000_01b3))
}
