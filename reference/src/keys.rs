//! Suites, the keys derived for files and messages, and the header tag (§2.2, §3, §7).

use crate::sha3::kmac256;
use crate::{TAG_LEN, array};

const FILE_KEYS: &str = "phalanx v1 file keys";
const MESSAGE_KEYS: &str = "phalanx v1 message keys";
const HEADER: &str = "phalanx v1 header";

/// A suite's lengths in bytes (§2.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Suite {
    /// The length of the AES key.
    pub aes_key_len: usize,
    /// The length of a chunk's or message's nonce.
    pub nonce_len: usize,
    /// The length of a chunk's or message's tag.
    pub tag_len: usize,
    /// What authenticates.
    pub authentication: Authentication,
}

/// What authenticates chunks and messages (§2.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Authentication {
    /// KMAC256 of the slices' SHA3-256 digests. The cipher is AES-CTR.
    Sha3,
    /// KMAC256 of the slices' TurboSHAKE256 digests. The cipher is AES-CTR.
    TurboShake,
    /// AES-GCM itself.
    Gcm,
}

impl Suite {
    /// The suite with this number (§2.2). `None` if it is unknown.
    pub fn of(suite: u8) -> Option<Self> {
        let ctr = |aes_key_len, authentication| Self { aes_key_len, nonce_len: 16, tag_len: 32, authentication };
        match suite {
            1 => Some(ctr(32, Authentication::Sha3)),
            2 => Some(ctr(24, Authentication::Sha3)),
            3 => Some(ctr(16, Authentication::Sha3)),
            4 => Some(Self { aes_key_len: 32, nonce_len: 12, tag_len: 16, authentication: Authentication::Gcm }),
            5 => Some(ctr(32, Authentication::TurboShake)),
            _ => None,
        }
    }

    /// The length of the nonce and tag before the ciphertext of a chunk or message (§2.3).
    pub fn overhead(&self) -> usize {
        self.nonce_len + self.tag_len
    }
}

/// The keys that encrypt and authenticate chunks or messages (§3, §7).
#[derive(Clone, Debug)]
pub struct Keys {
    /// The suite that the keys are for.
    pub suite: Suite,
    /// `K_encrypt`, of 32, 24 or 16 bytes.
    pub encrypt: Vec<u8>,
    /// `K_mac`.
    pub mac: [u8; 32],
}

/// The keys of a file (§3).
pub fn file_keys(file_key: &[u8; 32], suite: u8) -> Keys {
    derive_keys(file_key, suite, FILE_KEYS)
}

/// The keys of messages (§7).
pub fn message_keys(key: &[u8; 32], suite: u8) -> Keys {
    derive_keys(key, suite, MESSAGE_KEYS)
}

fn derive_keys(key: &[u8; 32], suite: u8, label: &str) -> Keys {
    let shape = Suite::of(suite).expect("a known suite");
    let both = kmac256(key, &[suite], 8 * shape.aes_key_len + 256, label);
    let (encrypt, mac) = both.split_at(shape.aes_key_len);
    Keys { suite: shape, encrypt: encrypt.to_vec(), mac: array(mac) }
}

/// The header tag, which covers all bytes of the header before it (§3).
pub fn header_tag(keys: &Keys, header_before_tag: &[u8]) -> [u8; TAG_LEN] {
    array(&kmac256(&keys.mac, header_before_tag, 256, HEADER))
}
