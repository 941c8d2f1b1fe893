//! Sealing, and opening altered files of the reference and arbitrary bytes: as a file, as a stream and by range.
#![no_main]

use libfuzzer_sys::fuzz_target;
use phalanx_core::engine::{Buffer, CpuEngine, Engine, EngineInfo, Fault, Job, Levels, Verdicts};
use phalanx_core::format::Header;
use phalanx_core::{
    ChunkSize, Error, KeyId, KeySource, NewFile, Opener, Password, ProtectedFile, Recipient, Roster, SecretKey, Sink,
    Source, Suite,
};
use phalanx_fuzz::alter::{Altered, plaintext_len};
use phalanx_fuzz::made::{LIMIT, Made, PASSWORDS, USER_KEYS, Way, shape};
use phalanx_fuzz::model::{Expected, Hand, Outcome, class, expect, is_beyond};
use phalanx_fuzz::{Steer, hash, reader};
use phalanx_host::file;
use phalanx_kernels::{aes, keccak};
use phalanx_reference as reference;
use rustix::fs::{MemfdFlags, memfd_create};
use std::cell::RefCell;
use std::fs::File as OsFile;
use std::io::{self, Read, Seek};
use std::os::unix::fs::FileExt;
use std::sync::Arc;

fuzz_target!(|data: &[u8]| {
    thread_local!(static WORLD: RefCell<World> = RefCell::new(World::new()));
    WORLD.with_borrow_mut(|world| world.run(data));
});

/// State that is kept from run to run.
struct World {
    made: Made,
    /// One opener for each [`Hand`].
    openers: Vec<Opener<AtHand>>,
    /// The number of passwords tried with the openers, which keep the keys they derive.
    derived: usize,
    levels: Vec<Levels>,
    input: OsFile,
    output: OsFile,
}

impl World {
    fn new() -> Self {
        let memory = || OsFile::from(memfd_create("fuzz", MemfdFlags::CLOEXEC).expect("memfd"));
        let aes = aes::Level::available().map(|aes| Levels { aes, keccak: keccak::Level::detect() });
        let keccak = keccak::Level::available().map(|keccak| Levels { aes: aes::Level::detect(), keccak });
        let levels = aes.chain(keccak).collect();
        Self { made: Made::new(), openers: openers(), derived: 0, levels, input: memory(), output: memory() }
    }

    fn run(&mut self, data: &[u8]) {
        let mut steer = Steer(data);
        let hash = hash(data);
        let kind = steer.byte();
        let hand = steer.byte();
        // Nearly always the first key.
        let hand = Hand { keys: [hand & 15 != 15, hand & 16 != 0], password: hand & 32 != 0 };
        let run = Run::new(&mut steer, &self.levels, hash);
        match kind % 8 {
            0 => self.raw(steer.0, hand, &run, hash),
            1 => self.seal(&mut steer, &run, hash),
            _ => self.made(&mut steer, hand, &run, hash),
        }
    }

    /// Arbitrary bytes.
    fn raw(&mut self, bytes: &[u8], hand: Hand, run: &Run, hash: u64) {
        let run = &Run { fails_at: None, ..*run };
        let (found, plaintext) = self.open_file(bytes, hand, run);
        let (streamed, stream_plaintext) = self.open_stream(bytes, hand, run);
        match (&found, &streamed) {
            (Ok(_), Ok(_)) => {
                let expected = reference_open(bytes, hand).expect("sound, the core says");
                assert!(run.checks_only || stream_plaintext == expected);
                assert!(run.checks_only && !run.to_file || plaintext == expected);
                return;
            }
            // A stream finds a bad chunk before its end, and reports its end as another error.
            (
                Err(Error::Truncated(_) | Error::Extended(_)),
                Err(Error::Truncated(_) | Error::Extended(_) | Error::Altered { .. }),
            ) => {}
            (Err(a), Err(b)) => assert_eq!(a.to_string(), b.to_string()),
            _ => panic!("{found:?} as a file, {streamed:?} as a stream"),
        }
        // The reference's key unwrapping is slow, but its reading of headers is not.
        let header = reference::read_header(bytes);
        if header.is_err() || hash.is_multiple_of(256) {
            assert_eq!(Err(class(&found)), reference_open(bytes, hand));
        }
    }

    /// A file of the reference, altered or not.
    fn made(&mut self, steer: &mut Steer, hand: Hand, run: &Run, hash: u64) {
        let Altered { file, ways, len, altered } = Altered::new(&mut self.made, steer, hash);
        let bytes = &file.bytes;
        let expected = expect(&mut self.made, hand, bytes);
        let is_volume = ways.iter().any(|way| matches!(way, Way::Other { kind: 16, .. }));
        if !altered && !is_volume && hand.keys[0] && ways.contains(&Way::Key(0)) {
            assert_eq!(expected.outcome, Outcome::Opens);
            assert_eq!(expected.authentic().len(), len);
        }

        let (found, plaintext) = self.open_file(bytes, hand, run);
        assert!(expected.agrees(&found), "{found:?}, but expected {:?}", expected.outcome);
        if expected.cut {
            assert!(matches!(found, Err(Error::Truncated(_) | Error::Extended(_))));
        }
        check_first(&expected, &found, run);
        check_released(&expected, &found, &plaintext, run.to_file);

        let (found, plaintext) = self.open_stream(bytes, hand, run);
        match (run.fails_at.filter(|at| *at < bytes.len()), &found) {
            (Some(_), Err(Error::Read(_))) => {}
            (Some(_), Ok(_)) => panic!("an unreadable file was opened"),
            _ => assert!(expected.agrees(&found), "{found:?}, but expected {:?}", expected.outcome),
        }
        check_first(&expected, &found, run);
        check_released(&expected, &found, &plaintext, false);

        reader::check(bytes, &self.openers[number(hand)], run.roster(), &expected, hash);
        self.count(hand);

        let small = bytes.len() < 1000;
        if hash.is_multiple_of(if small { 512 } else { 16384 }) {
            let expected = match expected.outcome {
                Outcome::NotPhalanx => Err(reference::Error::NotPhalanx),
                Outcome::Version(_) => Err(reference::Error::Version),
                Outcome::Header => Err(reference::Error::Header),
                Outcome::KdfLimit => Err(reference::Error::KdfLimit),
                Outcome::NoKey(..) | Outcome::WrongKey => Err(reference::Error::NoKey),
                Outcome::Altered => Err(reference::Error::Altered),
                Outcome::Opens => Ok(expected.authentic()),
            };
            assert_eq!(reference_open(bytes, hand), expected);
        }
    }

    /// The core opens what it seals, and so does the reference.
    fn seal(&mut self, steer: &mut Steer, run: &Run, hash: u64) {
        let suite = 1 + steer.byte() % Suite::ALL.len() as u8;
        let plaintext: Vec<u8> = (0..plaintext_len(steer, hash)).map(|i| (i % 251) as u8).collect();
        let key = SecretKey::from_slice(&USER_KEYS[0]).expect("32 bytes");
        let chunk_size = ChunkSize::new(4096).expect("one of the format's");
        let new = NewFile::with_chunk_size(Suite::ALL[usize::from(suite) - 1], chunk_size, &[Recipient::key(&key)])
            .expect("one recipient");
        let roster = run.roster();

        let mut sealed = Vec::new();
        fill(&self.input, &plaintext);
        fill(&self.output, &[]);
        let source =
            if run.to_file { file::regular(&self.input).unwrap() } else { Source::stream(run.pieces(&plaintext)) };
        let to_file = run.interrupts;
        let sink = if to_file { file::sink(&self.output, false) } else { Sink::Stream(Box::new(&mut sealed)) };
        let len = new.protect(&roster, source, sink, &());
        if to_file {
            sealed = contents(&self.output);
        }
        if !run.to_file && run.fails_at.is_some_and(|at| at < plaintext.len()) {
            assert!(matches!(len, Err(Error::Read(_))));
            return;
        }
        assert_eq!(len.expect("sealed"), plaintext.len() as u64);
        let chunks = plaintext.len().div_ceil(4096).max(1);
        let header = Header::read(&mut &sealed[..]).expect("a sound header");
        assert_eq!(sealed.len(), header.bytes().len() + plaintext.len() + shape(suite).overhead() * chunks);

        let hand = Hand { keys: [true; 2], password: false };
        let run = Run { fails_at: None, ..*run };
        for (found, opened) in [self.open_file(&sealed, hand, &run), self.open_stream(&sealed, hand, &run)] {
            assert_eq!(found.expect("opened"), plaintext.len() as u64);
            assert!(run.checks_only || opened == plaintext);
        }
        if hash.is_multiple_of(if plaintext.len() < 100 { 512 } else { 16384 }) {
            assert_eq!(reference::open_file(&sealed, &[], &USER_KEYS[..1]), Ok(plaintext));
        }
    }

    fn open_file(&mut self, bytes: &[u8], hand: Hand, run: &Run) -> (Result<u64, Error>, Vec<u8>) {
        fill(&self.input, bytes);
        let mut plaintext = Vec::new();
        let found = if run.to_file {
            fill(&self.output, &[]);
            let found = self.open(file::regular(&self.input).unwrap(), file::sink(&self.output, false), hand, run);
            plaintext = contents(&self.output);
            found
        } else {
            self.open(file::regular(&self.input).unwrap(), run.sink(&mut plaintext), hand, run)
        };
        self.count(hand);
        (found, plaintext)
    }

    fn open_stream(&mut self, bytes: &[u8], hand: Hand, run: &Run) -> (Result<u64, Error>, Vec<u8>) {
        let mut plaintext = Vec::new();
        let found = self.open(Source::stream(run.pieces(bytes)), run.sink(&mut plaintext), hand, run);
        self.count(hand);
        (found, plaintext)
    }

    fn open(&self, source: Source, sink: Sink, hand: Hand, run: &Run) -> Result<u64, Error> {
        ProtectedFile::open(source, &self.openers[number(hand)])?.unprotect(&run.roster(), sink, &())
    }

    fn count(&mut self, hand: Hand) {
        self.derived += usize::from(hand.password);
        if self.derived > 10_000 {
            (self.openers, self.derived) = (openers(), 0);
        }
    }
}

/// With one worker, the first bad chunk is the one that is named.
fn check_first(expected: &Expected, found: &Result<u64, Error>, run: &Run) {
    if let (Err(Error::Altered { chunk: index, .. }), 1) = (found, run.lanes) {
        assert_eq!(expected.first_bad(), Some(*index as usize));
    }
}

/// Only authentic plaintext is ever released: at its place in a file, in order in a stream.
fn check_released(expected: &Expected, found: &Result<u64, Error>, released: &[u8], to_file: bool) {
    if let Ok(len) = found {
        let plaintext = expected.authentic();
        assert_eq!(*len, plaintext.len() as u64);
        assert!(released == plaintext || (released.is_empty() && !to_file));
    } else if to_file {
        for (i, part) in released.chunks(expected.chunk_len.max(1)).enumerate() {
            let zero = part.iter().all(|byte| *byte == 0);
            assert!(zero || expected.chunks[i].as_ref().is_some_and(|chunk| chunk.plaintext.starts_with(part)));
        }
    } else {
        assert!(expected.authentic().starts_with(released));
    }
}

/// The reference's result, with [`LIMIT`] instead of the format's limits.
fn reference_open(bytes: &[u8], hand: Hand) -> Result<Vec<u8>, reference::Error> {
    let keys: Vec<_> = (0..2).filter(|key| hand.keys[*key]).map(|key| USER_KEYS[key]).collect();
    if hand.password && reference::read_header(bytes).is_ok_and(|header| is_beyond(&header)) {
        return match reference::open_file(bytes, &[], &keys) {
            Err(reference::Error::NoKey) => Err(reference::Error::KdfLimit),
            opened => opened,
        };
    }
    reference::open_file(bytes, if hand.password { &PASSWORDS[..1] } else { &[] }, &keys)
}

fn fill(mut file: &OsFile, bytes: &[u8]) {
    // The header is read from the file's cursor.
    file.set_len(0).and_then(|()| file.write_all_at(bytes, 0)).and_then(|()| file.rewind()).expect("memory");
}

fn contents(file: &OsFile) -> Vec<u8> {
    let mut bytes = vec![0; file.metadata().expect("memory").len() as usize];
    file.read_exact_at(&mut bytes, 0).expect("memory");
    bytes
}

/// How a file is read, opened and written.
#[derive(Clone, Copy)]
struct Run {
    levels: Levels,
    lanes: usize,
    preferred: usize,
    piece: usize,
    interrupts: bool,
    fails_at: Option<usize>,
    to_file: bool,
    checks_only: bool,
}

impl Run {
    fn new(steer: &mut Steer, levels: &[Levels], hash: u64) -> Self {
        let (engine, io) = (steer.byte(), steer.byte());
        Self {
            levels: levels[usize::from(engine >> 4) % levels.len()],
            lanes: if hash.is_multiple_of(256) { 3 } else { 1 },
            // Rarely long jobs, because the buffers are wiped each time.
            preferred: if engine & 15 == 15 { 40 } else { usize::from(engine & 3) } * 4096,
            piece: [usize::MAX, 1, 47, 1000][usize::from(io & 3)],
            interrupts: io & 4 != 0,
            to_file: io & 8 != 0,
            checks_only: io & 0x30 == 0x30,
            fails_at: (io >= 0xF0).then(|| usize::from(steer.u16()) % 9000),
        }
    }

    fn roster(&self) -> Roster {
        let info = EngineInfo {
            name: String::new(),
            detail: String::new(),
            suites: Suite::ALL,
            workers: self.lanes,
            preferred_job: self.preferred,
            largest_job: usize::MAX,
        };
        Roster::new(&[Arc::new(Cpu { info, levels: self.levels })])
    }

    fn sink<'a>(&self, plaintext: &'a mut Vec<u8>) -> Sink<'a> {
        if self.checks_only { Sink::Nothing } else { Sink::Stream(Box::new(plaintext)) }
    }

    fn pieces<'a>(&self, bytes: &'a [u8]) -> Pieces<'a> {
        Pieces { bytes, at: 0, count: 0, run: *self }
    }
}

/// The CPU's engine with jobs of a chosen length. The real engine's jobs are too long for fast runs.
struct Cpu {
    info: EngineInfo,
    levels: Levels,
}

impl Engine for Cpu {
    fn info(&self) -> &EngineInfo {
        &self.info
    }

    fn buffer(&self, len: usize) -> Result<Buffer, Fault> {
        Ok(Buffer::paged(len))
    }

    fn run(&self, job: &mut Job) -> Result<Verdicts, Fault> {
        CpuEngine::serial(self.levels).run(job)
    }
}

/// A stream in pieces, small ones at first. It is sometimes interrupted, and may fail.
struct Pieces<'a> {
    bytes: &'a [u8],
    at: usize,
    count: usize,
    run: Run,
}

impl Read for Pieces<'_> {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        self.count += 1;
        if self.run.interrupts && self.count.is_multiple_of(3) {
            return Err(io::ErrorKind::Interrupted.into());
        }
        let end = self.run.fails_at.unwrap_or(usize::MAX).min(self.bytes.len());
        let piece = if self.count < 300 { self.run.piece } else { self.run.piece.max(1000) };
        let n = buf.len().min(piece).min(end - self.at);
        if n == 0 && end < self.bytes.len() {
            return Err(io::ErrorKind::Other.into());
        }
        buf[..n].copy_from_slice(&self.bytes[self.at..self.at + n]);
        self.at += n;
        Ok(n)
    }
}

/// The given keys.
struct AtHand(Vec<(KeyId, SecretKey)>, Option<Password>);

impl KeySource for AtHand {
    fn key(&self, id: &KeyId) -> Result<Option<SecretKey>, Error> {
        Ok(self.0.iter().find(|(other, _)| other == id).map(|(_, key)| key.clone()))
    }

    fn password(&self) -> Result<Option<Password>, Error> {
        Ok(self.1.clone())
    }
}

fn number(hand: Hand) -> usize {
    usize::from(hand.keys[0]) | usize::from(hand.keys[1]) << 1 | usize::from(hand.password) << 2
}

fn openers() -> Vec<Opener<AtHand>> {
    let opener = |hand: usize| {
        let keys = (0..2).filter(|key| hand >> key & 1 == 1).map(|key| {
            let key = SecretKey::from_slice(&USER_KEYS[key]).expect("32 bytes");
            (key.id(), key)
        });
        let password = (hand & 4 != 0).then(|| Password::new(PASSWORDS[0].to_vec()));
        Opener::new(AtHand(keys.collect(), password), LIMIT)
    };
    (0..8).map(opener).collect()
}
