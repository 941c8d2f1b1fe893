//! C2SP's test vectors for age, run by the crate `age` as we build it, with our post-quantum keys, and by our own reading of
//! headers: `tests/data/cctv`.

use crate::outline::{NotASlot, Outline};
use crate::pq;
use age::armor::ArmoredReader;
use age::secrecy::SecretString;
use age::{DecryptError, Decryptor};
use phalanx_vectors::hex;
use sha2::{Digest, Sha256};
use std::collections::BTreeMap;
use std::io::Read;

/// The crate takes these, for files that an early version wrote. Our reading of headers refuses them.
const LENIENT: [&str; 2] = ["stanza_missing_body", "stanza_missing_final_line"];
/// The crate does not take armor with spaces before it. There is no armor in slots.
const STRICT: &str = "armor_whitespace_outside";

#[derive(Debug)]
enum Failure {
    Opening(DecryptError),
    /// In the armor or in the payload.
    Reading,
}

/// Opens a file to its end. Returns also the SHA-256 of what came out.
fn open(file: &[u8], identities: &[Box<dyn age::Identity>]) -> (Result<(), Failure>, String) {
    let mut released = Vec::new();
    let opened = Decryptor::new(ArmoredReader::new(file))
        .and_then(|file| file.decrypt(identities.iter().map(|identity| &**identity)))
        .map_err(Failure::Opening);
    let done = opened.and_then(|mut text| text.read_to_end(&mut released).map(drop).map_err(|_| Failure::Reading));
    (done, hex(&Sha256::digest(&released)))
}

/// What a vector names: keys of age, our post-quantum ones, and passphrases.
fn identities(head: &str) -> Vec<Box<dyn age::Identity>> {
    let of = |line: &str| -> Option<Box<dyn age::Identity>> {
        if let Some(text) = line.strip_prefix("passphrase: ") {
            let mut found = age::scrypt::Identity::new(SecretString::from(text));
            found.set_max_work_factor(22);
            return Some(Box::new(found));
        }
        let text = line.strip_prefix("identity: ")?;
        match pq::Identity::parse(text) {
            Some(own) => Some(Box::new(own)),
            None => Some(Box::new(text.parse::<age::x25519::Identity>().unwrap())),
        }
    };
    head.lines().filter_map(of).collect()
}

/// What our own reading of the header says, with a payload of the length that a slot has.
fn outlined(file: &[u8]) -> Result<(), NotASlot> {
    let mac = file.windows(5).position(|part| part == b"\n--- ");
    let end = mac.and_then(|mac| Some(mac + 2 + file[mac + 1..].iter().position(|byte| *byte == b'\n')?));
    let Some(end) = end else { return Outline::of(file).map(drop) };
    Outline::of(&[&file[..end], &[0; 64]].concat()).map(drop)
}

#[test]
fn all_vectors_have_their_results() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/cctv");
    let mut counts = BTreeMap::new();
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_str().unwrap();
        if name == "README.md" {
            continue;
        }
        let bytes = std::fs::read(&path).unwrap();
        let end = bytes.windows(2).position(|pair| pair == b"\n\n").unwrap();
        let (head, file) = (std::str::from_utf8(&bytes[..end]).unwrap(), &bytes[end + 2..]);
        let fields: BTreeMap<_, _> = head.lines().filter_map(|line| line.split_once(": ")).collect();
        let (expect, is_armored) = (fields["expect"], fields.contains_key("armored"));
        let (done, released) = open(file, &identities(head));
        match (expect, &done) {
            ("success", Ok(())) => assert_eq!(released, fields["payload"], "{name}"),
            ("payload failure", Err(_)) => {
                // What came out before the damage was right.
                if let Some(payload) = fields.get("payload") {
                    assert_eq!(released, *payload, "{name}");
                }
            }
            ("no match", Err(Failure::Opening(DecryptError::NoMatchingKeys | DecryptError::DecryptionFailed))) => {}
            ("HMAC failure", Err(Failure::Opening(DecryptError::InvalidMac))) => {}
            ("header failure", Err(Failure::Opening(_))) | ("armor failure", Err(_)) => {}
            ("header failure", Ok(())) if LENIENT.contains(&name) => {
                assert_eq!(outlined(file), Err(NotASlot::Malformed), "{name}");
            }
            ("success", Err(Failure::Opening(DecryptError::InvalidHeader))) if name == STRICT => {}
            (expect, done) => panic!("{name} expects {expect}: {done:?}"),
        }
        // Our reading refuses no header that is right, but for what no slot has. It leaves much to the crate.
        if !is_armored && matches!(expect, "success" | "no match" | "HMAC failure" | "payload failure") {
            let has_passphrase = file.windows(11).any(|part| part == b"\n-> scrypt ");
            let wanted = if has_passphrase { Err(NotASlot::Passphrase) } else { Ok(()) };
            assert_eq!(outlined(file), wanted, "{name}");
        }
        *counts.entry(expect.to_owned()).or_insert(0) += 1;
    }
    println!("CCTV: {counts:?}");
    assert_eq!(counts.values().sum::<usize>(), 123);
}
