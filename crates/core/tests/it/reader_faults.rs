//! Errors of reading by range: altered and cut files, wrong keys, and sources and engines that fail.

use crate::common::{painted, sweep_by};
use crate::reader::{CHUNK, Tricky, check_range, header_len, key, noise, open, opener, options, protected};
use phalanx_core::engine::{Buffer, CpuEngine, Engine, EngineInfo, Fault, Job, Levels, Verdicts};
use phalanx_core::{Class, Error, KdfLimit, OpenedBy, Opener, Reader, ReaderOptions, Roster, SecretKey, Suite};
use std::io::{self, Read, Seek, SeekFrom};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;

#[test]
fn a_length_that_is_not_authentic_is_an_error() {
    for &suite in Suite::ALL {
        for len in [1, CHUNK, 3 * CHUNK, 3 * CHUNK + 5] {
            let plain = painted(len);
            let stored = protected(suite, CHUNK, &plain);
            let (header, record) = (header_len(suite, &stored, len), CHUNK + suite.overhead());
            for cut in (0..stored.len()).step_by(sweep_by(1, 97)) {
                let error = open(stored[..cut].to_vec()).unwrap_err();
                assert_eq!(error.class(), Class::NotAuthentic, "{len} cut to {cut}: {error}");
            }
            // At the edge between two chunks, where only the last chunk's tag shows it.
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
                // Reading by the cursor gives all authentic bytes before it, then an error, then the rest.
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
                // Reading by range fails only if the range touches the chunk.
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
    // With the last chunk of another file, opening already fails.
    let mut foreign = stored.clone();
    foreign[at(4)].copy_from_slice(&other[at(4)]);
    assert!(matches!(open(foreign), Err(Error::Altered { chunk: 4, last: true })));
}

#[test]
fn wrong_keys_and_other_files_give_the_usual_errors() {
    let stored = protected(Suite::default(), CHUNK, b"text");
    let opener = Opener::new(SecretKey::random().unwrap(), KdfLimit::default());
    assert!(matches!(Reader::open(stored.clone(), &opener), Err(Error::NoKey { .. })));
    let reader = open(stored.clone()).unwrap();
    assert_eq!((reader.opened_slot(), reader.opened_by()), (1, &OpenedBy::Key(key().id())));
    assert!(matches!(open(b"no header at all, but long enough for one to be there".to_vec()), Err(Error::NotPhalanx)));
    assert!(matches!(open(stored[..30].to_vec()), Err(Error::Header(_))));
    let nobody = ReaderOptions::new().roster(Arc::new(Roster::new(&[])));
    assert!(matches!(Reader::open_with(stored, &crate::reader::opener(), &nobody), Err(Error::Fault(_))));
}

#[test]
fn a_file_that_continues_after_its_end_is_not_reported_as_truncated() {
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
fn errors_of_the_source_are_reported_and_temporary() {
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
            // The last one was opened before, and is kept.
            read => assert!(chunk == 29 && read.is_ok(), "chunk {chunk}"),
        }
    }
    *reader.source().bytes.lock().unwrap() = Vec::new();
    assert!(matches!(reader.read_at(&mut [0; 10], 5 * CHUNK as u64), Err(Error::Changed)));
    check_range(&reader, &plain, 0, CHUNK);
}

/// Fails or panics on demand.
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
fn a_failing_engine_is_replaced_or_an_error() {
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
fn a_panic_of_one_reader_does_not_block_the_others() {
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
