//! Official vectors, `vectors/primitives`, on every level that this machine has. Miri takes a few of them.

use crate::common::STEP;
use phalanx_kernels::{aes, keccak};
use phalanx_vectors::primitives::{AesCtr, AesEcb, Kmac, Sha3, Sha3MonteCarlo, TurboShake, tests};

const AES: [(usize, &str); 3] = [(16, "128"), (24, "192"), (32, "256")];

#[test]
fn aes_ctr_matches_the_official_vectors() {
    for (key_len, bits) in AES {
        for test in tests::<AesCtr>(&format!("aes-{bits}-ctr")).into_iter().step_by(STEP) {
            assert_eq!(test.key.len(), key_len);
            let key = aes::Key::new(&test.key);
            for level in aes::Level::available() {
                let mut data = test.plaintext.to_vec();
                aes::ctr_xor(level, &key, &test.counter.array(), &mut data);
                assert_eq!(data, *test.ciphertext, "{} on {level}", test.name);
            }
        }
    }
}

#[test]
fn aes_ecb_matches_the_official_vectors() {
    for (key_len, bits) in AES {
        for test in tests::<AesEcb>(&format!("aes-{bits}-ecb")).into_iter().step_by(STEP) {
            assert_eq!(test.key.len(), key_len);
            let key = aes::Key::new(&test.key);
            let (plain, cipher) = (&*test.plaintext, &*test.ciphertext);
            assert_eq!(plain.len(), cipher.len());
            let inverse = aes::DecryptKey::new(&key);
            for level in aes::Level::available() {
                let mut data = plain.to_vec();
                aes::ecb_encrypt(level, &key, &mut data);
                assert_eq!(data, *cipher, "{} on {level}", test.name);
                aes::ecb_decrypt(level, &inverse, &mut data);
                assert_eq!(data, *plain, "{} on {level}", test.name);
                // The block is the counter, and the data are zeros: counter mode uses the same cipher.
                for (plain, cipher) in plain.as_chunks().0.iter().zip(cipher.as_chunks::<{ aes::BLOCK }>().0) {
                    let mut data = [0; aes::BLOCK];
                    aes::ctr_xor(level, &key, plain, &mut data);
                    assert_eq!(data, *cipher, "{} on {level}", test.name);
                }
            }
        }
    }
}

#[test]
fn sha3_256_matches_the_official_vectors() {
    let tests: Vec<_> = tests::<Sha3>("sha3-256").into_iter().step_by(STEP).collect();
    let messages: Vec<&[u8]> = tests.iter().map(|test| &test.message[..]).collect();
    for level in keccak::Level::available() {
        // All of them at once, and each in all lanes.
        let mut out = vec![[0; keccak::DIGEST]; messages.len()];
        keccak::sha3_256_many(level, &messages, &mut out);
        for ((test, message), out) in tests.iter().zip(&messages).zip(out) {
            assert_eq!(out[..], *test.digest, "{} on {level}", test.name);
            let mut out = [[0; keccak::DIGEST]; keccak::MAX_LANES];
            keccak::sha3_256_many(level, &[*message; keccak::MAX_LANES], &mut out);
            assert!(out.iter().all(|o| o[..] == *test.digest), "{} on {level}", test.name);
        }
    }
}

/// NIST's Monte Carlo test: a hundred thousand digests in a row, in all lanes.
#[test]
#[cfg_attr(miri, ignore = "a hundred thousand digests in a row")]
fn sha3_256_passes_the_monte_carlo_test() {
    for test in tests::<Sha3MonteCarlo>("sha3-256-mct") {
        assert_eq!(test.digests.len(), 100);
        for level in keccak::Level::available() {
            let mut lanes = [test.seed.array::<{ keccak::DIGEST }>(); keccak::MAX_LANES];
            for (i, digest) in test.digests.iter().enumerate() {
                for _ in 0..1000 {
                    let before = lanes;
                    keccak::sha3_256_many(level, &before.each_ref().map(|lane| &lane[..]), &mut lanes);
                }
                assert!(lanes.iter().all(|lane| lane[..] == **digest), "{}, digest {i} on {level}", test.name);
            }
        }
    }
}

#[test]
fn turboshake256_matches_the_official_vectors() {
    type Many = fn(keccak::Level, &[&[u8]], &mut [[u8; keccak::DIGEST]]);

    for test in tests::<TurboShake>("turboshake256").into_iter().step_by(STEP.min(10)) {
        let many: Many = match test.domain {
            0x01 => keccak::turboshake256_many::<0x01>,
            0x06 => keccak::turboshake256_many::<0x06>,
            0x07 => keccak::turboshake256_many::<0x07>,
            0x0b => keccak::turboshake256_many::<0x0b>,
            0x1f => keccak::turboshake256_many::<0x1f>,
            0x30 => keccak::turboshake256_many::<0x30>,
            0x50 => keccak::turboshake256_many::<0x50>,
            0x7f => keccak::turboshake256_many::<0x7f>,
            _ => panic!("{}: an unknown domain", test.name),
        };
        let message = test.message();
        // The kernels give the first 32 of its 64 bytes.
        let want = &*test.output;
        assert_eq!(want.len(), 64);
        for level in keccak::Level::available() {
            let mut out = vec![[0; keccak::DIGEST]; level.lanes()];
            many(level, &vec![&message[..]; level.lanes()], &mut out);
            assert!(out.iter().all(|o| o[..] == want[..keccak::DIGEST]), "{} on {level}", test.name);
        }
    }
}

#[test]
fn kmac256_matches_the_official_vectors() {
    // NIST's samples have an output of 512 bits: `derive` gives it, for messages that fit its block.
    let mut checked = 0;
    for test in tests::<Kmac>("kmac256").into_iter().step_by(STEP.min(20)) {
        let (message, want) = (&*test.message, &*test.output);
        assert_eq!(test.output_bits, want.len() * 8);
        let kmac = keccak::Kmac256::new(&test.key, &test.customization);
        if message.len() <= 130 {
            let mut out = vec![0; want.len()];
            kmac.derive(message, &mut out);
            assert_eq!(out, *want, "{}", test.name);
            checked += 1;
        }
        if want.len() == keccak::DIGEST {
            for level in keccak::Level::available() {
                let mut out = [[0; keccak::DIGEST]; keccak::MAX_LANES];
                keccak::kmac256_many(level, &[(&kmac, message); keccak::MAX_LANES], &mut out);
                assert!(out.iter().all(|o| o[..] == *want), "{} on {level}", test.name);
            }
            checked += 1;
        }
    }
    assert!(checked > 0);
}
