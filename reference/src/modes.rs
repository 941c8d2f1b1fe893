//! The modes of AES: ECB and CTR (SP 800-38A), GCM (SP 800-38D), and key wrap (RFC 3394).

use crate::aes::Aes;
use crate::array;

// ---- ECB and CTR (SP 800-38A) --------------------------------------------------------------------------------------

/// ECB encryption of whole blocks (SP 800-38A §6.1).
pub fn ecb_encrypt(key: &[u8], plaintext: &[u8]) -> Vec<u8> {
    let aes = Aes::new(key);
    plaintext.chunks(16).flat_map(|block| aes.encrypt(array(block))).collect()
}

/// ECB decryption of whole blocks (SP 800-38A §6.1).
pub fn ecb_decrypt(key: &[u8], ciphertext: &[u8]) -> Vec<u8> {
    let aes = Aes::new(key);
    ciphertext.chunks(16).flat_map(|block| aes.decrypt(array(block))).collect()
}

/// CTR (SP 800-38A §6.5) with the standard incrementing function (B.1) over the whole block: encrypts and decrypts.
pub fn ctr(key: &[u8], initial: &[u8; 16], input: &[u8]) -> Vec<u8> {
    let aes = Aes::new(key);
    let mut counter = u128::from_be_bytes(*initial);
    let mut output = Vec::new();
    for block in input.chunks(16) {
        let pad = aes.encrypt(counter.to_be_bytes());
        output.extend(block.iter().zip(pad).map(|(byte, pad)| byte ^ pad));
        counter = counter.wrapping_add(1);
    }
    output
}

// ---- GCM (SP 800-38D) ----------------------------------------------------------------------------------------------

/// GCM-AE_K(IV, P, A) (SP 800-38D §7.1) with an IV of 96 bits and a tag of 128: the ciphertext and the tag.
pub fn gcm_encrypt(key: &[u8], iv: &[u8; 12], aad: &[u8], plaintext: &[u8]) -> (Vec<u8>, [u8; 16]) {
    let ciphertext = ctr(key, &gcm_counter(iv, 2), plaintext);
    let tag = gcm_tag(key, iv, aad, &ciphertext);
    (ciphertext, tag)
}

/// GCM-AD_K(IV, C, A, T) (SP 800-38D §7.2), with the same lengths. `None` if the tag is wrong.
pub fn gcm_decrypt(key: &[u8], iv: &[u8; 12], aad: &[u8], ciphertext: &[u8], tag: &[u8; 16]) -> Option<Vec<u8>> {
    (gcm_tag(key, iv, aad, ciphertext) == *tag).then(|| ctr(key, &gcm_counter(iv, 2), ciphertext))
}

/// Steps 4 to 6 of GCM-AE_K: GHASH_H of the associated data and the ciphertext, each padded with zeros, and their lengths in bits;
/// encrypted with J_0.
fn gcm_tag(key: &[u8], iv: &[u8; 12], aad: &[u8], ciphertext: &[u8]) -> [u8; 16] {
    let h = u128::from_be_bytes(Aes::new(key).encrypt([0; 16]));
    let mut input = Vec::new();
    for part in [aad, ciphertext] {
        input.extend(part);
        input.resize(input.len().next_multiple_of(16), 0);
    }
    input.extend((8 * aad.len() as u64).to_be_bytes());
    input.extend((8 * ciphertext.len() as u64).to_be_bytes());
    array(&ctr(key, &gcm_counter(iv, 1), &ghash(h, &input).to_be_bytes()))
}

/// The counter block whose last 32 bits are `count`: J_0 for 1, then inc_32(J_0), and so on (§6.2, §7.1). GCM counts in these
/// 32 bits and CTR in all 128. Both give the same result, because GCM allows no plaintext that is long enough to wrap the 32
/// bits.
fn gcm_counter(iv: &[u8; 12], count: u32) -> [u8; 16] {
    array(&[&iv[..], &count.to_be_bytes()].concat())
}

/// GHASH_H (§6.4) of whole blocks. A block is an integer whose highest bit is the block's first.
fn ghash(h: u128, blocks: &[u8]) -> u128 {
    blocks.chunks(16).fold(0, |y, block| gcm_times(y ^ u128::from_be_bytes(array(block)), h))
}

/// The product of blocks (§6.3, Algorithm 1).
fn gcm_times(x: u128, y: u128) -> u128 {
    const R: u128 = 0b1110_0001 << 120;
    let (mut z, mut v) = (0, y);
    for i in 0..128 {
        if x >> (127 - i) & 1 == 1 {
            z ^= v;
        }
        v = if v & 1 == 0 { v >> 1 } else { (v >> 1) ^ R };
    }
    z
}

// ---- Key wrap (RFC 3394) -------------------------------------------------------------------------------------------

/// The default initial value (RFC 3394 §2.2.3.1).
const WRAP_IV: [u8; 8] = [0xA6; 8];

/// Key wrap (RFC 3394 §2.2.1) of two or more 8-byte blocks.
pub fn wrap(kek: &[u8], key: &[u8]) -> Vec<u8> {
    let aes = Aes::new(kek);
    let mut a = WRAP_IV;
    let mut r: Vec<[u8; 8]> = key.chunks(8).map(array).collect();
    let n = r.len();
    for j in 0..6 {
        for (i, r_i) in r.iter_mut().enumerate() {
            let b = aes.encrypt(array(&[a, *r_i].concat()));
            let t = (n * j + i + 1) as u64;
            a = (u64::from_be_bytes(array(&b[..8])) ^ t).to_be_bytes();
            *r_i = array(&b[8..]);
        }
    }
    [&a[..], &r.concat()].concat()
}

/// Key unwrap (RFC 3394 §2.2.2). `None` if the integrity check fails (§2.2.3).
pub fn unwrap(kek: &[u8], wrapped: &[u8]) -> Option<Vec<u8>> {
    if wrapped.len() < 24 || !wrapped.len().is_multiple_of(8) {
        return None;
    }
    let aes = Aes::new(kek);
    let mut a: [u8; 8] = array(&wrapped[..8]);
    let mut r: Vec<[u8; 8]> = wrapped[8..].chunks(8).map(array).collect();
    let n = r.len();
    for j in (0..6).rev() {
        for (i, r_i) in r.iter_mut().enumerate().rev() {
            let t = (n * j + i + 1) as u64;
            let a_xor_t = (u64::from_be_bytes(a) ^ t).to_be_bytes();
            let b = aes.decrypt(array(&[a_xor_t, *r_i].concat()));
            a = array(&b[..8]);
            *r_i = array(&b[8..]);
        }
    }
    (a == WRAP_IV).then(|| r.concat())
}
