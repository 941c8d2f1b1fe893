//! AES in ECB mode (SP 800-38A, section 6.1), which the published layout of SEFPS and other programs of the papers use.
//!
//! **Only for reproducing papers**: equal blocks of plaintext give equal blocks of ciphertext, and nothing is
//! authenticated. No format of Phalanx uses it.

use super::*;

/// An AES key with the key schedule of the equivalent inverse cipher (FIPS 197, section 5.3.5), wiped on drop.
#[derive(Clone)]
pub struct DecryptKey {
    key: Key,
    /// The round keys in the order of decryption, with InvMixColumns applied to all except the first and the last.
    inverse: Key,
}

impl DecryptKey {
    /// The schedule for decrypting what `key` encrypts. The time for this does not depend on the key's value.
    #[must_use]
    pub fn new(key: &Key) -> Self {
        let mut inverse = key.clone();
        for round in 0..=key.rounds {
            let round_key = &key.round_keys[key.rounds - round];
            let is_outer = round == 0 || round == key.rounds;
            inverse.round_keys[round] = if is_outer { *round_key } else { portable::inv_mix_columns(round_key) };
        }
        Self { key: key.clone(), inverse }
    }
}

impl fmt::Debug for DecryptKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.key.fmt(f)
    }
}

/// Encrypts `data` in place, each block of 16 bytes independently.
///
/// # Panics
/// If `data` is not whole blocks, or this machine does not have the level.
pub fn ecb_encrypt(level: Level, key: &Key, data: &mut [u8]) {
    let blocks = whole_blocks(level, data);
    match level {
        #[cfg(target_arch = "x86_64")]
        // SAFETY: is_available() found the instructions.
        Level::AesNi => unsafe { aesni::ecb::<false>(key, blocks) },
        #[cfg(target_arch = "x86_64")]
        // SAFETY: is_available() found the instructions.
        Level::Vaes256 => unsafe { vaes256::ecb::<false>(key, blocks) },
        #[cfg(target_arch = "x86_64")]
        // SAFETY: is_available() found the instructions.
        Level::Vaes512 => unsafe { vaes512::ecb::<false>(key, blocks) },
        #[cfg(target_arch = "aarch64")]
        // SAFETY: is_available() found the instructions.
        Level::Armv8 => unsafe { armv8::ecb::<false>(key, blocks) },
        _ => portable::ecb_encrypt(key, blocks),
    }
}

/// Decrypts `data` in place, each block of 16 bytes independently.
///
/// # Panics
/// If `data` is not whole blocks, or this machine does not have the level.
pub fn ecb_decrypt(level: Level, key: &DecryptKey, data: &mut [u8]) {
    let blocks = whole_blocks(level, data);
    match level {
        #[cfg(target_arch = "x86_64")]
        // SAFETY: is_available() found the instructions.
        Level::AesNi => unsafe { aesni::ecb::<true>(&key.inverse, blocks) },
        #[cfg(target_arch = "x86_64")]
        // SAFETY: is_available() found the instructions.
        Level::Vaes256 => unsafe { vaes256::ecb::<true>(&key.inverse, blocks) },
        #[cfg(target_arch = "x86_64")]
        // SAFETY: is_available() found the instructions.
        Level::Vaes512 => unsafe { vaes512::ecb::<true>(&key.inverse, blocks) },
        #[cfg(target_arch = "aarch64")]
        // SAFETY: is_available() found the instructions.
        Level::Armv8 => unsafe { armv8::ecb::<true>(&key.inverse, blocks) },
        _ => portable::ecb_decrypt(&key.key, blocks),
    }
}

fn whole_blocks(level: Level, data: &mut [u8]) -> &mut [[u8; BLOCK]] {
    assert!(level.is_available(), "this machine does not have the AES level {level}");
    let (blocks, rest) = data.as_chunks_mut();
    assert!(rest.is_empty(), "ECB takes whole blocks of {BLOCK} bytes");
    blocks
}
