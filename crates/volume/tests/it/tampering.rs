//! A volume whose folder an attacker alters. Each change is found, or is one of those that `docs/volumes.md` lists.

mod flips;
mod states;

use crate::mounted::{AtHand, Mounted, Unsynced, mount, walk};
use crate::vectors::model::Want;
use phalanx_core::{ChunkSize, Recipient, SecretKey, Suite};
use phalanx_vectors::hex;
use phalanx_volume::tree::{Attr, Owner, ROOT, SetMode};
use phalanx_volume::{Backing, Disk};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

const CHUNK: usize = 4096;
/// A chunk as it is stored.
const RECORD: usize = CHUNK + 48;
const HEADER: usize = 4096;

/// The changes that are not found, in the words of `docs/volumes.md`.
const NOT_FOUND: [&str; 8] = [
    "Old states.",
    "Exchanged files.",
    "Folders put back.",
    "Names that are gone",
    "Lengths that are only listed.",
    "Files deleted from outside",
    "A journal that was removed",
    "Modes, owners, times, the kind of an entry and the numbers of devices",
];

/// The content of a volume, by path.
type Seen = BTreeMap<String, Want>;

/// A small volume with every kind of entry.
struct Lab {
    dir: tempfile::TempDir,
}

impl Lab {
    fn new() -> Self {
        let lab = Self { dir: tempfile::tempdir().unwrap() };
        let recipient = Recipient::key(&key());
        phalanx_volume::create(lab.path(), Suite::default(), ChunkSize::new(CHUNK as u64).unwrap(), &[recipient])
            .unwrap();
        let mounted = lab.mount();
        let tree = &mounted.tree;
        let one = make(&mounted, ROOT, b"one", &[(0, painted(1, 100))]);
        make(&mounted, ROOT, b"three", &[(0, painted(2, 2 * CHUNK + 100))]);
        make(&mounted, ROOT, b"sparse", &[(0, painted(3, CHUNK)), (3 * CHUNK as u64, painted(4, 10))]);
        make(&mounted, ROOT, &[b'n'; 200], &[(0, painted(5, CHUNK + 1))]);
        let folder = tree.mkdir(ROOT, b"folder", 0o755, owner()).unwrap();
        make(&mounted, folder.number, b"inner", &[(0, painted(6, 7))]);
        make(&mounted, folder.number, b"one", &[(0, painted(7, 70))]);
        tree.mkdir(ROOT, b"other", 0o755, owner()).unwrap();
        tree.symlink(ROOT, b"link", b"one", owner()).unwrap();
        tree.symlink(folder.number, b"link", b"../one", owner()).unwrap();
        let id = one.1.id();
        tree.set_xattr(one.0.number, b"user.a", b"value", SetMode::Any, || Ok(id)).unwrap();
        tree.set_xattr(folder.number, b"user.b", b"another", SetMode::Any, || Ok([0; 16])).unwrap();
        drop(one);
        mounted.store.close().unwrap();
        drop(mounted);
        lab
    }

    fn path(&self) -> &Path {
        self.dir.path()
    }

    fn mount(&self) -> Mounted {
        self.mount_on(Arc::new(Unsynced))
    }

    fn mount_on(&self, disk: Arc<dyn Disk>) -> Mounted {
        mount(self.path(), at_hand(), false, disk).unwrap()
    }

    /// Mounts, and returns the content and the reports.
    fn look(&self) -> (Seen, Vec<String>) {
        let mounted = self.mount();
        let seen = walk(&mounted.tree, &mounted.store);
        let told = mounted.told.lock().unwrap().clone();
        (seen, told)
    }

    /// Where the entry with these names is stored.
    fn stored(&self, names: &[&[u8]]) -> PathBuf {
        let mounted = self.mount();
        let number = names.iter().fold(ROOT, |parent, name| mounted.tree.lookup(parent, name).unwrap().number);
        let mut folders = vec![self.path().to_path_buf()];
        while let Some(folder) = folders.pop() {
            for entry in fs::read_dir(folder).unwrap() {
                let path = entry.unwrap().path();
                let metadata = path.symlink_metadata().unwrap();
                if metadata.ino() == number {
                    return path;
                }
                folders.extend(metadata.is_dir().then_some(path));
            }
        }
        panic!("not stored");
    }
}

fn key() -> SecretKey {
    SecretKey::from_slice(&[7; 32]).unwrap()
}

fn at_hand() -> AtHand {
    AtHand { key: Some(key()), password: None }
}

fn owner() -> Owner {
    Owner { uid: rustix::process::geteuid().as_raw(), gid: rustix::process::getegid().as_raw() }
}

/// Bytes that are never zero.
fn painted(from: usize, len: usize) -> Vec<u8> {
    (from..from + len).map(|i| (i % 250 + 1) as u8).collect()
}

fn make(mounted: &Mounted, parent: u64, name: &[u8], parts: &[(u64, Vec<u8>)]) -> (Attr, Arc<Backing>) {
    let create = |file| mounted.store.create(file);
    let (attr, backing) = mounted.tree.create(parent, name, 0o644, owner(), create).unwrap();
    for (offset, bytes) in parts {
        backing.write_at(*offset, bytes).unwrap();
    }
    backing.commit(&backing.witness()).unwrap();
    (attr, backing)
}

/// The path of an entry, as [`Seen`] has it.
fn path(names: &[&[u8]]) -> String {
    names.iter().map(|name| hex(name)).collect::<Vec<_>>().join("/")
}

/// Checks that nothing new appears, and returns the paths where something is missing.
fn lost(before: &Seen, after: &Seen) -> BTreeSet<String> {
    for path in after.keys() {
        assert!(before.contains_key(path), "{path} has come");
    }
    let xattrs = |path: &str, old: &BTreeMap<String, Option<Vec<u8>>>, new: &BTreeMap<String, Option<Vec<u8>>>| {
        for (name, value) in new {
            assert!(value.is_none() || old.get(name) == Some(value), "{path}: attribute {name}");
        }
    };
    let mut lost = BTreeSet::new();
    for (path, old) in before {
        let Some(new) = after.get(path) else {
            lost.insert(path.clone());
            continue;
        };
        if new == old {
            continue;
        }
        lost.insert(path.clone());
        match (old, new) {
            (Want::Folder { xattrs: old, .. }, Want::Folder { xattrs: new, .. }) => xattrs(path, old, new),
            (Want::File { content: old, xattrs: a }, Want::File { content: new, xattrs: b }) => {
                xattrs(path, a, b);
                let (Some(old), Some(new)) = (old, new) else { continue };
                assert_eq!(old.len(), new.len(), "{path} has another length");
                assert!(old.iter().zip(new).all(|(old, new)| new.is_none() || new == old), "{path}: another content");
            }
            (Want::Link(_), Want::Link(None)) => {}
            // A damaged entry that has another kind.
            (_, new) => assert!(new.is_damaged(), "{path} is {new:?}"),
        }
    }
    lost
}

/// Whether a path is one of these, or lies in one.
fn is_in(path: &str, places: &[&str]) -> bool {
    places.iter().any(|place| path == *place || path.starts_with(&format!("{place}/")))
}

/// Checks that a change was found: it was reported, and only these places are affected.
fn check_found(lab: &Lab, before: &Seen, places: &[&str], what: &str) {
    let (after, told) = lab.look();
    let lost = lost(before, &after);
    assert!(!lost.is_empty(), "{what}: nothing has happened");
    assert!(!told.is_empty(), "{what}: nothing was told");
    for path in &lost {
        assert!(is_in(path, places), "{what}: {path} is touched too");
    }
}

#[test]
fn the_document_lists_what_is_not_found() {
    let document = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/volumes.md");
    let document = fs::read_to_string(document).unwrap();
    let list = document.split("**What is not found:**").nth(1).unwrap().split("**What shows**").next().unwrap();
    let items: Vec<_> = list.split("\n- **").skip(1).map(|item| item.split("**").next().unwrap()).collect();
    assert_eq!(items, NOT_FOUND);
}
