//! Two sponges side by side with the SHA-3 instructions of ARMv8.2, which are made for this round.

use super::RATE;
use super::lanes::States;
use super::round::{constants, round};
use core::arch::aarch64::*;

pub(super) const LANES: usize = 2;

/// Absorbs the first `blocks` blocks of each input into its state.
#[target_feature(enable = "neon,sha3")]
pub(super) fn absorb<const ROUNDS: usize>(states: &mut States<LANES>, data: &[&[u8]; LANES], blocks: usize) {
    let data = data.map(|d| &d.as_chunks::<RATE>().0[..blocks]);
    let mut a = [vdupq_n_u64(0); 25];
    for (register, row) in a.iter_mut().zip(&states.0) {
        // SAFETY: the row has the 16 bytes that are read.
        *register = unsafe { vld1q_u64(row.as_ptr()) };
    }
    for (first, second) in data[0].iter().zip(data[1]) {
        let (first, second) = (first.as_chunks::<16>(), second.as_chunks::<16>());
        for (i, (first, second)) in first.0.iter().zip(second.0).enumerate() {
            let (first, second) = (load(first), load(second));
            a[2 * i] = veorq_u64(a[2 * i], vtrn1q_u64(first, second));
            a[2 * i + 1] = veorq_u64(a[2 * i + 1], vtrn2q_u64(first, second));
        }
        let word = |bytes: &[u8]| vcreate_u64(u64::from_le_bytes(bytes.try_into().unwrap()));
        a[16] = veorq_u64(a[16], vcombine_u64(word(first.1), word(second.1)));
        for constant in const { constants::<ROUNDS>() } {
            round!(a, *constant);
        }
    }
    for (register, row) in a.iter().zip(&mut states.0) {
        // SAFETY: the row has the 16 bytes that are written.
        unsafe { vst1q_u64(row.as_mut_ptr(), *register) };
    }
}

/// Two words of one input, little-endian on every machine.
#[inline]
#[target_feature(enable = "neon,sha3")]
fn load(words: &[u8; 16]) -> uint64x2_t {
    // SAFETY: the array has the 16 bytes that are read.
    vreinterpretq_u64_u8(unsafe { vld1q_u8(words.as_ptr()) })
}

#[inline]
#[target_feature(enable = "neon,sha3")]
fn parity(a: uint64x2_t, b: uint64x2_t, c: uint64x2_t, d: uint64x2_t, e: uint64x2_t) -> uint64x2_t {
    veor3q_u64(veor3q_u64(a, b, c), d, e)
}

#[inline]
#[target_feature(enable = "neon,sha3")]
fn effect(left: uint64x2_t, right: uint64x2_t) -> uint64x2_t {
    vrax1q_u64(left, right)
}

/// The instruction XORs first, and then rotates to the right.
#[inline]
#[target_feature(enable = "neon,sha3")]
fn rho<const R: i32, const S: i32>(a: uint64x2_t, effect: uint64x2_t) -> uint64x2_t {
    vxarq_u64::<S>(a, effect)
}

#[inline]
#[target_feature(enable = "neon,sha3")]
fn chi(a: uint64x2_t, b: uint64x2_t, c: uint64x2_t) -> uint64x2_t {
    vbcaxq_u64(a, c, b)
}

#[inline]
#[target_feature(enable = "neon,sha3")]
fn iota(a: uint64x2_t, constant: u64) -> uint64x2_t {
    veorq_u64(a, vdupq_n_u64(constant))
}
