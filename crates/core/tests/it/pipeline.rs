//! The file pipeline: every kind of source and sink, every engine and every size, compared with the reference.

use crate::common::{AtHand, SIZES, engines, painted};
use phalanx_core::{
    ChunkSize, Error, KdfLimit, NewFile, Opener, Progress, ProtectedFile, Recipient, Result, Roster, SecretKey, Sink,
    Source, Suite,
};
use phalanx_host::file;
use phalanx_reference as reference;
use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::os::unix::fs::FileExt;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

const KEY: [u8; 32] = [42; 32];

/// One suite of each kind. Their nonces and tags differ in length.
const SUITES: [Suite; 3] = [Suite::Aes256CtrSha3, Suite::Aes256Gcm, Suite::Aes256CtrTurboShake];

#[derive(Clone, Copy, Debug, PartialEq)]
enum End {
    File,
    Stream,
}

const ENDS: [(End, End); 4] =
    [(End::File, End::File), (End::File, End::Stream), (End::Stream, End::File), (End::Stream, End::Stream)];

/// Runs `work` with a source and a sink of these kinds, and returns what it wrote.
fn through(input: &[u8], ends: (End, End), work: impl FnOnce(Source, Sink) -> Result<()>) -> Result<Vec<u8>> {
    let (from, to) = (tempfile::NamedTempFile::new().unwrap(), tempfile::NamedTempFile::new().unwrap());
    fs::write(from.path(), input).unwrap();
    let file = File::open(from.path()).unwrap();
    let source = if ends.0 == End::File { file::source(&file).unwrap() } else { Source::stream(Dribble(input, 0)) };
    let collected = Mutex::new(Vec::new());
    let sink = match ends.1 {
        End::File => Sink::ranged(file::Disk::new(to.as_file())),
        End::Stream => Sink::Stream(Box::new(Collect(&collected))),
    };
    work(source, sink)?;
    Ok(if ends.1 == End::File { fs::read(to.path()).unwrap() } else { collected.into_inner().unwrap() })
}

/// Returns odd pieces, as pipes do.
struct Dribble<'a>(&'a [u8], usize);

impl Read for Dribble<'_> {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        self.1 += 1;
        if self.1 % 7 == 3 {
            return Err(io::ErrorKind::Interrupted.into());
        }
        let n = buf.len().min(1 + (self.1 * 7919) % 65536);
        self.0.read(&mut buf[..n])
    }
}

/// Accepts odd pieces, as pipes do.
struct Collect<'a>(&'a Mutex<Vec<u8>>);

impl Write for Collect<'_> {
    fn write(&mut self, buf: &[u8]) -> io::Result<usize> {
        let mut all = self.0.lock().unwrap();
        let n = buf.len().min(1 + (all.len() * 31) % 50_000);
        all.extend_from_slice(&buf[..n]);
        Ok(n)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[derive(Default)]
struct Count(AtomicU64);

impl Progress for Count {
    fn advance(&self, bytes: u64) {
        self.0.fetch_add(bytes, Ordering::Relaxed);
    }
}

fn opener() -> Opener<AtHand> {
    let keys = vec![SecretKey::from_slice(&KEY).unwrap()];
    Opener::new(AtHand { keys, password: None }, KdfLimit::default())
}

fn seal(roster: &Roster, suite: Suite, log2: u8, plain: &[u8], ends: (End, End)) -> Vec<u8> {
    through(plain, ends, |source, sink| {
        let recipients = [Recipient::key(&SecretKey::from_slice(&KEY).unwrap())];
        let new = NewFile::with_chunk_size(suite, ChunkSize::new(1 << log2).unwrap(), &recipients)?;
        let count = Count::default();
        assert_eq!(new.protect(roster, source, sink, &count)?, plain.len() as u64);
        assert_eq!(count.0.into_inner(), plain.len() as u64);
        Ok(())
    })
    .unwrap()
}

fn open(roster: &Roster, stored: &[u8], ends: (End, End)) -> Result<Vec<u8>> {
    through(stored, ends, |source, sink| {
        let protected = ProtectedFile::open(source, &opener())?;
        protected.unprotect(roster, sink, &()).map(drop)
    })
}

#[test]
fn every_size_goes_through_every_engine_and_opens_by_the_reference() {
    for engine in engines() {
        let roster = Roster::new(&[engine]);
        for (i, &size) in SIZES.iter().chain(&[3 << 20, (5 << 20) + 4097]).enumerate() {
            let plain = painted(size);
            let suite = Suite::ALL[i % Suite::ALL.len()];
            let stored = seal(&roster, suite, 20, &plain, ENDS[i % 4]);
            assert!(open(&roster, &stored, ENDS[(i + 1) % 4]).unwrap() == plain, "{size}");
            if size <= 100_000 {
                assert!(reference::open_file(&stored, &[], &[KEY]).unwrap() == plain, "{size}");
            }
        }
    }
}

#[test]
fn every_pair_of_ends_works_with_small_chunks() {
    for engine in engines() {
        let lanes = engine.info().workers;
        let roster = Roster::new(&[engine]);
        for (ends, suite) in ENDS.into_iter().flat_map(|ends| SUITES.map(|suite| (ends, suite))) {
            // 300 chunks are more than one vectored call moves, and several jobs for each lane.
            for size in [0, 1, 4096, 4097, 300 * 4096, 300 * 4096 + 1] {
                let plain = painted(size);
                let stored = seal(&roster, suite, 12, &plain, ends);
                if size <= 4097 {
                    assert!(reference::open_file(&stored, &[], &[KEY]).unwrap() == plain, "{ends:?} {size} {lanes}");
                }
                for back in ENDS {
                    assert!(open(&roster, &stored, back).unwrap() == plain, "{ends:?} {back:?} {size} {lanes}");
                }
            }
        }
    }
}

#[test]
fn several_engines_share_the_work() {
    let roster = Roster::new(&engines());
    let plain = painted(40 << 20);
    let stored = seal(&roster, Suite::default(), 20, &plain, (End::File, End::Stream));
    assert!(open(&roster, &stored, (End::Stream, End::File)).unwrap() == plain);
}

#[test]
fn no_two_runs_give_the_same_bytes() {
    let roster = Roster::new(&engines()[..1]);
    let seal = || seal(&roster, Suite::default(), 20, b"the same", ENDS[0]);
    let (a, b) = (seal(), seal());
    assert_ne!(a[a.len() - 56..], b[b.len() - 56..]);
}

#[test]
fn a_failing_sink_ends_the_run() {
    struct Full(usize);
    impl Write for Full {
        fn write(&mut self, buf: &[u8]) -> io::Result<usize> {
            self.0 = self.0.checked_sub(buf.len()).ok_or(io::ErrorKind::StorageFull)?;
            Ok(buf.len())
        }
        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }
    for engine in engines() {
        let roster = Roster::new(&[engine]);
        let recipients = [Recipient::key(&SecretKey::from_slice(&KEY).unwrap())];
        let new = NewFile::new(Suite::default(), &recipients).unwrap();
        let plain = painted(30 << 20);
        let sink = Sink::Stream(Box::new(Full(9 << 20)));
        let error = new.protect(&roster, Source::stream(&plain[..]), sink, &()).unwrap_err();
        assert!(matches!(error, Error::Write(_)), "{error}");
    }
}

#[test]
fn a_file_that_shrinks_or_grows_is_refused() {
    struct Truncate<'a>(&'a File, u64);
    impl Progress for Truncate<'_> {
        fn advance(&self, _: u64) {
            self.0.set_len(self.1).unwrap();
        }
    }
    let roster = Roster::new(&engines()[..1]);
    let recipients = [Recipient::key(&SecretKey::from_slice(&KEY).unwrap())];
    for len in [1 << 20, 40 << 20] {
        let new = NewFile::new(Suite::default(), &recipients).unwrap();
        let file = tempfile::tempfile().unwrap();
        file.set_len(30 << 20).unwrap();
        let (source, progress) = (file::source(&file).unwrap(), Truncate(&file, len));
        let error = new.protect(&roster, source, Sink::Nothing, &progress).unwrap_err();
        assert!(matches!(error, Error::Changed), "{error}");
    }
}

/// A terminal or a growing file may continue after it has reported an end.
#[test]
fn the_first_end_of_a_stream_is_its_end() {
    struct Resumes(Vec<&'static [u8]>);
    impl Read for Resumes {
        fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
            let Some(piece) = self.0.pop() else { return Ok(0) };
            buf[..piece.len()].copy_from_slice(piece);
            Ok(piece.len())
        }
    }
    let roster = Roster::new(&engines()[..1]);
    let recipients = [Recipient::key(&SecretKey::from_slice(&KEY).unwrap())];
    let new = NewFile::new(Suite::default(), &recipients).unwrap();
    let stored = Mutex::new(Vec::new());
    let source = Source::stream(Resumes(vec![b"more", b"", b"some"]));
    new.protect(&roster, source, Sink::Stream(Box::new(Collect(&stored))), &()).unwrap();
    assert_eq!(reference::open_file(&stored.into_inner().unwrap(), &[], &[KEY]).unwrap(), b"some");
}

#[test]
fn a_file_that_changes_while_it_is_read_is_refused() {
    struct Overwrite<'a>(&'a File);
    impl Progress for Overwrite<'_> {
        fn advance(&self, _: u64) {
            self.0.write_all_at(b"new", 0).unwrap();
            self.0.set_modified(std::time::SystemTime::now() + std::time::Duration::from_secs(1)).unwrap();
        }
    }
    let roster = Roster::new(&engines()[..1]);
    let recipients = [Recipient::key(&SecretKey::from_slice(&KEY).unwrap())];
    for len in [0, 1000] {
        let new = NewFile::new(Suite::default(), &recipients).unwrap();
        let file = tempfile::tempfile().unwrap();
        file.set_len(len).unwrap();
        let (source, progress) = (file::source(&file).unwrap(), Overwrite(&file));
        let error = new.protect(&roster, source, Sink::Nothing, &progress).unwrap_err();
        assert!(matches!(error, Error::Changed), "{len}: {error}");
    }
}

#[test]
fn every_run_fails_without_an_engine() {
    let recipients = [Recipient::key(&SecretKey::from_slice(&KEY).unwrap())];
    let new = NewFile::new(Suite::default(), &recipients).unwrap();
    let error = new.protect(&Roster::new(&[]), Source::stream(&b"text"[..]), Sink::Nothing, &()).unwrap_err();
    assert_eq!(error.to_string(), "engine none failed: there is no engine");
}

#[test]
fn zeros_become_holes_and_come_back() {
    use std::os::unix::fs::MetadataExt;
    let roster = Roster::new(&engines()[..1]);
    let mut plain = vec![0; 20 << 20];
    plain[5 << 20..(5 << 20) + 100].copy_from_slice(&painted(100));
    for tail in [0, 1] {
        plain.resize((20 << 20) + tail, 0);
        let stored = seal(&roster, Suite::default(), 20, &plain, ENDS[0]);
        let source = Source::stream(&stored[..]);
        let protected = ProtectedFile::open(source, &opener()).unwrap();
        let output = tempfile::NamedTempFile::new().unwrap();
        protected.unprotect(&roster, Sink::ranged(file::Disk::new(output.as_file())), &()).unwrap();
        assert!(fs::read(output.path()).unwrap() == plain);
        let allocated = output.as_file().metadata().unwrap().blocks() * 512;
        assert!(allocated < 1 << 20, "{allocated} bytes allocated");
    }
}

#[test]
fn more_slots_than_the_format_has_are_an_error() {
    let key = |i: u8| Recipient::key(&SecretKey::from_slice(&[i; 32]).unwrap());
    let new = |n: u8| NewFile::new(Suite::default(), &(0..n).map(key).collect::<Vec<_>>());
    assert!(new(64).is_ok());
    assert!(matches!(new(65), Err(Error::KeyCount(65))));
    assert!(matches!(new(0), Err(Error::KeyCount(0))));
}

#[test]
fn a_file_that_loses_its_name_is_still_read_to_its_end() {
    let file = tempfile::NamedTempFile::new().unwrap();
    let plain = painted(100_000);
    fs::write(file.path(), &plain).unwrap();
    let opened = File::open(file.path()).unwrap();
    let source = file::source(&opened).unwrap();
    drop(file);
    let recipients = [Recipient::key(&SecretKey::from_slice(&KEY).unwrap())];
    let new = NewFile::new(Suite::default(), &recipients).unwrap();
    let stored = Mutex::new(Vec::new());
    let roster = Roster::new(&engines()[..1]);
    new.protect(&roster, source, Sink::Stream(Box::new(Collect(&stored))), &()).unwrap();
    assert!(open(&roster, &stored.into_inner().unwrap(), ENDS[0]).unwrap() == plain);
}

/// Refuses the chunk with this number when it is recorded.
struct Refusing(u64, std::sync::atomic::AtomicBool);

impl Progress for Refusing {
    fn advance(&self, _: u64) {}

    fn is_cancelled(&self) -> bool {
        self.1.load(Ordering::Relaxed)
    }

    fn record(&self, head: &phalanx_core::ChunkHead<'_>) {
        self.1.fetch_or(head.index == self.0, Ordering::Relaxed);
    }
}

#[test]
fn a_chunk_that_is_refused_when_it_is_recorded_is_not_written() {
    const CHUNK: usize = 1 << 20;
    let plaintext = painted(3 * CHUNK + 5);
    let recipients = [Recipient::key(&SecretKey::from_slice(&KEY).unwrap())];
    let mut file = Vec::new();
    let new = NewFile::new(Suite::default(), &recipients).unwrap();
    new.protect(&Roster::cpu(), Source::stream(&plaintext[..]), Sink::stream(&mut file), &()).unwrap();
    for refused in 0..4 {
        let opener = opener();
        let progress = Refusing(refused, Default::default());
        let mut written = Vec::new();
        let protected = ProtectedFile::open(Source::stream(&file[..]), &opener).unwrap();
        let done = protected.unprotect(&Roster::cpu(), Sink::stream(&mut written), &progress);
        assert!(matches!(done, Err(Error::Cancelled)), "{done:?}");
        // Of the chunks in front of it, those that were opened by other threads may have been written.
        assert!(written.len() <= refused as usize * CHUNK && plaintext.starts_with(&written), "{refused}");
    }
}
