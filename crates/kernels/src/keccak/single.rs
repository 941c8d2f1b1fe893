//! One sponge alone, by the fastest permutation of this machine for a single state.

use super::{Input, OUTPUT, RATE, State, portable};
use zeroize::Zeroize;

/// XORs one block into the state and permutes it.
pub(super) fn absorb<const ROUNDS: usize>(state: &mut State, block: &[u8; RATE]) {
    #[cfg(target_arch = "x86_64")]
    if is_x86_feature_detected!("avx512f") && is_x86_feature_detected!("avx512vl") {
        // SAFETY: the instructions were found just now.
        return unsafe { super::avx512vl::absorb::<ROUNDS>(state, block) };
    }
    portable::absorb::<ROUNDS>(state, block);
}

/// The first 64 bytes of the sponge's output.
pub(super) fn sponge<const ROUNDS: usize>(input: Input<'_>, out: &mut [u8; OUTPUT]) {
    sponge_by(absorb::<ROUNDS>, input, out);
}

/// The same by a given permutation.
pub(super) fn sponge_by(absorb: impl Fn(&mut State, &[u8; RATE]), input: Input<'_>, out: &mut [u8; OUTPUT]) {
    let mut state = *input.state;
    let (blocks, tail) = input.message.as_chunks::<RATE>();
    for block in blocks {
        absorb(&mut state, block);
    }
    // The tail and the suffix, which may run over into a block of its own.
    let mut last = [0u8; 2 * RATE];
    let end = tail.len() + input.suffix.len;
    last[..tail.len()].copy_from_slice(tail);
    last[tail.len()..][..input.suffix.bytes.len()].copy_from_slice(&input.suffix.bytes);
    let used = end.div_ceil(RATE) * RATE;
    last[used - 1] ^= 0x80;
    for block in last[..used].as_chunks::<RATE>().0 {
        absorb(&mut state, block);
    }
    for (out, lane) in out.as_chunks_mut::<8>().0.iter_mut().zip(&state) {
        *out = lane.to_le_bytes();
    }
    state.zeroize();
}
