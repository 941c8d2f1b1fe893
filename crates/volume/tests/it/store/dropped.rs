//! To whom dropped changes are reported, and limits of single writes.

use crate::store::{Volume, content};
use phalanx_core::Suite;
use phalanx_volume::{Disk, System, VolumeError};
use std::fs::File;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// A disk that, while it is full, has no space for files that grow.
#[derive(Default)]
struct Filled(AtomicBool);

impl Filled {
    fn set(&self, is_full: bool) {
        self.0.store(is_full, Ordering::SeqCst);
    }

    fn check(&self) -> io::Result<()> {
        if self.0.load(Ordering::SeqCst) { Err(rustix::io::Errno::NOSPC.into()) } else { Ok(()) }
    }
}

impl Disk for Filled {
    fn write(&self, file: &File, bytes: &[u8], offset: u64) -> io::Result<()> {
        if offset + bytes.len() as u64 > file.metadata()?.len() {
            self.check()?;
        }
        System.write(file, bytes, offset)
    }

    fn reserve(&self, file: &File, offset: u64, len: u64) -> io::Result<()> {
        self.check()?;
        System.reserve(file, offset, len)
    }
}

/// A disk that needs new space to empty the journal too, as where each write goes to a new place. Where it `tears`, half of
/// that is written.
struct CopyOnWrite {
    filled: Filled,
    tears: bool,
}

impl Disk for CopyOnWrite {
    fn write(&self, file: &File, bytes: &[u8], offset: u64) -> io::Result<()> {
        if offset == 0 && bytes.iter().all(|byte| *byte == 0) {
            let half = if self.tears { &bytes[..bytes.len() / 2] } else { &[] };
            self.filled.check().or_else(|e| System.write(file, half, 0).and(Err(e)))?;
        }
        self.filled.write(file, bytes, offset)
    }

    fn reserve(&self, file: &File, offset: u64, len: u64) -> io::Result<()> {
        self.filled.reserve(file, offset, len)
    }
}

#[test]
fn a_journal_that_cannot_be_emptied_for_want_of_space_does_not_end_writing() {
    for tears in [false, true] {
        let disk = Arc::new(CopyOnWrite { filled: Filled::default(), tears });
        let volume = Volume::new(Suite::default(), 4096);
        let store = volume.store_on(disk.clone());
        let (file, other) = (volume.create(&store, "a"), volume.create(&store, "b"));
        for file in [&file, &other] {
            file.write_at(0, &[1; 10_000]).and_then(|()| file.sync(&file.witness(), false)).unwrap();
            file.write_at(0, &[2; 10_000]).and_then(|()| file.sync(&file.witness(), false)).unwrap();
        }
        other.write_at(0, &[3; 10_000]).unwrap();
        disk.filled.set(true);
        file.write_at(10_000, &[3; 300_000]).unwrap();
        assert!(matches!(file.settle(), Err(VolumeError::Full)));
        disk.filled.set(false);
        if tears {
            // What followed in the journal would not be found.
            assert!(matches!(other.settle(), Err(VolumeError::ReadOnly)));
            continue;
        }
        // Only changes of the file that had no space were dropped, and there is space again.
        other.sync(&other.witness(), false).unwrap();
        file.write_at(0, &[4; 10_000]).and_then(|()| file.settle()).unwrap();
        // The transactions after those that stayed count.
        drop((file, other, store));
        let store = volume.store();
        assert_eq!(content(&volume.open(&store, "a")), [4; 10_000]);
        assert_eq!(content(&volume.open(&store, "b")), [3; 10_000]);
        store.close().unwrap();
    }
}

#[test]
fn a_drop_outlives_the_last_close() {
    let disk = Arc::new(Filled::default());
    let volume = Volume::new(Suite::default(), 4096);
    let store = volume.store_on(disk.clone());
    let file = volume.create(&store, "a");
    let writer = file.witness();
    file.sync(&writer, false).unwrap();
    file.write_at(0, &[1; 300_000]).unwrap();
    disk.set(true);
    // A close whose error goes unnoticed.
    file.commit(&writer).unwrap_err();
    drop((file, writer));
    disk.set(false);

    let file = volume.open(&store, "a");
    let (first, second) = (file.witness(), file.witness());
    assert!(content(&file).is_empty());
    file.commit(&first).unwrap();
    for witness in [&first, &second] {
        assert!(matches!(file.sync(witness, false), Err(VolumeError::Dropped(_))));
        file.sync(witness, false).unwrap();
    }
    drop(file);
    let file = volume.open(&store, "a");
    file.sync(&file.witness(), false).unwrap();
}

#[test]
fn a_later_opener_gets_the_error_of_a_drop_only_from_a_sync() {
    let disk = Arc::new(Filled::default());
    let volume = Volume::new(Suite::default(), 4096);
    let store = volume.store_on(disk.clone());
    let file = volume.create(&store, "a");
    let writer = file.witness();
    file.write_at(0, &[1; 10_000]).unwrap();
    file.sync(&writer, false).unwrap();
    file.write_at(10_000, &[1; 300_000]).unwrap();
    disk.set(true);
    file.commit(&writer).unwrap_err();
    file.commit(&writer).unwrap();
    disk.set(false);
    // Truncated by name, and written and closed by others.
    for len in [5, 7] {
        file.set_len(len).and_then(|()| file.settle()).unwrap();
        let other = file.witness();
        file.write_at(len, &[1]).and_then(|()| file.commit(&other)).unwrap();
    }
    file.sync(&writer, true).unwrap_err();
    store.close().unwrap();
}

#[test]
fn an_overwrite_fills_no_holes() {
    let volume = Volume::new(Suite::default(), 4096);
    let store = volume.store();
    let file = volume.create(&store, "a");
    file.write_at(0, &vec![1; 1 << 20]).unwrap();
    for i in 0..241 {
        file.write_at((1 << 20) + i * (4 << 20) + (3 << 20), b"x").unwrap();
    }
    let witness = file.witness();
    file.sync(&witness, false).unwrap();
    let before = file.file().metadata().unwrap().blocks();
    file.write_at(0, &vec![2; 100_000]).unwrap();
    file.sync(&witness, false).unwrap();
    let after = file.file().metadata().unwrap().blocks();
    assert!(after < before + 1000, "{before} {after}");
}

#[test]
fn short_writes_after_long_ones_take_little_memory() {
    let volume = Volume::new(Suite::default(), 4096);
    let store = volume.store();
    let file = volume.create(&store, "a");
    for i in 0..30 {
        file.write_at(i << 20, &vec![1; 1 << 20]).unwrap();
    }
    file.sync(&file.witness(), true).unwrap();
    file.write_at(0, &vec![2; 64 << 10]).unwrap();
    assert!(file.dirty_bytes() < 200 << 10, "{}", file.dirty_bytes());
}

#[test]
fn a_write_longer_than_the_journal_is_stored_in_parts() {
    let volume = Volume::new(Suite::default(), 4096);
    let store = volume.store();
    let file = volume.create(&store, "a");
    let len = 45 << 20;
    file.write_at(0, &vec![1; len]).unwrap();
    file.sync(&file.witness(), false).unwrap();
    file.write_at(5, &vec![2; len]).unwrap();
    file.sync(&file.witness(), false).unwrap();
    assert_eq!(file.dirty_bytes(), 0);
    let found = content(&file);
    assert!(found[..5] == [1; 5] && found[5..].iter().all(|byte| *byte == 2) && found.len() == len + 5);
}
