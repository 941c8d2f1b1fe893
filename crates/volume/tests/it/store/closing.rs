//! Closing the store while another thread still writes.

use crate::store::{Volume, content};
use phalanx_core::Suite;
use phalanx_volume::tree::{Removal, Removals};
use phalanx_volume::{Backing, Disk, Store, System, VolumeError};
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Barrier, mpsc};
use std::thread;
use std::time::{Duration, Instant};

/// A disk that waits at the first sync of a stored file after it was armed, and then lets the other thread write only after
/// the store was closed.
struct Slow {
    is_armed: AtomicBool,
    is_closed: AtomicBool,
    has_late: AtomicBool,
    /// Met in the checkpoint of the closing thread, twice.
    meet: Barrier,
}

impl Disk for Slow {
    fn sync_all(&self, file: &File) -> io::Result<()> {
        if self.is_armed.swap(false, Ordering::SeqCst) {
            self.meet.wait();
            self.meet.wait();
        }
        System.sync_all(file)
    }

    fn write(&self, file: &File, bytes: &[u8], offset: u64) -> io::Result<()> {
        if thread::current().name() == Some("writer") {
            let began = Instant::now();
            while !self.is_closed.load(Ordering::SeqCst) && began.elapsed() < Duration::from_secs(60) {
                thread::sleep(Duration::from_millis(1));
            }
            self.has_late.store(true, Ordering::SeqCst);
        }
        System.write(file, bytes, offset)
    }
}

/// Calls `late` in a thread that finds the store open while another closes it. It has to be refused without a write.
fn while_closing(volume: &Volume, late: impl FnOnce(&Store, &Backing) -> phalanx_volume::Result<()> + Send + 'static) {
    let (is_armed, is_closed, has_late) = Default::default();
    let disk = Arc::new(Slow { is_armed, is_closed, has_late, meet: Barrier::new(2) });
    let store = volume.store_on(disk.clone());
    let file = volume.create(&store, "a");
    file.write_at(0, b"first").unwrap();
    file.sync(&file.witness(), false).unwrap();
    file.write_at(0, b"other").and_then(|()| file.settle()).unwrap();
    disk.is_armed.store(true, Ordering::SeqCst);
    let closed = thread::spawn({
        let store = store.clone();
        move || store.close()
    });
    disk.meet.wait();
    let writer = thread::Builder::new().name("writer".into());
    let (its_store, its_file) = (store.clone(), file.clone());
    let (its_id, id) = mpsc::channel();
    let late = move || {
        its_id.send(rustix::thread::gettid()).unwrap();
        late(&its_store, &its_file)
    };
    let refused = writer.spawn(late).unwrap();
    // It has found the store open, and waits for the end of the epoch.
    until_it_sleeps(id.recv().unwrap());
    disk.meet.wait();
    closed.join().unwrap().unwrap();
    disk.is_closed.store(true, Ordering::SeqCst);
    assert!(matches!(refused.join().unwrap(), Err(VolumeError::ReadOnly)));
    assert!(!disk.has_late.load(Ordering::SeqCst));
    drop((file, store));
    assert_eq!(content(&volume.open(&volume.store(), "a")), b"other");
}

/// Waits until a thread of this process has slept for a fifth of a second.
fn until_it_sleeps(id: rustix::process::Pid) {
    let sleeps = || {
        let stat = fs::read_to_string(format!("/proc/self/task/{}/stat", id.as_raw_nonzero())).unwrap();
        stat.rsplit_once(") ").unwrap().1.starts_with('S')
    };
    let (began, mut seen) = (Instant::now(), 0);
    while seen < 20 {
        assert!(began.elapsed() < Duration::from_secs(60), "it never waits");
        seen = if sleeps() { seen + 1 } else { 0 };
        thread::sleep(Duration::from_millis(10));
    }
}

#[test]
fn a_commit_that_began_while_the_store_was_being_closed_writes_nothing() {
    for volume in [Volume::new(Suite::default(), 4096), Volume::protected(Suite::default(), 4096)] {
        while_closing(&volume, |_, file| file.write_at(0, b"later").and_then(|()| file.settle()));
    }
}

#[test]
fn a_record_that_was_begun_while_the_store_was_being_closed_is_not_written() {
    let volume = Volume::protected(Suite::default(), 4096);
    while_closing(&volume, |store, file| {
        store.linking(Removal { inode: file.file().metadata().unwrap().ino(), id: file.id() })
    });
}
