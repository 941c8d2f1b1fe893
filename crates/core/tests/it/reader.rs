//! Reading by range: the same bytes as the plain file, whatever the source does, and nothing else.

use crate::common::{painted, sweep_by};
use phalanx_core::engine::{Buffer, CpuEngine, Engine, EngineInfo, Fault, Job, Levels, Verdicts};
use phalanx_core::{
    ChunkSize, Class, Error, KdfLimit, NewFile, OpenedBy, Opener, ReadAt, Reader, ReaderOptions, Recipient, Result,
    Roster, SecretKey, Sink, Source, Suite,
};
use std::io::{self, BufRead, Read, Seek, SeekFrom, Write};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Barrier, Mutex};
use std::thread;
use std::time::Duration;

const KEY: [u8; 32] = [42; 32];
const CHUNK: usize = 4096;

fn key() -> SecretKey {
    SecretKey::from_slice(&KEY).unwrap()
}

fn opener() -> Opener<SecretKey> {
    Opener::new(key(), KdfLimit::default())
}

fn roster(threads: usize) -> Arc<Roster> {
    Arc::new(Roster::new(&[Arc::new(CpuEngine::parallel(threads, Levels::detect()))]))
}

fn protected(suite: Suite, chunk: usize, plain: &[u8]) -> Vec<u8> {
    let size = ChunkSize::new(chunk as u64).unwrap();
    let new = NewFile::with_chunk_size(suite, size, &[Recipient::key(&key())]).unwrap();
    let mut stored = Vec::new();
    new.seal(&roster(1), Source::stream(plain), Sink::Stream(Box::new(&mut stored)), &()).unwrap();
    stored
}

/// Where the first chunk begins.
fn header_len(suite: Suite, stored: &[u8], plain: usize) -> usize {
    stored.len() - plain - suite.overhead() * plain.div_ceil(CHUNK).max(1)
}

fn options(cache: usize, read_ahead: usize) -> ReaderOptions {
    ReaderOptions::new().cache(cache).read_ahead(read_ahead).roster(roster(3))
}

/// With chunks enough to read ahead, and few enough to be evicted.
fn open<S: ReadAt + Send + Sync + 'static>(source: S) -> Result<Reader<S>> {
    Reader::open_with(source, &opener(), &options(40 * CHUNK, 16 * CHUNK))
}

/// A small generator (xorshift64*), so that a failure can be repeated.
struct Random(u64);

impl Random {
    fn below(&mut self, n: u64) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        ((u128::from(self.0.wrapping_mul(0x2545_F491_4F6C_DD1D)) * u128::from(n)) >> 64) as u64
    }
}

/// Bytes that no two chunks have in common.
fn noise(len: usize) -> Vec<u8> {
    let mut random = Random(len as u64 + 1);
    (0..len).map(|_| random.below(256) as u8).collect()
}

fn check_range<S: ReadAt + Send + Sync + 'static>(reader: &Reader<S>, plain: &[u8], offset: u64, len: usize) {
    let mut buf = vec![0xAA; len];
    let read = reader.read_at(&mut buf, offset).unwrap();
    let start = (offset as usize).min(plain.len());
    let expected = &plain[start..plain.len().min(start.saturating_add(len))];
    assert!(read == expected.len() && buf[..read] == *expected, "{len} bytes from {offset}");
    assert!(buf[read..].iter().all(|byte| *byte == 0xAA), "{len} bytes from {offset}");
}

#[test]
fn a_thousand_random_ranges_are_those_of_the_plain_file() {
    for (number, &suite) in Suite::ALL.iter().enumerate() {
        let mut random = Random(7 + number as u64);
        for (chunk, len) in [(CHUNK, 300 * CHUNK + 1234), (16 * CHUNK, 40 * 16 * CHUNK), (1 << 20, (2 << 20) + 1)] {
            let plain = noise(len);
            let mut reader = Reader::open_with(
                protected(suite, chunk, &plain),
                &opener(),
                &options(random.below(2 << 20) as usize, random.below(1 << 20) as usize),
            )
            .unwrap();
            assert_eq!((reader.len(), reader.chunk_len(), reader.suite()), (len as u64, chunk, suite));
            for round in 0..334 {
                let offset = random.below(len as u64 + 100);
                let most = if round % 50 == 0 { len as u64 } else { 3 * chunk as u64 };
                let wanted = random.below(most) as usize;
                check_range(&reader, &plain, offset, wanted);
                // The same by the cursor.
                reader.seek(SeekFrom::Start(offset)).unwrap();
                let mut read = Vec::new();
                reader.by_ref().take(wanted as u64).read_to_end(&mut read).unwrap();
                let start = plain.len().min(offset as usize);
                assert!(read == plain[start..plain.len().min(start + wanted)], "{wanted} bytes from {offset}");
            }
        }
    }
}

#[test]
fn every_way_through_the_file_gives_the_same() {
    for len in [0, 1, CHUNK - 1, CHUNK, CHUNK + 1, 2 * CHUNK, 100 * CHUNK, 100 * CHUNK + 17] {
        let plain = noise(len);
        let stored = Arc::new(protected(Suite::default(), CHUNK, &plain));
        for (cache, ahead) in [(0, 0), (CHUNK, CHUNK), (8 * CHUNK, 8 * CHUNK), (1 << 20, 0), (1 << 20, 1 << 20)] {
            let reader = Reader::open_with(stored.clone(), &opener(), &options(cache, ahead)).unwrap();
            for piece in [100, CHUNK, 3 * CHUNK + 5, 1 << 20] {
                let mut cursor = reader.clone();
                let mut read = Vec::new();
                let mut buf = vec![0; piece];
                loop {
                    match cursor.read(&mut buf).unwrap() {
                        0 => break,
                        n => read.extend_from_slice(&buf[..n]),
                    }
                }
                assert!(read == plain, "{len} in pieces of {piece}, cache {cache}, ahead {ahead}");
                assert_eq!(cursor.read(&mut buf).unwrap(), 0);
                // Without a copy, a piece of each chunk at a time.
                let mut borrowed = Vec::new();
                cursor.rewind().unwrap();
                while let bytes @ [_, ..] = cursor.fill_buf().unwrap() {
                    let taken = bytes.len().min(piece);
                    borrowed.extend_from_slice(&bytes[..taken]);
                    cursor.consume(taken);
                }
                assert!(borrowed == plain);
                cursor.consume(1);
                assert_eq!(cursor.stream_position().unwrap(), len as u64);
                for offset in (0..len).step_by(piece) {
                    check_range(&reader, &plain, offset as u64, piece);
                }
                for offset in (0..len).step_by(piece).rev() {
                    check_range(&reader, &plain, offset as u64, piece);
                }
            }
        }
    }
}

#[test]
fn many_threads_read_at_once() {
    let plain = noise(200 * CHUNK + 99);
    let stored = Arc::new(protected(Suite::default(), CHUNK, &plain));
    for (cache, ahead) in [(0, 0), (4 * CHUNK, 2 * CHUNK), (60 * CHUNK, 30 * CHUNK), (1 << 24, 1 << 23)] {
        let reader = Reader::open_with(stored.clone(), &opener(), &options(cache, ahead)).unwrap();
        thread::scope(|scope| {
            for number in 0..8 {
                let (mut reader, plain) = (reader.clone(), &plain);
                scope.spawn(move || {
                    let mut random = Random(number + 1);
                    for _ in 0..60 {
                        let len = random.below(5 * CHUNK as u64) as usize;
                        check_range(&reader, plain, random.below(plain.len() as u64), len);
                    }
                    reader.rewind().unwrap();
                    let mut all = Vec::new();
                    reader.read_to_end(&mut all).unwrap();
                    assert!(all == *plain);
                    for offset in (0..plain.len()).step_by(3000) {
                        check_range(&reader, plain, offset as u64, 3000);
                    }
                });
            }
        });
    }
}

#[test]
fn positions_are_where_they_are_sought() {
    let plain = painted(3 * CHUNK);
    let mut reader = open(protected(Suite::default(), CHUNK, &plain)).unwrap();
    let mut buf = [0; 10];
    assert_eq!(reader.seek(SeekFrom::End(-4)).unwrap(), 3 * CHUNK as u64 - 4);
    assert_eq!(reader.read(&mut buf).unwrap(), 4);
    assert_eq!(reader.stream_position().unwrap(), 3 * CHUNK as u64);
    for far in [SeekFrom::End(0), SeekFrom::End(5), SeekFrom::Start(u64::MAX), SeekFrom::Current(-1)] {
        reader.seek(far).unwrap();
        assert_eq!(reader.read(&mut buf).unwrap(), 0, "{far:?}");
    }
    assert!(reader.seek(SeekFrom::Current(5)).is_err(), "it does not fit 64 bits");
    assert_eq!(reader.stream_position().unwrap(), u64::MAX - 1);
    for offset in [3 * CHUNK as u64, 3 * CHUNK as u64 + 1, u64::MAX] {
        assert_eq!(reader.read_at(&mut buf, offset).unwrap(), 0);
    }
    assert_eq!(reader.read_at(&mut [], 0).unwrap(), 0);
    reader.seek(SeekFrom::Start(CHUNK as u64 - 2)).unwrap();
    reader.read_exact(&mut buf).unwrap();
    assert_eq!(buf, plain[CHUNK - 2..CHUNK + 8]);
    let before = reader.seek(SeekFrom::Current(-11 - CHUNK as i64)).unwrap_err();
    assert_eq!(before.kind(), io::ErrorKind::InvalidInput);
}

#[test]
fn an_empty_file_has_no_bytes_and_is_authentic_all_the_same() {
    for &suite in Suite::ALL {
        let stored = protected(suite, CHUNK, &[]);
        let mut reader = open(stored.clone()).unwrap();
        assert!(reader.is_empty());
        assert_eq!(reader.read(&mut [0; 8]).unwrap(), 0);
        assert_eq!(reader.read_at(&mut [0; 8], 0).unwrap(), 0);
        assert_eq!(reader.seek(SeekFrom::End(0)).unwrap(), 0);
        assert_eq!(reader.protected_range(0..u64::MAX), 0..0);
        let mut altered = stored;
        *altered.last_mut().unwrap() ^= 1;
        assert_eq!(open(altered).unwrap_err().class(), Class::NotAuthentic);
    }
}

#[test]
fn nobody_is_told_a_length_that_is_not_authentic() {
    for &suite in Suite::ALL {
        for len in [1, CHUNK, 3 * CHUNK, 3 * CHUNK + 5] {
            let plain = painted(len);
            let stored = protected(suite, CHUNK, &plain);
            let (header, record) = (header_len(suite, &stored, len), CHUNK + suite.overhead());
            for cut in (0..stored.len()).step_by(sweep_by(1, 97)) {
                let error = open(stored[..cut].to_vec()).unwrap_err();
                assert_eq!(error.class(), Class::NotAuthentic, "{len} cut to {cut}: {error}");
            }
            // At the edge between two chunks, where nothing but the last chunk's tag shows it.
            for chunks in 1..len.div_ceil(CHUNK) {
                let cut = &stored[..header + chunks * record];
                assert!(matches!(open(cut.to_vec()), Err(Error::Truncated("chunks are missing at its end"))));
            }
            let zeros = vec![0; record];
            for more in [&[0][..], &zeros[..suite.overhead()], &zeros[..suite.overhead() + 1], &zeros, &stored] {
                let error = open([&stored, more].concat()).unwrap_err();
                assert_eq!(error.class(), Class::NotAuthentic, "{len}, {} more: {error}", more.len());
            }
        }
    }
}

#[test]
fn an_altered_chunk_fails_alone() {
    const CHUNKS: usize = 60;
    for &suite in Suite::ALL {
        let plain = noise(CHUNKS * CHUNK);
        let stored = protected(suite, CHUNK, &plain);
        let (header, record) = (header_len(suite, &stored, plain.len()), CHUNK + suite.overhead());
        for bad in [0, 1, 30, CHUNKS - 2] {
            for at in [0, suite.nonce_len(), suite.overhead(), record - 1] {
                let mut altered = stored.clone();
                altered[header + bad * record + at] ^= 0x10;
                let mut reader = open(altered).unwrap();
                // By the cursor: all that is authentic before it, then an error, and the rest behind it.
                let mut read = Vec::new();
                let error = reader.read_to_end(&mut read).unwrap_err();
                assert!(read == plain[..bad * CHUNK], "{} bytes before chunk {bad}", read.len());
                assert_eq!(error.kind(), io::ErrorKind::InvalidData);
                let inner = error.get_ref().and_then(|e| e.downcast_ref::<Error>());
                assert!(matches!(inner, Some(Error::Altered { chunk, last: false }) if *chunk == bad as u64));
                assert!(reader.read(&mut [0; 9]).is_err(), "it stays there");
                reader.seek(SeekFrom::Start((bad + 1) as u64 * CHUNK as u64)).unwrap();
                read.clear();
                reader.read_to_end(&mut read).unwrap();
                assert!(read == plain[(bad + 1) * CHUNK..]);
                // By range: what touches the chunk fails, and nothing else.
                for (offset, len) in [(bad * CHUNK, 1), ((bad * CHUNK).saturating_sub(5), 10), (0, plain.len())] {
                    let mut buf = vec![0; len];
                    let error = reader.read_at(&mut buf, offset as u64).unwrap_err();
                    assert!(matches!(error, Error::Altered { chunk, .. } if chunk == bad as u64), "{error}");
                    let false_bytes = buf.iter().zip(&plain[offset..]).filter(|(a, b)| a != b && **a != 0).count();
                    assert_eq!(false_bytes, 0);
                }
                check_range(&reader, &plain, 0, bad * CHUNK);
                check_range(&reader, &plain, (bad + 1) as u64 * CHUNK as u64, plain.len());
            }
        }
    }
}

#[test]
fn chunks_of_other_places_and_files_are_refused() {
    let plain = noise(5 * CHUNK);
    let suite = Suite::default();
    let (stored, other) = (protected(suite, CHUNK, &plain), protected(suite, CHUNK, &plain));
    let (header, record) = (header_len(suite, &stored, plain.len()), CHUNK + suite.overhead());
    let at = |chunk: usize| header + chunk * record..header + (chunk + 1) * record;
    let mut swapped = stored.clone();
    swapped[at(1)].copy_from_slice(&stored[at(2)]);
    let mut foreign = stored.clone();
    foreign[at(1)].copy_from_slice(&other[at(1)]);
    for altered in [swapped, foreign] {
        let reader = open(altered).unwrap();
        assert!(matches!(reader.read_at(&mut [0; 1], CHUNK as u64), Err(Error::Altered { chunk: 1, .. })));
        check_range(&reader, &plain, 0, CHUNK);
        check_range(&reader, &plain, 2 * CHUNK as u64, 3 * CHUNK);
    }
    // The last chunk of another file: already the opening fails.
    let mut foreign = stored.clone();
    foreign[at(4)].copy_from_slice(&other[at(4)]);
    assert!(matches!(open(foreign), Err(Error::Altered { chunk: 4, last: true })));
}

#[test]
fn other_keys_and_other_files_are_told_as_everywhere() {
    let stored = protected(Suite::default(), CHUNK, b"text");
    let opener = Opener::new(SecretKey::random().unwrap(), KdfLimit::default());
    assert!(matches!(Reader::open(stored.clone(), &opener), Err(Error::NoKey { .. })));
    let reader = open(stored.clone()).unwrap();
    assert_eq!((reader.opened_slot(), reader.opened_by()), (0, &OpenedBy::Key(key().id())));
    assert!(matches!(open(b"no header at all, but long enough for one to be there".to_vec()), Err(Error::NotPhalanx)));
    assert!(matches!(open(stored[..30].to_vec()), Err(Error::Header(_))));
    let nobody = ReaderOptions::new().roster(Arc::new(Roster::new(&[])));
    assert!(matches!(Reader::open_with(stored, &self::opener(), &nobody), Err(Error::Fault(_))));
}

/// A source that does as it is told, and counts.
struct Tricky {
    bytes: Mutex<Vec<u8>>,
    size: AtomicU64,
    reads: AtomicUsize,
    /// How many bytes were read.
    read: AtomicU64,
    /// How far anybody has read.
    farthest: AtomicU64,
    short: bool,
    /// Reads that touch this byte fail.
    broken: AtomicU64,
    /// Nothing is there from here on.
    ends: AtomicU64,
    delay: Duration,
}

impl Tricky {
    fn new(bytes: &[u8]) -> Self {
        Self {
            size: AtomicU64::new(bytes.len() as u64),
            bytes: Mutex::new(bytes.to_vec()),
            reads: AtomicUsize::default(),
            read: AtomicU64::default(),
            farthest: AtomicU64::default(),
            short: false,
            broken: AtomicU64::new(u64::MAX),
            ends: AtomicU64::new(u64::MAX),
            delay: Duration::ZERO,
        }
    }
}

impl ReadAt for Tricky {
    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<usize> {
        let number = self.reads.fetch_add(1, Ordering::Relaxed);
        let mut len = buf.len();
        if self.short {
            if number % 3 == 1 {
                return Err(io::ErrorKind::Interrupted.into());
            }
            len = len.min(1 + number * 977 % 2000);
        }
        thread::sleep(self.delay);
        if (offset..offset + len as u64).contains(&self.broken.load(Ordering::Relaxed)) {
            return Err(io::Error::from_raw_os_error(5));
        }
        let bytes = self.bytes.lock().unwrap();
        let ends = (self.ends.load(Ordering::Relaxed) as usize).min(bytes.len());
        let rest = bytes[..ends].get(offset as usize..).unwrap_or_default();
        let len = len.min(rest.len());
        buf[..len].copy_from_slice(&rest[..len]);
        self.read.fetch_add(len as u64, Ordering::Relaxed);
        self.farthest.fetch_max(offset + len as u64, Ordering::Relaxed);
        Ok(len)
    }

    fn size(&self) -> io::Result<u64> {
        Ok(self.size.load(Ordering::Relaxed))
    }
}

#[test]
fn short_and_interrupted_reads_are_gone_on_with() {
    let plain = noise(50 * CHUNK + 5);
    let source = Tricky { short: true, ..Tricky::new(&protected(Suite::default(), CHUNK, &plain)) };
    let mut reader = open(source).unwrap();
    let mut read = Vec::new();
    reader.read_to_end(&mut read).unwrap();
    assert!(read == plain);
    check_range(&reader, &plain, 777, 5 * CHUNK);
}

#[test]
fn a_file_that_goes_on_after_its_end_is_not_called_truncated() {
    let plain = noise(5 * CHUNK);
    let stored = protected(Suite::default(), CHUNK, &plain);
    for more in [1, 47, 48] {
        let longer = [&stored[..], &vec![7; more]].concat();
        assert!(matches!(open(longer), Err(Error::Extended(_))), "{more}");
    }
    for less in [1, CHUNK + 1, CHUNK + 48] {
        let shorter = stored[..stored.len() - less].to_vec();
        assert!(matches!(open(shorter), Err(Error::Truncated(_) | Error::Altered { .. })), "{less}");
    }
}

#[test]
fn errors_of_the_source_are_told_and_pass() {
    let plain = noise(50 * CHUNK);
    let stored = protected(Suite::default(), CHUNK, &plain);
    let header = header_len(Suite::default(), &stored, plain.len()) as u64;
    let mut reader = open(Tricky::new(&stored)).unwrap();
    // In chunk 20.
    reader.source().broken.store(header + 20 * (CHUNK as u64 + 48) + 100, Ordering::Relaxed);
    let mut read = Vec::new();
    let error = reader.read_to_end(&mut read).unwrap_err();
    assert_eq!(error.raw_os_error(), Some(5));
    assert!(read == plain[..20 * CHUNK], "{} bytes", read.len());
    assert!(matches!(reader.read_at(&mut [0; 100], 20 * CHUNK as u64 + 50), Err(Error::Read(_))));
    check_range(&reader, &plain, 21 * CHUNK as u64, 10 * CHUNK);
    reader.source().broken.store(u64::MAX, Ordering::Relaxed);
    reader.read_to_end(&mut read).unwrap();
    assert!(read == plain);

    for at in [0, header - 1, stored.len() as u64 - 1] {
        let source = Tricky::new(&stored);
        source.broken.store(at, Ordering::Relaxed);
        assert!(matches!(open(source), Err(Error::Read(_))), "{at}");
    }
}

#[test]
fn a_source_that_ends_early_or_lies_about_its_length_is_refused() {
    let plain = noise(20 * CHUNK);
    let stored = protected(Suite::default(), CHUNK, &plain);
    let record = CHUNK as u64 + 48;
    let reader = open(Tricky::new(&stored)).unwrap();
    reader.source().ends.store(stored.len() as u64 - 5 * record, Ordering::Relaxed);
    assert!(matches!(reader.read_at(&mut [0; 1], 17 * CHUNK as u64), Err(Error::Changed)));
    check_range(&reader, &plain, 0, 14 * CHUNK);

    let len = stored.len() as u64;
    let short = header_len(Suite::default(), &stored, plain.len()) as u64;
    for size in [0, short, short + 1, len - record, len - 1, len + 1, len + 100, len + record, 1 << 40, u64::MAX] {
        let source = Tricky::new(&stored);
        source.size.store(size, Ordering::Relaxed);
        let error = open(source).unwrap_err();
        assert!(error.class() == Class::NotAuthentic || matches!(error, Error::Changed), "{size}: {error}");
    }
}

#[test]
fn a_source_that_changes_gives_old_bytes_or_an_error() {
    let plain = noise(30 * CHUNK);
    let stored = protected(Suite::default(), CHUNK, &plain);
    let other = protected(Suite::default(), CHUNK, &noise(30 * CHUNK + 1)[1..]);
    let reader = Reader::open_with(Tricky::new(&stored), &opener(), &options(4 * CHUNK, 0)).unwrap();
    check_range(&reader, &plain, 0, CHUNK);
    *reader.source().bytes.lock().unwrap() = other;
    check_range(&reader, &plain, 0, CHUNK);
    for chunk in 1..30 {
        match reader.read_at(&mut [0; 10], chunk * CHUNK as u64) {
            Err(Error::Altered { chunk: bad, .. }) => assert_eq!(bad, chunk),
            // The last one was opened, and is kept.
            read => assert!(chunk == 29 && read.is_ok(), "chunk {chunk}"),
        }
    }
    *reader.source().bytes.lock().unwrap() = Vec::new();
    assert!(matches!(reader.read_at(&mut [0; 10], 5 * CHUNK as u64), Err(Error::Changed)));
    check_range(&reader, &plain, 0, CHUNK);
}

#[test]
fn readers_of_one_chunk_open_it_once() {
    let plain = noise(4 * CHUNK);
    let stored = protected(Suite::default(), CHUNK, &plain);
    let source = Arc::new(Tricky { delay: Duration::from_millis(100), ..Tricky::new(&stored) });
    let reader = Reader::open_with(source.clone(), &opener(), &options(1 << 20, 0)).unwrap();
    let before = source.reads.load(Ordering::Relaxed);
    let start = Barrier::new(8);
    thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| {
                start.wait();
                check_range(&reader, &plain, CHUNK as u64 + 10, 100);
            });
        }
    });
    assert_eq!(source.reads.load(Ordering::Relaxed), before + 1);
    check_range(&reader, &plain, CHUNK as u64, CHUNK);
    assert_eq!(source.reads.load(Ordering::Relaxed), before + 1, "it is kept");
}

#[test]
fn a_cache_of_one_chunk_keeps_one_chunk() {
    let plain = noise(10 * CHUNK);
    let source = Arc::new(Tricky::new(&protected(Suite::default(), CHUNK, &plain)));
    let reader = Reader::open_with(source.clone(), &opener(), &options(1, 1 << 20)).unwrap();
    let reads = || source.reads.load(Ordering::Relaxed);
    let before = reads();
    for _ in 0..3 {
        check_range(&reader, &plain, 3 * CHUNK as u64, 50);
    }
    assert_eq!(reads(), before + 1);
    check_range(&reader, &plain, 4 * CHUNK as u64, 50);
    check_range(&reader, &plain, 3 * CHUNK as u64, 50);
    assert_eq!(reads(), before + 3);
}

#[test]
fn random_reads_fetch_no_more_than_they_need() {
    let plain = noise(1000 * CHUNK);
    let source = Arc::new(Tricky::new(&protected(Suite::default(), CHUNK, &plain)));
    let reader = Reader::open_with(source.clone(), &opener(), &options(0, 1 << 20)).unwrap();
    let mut random = Random(3);
    for _ in 0..200 {
        let (offset, len) = (random.below(plain.len() as u64 - 1), 1 + random.below(3 * CHUNK as u64));
        let before = source.read.load(Ordering::Relaxed);
        check_range(&reader, &plain, offset, len as usize);
        let needed = reader.protected_range(offset..offset + len);
        assert!(source.read.load(Ordering::Relaxed) - before <= needed.end - needed.start);
    }
}

#[test]
fn what_is_read_in_order_is_read_once_and_not_far_ahead() {
    const AHEAD: u64 = 64 * CHUNK as u64;
    let plain = noise(1000 * CHUNK);
    let stored = protected(Suite::default(), CHUNK, &plain);
    let by_cursor = |reader: &mut Reader<Arc<Tricky>>, offset: u64, buf: &mut [u8]| {
        assert_eq!(reader.stream_position().unwrap(), offset);
        reader.read(buf).unwrap()
    };
    let by_range = |reader: &mut Reader<Arc<Tricky>>, offset: u64, buf: &mut [u8]| reader.read_at(buf, offset).unwrap();
    type By<'a> = &'a dyn Fn(&mut Reader<Arc<Tricky>>, u64, &mut [u8]) -> usize;
    for read in [&by_cursor as By, &by_range] {
        let source = Arc::new(Tricky::new(&stored));
        let mut reader = Reader::open_with(source.clone(), &opener(), &options(1 << 20, AHEAD as usize)).unwrap();
        source.farthest.store(0, Ordering::Relaxed);
        let (mut buf, mut offset) = (vec![0; 5000], 0);
        let mut was_ahead = false;
        loop {
            let n = read(&mut reader, offset, &mut buf);
            if n == 0 {
                break;
            }
            assert!(buf[..n] == plain[offset as usize..][..n]);
            offset += n as u64;
            let needed = reader.protected_range(0..offset).end;
            let ahead = source.farthest.load(Ordering::Relaxed).saturating_sub(needed);
            // One job of at least 128 KiB, and what it goes on to.
            assert!(ahead <= 2 * AHEAD + (128 << 10), "{ahead} bytes ahead of {offset}");
            was_ahead |= ahead > 0;
        }
        assert_eq!(offset, plain.len() as u64);
        assert!(was_ahead);
        // The last chunk was read at the opening too.
        let total = source.read.load(Ordering::Relaxed);
        assert!(total <= stored.len() as u64 + 2 * (4096 + 48) + 4096, "{total} of {}", stored.len());
    }
}

#[test]
fn the_range_that_a_reader_names_is_all_that_it_needs() {
    struct Only(Vec<u8>, Mutex<Vec<std::ops::Range<u64>>>);
    impl ReadAt for Only {
        fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<usize> {
            let wanted = offset..offset + buf.len() as u64;
            let is_there = |r: &std::ops::Range<u64>| r.start <= wanted.start && wanted.end <= r.end;
            if !self.1.lock().unwrap().iter().any(is_there) {
                return Err(io::Error::other(format!("{wanted:?} was not fetched")));
            }
            self.0.read_at(buf, offset)
        }
        fn size(&self) -> io::Result<u64> {
            self.0.size()
        }
    }
    for &suite in Suite::ALL {
        let plain = noise(20 * CHUNK + 7);
        let stored = protected(suite, CHUNK, &plain);
        let all = 0..stored.len() as u64 + 4096;
        for range in [0..1, CHUNK - 1..CHUNK + 1, CHUNK..2 * CHUNK, 5000..70000, 20 * CHUNK..20 * CHUNK + 100] {
            let source = Arc::new(Only(stored.clone(), Mutex::new(vec![all.clone()])));
            let reader = Reader::open_with(source.clone(), &opener(), &options(1 << 20, 1 << 20)).unwrap();
            let needed = reader.protected_range(range.start as u64..range.end as u64);
            assert!(needed.end <= stored.len() as u64);
            let chunks = range.end.min(plain.len()).div_ceil(CHUNK) - range.start / CHUNK;
            assert!(needed.end - needed.start <= (chunks * (CHUNK + suite.overhead())) as u64);
            *source.1.lock().unwrap() = vec![needed];
            check_range(&reader, &plain, range.start as u64, range.len());
        }
        let reader = open(stored).unwrap();
        for (start, end) in [(5, 5), (7, 3), (plain.len() as u64, u64::MAX), (u64::MAX, u64::MAX)] {
            assert_eq!(reader.protected_range(start..end), 0..0);
        }
    }
}

#[test]
fn dropping_the_last_reader_ends_its_threads() {
    let stored = protected(Suite::default(), CHUNK, &noise(500 * CHUNK));
    let source = Arc::new(Tricky { delay: Duration::from_millis(1), ..Tricky::new(&stored) });
    let mut reader = Reader::open_with(source.clone(), &opener(), &options(1 << 20, 1 << 19)).unwrap();
    let clone = reader.clone();
    io::copy(&mut reader.by_ref().take(100 * CHUNK as u64), &mut io::sink()).unwrap();
    drop(reader);
    assert!(Arc::strong_count(&source) > 1);
    drop(clone);
    assert_eq!(Arc::strong_count(&source), 1);
}

/// Fails, or panics, while it is told to.
struct Failing {
    inner: CpuEngine,
    fails: AtomicBool,
    panics: AtomicBool,
}

impl Engine for Failing {
    fn info(&self) -> &EngineInfo {
        self.inner.info()
    }

    fn buffer(&self, len: usize) -> Result<Buffer, Fault> {
        self.inner.buffer(len)
    }

    fn run(&self, job: &mut Job) -> Result<Verdicts, Fault> {
        assert!(!self.panics.load(Ordering::Relaxed), "made to panic");
        if self.fails.load(Ordering::Relaxed) {
            return Err(Fault { engine: "failing".into(), reason: "made to fail".into() });
        }
        self.inner.run(job)
    }
}

fn roster_of(engine: &Arc<Failing>) -> Arc<Roster> {
    Arc::new(Roster::new(&[engine.clone() as Arc<dyn Engine>]))
}

fn failing() -> Arc<Failing> {
    let inner = CpuEngine::parallel(2, Levels::detect());
    Arc::new(Failing { inner, fails: AtomicBool::new(false), panics: AtomicBool::new(false) })
}

#[test]
fn an_engine_that_fails_is_an_error_or_another_takes_over() {
    let plain = noise(50 * CHUNK);
    let stored = protected(Suite::default(), CHUNK, &plain);
    let engine = failing();
    let alone = ReaderOptions::new().cache(0).roster(roster_of(&engine));
    let reader = Reader::open_with(stored.clone(), &opener(), &alone).unwrap();
    engine.fails.store(true, Ordering::Relaxed);
    assert!(matches!(reader.read_at(&mut [0; 10], 0), Err(Error::Fault(_))));
    engine.fails.store(false, Ordering::Relaxed);
    check_range(&reader, &plain, 0, 10);

    let engine = failing();
    let told = Arc::new(AtomicUsize::new(0));
    let tell = told.clone();
    let roster = Roster::new(&[engine.clone() as Arc<dyn Engine>])
        .with_fallback(Arc::new(CpuEngine::serial(Levels::detect())))
        .on_fault(move |_| {
            tell.fetch_add(1, Ordering::Relaxed);
        });
    let options = options(40 * CHUNK, 16 * CHUNK).roster(Arc::new(roster));
    let mut reader = Reader::open_with(stored, &opener(), &options).unwrap();
    engine.fails.store(true, Ordering::Relaxed);
    let mut read = Vec::new();
    reader.read_to_end(&mut read).unwrap();
    assert!(read == plain);
    assert_eq!(told.load(Ordering::Relaxed), 1);
}

#[test]
fn a_panic_of_one_reader_leaves_the_others_nothing_to_wait_for() {
    let plain = noise(50 * CHUNK);
    let engine = failing();
    let options = ReaderOptions::new().cache(0).roster(roster_of(&engine));
    let reader = Reader::open_with(protected(Suite::default(), CHUNK, &plain), &opener(), &options).unwrap();
    engine.panics.store(true, Ordering::Relaxed);
    let panicked = thread::scope(|scope| scope.spawn(|| reader.read_at(&mut [0; 10], 0)).join().is_err());
    assert!(panicked);
    engine.panics.store(false, Ordering::Relaxed);
    check_range(&reader, &plain, 0, 10 * CHUNK);
}

#[test]
fn files_and_borrowed_and_shared_sources_are_read_alike() {
    let plain = noise(10 * CHUNK);
    let stored = protected(Suite::default(), CHUNK, &plain);
    let mut file = tempfile::tempfile().unwrap();
    file.write_all(&stored).unwrap();
    check_range(&open(file.try_clone().unwrap()).unwrap(), &plain, 5000, 5000);
    assert_eq!(file.stream_position().unwrap(), stored.len() as u64, "the file's own cursor is left alone");
    let any: Arc<dyn ReadAt + Send + Sync> = Arc::new(file);
    check_range(&open(any).unwrap(), &plain, 5000, 5000);
    let leaked: &'static [u8] = Vec::leak(stored);
    check_range(&open(leaked).unwrap(), &plain, 5000, 5000);
    assert!(!format!("{:?}", open(leaked).unwrap()).contains("42"));
}
