//! What the calls of NT do. On other systems there is nothing to test here: there rustix does it.
#![cfg(windows)]
#![allow(missing_docs)]

use phalanx_system::files::{
    Access, access, create_private_folder, cut_log, keep_from_writers, locked_folder, open_private_log, spelling,
};
use phalanx_system::fs::{
    AtFlags, Dir, FileType, FlockOperation, Mode, OFlags, RenameFlags, Timespec, Timestamps, UTIME_OMIT, fchmod, flock,
    fstat, fsync, futimens, linkat, mkdirat, open, openat, renameat, renameat_with, statat, sync_all, sync_data,
    unlinkat,
};
use phalanx_system::io::Errno;
use phalanx_system::os::ffi::OsStrExt;
use phalanx_system::os::fs::FileExt;
use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::{Read, Write};
use std::path::Path;
use std::time::Duration;
use tempfile::TempDir;

const NEW: OFlags = OFlags::RDWR.union(OFlags::CREATE).union(OFlags::EXCL).union(OFlags::NOFOLLOW);

fn folder() -> (TempDir, File) {
    let dir = tempfile::tempdir().unwrap();
    let open = opened(dir.path());
    (dir, open)
}

fn opened(path: &Path) -> File {
    open(path, OFlags::RDONLY | OFlags::DIRECTORY, Mode::empty()).unwrap().into()
}

fn make(dir: &File, name: &str, text: &str) -> File {
    let mut file = File::from(openat(dir, name, NEW, Mode::from_raw_mode(0o600)).unwrap());
    file.write_all(text.as_bytes()).unwrap();
    file
}

fn list(dir: &File) -> Vec<String> {
    let entry = |entry: phalanx_system::io::Result<phalanx_system::fs::DirEntry>| {
        String::from_utf8(entry.unwrap().file_name().to_bytes().to_vec()).unwrap()
    };
    let mut names: Vec<_> =
        Dir::read_from(dir).unwrap().map(entry).filter(|name| name != "." && name != "..").collect();
    names.sort();
    names
}

#[test]
fn files_are_made_read_and_written_below_an_open_folder() {
    let (path, dir) = folder();
    let file = make(&dir, "ä.txt", "12345");
    assert_eq!(fs::read_to_string(path.path().join("ä.txt")).unwrap(), "12345");
    file.write_all_at(b"67", 1).unwrap();
    let mut bytes = [0; 5];
    file.read_exact_at(&mut bytes, 0).unwrap();
    assert_eq!(&bytes, b"16745");
    assert!(file.read_exact_at(&mut bytes, 1).is_err());
    assert_eq!(openat(&dir, "ä.txt", NEW, Mode::empty()).err(), Some(Errno::EXIST));
    assert_eq!(openat(&dir, "Ä.TXT", NEW, Mode::empty()).err(), Some(Errno::EXIST), "letters of another case");
    assert_eq!(openat(&dir, "none", OFlags::RDONLY, Mode::empty()).err(), Some(Errno::NOENT));
    assert_eq!(openat(&dir, "ä.txt", OFlags::RDONLY | OFlags::DIRECTORY, Mode::empty()).err(), Some(Errno::NOTDIR));
    assert_eq!(openat(&dir, "NUL", NEW, Mode::empty()).err(), Some(Errno::BADNAME));
    assert_eq!(openat(&dir, "ä.txt:s", OFlags::RDONLY, Mode::empty()).err(), Some(Errno::BADNAME));
    let stat = statat(&dir, "ä.txt", AtFlags::SYMLINK_NOFOLLOW).unwrap();
    let same = fstat(&file).unwrap();
    assert_eq!((stat.st_dev, stat.st_ino, stat.st_size, stat.st_nlink), (same.st_dev, same.st_ino, 5, 1));
    assert_eq!(FileType::from_raw_mode(stat.st_mode), FileType::RegularFile);
    let other = fstat(make(&dir, "other", "")).unwrap();
    assert_ne!((stat.st_dev, stat.st_ino), (other.st_dev, other.st_ino));
}

#[test]
fn folders_are_made_listed_and_left() {
    let (path, dir) = folder();
    mkdirat(&dir, "a", Mode::RWXU).unwrap();
    assert_eq!(mkdirat(&dir, "a", Mode::RWXU).err(), Some(Errno::EXIST));
    assert_eq!(mkdirat(&dir, "aux.d", Mode::RWXU).err(), Some(Errno::BADNAME));
    let a =
        File::from(openat(&dir, "a", OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW, Mode::empty()).unwrap());
    for number in 0..700 {
        make(&a, &format!("a rather long name, so that many do not fit into one buffer {number:04}"), "");
    }
    assert_eq!(list(&a).len(), 700);
    assert_eq!(list(&a).len(), 700, "a second time");
    assert!(path.path().join("a").join("a rather long name, so that many do not fit into one buffer 0699").exists());
    let above = openat(&a, "..", OFlags::PATH | OFlags::DIRECTORY, Mode::empty()).unwrap();
    let id = |stat: phalanx_system::fs::Stat| (stat.st_dev, stat.st_ino);
    assert_eq!(id(fstat(&above).unwrap()), id(fstat(&dir).unwrap()));
    let here = openat(&a, ".", OFlags::PATH | OFlags::DIRECTORY, Mode::empty()).unwrap();
    assert_eq!(id(fstat(&here).unwrap()), id(fstat(&a).unwrap()));
    // Names are never paths.
    for name in [r"a\x", "a/x", r"..\x", r"C:\windows", "a:x"] {
        assert_eq!(statat(&dir, name, AtFlags::empty()).err(), Some(Errno::BADNAME), "{name}");
        assert_eq!(openat(&dir, name, NEW, Mode::empty()).err(), Some(Errno::BADNAME), "{name}");
    }
    assert_eq!(unlinkat(&dir, "a", AtFlags::empty()).err(), Some(Errno::ISDIR));
    assert_eq!(unlinkat(&dir, "a", AtFlags::REMOVEDIR).err(), Some(Errno::NOTEMPTY));
    mkdirat(&dir, "b", Mode::RWXU).unwrap();
    unlinkat(&dir, "b", AtFlags::REMOVEDIR).unwrap();
    assert_eq!(list(&dir), ["a"]);
    let root = open(r"C:\", OFlags::PATH | OFlags::DIRECTORY, Mode::empty()).unwrap();
    let above = openat(&root, "..", OFlags::PATH | OFlags::DIRECTORY, Mode::empty()).unwrap();
    assert_eq!(id(fstat(&above).unwrap()), id(fstat(&root).unwrap()));
}

#[test]
fn names_are_given_with_and_without_replacing() {
    let (path, dir) = folder();
    let read = |name: &str| fs::read_to_string(path.path().join(name)).unwrap();
    let a = make(&dir, "a", "one");
    make(&dir, "b", "two");
    let keep = RenameFlags::NOREPLACE;
    assert_eq!(renameat_with(&dir, "a", &dir, "b", keep).err(), Some(Errno::EXIST));
    assert_eq!(renameat_with(&dir, "a", &dir, "B", keep).err(), Some(Errno::EXIST));
    assert_eq!(renameat_with(&dir, "a", &dir, "com7", keep).err(), Some(Errno::BADNAME));
    assert_eq!(renameat_with(&dir, "a", &dir, "a.", keep).err(), Some(Errno::BADNAME));
    assert_eq!(renameat_with(&dir, "none", &dir, "c", keep).err(), Some(Errno::NOENT));
    renameat_with(&dir, "a", &dir, "c", keep).unwrap();
    assert_eq!(list(&dir), ["b", "c"]);
    renameat(&dir, "c", &dir, "b").unwrap();
    assert_eq!((list(&dir), read("b")), (vec!["b".to_owned()], "one".to_owned()));
    mkdirat(&dir, "into", Mode::RWXU).unwrap();
    let into = opened(&path.path().join("into"));
    match linkat(&dir, "b", &into, "linked", AtFlags::empty()) {
        Ok(()) => assert_eq!(fstat(&a).unwrap().st_nlink, 2),
        // Wine has none of these.
        Err(e) => assert!([Errno::NOTSUP, Errno::NOSYS, Errno::PERM].contains(&e), "{e}"),
    }
    renameat_with(&dir, "b", &into, "moved", keep).unwrap();
    assert_eq!(fs::read_to_string(path.path().join("into").join("moved")).unwrap(), "one");
    // One that is read-only is replaced and deleted too.
    make(&dir, "x", "three");
    let fixed = make(&dir, "y", "four");
    fchmod(&fixed, Mode::from_raw_mode(0o444)).unwrap();
    assert!(fs::metadata(path.path().join("y")).unwrap().permissions().readonly());
    drop(fixed);
    renameat(&dir, "x", &dir, "y").unwrap();
    assert_eq!(read("y"), "three");
    let fixed = make(&dir, "z", "five");
    fchmod(&fixed, Mode::from_raw_mode(0o444)).unwrap();
    unlinkat(&dir, "z", AtFlags::empty()).unwrap();
    drop(fixed);
    assert_eq!(list(&dir), ["into", "y"]);
}

#[test]
fn what_is_open_is_deleted_and_replaced() {
    let (path, dir) = folder();
    let file = make(&dir, "a", "one");
    unlinkat(&dir, "a", AtFlags::empty()).unwrap();
    assert_eq!(statat(&dir, "a", AtFlags::empty()).err(), Some(Errno::NOENT));
    drop(file);
    let open = make(&dir, "a", "two");
    assert_eq!(list(&dir), ["a"]);
    make(&dir, "b", "three");
    renameat(&dir, "b", &dir, "a").unwrap();
    drop(open);
    assert_eq!(list(&dir), ["a"]);
    assert_eq!(fs::read_to_string(path.path().join("a")).unwrap(), "three");
    mkdirat(&dir, "folder", Mode::RWXU).unwrap();
    assert!(renameat(&dir, "a", &dir, "folder").is_err());
    assert_eq!(list(&dir), ["a", "folder"]);
}

#[test]
fn locks_keep_others_out_and_let_them_read() {
    let (path, dir) = folder();
    let file = make(&dir, "a", "one");
    flock(&file, FlockOperation::NonBlockingLockExclusive).unwrap();
    let other = File::from(openat(&dir, "a", OFlags::RDWR, Mode::empty()).unwrap());
    assert_eq!(flock(&other, FlockOperation::NonBlockingLockExclusive).err(), Some(Errno::WOULDBLOCK));
    assert_eq!(fs::read_to_string(path.path().join("a")).unwrap(), "one");
    drop(file);
    flock(&other, FlockOperation::NonBlockingLockExclusive).unwrap();

    let locked = locked_folder(opened(path.path()), Duration::ZERO).unwrap();
    assert!(locked_folder(opened(path.path()), Duration::ZERO).is_none());
    make(&locked, "c", "");
    renameat_with(&locked, "c", &locked, "b", RenameFlags::NOREPLACE).unwrap();
    renameat(&dir, "b", &locked, "b").unwrap();
    assert_eq!(list(&dir), ["a", "b"]);
    drop(locked);
    assert!(locked_folder(opened(path.path()), Duration::from_secs(9)).is_some());
}

#[test]
fn writers_are_kept_from_a_file() {
    let (path, dir) = folder();
    let writes = || File::options().write(true).open(path.path().join("a"));
    let writer = make(&dir, "a", "one");
    let keep = || keep_from_writers(&dir, OsStr::new("a"));
    assert_eq!(keep().err(), Some(Errno::BUSY));
    drop(writer);
    let reader = File::open(path.path().join("a")).unwrap();
    let kept = keep().unwrap().unwrap();
    assert!(writes().is_err());
    // It is renamed and deleted all the same.
    renameat_with(&dir, "a", &dir, "b", RenameFlags::NOREPLACE).unwrap();
    renameat_with(&dir, "b", &dir, "a", RenameFlags::NOREPLACE).unwrap();
    drop(kept);
    writes().unwrap();
    let kept = keep().unwrap();
    unlinkat(&dir, "a", AtFlags::empty()).unwrap();
    drop((kept, reader));
    assert_eq!(list(&dir), [""; 0]);
}

#[test]
fn times_are_set() {
    let (_path, dir) = folder();
    let file = make(&dir, "a", "one");
    let time = |tv_sec, tv_nsec| Timespec { tv_sec, tv_nsec };
    futimens(
        &file,
        &Timestamps { last_access: time(0, UTIME_OMIT), last_modification: time(1_600_000_000, 123_456_700) },
    )
    .unwrap();
    let stat = fstat(&file).unwrap();
    assert_eq!((stat.st_mtime, stat.st_mtime_nsec), (1_600_000_000, 123_456_700));
    // A folder that was opened to be read.
    futimens(&dir, &Timestamps { last_access: time(0, UTIME_OMIT), last_modification: time(1_500_000_000, 0) })
        .unwrap();
    assert_eq!(fstat(&dir).unwrap().st_mtime, 1_500_000_000);
    fsync(&file).unwrap();
    match fsync(&dir) {
        Ok(()) | Err(Errno::NOTSUP) => {}
        Err(e) => panic!("{e}"),
    }
}

#[test]
fn private_files_are_for_their_user() {
    let (path, dir) = folder();
    let alone = Access { is_own: true, read: false, write: false };
    let file = make(&dir, "secret", "one");
    assert_eq!(access(&file).unwrap(), alone);
    // What the folder gives: whatever it is, the user must still be able to open it.
    fchmod(&file, Mode::from_raw_mode(0o644)).unwrap();
    drop(file);
    assert_eq!(fs::read_to_string(path.path().join("secret")).unwrap(), "one");
    let file = File::options().read(true).write(true).open(path.path().join("secret")).unwrap();
    fchmod(&file, Mode::from_raw_mode(0o600)).unwrap();
    assert_eq!(access(&file).unwrap(), alone, "again");
    create_private_folder(&path.path().join("p").join("q"), true).unwrap();
    create_private_folder(&path.path().join("p").join("q"), true).unwrap();
    assert!(create_private_folder(&path.path().join("p").join("q"), false).is_err());
    assert_eq!(access(opened(&path.path().join("p").join("q"))).unwrap(), alone, "a folder");
}

#[test]
fn logs_are_cut_and_go_on() {
    let (path, _dir) = folder();
    let log = path.path().join("log");
    let mut file = open_private_log(&log).unwrap();
    file.write_all(b"12345").unwrap();
    let mut again = open_private_log(&log).unwrap();
    cut_log(&again, 3).unwrap();
    again.write_all(b"x").unwrap();
    assert_eq!(fs::read(&log).unwrap(), b"123x");
    // Each writes at the end that the other has left.
    for (n, mut file) in [&file, &again, &file, &file, &again].into_iter().enumerate() {
        write!(file, "{n}").unwrap();
        file.sync_all().unwrap();
    }
    let mut text = String::new();
    File::open(&log).unwrap().read_to_string(&mut text).unwrap();
    assert_eq!(text, "123x01234");
}

#[test]
fn several_write_to_a_log_at_once() {
    const EACH: usize = 200;
    let (path, _dir) = folder();
    let log = path.path().join("log");
    std::thread::scope(|scope| {
        for n in 0..4u8 {
            let mut file = open_private_log(&log).unwrap();
            scope.spawn(move || (0..EACH).for_each(|_| file.write_all(&[n; 64]).unwrap()));
        }
    });
    let written = fs::read(&log).unwrap();
    assert_eq!(written.len(), 4 * EACH * 64);
    let records: Vec<_> = written.chunks(64).collect();
    assert!(records.iter().all(|record| record.iter().all(|byte| *byte == record[0])));
    assert!((0..4).all(|n| records.iter().filter(|record| record[0] == n).count() == EACH));
}

#[test]
fn every_spelling_has_the_name_that_is_stored() {
    let (_path, dir) = folder();
    make(&dir, "Run ä.phx", "1");
    for typed in ["Run ä.phx", "run Ä.PHX", "RUN ä.phx"] {
        assert_eq!(spelling(&dir, OsStr::new(typed), 0), "Run ä.phx");
    }
    for typed in ["none", "a:b"] {
        assert_eq!(spelling(&dir, OsStr::new(typed), 0), typed);
    }
}

#[test]
fn what_was_opened_to_be_read_is_synced() {
    let (_path, dir) = folder();
    drop(make(&dir, "a", "one"));
    let file = File::from(openat(&dir, "a", OFlags::RDONLY, Mode::empty()).unwrap());
    sync_all(&file).unwrap();
    sync_data(&file).unwrap();
    fsync(&file).unwrap();
    assert!(file.set_len(0).is_err(), "it is still open only to be read");
}

#[test]
fn long_paths_work() {
    let (path, dir) = folder();
    let name = "n".repeat(200);
    let mut at = dir;
    let mut whole = path.path().to_owned();
    for _ in 0..5 {
        mkdirat(&at, &name, Mode::RWXU).unwrap();
        at = openat(&at, &name, OFlags::RDONLY | OFlags::DIRECTORY, Mode::empty()).unwrap().into();
        whole.push(&name);
    }
    make(&at, "a", "one");
    let again = opened(&whole);
    assert_eq!(list(&again), ["a"]);
    assert_eq!(OsStr::new("ä").as_bytes(), "ä".as_bytes());
}
