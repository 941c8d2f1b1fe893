//! CMAC (SP 800-38B) and AES-SIV (RFC 5297).

use crate::aes::Aes;
use crate::array;
use crate::modes::ctr;

/// CMAC with AES and a tag of 128 bits (SP 800-38B §6.2).
pub fn cmac(key: &[u8], message: &[u8]) -> [u8; 16] {
    let aes = Aes::new(key);
    let k1 = doubled(aes.encrypt([0; 16])); // SUBK (§6.1)
    let k2 = doubled(k1);

    let mut blocks: Vec<&[u8]> = message.chunks(16).collect();
    let last = blocks.pop().unwrap_or_default();
    let last = if last.len() == 16 { xor(array(last), k1) } else { xor(padded(last), k2) };
    let before = blocks.iter().fold([0; 16], |c, block| aes.encrypt(xor(c, array(block))));
    aes.encrypt(xor(before, last))
}

/// SIV-ENCRYPT (RFC 5297 §2.6): the synthetic IV, then the ciphertext. The key has 32, 48 or 64 bytes.
pub fn siv_encrypt(key: &[u8], associated_data: &[&[u8]], plaintext: &[u8]) -> Vec<u8> {
    let (k1, k2) = key.split_at(key.len() / 2);
    let v = s2v(k1, associated_data, plaintext);
    [&v[..], &ctr(k2, &counter(v), plaintext)].concat()
}

/// SIV-DECRYPT (RFC 5297 §2.7). `None` if the synthetic IV is wrong.
pub fn siv_decrypt(key: &[u8], associated_data: &[&[u8]], sealed: &[u8]) -> Option<Vec<u8>> {
    let (k1, k2) = key.split_at(key.len() / 2);
    let (v, ciphertext) = sealed.split_at_checked(16)?;
    let plaintext = ctr(k2, &counter(array(v)), ciphertext);
    (s2v(k1, associated_data, &plaintext) == v).then_some(plaintext)
}

/// S2V (RFC 5297 §2.4) of the associated data and then the plaintext. The plaintext is always present, so there is a last
/// string.
fn s2v(key: &[u8], associated_data: &[&[u8]], plaintext: &[u8]) -> [u8; 16] {
    let d = associated_data.iter().fold(cmac(key, &[0; 16]), |d, string| xor(doubled(d), cmac(key, string)));
    if let Some(start) = plaintext.len().checked_sub(16) {
        // xorend: into the last 16 bytes.
        let (start, end) = plaintext.split_at(start);
        cmac(key, &[start, &xor(array(end), d)].concat())
    } else {
        cmac(key, &xor(doubled(d), padded(plaintext)))
    }
}

/// The counter block of a synthetic IV: without the highest bits of its last two 32-bit words (RFC 5297 §2.5).
fn counter(mut v: [u8; 16]) -> [u8; 16] {
    v[8] &= 0x7F;
    v[12] &= 0x7F;
    v
}

/// The product with x in GF(2^128) (RFC 5297 §2.3; SP 800-38B §6.1).
fn doubled(block: [u8; 16]) -> [u8; 16] {
    let number = u128::from_be_bytes(block);
    let reduction = if number >> 127 == 1 { 0x87 } else { 0 };
    ((number << 1) ^ reduction).to_be_bytes()
}

/// A 1 bit, then 0 bits up to a whole block (RFC 5297 §2.1; SP 800-38B §6.2).
fn padded(short: &[u8]) -> [u8; 16] {
    let mut block = [0; 16];
    block[..short.len()].copy_from_slice(short);
    block[short.len()] = 0x80;
    block
}

fn xor(a: [u8; 16], b: [u8; 16]) -> [u8; 16] {
    std::array::from_fn(|i| a[i] ^ b[i])
}
