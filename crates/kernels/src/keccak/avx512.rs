//! Eight sponges side by side with AVX-512. The state takes 25 of the 32 registers, and any function of three words is
//! one instruction.

use super::RATE;
use super::lanes::States;
use super::round::{constants, round};
use core::arch::x86_64::*;

pub(super) const LANES: usize = 8;

/// Absorbs the first `blocks` blocks of each input into its state.
#[target_feature(enable = "avx512f")]
pub(super) fn absorb<const ROUNDS: usize>(states: &mut States<LANES>, data: &[&[u8]; LANES], blocks: usize) {
    let data = data.map(|d| &d.as_chunks::<RATE>().0[..blocks]);
    for i in 0..blocks {
        // SAFETY: each input was cut to `blocks` blocks.
        let block = data.map(|d| unsafe { d.get_unchecked(i) });
        fetch_ahead(&block);
        absorb_block::<ROUNDS>(states, &block);
    }
}

/// The distance to the data that lanes take next, if each lane now hashes a slice of 4 KiB.
const NEXT: usize = LANES * 4096;

/// Prefetches into the second-level cache what these lanes will most likely take next: while they compute, memory is
/// idle. A wrong guess costs nothing.
#[inline]
fn fetch_ahead(block: &[&[u8; RATE]; LANES]) {
    for lane in block {
        // The last bytes of a block mostly share a cache line with the first ones of the next.
        for at in [0, 64] {
            let line = lane.as_ptr().wrapping_add(NEXT + at);
            // SAFETY: this is a hint. It reads nothing and cannot fail, whatever the address.
            unsafe { _mm_prefetch::<_MM_HINT_T1>(line.cast()) };
        }
    }
}

/// A separate function, so that between blocks the state is in aligned memory. If it were inlined, the compiler would
/// keep part of the state on the stack, which is not aligned. Where that crosses a page, hashing is a quarter slower.
#[inline(never)]
#[target_feature(enable = "avx512f")]
fn absorb_block<const ROUNDS: usize>(states: &mut States<LANES>, block: &[&[u8; RATE]; LANES]) {
    let mut a = [_mm512_setzero_si512(); 25];
    for (a, row) in a.iter_mut().zip(&states.0) {
        // SAFETY: the row has the 64 bytes that are read.
        *a = unsafe { _mm512_load_si512(row.as_ptr().cast()) };
    }
    // A few words at a time: loading all of them would need the state's registers.
    add_words::<0>(&mut a, block);
    add_words::<4>(&mut a, block);
    add_words::<8>(&mut a, block);
    add_words::<12>(&mut a, block);
    // The last word, loaded together with the three before it.
    a[16] = add(a[16], words::<13>(block)[3]);
    // Two rounds in each iteration: with one, more registers would be moved at its end.
    const { assert!(ROUNDS.is_multiple_of(2)) };
    for [even, odd] in const { constants::<ROUNDS>() }.as_chunks::<2>().0 {
        round!(a, *even);
        round!(a, *odd);
    }
    for (a, row) in a.iter().zip(&mut states.0) {
        // SAFETY: the row has the 64 bytes that are written.
        unsafe { _mm512_store_si512(row.as_mut_ptr().cast(), *a) };
    }
}

/// Adds words `FROM` … `FROM` + 3 of all blocks to the state.
#[inline]
#[target_feature(enable = "avx512f")]
fn add_words<const FROM: usize>(a: &mut [__m512i; 25], block: &[&[u8; RATE]; LANES]) {
    for (a, word) in a[FROM..].iter_mut().zip(words::<FROM>(block)) {
        *a = add(*a, word);
    }
}

/// Words `FROM` … `FROM` + 3 of all blocks, one word in each register.
#[inline]
#[target_feature(enable = "avx512f")]
fn words<const FROM: usize>(block: &[&[u8; RATE]; LANES]) -> [__m512i; 4] {
    let half = |i: usize| {
        let words: &[u8; 32] = block[i][8 * FROM..].first_chunk().unwrap();
        // SAFETY: the array has the 32 bytes that are read.
        unsafe { _mm256_loadu_si256(words.as_ptr().cast()) }
    };
    // Half of the transposition is done by loading. No step of the rest needs an index in a register.
    let pair = |i: usize| _mm512_inserti64x4::<1>(_mm512_castsi256_si512(half(i)), half(i + 2));
    let [p, q, r, s] = [pair(0), pair(1), pair(4), pair(5)];
    let (pq, rs) = (_mm512_unpacklo_epi64(p, q), _mm512_unpacklo_epi64(r, s));
    let (w0, w2) = (_mm512_shuffle_i64x2::<0x88>(pq, rs), _mm512_shuffle_i64x2::<0xdd>(pq, rs));
    let (pq, rs) = (_mm512_unpackhi_epi64(p, q), _mm512_unpackhi_epi64(r, s));
    let (w1, w3) = (_mm512_shuffle_i64x2::<0x88>(pq, rs), _mm512_shuffle_i64x2::<0xdd>(pq, rs));
    [w0, w1, w2, w3]
}

#[inline]
#[target_feature(enable = "avx512f")]
fn add(a: __m512i, b: __m512i) -> __m512i {
    _mm512_xor_si512(a, b)
}

#[inline]
#[target_feature(enable = "avx512f")]
fn add3(a: __m512i, b: __m512i, c: __m512i) -> __m512i {
    _mm512_ternarylogic_epi64::<0x96>(a, b, c)
}

#[inline]
#[target_feature(enable = "avx512f")]
fn parity(a: __m512i, b: __m512i, c: __m512i, d: __m512i, e: __m512i) -> __m512i {
    add3(add3(a, b, c), d, e)
}

/// One sum for the five lanes. Each lane could take both terms in one instruction, but on Zen 4 an instruction that
/// waits for three registers counts as two.
#[inline]
#[target_feature(enable = "avx512f")]
fn effect(left: __m512i, right: __m512i) -> __m512i {
    add(left, _mm512_rol_epi64::<1>(right))
}

#[inline]
#[target_feature(enable = "avx512f")]
fn rho<const R: i32, const S: i32>(a: __m512i, effect: __m512i) -> __m512i {
    let a = add(a, effect);
    if R == 0 { a } else { _mm512_rol_epi64::<R>(a) }
}

#[inline]
#[target_feature(enable = "avx512f")]
fn chi(a: __m512i, b: __m512i, c: __m512i) -> __m512i {
    _mm512_ternarylogic_epi64::<0xd2>(a, b, c)
}

#[inline]
#[target_feature(enable = "avx512f")]
fn iota(a: __m512i, constant: u64) -> __m512i {
    add(a, _mm512_set1_epi64(constant.cast_signed()))
}
