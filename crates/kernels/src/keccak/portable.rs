//! One sponge after another, by the `keccak` crate's permutation.

use super::{Input, OUTPUT, RATE, State};
use zeroize::Zeroize;

/// XORs one block into the state and permutes it.
pub(super) fn absorb<const ROUNDS: usize>(state: &mut State, block: &[u8; RATE]) {
    for (lane, bytes) in state.iter_mut().zip(block.as_chunks::<8>().0) {
        *lane ^= u64::from_le_bytes(*bytes);
    }
    keccak::Keccak::new().with_p1600::<ROUNDS>(|p1600| p1600(state));
}

pub(super) fn sponge<const ROUNDS: usize>(input: Input<'_>, out: &mut [u8; OUTPUT]) {
    let mut state = *input.state;
    let (blocks, tail) = input.message.as_chunks::<RATE>();
    for block in blocks {
        absorb::<ROUNDS>(&mut state, block);
    }
    // The tail and the suffix, which may run over into a block of its own.
    let mut last = [0u8; 2 * RATE];
    let end = tail.len() + input.suffix.len;
    last[..tail.len()].copy_from_slice(tail);
    last[tail.len()..][..input.suffix.bytes.len()].copy_from_slice(&input.suffix.bytes);
    let used = end.div_ceil(RATE) * RATE;
    last[used - 1] ^= 0x80;
    for block in last[..used].as_chunks::<RATE>().0 {
        absorb::<ROUNDS>(&mut state, block);
    }
    for (out, lane) in out.as_chunks_mut::<8>().0.iter_mut().zip(&state) {
        *out = lane.to_le_bytes();
    }
    state.zeroize();
}
