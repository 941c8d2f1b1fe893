//! Random changes against a `Vec<u8>`.

use crate::store::{Change, Random, Volume, content};
use phalanx_core::Suite;
use phalanx_volume::{Backing, Store};
use rustix::fs::OFlags;
use std::os::unix::fs::FileExt;
use std::sync::Arc;

fn check(backing: &Backing, model: &[u8], random: &mut Random) {
    assert_eq!(backing.len(), model.len() as u64);
    let start = random.below(model.len() as u64 + 10);
    let len = random.below(70_000) as usize;
    let from = (start as usize).min(model.len());
    let expected = &model[from..(from + len).min(model.len())];
    assert!(backing.read_at(start, len).unwrap() == expected, "{start} {len}");
}

fn run(suite: Suite, chunk_len: u64, steps: usize, seed: u64) {
    run_on(&Volume::new(suite, chunk_len), steps, seed);
}

fn run_on(volume: &Volume, steps: usize, seed: u64) {
    let mut random = Random(seed);
    let mut store = volume.store();
    let mut model = Vec::new();
    let mut backing = volume.create(&store, "a");
    for step in 0..steps {
        match random.below(12) {
            0 => backing.commit(&backing.witness()).unwrap(),
            1 => backing.sync(&backing.witness(), random.below(2) == 0).unwrap(),
            2 => {
                // Dropped, with or without a commit: what is in memory stays in the store.
                if random.below(2) == 0 {
                    backing.commit(&backing.witness()).unwrap();
                }
                drop(backing);
                backing = volume.open(&store, "a");
            }
            3 if random.below(8) == 0 => (store, backing) = reopened(volume, store, backing),
            _ => {
                let change = Change::random(&mut random, model.len() as u64, 1 << 20);
                change.make(&backing).unwrap();
                change.apply(&mut model);
            }
        }
        check(&backing, &model, &mut random);
        if step % 50 == 0 {
            assert!(content(&backing) == model, "step {step}");
        }
    }
    let (store, backing) = reopened(volume, store, backing);
    assert!(content(&backing) == model);
    assert_eq!(store.plain_len(backing.file().metadata().unwrap().len()), Some(model.len() as u64));
    assert!(volume.told.lock().unwrap().is_empty());
}

fn reopened(volume: &Volume, store: Arc<Store>, backing: Arc<Backing>) -> (Arc<Store>, Arc<Backing>) {
    store.close().unwrap();
    drop((store, backing));
    let store = volume.store();
    let backing = volume.open(&store, "a");
    (store, backing)
}

#[test]
fn random_changes_read_back() {
    for (number, suite) in Suite::ALL.iter().filter(|suite| **suite != Suite::Aes256Gcm).enumerate() {
        run(*suite, 4096, 300, 77 + number as u64);
        run(*suite, 65_536, 120, 177 + number as u64);
    }
    run(Suite::default(), 1 << 20, 60, 5);
    run(Suite::default(), 4096, 600, 6);
}

/// For an engine that prefers long jobs, no chunk is sealed before the commit.
#[test]
fn random_changes_read_back_with_a_threshold() {
    let mut volume = Volume::new(Suite::default(), 4096);
    volume.threshold = 100 << 10;
    run_on(&volume, 300, 7);
}

/// What was read ahead is not read again. A damaged chunk is an error only for a read of it.
#[test]
fn sequential_reads_are_opened_ahead_for_engines_that_prefer_long_jobs() {
    const PART: usize = 128 << 10;
    for chunk_len in [4096, 65_536, 1 << 20] {
        let mut volume = Volume::new(Suite::default(), chunk_len);
        volume.threshold = 1 << 20;
        let store = volume.store();
        let file = volume.create(&store, "a");
        let mut model = Random(3).bytes((20 << 20) + 77);
        file.write_at(0, &model).unwrap();
        file.commit(&file.witness()).unwrap();
        let read = |from: usize, to: usize, model: &[u8]| {
            for at in (from..to).step_by(PART) {
                assert!(file.read_at(at as u64, PART).unwrap() == model[at..(at + PART).min(model.len())], "{at}");
            }
        };
        read(0, 2 << 20, &model);
        // The stored file is longer than its plaintext, so this lies in the next MiB of it.
        let stored = volume.file("a", OFlags::RDWR);
        let place = (5 << 20) / chunk_len * (chunk_len + 48) + 4096 + 1000;
        let mut byte = [0];
        stored.read_exact_at(&mut byte, place).unwrap();
        stored.write_all_at(&[byte[0] ^ 1], place).unwrap();
        read(2 << 20, 8 << 20, &model);
        // From the beginning, everything is read again.
        read(0, 4 << 20, &model);
        read(16 << 20, model.len(), &model);
        assert!(file.read_at(5 << 20, 2000).is_err());
        read(7 << 20, 10 << 20, &model);
        // A read returns what was written, not what was read ahead before.
        for at in [0, 9 << 20] {
            let changed = Random(at as u64 + 5).bytes(3 << 20);
            file.write_at(at as u64, &changed).unwrap();
            model[at..at + changed.len()].copy_from_slice(&changed);
            read(7 << 20, model.len(), &model);
            file.commit(&file.witness()).unwrap();
            read(7 << 20, model.len(), &model);
        }
        assert_eq!(volume.told.lock().unwrap().len(), 1);
    }
}

#[test]
fn holes_of_a_terabyte_cost_nothing() {
    let volume = Volume::new(Suite::default(), 4096);
    let store = volume.store();
    let file = volume.create(&store, "a");
    file.write_at(0, b"begin").unwrap();
    file.set_len(1 << 40).unwrap();
    file.sync(&file.witness(), true).unwrap();
    assert_eq!(file.len(), 1 << 40);
    assert_eq!(file.seek_hole(0).unwrap(), 4096);
    assert_eq!(file.seek_data(5000).unwrap(), (1 << 40) - 4096);
    assert_eq!(file.read_at(1 << 39, 3).unwrap(), [0; 3]);
    file.write_at(1 << 39, b"middle").unwrap();
    file.punch(4096..(1 << 39)).unwrap();
    file.commit(&file.witness()).unwrap();
    store.close().unwrap();
    drop((file, store));
    let store = volume.store();
    let file = volume.open(&store, "a");
    assert_eq!(file.read_at((1 << 39) - 2, 10).unwrap(), b"\0\0middle\0\0");
    assert_eq!(file.seek_data(4096).unwrap(), 1 << 39);
    assert_eq!(file.read_at(0, 7).unwrap(), b"begin\0\0");
    file.set_len(3).unwrap();
    assert_eq!(content(&file), b"beg");
    assert_eq!(file.seek_data(3).unwrap_err().errno(), rustix::io::Errno::NXIO);
    assert_eq!(file.set_len(u64::MAX).unwrap_err().errno(), rustix::io::Errno::FBIG);
    assert_eq!(file.write_at(u64::MAX - 2, b"abc").unwrap_err().errno(), rustix::io::Errno::FBIG);
}

#[test]
fn more_holes_than_a_header_lists_are_filled() {
    let volume = Volume::new(Suite::default(), 4096);
    let store = volume.store();
    let file = volume.create(&store, "a");
    let mut model = vec![0; 0];
    for i in 0..500u64 {
        let change = Change::Write(i * 8192, vec![i as u8 | 1; 100]);
        change.make(&file).unwrap();
        change.apply(&mut model);
    }
    assert!(content(&file) == model);
    store.close().unwrap();
    drop((file, store));
    let store = volume.store();
    assert!(content(&volume.open(&store, "a")) == model);
}

#[test]
fn the_time_that_users_see_is_that_of_the_change() {
    let volume = Volume::new(Suite::default(), 4096);
    let store = volume.store();
    let file = volume.create(&store, "a");
    let at = rustix::fs::Timespec { tv_sec: 1_000_000_000, tv_nsec: 123_456_789 };
    file.write_at(0, b"x").unwrap();
    let written = file.times().unwrap().modified;
    std::thread::sleep(std::time::Duration::from_millis(20));
    file.commit(&file.witness()).unwrap();
    assert_eq!(file.times().unwrap().modified, written);
    file.write_at(0, b"y").unwrap();
    file.set_mtime(at).unwrap();
    file.sync(&file.witness(), false).unwrap();
    assert_eq!(file.times().unwrap().modified, at);
    file.write_at(0, b"z").unwrap();
    assert!(file.times().unwrap().modified.tv_sec > at.tv_sec);
}

#[test]
fn two_opens_share_a_file_and_changes_outlive_them() {
    let volume = Volume::new(Suite::default(), 4096);
    let store = volume.store();
    let file = volume.create(&store, "a");
    let inode = std::os::unix::fs::MetadataExt::ino(&file.file().metadata().unwrap());
    file.write_at(3, b"abc").unwrap();
    assert!(Arc::ptr_eq(&file, &volume.open(&store, "a")));
    drop(file);
    assert_eq!(content(&store.get(inode).unwrap()), b"\0\0\0abc");
    let left = store.get(inode).unwrap();
    left.commit(&left.witness()).unwrap();
    drop(left);
    assert!(store.get(inode).is_none());
    assert_eq!(content(&volume.open(&store, "a")), b"\0\0\0abc");
}

#[test]
fn memory_is_bounded_and_the_background_commits() {
    let volume = Volume::new(Suite::default(), 4096);
    let limit = 1 << 20;
    let options = phalanx_volume::StoreOptions {
        dirty_limit: limit,
        commit_after: std::time::Duration::from_millis(50),
        trim_after: std::time::Duration::from_millis(50),
        ..volume.options()
    };
    let store = Store::open(&volume.root(), volume.config.clone(), options).unwrap();
    let files: Vec<_> = (0..10).map(|i| volume.create(&store, &i.to_string())).collect();
    for round in 0..20u8 {
        for file in &files {
            file.write_at(u64::from(round) * 50_000, &vec![round + 1; 50_000]).unwrap();
            let all: usize = files.iter().map(|file| file.dirty_bytes()).sum();
            assert!(all <= limit + (100 << 10), "{all}");
        }
    }
    let end = std::time::Instant::now() + std::time::Duration::from_secs(120);
    while files.iter().any(|file| file.dirty_bytes() > 0) {
        assert!(std::time::Instant::now() < end, "nothing was committed in the background");
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
    // Dropped without close, as after a kill.
    drop(store);
    let store = volume.store();
    for i in 0..10 {
        let found = content(&volume.open(&store, &i.to_string()));
        assert!((0..20).all(|round| found[round * 50_000..][..50_000].iter().all(|b| *b == round as u8 + 1)));
    }
}
