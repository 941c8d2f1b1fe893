//! Reading by range gives the bytes of the plain file, even if the source misbehaves.

use crate::common::painted;
use phalanx_core::engine::{CpuEngine, Levels};
use phalanx_core::{
    ChunkSize, Class, KdfLimit, NewFile, Opener, ReadAt, Reader, ReaderOptions, Recipient, Result, Roster, SecretKey,
    Sink, Source, Suite,
};
use std::io::{self, BufRead, Read, Seek, SeekFrom, Write};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Barrier, Mutex};
use std::thread;
use std::time::Duration;

const KEY: [u8; 32] = [42; 32];
pub const CHUNK: usize = 4096;

pub fn key() -> SecretKey {
    SecretKey::from_slice(&KEY).unwrap()
}

pub fn opener() -> Opener<SecretKey> {
    Opener::new(key(), KdfLimit::default())
}

pub fn roster(threads: usize) -> Arc<Roster> {
    Arc::new(Roster::new(&[Arc::new(CpuEngine::parallel(threads, Levels::detect()))]))
}

pub fn protected(suite: Suite, chunk: usize, plain: &[u8]) -> Vec<u8> {
    let size = ChunkSize::new(chunk as u64).unwrap();
    let new = NewFile::with_chunk_size(suite, size, &[Recipient::key(&key())]).unwrap();
    let mut stored = Vec::new();
    new.protect(&roster(1), Source::stream(plain), Sink::Stream(Box::new(&mut stored)), &()).unwrap();
    stored
}

/// Where the first chunk begins.
pub fn header_len(suite: Suite, stored: &[u8], plain: usize) -> usize {
    stored.len() - plain - suite.overhead() * plain.div_ceil(CHUNK).max(1)
}

pub fn options(cache: usize, read_ahead: usize) -> ReaderOptions {
    ReaderOptions::new().cache(cache).read_ahead(read_ahead).roster(roster(3))
}

/// The cache is large enough to read ahead, and small enough to evict chunks.
pub fn open<S: ReadAt + Send + Sync + 'static>(source: S) -> Result<Reader<S>> {
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

/// Bytes that differ from chunk to chunk.
pub fn noise(len: usize) -> Vec<u8> {
    let mut random = Random(len as u64 + 1);
    (0..len).map(|_| random.below(256) as u8).collect()
}

pub fn check_range<S: ReadAt + Send + Sync + 'static>(reader: &Reader<S>, plain: &[u8], offset: u64, len: usize) {
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
            assert_eq!((reader.len(), reader.chunk_size().bytes(), reader.suite()), (len as u64, chunk, suite));
            for round in 0..334 {
                let offset = random.below(len as u64 + 100);
                let most = if round % 50 == 0 { len as u64 } else { 3 * chunk as u64 };
                let wanted = random.below(most) as usize;
                check_range(&reader, &plain, offset, wanted);
                // The same range, read by the cursor.
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
fn every_way_of_reading_gives_the_same_bytes() {
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
                // Without copying, one piece of a chunk at a time.
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
fn seeking_sets_the_position() {
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
fn an_empty_file_is_authentic() {
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

/// A source that misbehaves on demand, and counts.
pub struct Tricky {
    pub bytes: Mutex<Vec<u8>>,
    pub size: AtomicU64,
    reads: AtomicUsize,
    /// How many bytes were read.
    read: AtomicU64,
    /// The farthest byte that was read.
    farthest: AtomicU64,
    short: bool,
    /// Reads that touch this byte fail.
    pub broken: AtomicU64,
    /// The source ends here.
    pub ends: AtomicU64,
    delay: Duration,
}

impl Tricky {
    pub fn new(bytes: &[u8]) -> Self {
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
fn short_and_interrupted_reads_are_continued() {
    let plain = noise(50 * CHUNK + 5);
    let source = Tricky { short: true, ..Tricky::new(&protected(Suite::default(), CHUNK, &plain)) };
    let mut reader = open(source).unwrap();
    let mut read = Vec::new();
    reader.read_to_end(&mut read).unwrap();
    assert!(read == plain);
    check_range(&reader, &plain, 777, 5 * CHUNK);
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
fn sequential_reads_fetch_once_and_not_far_ahead() {
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
            // One job of at least 128 KiB, and the read-ahead after it.
            assert!(ahead <= 2 * AHEAD + (128 << 10), "{ahead} bytes ahead of {offset}");
            was_ahead |= ahead > 0;
        }
        assert_eq!(offset, plain.len() as u64);
        assert!(was_ahead);
        // The last chunk was also read on opening.
        let total = source.read.load(Ordering::Relaxed);
        assert!(total <= stored.len() as u64 + 2 * (4096 + 48) + 4096, "{total} of {}", stored.len());
    }
}

#[test]
fn a_reader_needs_only_the_range_that_it_names() {
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

#[test]
fn files_and_borrowed_and_shared_sources_can_be_read() {
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
