//! A single sponge, by the fastest permutation of this machine for one state.

use super::{Input, OUTPUT, RATE, State, portable};
#[cfg(target_arch = "x86_64")]
use super::{KECCAK_F, TURBO};
#[cfg(target_arch = "x86_64")]
use crate::answers::{Known, paint};
use zeroize::Zeroize;

/// XORs one block into the state and permutes it.
pub(super) fn absorb<const ROUNDS: usize>(state: &mut State, block: &[u8; RATE]) {
    #[cfg(target_arch = "x86_64")]
    if is_fast() {
        // SAFETY: is_fast() found the instructions.
        return unsafe { super::avx512vl::absorb::<ROUNDS>(state, block) };
    }
    portable::absorb::<ROUNDS>(state, block);
}

/// Whether this machine has the fast permutation, and it agrees with the portable one. Tested once.
#[cfg(target_arch = "x86_64")]
fn is_fast() -> bool {
    static ASKED: Known = Known::unasked();
    const BLOCK: [u8; RATE] = paint();
    let agree = |fast: &dyn Fn(&mut State), slow: fn(&mut State, &[u8; RATE])| {
        let [mut a, mut b] = [[0x0123_4567_89ab_cdef; 25]; 2];
        fast(&mut a);
        slow(&mut b, &BLOCK);
        a == b
    };
    ASKED.ask(|| {
        super::Level::Avx512.is_available()
            && has!("avx512vl")
            // SAFETY: the instructions were found just now.
            && agree(&|state| unsafe { super::avx512vl::absorb::<KECCAK_F>(state, &BLOCK) }, portable::absorb::<KECCAK_F>)
            // SAFETY: the instructions were found just now.
            && agree(&|state| unsafe { super::avx512vl::absorb::<TURBO>(state, &BLOCK) }, portable::absorb::<TURBO>)
    })
}

/// The first 64 bytes of the sponge's output.
pub(super) fn sponge<const ROUNDS: usize>(input: Input<'_>, out: &mut [u8; OUTPUT]) {
    sponge_by(absorb::<ROUNDS>, input, out);
}

/// The first 64 bytes of the sponge's output, by a given permutation.
pub(super) fn sponge_by(absorb: impl Fn(&mut State, &[u8; RATE]), input: Input<'_>, out: &mut [u8; OUTPUT]) {
    let mut state = *input.state;
    let (blocks, tail) = input.message.as_chunks::<RATE>();
    for block in blocks {
        absorb(&mut state, block);
    }
    // The tail and the suffix, which may need a separate block.
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
    last.zeroize();
}

#[cfg(test)]
mod tests {
    use super::*;

    /// If the machine has no other permutation, the portable one is compared with itself, and a line says so.
    #[test]
    fn both_permutations_agree() {
        #[cfg(target_arch = "x86_64")]
        if !is_x86_feature_detected!("avx512vl") {
            println!("skipped: no AVX-512VL");
        }
        let mut word = 1u64;
        let mut next = || {
            word = word.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            word ^ word >> 29
        };
        for _ in 0..if cfg!(miri) { 1 } else { 100 } {
            let state: State = std::array::from_fn(|_| next());
            let block: [u8; RATE] = std::array::from_fn(|_| next() as u8);
            let check = |one: fn(&mut State, &[u8; RATE]), other: fn(&mut State, &[u8; RATE])| {
                let (mut a, mut b) = (state, state);
                one(&mut a, &block);
                other(&mut b, &block);
                assert_eq!(a, b);
            };
            check(absorb::<24>, portable::absorb::<24>);
            check(absorb::<12>, portable::absorb::<12>);
        }
    }
}
