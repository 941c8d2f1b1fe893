//! Every level of SHA3-256, KMAC256 and TurboSHAKE256 that this machine has, compared with the `sha3` and `tiny-keccak`
//! crates.

use crate::common::{Random, STEP, paint};
use phalanx_kernels::keccak::{
    DIGEST, Kmac256, Label, Level, MAX_LANES, RATE, key_block, kmac256_each, kmac256_many, sha3_256, sha3_256_each,
    sha3_256_many, turboshake256_each, turboshake256_many,
};
use sha3::Digest;
use std::cell::Cell;

fn sha3_oracle(message: &[u8]) -> [u8; DIGEST] {
    sha3::Sha3_256::digest(message).into()
}

fn kmac_oracle(key: &[u8], customization: &[u8], message: &[u8], out: &mut [u8]) {
    let mut kmac = tiny_keccak::Kmac::v256(key, customization);
    tiny_keccak::Hasher::update(&mut kmac, message);
    tiny_keccak::Hasher::finalize(kmac, out);
}

/// TurboSHAKE256 by RFC 9861, section 2.2, over the permutation of `tiny-keccak`.
fn turboshake_oracle(message: &[u8], domain: u8) -> [u8; DIGEST] {
    let mut padded = [message, &[domain]].concat();
    padded.resize(padded.len().next_multiple_of(RATE), 0);
    *padded.last_mut().unwrap() ^= 0x80;
    let mut state = [0; 25];
    for block in padded.chunks(RATE) {
        for (lane, bytes) in state.iter_mut().zip(block.as_chunks().0) {
            *lane ^= u64::from_le_bytes(*bytes);
        }
        tiny_keccak::keccakp(&mut state);
    }
    let bytes: Vec<u8> = state.iter().flat_map(|lane| lane.to_le_bytes()).collect();
    *bytes.first_chunk().unwrap()
}

fn sha3(level: Level, messages: &[&[u8]]) -> Vec<[u8; DIGEST]> {
    let mut out = vec![[0x5a; DIGEST]; messages.len()];
    sha3_256_many(level, messages, &mut out);
    out
}

fn turboshake<const D: u8>(level: Level, messages: &[&[u8]]) -> Vec<[u8; DIGEST]> {
    let mut out = vec![[0x5a; DIGEST]; messages.len()];
    turboshake256_many::<D>(level, messages, &mut out);
    out
}

fn kmac(level: Level, inputs: &[(&Kmac256, &[u8])]) -> Vec<[u8; DIGEST]> {
    let mut out = vec![[0x5a; DIGEST]; inputs.len()];
    kmac256_many(level, inputs, &mut out);
    out
}

/// Checks SHA3-256, TurboSHAKE256 and KMAC256 of these messages on every level, digest by digest.
fn check(messages: &[&[u8]], what: &str) {
    let keys: Vec<Kmac256> = (1..=3u8).map(|k| Kmac256::new(&[k; 32], b"a test")).collect();
    let digests: Vec<_> = messages.iter().map(|m| sha3_oracle(m)).collect();
    let turbo_digests: Vec<_> = messages.iter().map(|m| turboshake_oracle(m, 0x50)).collect();
    // Some keys are used several times in a row, so that some lanes share a key and others do not.
    let inputs: Vec<_> = messages.iter().enumerate().map(|(i, m)| (&keys[i / 5 % 3], *m)).collect();
    let tags: Vec<_> = inputs.iter().map(|(key, m)| key.tag(m)).collect();
    for level in Level::available() {
        assert!(sha3(level, messages) == digests, "SHA3-256 on {level}: {what}");
        assert!(turboshake::<0x50>(level, messages) == turbo_digests, "TurboSHAKE256 on {level}: {what}");
        assert!(kmac(level, &inputs) == tags, "KMAC256 on {level}: {what}");
    }
}

#[test]
fn sha3_of_one_input_matches_the_oracle() {
    let painted = paint(3 * RATE + 2);
    for len in (0..=3 * RATE + 1).step_by(STEP) {
        assert_eq!(sha3_256(&painted[..len]), sha3_oracle(&painted[..len]), "{len} bytes");
    }
}

/// Both ends of the range of domains, and values that share bits with the padding.
#[test]
fn turboshake_matches_the_oracle_for_all_domains() {
    fn all_lengths<const D: u8>() {
        let painted = paint(2 * RATE + 2);
        for level in Level::available() {
            for len in (0..=2 * RATE + 1).step_by(STEP) {
                let message = &painted[..len];
                let want = turboshake_oracle(message, D);
                assert_eq!(turboshake::<D>(level, &[message; 3]), [want; 3], "{level}, D = {D:#x}, {len} bytes");
            }
        }
    }
    all_lengths::<0x01>();
    all_lengths::<0x06>();
    all_lengths::<0x1f>();
    all_lengths::<0x40>();
    all_lengths::<0x50>();
    all_lengths::<0x7f>();
}

#[test]
fn kmac_of_one_input_matches_the_oracle() {
    let painted = paint(3 * RATE + 2);
    // Keys and customization strings that fill their blocks, and some that need two bytes for their length in bits.
    for (key, customization) in [(0, 0), (16, 4), (31, 31), (32, 32), (125, 122)] {
        let (key, customization) = (&painted[5..][..key], &painted[9..][..customization]);
        let kmac = Kmac256::new(key, customization);
        for len in (0..=3 * RATE + 1).step_by(STEP) {
            let mut want = [0; DIGEST];
            kmac_oracle(key, customization, &painted[..len], &mut want);
            assert_eq!(kmac.tag(&painted[..len]), want, "{len} bytes");
            let mut want = [0; 16];
            kmac_oracle(key, customization, &painted[..len], &mut want);
            assert_eq!(kmac.tag_128(&painted[..len]), want, "{len} bytes");
        }
        for len in (0..=130).step_by(STEP) {
            for out in [1, 16, 31, 32, 48, 64, RATE] {
                let (mut got, mut want) = ([0; RATE], [0; RATE]);
                kmac.derive(&painted[..len], &mut got[..out]);
                kmac_oracle(key, customization, &painted[..len], &mut want[..out]);
                assert_eq!(got, want, "{out} bytes out of {len}");
            }
        }
    }
}

/// Keys that are absorbed side by side, and outputs of all lengths in use.
#[test]
fn kmac_of_many_keys_matches_the_oracle() {
    fn each<const LEN: usize>(level: Level, label: &Label, inputs: &[Vec<u8>]) -> Vec<Vec<u8>> {
        let mut out = vec![Vec::new(); inputs.len()];
        let inputs = inputs.iter().map(|input| (label.unkeyed(), &input[..]));
        kmac256_each(level, inputs, |i, tag: &[u8; LEN]| out[i] = tag.to_vec());
        out
    }
    let label = Label::new(b"a test");
    let painted = paint(3 * RATE);
    let key = |i: usize| painted[i..i + 32].first_chunk().unwrap();
    for level in Level::available() {
        for count in [0, 1, 2, 7, 8, 9, 40].into_iter().filter(|count| STEP == 1 || *count < 9) {
            let input = |i: usize| {
                let mut block = [0x5a; RATE];
                key_block(key(i), &mut block);
                [&block[..], &painted[i..][..i * 7 % 290]].concat()
            };
            let inputs: Vec<_> = (0..count).map(input).collect();
            let outputs = [
                each::<32>(level, &label, &inputs),
                each::<48>(level, &label, &inputs),
                each::<56>(level, &label, &inputs),
                each::<64>(level, &label, &inputs),
            ];
            for (out, len) in outputs.iter().zip([32, 48, 56, 64]) {
                for (i, out) in out.iter().enumerate() {
                    let mut want = vec![0; len];
                    kmac_oracle(key(i), b"a test", &inputs[i][RATE..], &mut want);
                    assert_eq!(*out, want, "{level}: {len} bytes, {i} of {count}");
                }
            }
        }
    }
}

/// An input is taken when a lane is free for it, not before.
#[test]
fn inputs_are_taken_as_they_are_needed() {
    type Give<'a> = &'a mut dyn FnMut(usize, &[u8; DIGEST]);
    let painted = paint(50 * RATE);
    let input = |i: usize| &painted[..i % 9 * RATE];
    let check = |level: Level, oracle: fn(&[u8]) -> _, each: &dyn Fn(&mut dyn Iterator<Item = _>, Give)| {
        let (taken, given) = (Cell::new(0), Cell::new(0));
        let mut inputs = (0..100).map(|i| {
            assert!(taken.get() - given.get() < level.lanes(), "{level}");
            taken.set(taken.get() + 1);
            input(i)
        });
        each(&mut inputs, &mut |i, digest| {
            assert_eq!(*digest, oracle(input(i)), "{level}: {i}");
            given.set(given.get() + 1);
        });
        assert_eq!((taken.get(), given.get()), (100, 100));
    };
    for level in Level::available() {
        check(level, sha3_oracle, &|inputs, give| sha3_256_each(level, inputs, give));
        let oracle = |message: &[u8]| turboshake_oracle(message, 0x50);
        check(level, oracle, &|inputs, give| turboshake256_each::<0x50>(level, inputs, give));
    }
}

#[test]
fn all_lengths_in_lockstep_match_the_oracle() {
    let painted = paint(3 * RATE + MAX_LANES + 1);
    for len in (0..=3 * RATE + 1).step_by(STEP) {
        // Each lane has different bytes, so that mixed-up lanes are noticed.
        let messages: Vec<_> = (0..MAX_LANES).map(|i| &painted[i..i + len]).collect();
        check(&messages, &format!("{len} bytes"));
    }
}

#[test]
fn all_lengths_side_by_side_match_the_oracle() {
    let painted = paint(3 * RATE + 2);
    let messages: Vec<_> = (0..=3 * RATE + 1).step_by(STEP).map(|len| &painted[..len]).collect();
    check(&messages, "each length once, upwards");
    let messages: Vec<_> = messages.into_iter().rev().collect();
    check(&messages, "each length once, downwards");
}

#[test]
fn slices_with_a_short_last_one_match_the_oracle() {
    let painted = paint(17 * 4096 + 20);
    for count in (0..=2 * MAX_LANES + 1).step_by(STEP.min(5)) {
        for slice in [512, 4096].into_iter().step_by(STEP) {
            for last in [0, 1, RATE - 1, RATE, slice - 1, slice] {
                let len = (count * slice).saturating_sub(slice - last);
                // After one byte, so that nothing is aligned.
                let messages: Vec<_> = painted[1..1 + len].chunks(slice).collect();
                // All lengths for counts next to a multiple of the lanes. For other counts only one, because the
                // oracles are slow.
                if last == 1 || matches!(count, 1 | 4 | 5 | 8 | 9 | 16 | 17) && last != 0 {
                    check(&messages, &format!("{count} slices of {slice} bytes, the last of {last}"));
                }
            }
        }
    }
}

#[test]
fn all_counts_of_mixed_lengths_match_the_oracle() {
    let painted = paint(8 * RATE);
    let mut random = Random(3);
    for count in (0..=2 * MAX_LANES + 1).step_by(STEP.min(5)) {
        for _ in (0..8).step_by(STEP) {
            let messages: Vec<_> = (0..count)
                .map(|_| {
                    let (from, len) = (random.below(40), random.below(7 * RATE));
                    &painted[from..from + len]
                })
                .collect();
            check(
                &messages,
                &format!("{count} messages of lengths {:?}", messages.iter().map(|m| m.len()).collect::<Vec<_>>()),
            );
        }
    }
}

#[test]
fn thousands_of_inputs_match_the_oracle() {
    let painted = paint(4 * RATE);
    let mut random = Random(4);
    let messages: Vec<_> = (0..3000)
        .step_by(STEP)
        .map(|_| {
            // Mostly short, as messages are. Some end exactly at the end of a block.
            let len = match random.below(4) {
                0 => random.below(3 * RATE),
                1 => RATE * random.below(3) + RATE - 1 - random.below(5),
                _ => random.below(RATE),
            };
            let from = random.below(RATE);
            &painted[from..from + len]
        })
        .collect();
    check(&messages, "3000 messages");
}

#[test]
fn a_long_input_among_short_ones_matches_the_oracle() {
    let painted = paint(60 * RATE + 20);
    for place in (0..=MAX_LANES + 1).step_by(STEP) {
        let mut messages = vec![&painted[..10]; MAX_LANES + 2];
        messages[place] = &painted;
        check(&messages, &format!("long one at {place}"));
    }
}

#[test]
fn no_read_is_out_of_bounds() {
    // Each message ends at the end of its allocation, so that valgrind and the address sanitizer notice reads after it.
    let exact: Vec<Box<[u8]>> = (0..40).step_by(STEP.min(13)).map(|i| paint(i * 29).into()).collect();
    check(&exact.iter().map(|m| &m[..]).collect::<Vec<_>>(), "exact allocations");
}

#[test]
fn level_names_are_parsed() {
    for level in Level::ALL {
        assert_eq!(level.name().parse(), Ok(*level));
        assert_eq!(level.to_string(), level.name());
        assert!((1..=MAX_LANES).contains(&level.lanes()));
    }
    assert!("avx".parse::<Level>().is_err());
    assert!(Level::detect().is_available());
}

#[test]
fn a_missing_level_is_refused() {
    for level in Level::ALL.iter().copied().filter(|l| !l.is_available()) {
        std::panic::catch_unwind(|| sha3(level, &[b"x", b"y"])).unwrap_err();
        std::panic::catch_unwind(|| turboshake::<0x50>(level, &[b"x", b"y"])).unwrap_err();
    }
}
