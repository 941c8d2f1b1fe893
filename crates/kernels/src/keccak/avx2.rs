//! Four sponges side by side with AVX2.

use super::RATE;
use super::lanes::States;
use super::round::{constants, round};
use core::arch::x86_64::*;

pub(super) const LANES: usize = 4;

/// Absorbs the first `blocks` blocks of each input into its state.
#[target_feature(enable = "avx2")]
pub(super) fn absorb<const ROUNDS: usize>(states: &mut States<LANES>, data: &[&[u8]; LANES], blocks: usize) {
    let data = data.map(|d| &d.as_chunks::<RATE>().0[..blocks]);
    for i in 0..blocks {
        absorb_block::<ROUNDS>(states, &data.map(|d| &d[i]));
    }
}

/// A separate function, so that the state is in memory while data are loaded: loading needs the registers too.
#[inline(never)]
#[target_feature(enable = "avx2")]
fn absorb_block<const ROUNDS: usize>(states: &mut States<LANES>, block: &[&[u8; RATE]; LANES]) {
    let mut a = [_mm256_setzero_si256(); 25];
    for (a, row) in a.iter_mut().zip(&states.0) {
        // SAFETY: the row has the 32 bytes that are read.
        *a = unsafe { _mm256_load_si256(row.as_ptr().cast()) };
    }
    for i in 0..8 {
        let [even, odd] = words(block, 2 * i);
        a[2 * i] = add(a[2 * i], even);
        a[2 * i + 1] = add(a[2 * i + 1], odd);
    }
    // The last word, loaded together with the one before it.
    a[16] = add(a[16], words(block, 15)[1]);
    // Two rounds in each iteration: with one, more registers would be moved at its end.
    const { assert!(ROUNDS.is_multiple_of(2)) };
    for [even, odd] in const { constants::<ROUNDS>() }.as_chunks::<2>().0 {
        round!(a, *even);
        round!(a, *odd);
    }
    for (a, row) in a.iter().zip(&mut states.0) {
        // SAFETY: the row has the 32 bytes that are written.
        unsafe { _mm256_store_si256(row.as_mut_ptr().cast(), *a) };
    }
}

/// Words `from` and `from` + 1 of all blocks, one word in each register.
#[inline]
#[target_feature(enable = "avx2")]
fn words(block: &[&[u8; RATE]; LANES], from: usize) -> [__m256i; 2] {
    let half = |i: usize| {
        let words: &[u8; 16] = block[i][8 * from..].first_chunk().unwrap();
        // SAFETY: the array has the 16 bytes that are read.
        unsafe { _mm_loadu_si128(words.as_ptr().cast()) }
    };
    // Half of the transposition is done by loading.
    let pair = |i: usize| _mm256_inserti128_si256::<1>(_mm256_castsi128_si256(half(i)), half(i + 2));
    let (p, q) = (pair(0), pair(1));
    [_mm256_unpacklo_epi64(p, q), _mm256_unpackhi_epi64(p, q)]
}

#[inline]
#[target_feature(enable = "avx2")]
fn add(a: __m256i, b: __m256i) -> __m256i {
    _mm256_xor_si256(a, b)
}

#[inline]
#[target_feature(enable = "avx2")]
fn parity(a: __m256i, b: __m256i, c: __m256i, d: __m256i, e: __m256i) -> __m256i {
    add(add(add(a, b), add(c, d)), e)
}

#[inline]
#[target_feature(enable = "avx2")]
fn effect(left: __m256i, right: __m256i) -> __m256i {
    // Doubled by an addition, which more execution units can do than a shift.
    add(left, _mm256_or_si256(_mm256_add_epi64(right, right), _mm256_srli_epi64::<63>(right)))
}

/// AVX2 has no rotation, but rotates by whole bytes with one shuffle.
#[inline]
#[target_feature(enable = "avx2")]
fn rho<const R: i32, const S: i32>(a: __m256i, effect: __m256i) -> __m256i {
    let a = add(a, effect);
    let bytes = |first, second| _mm256_shuffle_epi8(a, _mm256_set_epi64x(second, first, second, first));
    match R {
        0 => a,
        8 => bytes(0x0605_0403_0201_0007, 0x0e0d_0c0b_0a09_080f),
        56 => bytes(0x0007_0605_0403_0201, 0x080f_0e0d_0c0b_0a09),
        _ => _mm256_or_si256(_mm256_slli_epi64::<R>(a), _mm256_srli_epi64::<S>(a)),
    }
}

#[inline]
#[target_feature(enable = "avx2")]
fn chi(a: __m256i, b: __m256i, c: __m256i) -> __m256i {
    add(a, _mm256_andnot_si256(b, c))
}

#[inline]
#[target_feature(enable = "avx2")]
fn iota(a: __m256i, constant: u64) -> __m256i {
    add(a, _mm256_set1_epi64x(constant.cast_signed()))
}
