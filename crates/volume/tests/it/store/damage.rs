//! Alterations from outside are found, reported once, and harm nothing else.

use crate::store::disk::{Fault, Faulty};
use crate::store::{Random, Volume, content};
use phalanx_core::Suite;
use phalanx_volume::{Disk, JOURNAL, Store, StoreOptions, System, VolumeError};
use rustix::fs::OFlags;
use rustix::io::Errno;
use std::fs::File;
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::sync::{Arc, Mutex};

const RECORD: u64 = 4096 + 48;

/// A volume with a file of five chunks. If `killed` is given, the run was killed at that call while changing it.
fn volume(killed: Option<usize>) -> (Volume, Vec<u8>, Vec<u8>) {
    let volume = Volume::new(Suite::default(), 4096);
    let old: Vec<u8> = (0..20_000u32).map(|i| (i % 251) as u8).collect();
    let mut new = old.clone();
    let store = volume.store();
    let file = volume.create(&store, "a");
    file.write_at(0, &old).unwrap();
    store.close().unwrap();
    drop((file, store));
    if let Some(at) = killed {
        let disk = Arc::new(Faulty::new(Fault::KilledAt(at)));
        let store = volume.store_on(disk);
        let file = volume.open(&store, "a");
        file.write_at(3000, &[9; 12_000]).unwrap();
        new[3000..15_000].fill(9);
        assert!(file.sync(&file.witness(), true).is_err());
    }
    (volume, old, new)
}

/// The call after the journal has been synced: the first that writes to the file. Half of it is done.
const IN_PLACE: usize = 3;

#[test]
fn a_damaged_chunk_is_reported_once_and_others_are_readable() {
    let (volume, old, _) = volume(None);
    let stored = volume.file("a", OFlags::RDWR);
    let at = 4096 + 2 * RECORD + 1000;
    let mut byte = [0];
    stored.read_exact_at(&mut byte, at).unwrap();
    stored.write_all_at(&[byte[0] ^ 1], at).unwrap();
    let store = volume.store();
    let file = volume.open(&store, "a");
    for _ in 0..3 {
        assert!(matches!(file.read_at(0, 20_000), Err(VolumeError::Damaged(_))));
        assert_eq!(file.read_at(2 * 4096 + 5, 1).unwrap_err().errno(), Errno::IO);
    }
    assert_eq!(file.read_at(0, 8192).unwrap(), old[..8192]);
    assert_eq!(file.read_at(3 * 4096, 9000).unwrap(), old[3 * 4096..]);
    assert!(file.write_at(2 * 4096 + 1, b"x").is_err());
    let told = volume.told.lock().unwrap().clone();
    assert_eq!(told.len(), 1, "{told:?}");
    assert!(told[0].contains("chunk 2"));
    // Replacing the whole chunk repairs it.
    file.write_at(2 * 4096, &[5; 4096]).unwrap();
    store.close().unwrap();
    drop((file, store));
    let store = volume.store();
    assert_eq!(volume.open(&store, "a").read_at(2 * 4096, 4096).unwrap(), [5; 4096]);
}

#[test]
fn a_file_that_is_cut_empty_or_not_of_this_volume_is_damaged() {
    let (volume, ..) = volume(None);
    let whole = std::fs::read(volume.path().join("a")).unwrap();
    let other = self::volume(None).0;
    let mut cases = vec![std::fs::read(other.path().join("a")).unwrap(), [&whole[..], &[0]].concat()];
    for len in [0, 1, 4095, 4096, 4097, 4096 + 48, 4096 + RECORD, whole.len() as u64 - 1] {
        cases.push(whole[..len as usize].to_vec());
    }
    for flipped in [0, 8, 12, 20, 100, 4000, 4095, whole.len() - 1, whole.len() - 3616 - 48] {
        let mut bytes = whole.clone();
        bytes[flipped] ^= 1;
        cases.push(bytes);
    }
    for (number, bytes) in cases.iter().enumerate() {
        std::fs::write(volume.path().join("b"), bytes).unwrap();
        let store = volume.store();
        let _ = store.open_file(volume.file("b", OFlags::RDWR));
        let opened = store.open_file(volume.file("b", OFlags::RDWR));
        assert!(matches!(opened, Err(VolumeError::Damaged(_))), "case {number}: {opened:?}");
        assert_eq!(volume.told.lock().unwrap().drain(..).count(), 1);
    }
}

#[test]
fn the_journal_is_applied_to_a_renamed_file() {
    let (volume, _, new) = volume(Some(IN_PLACE));
    std::fs::rename(volume.path().join("a"), volume.path().join("b")).unwrap();
    let store = volume.store();
    assert!(content(&volume.open(&store, "b")) == new);
}

/// Which files were written to and synced, in this order, by their inodes.
#[derive(Default)]
struct Recorder(Mutex<Vec<(&'static str, u64)>>);

impl Recorder {
    fn note(&self, call: &'static str, file: &File) {
        self.0.lock().unwrap().push((call, file.metadata().unwrap().ino()));
    }
}

impl Disk for Recorder {
    fn write(&self, file: &File, bytes: &[u8], offset: u64) -> io::Result<()> {
        self.note("write", file);
        System.write(file, bytes, offset)
    }

    fn sync_data(&self, file: &File) -> io::Result<()> {
        self.note("sync", file);
        System.sync_data(file)
    }
}

/// The killed run may not have synced the journal. A power cut could then leave half a chunk in place and no journal.
#[test]
fn the_journal_is_on_the_disk_before_it_is_applied() {
    let (volume, _, new) = volume(Some(IN_PLACE));
    let journal = volume.file(JOURNAL, OFlags::RDONLY).metadata().unwrap().ino();
    let recorder = Arc::new(Recorder::default());
    let store = volume.store_on(recorder.clone());
    assert!(content(&volume.open(&store, "a")) == new);
    let calls = recorder.0.lock().unwrap();
    let first = calls.iter().position(|(call, inode)| *call == "write" && *inode != journal).unwrap();
    assert!(calls[..first].contains(&("sync", journal)), "{calls:?}");
}

#[test]
fn a_copied_volume_is_finished_too() {
    let (volume, _, new) = volume(Some(IN_PLACE));
    let inner = volume.path().join("inner");
    std::fs::create_dir(&inner).unwrap();
    std::fs::copy(volume.path().join("a"), inner.join("copy")).unwrap();
    std::fs::remove_file(volume.path().join("a")).unwrap();
    let store = volume.store();
    assert!(content(&volume.open(&store, "inner/copy")) == new);
}

/// Another program has made a copy of the file, under a name that is none of the volume.
#[test]
fn copies_with_names_of_other_programs_are_not_changed() {
    let (volume, _, new) = volume(Some(IN_PLACE));
    let (file, copy) = (volume.path().join("a"), volume.path().join("a.bak"));
    std::fs::copy(&file, &copy).unwrap();
    let before = std::fs::read(&copy).unwrap();
    // The file itself has another inode.
    std::fs::copy(&file, volume.path().join("b")).unwrap();
    std::fs::remove_file(&file).unwrap();
    let store = volume.store();
    assert!(content(&volume.open(&store, "b")) == new);
    assert!(std::fs::read(&copy).unwrap() == before);
}

#[test]
fn a_mount_for_reading_refuses_an_unfinished_volume() {
    let (volume, _, new) = volume(Some(IN_PLACE));
    let options = || StoreOptions { read_only: true, ..volume.options() };
    let open = || Store::open(&volume.root(), volume.config.clone(), options());
    assert!(matches!(open().err(), Some(VolumeError::Unfinished)));
    drop(volume.store());
    let store = open().unwrap();
    let file = store.open_file(volume.file("a", OFlags::RDONLY)).unwrap();
    assert!(content(&file) == new);
    assert_eq!(file.write_at(0, b"x").unwrap_err().errno(), Errno::ROFS);
    assert_eq!(file.set_len(0).unwrap_err().errno(), Errno::ROFS);
    file.sync(&file.witness(), false).unwrap();
    store.close().unwrap();
    drop((file, store));
    std::fs::remove_file(volume.path().join(JOURNAL)).unwrap();
    open().unwrap();
    assert!(!volume.path().join(JOURNAL).exists());
}

#[test]
fn any_flipped_byte_of_the_journal_leaves_the_old_state() {
    let len = {
        let (volume, ..) = volume(Some(IN_PLACE));
        volume.file(JOURNAL, OFlags::RDWR).metadata().unwrap().len() as usize
    };
    assert!((12_000..30_000).contains(&len), "{len}");
    let mut at = 0;
    while at < len {
        // The journal is whole, and the file as it was.
        let (volume, old, _) = volume(Some(IN_PLACE - 1));
        let journal = volume.file(JOURNAL, OFlags::RDWR);
        let mut byte = [0];
        journal.read_exact_at(&mut byte, at as u64).unwrap();
        journal.write_all_at(&[byte[0] ^ 0x40], at as u64).unwrap();
        let store = volume.store();
        assert!(content(&volume.open(&store, "a")) == old, "byte {at}");
        at += if at < 80 { 1 } else { 97 };
    }
}

#[test]
fn a_journal_of_another_volume_or_of_noise_is_ignored() {
    let (volume, old, _) = volume(None);
    let (other, ..) = self::volume(Some(IN_PLACE));
    std::fs::copy(other.path().join(JOURNAL), volume.path().join(JOURNAL)).unwrap();
    let store = volume.store();
    assert!(content(&volume.open(&store, "a")) == old);
    drop(store);
    let mut random = Random(3);
    for _ in 0..50 {
        let mut noise: Vec<u8> = (0..5000).map(|_| random.next() as u8).collect();
        noise[..8].copy_from_slice(b"PHXJRNL1");
        noise[24..32].fill(0);
        noise[32..36].copy_from_slice(&(random.next() as u32 >> random.below(32)).to_le_bytes());
        noise[36..40].copy_from_slice(&(random.next() as u32 >> random.below(32)).to_le_bytes());
        std::fs::write(volume.path().join(JOURNAL), &noise).unwrap();
        let store = volume.store();
        assert!(content(&volume.open(&store, "a")) == old);
    }
    std::fs::remove_file(volume.path().join(JOURNAL)).unwrap();
    std::os::unix::fs::symlink("a", volume.path().join(JOURNAL)).unwrap();
    assert!(Store::open(&volume.root(), volume.config.clone(), volume.options()).is_err());
}
