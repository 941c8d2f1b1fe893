//! Chunks and messages as the CPU's code sees them: bytes, and what their tags bind.

use crate::seam::Nonce;

/// A chunk or message on its way through the CPU.
pub(crate) struct Piece<'a> {
    /// The index of its key.
    pub key: usize,
    pub nonce: Nonce,
    pub bound: Bound<'a>,
    pub data: &'a mut [u8],
    /// An output of sealing and an input of opening. It has the length of the suite's tags.
    pub tag: &'a mut [u8],
}

/// What the tag binds besides nonce and ciphertext. Chunks and messages do not mix.
#[derive(Clone, Copy)]
pub(crate) enum Bound<'a> {
    Chunk { index: u64, last: bool },
    Message { ad: &'a [u8] },
}
