//! Renaming, compared with an ordinary file system.

use super::{Snapshot, Volume, errno, owner};
use phalanx_volume::folder::FOLDER;
use phalanx_volume::names::Names;
use phalanx_volume::tree::{Kind, ROOT, RenameMode, SetAttr};
use rustix::fs::{CWD, FileType, Mode, RenameFlags, mknodat, renameat_with};
use rustix::io::Errno;
use std::fs;
use std::os::unix::fs::{FileTypeExt, PermissionsExt, symlink};
use std::path::Path;

const KINDS: [&str; 8] = ["none", "file", "empty", "full", "link", "fifo", "long file", "long folder"];
const MODES: [RenameMode; 3] = [RenameMode::Replace, RenameMode::NoReplace, RenameMode::Exchange];

/// A volume and a plain folder that get the same operations.
struct Both {
    volume: Volume,
    plain: tempfile::TempDir,
}

impl Both {
    fn new() -> Self {
        let both = Self { volume: Volume::new(), plain: tempfile::tempdir().unwrap() };
        for folder in ["here", "there"] {
            both.make("", "empty", folder);
        }
        both
    }

    /// Makes an entry of a kind in both.
    fn make(&self, parent: &str, kind: &str, name: &str) {
        let path = self.plain.path().join(parent).join(name);
        let number = self.volume.find(parent).unwrap().number;
        match kind {
            "none" => {}
            "file" | "long file" => {
                fs::write(&path, kind).unwrap();
                self.volume.file(number, name, kind).unwrap();
            }
            "empty" | "full" | "long folder" => {
                fs::create_dir(&path).unwrap();
                self.volume.mkdir(number, name).unwrap();
                if kind != "empty" {
                    let inner = format!("{parent}/{name}").trim_start_matches('/').to_owned();
                    self.make(&inner, "file", "inner");
                    self.make(&inner, "link", "inner link");
                    self.make(&inner, "empty", "inner folder");
                }
            }
            "link" => {
                symlink(format!("to {name}"), &path).unwrap();
                self.volume.link(number, name, &format!("to {name}")).unwrap();
            }
            "fifo" => {
                mknodat(CWD, &path, FileType::Fifo, Mode::RUSR, 0).unwrap();
                self.volume.tree.mknod(number, name.as_bytes(), Kind::Fifo, 0o400, 0, owner()).unwrap();
            }
            _ => panic!("{kind}"),
        }
    }

    fn rename(
        &self,
        (parent, name): (&str, &str),
        (to, new): (&str, &str),
        mode: RenameMode,
    ) -> [Result<(), Errno>; 2] {
        let flags = match mode {
            RenameMode::Replace => RenameFlags::empty(),
            RenameMode::NoReplace => RenameFlags::NOREPLACE,
            RenameMode::Exchange => RenameFlags::EXCHANGE,
        };
        let path = |parent, name| self.plain.path().join(parent).join(name);
        let plain = renameat_with(CWD, path(parent, name), CWD, path(to, new), flags);
        let (parent, to) = (self.volume.find(parent).unwrap().number, self.volume.find(to).unwrap().number);
        let done = self.volume.tree.rename(parent, name.as_bytes(), to, new.as_bytes(), mode);
        [done.map_err(|error| error.errno()), plain]
    }

    /// Checks that both are the same, also after a remount.
    fn check(self, what: &str) -> Self {
        let plain = plain(self.plain.path());
        assert_eq!(self.volume.snapshot(), plain, "{what}");
        self.volume.check_backing();
        let both = Self { volume: self.volume.again(), plain: self.plain };
        assert_eq!(both.volume.snapshot(), plain, "{what}, mounted again");
        assert_eq!(both.volume.damage(), [""; 0], "{what}");
        both
    }
}

fn plain(root: &Path) -> Snapshot {
    let mut snapshot = Snapshot::new();
    let mut folders = vec![root.to_path_buf()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap().map(Result::unwrap) {
            let path = entry.path();
            let name = format!("/{}", path.strip_prefix(root).unwrap().to_str().unwrap());
            let file_type = entry.file_type().unwrap();
            let found = if file_type.is_dir() {
                folders.push(path);
                (Kind::Folder, Vec::new())
            } else if file_type.is_symlink() {
                (Kind::Link, fs::read_link(path).unwrap().into_os_string().into_encoded_bytes())
            } else if file_type.is_fifo() {
                (Kind::Fifo, Vec::new())
            } else {
                (Kind::File, fs::read(path).unwrap())
            };
            snapshot.insert(name, found);
        }
    }
    snapshot
}

#[test]
fn every_kind_is_renamed_over_every_kind_as_in_the_file_system() {
    for (case, old) in KINDS.iter().enumerate() {
        for new in KINDS {
            for mode in MODES {
                let to = ["here", "there"][case % 2];
                let name =
                    |kind: &str, name: &str| if kind.starts_with("long") { name.repeat(80) } else { name.into() };
                let (old_name, new_name) = (name(old, "old"), name(new, "new"));
                let what = format!("{old} over {new} in {to}, {mode:?}");
                let both = Both::new();
                both.make("here", old, &old_name);
                both.make(to, new, &new_name);
                let [done, plain] = both.rename(("here", &old_name), (to, &new_name), mode);
                if mode == RenameMode::Exchange && plain.is_ok() && [*old, new].contains(&"link") {
                    // The only operation that a volume cannot do.
                    assert_eq!(done, Err(Errno::INVAL), "{what}");
                    let back = both.rename(("here", &old_name), (to, &new_name), mode);
                    assert_eq!(back, [Err(Errno::INVAL), Ok(())], "{what}");
                } else {
                    assert_eq!(done, plain, "{what}");
                }
                both.check(&what);
            }
        }
    }
}

#[test]
fn names_become_long_and_short_again() {
    let both = Both::new();
    let long = "n".repeat(255);
    for kind in ["file", "full", "link", "fifo"] {
        both.make("here", kind, kind);
        for (from, to) in [(("here", kind), ("here", &*long)), (("here", &*long), ("there", &*long))] {
            assert_eq!(both.rename(from, to, RenameMode::NoReplace), [Ok(()); 2]);
            both.volume.check_backing();
        }
        assert_eq!(both.rename(("there", &long), ("here", kind), RenameMode::Replace), [Ok(()); 2]);
    }
    both.check("long names");
}

#[test]
fn a_folder_is_not_moved_into_itself() {
    for mode in MODES {
        let both = Both::new();
        both.make("here", "full", "outer");
        both.make("here/outer", "full", "middle");
        both.make("here/outer/middle", "empty", "deep");
        for (from, to) in [
            (("here", "outer"), ("here/outer", "middle")),
            (("here", "outer"), ("here/outer/middle", "deep")),
            (("here", "outer"), ("here/outer/middle", "new")),
            (("here/outer", "middle"), ("here", "outer")),
            (("here/outer/middle", "deep"), ("here", "outer")),
            (("here", "outer"), ("here", "outer")),
            (("here", "none"), ("here", "none")),
        ] {
            let [done, plain] = both.rename(from, to, mode);
            assert_eq!(done, plain, "{from:?} {to:?} {mode:?}");
        }
        both.check("into itself");
    }
}

#[test]
fn two_names_of_one_file_stay() {
    for mode in MODES {
        for name in ["b".to_owned(), "b".repeat(200)] {
            let both = Both::new();
            both.make("here", "file", "a");
            fs::hard_link(both.plain.path().join("here/a"), both.plain.path().join("there").join(&name)).unwrap();
            let (file, there) = (both.volume.find("here/a").unwrap(), both.volume.find("there").unwrap());
            let link = both.volume.tree.link(file.number, there.number, name.as_bytes()).unwrap();
            assert_eq!((link.number, link.links), (file.number, 2));
            let [done, plain] = both.rename(("here", "a"), ("there", &name), mode);
            assert_eq!(done, plain, "{mode:?}");
            both.check("two names");
        }
    }
}

#[test]
fn folders_without_permissions_can_be_renamed_and_removed_by_their_owner() {
    if rustix::process::geteuid().is_root() {
        // Only this thread becomes an ordinary user.
        let (user, group) = (rustix::fs::Uid::from_raw(1000), rustix::fs::Gid::from_raw(1000));
        rustix::thread::set_thread_res_gid(group, group, group).unwrap();
        rustix::thread::set_thread_res_uid(user, user, user).unwrap();
    }
    for mode in [0, 0o111, 0o444, 0o555, 0o700] {
        let both = Both::new();
        let set_mode = |path: &str, mode| {
            let number = both.volume.find(path).unwrap().number;
            let change = SetAttr { mode: Some(mode), ..SetAttr::default() };
            assert_eq!(both.volume.tree.set_attr(number, &change).unwrap().mode, mode);
            fs::set_permissions(both.plain.path().join(path), fs::Permissions::from_mode(mode)).unwrap();
        };
        both.make("here", "full", "full");
        both.make("here", "empty", "empty");
        both.make("here", "empty", "replaced");
        let folders = ["full", "empty", "replaced"];
        for folder in folders {
            set_mode(&format!("here/{folder}"), mode);
        }
        // Mounts again, so that the folders have not been used yet.
        let both = Both { volume: both.volume.again(), ..both };
        for (from, to) in [("here/full", "here/f"), ("here/f", "there/f"), ("here/empty", "here/replaced")] {
            let (from, to) = (from.split_once('/').unwrap(), to.split_once('/').unwrap());
            let [done, plain] = both.rename(from, to, RenameMode::Replace);
            assert_eq!(done, plain, "{from:?} {to:?} {mode:o}");
        }
        // If replacing a folder fails, it stays and can be used as before.
        both.make("there", "empty", "target");
        let target = both.volume.find("there/target").unwrap().number;
        let from = if mode == 0o700 { ("there", "f") } else { ("here", "f") };
        let [done, plain] = both.rename(from, ("there", "target"), RenameMode::Replace);
        assert_eq!((done, done.is_ok()), (plain, mode == 0o700));
        assert_eq!(both.volume.file(target, "new", "new").is_ok(), mode != 0o700);
        if mode == 0o700 {
            both.rename(("there", "target"), from, RenameMode::Replace)[0].unwrap();
        } else {
            fs::write(both.plain.path().join("there/target/new"), "new").unwrap();
        }
        let here = both.volume.find("here").unwrap().number;
        both.volume.tree.rmdir(here, b"replaced").unwrap();
        fs::remove_dir(both.plain.path().join("here/replaced")).unwrap();
        let place = if mode == 0o700 { "there/f" } else { "here/f" };
        let folder = both.volume.find(place).unwrap();
        assert_eq!(folder.mode, mode);
        // A folder that may only be searched can be searched, but not listed.
        assert_eq!(both.volume.find(&format!("{place}/inner")).is_ok(), mode & 0o100 != 0);
        assert_eq!(both.volume.tree.list(folder.number).is_ok(), mode & 0o500 == 0o500);
        let set_mode = |mode| {
            let change = SetAttr { mode: Some(mode), ..SetAttr::default() };
            both.volume.tree.set_attr(folder.number, &change).unwrap();
            fs::set_permissions(both.plain.path().join(place), fs::Permissions::from_mode(mode)).unwrap();
        };
        set_mode(0o700);
        both.check("without permissions");
    }
}

#[test]
fn nodes_follow_what_is_renamed() {
    let both = Both::new();
    for kind in ["file", "full", "link", "fifo"] {
        both.make("here", kind, kind);
        let node = both.volume.find(&format!("here/{kind}")).unwrap();
        let [done, _] = both.rename(("here", kind), ("there", kind), RenameMode::Replace);
        done.unwrap();
        let now = both.volume.tree.getattr(node.number).unwrap();
        assert_eq!((now.number, now.kind, now.size), (node.number, node.kind, node.size));
        assert_eq!(both.volume.find(&format!("there/{kind}")).unwrap().number, node.number);
    }
    // What lies in a folder is found through the folder's old number.
    let folder = both.volume.find("there/full").unwrap();
    assert_eq!(both.volume.lookup(folder.number, "inner link").unwrap().kind, Kind::Link);
    // Exchanged nodes too.
    both.make("there", "file", "other");
    let other = both.volume.find("there/other").unwrap();
    both.rename(("there", "full"), ("there", "other"), RenameMode::Exchange)[0].unwrap();
    assert_eq!(both.volume.find("there/full").unwrap().number, other.number);
    assert_eq!(both.volume.tree.getattr(folder.number).unwrap().kind, Kind::Folder);
    both.check("nodes");
}

/// The records of a folder in these places, as a writer makes them.
fn records(volume: &Volume, places: &[(&str, &str)], id: &[u8; 16]) -> Vec<u8> {
    let names = Names::new(volume.config.keys());
    let record = |(parent, name): &(&str, &str)| {
        let parent = id_of(volume, parent);
        let stored = names.seal(&parent, name.as_bytes()).unwrap().entry;
        names.seal_folder(&parent, &stored, id)
    };
    places.iter().flat_map(record).collect()
}

/// The id of a folder, from its record.
fn id_of(volume: &Volume, path: &str) -> [u8; 16] {
    let names = Names::new(volume.config.keys());
    let (mut id, mut stored, mut folder) = ([0; 16], Vec::new(), volume.path().to_path_buf());
    let mut inner = path.split('/').filter(|name| !name.is_empty());
    loop {
        let record = fs::read(folder.join(FOLDER)).unwrap();
        id = names.open_folder(&id, &stored, &record[..32]).unwrap();
        let Some(name) = inner.next() else { return id };
        stored = names.seal(&id, name.as_bytes()).unwrap().entry.into();
        folder.push(std::str::from_utf8(&stored).unwrap());
    }
}

#[test]
fn a_folder_is_readable_wherever_its_rename_was_killed() {
    // Killed before the first step, after each, and in the middle of replacing `phalanx.folder`.
    for (is_moved, places) in [(false, 1), (false, 2), (true, 2), (true, 1)] {
        for is_temporary_left in [false, true] {
            let both = Both::new();
            both.make("here", "full", "old");
            let (old, new) = (("here", "old"), ("there", "new"));
            let folder = both.volume.stored(&both.volume.find("here/old").unwrap());
            let id = id_of(&both.volume, "here/old");
            let records = match (places, is_moved) {
                (2, _) => records(&both.volume, &[old, new], &id),
                (_, false) => records(&both.volume, &[old], &id),
                (_, true) => records(&both.volume, &[new], &id),
            };
            fs::write(folder.join(FOLDER), records).unwrap();
            if is_temporary_left {
                fs::write(folder.join("phalanx.new.0123"), "torn").unwrap();
            }
            let mut path = "here/old";
            if is_moved {
                let there = both.volume.find("there").unwrap();
                let stored = Names::new(both.volume.config.keys()).seal(&id_of(&both.volume, "there"), b"new").unwrap();
                let target = both.volume.stored(&there).join(std::str::from_utf8(&stored.entry).unwrap());
                fs::rename(&folder, target).unwrap();
                fs::rename(both.plain.path().join("here/old"), both.plain.path().join("there/new")).unwrap();
                path = "there/new";
            }
            let both = Both { volume: both.volume.again(), ..both };
            // The first use repairs it, with the record of its present place.
            assert_eq!(both.volume.find(&format!("{path}/inner")).unwrap().kind, Kind::File);
            assert_eq!(id_of(&both.volume, path), id);
            both.volume.snapshot();
            let both = both.check("killed");
            let (from, to) = path.split_once('/').map(|from| (from, ("here", "again"))).unwrap();
            assert_eq!(both.rename(from, to, RenameMode::Replace), [Ok(()); 2]);
            both.check("and renamed");
        }
    }
}

#[test]
fn a_link_whose_rename_was_killed_has_both_names() {
    let both = Both::new();
    both.make("here", "link", "old");
    let names = Names::new(both.volume.config.keys());
    let id = id_of(&both.volume, "there");
    let stored = names.seal(&id, b"new").unwrap().entry;
    let target = names.seal_link(&id, &stored, b"to old").unwrap();
    let there = both.volume.stored(&both.volume.find("there").unwrap());
    symlink(target, there.join(std::str::from_utf8(&stored).unwrap())).unwrap();
    symlink("to old", both.plain.path().join("there/new")).unwrap();
    let both = both.check("killed");
    both.volume.tree.unlink(both.volume.find("here").unwrap().number, b"old").unwrap();
    assert_eq!(errno(both.volume.find("here/old")), Errno::NOENT);
    assert_eq!(both.volume.tree.getattr(ROOT).unwrap().kind, Kind::Folder);
}
