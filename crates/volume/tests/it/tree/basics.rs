//! Each operation on its own.

use super::{Volume, errno, is_root, owner, read};
use phalanx_volume::tree::{Kind, ROOT, RenameMode, SetAttr, SetMode};
use rustix::io::Errno;
use std::fs;
use std::io::Write;

#[test]
fn entries_of_all_kinds_and_lengths_are_there_after_a_remount() {
    let volume = Volume::new();
    let folder = volume.mkdir(ROOT, "folder").unwrap();
    for len in [1, 100, 174, 175, 176, 254, 255] {
        volume.file(folder.number, &"f".repeat(len), &len.to_string()).unwrap();
        volume.mkdir(folder.number, &"d".repeat(len)).unwrap();
        volume.link(folder.number, &"l".repeat(len), &"t".repeat(len)).unwrap();
        volume.tree.mknod(folder.number, "p".repeat(len).as_bytes(), Kind::Fifo, 0o600, 0, owner()).unwrap();
    }
    let before = volume.snapshot();
    assert_eq!(before.len(), 29);
    assert_eq!(before[&format!("/folder/{}", "f".repeat(255))], (Kind::File, b"255".to_vec()));
    volume.check_backing();
    let volume = volume.again();
    assert_eq!(volume.snapshot(), before);
    assert_eq!(volume.damage(), [""; 0]);
    // No plain name or target is stored, nor the beginning of one.
    for stored in walk(volume.path()) {
        assert!(
            !["folder", "ffffff", "dddddd", "llllll", "pppppp", "tttttt"].iter().any(|plain| stored.contains(plain))
                || stored == "phalanx.folder"
        );
    }
}

fn walk(folder: &std::path::Path) -> Vec<String> {
    let mut names = Vec::new();
    for entry in fs::read_dir(folder).unwrap().map(Result::unwrap) {
        names.push(entry.file_name().into_string().unwrap());
        names.extend(fs::read_link(entry.path()).ok().map(|target| target.into_os_string().into_string().unwrap()));
        if entry.file_type().unwrap().is_dir() {
            names.extend(walk(&entry.path()));
        }
    }
    names
}

#[test]
fn names_that_are_taken_stay_as_they_are() {
    let volume = Volume::new();
    for name in ["short".to_owned(), "long".repeat(60)] {
        volume.file(ROOT, &name, "first").unwrap();
        let before = volume.snapshot();
        assert_eq!(errno(volume.file(ROOT, &name, "second")), Errno::EXIST);
        assert_eq!(errno(volume.mkdir(ROOT, &name)), Errno::EXIST);
        assert_eq!(errno(volume.link(ROOT, &name, "t")), Errno::EXIST);
        assert_eq!(errno(volume.tree.mknod(ROOT, name.as_bytes(), Kind::Fifo, 0, 0, owner())), Errno::EXIST);
        let file = volume.lookup(ROOT, &name).unwrap();
        assert_eq!(errno(volume.tree.link(file.number, ROOT, name.as_bytes())), Errno::EXIST);
        assert_eq!(volume.snapshot(), before);
        volume.check_backing();
    }
}

#[test]
fn a_file_that_could_not_be_written_leaves_nothing() {
    let volume = Volume::new();
    let failed = volume.tree.create(ROOT, b"name", 0o644, owner(), |_| Err::<(), _>(Errno::NOSPC.into()));
    assert_eq!(errno(failed), Errno::NOSPC);
    assert!(volume.snapshot().is_empty());
    volume.check_backing();
}

#[test]
fn missing_entries_and_other_kinds_give_the_usual_errors() {
    let volume = Volume::new();
    let file = volume.file(ROOT, "file", "").unwrap().number;
    let link = volume.link(ROOT, "link", "target").unwrap().number;
    let folder = volume.mkdir(ROOT, "folder").unwrap().number;
    volume.file(folder, "inner", "").unwrap();
    assert_eq!(errno(volume.lookup(ROOT, "none")), Errno::NOENT);
    assert_eq!(errno(volume.lookup(file, "none")), Errno::NOTDIR);
    assert_eq!(errno(volume.tree.list(file).map(|_| ())), Errno::NOTDIR);
    assert_eq!(errno(volume.lookup(ROOT, &"n".repeat(256))), Errno::NAMETOOLONG);
    assert_eq!(errno(volume.tree.unlink(ROOT, b"none")), Errno::NOENT);
    assert_eq!(errno(volume.tree.unlink(ROOT, b"folder")), Errno::ISDIR);
    assert_eq!(errno(volume.tree.rmdir(ROOT, b"file")), Errno::NOTDIR);
    assert_eq!(errno(volume.tree.rmdir(ROOT, b"folder")), Errno::NOTEMPTY);
    assert_eq!(errno(volume.tree.rmdir(ROOT, b"none")), Errno::NOENT);
    assert_eq!(errno(volume.tree.readlink(file)), Errno::INVAL);
    assert_eq!(errno(volume.tree.open_file(folder, false)), Errno::ISDIR);
    assert_eq!(errno(volume.tree.link(link, ROOT, b"other")), Errno::PERM);
    assert_eq!(errno(volume.tree.link(folder, ROOT, b"other")), Errno::PERM);
    assert_eq!(errno(volume.tree.getattr(12_345_678)), Errno::STALE);
}

#[test]
fn entries_and_empty_folders_are_removed() {
    let volume = Volume::new();
    for name in ["folder".to_owned(), "folder".repeat(40)] {
        let folder = volume.mkdir(ROOT, &name).unwrap().number;
        for inner in ["inner".to_owned(), "inner".repeat(50)] {
            volume.file(folder, &inner, "").unwrap();
            volume.tree.unlink(folder, inner.as_bytes()).unwrap();
        }
        volume.tree.rmdir(ROOT, name.as_bytes()).unwrap();
        // It is still open, and empty for good.
        assert_eq!(volume.tree.getattr(folder).unwrap().kind, Kind::Folder);
        assert_eq!(errno(volume.file(folder, "late", "")), Errno::NOENT);
        assert_eq!(errno(volume.mkdir(folder, "late")), Errno::NOENT);
    }
    assert!(volume.snapshot().is_empty());
    volume.check_backing();
}

#[test]
fn nothing_is_made_in_a_folder_that_is_removed_meanwhile() {
    let volume = Volume::new();
    let folder = volume.mkdir(ROOT, "folder").unwrap().number;
    let made = volume.tree.create(folder, b"file", 0o644, owner(), |_| volume.tree.rmdir(ROOT, b"folder"));
    assert_eq!(errno(made), Errno::NOENT);
    assert!(volume.snapshot().is_empty());
    volume.check_backing();
    // The same if another folder has replaced it.
    let folder = volume.mkdir(ROOT, "folder").unwrap().number;
    volume.mkdir(ROOT, "other").unwrap();
    let made = volume.tree.create(folder, b"file", 0o644, owner(), |_| {
        volume.tree.rename(ROOT, b"other", ROOT, b"folder", RenameMode::Replace)
    });
    assert_eq!(errno(made), Errno::NOENT);
    assert_eq!(volume.snapshot().len(), 1);
    volume.check_backing();
}

#[test]
fn leftovers_are_removed_but_nothing_else() {
    let volume = Volume::new();
    let folder = volume.mkdir(ROOT, "folder").unwrap();
    let path = volume.stored(&folder);
    fs::create_dir(path.join("phalanx.new.1")).unwrap();
    fs::write(path.join("phalanx.new.1/phalanx.folder"), "x").unwrap();
    fs::write(path.join("phalanx.gone.2"), "x").unwrap();
    volume.tree.list(folder.number).unwrap();
    volume.check_backing();

    fs::create_dir(path.join("phalanx.gone.1")).unwrap();
    fs::write(path.join("phalanx.new.2"), "x").unwrap();
    fs::write(path.join(format!("phalanx.name.{}.full", "A".repeat(43))), "x").unwrap();
    // A file of another program.
    fs::write(path.join("notes.txt"), "x").unwrap();
    assert_eq!(errno(volume.tree.rmdir(ROOT, b"folder")), Errno::NOTEMPTY);
    assert!(path.join("notes.txt").exists());
    fs::remove_file(path.join("notes.txt")).unwrap();
    volume.tree.rmdir(ROOT, b"folder").unwrap();
    volume.check_backing();
}

/// Each time the folder is read, a part of the leftovers is removed, even if there are many or they are nested.
#[test]
fn a_list_does_not_wait_until_all_leftovers_are_gone() {
    let volume = Volume::new();
    let folder = volume.mkdir(ROOT, "folder").unwrap();
    let path = volume.stored(&folder);
    for outer in ["phalanx.new.1", "phalanx.gone.2"] {
        fs::create_dir(path.join(outer)).unwrap();
        for inner in 0..1000 {
            fs::write(path.join(format!("{outer}/phalanx.new.{inner}")), "x").unwrap();
        }
    }
    let count = |path: &std::path::Path| fs::read_dir(path).unwrap().count();
    let all = || {
        ["phalanx.new.1", "phalanx.gone.2"]
            .iter()
            .map(|name| path.join(name))
            .filter(|path| path.exists())
            .map(|path| 1 + count(&path))
            .sum::<usize>()
    };
    let mut left = all();
    assert_eq!(left, 2002);
    let mut lists = 0;
    while left > 0 {
        volume.tree.list(folder.number).unwrap();
        let now = all();
        assert!(now < left && left - now <= 1024, "{left} {now}");
        (left, lists) = (now, lists + 1);
    }
    assert!(lists > 1);
    volume.check_backing();
}

#[test]
fn a_file_without_a_name_can_be_used_until_it_is_forgotten() {
    let volume = Volume::new();
    for way in 0..3 {
        let file = volume.file(ROOT, "file", "content").unwrap();
        match way {
            0 => volume.tree.unlink(ROOT, b"file").unwrap(),
            1 => {
                volume.file(ROOT, "other", "other").unwrap();
                volume.tree.rename(ROOT, b"other", ROOT, b"file", RenameMode::Replace).unwrap();
                volume.tree.unlink(ROOT, b"file").unwrap();
            }
            _ => {
                let name = volume.tree.link(file.number, ROOT, b"more").unwrap();
                assert_eq!((name.number, name.links), (file.number, 2));
                volume.tree.unlink(ROOT, b"more").unwrap();
                volume.tree.unlink(ROOT, b"file").unwrap();
            }
        }
        assert_eq!(volume.tree.getattr(file.number).unwrap().links, 0);
        assert_eq!(read(volume.tree.open_file(file.number, true).unwrap()), b"content");
        let change = SetAttr { mode: Some(0o600), ..SetAttr::default() };
        assert_eq!(volume.tree.set_attr(file.number, &change).unwrap().mode, 0o600);
        // Its number is not reused while it is known.
        let others: Vec<_> = (0..20).map(|i| volume.file(ROOT, &format!("o{i}"), "").unwrap().number).collect();
        assert!(!others.contains(&file.number));
        (0..20).for_each(|i| volume.tree.unlink(ROOT, format!("o{i}").as_bytes()).unwrap());
        others.into_iter().for_each(|number| volume.tree.forget(number, 1));
        volume.tree.forget(file.number, if way == 2 { 2 } else { 1 });
        assert_eq!(errno(volume.tree.getattr(file.number)), Errno::STALE);
    }
}

#[test]
fn no_node_is_known_after_all_are_forgotten() {
    let volume = Volume::new();
    let outer = volume.mkdir(ROOT, "outer").unwrap().number;
    let inner = volume.mkdir(outer, "inner").unwrap().number;
    let file = volume.file(inner, "file", "x").unwrap().number;
    let link = volume.link(inner, "link", "x").unwrap().number;
    assert_eq!(volume.tree.count(), 5);
    volume.tree.rename(inner, b"link", ROOT, b"moved", RenameMode::Replace).unwrap();
    assert_eq!(volume.tree.getattr(link).unwrap().kind, Kind::Link);
    // Folders stay while something in them is known.
    volume.tree.forget(outer, 1);
    volume.tree.forget(inner, 1);
    assert_eq!(volume.tree.count(), 5);
    assert_eq!(read(volume.tree.open_file(file, false).unwrap()), b"x");
    volume.tree.forget(file, 1);
    assert_eq!(volume.tree.count(), 2);
    volume.tree.forget(link, 1);
    assert_eq!(volume.tree.count(), 1);
    assert_eq!(volume.snapshot().len(), 4);
}

#[test]
fn a_renamed_link_keeps_its_number() {
    let volume = Volume::new();
    let link = volume.link(ROOT, "a", "target").unwrap();
    for (old, new) in [("a", "b"), ("b", "c")] {
        volume.tree.rename(ROOT, old.as_bytes(), ROOT, new.as_bytes(), RenameMode::NoReplace).unwrap();
        assert_eq!(volume.lookup(ROOT, new).unwrap().number, link.number);
        assert_eq!(volume.tree.readlink(link.number).unwrap(), b"target");
        assert_eq!(volume.tree.getattr(link.number).unwrap().mtime, link.mtime);
        let list = volume.tree.list(ROOT).unwrap();
        assert_eq!(volume.tree.entry(&list, 0).unwrap().unwrap().number, link.number);
    }
    volume.tree.unlink(ROOT, b"c").unwrap();
    assert_eq!(volume.tree.readlink(link.number).unwrap(), b"target");
    volume.tree.forget(link.number, 3);
    assert_eq!(volume.tree.count(), 1);
}

#[test]
fn attributes_are_set_and_seen() {
    let volume = Volume::new();
    let folder = volume.mkdir(ROOT, "folder").unwrap();
    let file = volume.file(folder.number, "file", "12345").unwrap();
    assert_eq!((file.size, file.mode, file.links), (5, 0o644, 1));
    for (node, mode) in [(file, 0o4751), (folder, 0o1700)] {
        let times = SetAttr::times(Some((1, 2)), Some((1_000_000_000, 999_999_999)));
        let change = SetAttr { mode: Some(mode), times: Some(times), ..SetAttr::default() };
        let attr = volume.tree.set_attr(node.number, &change).unwrap();
        assert_eq!((attr.mode, attr.atime, attr.mtime), (mode, (1, 2), (1_000_000_000, 999_999_999)));
        assert_eq!(volume.tree.getattr(node.number).unwrap(), attr);
        let change = SetAttr { times: Some(SetAttr::times(None, Some((5, 6)))), ..SetAttr::default() };
        let attr = volume.tree.set_attr(node.number, &change).unwrap();
        assert_eq!((attr.atime, attr.mtime), ((1, 2), (5, 6)));
    }
    if is_root() {
        let change = SetAttr { uid: Some(1234), gid: Some(5678), ..SetAttr::default() };
        let attr = volume.tree.set_attr(file.number, &change).unwrap();
        assert_eq!((attr.uid, attr.gid, attr.mode), (1234, 5678, 0o751));
        let link = volume.link(folder.number, "link", "nowhere").unwrap();
        assert_eq!(volume.tree.set_attr(link.number, &change).unwrap().uid, 1234);
    }
    assert_eq!(volume.tree.statfs().unwrap().f_namemax, 255);
    volume.tree.sync_place(file.number).unwrap();
    volume.tree.sync_folder(folder.number).unwrap();
}

#[test]
fn new_entries_belong_to_their_maker_and_to_an_inherited_group() {
    if !is_root() {
        return;
    }
    let volume = Volume::new();
    let asks = phalanx_volume::tree::Owner { uid: 1000, gid: 1001 };
    let folder = volume.tree.mkdir(ROOT, b"folder", 0o2775, asks).unwrap();
    assert_eq!((folder.uid, folder.gid, folder.mode), (1000, 1001, 0o2775));
    let asks = phalanx_volume::tree::Owner { uid: 2000, gid: 2001 };
    let inner = volume.tree.mkdir(folder.number, b"inner", 0o700, asks).unwrap();
    assert_eq!((inner.uid, inner.gid, inner.mode), (2000, 1001, 0o2700));
    let write = |mut file: fs::File| {
        file.write_all(b"x").unwrap();
        Ok(())
    };
    let file = volume.tree.create(folder.number, b"file", 0o4755, asks, write).unwrap().0;
    assert_eq!((file.uid, file.gid, file.mode), (2000, 1001, 0o4755));
    let link = volume.tree.symlink(folder.number, b"link", b"target", asks).unwrap();
    assert_eq!((link.uid, link.gid), (2000, 1001));
    let fifo = volume.tree.mknod(folder.number, b"fifo", Kind::Fifo, 0o640, 0, asks).unwrap();
    assert_eq!((fifo.uid, fifo.gid, fifo.mode), (2000, 1001, 0o640));
}

#[test]
fn extended_attributes_are_those_of_users() {
    let volume = Volume::new();
    let folder = volume.mkdir(ROOT, "folder").unwrap().number;
    let file = volume.file(folder, "file", "").unwrap().number;
    let link = volume.link(folder, "link", "target").unwrap().number;
    let (tree, id) = (&volume.tree, || Ok([9; 16]));
    for node in [file, folder] {
        assert_eq!(errno(tree.get_xattr(node, b"user.a", id)), Errno::NODATA);
        assert_eq!(errno(tree.set_xattr(node, b"user.a", b"1", SetMode::Replace, id)), Errno::NODATA);
        tree.set_xattr(node, b"user.a", b"1", SetMode::Create, id).unwrap();
        assert_eq!(errno(tree.set_xattr(node, b"user.a", b"1", SetMode::Create, id)), Errno::EXIST);
        tree.set_xattr(node, b"user.a", &[7; 1000], SetMode::Replace, id).unwrap();
        tree.set_xattr(node, b"user.b", b"", SetMode::Any, id).unwrap();
        assert_eq!(tree.get_xattr(node, b"user.a", id).unwrap(), [7; 1000]);
        assert_eq!(tree.get_xattr(node, b"user.b", id).unwrap(), b"");
        let mut names = tree.list_xattrs(node, id).unwrap();
        names.sort();
        assert_eq!(names, [b"user.a", b"user.b"]);
        tree.remove_xattr(node, b"user.b", id).unwrap();
        assert_eq!(errno(tree.remove_xattr(node, b"user.b", id)), Errno::NODATA);
        assert_eq!(tree.list_xattrs(node, id).unwrap(), [b"user.a"]);
        for name in [&b"security.capability"[..], b"system.posix_acl_access"] {
            assert_eq!(errno(tree.get_xattr(node, name, id)), Errno::NODATA);
            assert_eq!(errno(tree.set_xattr(node, name, b"", SetMode::Any, id)), Errno::OPNOTSUPP);
        }
        assert_eq!(errno(tree.get_xattr(node, b"trusted.x", id)), Errno::OPNOTSUPP);
        assert_eq!(errno(tree.set_xattr(node, b"user.", b"", SetMode::Any, id)), Errno::INVAL);
        assert_eq!(errno(tree.set_xattr(node, b"user.x", &[0; 65530], SetMode::Any, id)), Errno::TOOBIG);
    }
    assert_eq!(errno(tree.set_xattr(link, b"user.a", b"1", SetMode::Any, id)), Errno::PERM);
    assert_eq!(errno(tree.get_xattr(link, b"user.a", id)), Errno::NODATA);
    assert!(tree.list_xattrs(link, id).unwrap().is_empty());
    // They move with their folder, and no other entry has them.
    tree.rename(ROOT, b"folder", ROOT, b"moved", RenameMode::Replace).unwrap();
    assert_eq!(tree.get_xattr(folder, b"user.a", id).unwrap(), [7; 1000]);
    assert!(volume.damage().is_empty());
    assert!(tree.list_xattrs(file, || Ok([8; 16])).unwrap().is_empty());
    assert_eq!(volume.damage().len(), 1);
}

#[test]
fn a_long_list_is_read_by_index() {
    let volume = Volume::new();
    for i in 0..2000 {
        volume.file(ROOT, &format!("file {i}"), "").unwrap();
    }
    let list = volume.tree.list(ROOT).unwrap();
    volume.tree.unlink(ROOT, b"file 7").unwrap();
    let mut names: Vec<_> =
        (0..list.len()).map(|index| volume.tree.entry(&list, index).unwrap().unwrap().name).collect();
    names.sort();
    names.dedup();
    assert_eq!(names.len(), 2000);
    let gone = (0..list.len()).filter(|index| volume.tree.lookup_entry(&list, *index).is_err()).count();
    assert_eq!(gone, 1);
    assert!(volume.tree.entry(&list, 2000).unwrap().is_none());
}

#[test]
fn more_folders_than_are_kept_open_can_be_used() {
    let volume = Volume::new();
    let mut numbers = vec![ROOT];
    for i in 0..700 {
        // A tree that is wide and deep.
        let parent = numbers[i * 2 / 3];
        numbers.push(volume.mkdir(parent, &format!("folder {i}")).unwrap().number);
    }
    for (i, number) in numbers.iter().enumerate().rev() {
        volume.file(*number, "file", &i.to_string()).unwrap();
    }
    let before = volume.snapshot();
    assert_eq!(before.len(), 1401);
    let volume = volume.again();
    assert_eq!(volume.snapshot(), before);
}

#[test]
fn nothing_is_written_to_a_tree_that_is_only_read() {
    let volume = Volume::new();
    let file = volume.file(ROOT, "file", "x").unwrap();
    let options = phalanx_volume::tree::TreeOptions {
        read_only: true,
        plain_len: Box::new(Some),
        on_damage: std::sync::Arc::new(|_| {}),
    };
    let tree = phalanx_volume::tree::Tree::open(super::open(volume.path()), &volume.config, options).unwrap();
    assert_eq!(tree.lookup(ROOT, b"file").unwrap().number, file.number);
    let create = tree.create(ROOT, b"new", 0o644, owner(), |mut file| {
        file.write_all(b"x").unwrap();
        Ok(())
    });
    assert_eq!(errno(create), Errno::ROFS);
    assert_eq!(errno(tree.unlink(ROOT, b"file")), Errno::ROFS);
    assert_eq!(errno(tree.rename(ROOT, b"file", ROOT, b"b", RenameMode::Replace)), Errno::ROFS);
    assert_eq!(errno(tree.open_file(file.number, true)), Errno::ROFS);
    assert_eq!(read(tree.open_file(file.number, false).unwrap()), b"x");
}

#[test]
fn lists_share_memory_and_all_together_have_a_limit() {
    let volume = Volume::new();
    for index in 0..2000 {
        // The longest names of stored entries.
        std::fs::write(volume.path().join(format!("{index:0>255}")), "").unwrap();
    }
    let change = || {
        volume.file(ROOT, "new", "").unwrap();
        volume.tree.unlink(ROOT, b"new").unwrap();
    };
    let list = volume.tree.list(ROOT).unwrap();
    assert!(std::sync::Arc::ptr_eq(&list, &volume.tree.list(ROOT).unwrap()));
    change();
    assert!(!std::sync::Arc::ptr_eq(&list, &volume.tree.list(ROOT).unwrap()));

    let mut lists = vec![list];
    let refused = loop {
        assert!(lists.len() < 600);
        change();
        match volume.tree.list(ROOT) {
            Ok(list) => lists.push(list),
            Err(error) => break error,
        }
    };
    assert_eq!((refused.errno(), lists.len() > 400), (Errno::NOMEM, true));
    // Other lists can still be used, and there is room again when one is dropped.
    assert_eq!(volume.tree.entry(&lists[0], 0).unwrap(), None);
    lists.pop();
    assert_eq!(volume.tree.list(ROOT).unwrap().len(), 2000);
}
