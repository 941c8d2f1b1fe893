//! An output at offsets that fails at any of its calls ends the run with that error, whichever way the run goes.

use crate::common::{AtHand, engines, painted};
use phalanx_core::file::Filling;
use phalanx_core::{
    ChunkSize, Error, KdfLimit, NewFile, Opener, ProtectedFile, Recipient, Result, Roster, SecretKey, Sink, Source,
    Suite, WriteAt,
};
use std::io;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Keeps what is written, and fails at one call.
struct Failing {
    bytes: Mutex<Vec<u8>>,
    calls: AtomicUsize,
    fails_at: usize,
}

impl Failing {
    fn new(fails_at: usize) -> Self {
        Self { bytes: Mutex::default(), calls: AtomicUsize::new(0), fails_at }
    }

    fn call(&self) -> io::Result<()> {
        let number = self.calls.fetch_add(1, Ordering::Relaxed);
        if number == self.fails_at { Err(io::ErrorKind::StorageFull.into()) } else { Ok(()) }
    }
}

impl WriteAt for Failing {
    fn expect(&self, _: Option<u64>, _: Filling) -> io::Result<()> {
        self.call()
    }

    fn write_all_at(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        self.call()?;
        let mut all = self.bytes.lock().unwrap();
        let end = offset as usize + bytes.len();
        let len = all.len().max(end);
        all.resize(len, 0);
        all[offset as usize..end].copy_from_slice(bytes);
        Ok(())
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.call()?;
        self.bytes.lock().unwrap().resize(len as usize, 0);
        Ok(())
    }
}

/// Does the work with an output that fails at its first call, at its second one, and so on, until it is not called so often.
/// Returns what is written then, and how often it failed.
fn fail_everywhere(what: &str, work: impl Fn(&Failing) -> Result<()>) -> (Vec<u8>, usize) {
    for fails_at in 0.. {
        let output = Failing::new(fails_at);
        let done = work(&output);
        if output.calls.load(Ordering::Relaxed) <= fails_at {
            done.unwrap_or_else(|e| panic!("{what}: {e}"));
            return (output.bytes.into_inner().unwrap(), fails_at);
        }
        match done {
            Err(Error::Write(e)) => assert_eq!(e.kind(), io::ErrorKind::StorageFull, "{what}, call {fails_at}"),
            done => panic!("{what}, call {fails_at}: {done:?}"),
        }
    }
    unreachable!()
}

#[test]
fn every_call_of_an_output_may_fail() {
    let key = SecretKey::from_slice(&[4; 32]).unwrap();
    // More than a job of chunks.
    let plain = painted((3 << 20) + 5);
    for engine in engines() {
        let name = engine.info().name.clone();
        let roster = Roster::new(&[engine]);
        let (stored, writes) = fail_everywhere(&format!("protect by {name}"), |output| {
            let size = ChunkSize::new(1 << 16).unwrap();
            let new = NewFile::with_chunk_size(Suite::Aes256CtrSha3, size, &[Recipient::key(&key)])?;
            new.protect(&roster, Source::stream(&plain[..]), Sink::ranged(output), &()).map(drop)
        });
        let opener = Opener::new(AtHand { keys: vec![key.clone()], password: None }, KdfLimit::default());
        let (opened, more) = fail_everywhere(&format!("unprotect by {name}"), |output| {
            let file = ProtectedFile::open(Source::stream(&stored[..]), &opener)?;
            file.unprotect(&roster, Sink::ranged(output), &()).map(drop)
        });
        assert!(opened == plain && writes > 2 && more > 2, "{name}: {writes}, {more}");
    }
}
