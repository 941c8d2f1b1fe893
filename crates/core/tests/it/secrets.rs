//! Secrets are not shown, and nonces are not repeated.

use crate::common::{engines, painted};
use phalanx_core::batch::{self, BehindRoom, Message};
use phalanx_core::{ChunkSize, NewFile, Password, Recipient, Roster, SecretKey, Sink, Source, Suite};
use std::collections::HashSet;
use std::fmt::Debug;
use std::sync::Arc;

#[test]
fn debug_shows_no_secret() {
    // The byte 167 is a7 in hexadecimal. Nothing else here has either in its name.
    let key = SecretKey::from_slice(&[0xa7; 32]).unwrap();
    let check = |what: &str, value: &dyn Debug| {
        let text = format!("{value:?} {value:#?}").to_lowercase();
        assert!(!text.contains("167") && !text.contains("a7"), "{what}: {text}");
    };
    check("a key", &key);
    check("a password", &Password::new(vec![0xa7; 20]));
    check("what wraps keys", &key.wrapping_key());
    for &suite in Suite::ALL {
        check("keys of a file", &key.file_keys(suite));
        check("keys of chunks", key.file_keys(suite).content());
        check("keys of messages", &key.message_keys(suite));
        check("a new file", &NewFile::new(suite, &[Recipient::key(&key)]).unwrap());
    }
    check("a message", &Message::to_open(&key, b"ad", &mut [0xa7; 90]));
}

/// The nonces of a file's chunks.
fn nonces(stored: &[u8], suite: Suite, plain: usize) -> Vec<Vec<u8>> {
    const CHUNK: usize = 4096;
    let header = stored.len() - plain - plain.div_ceil(CHUNK) * suite.overhead();
    let len = suite.overhead() - suite.tag_len();
    stored[header..].chunks(CHUNK + suite.overhead()).map(|record| record[..len].to_vec()).collect()
}

#[test]
fn no_nonce_occurs_twice() {
    let key = SecretKey::from_slice(&[3; 32]).unwrap();
    let plain = painted(300 * 4096 + 5);
    for (engine, &suite) in engines().into_iter().flat_map(|engine| Suite::ALL.iter().map(move |s| (engine.clone(), s)))
    {
        let roster = Roster::new(&[engine]);
        let mut seen = HashSet::new();
        for _ in 0..2 {
            let new = NewFile::with_chunk_size(suite, ChunkSize::new(4096).unwrap(), &[Recipient::key(&key)]).unwrap();
            let mut stored = Vec::new();
            new.protect(&roster, Source::stream(&plain[..]), Sink::Stream(Box::new(&mut stored)), &()).unwrap();
            let found = nonces(&stored, suite, plain.len());
            assert_eq!(found.len(), 301);
            for nonce in found {
                assert!(seen.insert(nonce), "{suite:?}");
            }
        }
        // Messages, under one key and in several calls.
        let shared = Arc::new(key.clone());
        for _ in 0..3 {
            let mut bytes: Vec<_> = (0..200).map(|i| vec![7; suite.overhead() + i]).collect();
            let room = |bytes| BehindRoom::new(suite, bytes).unwrap();
            let mut set: Vec<_> = bytes.iter_mut().map(|bytes| Message::to_seal(&shared, b"", room(bytes))).collect();
            batch::seal(&roster, suite, &mut set).unwrap();
            drop(set);
            for message in &bytes {
                assert!(seen.insert(message[..suite.overhead() - suite.tag_len()].to_vec()), "{suite:?}");
            }
        }
        assert_eq!(seen.len(), 2 * 301 + 600);
    }
}
