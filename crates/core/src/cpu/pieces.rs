//! Chunks and messages as the CPU's code sees them: bytes, and what their tags bind.

use crate::seam::Nonce;

/// A chunk or message on its way through the CPU.
pub(crate) struct Piece<'a> {
    /// Which of the keys.
    pub key: usize,
    pub nonce: Nonce,
    pub bound: Bound<'a>,
    pub data: &'a mut [u8],
    /// An output of sealing, an input of opening; as long as the suite's.
    pub tag: &'a mut [u8],
}

/// What the tag binds besides nonce and ciphertext. Chunks and messages do not mix.
#[derive(Clone, Copy)]
pub(crate) enum Bound<'a> {
    Chunk { index: u64, last: bool },
    Message { ad: &'a [u8] },
}
