//! Every level of AES-ECB that this machine has, compared with the `aes` crate.

use crate::common::{Random, STEP, paint};
use aes::cipher::{Array, BlockCipherDecrypt, BlockCipherEncrypt, KeyInit};
use phalanx_kernels::aes::{BLOCK, DecryptKey, Key, Level, ecb_decrypt, ecb_encrypt};

const KEYS: [usize; 3] = [16, 24, 32];

/// The room before and after the data, in bytes. It must not change.
const MARGIN: usize = 64;
const CANARY: u8 = 0xc5;

fn key_bytes(len: usize) -> Vec<u8> {
    paint(len + 7).split_off(7)
}

fn oracle(key: &[u8], data: &mut [u8]) {
    let blocks = Array::cast_slice_from_core_mut(data.as_chunks_mut::<BLOCK>().0);
    match key.len() {
        16 => aes::Aes128::new_from_slice(key).unwrap().encrypt_blocks(blocks),
        24 => aes::Aes192::new_from_slice(key).unwrap().encrypt_blocks(blocks),
        _ => aes::Aes256::new_from_slice(key).unwrap().encrypt_blocks(blocks),
    }
}

fn oracle_decrypt(key: &[u8], data: &mut [u8]) {
    let blocks = Array::cast_slice_from_core_mut(data.as_chunks_mut::<BLOCK>().0);
    match key.len() {
        16 => aes::Aes128::new_from_slice(key).unwrap().decrypt_blocks(blocks),
        24 => aes::Aes192::new_from_slice(key).unwrap().decrypt_blocks(blocks),
        _ => aes::Aes256::new_from_slice(key).unwrap().decrypt_blocks(blocks),
    }
}

/// Runs `crypt` on `data`, `offset` bytes after an aligned address, and checks the bytes around them.
fn run(crypt: impl Fn(&mut [u8]), data: &[u8], offset: usize) -> Vec<u8> {
    let mut room = vec![CANARY; 2 * MARGIN + data.len() + 128];
    let start = MARGIN + room[MARGIN..].as_ptr().align_offset(64) + offset % 64;
    let end = start + data.len();
    room[start..end].copy_from_slice(data);
    crypt(&mut room[start..end]);
    assert!(room[..start].iter().all(|b| *b == CANARY), "wrote before the data");
    assert!(room[end..].iter().all(|b| *b == CANARY), "wrote behind the data");
    room[start..end].to_vec()
}

#[test]
fn all_lengths_and_alignments_match_in_both_directions() {
    // Up to 70 blocks: more than two batches of the widest level.
    let plain = paint(70 * BLOCK);
    for bytes in KEYS.map(key_bytes) {
        let key = Key::new(&bytes);
        let inverse = DecryptKey::new(&key);
        let (mut sealed, mut opened) = (plain.clone(), plain.clone());
        oracle(&bytes, &mut sealed);
        oracle_decrypt(&bytes, &mut opened);
        for level in Level::available() {
            for len in (0..=plain.len()).step_by(BLOCK * STEP.min(20)) {
                let what = format!("{level}, {} key bytes, {len} bytes", bytes.len());
                let got = run(|data| ecb_encrypt(level, &key, data), &plain[..len], len / BLOCK);
                assert_eq!(got, sealed[..len], "encrypt, {what}");
                let got = run(|data| ecb_decrypt(level, &inverse, data), &plain[..len], len / BLOCK);
                assert_eq!(got, opened[..len], "decrypt, {what}");
            }
        }
    }
}

#[test]
fn random_keys_and_blocks_come_back() {
    let mut random = Random(3);
    for len in KEYS {
        for _ in 0..if cfg!(miri) { 2 } else { 200 } {
            let bytes: Vec<u8> = (0..len).map(|_| random.below(256) as u8).collect();
            let plain: Vec<u8> = (0..16 * (1 + random.below(40))).map(|_| random.below(256) as u8).collect();
            let (key, mut want) = (Key::new(&bytes), plain.clone());
            let inverse = DecryptKey::new(&key);
            oracle(&bytes, &mut want);
            for level in Level::available() {
                let mut data = plain.clone();
                ecb_encrypt(level, &key, &mut data);
                assert!(data == want, "{level}");
                ecb_decrypt(level, &inverse, &mut data);
                assert!(data == plain, "{level} does not undo itself");
            }
        }
    }
}

#[test]
fn partial_blocks_are_refused() {
    let key = Key::new(&[0; 32]);
    let inverse = DecryptKey::new(&key);
    for len in [1, 15, 17, 4097] {
        for level in Level::available() {
            std::panic::catch_unwind(|| ecb_encrypt(level, &key, &mut vec![0; len])).unwrap_err();
            std::panic::catch_unwind(|| ecb_decrypt(level, &inverse, &mut vec![0; len])).unwrap_err();
        }
    }
    for level in Level::ALL.iter().copied().filter(|l| !l.is_available()) {
        std::panic::catch_unwind(|| ecb_encrypt(level, &key, &mut [0; 64])).unwrap_err();
        std::panic::catch_unwind(|| ecb_decrypt(level, &inverse, &mut [0; 64])).unwrap_err();
    }
}

#[test]
fn debug_shows_no_secret() {
    assert_eq!(format!("{:?}", DecryptKey::new(&Key::new(&[7; 24]))), "AES-192 key");
}
