//! The writer makes the usual files from pieces of any length, and no complete file before it is finished.

use crate::common::{engines, painted};
use phalanx_core::engine::{CpuEngine, Levels};
use phalanx_core::{
    ChunkSize, Error, KdfLimit, NewFile, Opener, ProtectedFile, Recipient, Result, Roster, SecretKey, Sink, Source,
    Suite,
};
use phalanx_reference as reference;
use std::io::{self, Write};
use std::sync::Arc;

const KEY: [u8; 32] = [42; 32];
const CHUNK: usize = 4096;

fn key() -> SecretKey {
    SecretKey::from_slice(&KEY).unwrap()
}

fn roster() -> Arc<Roster> {
    Arc::new(Roster::new(&[Arc::new(CpuEngine::parallel(3, Levels::detect()))]))
}

fn new(suite: Suite, chunk: usize) -> NewFile {
    NewFile::with_chunk_size(suite, ChunkSize::new(chunk as u64).unwrap(), &[Recipient::key(&key())]).unwrap()
}

fn open(stored: &[u8]) -> Result<Vec<u8>> {
    let mut plain = Vec::new();
    let opener = Opener::new(key(), KdfLimit::default());
    let protected = ProtectedFile::open(Source::stream(stored), &opener)?;
    protected.unprotect(&roster(), Sink::Stream(Box::new(&mut plain)), &())?;
    Ok(plain)
}

#[test]
fn pieces_of_any_length_make_the_same_file() {
    for &suite in Suite::ALL {
        for len in [0, 1, CHUNK - 1, CHUNK, CHUNK + 1, 3 * CHUNK, 5 * CHUNK + 9] {
            let plain = painted(len);
            for piece in [1, 1000, CHUNK, 2 * CHUNK + 1] {
                let mut stored = Vec::new();
                let mut writer = new(suite, CHUNK).writer(roster(), &mut stored).unwrap();
                for piece in plain.chunks(piece) {
                    writer.write_all(piece).unwrap();
                    writer.flush().unwrap();
                }
                assert_eq!(writer.finish().unwrap(), len as u64);
                assert!(open(&stored).unwrap() == plain, "{len} in pieces of {piece}");
                if piece == 1000 {
                    assert!(reference::open_file(&stored, &[], &[KEY]).unwrap() == plain);
                }
            }
        }
    }
}

#[test]
fn short_plaintexts_get_short_headers() {
    for (len, header) in [(0, 1024), (1, 1024), (16384, 1024), (16385, 4096), (3 << 20, 4096)] {
        let (data, suite) = (painted(len), Suite::default());
        let mut stored = Vec::new();
        let mut writer = new(suite, 4096).writer(roster(), &mut stored).unwrap();
        writer.write_all(&data).unwrap();
        writer.finish().unwrap();
        let chunks = len.div_ceil(4096).max(1);
        assert_eq!(stored.len(), header + len + chunks * suite.overhead(), "{len} bytes");
        assert_eq!(open(&stored).unwrap(), data);
    }
}

#[test]
fn batches_of_every_engine_fit_together() {
    for engine in engines() {
        let roster = Arc::new(Roster::new(&[engine]));
        // Exactly a batch of the parallel engine, one byte more, and several batches.
        for (chunk, len) in
            [(CHUNK, 8 << 20), (CHUNK, 253 * 8 * CHUNK), (CHUNK, 253 * 8 * CHUNK + 1), (1 << 20, 19 << 20)]
        {
            let plain = painted(len);
            let mut stored = Vec::new();
            let mut writer = new(Suite::default(), chunk).writer(roster.clone(), &mut stored).unwrap();
            for piece in plain.chunks(777_777) {
                writer.write_all(piece).unwrap();
            }
            assert_eq!(writer.finish().unwrap(), len as u64);
            assert!(open(&stored).unwrap() == plain, "{len}");
        }
    }
}

#[test]
fn a_file_that_is_not_finished_is_refused() {
    for len in [0, 100, CHUNK, 20 << 20] {
        let mut stored = Vec::new();
        let mut writer = new(Suite::default(), CHUNK).writer(roster(), &mut stored).unwrap();
        writer.write_all(&painted(len)).unwrap();
        writer.flush().unwrap();
        drop(writer);
        assert!(stored.len() > len / 2 || len <= CHUNK, "it is written as it comes");
        assert!(open(&stored).is_err(), "{len}");
    }
}

/// Takes this number of bytes, then fails.
struct Full(usize);

impl Write for Full {
    fn write(&mut self, buf: &[u8]) -> io::Result<usize> {
        let len = buf.len().min(self.0);
        self.0 -= len;
        if len == 0 { Err(io::ErrorKind::StorageFull.into()) } else { Ok(len) }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[test]
fn after_an_error_everything_fails() {
    let plain = painted(8 << 20);
    for room in [0, 10, 1000, 7 << 20] {
        let mut writer = new(Suite::default(), CHUNK).writer(roster(), Full(room)).unwrap();
        let mut failed = 0;
        for piece in plain.chunks(100_000) {
            match writer.write(piece) {
                Ok(len) => assert!(failed == 0 && len == piece.len()),
                Err(error) if failed == 0 => {
                    assert_eq!(error.kind(), io::ErrorKind::StorageFull);
                    failed += 1;
                }
                Err(_) => failed += 1,
            }
        }
        assert!(failed > 1 || room == 7 << 20, "{room}");
        assert!(matches!(writer.finish(), Err(Error::Write(_))));
    }
}

#[test]
fn a_writer_needs_an_engine() {
    let writer = new(Suite::default(), CHUNK).writer(Arc::new(Roster::new(&[])), Vec::new());
    assert!(matches!(writer, Err(Error::Fault(_))));
}
