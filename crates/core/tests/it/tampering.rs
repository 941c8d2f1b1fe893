//! Any change to a file is found, and no false plaintext is released. This is exhaustive over a small file of several
//! chunks.

#![allow(clippy::single_range_in_vec_init, reason = "lists of ranges are what is compared")]

use crate::common::{AtHand, painted, sweep_by};
use phalanx_core::engine::{CpuEngine, Levels};
use phalanx_core::file::Salvage;
use phalanx_core::{
    ChunkSize, Class, Error, KdfLimit, NewFile, Opener, ProtectedFile, ReadAt, Recipient, Result, Roster, SecretKey,
    Sink, Snapshot, Source, Suite,
};
use phalanx_host::file;
use std::fs;
use std::io;
use std::ops::Range;
use std::sync::Arc;

const KEY: [u8; 32] = [42; 32];
const CHUNK: usize = 4096;

/// One suite of each kind. Their nonces and tags differ in length.
const SUITES: [Suite; 3] = [Suite::Aes256CtrSha3, Suite::Aes256Gcm, Suite::Aes256CtrTurboShake];

fn key() -> SecretKey {
    SecretKey::from_slice(&KEY).unwrap()
}

fn roster() -> Roster {
    Roster::new(&[Arc::new(CpuEngine::serial(Levels::detect()))])
}

/// A new file of chunks of 4 KiB under the key.
fn protected(suite: Suite, plain: &[u8]) -> Vec<u8> {
    let new = NewFile::with_chunk_size(suite, ChunkSize::new(1 << 12).unwrap(), &[Recipient::key(&key())]).unwrap();
    let mut stored = Vec::new();
    new.protect(&roster(), Source::stream(plain), Sink::Stream(Box::new(&mut stored)), &()).unwrap();
    stored
}

/// Opens from a stream to a stream. Returns the result, and all bytes that were released.
fn open(stored: &[u8]) -> (Result<u64>, Vec<u8>) {
    let mut released = Vec::new();
    let opener = Opener::new(AtHand { keys: vec![key()], password: None }, KdfLimit::default());
    let result = ProtectedFile::open(Source::stream(stored), &opener)
        .and_then(|protected| protected.unprotect(&roster(), Sink::Stream(Box::new(&mut released)), &()));
    (result, released)
}

/// The file must not open. Bytes that were released before must be the beginning of the plaintext, in whole chunks.
#[track_caller]
fn refused(stored: &[u8], plain: &[u8], what: &str) {
    let (result, released) = open(stored);
    let error = result.expect_err(what);
    assert_eq!(error.class(), Class::NotAuthentic, "{what}: {error}");
    assert!(!error.to_string().contains('\n'), "{what}");
    assert!(released.len() % CHUNK == 0 && plain.starts_with(&released), "{what}: released {} bytes", released.len());
}

#[test]
fn every_flipped_bit_is_found() {
    for suite in SUITES {
        let plain = painted(2 * CHUNK + 10);
        let stored = protected(suite, &plain);
        assert_eq!(open(&stored).1, plain);
        // In steps of 7 bits, so that at least one bit of every byte is flipped.
        for bit in (0..stored.len() * 8).step_by(sweep_by(1, 7)) {
            let mut altered = stored.clone();
            altered[bit / 8] ^= 1 << (bit % 8);
            refused(&altered, &plain, &format!("bit {bit}"));
        }
    }
}

#[test]
fn every_truncation_and_extension_is_found() {
    for suite in SUITES {
        for len in [0, 1, CHUNK, CHUNK + 1, 2 * CHUNK] {
            let plain = painted(len);
            let stored = protected(suite, &plain);
            for cut in 0..stored.len() {
                refused(&stored[..cut], &plain, &format!("{len}: cut to {cut}"));
            }
            let other = protected(suite, &plain);
            let zeros = vec![0; CHUNK + suite.overhead()];
            let head = suite.overhead();
            let one_byte = &stored[stored.len() - head - 1..];
            for more in [&[0], &zeros[..head], &zeros[..head + 1], &zeros, one_byte, &other, &stored] {
                refused(&[&stored, more].concat(), &plain, &format!("{len}: {} bytes more", more.len()));
            }
        }
    }
}

#[test]
fn chunks_out_of_place_are_found() {
    for suite in SUITES {
        let plain: Vec<u8> = painted(4 * CHUNK + 100);
        let (stored, other) = (protected(suite, &plain), protected(suite, &plain));
        let record = CHUNK + suite.overhead();
        let header = stored.len() - 4 * record - 100 - suite.overhead();
        let records = |file: &[u8]| -> Vec<Vec<u8>> { file[header..].chunks(record).map(<[u8]>::to_vec).collect() };
        let (own, foreign) = (records(&stored), records(&other));
        let with = |chunks: &[Vec<u8>]| [&stored[..header], &chunks.concat()].concat();
        assert_eq!(open(&with(&own)).1, plain);
        for i in 0..own.len() {
            for j in 0..own.len() {
                let mut chunks = own.clone();
                if i != j {
                    chunks.swap(i, j);
                    refused(&with(&chunks), &plain, &format!("{i} and {j} swapped"));
                }
                let mut chunks = own.clone();
                chunks.insert(j, own[i].clone());
                refused(&with(&chunks), &plain, &format!("{i} repeated before {j}"));
            }
            let mut chunks = own.clone();
            chunks.remove(i);
            refused(&with(&chunks), &plain, &format!("{i} dropped"));
            let mut chunks = own.clone();
            chunks[i] = foreign[i].clone();
            refused(&with(&chunks), &plain, &format!("{i} of another file under the same key"));
        }
        // The header of one file with the chunks of the other, and slots of one in the header of the other.
        refused(&[&other[..header], &stored[header..]].concat(), &plain, "another's header");
        let mut mixed = stored.clone();
        mixed[18..header - 32].copy_from_slice(&other[18..header - 32]);
        refused(&mixed, &plain, "another's slot");
        mixed[header - 32..header].copy_from_slice(&other[header - 32..header]);
        refused(&mixed, &plain, "another's slot and tag");
    }
}

/// A file on a disk with a bad sector.
struct Worn<'a>(&'a [u8], Range<u64>);

impl ReadAt for Worn<'_> {
    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<usize> {
        if offset < self.1.end && self.1.start < offset + buf.len() as u64 {
            return Err(io::Error::other("a bad sector"));
        }
        self.0.read_at(buf, offset)
    }

    fn size(&self) -> io::Result<u64> {
        self.0.size()
    }
}

impl Snapshot for Worn<'_> {
    fn is_unchanged(&self) -> io::Result<bool> {
        Ok(true)
    }
}

#[test]
fn salvage_saves_what_can_be_read() {
    for suite in SUITES {
        let plain = painted(5 * CHUNK);
        let stored = protected(suite, &plain);
        let record = CHUNK + suite.overhead();
        let header = stored.len() - 5 * record;
        let save = |bad: Range<usize>| {
            let output = tempfile::NamedTempFile::new().unwrap();
            let opener = Opener::new(AtHand { keys: vec![key()], password: None }, KdfLimit::default());
            let source = Source::ranged(Worn(&stored, bad.start as u64..bad.end as u64));
            let protected = ProtectedFile::open(source, &opener).unwrap();
            let engine = CpuEngine::serial(Levels::detect());
            let found = protected.salvage(&engine, &file::Disk::new(output.as_file()), &());
            (found, fs::read(output.path()).unwrap())
        };
        for chunk in 0..5 {
            let at = header + chunk * record + 7;
            let (found, output) = save(at..at + 1);
            let (found, lost) = (found.unwrap(), chunk * CHUNK..(chunk + 1) * CHUNK);
            assert_eq!((&found.lost[..], found.unread), (&[lost.start as u64..lost.end as u64][..], CHUNK as u64));
            let mut expected = plain.clone();
            expected[lost].fill(0);
            assert!(output == expected, "{suite:?} {chunk}");
        }
        assert!(matches!(save(header..stored.len()).0, Err(Error::Read(_))), "{suite:?}");
    }
}

/// Salvages; returns what was found, and the output.
fn save(stored: &[u8]) -> (Result<Salvage>, Vec<u8>) {
    let (input, output) = (tempfile::NamedTempFile::new().unwrap(), tempfile::NamedTempFile::new().unwrap());
    fs::write(input.path(), stored).unwrap();
    let source = file::source(input.as_file()).unwrap();
    let opener = Opener::new(AtHand { keys: vec![key()], password: None }, KdfLimit::default());
    let protected = ProtectedFile::open(source, &opener).unwrap();
    let engine = CpuEngine::serial(Levels::detect());
    let found = protected.salvage(&engine, &file::Disk::new(output.as_file()), &());
    (found, fs::read(output.path()).unwrap())
}

#[test]
fn salvage_saves_intact_chunks() {
    for suite in SUITES {
        for len in [0, 1, CHUNK, 3 * CHUNK, 3 * CHUNK + 10] {
            let plain = painted(len);
            let stored = protected(suite, &plain);
            let (found, output) = save(&stored);
            assert!(found.unwrap().is_intact() && output == plain, "{len}");
        }

        let plain = painted(5 * CHUNK + 10);
        let stored = protected(suite, &plain);
        let record = CHUNK + suite.overhead();
        let header = stored.len() - 5 * record - 10 - suite.overhead();
        let zeroed = |ranges: &[Range<usize>], len: usize| {
            let mut bytes = plain[..len].to_vec();
            ranges.iter().for_each(|r| bytes[r.clone()].fill(0));
            bytes
        };
        let check = |altered: &[u8], lost: &[Range<usize>], len: usize, whole_length: bool| {
            let (found, output) = save(altered);
            let found = found.unwrap();
            let expected: Vec<Range<u64>> = lost.iter().map(|r| r.start as u64..r.end as u64).collect();
            assert_eq!((&found.lost, found.whole_length), (&expected, whole_length));
            assert_eq!(found.saved as usize, len - lost.iter().map(Range::len).sum::<usize>());
            assert!(output == zeroed(lost, len));
        };
        let flipped = |chunks: &[usize]| {
            let mut altered = stored.clone();
            chunks.iter().for_each(|i| altered[header + i * record + suite.overhead() + 2] ^= 1);
            altered
        };
        let lost = |i: usize| i * CHUNK..(i + 1) * CHUNK;
        check(&flipped(&[0]), &[lost(0)], plain.len(), true);
        check(&flipped(&[1, 2, 4]), &[CHUNK..3 * CHUNK, lost(4)], plain.len(), true);
        check(&flipped(&[5]), &[5 * CHUNK..plain.len()], plain.len(), false);
        // Cut at a chunk's edge: all remaining chunks are intact, but the end is unknown.
        check(&stored[..header + 3 * record], &[], 3 * CHUNK, false);
        // Cut within a chunk, and within a chunk's nonce and tag.
        check(
            &stored[..header + 3 * record + suite.overhead() + 1000],
            &[3 * CHUNK..3 * CHUNK + 1000],
            3 * CHUNK + 1000,
            false,
        );
        check(&stored[..header + 3 * record + suite.overhead() - 1], &[], 3 * CHUNK, false);
        // Extended after a last chunk that is full.
        let (plain, stored) = (painted(2 * CHUNK), protected(suite, &painted(2 * CHUNK)));
        let (found, output) = save(&[&stored[..], &vec![0; suite.overhead() + 12]].concat());
        let found = found.unwrap();
        assert!(!found.is_intact() && found.lost.is_empty() && output == plain);
        // Nothing left to save.
        let mut dead = protected(suite, &painted(100));
        *dead.last_mut().unwrap() ^= 1;
        assert!(matches!(save(&dead).0, Err(Error::Altered { chunk: 0, .. })));
    }
}
