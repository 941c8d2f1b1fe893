//! Chunks and messages (§2.3, §3, §7).

use crate::keys::{Authentication, Keys, message_keys};
use crate::modes::{ctr, gcm_decrypt, gcm_encrypt};
use crate::sha3::{kmac256, sha3_256, turboshake256};
use crate::{Error, array};

const CHUNK: &str = "phalanx v1 chunk";
const MESSAGE: &str = "phalanx v1 message";
/// The length of a message's slices (§1).
const MESSAGE_SLICE: usize = 4096;
/// The domain separation byte of the slices' TurboSHAKE256 (§3).
const SLICE_DOMAIN: u8 = 0x50;

/// The length of the slices of chunks of 2^`chunk_log2` bytes (§1).
pub fn slice_len(chunk_log2: u8) -> usize {
    4096.min((1 << chunk_log2) / 8)
}

/// Writes a chunk (§2.3, §3). `last` is the byte `final`: 1 for the last chunk, 0 for the others, anything for tests.
///
/// # Panics
/// If the nonce has another length than the suite's.
pub fn seal_chunk(keys: &Keys, chunk_log2: u8, index: u64, last: u8, nonce: &[u8], plaintext: &[u8]) -> Vec<u8> {
    seal(keys, CHUNK, slice_len(chunk_log2), &place(index, last), nonce, plaintext)
}

/// Reads a chunk (§2.3, §3). `None` if its tag is wrong.
pub fn open_chunk(keys: &Keys, chunk_log2: u8, index: u64, last: u8, chunk: &[u8]) -> Option<Vec<u8>> {
    open(keys, CHUNK, slice_len(chunk_log2), &place(index, last), chunk)
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
    seal(&keys, MESSAGE, MESSAGE_SLICE, &bound_ad(&keys, ad), nonce, plaintext)
}

/// Reads a message (§7).
///
/// # Panics
/// If the suite is unknown.
pub fn open_message(key: &[u8; 32], suite: u8, ad: &[u8], message: &[u8]) -> Result<Vec<u8>, Error> {
    let keys = message_keys(key, suite);
    open(&keys, MESSAGE, MESSAGE_SLICE, &bound_ad(&keys, ad), message).ok_or(Error::Altered)
}

/// The form in which a message's tag covers the associated data: GCM takes the data itself, KMAC takes its digest (§7).
fn bound_ad(keys: &Keys, ad: &[u8]) -> Vec<u8> {
    if keys.suite.authentication == Authentication::Gcm { ad.to_vec() } else { sha3_256(ad).to_vec() }
}

/// Nonce, tag and ciphertext. The tag also covers `bound`.
fn seal(keys: &Keys, label: &str, slice_len: usize, bound: &[u8], nonce: &[u8], plaintext: &[u8]) -> Vec<u8> {
    let (ciphertext, tag) = if keys.suite.authentication == Authentication::Gcm {
        let (ciphertext, tag) = gcm_encrypt(&keys.encrypt, &array(nonce), bound, plaintext);
        (ciphertext, tag.to_vec())
    } else {
        let ciphertext = ctr(&keys.encrypt, &array(nonce), plaintext);
        let tag = sha3_tag(keys, label, slice_len, bound, nonce, &ciphertext);
        (ciphertext, tag)
    };
    [nonce, &tag, &ciphertext].concat()
}

/// The plaintext of what [`seal`] returned. `None` if `sealed` is too short or its tag is wrong.
fn open(keys: &Keys, label: &str, slice_len: usize, bound: &[u8], sealed: &[u8]) -> Option<Vec<u8>> {
    let (head, ciphertext) = sealed.split_at_checked(keys.suite.overhead())?;
    let (nonce, tag) = head.split_at(keys.suite.nonce_len);
    if keys.suite.authentication == Authentication::Gcm {
        gcm_decrypt(&keys.encrypt, &array(nonce), bound, ciphertext, &array(tag))
    } else {
        let right = sha3_tag(keys, label, slice_len, bound, nonce, ciphertext) == tag;
        right.then(|| ctr(&keys.encrypt, &array(nonce), ciphertext))
    }
}

/// The tag of a chunk or message in the suites with SHA-3 (§3, §7).
fn sha3_tag(keys: &Keys, label: &str, slice_len: usize, bound: &[u8], nonce: &[u8], ciphertext: &[u8]) -> Vec<u8> {
    kmac256(&keys.mac, &[nonce, bound, &digests(keys, slice_len, ciphertext)].concat(), 256, label)
}

/// `D_0 ‖ … ‖ D_{m−1}`: the digest of each slice of a ciphertext (§3).
fn digests(keys: &Keys, slice_len: usize, ciphertext: &[u8]) -> Vec<u8> {
    let digest = |slice: &[u8]| match keys.suite.authentication {
        Authentication::TurboShake => array(&turboshake256(slice, SLICE_DOMAIN, 32)),
        _ => sha3_256(slice),
    };
    ciphertext.chunks(slice_len).flat_map(digest).collect()
}
