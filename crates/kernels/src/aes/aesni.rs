//! AES-CTR and AES-ECB with AES-NI: one block in each register, eight at once.

use super::{BLOCK, Key, portable, reread};
use core::arch::x86_64::*;

/// Blocks in flight: enough to hide the latency of a round on machines that start two rounds in each cycle.
const FLIGHT: usize = 8;

/// The key schedule (FIPS 197, section 5.2), with one round key in each register if the key is whole registers.
#[target_feature(enable = "aes,ssse3")]
pub(super) fn expand(key: &[u8], rounds: usize) -> [[u8; BLOCK]; 15] {
    let (blocks, rest) = key.as_chunks::<BLOCK>();
    if !rest.is_empty() {
        return portable::expand(key, rounds, |word| {
            let words = _mm_set1_epi32(i32::from_ne_bytes(word));
            _mm_cvtsi128_si32(_mm_aeskeygenassist_si128::<0>(words)).to_ne_bytes()
        });
    }
    let mut round_keys = [[0; BLOCK]; 15];
    let mut keys = [load_block(&blocks[0]), load_block(&blocks[blocks.len() - 1])];
    round_keys[..blocks.len()].copy_from_slice(blocks);
    let mut rcon = 1u8;
    for (i, round_key) in round_keys[..=rounds].iter_mut().enumerate().skip(blocks.len()) {
        // Every second round key of AES-256 has no RotWord and no Rcon.
        let sum = if blocks.len() == 1 || i % 2 == 0 {
            let sum = sub_word(keys[1], 0x0c0f_0e0d, rcon);
            rcon = (rcon << 1) ^ ((rcon >> 7) * 0x1b);
            sum
        } else {
            sub_word(keys[1], 0x0f0e_0d0c, 0)
        };
        let next = _mm_xor_si128(running_sums(keys[0]), sum);
        keys = if blocks.len() == 1 { [next; 2] } else { [keys[1], next] };
        // SAFETY: the array has the 16 bytes that are written.
        unsafe { _mm_storeu_si128(round_key.as_mut_ptr().cast(), next) };
    }
    round_keys
}

/// SubWord of the last word, with its bytes in the order `order`, plus Rcon, in all four words. ShiftRows does not
/// change a block of equal columns, so the last round of AES is SubBytes and an addition.
#[inline]
#[target_feature(enable = "aes,ssse3")]
fn sub_word(key: __m128i, order: i32, rcon: u8) -> __m128i {
    _mm_aesenclast_si128(_mm_shuffle_epi8(key, _mm_set1_epi32(order)), _mm_set1_epi32(i32::from(rcon)))
}

/// Each word plus all words before it.
#[inline]
#[target_feature(enable = "aes,ssse3")]
fn running_sums(key: __m128i) -> __m128i {
    let pairs = _mm_xor_si128(key, _mm_slli_si128::<4>(key));
    _mm_xor_si128(pairs, _mm_slli_si128::<8>(pairs))
}

/// XORs the keystream into `data`. The low half of the counter must not wrap before the last block.
#[target_feature(enable = "aes,ssse3")]
pub(super) fn ctr_xor(key: &Key, counter: u128, data: &mut [u8]) {
    match key.rounds {
        10 => rounds::<10>(key, counter, data),
        12 => rounds::<12>(key, counter, data),
        _ => rounds::<14>(key, counter, data),
    }
}

#[target_feature(enable = "aes,ssse3")]
fn rounds<const ROUNDS: usize>(key: &Key, counter: u128, data: &mut [u8]) {
    let mut stream = Stream::<ROUNDS> { key, counter: load_block(&counter.to_le_bytes()) };
    let (blocks, tail) = data.as_chunks_mut::<BLOCK>();
    let (batches, blocks) = blocks.as_chunks_mut::<FLIGHT>();
    for batch in batches {
        stream.xor(batch);
    }
    let (batches, blocks) = blocks.as_chunks_mut::<{ FLIGHT / 2 }>();
    for batch in batches {
        stream.xor(batch);
    }
    for batch in blocks.as_chunks_mut::<1>().0 {
        stream.xor(batch);
    }
    if !tail.is_empty() {
        let mut padded = [[0; BLOCK]];
        padded[0][..tail.len()].copy_from_slice(tail);
        stream.xor(&mut padded);
        tail.copy_from_slice(&padded[0][..tail.len()]);
    }
}

struct Stream<'a, const ROUNDS: usize> {
    key: &'a Key,
    /// The counter of the next block, little-endian for the additions.
    counter: __m128i,
}

impl<const ROUNDS: usize> Stream<'_, ROUNDS> {
    #[inline]
    #[target_feature(enable = "aes,ssse3")]
    fn xor<const N: usize>(&mut self, data: &mut [[u8; BLOCK]; N]) {
        // Reverses the bytes of a block.
        let big_endian = _mm_set_epi8(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
        let one = _mm_set_epi64x(0, 1);
        let key = round_key(self.key, 0);
        let mut blocks = [_mm_setzero_si128(); N];
        for block in &mut blocks {
            *block = _mm_xor_si128(_mm_shuffle_epi8(self.counter, big_endian), key);
            self.counter = _mm_add_epi64(self.counter, one);
        }
        inner_rounds!(ROUNDS, round => {
            let key = round_key(self.key, round);
            for block in &mut blocks {
                *block = _mm_aesenc_si128(*block, key);
                if N > 1 {
                    *block = in_order(*block);
                }
            }
        });
        let key = round_key(self.key, ROUNDS);
        for (data, block) in data.iter_mut().zip(blocks) {
            let at = data.as_mut_ptr().cast();
            // SAFETY: the array has the 16 bytes that are read and written.
            unsafe {
                // AddRoundKey is the last step, so the data are XORed into its key.
                let last = _mm_xor_si128(key, _mm_loadu_si128(at));
                _mm_storeu_si128(at, _mm_aesenclast_si128(block, last));
            }
        }
    }
}

/// ECB over whole blocks. `key` is the schedule of the direction.
#[cfg(feature = "papers")]
#[target_feature(enable = "aes,ssse3")]
pub(super) fn ecb<const DECRYPT: bool>(key: &Key, data: &mut [[u8; BLOCK]]) {
    match key.rounds {
        10 => ecb_rounds::<10, DECRYPT>(key, data),
        12 => ecb_rounds::<12, DECRYPT>(key, data),
        _ => ecb_rounds::<14, DECRYPT>(key, data),
    }
}

#[cfg(feature = "papers")]
#[target_feature(enable = "aes,ssse3")]
fn ecb_rounds<const ROUNDS: usize, const DECRYPT: bool>(key: &Key, data: &mut [[u8; BLOCK]]) {
    let (batches, blocks) = data.as_chunks_mut::<FLIGHT>();
    for batch in batches {
        ecb_batch::<ROUNDS, DECRYPT, _>(key, batch);
    }
    let (batches, blocks) = blocks.as_chunks_mut::<{ FLIGHT / 2 }>();
    for batch in batches {
        ecb_batch::<ROUNDS, DECRYPT, _>(key, batch);
    }
    for batch in blocks.as_chunks_mut::<1>().0 {
        ecb_batch::<ROUNDS, DECRYPT, _>(key, batch);
    }
}

#[cfg(feature = "papers")]
#[inline]
#[target_feature(enable = "aes,ssse3")]
fn ecb_batch<const ROUNDS: usize, const DECRYPT: bool, const N: usize>(key: &Key, data: &mut [[u8; BLOCK]; N]) {
    let first = round_key(key, 0);
    let mut blocks = [_mm_setzero_si128(); N];
    for (block, data) in blocks.iter_mut().zip(data.iter()) {
        *block = _mm_xor_si128(load_block(data), first);
    }
    inner_rounds!(ROUNDS, round => {
        let key = round_key(key, round);
        for block in &mut blocks {
            *block = if DECRYPT { _mm_aesdec_si128(*block, key) } else { _mm_aesenc_si128(*block, key) };
            if N > 1 {
                *block = in_order(*block);
            }
        }
    });
    let last = round_key(key, ROUNDS);
    for (data, block) in data.iter_mut().zip(blocks) {
        let block = if DECRYPT { _mm_aesdeclast_si128(block, last) } else { _mm_aesenclast_si128(block, last) };
        // SAFETY: the array has the 16 bytes that are written.
        unsafe { _mm_storeu_si128(data.as_mut_ptr().cast(), block) };
    }
}

#[inline]
#[target_feature(enable = "aes,ssse3")]
fn load_block(block: &[u8; BLOCK]) -> __m128i {
    // SAFETY: the array has the 16 bytes that are read.
    unsafe { _mm_loadu_si128(block.as_ptr().cast()) }
}

#[inline]
#[target_feature(enable = "aes,ssse3")]
fn round_key(key: &Key, round: usize) -> __m128i {
    load_block(&reread(key).round_keys[round])
}

/// Returns its argument, and makes the compiler keep the order of the calls. Otherwise it would put all rounds of one
/// register one after another, and the processor would have to look far ahead for the next register.
#[inline]
#[target_feature(enable = "aes,ssse3")]
fn in_order(mut blocks: __m128i) -> __m128i {
    // SAFETY: this is a comment and no instruction.
    unsafe { core::arch::asm!("/* {0} */", inout(xmm_reg) blocks, options(nomem, nostack, preserves_flags)) };
    blocks
}
