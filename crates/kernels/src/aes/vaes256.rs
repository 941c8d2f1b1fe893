//! AES-CTR and AES-ECB with VAES on 256-bit registers: two blocks in each, for machines with VAES but without AVX-512.

use super::{BLOCK, Key, reread};
use core::arch::x86_64::*;

/// The bytes of one register.
const WIDTH: usize = 32;

/// Registers in flight. The others of AVX2's sixteen hold the counter, its constants and one round key.
const FLIGHT: usize = 8;

/// XORs the keystream into `data`. The low half of the counter must not wrap before the last block.
#[target_feature(enable = "avx2,vaes")]
pub(super) fn ctr_xor(key: &Key, counter: u128, data: &mut [u8]) {
    match key.rounds {
        10 => rounds::<10>(key, counter, data),
        12 => rounds::<12>(key, counter, data),
        _ => rounds::<14>(key, counter, data),
    }
}

#[target_feature(enable = "avx2,vaes")]
fn rounds<const ROUNDS: usize>(key: &Key, counter: u128, data: &mut [u8]) {
    let first = _mm256_broadcastsi128_si256(load_block(&counter.to_le_bytes()));
    let counters = _mm256_add_epi64(first, _mm256_set_epi64x(0, 1, 0, 0));
    let mut stream = Stream::<ROUNDS> { key, counters };
    let (registers, tail) = data.as_chunks_mut::<WIDTH>();
    let (batches, registers) = registers.as_chunks_mut::<FLIGHT>();
    for batch in batches {
        stream.xor(batch);
    }
    let (batches, registers) = registers.as_chunks_mut::<{ FLIGHT / 2 }>();
    for batch in batches {
        stream.xor(batch);
    }
    for batch in registers.as_chunks_mut::<1>().0 {
        stream.xor(batch);
    }
    if !tail.is_empty() {
        let mut padded = [[0; WIDTH]];
        padded[0][..tail.len()].copy_from_slice(tail);
        stream.xor(&mut padded);
        tail.copy_from_slice(&padded[0][..tail.len()]);
    }
}

struct Stream<'a, const ROUNDS: usize> {
    key: &'a Key,
    /// The counters of the next two blocks, little-endian for the additions.
    counters: __m256i,
}

impl<const ROUNDS: usize> Stream<'_, ROUNDS> {
    #[inline]
    #[target_feature(enable = "avx2,vaes")]
    fn xor<const N: usize>(&mut self, data: &mut [[u8; WIDTH]; N]) {
        // Reverses the bytes of each block.
        let big_endian =
            _mm256_broadcastsi128_si256(_mm_set_epi8(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15));
        let two = _mm256_set_epi64x(0, 2, 0, 2);
        let key = _mm256_broadcastsi128_si256(round_key(self.key, 0));
        let mut blocks = [_mm256_setzero_si256(); N];
        for block in &mut blocks {
            *block = _mm256_xor_si256(_mm256_shuffle_epi8(self.counters, big_endian), key);
            self.counters = _mm256_add_epi64(self.counters, two);
        }
        inner_rounds!(ROUNDS, round => {
            let key = _mm256_broadcastsi128_si256(round_key(self.key, round));
            for block in &mut blocks {
                *block = _mm256_aesenc_epi128(*block, key);
                if N > 1 {
                    *block = in_order(*block);
                }
            }
        });
        let key = _mm256_broadcastsi128_si256(round_key(self.key, ROUNDS));
        for (data, block) in data.iter_mut().zip(blocks) {
            let at = data.as_mut_ptr().cast();
            // SAFETY: the array has the 32 bytes that are read and written.
            unsafe {
                // AddRoundKey is the last step, so the data are XORed into its key.
                let last = _mm256_xor_si256(key, _mm256_loadu_si256(at));
                _mm256_storeu_si256(at, _mm256_aesenclast_epi128(block, last));
            }
        }
    }
}

/// ECB over whole blocks. `key` is the schedule of the direction.
#[cfg(feature = "papers")]
#[target_feature(enable = "avx2,vaes")]
pub(super) fn ecb<const DECRYPT: bool>(key: &Key, data: &mut [[u8; BLOCK]]) {
    match key.rounds {
        10 => ecb_rounds::<10, DECRYPT>(key, data),
        12 => ecb_rounds::<12, DECRYPT>(key, data),
        _ => ecb_rounds::<14, DECRYPT>(key, data),
    }
}

#[cfg(feature = "papers")]
#[target_feature(enable = "avx2,vaes")]
fn ecb_rounds<const ROUNDS: usize, const DECRYPT: bool>(key: &Key, data: &mut [[u8; BLOCK]]) {
    let (registers, tail) = data.as_flattened_mut().as_chunks_mut::<WIDTH>();
    let (batches, registers) = registers.as_chunks_mut::<FLIGHT>();
    for batch in batches {
        ecb_batch::<ROUNDS, DECRYPT, _>(key, batch);
    }
    let (batches, registers) = registers.as_chunks_mut::<{ FLIGHT / 2 }>();
    for batch in batches {
        ecb_batch::<ROUNDS, DECRYPT, _>(key, batch);
    }
    for batch in registers.as_chunks_mut::<1>().0 {
        ecb_batch::<ROUNDS, DECRYPT, _>(key, batch);
    }
    if !tail.is_empty() {
        let mut padded = [[0; WIDTH]];
        padded[0][..tail.len()].copy_from_slice(tail);
        ecb_batch::<ROUNDS, DECRYPT, _>(key, &mut padded);
        tail.copy_from_slice(&padded[0][..tail.len()]);
    }
}

#[cfg(feature = "papers")]
#[inline]
#[target_feature(enable = "avx2,vaes")]
fn ecb_batch<const ROUNDS: usize, const DECRYPT: bool, const N: usize>(key: &Key, data: &mut [[u8; WIDTH]; N]) {
    let first = _mm256_broadcastsi128_si256(round_key(key, 0));
    let mut blocks = [_mm256_setzero_si256(); N];
    for (block, data) in blocks.iter_mut().zip(data.iter()) {
        // SAFETY: the array has the 32 bytes that are read.
        *block = _mm256_xor_si256(first, unsafe { _mm256_loadu_si256(data.as_ptr().cast()) });
    }
    inner_rounds!(ROUNDS, round => {
        let key = _mm256_broadcastsi128_si256(round_key(key, round));
        for block in &mut blocks {
            *block = if DECRYPT { _mm256_aesdec_epi128(*block, key) } else { _mm256_aesenc_epi128(*block, key) };
            if N > 1 {
                *block = in_order(*block);
            }
        }
    });
    let last = _mm256_broadcastsi128_si256(round_key(key, ROUNDS));
    for (data, block) in data.iter_mut().zip(blocks) {
        let block = if DECRYPT { _mm256_aesdeclast_epi128(block, last) } else { _mm256_aesenclast_epi128(block, last) };
        // SAFETY: the array has the 32 bytes that are written.
        unsafe { _mm256_storeu_si256(data.as_mut_ptr().cast(), block) };
    }
}

#[inline]
#[target_feature(enable = "avx2,vaes")]
fn load_block(block: &[u8; BLOCK]) -> __m128i {
    // SAFETY: the array has the 16 bytes that are read.
    unsafe { _mm_loadu_si128(block.as_ptr().cast()) }
}

#[inline]
#[target_feature(enable = "avx2,vaes")]
fn round_key(key: &Key, round: usize) -> __m128i {
    load_block(&reread(key).round_keys[round])
}

/// Returns its argument, and makes the compiler keep the order of the calls. Otherwise it would put all rounds of one
/// register one after another, and the processor would have to look far ahead for the next register.
#[inline]
#[target_feature(enable = "avx2,vaes")]
fn in_order(mut blocks: __m256i) -> __m256i {
    // SAFETY: this is a comment and no instruction.
    unsafe { core::arch::asm!("/* {0} */", inout(ymm_reg) blocks, options(nomem, nostack, preserves_flags)) };
    blocks
}
