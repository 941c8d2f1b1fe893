//! Honest use: nothing is refused, however files change.

use super::*;
use phalanx_volume::Disk;
use phalanx_volume::tree::{Kind, RenameMode, SetMode};
use std::fs::File;
use std::io::{self, Write};
use std::os::unix::fs::PermissionsExt;
use std::sync::atomic::{AtomicBool, Ordering};

/// A disk whose syncs fail from a moment on.
#[derive(Default)]
struct Failing(AtomicBool);

impl Disk for Failing {
    fn sync_data(&self, _: &File) -> io::Result<()> {
        if self.0.load(Ordering::Relaxed) { Err(io::Error::other("the disk has failed")) } else { Ok(()) }
    }
}

#[test]
fn after_an_error_of_the_disk_names_do_not_change_either() {
    let (lab, disk) = (Lab::new(), Arc::new(Failing::default()));
    lab.put("a", b"kept");
    let mounted = mount(lab.path(), AtHand { key: Some(key()), password: None }, false, disk.clone()).unwrap();
    disk.0.store(true, Ordering::Relaxed);
    let backing = mounted
        .store
        .open_file(mounted.tree.open_file(mounted.tree.lookup(ROOT, b"a").unwrap().number, true).unwrap())
        .unwrap();
    backing.write_at(0, b"lost").unwrap();
    backing.sync(&backing.witness(), true).unwrap_err();
    let tree = &mounted.tree;
    let by = Owner { uid: 0, gid: 0 };
    let refused = [
        tree.unlink(ROOT, b"a").err(),
        tree.mkdir(ROOT, b"d", 0o755, by).err(),
        tree.rename(ROOT, b"a", ROOT, b"b", RenameMode::Replace).err(),
        tree.set_xattr(ROOT, b"user.x", b"1", SetMode::Any, || Ok([0; 16])).err(),
    ];
    for error in refused {
        assert_eq!(error.map(|e| e.errno()), Some(Errno::ROFS));
    }
    drop((backing, mounted));
    // The removal was refused, and so nothing is missing or comes back.
    assert_eq!(lab.mount().tree.lookup(ROOT, b"a").unwrap().kind, Kind::File);
}

/// A disk that has no space left for what it has accepted, and says so once, as disks do.
#[derive(Default)]
struct Overfull(AtomicBool);

impl Disk for Overfull {
    fn sync_data(&self, _: &File) -> io::Result<()> {
        if self.0.swap(false, Ordering::Relaxed) { Err(Errno::NOSPC.into()) } else { Ok(()) }
    }
}

#[test]
fn no_file_is_removed_without_its_record_when_a_full_disk_ends_all_changes() {
    for replaces in [false, true] {
        let (lab, disk) = (Lab::new(), Arc::new(Overfull::default()));
        lab.put("a", b"kept");
        lab.put("b", b"other");
        // A killed run has left a part of a batch behind the table. The first change cuts it off and syncs that.
        fs::OpenOptions::new().append(true).open(lab.path().join(TABLE)).unwrap().write_all(&[0; 10]).unwrap();
        let mounted = mount(lab.path(), AtHand { key: Some(key()), password: None }, false, disk.clone()).unwrap();
        disk.0.store(true, Ordering::Relaxed);
        let removed = match replaces {
            false => mounted.tree.unlink(ROOT, b"a"),
            true => mounted.tree.rename(ROOT, b"b", ROOT, b"a", RenameMode::Replace),
        };
        assert_eq!(removed.unwrap_err().errno(), Errno::ROFS);
        let told = mounted.told.lock().unwrap().clone();
        assert_eq!(told, ["the volume is read-only from now on: the backing file system is full"]);
        drop(mounted);
        assert_eq!((lab.get("a").unwrap(), lab.get("b").unwrap()), (b"kept".to_vec(), b"other".to_vec()));
    }
}

#[test]
fn after_an_error_of_the_disk_nothing_is_tidied_up() {
    let lab = Lab::new();
    lab.mount().tree.mkdir(ROOT, b"d", 0o755, owner()).unwrap();
    // What killed runs leave: an entry that was being made, and the record of a place where the folder is not.
    let left = lab.path().join("phalanx.new.0123");
    fs::write(&left, "left").unwrap();
    let record = lab.stored("d").join("phalanx.folder");
    let one = fs::read(&record).unwrap();
    let both = [&[0; 32], &one[..]].concat();
    fs::write(&record, &both).unwrap();
    for is_broken in [true, false] {
        let mounted = lab.mount();
        mounted.store.broken().store(is_broken, Ordering::Release);
        let folder = mounted.tree.lookup(ROOT, b"d").unwrap();
        for number in [ROOT, folder.number] {
            mounted.tree.list(number).unwrap();
        }
        assert_eq!((left.exists(), fs::read(&record).unwrap() == both), (is_broken, is_broken));
    }
    assert_eq!(fs::read(&record).unwrap(), one);
}

#[test]
fn files_grow_over_all_groups_and_shrink_again() {
    let lab = Lab::new();
    let mut content: Vec<u8> = Vec::new();
    // The numbers of chunks at which groups become larger, and some between them.
    for chunks in [1, 2, 127, 128, 129, 130, 255, 257, 512, 513, 514, 1030, 600, 513, 300, 128, 127, 3, 0, 700] {
        let len = chunks * CHUNK + chunks % 3 * 100;
        let mounted = lab.mount();
        let backing = open(&mounted, "file").unwrap_or_else(|_| create(&mounted, "file"));
        let old = content.len();
        content.resize(len, 0);
        if old < len {
            let new = painted(chunks as u8, len - old);
            backing.write_at(old as u64, &new).unwrap();
            content[old..].copy_from_slice(&new);
        } else {
            backing.set_len(len as u64).unwrap();
        }
        backing.commit(&backing.witness()).unwrap();
        assert!(backing.read_at(0, usize::MAX).unwrap() == content, "{chunks}");
        drop(backing);
        mounted.store.close().unwrap();
        drop(mounted);
        assert!(lab.get("file").unwrap() == content, "{chunks} after a mount");
    }
}

#[test]
fn a_huge_hole_costs_nothing() {
    let lab = Lab::new();
    let mounted = lab.mount();
    let backing = create(&mounted, "file");
    backing.set_len(1 << 41).unwrap();
    backing.write_at(1 << 40, b"middle").unwrap();
    backing.write_at((1 << 41) - 3, b"end").unwrap();
    drop(backing);
    mounted.store.close().unwrap();
    drop(mounted);
    let mounted = lab.mount();
    let backing = open(&mounted, "file").unwrap();
    assert_eq!(backing.len(), 1 << 41);
    assert_eq!(backing.read_at((1 << 40) - 1, 8).unwrap(), b"\0middle\0");
    assert_eq!(backing.read_at((1 << 41) - 4, 4).unwrap(), b"\0end");
    backing.punch(1 << 40..(1 << 40) + (1 << 20)).unwrap();
    backing.commit(&backing.witness()).unwrap();
    assert_eq!(backing.read_at(1 << 40, 6).unwrap(), [0; 6]);
}

#[test]
fn many_holes_are_filled_when_the_header_is_full() {
    let lab = Lab::new();
    let mounted = lab.mount();
    let backing = create(&mounted, "file");
    let mut content = vec![0; 600 * CHUNK];
    for i in 0..300 {
        let at = 2 * i * CHUNK;
        backing.write_at(at as u64, &[i as u8; 100]).unwrap();
        content[at..at + 100].fill(i as u8);
    }
    backing.set_len(content.len() as u64).unwrap();
    drop(backing);
    mounted.store.close().unwrap();
    drop(mounted);
    assert!(lab.get("file").unwrap() == content);
}

#[test]
fn a_killed_run_leaves_its_files_readable() {
    let lab = Lab::new();
    lab.put("old", &painted(1, 9000));
    lab.put("gone", &painted(1, 9000));
    let mounted = lab.mount();
    create(&mounted, "empty");
    put(&mounted, "new", &painted(2, 3 * CHUNK));
    put(&mounted, "old", &painted(3, 200 * CHUNK));
    put(&mounted, "short", b"short");
    mounted.tree.unlink(ROOT, b"gone").unwrap();
    mounted.tree.rename(ROOT, b"short", ROOT, b"renamed", Default::default()).unwrap();
    drop(mounted);
    for _ in 0..2 {
        let mounted = lab.mount();
        assert_eq!(get(&mounted, "empty").unwrap(), b"");
        assert_eq!(get(&mounted, "new").unwrap(), painted(2, 3 * CHUNK));
        assert_eq!(get(&mounted, "old").unwrap(), painted(3, 200 * CHUNK));
        assert_eq!(get(&mounted, "renamed").unwrap(), b"short");
        assert!(mounted.told.lock().unwrap().is_empty());
        drop(mounted);
        verify_finds_nothing(&lab);
    }
}

/// Checks the whole volume.
fn verify_finds_nothing(lab: &Lab) {
    struct Nothing;
    impl phalanx_volume::verify::Findings for Nothing {
        fn whole(&self, _: &Path, _: u64) {}
        fn failed(&self, path: &Path, error: &VolumeError) {
            panic!("{}: {error}", path.display());
        }
        fn advance(&self, _: u64) {}
    }
    let mounted = lab.try_mount(true).unwrap();
    let found = phalanx_volume::verify::verify(&mounted.tree, &mounted.store, 2, &Nothing);
    assert_eq!((found.failed, found.missing), (0, 0));
}

#[test]
fn a_file_replaced_by_a_rename_is_gone() {
    let lab = Lab::new();
    lab.put("file", b"one");
    let old = lab.copy();
    let stored = lab.stored("file");
    for is_killed in [false, true] {
        let mounted = lab.mount();
        put(&mounted, "new", b"two");
        mounted.tree.rename(ROOT, b"new", ROOT, b"file", Default::default()).unwrap();
        if !is_killed {
            mounted.store.close().unwrap();
        }
        drop(mounted);
        assert_eq!(lab.get("file").unwrap(), b"two");
        verify_finds_nothing(&lab);
    }
    lab.put_back(&old, |path| path == stored);
    assert_eq!(lab.get("file"), None);
}

#[test]
fn a_removal_that_fails_changes_nothing() {
    let lab = Lab::new();
    lab.put("file", b"one");
    let mounted = lab.mount();
    mounted.tree.mkdir(ROOT, b"folder", 0o755, owner()).unwrap();
    assert!(mounted.tree.unlink(ROOT, b"other").is_err());
    assert!(mounted.tree.rename(ROOT, b"folder", ROOT, b"file", Default::default()).is_err());
    assert!(mounted.tree.rename(ROOT, b"file", ROOT, b"folder", Default::default()).is_err());
    let number = mounted.tree.lookup(ROOT, b"file").unwrap().number;
    assert!(mounted.tree.link(number, ROOT, b"folder").is_err());
    mounted.store.close().unwrap();
    drop(mounted);
    assert_eq!(lab.get("file").unwrap(), b"one");
    verify_finds_nothing(&lab);
}

#[test]
fn a_file_with_several_names_stays_until_the_last_is_gone() {
    for is_killed in [false, true] {
        let lab = Lab::new();
        lab.put("file", b"one");
        let stored = lab.stored("file");
        // One that may not be written to gets names too.
        fs::set_permissions(&stored, fs::Permissions::from_mode(0o444)).unwrap();
        let old = lab.copy();
        let mounted = lab.mount();
        let number = mounted.tree.lookup(ROOT, b"file").unwrap().number;
        mounted.tree.link(number, ROOT, b"other").unwrap();
        if !is_killed {
            mounted.store.close().unwrap();
        }
        drop(mounted);
        let mounted = lab.mount();
        mounted.tree.unlink(ROOT, b"file").unwrap();
        if !is_killed {
            mounted.store.close().unwrap();
        }
        drop(mounted);
        assert_eq!(lab.get("other").unwrap(), b"one");
        verify_finds_nothing(&lab);
        let mounted = lab.mount();
        mounted.tree.unlink(ROOT, b"other").unwrap();
        if !is_killed {
            mounted.store.close().unwrap();
        }
        drop(mounted);
        drop(lab.mount());
        verify_finds_nothing(&lab);
        lab.put_back(&old, |path| path == stored);
        assert_eq!(lab.get("file"), None);
    }
}

#[test]
fn a_file_that_is_deleted_while_it_is_open_stays_deleted() {
    for is_killed in [false, true] {
        let lab = Lab::new();
        lab.put("file", b"one");
        let old = lab.copy();
        let stored = lab.stored("file");
        let mounted = lab.mount();
        let backing = open(&mounted, "file").unwrap();
        mounted.tree.unlink(ROOT, b"file").unwrap();
        backing.write_at(0, b"after").unwrap();
        backing.sync(&backing.witness(), false).unwrap();
        assert_eq!(backing.read_at(0, 9).unwrap(), b"after");
        if !is_killed {
            mounted.store.close().unwrap();
        }
        drop((backing, mounted));
        drop(lab.mount());
        verify_finds_nothing(&lab);
        lab.put_back(&old, |path| path == stored);
        assert_eq!(lab.get("file"), None);
    }
}

#[test]
fn a_removal_that_a_power_cut_undoes_leaves_the_file() {
    let lab = Lab::new();
    lab.put("file", b"one");
    let stored = lab.stored("file");
    let beside = tempfile::tempdir_in(lab.path().parent().unwrap()).unwrap();
    let mounted = lab.mount();
    fs::hard_link(&stored, beside.path().join("kept")).unwrap();
    mounted.tree.unlink(ROOT, b"file").unwrap();
    drop(mounted);
    // The journal has the removal, and the folder does not.
    fs::rename(beside.path().join("kept"), &stored).unwrap();
    assert_eq!(lab.get("file").unwrap(), b"one");
    lab.put("file", b"two");
    assert_eq!(lab.get("file").unwrap(), b"two");
}

#[test]
fn what_was_being_made_when_the_run_was_killed_is_no_missing_file() {
    let lab = Lab::new();
    let mounted = lab.mount();
    let stored = lab.path().join("phalanx.new.0123");
    let file = fs::OpenOptions::new().read(true).write(true).create_new(true).open(&stored).unwrap();
    drop(mounted.store.create(file).unwrap());
    drop(mounted);
    drop(lab.mount());
    verify_finds_nothing(&lab);
    // A checkpoint came before the kill.
    let mounted = lab.mount();
    let stored = lab.path().join("phalanx.new.4567");
    let file = fs::OpenOptions::new().read(true).write(true).create_new(true).open(&stored).unwrap();
    drop(mounted.store.create(file).unwrap());
    mounted.store.close().unwrap();
    drop(mounted);
    let mounted = lab.mount();
    mounted.tree.list(ROOT).unwrap();
    assert!(!stored.exists());
    mounted.store.close().unwrap();
    drop(mounted);
    verify_finds_nothing(&lab);
}

#[test]
fn a_table_that_has_become_long_is_made_anew() {
    let lab = Lab::new();
    for version in 0..10 {
        let mounted = lab.mount();
        for number in 0..300 {
            put(&mounted, &format!("file{number}"), &[version]);
        }
        mounted.store.close().unwrap();
    }
    // Ten batches of 300 entries are longer.
    assert!(fs::metadata(lab.path().join(TABLE)).unwrap().len() < 90_000);
    let before = fs::read(lab.path().join(TABLE)).unwrap();
    let mounted = lab.mount();
    for number in 0..300 {
        assert_eq!(get(&mounted, &format!("file{number}")).unwrap(), [9]);
    }
    mounted.store.close().unwrap();
    drop(mounted);
    assert_eq!(fs::read(lab.path().join(TABLE)).unwrap(), before, "a mount that changes nothing has changed the table");
    verify_finds_nothing(&lab);
}

#[test]
fn a_volume_is_not_made_over_somebody_elses_table() {
    let features = Features { rollback_protection: true };
    let make = |dir: &Path| {
        let ways = [Recipient::key(&key())];
        phalanx_volume::create_with(dir, Suite::default(), ChunkSize::default(), features, &ways)
    };
    let lab = Lab::new();
    lab.put("file", b"one");
    let table = fs::read(lab.path().join(TABLE)).unwrap();
    for content in [&table[..], b"", b"foreign"] {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join(TABLE), content).unwrap();
        assert_eq!(phalanx_volume::check_new(dir.path()).unwrap_err().errno(), Errno::NOTEMPTY);
        assert!(make(dir.path()).is_err());
        assert_eq!(fs::read(dir.path().join(TABLE)).unwrap(), content);
    }
    let dir = tempfile::tempdir().unwrap();
    std::os::unix::fs::symlink(lab.path().join(TABLE), dir.path().join(TABLE)).unwrap();
    assert!(make(dir.path()).is_err());
    assert_eq!(fs::read(lab.path().join(TABLE)).unwrap(), table);
    // What a killed run has left is one without entries.
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join(TABLE), fs::read(Lab::new().path().join(TABLE)).unwrap()).unwrap();
    make(dir.path()).unwrap();
}

#[test]
fn a_foreign_name_of_a_file_does_not_hide_its_own_when_the_journal_is_applied() {
    let lab = Lab::new();
    lab.put("file", b"one");
    let stored = lab.stored("file");
    for foreign in ["0.copy", "zzz.copy", "kept.by.somebody"] {
        fs::hard_link(&stored, lab.path().join(foreign)).unwrap();
    }
    let mounted = lab.mount();
    put(&mounted, "file", b"two");
    drop(mounted);
    assert_eq!(lab.get("file").unwrap(), b"two");
    verify_finds_nothing(&lab);
}
