//! AES-CTR and AES-ECB with the ARMv8 Cryptographic Extension: one block in each register, eight at once.

use super::{BLOCK, Key};
use core::arch::aarch64::*;

/// Blocks in flight: enough to hide the latency of a round on machines that start two rounds in each cycle.
const FLIGHT: usize = 8;

/// XORs the keystream into `data`. The low half of the counter must not wrap before the last block.
#[target_feature(enable = "neon,aes")]
pub(super) fn ctr_xor(key: &Key, counter: u128, data: &mut [u8]) {
    match key.rounds {
        10 => rounds::<10>(key, counter, data),
        12 => rounds::<12>(key, counter, data),
        _ => rounds::<14>(key, counter, data),
    }
}

#[target_feature(enable = "neon,aes")]
fn rounds<const ROUNDS: usize>(key: &Key, counter: u128, data: &mut [u8]) {
    let counter = vreinterpretq_u64_u8(load_block(&counter.to_le_bytes()));
    let mut stream = Stream::<ROUNDS> { keys: registers::<ROUNDS>(key), counter };
    let (blocks, tail) = data.as_chunks_mut::<BLOCK>();
    let (batches, blocks) = blocks.as_chunks_mut::<FLIGHT>();
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

struct Stream<const ROUNDS: usize> {
    /// Entries after `ROUNDS` are never read.
    keys: [uint8x16_t; 15],
    /// The counter of the next block, little-endian for the additions.
    counter: uint64x2_t,
}

impl<const ROUNDS: usize> Stream<ROUNDS> {
    #[inline]
    #[target_feature(enable = "neon,aes")]
    fn xor<const N: usize>(&mut self, data: &mut [[u8; BLOCK]; N]) {
        let one = vcombine_u64(vcreate_u64(1), vcreate_u64(0));
        let mut blocks = [vdupq_n_u8(0); N];
        for block in &mut blocks {
            // Reverses the bytes of a block: first the bytes of each half, then the halves.
            let swapped = vrev64q_u8(vreinterpretq_u8_u64(self.counter));
            *block = vextq_u8::<8>(swapped, swapped);
            self.counter = vaddq_u64(self.counter, one);
        }
        // AESE begins with AddRoundKey, and AESMC does MixColumns. So the last round has no AESMC, and the last key is
        // added by a separate XOR.
        inner_rounds!(ROUNDS, round => for block in &mut blocks {
            *block = vaesmcq_u8(vaeseq_u8(*block, self.keys[round - 1]));
        });
        for (data, block) in data.iter_mut().zip(blocks) {
            let block = vaeseq_u8(block, self.keys[ROUNDS - 1]);
            let at = data.as_mut_ptr();
            // SAFETY: the array has the 16 bytes that are read and written.
            unsafe { vst1q_u8(at, veorq_u8(block, veorq_u8(self.keys[ROUNDS], vld1q_u8(at)))) };
        }
    }
}

/// ECB over whole blocks. `key` is the schedule of the direction.
#[cfg(feature = "papers")]
#[target_feature(enable = "neon,aes")]
pub(super) fn ecb<const DECRYPT: bool>(key: &Key, data: &mut [[u8; BLOCK]]) {
    match key.rounds {
        10 => ecb_rounds::<10, DECRYPT>(key, data),
        12 => ecb_rounds::<12, DECRYPT>(key, data),
        _ => ecb_rounds::<14, DECRYPT>(key, data),
    }
}

#[cfg(feature = "papers")]
#[target_feature(enable = "neon,aes")]
fn ecb_rounds<const ROUNDS: usize, const DECRYPT: bool>(key: &Key, data: &mut [[u8; BLOCK]]) {
    let keys = registers::<ROUNDS>(key);
    let (batches, blocks) = data.as_chunks_mut::<FLIGHT>();
    for batch in batches {
        ecb_batch::<ROUNDS, DECRYPT, _>(&keys, batch);
    }
    for batch in blocks.as_chunks_mut::<1>().0 {
        ecb_batch::<ROUNDS, DECRYPT, _>(&keys, batch);
    }
}

#[cfg(feature = "papers")]
#[inline]
#[target_feature(enable = "neon,aes")]
fn ecb_batch<const ROUNDS: usize, const DECRYPT: bool, const N: usize>(
    keys: &[uint8x16_t; 15],
    data: &mut [[u8; BLOCK]; N],
) {
    let mut blocks = [vdupq_n_u8(0); N];
    for (block, data) in blocks.iter_mut().zip(data.iter()) {
        *block = load_block(data);
    }
    // AESE and AESD begin with AddRoundKey, and AESMC and AESIMC do MixColumns. So the last key is added by a separate
    // XOR.
    inner_rounds!(ROUNDS, round => for block in &mut blocks {
        let key = keys[round - 1];
        *block = if DECRYPT { vaesimcq_u8(vaesdq_u8(*block, key)) } else { vaesmcq_u8(vaeseq_u8(*block, key)) };
    });
    for (data, block) in data.iter_mut().zip(blocks) {
        let key = keys[ROUNDS - 1];
        let block = if DECRYPT { vaesdq_u8(block, key) } else { vaeseq_u8(block, key) };
        // SAFETY: the array has the 16 bytes that are written.
        unsafe { vst1q_u8(data.as_mut_ptr(), veorq_u8(block, keys[ROUNDS])) };
    }
}

/// The round keys in registers. Entries after `ROUNDS` are zero.
#[inline]
#[target_feature(enable = "neon,aes")]
fn registers<const ROUNDS: usize>(key: &Key) -> [uint8x16_t; 15] {
    let mut keys = [vdupq_n_u8(0); 15];
    for (register, key) in keys.iter_mut().zip(&key.round_keys[..=ROUNDS]) {
        *register = load_block(key);
    }
    keys
}

#[inline]
#[target_feature(enable = "neon,aes")]
fn load_block(block: &[u8; BLOCK]) -> uint8x16_t {
    // SAFETY: the array has the 16 bytes that are read.
    unsafe { vld1q_u8(block.as_ptr()) }
}
