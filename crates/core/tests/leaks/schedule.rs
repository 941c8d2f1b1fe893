//! The key schedule of AES (FIPS 197, section 5.2), from its definition.

use zeroize::Zeroize;

/// Multiplication in GF(2^8).
fn times(mut a: u8, mut b: u8) -> u8 {
    let mut product = 0;
    while b != 0 {
        product ^= a * (b & 1);
        a = (a << 1) ^ ((a >> 7) * 0x1b);
        b >>= 1;
    }
    product
}

/// SubBytes of one byte.
fn substitute(byte: u8) -> u8 {
    // The inverse is the 254th power; 0 has none and stays 0.
    let inverse = (0..254).fold(1, |power, _| times(power, byte));
    (0..5).fold(0x63, |sum, turn| sum ^ inverse.rotate_left(turn))
}

/// All round keys, one after another. Wiped by the caller.
pub fn expand(key: &[u8]) -> Vec<u8> {
    let len = 16 * (key.len() / 4 + 7);
    let mut schedule = Vec::with_capacity(len);
    schedule.extend_from_slice(key);
    let mut constant = 1;
    while schedule.len() < len {
        let at = schedule.len();
        let mut word: [u8; 4] = *schedule.last_chunk().expect("a key has more words");
        if at % key.len() == 0 {
            word.rotate_left(1);
            word = word.map(substitute);
            word[0] ^= constant;
            constant = times(constant, 2);
        } else if key.len() == 32 && at % 32 == 16 {
            word = word.map(substitute);
        }
        for (i, byte) in word.iter().enumerate() {
            schedule.push(byte ^ schedule[at - key.len() + i]);
        }
        word.zeroize();
    }
    schedule
}

/// FIPS 197, appendix A.
pub fn the_schedule_is_that_of_the_standard() {
    let of = |key: &str| expand(&crate::common::unhex(key)).split_off(16 * (key.len() / 8 + 6));
    let last = crate::common::unhex;
    assert_eq!(of("2b7e151628aed2a6abf7158809cf4f3c"), last("d014f9a8c9ee2589e13f0cc8b6630ca6"));
    let key = "8e73b0f7da0e6452c810f32b809079e562f8ead2522c6b7b";
    assert_eq!(of(key), last("e98ba06f448c773c8ecc720401002202"));
    let key = "603deb1015ca71be2b73aef0857d77811f352c073b6108d72d9810a30914dff4";
    assert_eq!(of(key), last("fe4890d1e6188d0b046df344706c631e"));
}
