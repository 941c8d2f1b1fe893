//! The `keccak` crate's permutation.

use super::{RATE, State};

/// XORs one block into the state and permutes it.
pub(super) fn absorb<const ROUNDS: usize>(state: &mut State, block: &[u8; RATE]) {
    for (lane, bytes) in state.iter_mut().zip(block.as_chunks::<8>().0) {
        *lane ^= u64::from_le_bytes(*bytes);
    }
    keccak::Keccak::new().with_p1600::<ROUNDS>(|p1600| p1600(state));
}
