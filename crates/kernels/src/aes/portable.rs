//! AES by the `aes` and `ctr` crates: bitsliced and without tables if the processor has no AES instructions.

use super::{BLOCK, Key};
use aes::hazmat;
#[cfg(feature = "papers")]
use ctr::cipher::{Array, BlockCipherDecrypt};
use ctr::cipher::{BlockCipherEncrypt, BlockSizeUser, consts::U16};
use ctr::cipher::{InnerIvInit, KeyInit, StreamCipher, StreamCipherCoreWrapper};
use zeroize::Zeroize;

/// The key schedule of FIPS 197, section 5.2, with `sub_word` as its SubWord.
#[inline]
pub(super) fn expand(key: &[u8], rounds: usize, sub_word: impl Fn([u8; 4]) -> [u8; 4]) -> [[u8; BLOCK]; 15] {
    let words = key.len() / 4;
    let mut round_keys = [[0; BLOCK]; 15];
    let w = round_keys.as_flattened_mut().as_chunks_mut::<4>().0;
    w.as_flattened_mut()[..key.len()].copy_from_slice(key);
    let mut rcon = 1u8;
    for i in words..4 * (rounds + 1) {
        let mut t = w[i - 1];
        if i % words == 0 {
            t.rotate_left(1);
            t = sub_word(t);
            t[0] ^= rcon;
            rcon = (rcon << 1) ^ ((rcon >> 7) * 0x1b);
        } else if words > 6 && i % words == 4 {
            t = sub_word(t);
        }
        w[i] = (u32::from_ne_bytes(w[i - words]) ^ u32::from_ne_bytes(t)).to_ne_bytes();
    }
    round_keys
}

/// SubWord without a table. ShiftRows does not change a block of four equal columns, so one round with a zero key,
/// followed by InvMixColumns, is SubBytes.
pub(super) fn sub_word(word: [u8; 4]) -> [u8; 4] {
    let mut block = hazmat::Block::default();
    block.as_chunks_mut::<4>().0.fill(word);
    hazmat::cipher_round(&mut block, &hazmat::Block::default());
    hazmat::inv_mix_columns(&mut block);
    let word = [block[0], block[1], block[2], block[3]];
    block.as_mut_slice().zeroize();
    word
}

pub(super) fn ctr_xor(key: &Key, counter: &[u8; BLOCK], data: &mut [u8]) {
    match key.rounds {
        10 => apply::<aes::Aes128Enc>(key, counter, data),
        12 => apply::<aes::Aes192Enc>(key, counter, data),
        _ => apply::<aes::Aes256Enc>(key, counter, data),
    }
}

fn apply<C>(key: &Key, counter: &[u8; BLOCK], data: &mut [u8])
where
    C: KeyInit + BlockCipherEncrypt + BlockSizeUser<BlockSize = U16>,
{
    let core = ctr::CtrCore::<C, ctr::flavors::Ctr128BE>::inner_iv_init(cipher::<C>(key), counter.into());
    StreamCipherCoreWrapper::from_core(core).apply_keystream(data);
}

#[cfg(feature = "papers")]
pub(super) fn ecb_encrypt(key: &Key, data: &mut [[u8; BLOCK]]) {
    let data = Array::cast_slice_from_core_mut(data);
    match key.rounds {
        10 => cipher::<aes::Aes128Enc>(key).encrypt_blocks(data),
        12 => cipher::<aes::Aes192Enc>(key).encrypt_blocks(data),
        _ => cipher::<aes::Aes256Enc>(key).encrypt_blocks(data),
    }
}

/// `key` is the key for encryption: the crate makes its own schedule for decryption.
#[cfg(feature = "papers")]
pub(super) fn ecb_decrypt(key: &Key, data: &mut [[u8; BLOCK]]) {
    let data = Array::cast_slice_from_core_mut(data);
    match key.rounds {
        10 => cipher::<aes::Aes128Dec>(key).decrypt_blocks(data),
        12 => cipher::<aes::Aes192Dec>(key).decrypt_blocks(data),
        _ => cipher::<aes::Aes256Dec>(key).decrypt_blocks(data),
    }
}

fn cipher<C: KeyInit>(key: &Key) -> C {
    C::new_from_slice(key.raw()).expect("Key::new checked the length")
}

/// InvMixColumns (FIPS 197, section 5.3.3) of a round key.
#[cfg(feature = "papers")]
pub(super) fn inv_mix_columns(round_key: &[u8; BLOCK]) -> [u8; BLOCK] {
    let mut block = hazmat::Block::from(*round_key);
    hazmat::inv_mix_columns(&mut block);
    let mixed = block.into();
    block.as_mut_slice().zeroize();
    mixed
}
