//! Attacks by somebody who can write to the backing folder.

use super::{Volume, errno, owner};
use phalanx_volume::folder::FOLDER;
use phalanx_volume::tree::{Kind, ROOT, RenameMode};
use rustix::fs::{CWD, FileType, Mode, mknodat};
use rustix::io::Errno;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;

/// A volume with a folder that is not known yet, and where it is stored.
fn volume() -> (Volume, std::path::PathBuf) {
    let volume = Volume::new();
    let folder = volume.mkdir(ROOT, "folder").unwrap();
    volume.file(folder.number, "file", "content").unwrap();
    volume.link(folder.number, "link", "target").unwrap();
    volume.file(ROOT, "beside", "content").unwrap();
    let path = volume.stored(&folder);
    (volume.again(), path)
}

/// Checks that the folder cannot be used, that everything beside it can, and that it is reported once.
fn is_refused(volume: &Volume) {
    let folder = volume.lookup(ROOT, "folder").unwrap();
    for _ in 0..2 {
        assert_eq!(errno(volume.lookup(folder.number, "file")), Errno::IO);
        assert_eq!(errno(volume.tree.list(folder.number).map(|_| ())), Errno::IO);
        assert_eq!(errno(volume.file(folder.number, "new", "")), Errno::IO);
        assert_eq!(errno(volume.mkdir(folder.number, "new")), Errno::IO);
    }
    assert_eq!(errno(volume.tree.rename(ROOT, b"folder", ROOT, b"other", RenameMode::Replace)), Errno::IO);
    assert_eq!(errno(volume.tree.rmdir(ROOT, b"folder")), Errno::NOTEMPTY);
    assert_eq!(volume.lookup(ROOT, "beside").unwrap().kind, Kind::File);
    volume.file(ROOT, "new", "").unwrap();
    assert_eq!(volume.damage().len(), 1, "{:?}", volume.damage());
}

#[test]
fn a_folder_needs_its_file_as_it_was() {
    let record = |path: &Path| fs::read(path.join(FOLDER)).unwrap();
    for len in [0, 1, 31, 33, 63, 64, 65, 96, 1 << 20] {
        let (volume, path) = volume();
        let mut bytes = record(&path);
        bytes.resize(len, 0);
        let is_first_whole = len == 64;
        fs::write(path.join(FOLDER), bytes).unwrap();
        if is_first_whole {
            // One record decrypts and one does not: the file is repaired.
            let folder = volume.lookup(ROOT, "folder").unwrap();
            assert_eq!(volume.lookup(folder.number, "file").unwrap().kind, Kind::File);
            assert_eq!(record(&path).len(), 32);
        } else {
            is_refused(&volume);
        }
    }
    for place in 0..32 {
        let (volume, path) = volume();
        let mut bytes = record(&path);
        bytes[place] ^= 1;
        fs::write(path.join(FOLDER), bytes).unwrap();
        is_refused(&volume);
    }
}

#[test]
fn other_kinds_of_entries_are_refused_as_the_file_of_a_folder() {
    for kind in ["none", "folder", "link", "loop", "fifo", "socket"] {
        let (volume, path) = volume();
        let file = path.join(FOLDER);
        let copy = volume.path().join("phalanx.copy");
        fs::rename(&file, &copy).unwrap();
        match kind {
            "none" => {}
            "folder" => fs::create_dir(&file).unwrap(),
            // A link to a file with the right content.
            "link" => symlink(&copy, &file).unwrap(),
            "loop" => symlink(FOLDER, &file).unwrap(),
            "fifo" => mknodat(CWD, &file, FileType::Fifo, Mode::RUSR, 0).unwrap(),
            _ => mknodat(CWD, &file, FileType::Socket, Mode::RUSR, 0).unwrap(),
        }
        is_refused(&volume);
    }
}

#[test]
fn folders_that_are_exchanged_while_they_are_in_use_are_refused() {
    for is_apart in [false, true] {
        let volume = Volume::new();
        let [a, b] = ["a", "b"].map(|name| if is_apart { volume.mkdir(ROOT, name).unwrap().number } else { ROOT });
        let places = [(a, "public", "doc"), (b, "secret", "key")];
        let stored = places.map(|(parent, name, file)| {
            let folder = volume.mkdir(parent, name).unwrap();
            volume.file(folder.number, file, name).unwrap();
            volume.mkdir(folder.number, "inner").unwrap();
            volume.stored(&folder)
        });
        let before = volume.snapshot();
        let exchange =
            || rustix::fs::renameat_with(CWD, &stored[0], CWD, &stored[1], rustix::fs::RenameFlags::EXCHANGE);
        exchange().unwrap();
        for (parent, name, _) in places {
            let folder = volume.lookup(parent, name).unwrap();
            for name in ["doc", "key", "inner"] {
                assert_eq!(errno(volume.lookup(folder.number, name)), Errno::IO);
            }
            assert_eq!(errno(volume.tree.list(folder.number).map(|_| ())), Errno::IO);
            assert_eq!(errno(volume.file(folder.number, "new", "")), Errno::IO);
            assert_eq!(errno(volume.mkdir(folder.number, "new")), Errno::IO);
        }
        assert_eq!(volume.damage().len(), 2, "{:?}", volume.damage());
        // Exchanged back, each can be used again where it belongs.
        exchange().unwrap();
        assert_eq!(volume.snapshot(), before);
        volume.check_backing();
    }
}

#[test]
fn the_root_needs_its_file() {
    let volume = Volume::new();
    let file = volume.path().join(FOLDER);
    let record = fs::read(&file).unwrap();
    for bytes in [&record[..31], &[0; 32], &[], &[0; 64]] {
        fs::write(&file, bytes).unwrap();
        let opened = super::tree(volume.path(), &volume.config, &volume.damage);
        assert_eq!(errno(opened.map(|_| ())), Errno::IO);
    }
    fs::write(&file, &record).unwrap();
    volume.again();
    let other = Volume::new();
    fs::write(other.path().join(FOLDER), record).unwrap();
    assert_eq!(errno(super::tree(other.path(), &other.config, &other.damage).map(|_| ())), Errno::IO);
}

#[test]
fn folders_and_entries_that_were_moved_or_copied_are_not_used() {
    // Two folders exchanged.
    let (volume, path) = volume();
    let other = volume.mkdir(ROOT, "other").unwrap();
    let other = volume.stored(&other);
    let volume = volume.again();
    rustix::fs::renameat_with(CWD, &path, CWD, &other, rustix::fs::RenameFlags::EXCHANGE).unwrap();
    for name in ["folder", "other"] {
        let folder = volume.lookup(ROOT, name).unwrap();
        assert_eq!(errno(volume.tree.list(folder.number).map(|_| ())), Errno::IO);
    }
    // Exchanges them back.
    rustix::fs::renameat_with(CWD, &path, CWD, &other, rustix::fs::RenameFlags::EXCHANGE).unwrap();
    let volume = volume.again();
    let before = volume.snapshot();

    // Entries and folders moved into another folder.
    for entry in fs::read_dir(&path).unwrap().map(Result::unwrap) {
        let (stored, target) = (entry.path(), other.join(entry.file_name()));
        if entry.file_name() == FOLDER {
            continue;
        }
        fs::rename(&stored, &target).unwrap();
        let folder = volume.lookup(ROOT, "other").unwrap();
        let list = volume.tree.list(folder.number).unwrap();
        assert_eq!((list.len(), volume.tree.entry(&list, 0).unwrap()), (1, None));
        fs::rename(&target, &stored).unwrap();
    }
    assert_eq!(volume.damage().len(), 2);
    assert_eq!(volume.snapshot(), before);

    // A folder in a folder, with the name that it has there.
    let outer = volume.lookup(ROOT, "other").unwrap();
    let inner = volume.mkdir(outer.number, "inner").unwrap();
    let inner = volume.stored(&inner);
    let volume = volume.again();
    let moved = path.join(inner.file_name().unwrap());
    fs::rename(inner, moved).unwrap();
    let folder = volume.lookup(ROOT, "folder").unwrap();
    let list = volume.tree.list(folder.number).unwrap();
    let names = (0..list.len()).filter_map(|index| volume.tree.entry(&list, index).unwrap()).count();
    assert_eq!((list.len(), names), (3, 2));
}

#[test]
fn links_are_read_only_where_they_were_made() {
    let volume = Volume::new();
    let [a, b] = ["a", "b"].map(|name| volume.link(ROOT, name, &format!("to {name}")).unwrap());
    let (path_a, path_b) = (volume.stored(&a), volume.stored(&b));
    rustix::fs::renameat_with(CWD, &path_a, CWD, &path_b, rustix::fs::RenameFlags::EXCHANGE).unwrap();
    let volume = volume.again();
    for name in ["a", "b"] {
        let link = volume.lookup(ROOT, name).unwrap();
        assert_eq!(errno(volume.tree.readlink(link.number)), Errno::IO);
        assert_eq!(errno(volume.tree.rename(ROOT, name.as_bytes(), ROOT, b"c", RenameMode::Replace)), Errno::IO);
        // It can be removed.
        volume.tree.unlink(ROOT, name.as_bytes()).unwrap();
    }
    symlink("/etc/passwd", &path_a).unwrap();
    let link = volume.lookup(ROOT, "a").unwrap();
    assert_eq!((link.kind, link.size), (Kind::Link, 0));
    assert_eq!(errno(volume.tree.readlink(link.number)), Errno::IO);
    assert_eq!(errno(volume.tree.open_file(link.number, false)), Errno::INVAL);
}

#[test]
fn a_long_name_is_listed_only_with_its_own_full_name() {
    let long = "long".repeat(60);
    for full in ["none", "empty", "altered", "other", "huge", "fifo", "link"] {
        let volume = Volume::new();
        let file = volume.file(ROOT, &long, "content").unwrap();
        let other = volume.file(ROOT, &"other".repeat(50), "").unwrap();
        let full_of = |attr| format!("{}.full", volume.stored(attr).to_str().unwrap());
        let (path, other) = (full_of(&file), full_of(&other));
        let bytes = fs::read(&path).unwrap();
        fs::remove_file(&path).unwrap();
        match full {
            "none" => {}
            "empty" => fs::write(&path, "").unwrap(),
            "altered" => fs::write(&path, [&bytes[1..], &[0]].concat()).unwrap(),
            "other" => drop(fs::copy(other, &path).unwrap()),
            "huge" => fs::write(&path, vec![0; 1 << 20]).unwrap(),
            "fifo" => mknodat(CWD, &path, FileType::Fifo, Mode::RUSR, 0).unwrap(),
            _ => symlink(other, &path).unwrap(),
        }
        let list = volume.tree.list(ROOT).unwrap();
        let names = (0..list.len()).filter_map(|index| volume.tree.entry(&list, index).unwrap()).count();
        assert_eq!((list.len(), names, volume.damage().len()), (2, 1, 1), "{full}");
        // It is found by its name. It can be removed, or renamed, which makes the file beside it again.
        assert_eq!(volume.lookup(ROOT, &long).unwrap().number, file.number);
        volume.tree.rename(ROOT, long.as_bytes(), ROOT, b"short", RenameMode::Replace).unwrap();
        volume.tree.rename(ROOT, b"short", ROOT, long.as_bytes(), RenameMode::Replace).unwrap();
        assert_eq!(volume.snapshot().len(), 2);
        volume.check_backing();
    }
}

#[test]
fn a_node_whose_entry_was_replaced_from_outside_is_stale() {
    let (volume, path) = volume();
    let folder = volume.lookup(ROOT, "folder").unwrap();
    let file = volume.lookup(folder.number, "file").unwrap();
    let stored = volume.stored(&file);
    fs::rename(&stored, path.join("kept")).unwrap();
    assert_eq!(errno(volume.tree.getattr(file.number)), Errno::STALE);
    for kind in ["file", "fifo", "link", "folder"] {
        match kind {
            "file" => fs::write(&stored, "x").unwrap(),
            "fifo" => mknodat(CWD, &stored, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap(),
            "link" => symlink("kept", &stored).unwrap(),
            _ => fs::create_dir(&stored).unwrap(),
        }
        assert_eq!(errno(volume.tree.getattr(file.number)), Errno::STALE);
        assert_eq!(errno(volume.tree.open_file(file.number, true)), Errno::STALE);
        assert_eq!(errno(volume.tree.link(file.number, ROOT, b"other")), Errno::STALE);
        let now = volume.lookup(folder.number, "file").unwrap();
        assert_ne!((now.number, now.kind), (file.number, file.kind));
        if kind == "folder" {
            fs::remove_dir(&stored).unwrap();
        } else {
            fs::remove_file(&stored).unwrap();
        }
    }
}

#[test]
fn a_folder_that_is_moved_into_itself_by_a_rollback_is_refused() {
    // outer/inner becomes inner/outer, each with a `phalanx.folder` that was right once.
    let volume = Volume::new();
    let outer = volume.mkdir(ROOT, "outer").unwrap();
    let inner = volume.mkdir(ROOT, "inner").unwrap();
    let (tree, outer_path, inner_path) = (&volume.tree, volume.stored(&outer), volume.stored(&inner));
    let inner_record = fs::read(inner_path.join(FOLDER)).unwrap();
    tree.rename(ROOT, b"outer", inner.number, b"outer", RenameMode::Replace).unwrap();
    let inside = volume.stored(&outer);
    let outer_record = fs::read(inside.join(FOLDER)).unwrap();
    tree.rename(inner.number, b"outer", ROOT, b"outer", RenameMode::Replace).unwrap();
    tree.rename(ROOT, b"inner", outer.number, b"inner", RenameMode::Replace).unwrap();
    // The kernel knows inner in outer. Now it looks outer up in inner.
    let inner_now = volume.stored(&inner);
    fs::rename(&inner_now, &inner_path).unwrap();
    fs::rename(&outer_path, &inside).unwrap();
    fs::write(inner_path.join(FOLDER), inner_record).unwrap();
    fs::write(inside.join(FOLDER), outer_record).unwrap();
    assert_eq!(errno(volume.lookup(inner.number, "outer")), Errno::IO);
    assert_eq!(volume.damage().len(), 1);
    assert_eq!(errno(volume.tree.getattr(outer.number)), Errno::STALE);
    // They can be used again once they are looked up from the root.
    assert_eq!(volume.lookup(ROOT, "inner").unwrap().number, inner.number);
    assert_eq!(volume.lookup(inner.number, "outer").unwrap().number, outer.number);
    assert!(volume.tree.list(outer.number).unwrap().is_empty());
}

#[test]
fn planted_names_are_no_entries() {
    let volume = Volume::new();
    for name in
        ["phalanx.volume", "x", "phalanx.name.x", "phalanx.name.", "notes.txt", "AAAAAAAAAAAAAAAAAAAAAAA", ".hidden"]
    {
        fs::write(volume.path().join(name), "x").unwrap();
    }
    fs::write(volume.path().join("a".repeat(255)), "x").unwrap();
    use std::os::unix::ffi::OsStrExt;
    fs::write(volume.path().join(std::ffi::OsStr::from_bytes(b"\xff\n\x1b[31m")), "x").unwrap();
    assert!(volume.snapshot().is_empty());
    assert_eq!(volume.damage().len(), 6, "{:?}", volume.damage());
    // Reports contain nothing that could disturb a terminal.
    assert!(volume.damage().iter().all(|message| !message.contains(['\n', '\x1b'])));
    assert_eq!(volume.tree.mkdir(ROOT, b"notes.txt", 0o755, owner()).unwrap().kind, Kind::Folder);
}
