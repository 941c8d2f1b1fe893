//! `phalanx unprotect --recursive` of a whole volume, without a mount.

use super::{init, mount, unmount};
use crate::common::{Sandbox, painted};
use rustix::fs::{
    AtFlags, CWD, FileType, Mode, OFlags, Timespec, Timestamps, XattrFlags, mkdirat, mknodat, openat, setxattr,
    unlinkat, utimensat,
};
use std::fs::{self, File, Permissions};
use std::os::fd::OwnedFd;
use std::os::unix::fs::{FileExt, MetadataExt, PermissionsExt, symlink};
use std::path::Path;

const DEPTH: usize = 150;

/// A volume with one entry of each kind. `None` if this system does not allow mounts.
fn filled() -> Option<Sandbox> {
    let s = Sandbox::new();
    init(&s, "vol", "4K");
    let mounted = mount(&s, "vol")?;
    fs::create_dir_all(s.path("mnt/a/b")).unwrap();
    for (name, bytes) in [("empty", Vec::new()), ("a/short", b"hello".to_vec()), ("a/b/long", painted(3_000_000))] {
        s.write(&format!("mnt/{name}"), bytes);
    }
    let sparse = File::create(s.path("mnt/a/sparse")).unwrap();
    sparse.write_all_at(b"end", 50_000_000).unwrap();
    sparse.set_len(60_000_001).unwrap();
    drop(sparse);
    symlink("../nowhere", s.path("mnt/a/link")).unwrap();
    fs::hard_link(s.path("mnt/a/short"), s.path("mnt/a/b/again")).unwrap();
    mknodat(CWD, s.path("mnt/pipe"), FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
    for (name, value) in [("a/short", "of a file"), ("a", "of a folder")] {
        setxattr(s.path(&format!("mnt/{name}")), "user.note", value.as_bytes(), XattrFlags::empty()).unwrap();
    }
    for (name, mode) in [("a/short", 0o751), ("empty", 0o600), ("a/b", 0o500)] {
        fs::set_permissions(s.path(&format!("mnt/{name}")), Permissions::from_mode(mode)).unwrap();
    }
    let deep: OwnedFd = File::open(s.path("mnt")).unwrap().into();
    let bottom = (0..DEPTH).fold(deep, |dir, _| {
        mkdirat(&dir, "d", Mode::RWXU).unwrap();
        enter(&dir, "d")
    });
    let file = openat(&bottom, "file", OFlags::CREATE | OFlags::WRONLY, Mode::RUSR).unwrap();
    rustix::io::write(&file, b"deep").unwrap();
    drop((bottom, file));
    let time = Timespec { tv_sec: 1_000_000_000, tv_nsec: 123 };
    for name in ["a/short", "a/b", "a"] {
        let times = Timestamps { last_access: time, last_modification: time };
        utimensat(CWD, s.path(&format!("mnt/{name}")), &times, AtFlags::empty()).unwrap();
    }
    unmount(mounted);
    Some(s)
}

fn enter(dir: &OwnedFd, name: &str) -> OwnedFd {
    openat(dir, name, OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty()).unwrap()
}

/// Removes the deep folders without recursion, which would overflow. Returns the content of the file in the deepest
/// one.
fn remove_deep(root: &Path) -> Vec<u8> {
    let mut dir = (0..DEPTH).fold(File::open(root).unwrap().into(), |dir, _| enter(&dir, "d"));
    let file = openat(&dir, "file", OFlags::RDONLY, Mode::empty()).unwrap();
    let mut bytes = [0; 8];
    let len = rustix::io::read(&file, &mut bytes[..]).unwrap();
    unlinkat(&dir, "file", AtFlags::empty()).unwrap();
    for _ in 0..DEPTH {
        dir = enter(&dir, "..");
        unlinkat(&dir, "d", AtFlags::REMOVEDIR).unwrap();
    }
    bytes[..len].to_vec()
}

#[test]
fn a_volume_is_restored_completely_without_a_mount() {
    let Some(s) = filled() else { return };
    let line = "umask 022 && ulimit -n 64 && exec \"$0\" unprotect -R vol -o out --key-file key --force";
    let mut command = std::process::Command::new("sh");
    command.args(["-c", line, env!("CARGO_BIN_EXE_phalanx")]).current_dir(s.path(""));
    let ended = crate::common::Ended(command.output().unwrap());
    let said = ended.error();
    ended.ok();
    assert!(said.contains("vol/pipe: a pipe: left out"), "{said}");
    assert!(said.contains("out: 6 files, 63000015 bytes; 1 left out"), "{said}");
    assert_eq!(remove_deep(&s.path("out")), b"deep");
    assert!(s.read("out/empty").is_empty() && s.read("out/a/short") == b"hello" && s.read("out/a/b/again") == b"hello");
    assert!(s.read("out/a/b/long") == painted(3_000_000));
    let sparse = File::open(s.path("out/a/sparse")).unwrap();
    let mut end = [0; 3];
    sparse.read_exact_at(&mut end, 50_000_000).unwrap();
    let meta = sparse.metadata().unwrap();
    assert_eq!((&end, meta.len()), (b"end", 60_000_001));
    assert!(meta.blocks() < 10_000, "{}", meta.blocks());
    assert_eq!(fs::read_link(s.path("out/a/link")).unwrap(), Path::new("../nowhere"));
    for (name, value) in [("a/short", "of a file"), ("a", "of a folder")] {
        let mut bytes = [0; 64];
        let len = rustix::fs::getxattr(s.path(&format!("out/{name}")), "user.note", &mut bytes[..]).unwrap();
        assert_eq!(&bytes[..len], value.as_bytes(), "{name}");
    }
    let mode = |name: &str| fs::metadata(s.path(&format!("out/{name}"))).unwrap().mode() & 0o7777;
    // Like protected files without --preserve, they get the permissions of new files, and none that the stored files
    // lack.
    assert_eq!((mode("a/short"), mode("empty"), mode("a/b")), (0o640, 0o600, 0o500));
    for name in ["a/short", "a/b", "a"] {
        let meta = fs::metadata(s.path(&format!("out/{name}"))).unwrap();
        assert_eq!((meta.mtime(), meta.mtime_nsec()), (1_000_000_000, 123), "{name}");
    }
    let leftovers: Vec<_> = fs::read_dir(s.path("out/a")).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(leftovers.len(), 4, "{leftovers:?}");

    fs::create_dir(s.path("dir")).unwrap();
    let args = ["unprotect", "-qR", "vol", "--key-file", "key", "--preserve", "--no-sync", "--output-dir", "dir"];
    s.run(&args).ok();
    assert_eq!(remove_deep(&s.path("dir/vol")), b"deep");
    assert_eq!(fs::metadata(s.path("dir/vol/a/short")).unwrap().mode() & 0o7777, 0o751);
    let names = |name: &str| fs::read_dir(s.path(name)).unwrap().count();
    assert_eq!(names("dir/vol"), 2);
}

#[test]
fn damaged_files_fail_alone_and_existing_files_stay() {
    let s = Sandbox::new();
    init(&s, "vol", "4K");
    let Some(mounted) = mount(&s, "vol") else { return };
    s.write("mnt/good", "good");
    s.write("mnt/bad", painted(100_000));
    s.write("mnt/key", "not a key");
    unmount(mounted);
    let stored = fs::read_dir(s.path("vol")).unwrap().map(|entry| entry.unwrap().path());
    let bad = stored.filter(|path| fs::metadata(path).unwrap().len() > 100_000 && !path.ends_with("phalanx.journal"));
    let bad = bad.last().unwrap();
    let mut bytes = fs::read(&bad).unwrap();
    bytes[60_000] ^= 1;
    fs::write(&bad, bytes).unwrap();

    let run = |args: &[&str]| s.run(&[&["unprotect", "vol", "--key-file", "key"], args].concat());
    assert!(run(&[]).fails(4).contains("take all of it with --recursive"));
    assert!(run(&["-R"]).fails_with_lines(2).contains("needs --output or --output-dir"));
    assert!(run(&["-R", "--remove", "-o", "out"]).fails_with_lines(2).contains("--remove does not delete"));
    assert!(run(&["-R", "-o", "vol/out"]).fails_with_lines(2).contains("the output is within the input"));
    let said = run(&["-R", "-o", "out"]).fails_with_lines(3);
    assert!(said.contains("vol/bad: ") && said.contains("2 files, 13 bytes; 1 failed"), "{said}");
    assert!(s.read("out/good") == b"good" && !s.exists("out/bad"));
    assert_eq!(fs::read_dir(s.path("out")).unwrap().count(), 2);
    // No existing file is replaced without --force.
    s.write("out/good", "mine");
    assert!(run(&["-R", "-o", "out"]).fails_with_lines(4).contains("out: "));
    assert_eq!(s.read("out/good"), b"mine");
    run(&["-qR", "-f", "-o", "out"]).fails_with_lines(3);
    assert_eq!(s.read("out/good"), b"good");
    // The key in use is not replaced by a file with its name.
    let said = run(&["-R", "-f", "-o", "."]).fails_with_lines(3);
    assert!(said.contains("./key: it holds a key or password, which no output replaces"), "{said}");
    assert_eq!(s.read("key"), [7; 32]);
}
