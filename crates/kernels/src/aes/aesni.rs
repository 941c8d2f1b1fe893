//! AES-CTR with AES-NI: one block a register, eight abreast.

use super::{BLOCK, Key, portable, reread};
use core::arch::x86_64::*;

/// Blocks in flight: enough to cover the latency of a round on machines that start two rounds a cycle.
const FLIGHT: usize = 8;

/// The key schedule, by the instruction made for it.
#[target_feature(enable = "aes,ssse3")]
pub(super) fn expand(key: &[u8], rounds: usize) -> [[u8; BLOCK]; 15] {
    portable::expand(key, rounds, |word| {
        let words = _mm_set1_epi32(i32::from_ne_bytes(word));
        _mm_cvtsi128_si32(_mm_aeskeygenassist_si128::<0>(words)).to_ne_bytes()
    })
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
    /// The counter of the next block, little-endian as the additions need it.
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
                // AddRoundKey is the final step, so its key takes the data along.
                let last = _mm_xor_si128(key, _mm_loadu_si128(at));
                _mm_storeu_si128(at, _mm_aesenclast_si128(block, last));
            }
        }
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

/// The same, and not moved past another call: the compiler would else line up the rounds of one register, and leave
/// it to the processor to look far ahead for the next.
#[inline]
#[target_feature(enable = "aes,ssse3")]
fn in_order(mut blocks: __m128i) -> __m128i {
    // SAFETY: a comment, no instruction.
    unsafe { core::arch::asm!("/* {0} */", inout(xmm_reg) blocks, options(nomem, nostack, preserves_flags)) };
    blocks
}
