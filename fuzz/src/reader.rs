//! Checks that a `Reader` gives, chunk by chunk, the same as opening the whole file.

use crate::model::{Expected, Outcome};
use phalanx_core::{Error, KeySource, Opener, Reader, ReaderOptions, Roster};
use std::io::Read;
use std::sync::Arc;

/// Opens the file and reads it: by chunks, by ranges and in order. `hash` determines cache, read-ahead and ranges.
pub fn check(bytes: &[u8], opener: &Opener<impl KeySource>, roster: Roster, expected: &Expected, hash: u64) {
    let part = |shift: u32, below: u64| (hash >> shift) % below;
    let options = ReaderOptions::new()
        .cache(part(8, 100_000) as usize)
        .read_ahead(part(24, 100_000) as usize)
        .roster(Arc::new(roster));
    let last = expected.chunks.last().filter(|_| !expected.cut).and_then(Option::as_ref);
    let mut reader = match (Reader::open_with(bytes.to_vec(), opener, &options), last) {
        (Ok(reader), Some(_)) => reader,
        (Err(error), last) => {
            assert!(last.is_none(), "{error}, but the last chunk is sound");
            assert!(expected.agrees(&Err::<(), _>(error)));
            return;
        }
        (Ok(_), None) => panic!("opened, but expected {:?}", expected.outcome),
    };
    let (chunk_len, count) = (expected.chunk_len as u64, expected.chunks.len() as u64);
    let last = last.map_or(0, |chunk| chunk.plaintext.len() as u64);
    assert_eq!(reader.len(), (count - 1) * chunk_len + last);

    for turn in 0..count {
        let index = (turn + part(16, count)) % count;
        let mut buf = vec![0; expected.chunk_len];
        let len = if index + 1 == count { last } else { chunk_len };
        match (reader.read_at(&mut buf[..len as usize], index * chunk_len), &expected.chunks[index as usize]) {
            (Ok(read), Some(chunk)) => assert!(read as u64 == len && buf[..read] == chunk.plaintext),
            (Ok(read), None) => assert!(read == 0 && len == 0),
            (Err(Error::Altered { chunk, .. }), None) => assert_eq!(chunk, index),
            (found, _) => panic!("{found:?} at chunk {index}"),
        }
    }
    for shift in [0, 13, 31] {
        let (start, len) = (part(shift, reader.len() + 2), part(shift + 7, 3 * chunk_len));
        range(&reader, expected, start, len);
    }

    // In order: all before the first bad chunk, and then its error.
    let mut read = Vec::new();
    let found = reader.read_to_end(&mut read);
    assert!(read == expected.authentic());
    assert_eq!(found.is_ok(), expected.outcome == Outcome::Opens);
}

/// A range has the bytes of its chunks, or an error if one of them is bad.
fn range(reader: &Reader<Vec<u8>>, expected: &Expected, start: u64, len: u64) {
    let chunk_len = expected.chunk_len as u64;
    let end = start.saturating_add(len).min(reader.len());
    let mut buf = vec![0; len as usize];
    let found = reader.read_at(&mut buf, start);
    if start >= end {
        assert_eq!(found.expect("nothing to open"), 0);
        return;
    }
    let chunks = &expected.chunks[(start / chunk_len) as usize..=((end - 1) / chunk_len) as usize];
    let needed = reader.protected_range(start..end);
    assert!(needed.start < needed.end && needed.end - needed.start >= end - start);
    if chunks.iter().all(Option::is_some) {
        let plaintext: Vec<u8> = chunks.iter().flatten().flat_map(|chunk| &chunk.plaintext).copied().collect();
        let skip = (start % chunk_len) as usize;
        assert_eq!(found.expect("sound"), (end - start) as usize);
        assert!(buf[..(end - start) as usize] == plaintext[skip..skip + (end - start) as usize]);
    } else {
        assert!(matches!(found, Err(Error::Altered { .. })));
    }
}
