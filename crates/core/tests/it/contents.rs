//! The contents by which a manifest knows a stored file.

use crate::common::{engines, painted};
use phalanx_core::format::Header;
use phalanx_core::tree::{Contents, LastChunk, Recorder};
use phalanx_core::{
    ChunkSize, Error, KdfLimit, NewFile, Opener, ProtectedFile, Recipient, Roster, SecretKey, Sink, Source, Suite, Ways,
};

const CHUNK: usize = 4096;

fn key() -> SecretKey {
    SecretKey::from_slice(&[42; 32]).unwrap()
}

fn new(suite: Suite) -> NewFile {
    NewFile::with_chunk_size(suite, ChunkSize::new(CHUNK as u64).unwrap(), &[Recipient::key(&key())]).unwrap()
}

fn protect(suite: Suite, plain: &[u8], roster: &Roster) -> (Vec<u8>, Contents) {
    let mut stored = Vec::new();
    let recorder = Recorder::new(&());
    new(suite).protect(roster, Source::ranged(plain), Sink::stream(&mut stored), &recorder).unwrap();
    (stored, recorder.contents().unwrap())
}

#[test]
fn contents_are_the_same_made_while_writing_while_opening_and_from_the_stored_file() {
    for engine in engines() {
        let roster = Roster::new(&[engine]);
        for &suite in Suite::ALL {
            for len in [0, 1, CHUNK, CHUNK + 1, 3 * CHUNK, 200 * CHUNK + 9] {
                let (stored, written) = protect(suite, &painted(len), &roster);
                let opener = Opener::new(key(), KdfLimit::default());
                let recorder = Recorder::new(&());
                let opened = ProtectedFile::open(Source::ranged(&stored[..]), &opener).unwrap();
                opened.unprotect(&roster, Sink::Nothing, &recorder).unwrap();
                assert_eq!(recorder.contents(), Some(written), "{len} bytes opened");
                assert_eq!(Contents::read(&stored).unwrap(), written, "{len} bytes stored");
                assert_eq!(LastChunk::read(&stored).unwrap(), (written.last, len as u64));
            }
        }
    }
}

#[test]
fn the_same_plaintext_written_again_has_other_contents() {
    for &suite in Suite::ALL {
        let plain = painted(3 * CHUNK);
        let (first, second) = (protect(suite, &plain, &Roster::cpu()).1, protect(suite, &plain, &Roster::cpu()).1);
        assert_ne!(first.last, second.last);
        assert_ne!(first.root, second.root);
    }
}

#[test]
fn each_byte_of_nonces_and_tags_is_in_the_root_and_the_last_ones_in_the_last_chunk() {
    for &suite in Suite::ALL {
        let (stored, contents) = protect(suite, &painted(2 * CHUNK + 5), &Roster::cpu());
        let header = Header::read(&mut &stored[..]).unwrap().bytes().len();
        for chunk in 0..3 {
            for byte in 0..suite.overhead() {
                let mut altered = stored.clone();
                altered[header + chunk * (CHUNK + suite.overhead()) + byte] ^= 1;
                let now = Contents::read(&altered).unwrap();
                assert_ne!(now.root, contents.root, "chunk {chunk}, byte {byte}");
                assert_eq!(now.last == contents.last, chunk < 2, "chunk {chunk}, byte {byte}");
            }
        }
    }
}

#[test]
fn contents_survive_a_change_of_keys() {
    let (mut stored, contents) = protect(Suite::default(), &painted(CHUNK + 5), &Roster::cpu());
    let opener = Opener::new(key(), KdfLimit::default());
    let mut ways = Ways::read(&mut Source::ranged(&stored[..]), &opener).unwrap();
    ways.add(&Recipient::key(&SecretKey::random().unwrap()));
    let header = ways.changed(&opener).unwrap();
    assert_ne!(header.bytes(), &stored[..header.bytes().len()]);
    stored[..header.bytes().len()].copy_from_slice(header.bytes());
    assert_eq!(Contents::read(&stored).unwrap(), contents);
}

#[test]
fn a_stored_file_of_an_impossible_length_has_no_contents() {
    let (stored, _) = protect(Suite::default(), &painted(2 * CHUNK), &Roster::cpu());
    let cut = &stored[..stored.len() - 2 * CHUNK - 48 - 1].to_vec();
    assert!(matches!(Contents::read(cut), Err(Error::Truncated(_))));
    assert!(matches!(LastChunk::read(cut), Err(Error::Truncated(_))));
    assert!(matches!(Contents::read(&b"something else".to_vec()), Err(Error::NotPhalanx)));
}
