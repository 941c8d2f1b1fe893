//! Reading by range from bytes that the caller fetches: the requested bytes suffice, and the results are those of a
//! reader.

use crate::common::painted;
use phalanx_core::{
    ChunkSize, Error, KdfLimit, NewFile, Opener, RangeOpening, RangeReader, Reader, Recipient, Result, Roster,
    SecretKey, Sink, Source, Suite,
};
use std::sync::Arc;

const CHUNK: usize = 4096;

fn key() -> SecretKey {
    SecretKey::from_slice(&[7; 32]).unwrap()
}

fn opener() -> Opener<SecretKey> {
    Opener::new(key(), KdfLimit::default())
}

fn stored(suite: Suite, plain: &[u8], recipients: usize) -> Vec<u8> {
    let mut all = vec![Recipient::key(&key())];
    all.extend((1..recipients).map(|_| Recipient::key(&SecretKey::random().unwrap())));
    let new = NewFile::with_chunk_size(suite, ChunkSize::new(CHUNK as u64).unwrap(), &all).unwrap();
    let mut stored = Vec::new();
    new.protect(&Roster::cpu(), Source::stream(plain), Sink::stream(&mut stored), &()).unwrap();
    stored
}

/// Opens a file, and counts what was fetched.
fn open(stored: &[u8]) -> Result<(RangeReader, usize)> {
    let mut opening = RangeOpening::new(stored.len() as u64);
    let mut fetched = 0;
    while let Some(range) = opening.needs() {
        fetched += (range.end - range.start) as usize;
        opening.feed(&stored[range.start as usize..range.end as usize])?;
    }
    Ok((opening.open(&opener(), Arc::new(Roster::cpu()))?, fetched))
}

#[test]
fn every_range_of_every_suite_is_the_plaintext() {
    for &suite in Suite::ALL {
        for len in [0, 1, CHUNK - 1, CHUNK, CHUNK + 1, 5 * CHUNK, 5 * CHUNK + 17] {
            let plain = painted(len);
            for recipients in [1, 40] {
                let stored = stored(suite, &plain, recipients);
                let (reader, fetched) = open(&stored).unwrap();
                assert!(fetched <= 4096 + 2 * (CHUNK + 48), "{fetched} bytes of {}", stored.len());
                assert_eq!((reader.len(), reader.suite(), reader.chunk_size().bytes()), (len as u64, suite, CHUNK));
                let edges = [0, 1, CHUNK - 1, CHUNK, CHUNK + 1, 2 * CHUNK, len.saturating_sub(1), len, len + 9];
                for (start, end) in edges.iter().flat_map(|start| edges.map(|end| (*start, end))) {
                    let range = start as u64..end as u64;
                    let needed = reader.needs(range.clone());
                    let bytes = &stored[needed.start as usize..needed.end as usize];
                    let wanted = plain.get(start..end.min(len)).unwrap_or_default();
                    assert_eq!(**reader.read(range, bytes).unwrap(), *wanted, "{start}..{end} of {len}");
                }
            }
        }
    }
}

#[test]
fn errors_of_damaged_files_are_those_of_a_reader() {
    let whole = stored(Suite::default(), &painted(3 * CHUNK + 5), 1);
    let record = CHUNK + Suite::default().overhead();
    let head = whole.len() - 3 * record - 5 - Suite::default().overhead();
    let mut files: Vec<Vec<u8>> =
        [0, 5, 11, 100, head - 1, head, head + 10, head + record, head + 2 * record, whole.len() - 1]
            .map(|len| whole[..len].to_vec())
            .into();
    for more in [1, 40, 100, record, 2 * record] {
        files.push([&whole[..], &vec![7; more]].concat());
    }
    for at in [0, 7, 9, 12, 13, 15, 17, 30, head - 1, whole.len() - 1] {
        let mut file = whole.clone();
        file[at] ^= 1;
        files.push(file);
    }
    for file in files {
        let by_reader = Reader::open(file.clone(), &opener()).map(|_| ()).unwrap_err();
        let error = open(&file).map(|_| ()).unwrap_err();
        assert_eq!(error.to_string(), by_reader.to_string(), "{} bytes of {}", file.len(), whole.len());
    }
}

#[test]
fn a_chunk_that_is_not_authentic_spoils_the_ranges_that_touch_it() {
    let plain = painted(4 * CHUNK);
    let mut stored = stored(Suite::default(), &plain, 1);
    let (reader, _) = open(&stored).unwrap();
    let second = reader.needs(CHUNK as u64..2 * CHUNK as u64);
    stored[second.start as usize + 100] ^= 1;
    let read = |range: std::ops::Range<u64>| {
        let needed = reader.needs(range.clone());
        reader.read(range, &stored[needed.start as usize..needed.end as usize])
    };
    assert_eq!(**read(0..CHUNK as u64).unwrap(), plain[..CHUNK]);
    assert_eq!(**read(2 * CHUNK as u64..u64::MAX).unwrap(), plain[2 * CHUNK..]);
    assert!(matches!(read(0..CHUNK as u64 + 1), Err(Error::Altered { chunk: 1, last: false })));
    assert!(matches!(read(CHUNK as u64..CHUNK as u64 + 1), Err(Error::Altered { chunk: 1, last: false })));
}

#[test]
fn a_wrong_number_of_bytes_is_an_error() {
    let stored = stored(Suite::default(), &painted(10_000), 1);
    let mut opening = RangeOpening::new(stored.len() as u64);
    assert!(matches!(opening.feed(&stored[..10]), Err(Error::Changed)));
    assert!(matches!(opening.open(&opener(), Arc::new(Roster::cpu())), Err(Error::Changed)));
    let (reader, _) = open(&stored).unwrap();
    assert!(matches!(reader.read(0..10, &stored[..100]), Err(Error::Changed)));
    // A header with an impossible length never causes a request.
    let mut opening = RangeOpening::new(u64::MAX);
    opening.feed(&[b"PHALANX\x01\xff\xff\xff\xff".as_slice(), &[0; 4084]].concat()).unwrap_err();
}
