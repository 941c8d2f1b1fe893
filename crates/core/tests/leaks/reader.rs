//! The reader and the writer: after a reader is dropped, and chunks that its cache evicted before that.

use crate::memory::{Hunt, key, secret, tidily, write};
use crate::set::{KEYS, cpu, seeds, wipe};
use phalanx_core::{ChunkSize, KdfLimit, NewFile, Opener, Reader, ReaderOptions, Recipient, Suite};
use std::io::{Read, Write};
use std::sync::{Arc, Mutex};

const CHUNK: usize = 4096;
/// More than a writer gathers, and more than is read ahead.
const LEN: usize = 2000 * CHUNK + 5;

/// A protected file whose plaintext is no longer in memory.
fn protected(seed: u64, suite: Suite) -> Vec<u8> {
    let recipients = [Recipient::key(&key(KEYS + seed))];
    let new = NewFile::with_chunk_size(suite, ChunkSize::new(CHUNK as u64).unwrap(), &recipients).unwrap();
    let mut stored = Vec::with_capacity(LEN + 100_000);
    let mut writer = new.writer(Arc::new(cpu()), &mut stored).unwrap();
    let mut piece = vec![0; LEN];
    write(seed, &mut piece);
    writer.write_all(&piece).unwrap();
    wipe(&mut piece);
    writer.finish().unwrap();
    stored
}

fn hunt(seed: u64, from: usize, to: usize) -> Hunt {
    let mut hunt = Hunt::default();
    hunt.seek("plaintext", secret(seed).take(to).skip(from));
    hunt
}

fn open(seed: u64, stored: Vec<u8>, cache: usize) -> Reader<Vec<u8>> {
    let opener = Opener::new(key(KEYS + seed), KdfLimit::default());
    let options = ReaderOptions::new().cache(cache).roster(Arc::new(cpu()));
    Reader::open_with(stored, &opener, &options).unwrap()
}

pub fn written_files() {
    for suite in [Suite::Aes256CtrSha3, Suite::Aes256Gcm] {
        let seed = seeds();
        hunt(seed, 0, LEN).nothing_left("a writer", || drop(protected(seed, suite)));
        hunt(seed, 0, LEN).nothing_left("a writer that is not finished", || {
            let new = NewFile::new(suite, &[Recipient::key(&tidily(|| key(KEYS + seed)))]).unwrap();
            let mut writer = new.writer(Arc::new(cpu()), std::io::sink()).unwrap();
            let mut piece = vec![0; LEN];
            write(seed, &mut piece);
            writer.write_all(&piece).unwrap();
            wipe(&mut piece);
        });
    }
}

pub fn read_files() {
    for suite in [Suite::Aes256CtrSha3, Suite::Aes256Gcm] {
        let seed = seeds();
        let stored = tidily(|| protected(seed, suite));
        hunt(seed, 0, LEN).nothing_left("a reader", || {
            let mut reader = open(seed, stored.clone(), 1 << 20);
            let mut piece = vec![0; 100_000];
            while reader.read(&mut piece).unwrap() > 0 {}
            reader.read_at(&mut piece, 12_345).unwrap();
            wipe(&mut piece);
        });
        // A reader that is still there has forgotten all but a few chunks.
        let kept = Mutex::new(None);
        hunt(seed, 0, LEN - 200 * CHUNK).nothing_left("a cache", || {
            let reader = open(seed, stored.clone(), 100 * CHUNK);
            let mut piece = vec![0; CHUNK];
            for offset in (0..LEN).step_by(CHUNK) {
                reader.read_at(&mut piece, offset as u64).unwrap();
            }
            wipe(&mut piece);
            *kept.lock().unwrap() = Some(reader);
        });
    }
}
