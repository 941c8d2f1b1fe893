//! One sponge with AVX-512VL: each lane has its own register, and rotations and functions of three words take one
//! instruction each. `docs/performance.md` has the times.

use super::round::{constants, round};
use super::{RATE, State};
use core::arch::x86_64::*;

/// XORs one block into the state and permutes it.
#[target_feature(enable = "avx512f,avx512vl")]
pub(super) fn absorb<const ROUNDS: usize>(state: &mut State, block: &[u8; RATE]) {
    let mut a = [_mm_setzero_si128(); 25];
    for (a, lane) in a.iter_mut().zip(state.iter()) {
        *a = one(*lane);
    }
    for (a, bytes) in a.iter_mut().zip(block.as_chunks::<8>().0) {
        *a = add(*a, one(u64::from_le_bytes(*bytes)));
    }
    const { assert!(ROUNDS.is_multiple_of(2)) };
    for [even, odd] in const { constants::<ROUNDS>() }.as_chunks::<2>().0 {
        round!(a, *even);
        round!(a, *odd);
    }
    for (a, lane) in a.iter().zip(state) {
        *lane = _mm_cvtsi128_si64(*a).cast_unsigned();
    }
}

#[inline]
#[target_feature(enable = "avx512f,avx512vl")]
fn one(lane: u64) -> __m128i {
    _mm_cvtsi64_si128(lane.cast_signed())
}

#[inline]
#[target_feature(enable = "avx512f,avx512vl")]
fn add(a: __m128i, b: __m128i) -> __m128i {
    _mm_xor_si128(a, b)
}

#[inline]
#[target_feature(enable = "avx512f,avx512vl")]
fn parity(a: __m128i, b: __m128i, c: __m128i, d: __m128i, e: __m128i) -> __m128i {
    let add3 = |a, b, c| _mm_ternarylogic_epi64::<0x96>(a, b, c);
    add3(add3(a, b, c), d, e)
}

#[inline]
#[target_feature(enable = "avx512f,avx512vl")]
fn effect(left: __m128i, right: __m128i) -> __m128i {
    add(left, _mm_rol_epi64::<1>(right))
}

#[inline]
#[target_feature(enable = "avx512f,avx512vl")]
fn rho<const R: i32, const S: i32>(a: __m128i, effect: __m128i) -> __m128i {
    let a = add(a, effect);
    if R == 0 { a } else { _mm_rol_epi64::<R>(a) }
}

#[inline]
#[target_feature(enable = "avx512f,avx512vl")]
fn chi(a: __m128i, b: __m128i, c: __m128i) -> __m128i {
    _mm_ternarylogic_epi64::<0xd2>(a, b, c)
}

#[inline]
#[target_feature(enable = "avx512f,avx512vl")]
fn iota(a: __m128i, constant: u64) -> __m128i {
    add(a, one(constant))
}
