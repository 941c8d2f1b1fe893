//! The key schedule on the host (FIPS 197, section 5.2), without tables.

use aes::hazmat::{self, Block};
use zeroize::Zeroize;

/// The number of words that the round keys of one key take on the device. AES-256 has the most.
pub(crate) const KEY_WORDS: usize = 60;

/// T0, whose entry x is (2s, s, s, 3s) for s = SubBytes(x), and its inverse, whose entry s is (14x, 9x, 13x, 11x).
/// Words are little-endian.
#[cfg(feature = "papers")]
pub(crate) fn tables() -> [[u32; 256]; 2] {
    let mut tables = [[0; 256]; 2];
    for x in 0..256u32 {
        let s = sub_word(x)[0];
        let mut column = Block::default();
        column[0] = s;
        mix_columns(&mut column);
        tables[0][x as usize] = first_word(&column);
        let mut column = Block::default();
        column[0] = x as u8;
        hazmat::inv_mix_columns(&mut column);
        tables[1][usize::from(s)] = first_word(&column);
    }
    tables
}

/// The round keys of a key of 16, 24 or 32 bytes. Words after the last round key are zero.
pub(crate) fn expand(key: &[u8]) -> [u32; KEY_WORDS] {
    let words = key.len() / 4;
    let rounds = words + 6;
    let mut w = [0u32; KEY_WORDS];
    for (word, bytes) in w.iter_mut().zip(key.as_chunks::<4>().0) {
        *word = u32::from_le_bytes(*bytes);
    }
    let mut rcon = 1u32;
    for i in words..4 * (rounds + 1) {
        let mut t = w[i - 1];
        if i % words == 0 {
            t = u32::from_le_bytes(sub_word(t.rotate_right(8))) ^ rcon;
            rcon = (rcon << 1) ^ ((rcon >> 7) * 0x11b);
        } else if words > 6 && i % words == 4 {
            t = u32::from_le_bytes(sub_word(t));
        }
        w[i] = w[i - words] ^ t;
    }
    w
}

/// The round keys of the equivalent inverse cipher (section 5.3.5), for decryption.
#[cfg(feature = "papers")]
pub(crate) fn expand_inverse(key: &[u8]) -> [u32; KEY_WORDS] {
    let mut w = expand(key);
    let rounds = key.len() / 4 + 6;
    let mut turned = [0u32; KEY_WORDS];
    for round in 0..=rounds {
        let from = &w[4 * (rounds - round)..][..4];
        let to = &mut turned[4 * round..][..4];
        to.copy_from_slice(from);
        if round != 0 && round != rounds {
            let mut block = Block::default();
            for (bytes, word) in block.as_chunks_mut::<4>().0.iter_mut().zip(&*to) {
                *bytes = word.to_le_bytes();
            }
            hazmat::inv_mix_columns(&mut block);
            for (word, bytes) in to.iter_mut().zip(block.as_chunks::<4>().0) {
                *word = u32::from_le_bytes(*bytes);
            }
            block.as_mut_slice().zeroize();
        }
    }
    w.zeroize();
    turned
}

/// SubWord. ShiftRows does not change a block of four equal columns, so one round with a zero key, followed by
/// InvMixColumns, is SubBytes.
fn sub_word(word: u32) -> [u8; 4] {
    let mut block = Block::default();
    block.as_chunks_mut::<4>().0.fill(word.to_le_bytes());
    hazmat::cipher_round(&mut block, &Block::default());
    hazmat::inv_mix_columns(&mut block);
    let word = [block[0], block[1], block[2], block[3]];
    block.as_mut_slice().zeroize();
    word
}

/// MixColumns, which is InvMixColumns three times.
#[cfg(feature = "papers")]
fn mix_columns(block: &mut Block) {
    (0..3).for_each(|_| hazmat::inv_mix_columns(block));
}

#[cfg(feature = "papers")]
fn first_word(block: &Block) -> u32 {
    u32::from_le_bytes([block[0], block[1], block[2], block[3]])
}
