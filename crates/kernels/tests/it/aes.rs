//! Every level of AES-CTR that this machine has, compared with the `aes` and `ctr` crates.

use crate::common::{Random, STEP, paint};
use ctr::cipher::{KeyIvInit, StreamCipher};
use phalanx_kernels::aes::{BLOCK, Key, Level, counter_after, ctr_xor};

const KEYS: [usize; 3] = [16, 24, 32];

/// The room before and after the data, in bytes. It must not change.
const MARGIN: usize = 64;
const CANARY: u8 = 0xc5;

fn key_bytes(len: usize) -> Vec<u8> {
    paint(len + 7).split_off(7)
}

fn oracle(key: &[u8], counter: &[u8; BLOCK], data: &mut [u8]) {
    match key.len() {
        16 => ctr::Ctr128BE::<aes::Aes128>::new_from_slices(key, counter).unwrap().apply_keystream(data),
        24 => ctr::Ctr128BE::<aes::Aes192>::new_from_slices(key, counter).unwrap().apply_keystream(data),
        _ => ctr::Ctr128BE::<aes::Aes256>::new_from_slices(key, counter).unwrap().apply_keystream(data),
    }
}

/// Runs the level on `data`, `offset` bytes after an aligned address, and checks the bytes around them.
fn run(level: Level, key: &Key, counter: &[u8; BLOCK], data: &[u8], offset: usize) -> Vec<u8> {
    let mut room = vec![CANARY; 2 * MARGIN + data.len() + 64];
    let start = MARGIN + room.as_ptr().align_offset(64) % 64;
    let start = start - if start >= 64 + MARGIN { 64 } else { 0 } + offset % 64;
    let end = start + data.len();
    room.resize(end + MARGIN, CANARY);
    room[start..end].copy_from_slice(data);
    ctr_xor(level, key, counter, &mut room[start..end]);
    assert!(room[..start].iter().all(|b| *b == CANARY), "{level} wrote before the data");
    assert!(room[end..].iter().all(|b| *b == CANARY), "{level} wrote behind the data");
    room[start..end].to_vec()
}

#[test]
fn all_lengths_match_the_oracle() {
    // Up to 70 blocks, with all tails: more than two batches of the widest level.
    let counter = *b"\x00counter block\xff\xfe";
    let plain = paint(71 * BLOCK);
    for bytes in KEYS.map(key_bytes) {
        let key = Key::new(&bytes);
        let mut stream = plain.clone();
        oracle(&bytes, &counter, &mut stream);
        for level in Level::available() {
            for len in (0..plain.len()).step_by(STEP) {
                // Every length for the longest key, and for the others the lengths at the ends of blocks.
                if bytes.len() == 32 || len % BLOCK < 2 {
                    let got = run(level, &key, &counter, &plain[..len], len);
                    assert_eq!(got, stream[..len], "{level}, {} key bytes, {len} bytes", bytes.len());
                }
            }
        }
    }
}

#[test]
fn all_alignments_match_the_oracle() {
    let counter = [0x3c; BLOCK];
    let bytes = key_bytes(32);
    let key = Key::new(&bytes);
    for len in [1, 15, 16, 17, 63, 64, 65, 255, 511, 512, 513, 1024 + 77] {
        let plain = paint(len);
        let mut want = plain.clone();
        oracle(&bytes, &counter, &mut want);
        for level in Level::available() {
            for offset in (0..64).step_by(STEP.min(21)) {
                assert_eq!(run(level, &key, &counter, &plain, offset), want, "{level}, {len} bytes at offset {offset}");
            }
        }
    }
}

#[test]
fn counters_carry_at_every_place() {
    let plain = paint(70 * BLOCK + 5);
    for bytes in KEYS.map(key_bytes) {
        let key = Key::new(&bytes);
        // Carries out of the low 8, 16, 32 and 64 bits and out of the whole counter, at each place in the data.
        for limit in [1u128 << 8, 1 << 16, 1 << 32, 1 << 64, 5 << 64, 1 << 96, 0] {
            for before in (0..=71).step_by(if bytes.len() == 32 { STEP.min(40) } else { STEP.max(7) }) {
                let counter = limit.wrapping_sub(before).to_be_bytes();
                let mut want = plain.clone();
                oracle(&bytes, &counter, &mut want);
                for level in Level::available() {
                    assert_eq!(run(level, &key, &counter, &plain, 0), want, "{level}, {before} before {limit:x}");
                }
            }
        }
    }
}

#[test]
fn whole_slices_and_longer_data_match_the_oracle() {
    let mut random = Random(1);
    let bytes = key_bytes(32);
    let key = Key::new(&bytes);
    for len in [4096, 4097, 16 << 10, (32 << 10) - 1].into_iter().step_by(STEP) {
        let counter: [u8; BLOCK] = core::array::from_fn(|_| random.below(256) as u8);
        let plain = paint(len);
        let mut want = plain.clone();
        oracle(&bytes, &counter, &mut want);
        for level in Level::available() {
            let got = run(level, &key, &counter, &plain, random.below(64));
            assert!(got == want, "{level}, {len} bytes");
            assert!(run(level, &key, &counter, &got, 0) == plain, "{level} does not undo itself");
        }
    }
}

#[test]
fn calls_continue_each_other() {
    let key = Key::new(&key_bytes(32));
    let first = (u128::MAX - (3 << 64) - 100).to_be_bytes();
    let plain = paint(200 * BLOCK);
    for level in Level::available() {
        let whole = run(level, &key, &first, &plain, 0);
        let mut random = Random(2);
        let mut parts = plain.clone();
        let mut at = 0;
        while at < 200 {
            let blocks = (1 + random.below(40)).min(200 - at);
            let counter = counter_after(&first, at as u64);
            ctr_xor(level, &key, &counter, &mut parts[at * BLOCK..(at + blocks) * BLOCK]);
            at += blocks;
        }
        assert!(parts == whole, "{level}");
    }
}

#[test]
fn counter_after_wraps_around() {
    assert_eq!(counter_after(&[0xff; BLOCK], 1), [0; BLOCK]);
    assert_eq!(counter_after(&[0; BLOCK], u64::MAX), u128::from(u64::MAX).to_be_bytes());
}

#[test]
fn level_names_are_parsed() {
    for level in Level::ALL {
        assert_eq!(level.name().parse(), Ok(*level));
        assert_eq!(level.to_string(), level.name());
    }
    assert!("vaes".parse::<Level>().is_err());
    assert!(Level::detect().is_available());
    assert!(Level::available().eq(Level::ALL.iter().copied().filter(|l| l.is_available())));
}

#[test]
fn a_missing_level_is_refused() {
    for level in Level::ALL.iter().copied().filter(|l| !l.is_available()) {
        let key = Key::new(&[0; 32]);
        std::panic::catch_unwind(|| ctr_xor(level, &key, &[0; BLOCK], &mut [0; 64])).unwrap_err();
    }
}
