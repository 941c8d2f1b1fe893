//! Signatures, files of signers and private keys, any bytes and altered ones: only the sound signature is one of the text, what is
//! read is written as it was, and a key that is read makes valid signatures.
#![no_main]

use libfuzzer_sys::fuzz_target;
use phalanx_age::Nobody;
use phalanx_age::signing::{PublicKey, Signature, Signers, SigningKey};
use phalanx_fuzz::Steer;
use std::sync::LazyLock;

const TEXT: &str = "phalanx signed file 1\n";
const KEY: &str = include_str!("../../crates/age/tests/data/ssh-ed25519");
const PUBLIC: &str = include_str!("../../crates/age/tests/data/ssh-ed25519.pub");

fuzz_target!(|data: &[u8]| {
    static SOUND: LazyLock<Signature> = LazyLock::new(|| {
        let key = SigningKey::read("key", KEY.as_bytes(), &Nobody, None).expect("a key");
        key.sign(TEXT).expect("a signature")
    });
    let mut steer = Steer(data);
    match steer.byte() % 6 {
        0 => signature(steer.0, &SOUND),
        1 => signature(&altered(&SOUND.armored(), &mut steer), &SOUND),
        2 => signers(&String::from_utf8_lossy(steer.0), &SOUND),
        3 => {
            signers(&String::from_utf8_lossy(&altered(&format!("a valid-after=\"2024\" {PUBLIC}"), &mut steer)), &SOUND)
        }
        4 => private(steer.0),
        _ => private(&altered(KEY, &mut steer)),
    }
});

fn signature(bytes: &[u8], sound: &Signature) {
    let Ok(found) = Signature::read(bytes) else { return };
    assert_eq!(Signature::read(found.armored().as_bytes()).as_ref(), Ok(&found));
    assert_eq!(found.check(TEXT).is_ok(), found == *sound);
}

fn signers(text: &str, sound: &Signature) {
    if let Ok(listing) = Signers::parse(text) {
        let _ = listing.signers.name(sound.key(), sound.was_touched(), 1_700_000_000);
    }
    let mut signers = Signers::default();
    let _ = signers.revoke(text.as_bytes());
    let _ = PublicKey::parse(text);
}

fn private(bytes: &[u8]) {
    if let Ok(key) = SigningKey::read("key", bytes, &Nobody, None) {
        assert_eq!(key.sign(TEXT).expect("a signature").check(TEXT), Ok(()));
    }
}

/// A text with some characters changed, removed, repeated or added.
fn altered(sound: &str, steer: &mut Steer) -> Vec<u8> {
    let mut text = sound.as_bytes().to_vec();
    for _ in 0..=steer.below(4) {
        let (from, to) = (steer.below(text.len() + 1), steer.below(text.len() + 1));
        let (from, to) = (from.min(to), from.max(to));
        match steer.byte() % 4 {
            0 => drop(text.drain(from..to)),
            1 => {
                let piece = text[from..to].to_vec();
                text.splice(from..from, piece);
            }
            2 if from < text.len() => text[from] = steer.byte(),
            _ => text.insert(from, steer.byte()),
        }
    }
    text
}
