//! The kernels at each level of this machine, and the crates beside them: AES key wrap and AES-SIV. Keys and texts are
//! secret. Counters, lengths, labels and the names of functions are public.

use crate::inputs::Inputs::{self, Public, Secret};
use crate::inputs::same;
use crate::valgrind::{known, public, secret};
use crate::verdicts::{KEY_WRAP, SIV};
use aes_kw::{KeyInit, KwAes256};
use aes_siv::siv::Aes256Siv;
use phalanx_kernels::keccak::{self, Kmac256, Label, RATE};
use phalanx_kernels::{aes, base64};
use subtle::ConstantTimeEq;

/// Lengths around those of blocks, slices and registers, with batches of each size.
const LENGTHS: [usize; 14] = [0, 1, 15, 16, 17, 100, 128, 135, 136, 137, 271, 272, 300, 1109];

pub fn run() {
    aes::Level::available().for_each(ctr);
    key_schedule();
    keccak::Level::available().for_each(sponges);
    single_sponges();
    encoding();
    comparison();
    key_wrap();
    siv();
}

#[inline(never)]
fn ctr(level: aes::Level) {
    println!("AES-CTR {level}");
    // The low half of the counter wraps within the data. Counters are public: nonces are stored.
    let counter = (u128::from(u64::MAX) - 3).to_be_bytes();
    for (key_len, len) in [16, 24, 32].into_iter().flat_map(|key| LENGTHS.map(|len| (key, len))) {
        same(|inputs| {
            let key = aes::Key::new(&inputs.bytes(key_len, 3));
            let mut data = inputs.bytes(len, 40);
            aes::ctr_xor(level, &key, &counter, &mut data);
            data
        });
    }
}

#[inline(never)]
fn key_schedule() {
    for len in [16, 24, 32] {
        let key = aes::Key::new(&Secret.bytes(len, 9));
        // The schedule of the portable code. Whether both are equal is public: it says whether the machine works.
        assert!(known(key.is_right()));
    }
}

#[inline(never)]
fn sponges(level: keccak::Level) {
    println!("Keccak {level}");
    let texts = |inputs: Inputs| LENGTHS.map(|len| inputs.bytes(len, len));
    same(|inputs| {
        let texts = texts(inputs);
        let inputs = texts.each_ref().map(Vec::as_slice);
        let mut digests = [[0; 32]; LENGTHS.len()];
        keccak::sha3_256_many(level, &inputs, &mut digests);
        digests.concat()
    });
    same(|inputs| {
        let texts = texts(inputs);
        let inputs = texts.each_ref().map(Vec::as_slice);
        let mut digests = [[0; 32]; LENGTHS.len()];
        keccak::turboshake256_many::<0x50>(level, &inputs, &mut digests);
        digests.concat()
    });
    same(|inputs| {
        let texts = texts(inputs);
        let keys = LENGTHS.map(|len| Kmac256::new(&inputs.bytes(32, len), b"label"));
        let inputs: Vec<_> = keys.iter().zip(&texts).map(|(key, text)| (key, text.as_slice())).collect();
        let mut tags = vec![0; 64 * LENGTHS.len()];
        keccak::kmac256_each(level, inputs, |i, tag: &[u8; 64]| tags[64 * i..][..64].copy_from_slice(tag));
        tags
    });
}

/// One sponge alone, and what is derived by it.
#[inline(never)]
fn single_sponges() {
    let label = Label::new(b"label");
    for len in LENGTHS {
        same(|inputs| keccak::sha3_256(&inputs.bytes(len, 5)).to_vec());
        same(|inputs| {
            let kmac = label.key(&inputs.bytes(32, 6));
            [&kmac.tag(&inputs.bytes(len, 7))[..], &kmac.tag_128(&inputs.bytes(len, 7))].concat()
        });
    }
    for len in [1, 8, 31, 32, 48, 64, RATE] {
        same(|inputs| {
            let mut out = vec![0; len];
            label.key(&inputs.bytes(32, 6)).derive(&inputs.bytes(100, 8), &mut out);
            out
        });
    }
    same(|inputs| {
        let mut block = [0; RATE];
        keccak::key_block(inputs.bytes(32, 1)[..].first_chunk().expect("32 bytes"), &mut block);
        block.to_vec()
    });
}

/// Base64 of secrets, in both directions. Whether a text is base64 at all is public: its sender is told.
#[inline(never)]
fn encoding() {
    for len in [0, 1, 2, 3, 47, 48, 49, 200] {
        same(|inputs| {
            let mut text = vec![0; 4 * usize::div_ceil(len, 3)];
            base64::encode(&inputs.bytes(len, 11), &mut text);
            text
        });
        let mut text = vec![0; 4 * usize::div_ceil(len, 3)];
        base64::encode(&Public.bytes(len, 11), &mut text);
        let chars = text.iter().filter(|c| **c != b'=').count();
        let mut place = vec![0; len];
        secret(&mut text[..chars]);
        assert!(known(decodes(&text[..chars], &mut place)));
        public(&place);
        assert_eq!(place, Public.bytes(len, 11));
    }
}

#[inline(never)]
fn decodes(text: &[u8], place: &mut [u8]) -> bool {
    base64::decode(text, place) == Some(place.len())
}

/// The comparison of tags. Its verdict is public, and nothing else.
#[inline(never)]
fn comparison() {
    for len in [16, 32] {
        let tag = Secret.bytes(len, 1);
        for differs in 0..=len {
            let mut other = Public.bytes(len, 1);
            if let Some(byte) = other.get_mut(differs) {
                *byte ^= 0x10;
            }
            secret(&mut other);
            assert_eq!(known(tag.ct_eq(&other).into()), differs == len);
        }
    }
}

/// AES key wrap. What is wrapped is public after that: it is stored.
#[inline(never)]
fn key_wrap() {
    let wrapped = |key: &[u8], text: &[u8]| {
        let mut wrapped = vec![0; 40];
        KwAes256::new(key.try_into().expect("32 bytes")).wrap_key(text, &mut wrapped).expect("32 bytes wrap into 40");
        wrapped
    };
    same(|inputs| wrapped(&inputs.bytes(32, 1), &inputs.bytes(32, 2)));
    let mut stored = wrapped(&Public.bytes(32, 1), &Public.bytes(32, 2));
    for is_right in [true, false] {
        KEY_WRAP.expect(Secret, 1);
        assert_eq!(known(unwrap(&Secret.bytes(32, 1), &stored)), is_right);
        stored[17] ^= 1;
    }
}

#[inline(never)]
fn unwrap(key: &[u8], wrapped: &[u8]) -> bool {
    let mut text = [0; 32];
    KwAes256::new(key.try_into().expect("32 bytes")).unwrap_key(wrapped, &mut text).is_ok()
}

/// For the planted leak that is one verdict too many.
pub fn unwrap_uncounted(key: &[u8; 32]) {
    std::hint::black_box(unwrap(key, &[1; 40]));
}

fn cipher(key: &[u8]) -> Aes256Siv {
    Aes256Siv::new(key.try_into().expect("64 bytes"))
}

#[inline(never)]
fn seal(key: &[u8], text: &[u8]) -> Vec<u8> {
    cipher(key).encrypt([b"binding"], text).expect("few bindings")
}

#[inline(never)]
fn opens(key: &[u8], stored: &[u8]) -> bool {
    cipher(key).decrypt([b"binding"], stored).is_ok()
}

/// AES-SIV. Bindings and what is sealed are public: they are stored. Key and text are secret.
#[inline(never)]
fn siv() {
    for len in [0, 1, 15, 16, 17, 31, 33, 200] {
        same(|inputs| seal(&inputs.bytes(64, 1), &inputs.bytes(len, 2)));
        let mut stored = seal(&Public.bytes(64, 1), &Public.bytes(len, 2));
        for is_right in [true, false] {
            SIV.expect(Secret, 1);
            assert_eq!(known(opens(&Secret.bytes(64, 1), &stored)), is_right);
            stored[3] ^= 1;
        }
    }
}
