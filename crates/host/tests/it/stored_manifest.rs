//! What is opened as a manifest is what its digest is made from, whatever others do to the file meanwhile.

use crate::rekey::{by, key};
use phalanx_core::tree::{Digest, Entry, Head, Kind, ManifestWriter, Time, TreeId};
use phalanx_core::{ChunkSize, NewFile, ReadAt, Recipient, Roster, Sink, Source, Suite};
use phalanx_host::mirror::listing::Listing;
use phalanx_host::mirror::store::Stored;
use std::io;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

fn protected(plain: &[u8], chunk: u64) -> Vec<u8> {
    let recipients = [Recipient::key(&key(1))];
    let new = NewFile::with_chunk_size(Suite::default(), ChunkSize::new(chunk).unwrap(), &recipients).unwrap();
    let mut stored = Vec::new();
    new.protect(&Roster::cpu(), Source::stream(plain), Sink::stream(&mut stored), &()).unwrap();
    stored
}

/// A manifest with this generation and so many folders. Each of them takes 22 bytes.
fn manifest(generation: u64, folders: usize) -> Vec<u8> {
    let (tree, previous) = (TreeId([1; 16]), Digest([0; 32]));
    let head = Head { tree, generation, written: 0, previous, rules: String::new() };
    let modified = Time { seconds: 0, nanoseconds: 0 };
    let folder = |name: String| Entry { name: name.into(), mode: 0o700, modified, kind: Kind::Folder };
    let mut writer = ManifestWriter::new(Vec::new(), &head).unwrap();
    writer.entry(&folder(String::new())).unwrap();
    for number in 0..folders {
        writer.entry(&folder(format!("{number:03}"))).unwrap();
        writer.end_folder().unwrap();
    }
    writer.end_folder().unwrap();
    protected(&writer.into_output(), 4096)
}

/// What is read of a stored manifest: its generation and its digest. `before` says whether the digest is made before all of it
/// is read.
fn read(stored: &Stored, before: bool) -> phalanx_host::Result<(u64, Digest)> {
    let (head, manifest) = stored.open(&by(1), Arc::new(Roster::cpu()))?;
    let digest = if before { Some(stored.digest()?) } else { None };
    Listing::read(manifest).map_err(phalanx_host::mirror::store::invalid)?;
    Ok((head.generation, digest.map_or_else(|| stored.digest(), Ok)?))
}

/// A file that others write to: some reads find another content.
struct Rewritten {
    usual: Vec<u8>,
    other: Vec<u8>,
    /// Which reads find the other content.
    when: Range<usize>,
    reads: Arc<AtomicUsize>,
}

impl ReadAt for Rewritten {
    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<usize> {
        let read = self.reads.fetch_add(1, Ordering::Relaxed);
        if self.when.contains(&read) { &self.other } else { &self.usual }.read_at(buf, offset)
    }

    fn size(&self) -> io::Result<u64> {
        self.usual.size()
    }
}

#[test]
fn no_manifest_gets_the_digest_of_another_one() {
    for folders in [10, 600] {
        let [old, new] = [1, 2].map(|generation| manifest(generation, folders));
        assert_eq!(old.len(), new.len());
        let known = [&old, &new].map(|bytes| read(&Stored::new(bytes.clone()).unwrap(), true).unwrap());
        for before in [true, false] {
            for (usual, other) in [(&old, &new), (&new, &old)] {
                let reads = Arc::new(AtomicUsize::new(0));
                let at = |when| {
                    reads.store(0, Ordering::Relaxed);
                    let file = Rewritten { usual: usual.clone(), other: other.clone(), when, reads: reads.clone() };
                    read(&Stored::new(file).unwrap(), before)
                };
                at(0..0).unwrap();
                let all = reads.load(Ordering::Relaxed);
                for (from, to) in (0..all).flat_map(|from| (from + 1..=all).map(move |to| (from, to))) {
                    if let Ok(found) = at(from..to) {
                        assert!(known.contains(&found), "{from}..{to}: {found:?}");
                    }
                }
            }
        }
    }
}

#[test]
fn a_long_file_of_holes_is_not_read_to_its_end() {
    /// A file with an authentic beginning and an authentic end, of which all else is holes.
    struct Holes(Vec<u8>, Arc<AtomicUsize>);

    impl ReadAt for Holes {
        fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<usize> {
            self.1.fetch_add(1, Ordering::Relaxed);
            let len = self.0.read_at(buf, offset)?;
            let end = self.0.len() - (1 << 20);
            (offset as usize..)
                .zip(&mut buf[..len])
                .filter(|(at, _)| (1 << 20..end).contains(at))
                .for_each(|at| *at.1 = 0);
            Ok(len)
        }

        fn size(&self) -> io::Result<u64> {
            self.0.size()
        }
    }

    let reads = Arc::new(AtomicUsize::new(0));
    let stored = Stored::new(Holes(protected(&vec![0; 65 << 20], 4096), reads.clone())).unwrap();
    assert!(stored.open(&by(1), Arc::new(Roster::cpu())).is_err());
    let reads = reads.load(Ordering::Relaxed);
    assert!(reads < 1000, "{reads} reads");
}
