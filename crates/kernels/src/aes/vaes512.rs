//! AES-CTR and AES-ECB with VAES on 512-bit registers: four blocks in each, and the whole key schedule in registers,
//! too.

use super::{BLOCK, Key};
use core::arch::x86_64::*;

/// The bytes of one register.
const WIDTH: usize = 64;

/// Registers in flight: enough to hide the latency of a round on machines that start two such rounds in each cycle.
const FLIGHT: usize = 8;

/// How far ahead the data are fetched, in bytes.
const AHEAD: usize = 4096;

/// XORs the keystream into `data`. The low half of the counter must not wrap before the last block.
#[target_feature(enable = "avx512f,avx512bw,vaes")]
pub(super) fn ctr_xor(key: &Key, counter: u128, data: &mut [u8]) {
    match key.rounds {
        10 => rounds::<10>(key, counter, data),
        12 => rounds::<12>(key, counter, data),
        _ => rounds::<14>(key, counter, data),
    }
}

#[target_feature(enable = "avx512f,avx512bw,vaes")]
fn rounds<const ROUNDS: usize>(key: &Key, counter: u128, data: &mut [u8]) {
    let mut stream = Stream::<ROUNDS>::new(key, counter);
    let (registers, tail) = data.as_chunks_mut::<WIDTH>();
    let (batches, registers) = registers.as_chunks_mut::<FLIGHT>();
    for batch in batches {
        fetch_ahead(batch);
        stream.xor(batch);
    }
    // The rest depends only on the counter, so the processor overlaps it by itself.
    let (batches, registers) = registers.as_chunks_mut::<{ FLIGHT / 2 }>();
    for batch in batches {
        stream.xor(batch);
    }
    for batch in registers.as_chunks_mut::<1>().0 {
        stream.xor(batch);
    }
    if !tail.is_empty() {
        stream.xor_tail(tail);
    }
}

/// Prefetches the data [`AHEAD`] bytes after these. The processor's own prefetching ends with each page and comes too
/// late for this cipher.
#[inline]
fn fetch_ahead<const N: usize>(batch: &[[u8; WIDTH]; N]) {
    for line in batch {
        // SAFETY: this is a hint. It reads nothing and cannot fail, whatever the address.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(line.as_ptr().wrapping_add(AHEAD).cast()) };
    }
}

struct Stream<const ROUNDS: usize> {
    /// Each round key, four times in its register. Entries after `ROUNDS` are never read.
    keys: [__m512i; 15],
    /// The counters of the next four blocks, little-endian for the additions.
    counters: __m512i,
}

impl<const ROUNDS: usize> Stream<ROUNDS> {
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,vaes")]
    fn new(key: &Key, counter: u128) -> Self {
        let first = _mm512_broadcast_i32x4(load_block(&counter.to_le_bytes()));
        let counters = _mm512_add_epi64(first, _mm512_set_epi64(0, 3, 0, 2, 0, 1, 0, 0));
        Self { keys: wide_keys::<ROUNDS>(key), counters }
    }

    /// Encrypts the next 4 × N counter blocks, all at once. `last` are the keys of the last round. The data may be
    /// XORed into them already, because AddRoundKey is the last step.
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,vaes")]
    fn encrypt<const N: usize>(&mut self, last: [__m512i; N]) -> [__m512i; N] {
        // Reverses the bytes of each block.
        let big_endian = _mm512_broadcast_i32x4(_mm_set_epi8(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15));
        let four = _mm512_set_epi64(0, 4, 0, 4, 0, 4, 0, 4);
        let mut blocks = [_mm512_setzero_si512(); N];
        for block in &mut blocks {
            *block = _mm512_xor_si512(_mm512_shuffle_epi8(self.counters, big_endian), self.keys[0]);
            self.counters = _mm512_add_epi64(self.counters, four);
        }
        inner_rounds!(ROUNDS, round => for block in &mut blocks {
            *block = _mm512_aesenc_epi128(*block, self.keys[round]);
            if N > 1 {
                *block = in_order(*block);
            }
        });
        for (block, last) in blocks.iter_mut().zip(last) {
            *block = _mm512_aesenclast_epi128(*block, last);
        }
        blocks
    }

    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,vaes")]
    fn xor<const N: usize>(&mut self, data: &mut [[u8; WIDTH]; N]) {
        let mut last = [self.keys[ROUNDS]; N];
        for (last, data) in last.iter_mut().zip(data.iter()) {
            // SAFETY: the array has the 64 bytes that are read.
            *last = _mm512_xor_si512(*last, unsafe { _mm512_loadu_si512(data.as_ptr().cast()) });
        }
        for (data, block) in data.iter_mut().zip(self.encrypt(last)) {
            // SAFETY: the array has the 64 bytes that are written.
            unsafe { _mm512_storeu_si512(data.as_mut_ptr().cast(), block) };
        }
    }

    /// Encrypts or decrypts fewer bytes than a register has.
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,vaes")]
    fn xor_tail(&mut self, data: &mut [u8]) {
        assert!(data.len() < WIDTH);
        let mask = (1u64 << data.len()) - 1;
        // SAFETY: the mask selects the bytes of `data` and no others.
        let bytes = unsafe { _mm512_maskz_loadu_epi8(mask, data.as_ptr().cast()) };
        let [block] = self.encrypt([_mm512_xor_si512(self.keys[ROUNDS], bytes)]);
        // SAFETY: the mask selects the bytes of `data` and no others.
        unsafe { _mm512_mask_storeu_epi8(data.as_mut_ptr().cast(), mask, block) };
    }
}

/// ECB over whole blocks. `key` is the schedule of the direction.
#[cfg(feature = "papers")]
#[target_feature(enable = "avx512f,avx512bw,vaes")]
pub(super) fn ecb<const DECRYPT: bool>(key: &Key, data: &mut [[u8; BLOCK]]) {
    match key.rounds {
        10 => ecb_rounds::<10, DECRYPT>(key, data),
        12 => ecb_rounds::<12, DECRYPT>(key, data),
        _ => ecb_rounds::<14, DECRYPT>(key, data),
    }
}

#[cfg(feature = "papers")]
#[target_feature(enable = "avx512f,avx512bw,vaes")]
fn ecb_rounds<const ROUNDS: usize, const DECRYPT: bool>(key: &Key, data: &mut [[u8; BLOCK]]) {
    let keys = wide_keys::<ROUNDS>(key);
    let (registers, tail) = data.as_flattened_mut().as_chunks_mut::<WIDTH>();
    let (batches, registers) = registers.as_chunks_mut::<FLIGHT>();
    for batch in batches {
        ecb_batch::<ROUNDS, DECRYPT, _>(&keys, batch);
    }
    let (batches, registers) = registers.as_chunks_mut::<{ FLIGHT / 2 }>();
    for batch in batches {
        ecb_batch::<ROUNDS, DECRYPT, _>(&keys, batch);
    }
    for batch in registers.as_chunks_mut::<1>().0 {
        ecb_batch::<ROUNDS, DECRYPT, _>(&keys, batch);
    }
    if !tail.is_empty() {
        let mask = (1u64 << tail.len()) - 1;
        // SAFETY: the mask selects the bytes of `tail` and no others.
        let bytes = unsafe { _mm512_maskz_loadu_epi8(mask, tail.as_ptr().cast()) };
        let [block] = ecb_crypt::<ROUNDS, DECRYPT, _>(&keys, [bytes]);
        // SAFETY: the mask selects the bytes of `tail` and no others.
        unsafe { _mm512_mask_storeu_epi8(tail.as_mut_ptr().cast(), mask, block) };
    }
}

#[cfg(feature = "papers")]
#[inline]
#[target_feature(enable = "avx512f,avx512bw,vaes")]
fn ecb_batch<const ROUNDS: usize, const DECRYPT: bool, const N: usize>(
    keys: &[__m512i; 15],
    data: &mut [[u8; WIDTH]; N],
) {
    let mut blocks = [_mm512_setzero_si512(); N];
    for (block, data) in blocks.iter_mut().zip(data.iter()) {
        // SAFETY: the array has the 64 bytes that are read.
        *block = unsafe { _mm512_loadu_si512(data.as_ptr().cast()) };
    }
    for (data, block) in data.iter_mut().zip(ecb_crypt::<ROUNDS, DECRYPT, N>(keys, blocks)) {
        // SAFETY: the array has the 64 bytes that are written.
        unsafe { _mm512_storeu_si512(data.as_mut_ptr().cast(), block) };
    }
}

/// Encrypts or decrypts 4 × N blocks, all at once.
#[cfg(feature = "papers")]
#[inline]
#[target_feature(enable = "avx512f,avx512bw,vaes")]
fn ecb_crypt<const ROUNDS: usize, const DECRYPT: bool, const N: usize>(
    keys: &[__m512i; 15],
    mut blocks: [__m512i; N],
) -> [__m512i; N] {
    for block in &mut blocks {
        *block = _mm512_xor_si512(*block, keys[0]);
    }
    inner_rounds!(ROUNDS, round => for block in &mut blocks {
        let key = keys[round];
        *block = if DECRYPT { _mm512_aesdec_epi128(*block, key) } else { _mm512_aesenc_epi128(*block, key) };
        if N > 1 {
            *block = in_order(*block);
        }
    });
    let last = keys[ROUNDS];
    for block in &mut blocks {
        *block = if DECRYPT { _mm512_aesdeclast_epi128(*block, last) } else { _mm512_aesenclast_epi128(*block, last) };
    }
    blocks
}

/// Each round key, four times in its register. Entries after `ROUNDS` are zero.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,vaes")]
fn wide_keys<const ROUNDS: usize>(key: &Key) -> [__m512i; 15] {
    let mut keys = [_mm512_setzero_si512(); 15];
    for (wide, key) in keys.iter_mut().zip(&key.round_keys[..=ROUNDS]) {
        *wide = _mm512_broadcast_i32x4(load_block(key));
    }
    keys
}

#[inline]
#[target_feature(enable = "avx512f,avx512bw,vaes")]
fn load_block(block: &[u8; BLOCK]) -> __m128i {
    // SAFETY: the array has the 16 bytes that are read.
    unsafe { _mm_loadu_si128(block.as_ptr().cast()) }
}

/// Returns its argument, and makes the compiler keep the order of the calls. Otherwise it would put all rounds of one
/// register one after another, and the processor would have to look far ahead for the next register.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,vaes")]
fn in_order(mut blocks: __m512i) -> __m512i {
    // SAFETY: this is a comment and no instruction.
    unsafe { core::arch::asm!("/* {0} */", inout(zmm_reg) blocks, options(nomem, nostack, preserves_flags)) };
    blocks
}
