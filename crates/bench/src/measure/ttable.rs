//! AES by lookup tables ("T-tables"), as in the papers' own programs. It serves only as their baseline.
//!
//! **Its table lookups reveal the key to every program that shares the cache.** Nothing outside this crate uses it.

use crate::measure::sefps::layout::BlockCipher;
use phalanx_kernels::aes::BLOCK;

/// The S-box of FIPS 197, section 5.1.1, and its inverse.
const SBOXES: ([u8; 256], [u8; 256]) = sboxes();
/// SubBytes and MixColumns of one byte, for each row of a column. Each table is the one before, rotated by a byte.
static ENCRYPT: [[u32; 256]; 4] = tables(SBOXES.0, [2, 1, 1, 3]);
/// InvSubBytes and InvMixColumns of one byte.
static DECRYPT: [[u32; 256]; 4] = tables(SBOXES.1, [14, 9, 13, 11]);

/// The product in GF(2^8).
const fn product(mut a: u8, mut b: u8) -> u8 {
    let mut sum = 0;
    while b > 0 {
        if b & 1 == 1 {
            sum ^= a;
        }
        a = (a << 1) ^ ((a >> 7) * 0x1b);
        b >>= 1;
    }
    sum
}

const fn sboxes() -> ([u8; 256], [u8; 256]) {
    let (mut sbox, mut inverse) = ([0; 256], [0; 256]);
    // 3 generates all elements except 0, and 246 is the inverse of 3. So p and q run through all pairs of inverses.
    let (mut p, mut q) = (1u8, 1u8);
    loop {
        sbox[p as usize] = q ^ q.rotate_left(1) ^ q.rotate_left(2) ^ q.rotate_left(3) ^ q.rotate_left(4) ^ 0x63;
        p = product(p, 3);
        q = product(q, 246);
        if p == 1 {
            break;
        }
    }
    sbox[0] = 0x63;
    let mut x = 0;
    while x < 256 {
        inverse[sbox[x] as usize] = x as u8;
        x += 1;
    }
    (sbox, inverse)
}

const fn tables(sbox: [u8; 256], column: [u8; 4]) -> [[u32; 256]; 4] {
    let mut tables = [[0; 256]; 4];
    let [a, b, c, d] = column;
    let mut x = 0;
    while x < 256 {
        let s = sbox[x];
        let word = u32::from_be_bytes([product(s, a), product(s, b), product(s, c), product(s, d)]);
        let mut row = 0;
        while row < 4 {
            tables[row][x] = word.rotate_right(8 * row as u32);
            row += 1;
        }
        x += 1;
    }
    tables
}

/// An AES key with both key schedules, one column in each word.
pub struct TTable {
    encrypt: Vec<[u32; 4]>,
    decrypt: Vec<[u32; 4]>,
}

impl TTable {
    /// Expands a key of 16, 24 or 32 bytes.
    ///
    /// # Panics
    /// If it has another length.
    pub fn new(key: &[u8]) -> Self {
        assert!(matches!(key.len(), 16 | 24 | 32), "an AES key has 16, 24 or 32 bytes");
        let n = key.len() / 4;
        let mut words: Vec<u32> = key.as_chunks().0.iter().map(|w| u32::from_be_bytes(*w)).collect();
        let mut rcon = 1u8;
        for i in n..4 * (n + 7) {
            let mut word = words[i - 1];
            if i % n == 0 {
                word = sub_word(word.rotate_left(8)) ^ u32::from(rcon) << 24;
                rcon = product(rcon, 2);
            } else if n > 6 && i % n == 4 {
                word = sub_word(word);
            }
            words.push(words[i - n] ^ word);
        }
        let encrypt = words.as_chunks().0.to_vec();
        let mut decrypt: Vec<[u32; 4]> = encrypt.iter().rev().copied().collect();
        let inner = 1..decrypt.len() - 1;
        for word in decrypt[inner].as_flattened_mut() {
            // This is InvMixColumns. DECRYPT includes InvSubBytes, so SubBytes is applied first to undo that.
            let [a, b, c, d] = sub_word(*word).to_be_bytes().map(usize::from);
            *word = DECRYPT[0][a] ^ DECRYPT[1][b] ^ DECRYPT[2][c] ^ DECRYPT[3][d];
        }
        Self { encrypt, decrypt }
    }

    /// AES in counter mode, in place. The counter counts as in SP 800-38A, all 16 bytes big-endian.
    pub fn ctr_xor(&self, counter: &[u8; BLOCK], data: &mut [u8]) {
        let mut keystream = [0; 256 * BLOCK];
        let mut counter = u128::from_be_bytes(*counter);
        for part in data.chunks_mut(keystream.len()) {
            for block in keystream.as_chunks_mut().0 {
                *block = counter.to_be_bytes();
                counter = counter.wrapping_add(1);
            }
            let keystream = &mut keystream[..part.len().next_multiple_of(BLOCK)];
            self.encrypt(keystream);
            part.iter_mut().zip(keystream).for_each(|(byte, key)| *byte ^= *key);
        }
    }
}

fn sub_word(word: u32) -> u32 {
    u32::from_be_bytes(word.to_be_bytes().map(|b| SBOXES.0[b as usize]))
}

impl BlockCipher for TTable {
    fn encrypt(&self, blocks: &mut [u8]) {
        // ShiftRows: row r of a column comes from the column r further on.
        crypt(&self.encrypt, &ENCRYPT, &SBOXES.0, [1, 2, 3], blocks);
    }

    fn decrypt(&self, blocks: &mut [u8]) {
        crypt(&self.decrypt, &DECRYPT, &SBOXES.1, [3, 2, 1], blocks);
    }
}

#[inline(always)]
fn crypt(keys: &[[u32; 4]], tables: &[[u32; 256]; 4], sbox: &[u8; 256], shift: [usize; 3], blocks: &mut [u8]) {
    let (last, inner) = keys[1..].split_last().expect("a schedule has 11 round keys or more");
    for block in blocks.as_chunks_mut::<16>().0 {
        let (columns, _) = block.as_chunks_mut::<4>();
        let mut state: [u32; 4] = std::array::from_fn(|i| u32::from_be_bytes(columns[i]) ^ keys[0][i]);
        let byte = |state: &[u32; 4], i: usize, row: usize| {
            let from = if row == 0 { i } else { (i + shift[row - 1]) % 4 };
            (state[from] >> (24 - 8 * row) & 0xff) as usize
        };
        for key in inner {
            state = std::array::from_fn(|i| {
                let column = |row: usize| tables[row][byte(&state, i, row)];
                column(0) ^ column(1) ^ column(2) ^ column(3) ^ key[i]
            });
        }
        for (i, column) in columns.iter_mut().enumerate() {
            let bytes = std::array::from_fn(|row| sbox[byte(&state, i, row)]);
            *column = (u32::from_be_bytes(bytes) ^ last[i]).to_be_bytes();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use phalanx_kernels::aes;

    #[test]
    fn its_counter_mode_agrees_with_the_kernels() {
        let counter = *b"\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\x80";
        for len in [0, 1, 16, 4095, 4096, 4097, 10_000] {
            for key_len in [16, 24, 32] {
                let (mut want, mut got) = (vec![9; len], vec![9; len]);
                aes::ctr_xor(aes::Level::detect(), &aes::Key::new(&[7; 32][..key_len]), &counter, &mut want);
                TTable::new(&[7; 32][..key_len]).ctr_xor(&counter, &mut got);
                assert_eq!(got, want, "{len} bytes, AES-{}", key_len * 8);
            }
        }
    }

    #[test]
    fn it_computes_aes_both_ways() {
        for key_len in [16, 24, 32] {
            for seed in 0..50u8 {
                let key: Vec<u8> =
                    (0..key_len).map(|i: u8| i.wrapping_mul(29).wrapping_add(seed.wrapping_mul(53))).collect();
                let plain: Vec<u8> = (0..16 * 17).map(|i: u32| (i as u8).wrapping_mul(7) ^ seed).collect();
                let (ours, mut want, mut got) = (TTable::new(&key), plain.clone(), plain.clone());
                aes::ecb_encrypt(aes::Level::detect(), &aes::Key::new(&key), &mut want);
                ours.encrypt(&mut got);
                assert_eq!(got, want, "AES-{}", key_len as u32 * 8);
                ours.decrypt(&mut got);
                assert_eq!(got, plain, "AES-{}", key_len as u32 * 8);
            }
        }
    }
}
