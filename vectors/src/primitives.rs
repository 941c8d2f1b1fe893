//! The tests of primitives, of the folder `primitives`: a type for each group of algorithms that have the same fields.
#![allow(missing_docs, reason = "README.md says what each field is")]

use crate::bytes::{Hex, painted};
use crate::load;
use serde::Deserialize;
use serde::de::DeserializeOwned;

/// All tests of a file. It must be about the algorithm that it is named after, and must have tests.
pub fn tests<T: DeserializeOwned>(name: &str) -> Vec<T> {
    let File { algorithm, source, tests } = load("primitives", name);
    assert_eq!(algorithm.to_lowercase(), name);
    assert!(!source.is_empty() && !tests.is_empty(), "{name} is empty");
    tests
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File<T> {
    algorithm: String,
    source: String,
    tests: Vec<T>,
}

/// `aes-128-ecb`, `aes-192-ecb` and `aes-256-ecb`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AesEcb {
    pub name: String,
    pub key: Hex,
    pub plaintext: Hex,
    pub ciphertext: Hex,
}

/// `aes-128-ctr`, `aes-192-ctr` and `aes-256-ctr`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AesCtr {
    pub name: String,
    pub key: Hex,
    pub counter: Hex,
    pub plaintext: Hex,
    pub ciphertext: Hex,
}

/// `aes-256-gcm`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AesGcm {
    pub name: String,
    pub key: Hex,
    pub iv: Hex,
    pub aad: Hex,
    pub plaintext: Option<Hex>,
    pub ciphertext: Hex,
    pub tag: Hex,
}

/// `aes-cmac`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AesCmac {
    pub name: String,
    pub key: Hex,
    pub message: Hex,
    pub tag: Hex,
}

/// `aes-siv`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AesSiv {
    pub name: String,
    pub key: Hex,
    pub associated_data: Vec<Hex>,
    pub plaintext: Option<Hex>,
    pub sealed: Hex,
}

/// `aes-kw`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AesKw {
    pub name: String,
    pub kek: Hex,
    pub wrapped: Hex,
    pub key: Option<Hex>,
}

/// `sha3-256`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Sha3 {
    pub name: String,
    pub message: Hex,
    pub digest: Hex,
}

/// `sha3-256-mct`: each of the digests is that of the one before it, hashed a thousand times. The first is that of the seed.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Sha3MonteCarlo {
    pub name: String,
    pub seed: Hex,
    pub digests: Vec<Hex>,
}

/// `cshake256`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Cshake {
    pub name: String,
    pub message: Hex,
    pub function: Hex,
    pub customization: Hex,
    pub output_bits: usize,
    pub output: Hex,
}

/// `kmac256`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Kmac {
    pub name: String,
    pub key: Hex,
    pub message: Hex,
    pub customization: Hex,
    pub output_bits: usize,
    pub output: Hex,
}

/// `turboshake256`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TurboShake {
    pub name: String,
    message: Option<Hex>,
    pattern_len: Option<usize>,
    pub domain: u8,
    pub output: Hex,
}

impl TurboShake {
    /// The message, written out or as a pattern.
    pub fn message(&self) -> Vec<u8> {
        match (&self.message, self.pattern_len) {
            (Some(message), None) => message.to_vec(),
            (None, Some(len)) => painted(0, len),
            _ => panic!("{}: message or pattern_len", self.name),
        }
    }
}

/// `argon2id`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Argon2id {
    pub name: String,
    pub password: Hex,
    pub salt: Hex,
    pub secret: Hex,
    pub ad: Hex,
    pub memory: u32,
    pub passes: u32,
    pub lanes: u8,
    pub output: Hex,
}
