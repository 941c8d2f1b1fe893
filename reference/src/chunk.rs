//! Chunks and messages (§2.3, §3, §7).

use crate::keys::{Keys, message_keys};
use crate::modes::{ctr, gcm_decrypt, gcm_encrypt};
use crate::sha3::{kmac256, sha3_256};
use crate::{Error, SLICE, array};

const CHUNK: &str = "phalanx v1 chunk";
const MESSAGE: &str = "phalanx v1 message";

/// Writes a chunk (§2.3, §3). `last` is the byte `final`: 1 for the last chunk, 0 for the others, anything for tests.
///
/// # Panics
/// If the nonce has another length than the suite's.
pub fn seal_chunk(keys: &Keys, index: u64, last: u8, nonce: &[u8], plaintext: &[u8]) -> Vec<u8> {
    seal(keys, CHUNK, &place(index, last), nonce, plaintext)
}

/// Reads a chunk (§2.3, §3). `None` if its tag is wrong.
pub fn open_chunk(keys: &Keys, index: u64, last: u8, chunk: &[u8]) -> Option<Vec<u8>> {
    open(keys, CHUNK, &place(index, last), chunk)
}

/// `u64 i ‖ u8 final` (§3).
fn place(index: u64, last: u8) -> Vec<u8> {
    [&index.to_le_bytes()[..], &[last]].concat()
}

/// Writes a message (§7).
///
/// # Panics
/// If the suite is unknown, or the nonce has another length than the suite's.
pub fn seal_message(key: &[u8; 32], suite: u8, ad: &[u8], nonce: &[u8], plaintext: &[u8]) -> Vec<u8> {
    let keys = message_keys(key, suite);
    seal(&keys, MESSAGE, &bound_ad(&keys, ad), nonce, plaintext)
}

/// Reads a message (§7).
///
/// # Panics
/// If the suite is unknown.
pub fn open_message(key: &[u8; 32], suite: u8, ad: &[u8], message: &[u8]) -> Result<Vec<u8>, Error> {
    let keys = message_keys(key, suite);
    open(&keys, MESSAGE, &bound_ad(&keys, ad), message).ok_or(Error::Altered)
}

/// The form in which a message's tag covers the associated data: GCM takes the data itself, KMAC takes its digest (§7).
fn bound_ad(keys: &Keys, ad: &[u8]) -> Vec<u8> {
    if keys.suite.is_gcm { ad.to_vec() } else { sha3_256(ad).to_vec() }
}

/// Nonce, tag and ciphertext. The tag also covers `bound`.
fn seal(keys: &Keys, label: &str, bound: &[u8], nonce: &[u8], plaintext: &[u8]) -> Vec<u8> {
    let (ciphertext, tag) = if keys.suite.is_gcm {
        let (ciphertext, tag) = gcm_encrypt(&keys.encrypt, &array(nonce), bound, plaintext);
        (ciphertext, tag.to_vec())
    } else {
        let ciphertext = ctr(&keys.encrypt, &array(nonce), plaintext);
        let tag = sha3_tag(keys, label, bound, nonce, &ciphertext);
        (ciphertext, tag)
    };
    [nonce, &tag, &ciphertext].concat()
}

/// The plaintext of what [`seal`] returned. `None` if `sealed` is too short or its tag is wrong.
fn open(keys: &Keys, label: &str, bound: &[u8], sealed: &[u8]) -> Option<Vec<u8>> {
    let (head, ciphertext) = sealed.split_at_checked(keys.suite.overhead())?;
    let (nonce, tag) = head.split_at(keys.suite.nonce_len);
    if keys.suite.is_gcm {
        gcm_decrypt(&keys.encrypt, &array(nonce), bound, ciphertext, &array(tag))
    } else {
        let right = sha3_tag(keys, label, bound, nonce, ciphertext) == tag;
        right.then(|| ctr(&keys.encrypt, &array(nonce), ciphertext))
    }
}

/// The tag of a chunk or message in the suites with SHA-3 (§3, §7).
fn sha3_tag(keys: &Keys, label: &str, bound: &[u8], nonce: &[u8], ciphertext: &[u8]) -> Vec<u8> {
    kmac256(&keys.mac, &[nonce, bound, &digests(ciphertext)].concat(), 256, label)
}

/// `D_0 ‖ … ‖ D_{m−1}`: the digest of each slice of a ciphertext (§3).
fn digests(ciphertext: &[u8]) -> Vec<u8> {
    ciphertext.chunks(SLICE).flat_map(sha3_256).collect()
}
