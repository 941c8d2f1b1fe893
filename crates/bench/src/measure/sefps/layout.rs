//! SEFPS's layout of a protected file (P1, section 3.1 and Algorithms 1 and 2), for study and reproduction only.
//!
//! For a file of X bytes let p = 16 − X mod 16. The layout is the file, p zero bytes, 16 bytes of value p, and the
//! SHA3-256 of all that. The whole is encrypted with AES in ECB mode.
//!
//! **This does not protect anything**: it shows equal blocks, and the digest does not authenticate
//! (`crates/bench/README.md`).

use crate::measure::Error;
use crate::measure::threads::each;
use phalanx_kernels::aes::{self, BLOCK};
use phalanx_kernels::keccak::{DIGEST, sha3_256};
use std::convert::Infallible;
use std::time::{Duration, Instant};
use subtle::ConstantTimeEq;

/// The shortest protected file in bytes: that of an empty file.
pub const SHORTEST: usize = 2 * BLOCK + DIGEST;

/// The length in bytes of the protected form of a file of `len` bytes, or `None` if it has none.
pub fn protected_len(len: usize) -> Option<usize> {
    len.checked_add(padding(len) + BLOCK + DIGEST)
}

/// How many zero bytes follow a file of `len` bytes: 1 to 16.
fn padding(len: usize) -> usize {
    BLOCK - len % BLOCK
}

/// AES over whole blocks, each by itself. It is called from several threads at once.
pub trait BlockCipher: Sync {
    /// Encrypts whole blocks in place.
    fn encrypt(&self, blocks: &mut [u8]);
    /// Decrypts whole blocks in place.
    fn decrypt(&self, blocks: &mut [u8]);
}

/// Phalanx's kernels. The key is wiped on drop.
pub struct Kernels {
    level: aes::Level,
    encrypt: aes::Key,
    decrypt: aes::DecryptKey,
}

impl Kernels {
    /// AES-128, AES-192 or AES-256 with a key of 16, 24 or 32 bytes. `None` with a key of another length.
    pub fn new(level: aes::Level, key: &[u8]) -> Option<Self> {
        let encrypt = matches!(key.len(), 16 | 24 | 32).then(|| aes::Key::new(key))?;
        Some(Self { level, decrypt: aes::DecryptKey::new(&encrypt), encrypt })
    }
}

impl BlockCipher for Kernels {
    fn encrypt(&self, blocks: &mut [u8]) {
        aes::ecb_encrypt(self.level, &self.encrypt, blocks);
    }

    fn decrypt(&self, blocks: &mut [u8]) {
        aes::ecb_decrypt(self.level, &self.decrypt, blocks);
    }
}

/// Why a file is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refused {
    /// No protected file has this length.
    Length,
    /// Digest or padding is wrong. The error does not say which.
    NotAuthentic,
}

impl From<Refused> for Error {
    fn from(refused: Refused) -> Self {
        Error::Program(format!("its own file is refused: {refused:?}"))
    }
}

/// The times of the parts.
#[derive(Clone, Copy, Debug, Default)]
pub struct Parts {
    /// AES, from the first thread's start to the last one's end.
    pub aes: Duration,
    /// SHA3-256, one stream on one thread, as in the paper.
    pub hash: Duration,
}

/// Protects the file in `file`, which grows by 49 to 64 bytes.
pub fn protect(cipher: &dyn BlockCipher, threads: usize, file: &mut Vec<u8>) -> Parts {
    let done = protect_by(file, |blocks| {
        in_parallel(threads, blocks, |part| cipher.encrypt(part));
        Ok::<(), Infallible>(())
    });
    match done {
        Ok(parts) => parts,
    }
}

/// Protects the file with all blocks encrypted by a function that can fail.
pub fn protect_by<E>(file: &mut Vec<u8>, encrypt: impl FnOnce(&mut [u8]) -> Result<(), E>) -> Result<Parts, E> {
    let started = Instant::now();
    append_digest(file);
    let hash = started.elapsed();
    let started = Instant::now();
    encrypt(file)?;
    Ok(Parts { aes: started.elapsed(), hash })
}

/// Gets back the file whose protected form is in `file`. If it is refused, the content of `file` must not be used.
pub fn unprotect(cipher: &dyn BlockCipher, threads: usize, file: &mut Vec<u8>) -> Result<Parts, Refused> {
    unprotect_by(file, |blocks| {
        in_parallel(threads, blocks, |part| cipher.decrypt(part));
        Ok(())
    })
}

/// Gets back the file with all blocks decrypted by a function that can fail.
pub fn unprotect_by<E: From<Refused>>(
    file: &mut Vec<u8>,
    decrypt: impl FnOnce(&mut [u8]) -> Result<(), E>,
) -> Result<Parts, E> {
    if file.len() < SHORTEST || !file.len().is_multiple_of(BLOCK) {
        return Err(Refused::Length.into());
    }
    let started = Instant::now();
    decrypt(file)?;
    let aes = started.elapsed();
    let started = Instant::now();
    strip_digest(file)?;
    Ok(Parts { aes, hash: started.elapsed() })
}

/// Appends padding and digest, which are then encrypted with the file.
pub fn append_digest(file: &mut Vec<u8>) {
    let padding = padding(file.len());
    file.reserve_exact(padding + BLOCK + DIGEST);
    file.resize(file.len() + padding, 0);
    file.resize(file.len() + BLOCK, padding as u8);
    file.extend_from_slice(&sha3_256(file));
}

/// Checks the digest in constant time, then the padding, and removes both.
///
/// # Panics
/// If `file` is shorter than [`SHORTEST`].
pub fn strip_digest(file: &mut Vec<u8>) -> Result<(), Refused> {
    let (padded, digest) = file.split_at(file.len() - DIGEST);
    if !bool::from(sha3_256(padded).ct_eq(digest)) {
        return Err(Refused::NotAuthentic);
    }
    let (zeros, lengths) = padded.split_at(padded.len() - BLOCK);
    let padding = lengths[0] as usize;
    let valid = (1..=BLOCK).contains(&padding)
        && lengths.iter().all(|b| *b == lengths[0])
        && zeros[zeros.len() - padding..].iter().all(|b| *b == 0);
    if !valid {
        return Err(Refused::NotAuthentic);
    }
    file.truncate(zeros.len() - padding);
    Ok(())
}

/// Gives each thread the same number of blocks. The first few take one more (Algorithm 1, lines 16 to 31).
pub(crate) fn in_parallel(threads: usize, data: &mut [u8], crypt: impl Fn(&mut [u8]) + Sync) {
    let parts = parts(threads, data);
    each(parts.len(), parts, crypt);
}

/// The part of each thread, but no empty ones. Only the last block may be incomplete.
pub(crate) fn parts(threads: usize, mut data: &mut [u8]) -> Vec<&mut [u8]> {
    let blocks = data.len().div_ceil(BLOCK);
    let mut parts = Vec::with_capacity(threads);
    for i in 0..threads {
        let (part, rest) = data.split_at_mut((share(blocks, threads, i) * BLOCK).min(data.len()));
        parts.push(part);
        data = rest;
    }
    parts.retain(|part| !part.is_empty());
    parts
}

/// The number of the `blocks` blocks that thread `i` of `threads` takes.
pub(crate) fn share(blocks: usize, threads: usize, i: usize) -> usize {
    blocks / threads + usize::from(i < blocks % threads)
}

#[cfg(test)]
mod tests {
    use super::share;

    #[test]
    fn blocks_are_divided_evenly_and_the_first_take_one_more() {
        assert_eq!([0, 1, 2, 3].map(|i| share(11, 4, i)), [3, 3, 3, 2]);
        for threads in 1..20 {
            for blocks in 0..100 {
                let shares: Vec<_> = (0..threads).map(|i| share(blocks, threads, i)).collect();
                assert_eq!(shares.iter().sum::<usize>(), blocks);
                assert!(shares.is_sorted_by(|a, b| a >= b) && shares[0] - shares[threads - 1] <= 1);
            }
        }
    }
}
