//! The AES block cipher (FIPS 197).

use crate::array;

/// AES with a key of 16, 24 or 32 bytes. A state is 16 bytes, column after column: s\[r, c\] is byte r + 4c (FIPS 197 §3.4).
pub struct Aes {
    round_keys: Vec<[u8; 16]>,
}

impl Aes {
    /// KEYEXPANSION() (FIPS 197 §5.2).
    ///
    /// # Panics
    /// If the key has another length.
    pub fn new(key: &[u8]) -> Self {
        assert!([16, 24, 32].contains(&key.len()), "an AES key");
        let nk = key.len() / 4;
        let rounds = nk + 6;
        let mut words: Vec<[u8; 4]> = key.chunks(4).map(array).collect();
        let mut rcon = 1;
        for i in nk..4 * (rounds + 1) {
            let mut word = words[i - 1];
            if i % nk == 0 {
                word.rotate_left(1); // ROTWORD()
                word = word.map(|byte| SBOX[usize::from(byte)]);
                word[0] ^= rcon;
                rcon = times(rcon, 2);
            } else if nk > 6 && i % nk == 4 {
                word = word.map(|byte| SBOX[usize::from(byte)]);
            }
            words.push(std::array::from_fn(|byte| words[i - nk][byte] ^ word[byte]));
        }
        Self { round_keys: words.chunks(4).map(|four| array(&four.concat())).collect() }
    }

    /// CIPHER() (FIPS 197 §5.1).
    pub fn encrypt(&self, block: [u8; 16]) -> [u8; 16] {
        let (first, rest) = self.round_keys.split_first().unwrap();
        let (last, middle) = rest.split_last().unwrap();
        let mut state = add_round_key(block, first);
        for key in middle {
            state = add_round_key(mix_columns(shift_rows(state.map(|byte| SBOX[usize::from(byte)]))), key);
        }
        add_round_key(shift_rows(state.map(|byte| SBOX[usize::from(byte)])), last)
    }

    /// INVCIPHER() (FIPS 197 §5.3).
    pub fn decrypt(&self, block: [u8; 16]) -> [u8; 16] {
        let (first, rest) = self.round_keys.split_first().unwrap();
        let (last, middle) = rest.split_last().unwrap();
        let mut state = inv_shift_rows(add_round_key(block, last)).map(|byte| INV_SBOX[usize::from(byte)]);
        for key in middle.iter().rev() {
            state = inv_shift_rows(inv_mix_columns(add_round_key(state, key))).map(|byte| INV_SBOX[usize::from(byte)]);
        }
        add_round_key(state, first)
    }
}

/// ADDROUNDKEY() (FIPS 197 §5.1.4).
fn add_round_key(state: [u8; 16], key: &[u8; 16]) -> [u8; 16] {
    std::array::from_fn(|i| state[i] ^ key[i])
}

/// SHIFTROWS() (FIPS 197 §5.1.2): row r turns left by r columns.
fn shift_rows(state: [u8; 16]) -> [u8; 16] {
    std::array::from_fn(|i| state[(i + 4 * (i % 4)) % 16])
}

/// INVSHIFTROWS() (FIPS 197 §5.3.1).
fn inv_shift_rows(state: [u8; 16]) -> [u8; 16] {
    std::array::from_fn(|i| state[(i + 12 * (i % 4)) % 16])
}

/// MIXCOLUMNS() (FIPS 197 §5.1.3).
fn mix_columns(state: [u8; 16]) -> [u8; 16] {
    multiply_columns(state, [2, 3, 1, 1])
}

/// INVMIXCOLUMNS() (FIPS 197 §5.3.3).
fn inv_mix_columns(state: [u8; 16]) -> [u8; 16] {
    multiply_columns(state, [14, 11, 13, 9])
}

/// Multiplies each column by the matrix whose first row is given. Each further row is the one above it, rotated right (FIPS 197 §4.3).
fn multiply_columns(state: [u8; 16], row: [u8; 4]) -> [u8; 16] {
    std::array::from_fn(|i| {
        let (r, column) = (i % 4, &state[i - i % 4..]);
        (0..4).fold(0, |sum, k| sum ^ times(row[(k + 4 - r) % 4], column[k]))
    })
}

/// SBOX() (FIPS 197 §5.1.1) of every byte. The compiler computes the table from the definition below. If each byte were computed
/// when it is needed, the tests that compare with this crate would take minutes.
static SBOX: [u8; 256] = {
    let mut table = [0; 256];
    let mut byte = 0;
    while byte < 256 {
        table[byte] = sub_byte(byte as u8);
        byte += 1;
    }
    table
};

/// INVSBOX() (FIPS 197 §5.3.2) of every byte, computed in the same way.
static INV_SBOX: [u8; 256] = {
    let mut table = [0; 256];
    let mut byte = 0;
    while byte < 256 {
        table[byte] = inv_sub_byte(byte as u8);
        byte += 1;
    }
    table
};

/// SBOX() (FIPS 197 §5.1.1): the inverse in GF(2^8), then the affine transformation.
const fn sub_byte(byte: u8) -> u8 {
    let b = inverse(byte);
    b ^ b.rotate_left(1) ^ b.rotate_left(2) ^ b.rotate_left(3) ^ b.rotate_left(4) ^ 0x63
}

/// INVSBOX() (FIPS 197 §5.3.2): the inverse of the affine transformation, then the inverse in GF(2^8).
const fn inv_sub_byte(byte: u8) -> u8 {
    inverse(byte.rotate_left(1) ^ byte.rotate_left(3) ^ byte.rotate_left(6) ^ 0x05)
}

/// The multiplicative inverse, or 0 for 0 (FIPS 197 §4.4): b^254 = b^2 · b^4 · … · b^128.
const fn inverse(b: u8) -> u8 {
    let (mut square, mut product) = (b, 1);
    let mut factors = 0;
    while factors < 7 {
        square = times(square, square);
        product = times(product, square);
        factors += 1;
    }
    product
}

/// The product in GF(2^8) modulo x^8 + x^4 + x^3 + x + 1 (FIPS 197 §4.2).
const fn times(mut a: u8, mut b: u8) -> u8 {
    let mut product = 0;
    while a != 0 {
        if a & 1 == 1 {
            product ^= b;
        }
        a >>= 1;
        b = if b & 0x80 == 0 { b << 1 } else { (b << 1) ^ 0x1B }; // XTIMES()
    }
    product
}
