//! Files with as many holes as the format allows.

use crate::store::Volume;
use phalanx_core::Suite;
use phalanx_volume::{Disk, System};
use rustix::io::Errno;
use std::fs::File;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

const CHUNK: u64 = 4096;
const GIB: u64 = 1 << 30;

/// Counts the bytes that are written.
#[derive(Default)]
struct Counting(AtomicU64);

impl Disk for Counting {
    fn write(&self, file: &File, bytes: &[u8], offset: u64) -> io::Result<()> {
        self.0.fetch_add(bytes.len() as u64, Ordering::Relaxed);
        System.write(file, bytes, offset)
    }
}

/// Volumes, and how many holes a file in them can have.
fn volumes() -> [(Volume, u64); 2] {
    [(Volume::new(Suite::default(), CHUNK), 240), (Volume::protected(Suite::default(), CHUNK), 100)]
}

#[test]
fn only_short_holes_are_filled_for_one_more() {
    for (volume, most) in volumes() {
        let disk = Arc::new(Counting::default());
        let store = volume.store_on(disk.clone());
        let file = volume.create(&store, "a");
        // Data in chunks 0 to 8, a hole of two chunks, and long ones.
        file.write_at(0, &[1; 9 * CHUNK as usize]).unwrap();
        file.write_at(11 * CHUNK, b"x").unwrap();
        for i in 1..most {
            file.write_at(i * GIB, b"x").unwrap();
        }
        // The short one is filled, so there are as many as before, and all are long.
        file.write_at(most * GIB, b"x").unwrap();
        let before = disk.0.load(Ordering::Relaxed);
        let refused = |done: phalanx_volume::Result<()>| assert_eq!(done.unwrap_err().errno(), Errno::FBIG);
        refused(file.write_at((most + 1) * GIB, b"x"));
        refused(file.write_at(GIB / 2, b"x"));
        refused(file.set_len((most + 1) * GIB));
        refused(file.punch(2 * CHUNK..3 * CHUNK));
        // These need no further hole.
        file.write_at(GIB + CHUNK, b"y").unwrap();
        file.write_at(2 * GIB - 1, b"z").unwrap();
        file.punch(2 * GIB - CHUNK..2 * GIB).unwrap();
        file.settle().unwrap();
        store.close().unwrap();
        let written = disk.0.load(Ordering::Relaxed) - before;
        assert!(written < 64 << 20, "{written} bytes");
        drop((file, store));

        let store = volume.store();
        let file = volume.open(&store, "a");
        let byte = |offset: u64| file.read_at(offset, 1).unwrap()[0];
        assert_eq!(file.len(), most * GIB + 1);
        assert!((1..=most).all(|i| byte(i * GIB) == b'x'));
        assert_eq!([0, 3 * CHUNK - 1, 10 * CHUNK, 11 * CHUNK].map(byte), [1, 1, 0, b'x']);
        assert_eq!([GIB + CHUNK, 2 * GIB - 1, GIB / 2].map(byte), [b'y', 0, 0]);
        assert_eq!(*volume.told.lock().unwrap(), Vec::<String>::new());
    }
}

/// A file that is made longer again and again, as `truncate` does, has one hole at its end.
#[test]
fn the_last_hole_grows_also_if_there_may_be_no_more() {
    for (volume, most) in volumes() {
        let disk = Arc::new(Counting::default());
        let store = volume.store_on(disk.clone());
        let file = volume.create(&store, "a");
        for i in 1..most {
            file.write_at(i * GIB, b"x").unwrap();
        }
        for i in most..most + 3 {
            file.set_len(i * GIB).unwrap();
        }
        file.settle().unwrap();
        store.close().unwrap();
        let written = disk.0.load(Ordering::Relaxed);
        assert!(written < 64 << 20, "{written} bytes");
    }
}
