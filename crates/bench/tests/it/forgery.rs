//! The attacks on SEFPS's layout that `crates/bench/README.md` describes. Its check is not authentication, and ECB
//! shows equal blocks. Phalanx's format resists the same attacks.

use phalanx_bench::measure::sefps::layout::{self, Kernels, Refused};
use phalanx_core::engine::{CpuEngine, Engine, Levels};
use phalanx_core::{
    Error, KeyId, KeySource, NewFile, Opener, Password, ProtectedFile, Recipient, Roster, SecretKey, Sink, Source,
    Suite,
};
use phalanx_host::file;
use phalanx_kernels::aes::{Key, Level, ctr_xor};
use std::io::{Seek, Write};
use std::sync::Arc;

const KNOWN: &[u8] = b"Pay 100 euro to Alice, and nothing at all to Mallory.";
const WANTED: &[u8] = b"Pay 1000000 euro to Mallory, nothing to Alice at all.";

/// The attack: known plaintext and ciphertext give the keystream, which encrypts another plaintext.
fn forge(ciphertext: &[u8], known: &[u8], wanted: &[u8]) -> Vec<u8> {
    ciphertext.iter().zip(known).zip(wanted).map(|((c, k), w)| c ^ k ^ w).collect()
}

/// Padding and digest need no key. The digest is the SHA3-256 of known bytes.
fn with_digest(plain: &[u8]) -> Vec<u8> {
    let mut file = plain.to_vec();
    layout::append_digest(&mut file);
    file
}

/// The paper's other mode. The paper does not specify where the counter is stored.
fn ctr_variant(secret: &[u8; 16], counter: &[u8; 16], file: &mut [u8]) {
    ctr_xor(Level::detect(), &Key::new(secret), counter, file);
}

#[test]
fn the_ctr_variant_is_forged_with_one_known_plaintext_and_its_check_passes() {
    let (secret, counter) = ([0x5e; 16], [0xc0; 16]);
    let mut stored = with_digest(KNOWN);
    ctr_variant(&secret, &counter, &mut stored);

    // The attacker does this without the key.
    let mut forged = forge(&stored, &with_digest(KNOWN), &with_digest(WANTED));

    // The receiver has the key, and checks the file.
    ctr_variant(&secret, &counter, &mut forged);
    assert_eq!(layout::strip_digest(&mut forged), Ok(()));
    assert_eq!(forged, WANTED);

    // The check does find a change by someone who does not know the plaintext.
    stored[0] ^= 1;
    ctr_variant(&secret, &counter, &mut stored);
    assert_eq!(layout::strip_digest(&mut stored), Err(Refused::NotAuthentic));
}

#[test]
fn the_ecb_layout_shows_equal_blocks() {
    let cipher = Kernels::new(Level::detect(), &[0x5e; 16]).unwrap();
    let plain = [*b"an equal block..", *b"another block...", *b"an equal block.."].concat();
    let mut file = plain.clone();
    layout::protect(&cipher, 1, &mut file);
    assert_eq!(file[..16], file[32..48]);
    assert_ne!(file[..16], file[16..32]);
    // Equal files give equal protected files.
    let mut again = plain;
    layout::protect(&cipher, 2, &mut again);
    assert_eq!(file, again);
}

#[test]
fn a_part_of_an_ecb_file_passes_as_a_file_of_its_own() {
    let cipher = Kernels::new(Level::detect(), &[0x5e; 16]).unwrap();
    // The attacker makes a file that begins with the plaintext of a protected file, and a victim protects it.
    let prepared = with_digest(WANTED);
    let mut file = [&prepared[..], b" and more that looks harmless"].concat();
    layout::protect(&cipher, 1, &mut file);
    file.truncate(prepared.len());
    layout::unprotect(&cipher, 1, &mut file).unwrap();
    assert_eq!(file, WANTED);
}

struct Holder(SecretKey);

impl KeySource for Holder {
    fn key(&self, _: &KeyId) -> phalanx_core::Result<Option<SecretKey>> {
        Ok(Some(self.0.clone()))
    }

    fn password(&self) -> phalanx_core::Result<Option<Password>> {
        Ok(None)
    }
}

fn roster() -> Roster {
    let engine: Arc<dyn Engine> = Arc::new(CpuEngine::serial(Levels::detect()));
    Roster::new(&[engine])
}

fn protect(key: &SecretKey, suite: Suite, plain: &[u8]) -> Vec<u8> {
    let new = NewFile::new(suite, &[Recipient::key(key)]).unwrap();
    let mut stored = Vec::new();
    let sink = Sink::Stream(Box::new(&mut stored));
    new.protect(&roster(), Source::stream(plain), sink, &()).unwrap();
    stored
}

fn unprotect(key: &SecretKey, stored: &[u8]) -> phalanx_core::Result<Vec<u8>> {
    let mut input = tempfile::tempfile().unwrap();
    input.write_all(stored).unwrap();
    input.rewind().unwrap();
    let opener = Opener::new(Holder(key.clone()), Default::default());
    let protected = ProtectedFile::open(file::source(&input).unwrap(), &opener)?;
    let mut plain = Vec::new();
    let sink = Sink::Stream(Box::new(&mut plain));
    protected.unprotect(&roster(), sink, &())?;
    Ok(plain)
}

#[test]
fn phalanx_refuses_the_same_forgery() {
    let key = SecretKey::from_slice(&[0x5e; 32]).unwrap();
    for &suite in Suite::ALL {
        let stored = protect(&key, suite, KNOWN);
        assert_eq!(unprotect(&key, &stored).unwrap(), KNOWN);
        // The last bytes are the ciphertext. The rest stays as it was.
        let (before, ciphertext) = stored.split_at(stored.len() - KNOWN.len());
        let forged = [before, &forge(ciphertext, KNOWN, WANTED)].concat();
        assert!(matches!(unprotect(&key, &forged), Err(Error::Altered { chunk: 0, .. })), "{}", suite.name());
    }
}

#[test]
fn phalanx_shows_no_equal_blocks_and_no_equal_files() {
    let key = SecretKey::from_slice(&[0x5e; 32]).unwrap();
    for &suite in Suite::ALL {
        let plain = [0; 64 * 16];
        let (one, other) = (protect(&key, suite, &plain), protect(&key, suite, &plain));
        let blocks = |stored: &[u8]| stored[stored.len() - plain.len()..].as_chunks::<16>().0.to_vec();
        let mut all = [blocks(&one), blocks(&other)].concat();
        let count = all.len();
        all.sort();
        all.dedup();
        assert_eq!(all.len(), count, "{}", suite.name());
    }
}
