//! Official vectors, `vectors/primitives`, on every level that this machine has.

use crate::common::paint;
use phalanx_kernels::{aes, keccak};
use serde_json::Value;

/// The tests of one file, which must be there and not be empty.
fn tests(file: &str, algorithm: &str) -> Vec<Value> {
    let path = format!("{}/../../vectors/primitives/{file}.json", env!("CARGO_MANIFEST_DIR"));
    let text = std::fs::read_to_string(&path).unwrap_or_else(|e| panic!("{path}: {e}"));
    let mut file: Value = serde_json::from_str(&text).unwrap_or_else(|e| panic!("{path}: {e}"));
    assert_eq!(file["algorithm"], algorithm, "{path}");
    let Value::Array(tests) = file["tests"].take() else { panic!("{path} has no tests") };
    assert!(!tests.is_empty(), "{path} has no tests");
    tests
}

fn bytes(test: &Value, field: &str) -> Vec<u8> {
    let hex = test[field].as_str().unwrap_or_else(|| panic!("{} has no {field}", test["name"]));
    assert!(hex.len().is_multiple_of(2), "{}: {field}", test["name"]);
    (0..hex.len()).step_by(2).map(|i| u8::from_str_radix(&hex[i..i + 2], 16).unwrap()).collect()
}

const AES: [(usize, &str); 3] = [(16, "128"), (24, "192"), (32, "256")];

#[test]
fn aes_ctr() {
    for (key_len, bits) in AES {
        for test in tests(&format!("aes-{bits}-ctr"), &format!("AES-{bits}-CTR")) {
            let key = bytes(&test, "key");
            assert_eq!(key.len(), key_len);
            let key = aes::Key::new(&key);
            let counter = bytes(&test, "counter").try_into().unwrap();
            for level in aes::Level::available() {
                let mut data = bytes(&test, "plaintext");
                aes::ctr_xor(level, &key, &counter, &mut data);
                assert_eq!(data, bytes(&test, "ciphertext"), "{} on {level}", test["name"]);
            }
        }
    }
}

#[test]
fn aes_ecb() {
    for (key_len, bits) in AES {
        for test in tests(&format!("aes-{bits}-ecb"), &format!("AES-{bits}-ECB")) {
            let key = bytes(&test, "key");
            assert_eq!(key.len(), key_len);
            let key = aes::Key::new(&key);
            let (plain, cipher) = (bytes(&test, "plaintext"), bytes(&test, "ciphertext"));
            assert_eq!(plain.len(), cipher.len());
            let inverse = aes::DecryptKey::new(&key);
            for level in aes::Level::available() {
                let mut data = plain.clone();
                aes::ecb_encrypt(level, &key, &mut data);
                assert_eq!(data, cipher, "{} on {level}", test["name"]);
                aes::ecb_decrypt(level, &inverse, &mut data);
                assert_eq!(data, plain, "{} on {level}", test["name"]);
                // The block is the counter, and the data are zeros: counter mode uses the same cipher.
                for (plain, cipher) in plain.as_chunks().0.iter().zip(cipher.as_chunks::<{ aes::BLOCK }>().0) {
                    let mut data = [0; aes::BLOCK];
                    aes::ctr_xor(level, &key, plain, &mut data);
                    assert_eq!(data, *cipher, "{} on {level}", test["name"]);
                }
            }
        }
    }
}

#[test]
fn sha3_256() {
    let tests = tests("sha3-256", "SHA3-256");
    let messages: Vec<_> = tests.iter().map(|t| bytes(t, "message")).collect();
    let messages: Vec<&[u8]> = messages.iter().map(|m| &m[..]).collect();
    for level in keccak::Level::available() {
        // All of them at once, and each in all lanes.
        let mut out = vec![[0; keccak::DIGEST]; messages.len()];
        keccak::sha3_256_many(level, &messages, &mut out);
        for ((test, message), out) in tests.iter().zip(&messages).zip(out) {
            let want = bytes(test, "digest");
            assert_eq!(out[..], want, "{} on {level}", test["name"]);
            let mut out = [[0; keccak::DIGEST]; keccak::MAX_LANES];
            keccak::sha3_256_many(level, &[*message; keccak::MAX_LANES], &mut out);
            assert!(out.iter().all(|o| o[..] == want), "{} on {level}", test["name"]);
        }
    }
}

#[test]
fn turboshake256() {
    type Many = fn(keccak::Level, &[&[u8]], &mut [[u8; keccak::DIGEST]]);

    for test in tests("turboshake256", "TurboSHAKE256") {
        let many: Many = match test["domain"].as_u64() {
            Some(0x01) => keccak::turboshake256_many::<0x01>,
            Some(0x06) => keccak::turboshake256_many::<0x06>,
            Some(0x07) => keccak::turboshake256_many::<0x07>,
            Some(0x0b) => keccak::turboshake256_many::<0x0b>,
            Some(0x1f) => keccak::turboshake256_many::<0x1f>,
            Some(0x30) => keccak::turboshake256_many::<0x30>,
            Some(0x50) => keccak::turboshake256_many::<0x50>,
            Some(0x7f) => keccak::turboshake256_many::<0x7f>,
            _ => panic!("{}: an unknown domain", test["name"]),
        };
        let message = match test["pattern_len"].as_u64() {
            Some(len) => paint(len as usize),
            None => bytes(&test, "message"),
        };
        // The kernels give the first 32 of its 64 bytes.
        let want = bytes(&test, "output");
        assert_eq!(want.len(), 64);
        for level in keccak::Level::available() {
            let mut out = vec![[0; keccak::DIGEST]; level.lanes()];
            many(level, &vec![&message[..]; level.lanes()], &mut out);
            assert!(out.iter().all(|o| o[..] == want[..keccak::DIGEST]), "{} on {level}", test["name"]);
        }
    }
}

#[test]
fn kmac256() {
    // NIST's samples have an output of 512 bits: `derive` gives it, for messages that fit its block.
    let mut checked = 0;
    for test in tests("kmac256", "KMAC256") {
        let (message, want) = (bytes(&test, "message"), bytes(&test, "output"));
        assert_eq!(test["output_bits"], want.len() * 8);
        let kmac = keccak::Kmac256::new(&bytes(&test, "key"), &bytes(&test, "customization"));
        if message.len() <= 130 {
            let mut out = vec![0; want.len()];
            kmac.derive(&message, &mut out);
            assert_eq!(out, want, "{}", test["name"]);
            checked += 1;
        }
        if want.len() == keccak::DIGEST {
            for level in keccak::Level::available() {
                let mut out = [[0; keccak::DIGEST]; keccak::MAX_LANES];
                keccak::kmac256_many(level, &[(&kmac, &message[..]); keccak::MAX_LANES], &mut out);
                assert!(out.iter().all(|o| o[..] == want), "{} on {level}", test["name"]);
            }
            checked += 1;
        }
    }
    assert!(checked > 0);
}
