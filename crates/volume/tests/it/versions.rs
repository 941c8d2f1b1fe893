//! Volumes that find older states of their files.

mod accept;
mod attacks;
mod daily;

use crate::mounted::{AtHand, Mounted, Refused, Unsynced, mount};
use phalanx_core::volume::Features;
use phalanx_core::{ChunkSize, Recipient, SecretKey, Suite};
use phalanx_volume::tree::{Owner, ROOT, Tree};
use phalanx_volume::{Backing, Store, VolumeError};
use rustix::io::Errno;
use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

const CHUNK: usize = 4096;
/// A chunk as it is stored.
const RECORD: usize = CHUNK + 48;
const HEADER: usize = 4096;
const TABLE: &str = "phalanx.versions";
const JOURNAL: &str = "phalanx.journal";

/// A volume with protection against rollback.
struct Lab {
    dir: tempfile::TempDir,
}

/// The files of a volume as they are stored, by path.
type Copy = BTreeMap<PathBuf, Vec<u8>>;

impl Lab {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let features = Features { rollback_protection: true };
        let size = ChunkSize::new(CHUNK as u64).unwrap();
        phalanx_volume::create_with(dir.path(), Suite::default(), size, features, &[Recipient::key(&key())]).unwrap();
        Self { dir }
    }

    fn path(&self) -> &Path {
        self.dir.path()
    }

    fn mount(&self) -> Mounted {
        self.try_mount(false).unwrap()
    }

    fn try_mount(&self, read_only: bool) -> Result<Mounted, Refused> {
        mount(self.path(), AtHand { key: Some(key()), password: None }, read_only, Arc::new(Unsynced))
    }

    /// Makes or overwrites a file as a whole, in a mount of its own.
    fn put(&self, name: &str, content: &[u8]) {
        let mounted = self.mount();
        put(&mounted, name, content);
        mounted.store.close().unwrap();
    }

    /// What a file contains; `None` if it is refused.
    fn get(&self, name: &str) -> Option<Vec<u8>> {
        let mounted = self.mount();
        get(&mounted, name)
    }

    /// Where a file is stored.
    fn stored(&self, name: &str) -> PathBuf {
        let inode = self.mount().tree.lookup(ROOT, name.as_bytes()).unwrap().number;
        let mut entries = fs::read_dir(self.path()).unwrap().map(|entry| entry.unwrap().path());
        entries.find(|path| path.symlink_metadata().unwrap().ino() == inode).unwrap()
    }

    /// All files of the root folder.
    fn copy(&self) -> Copy {
        let paths = fs::read_dir(self.path()).unwrap().map(|entry| entry.unwrap().path());
        paths.filter(|path| path.is_file()).map(|path| (path.clone(), fs::read(path).unwrap())).collect()
    }

    /// Puts files back as they were.
    fn put_back(&self, copy: &Copy, which: impl Fn(&Path) -> bool) {
        for (path, bytes) in copy.iter().filter(|(path, _)| which(path)) {
            fs::write(path, bytes).unwrap();
        }
    }
}

fn key() -> SecretKey {
    SecretKey::from_slice(&[7; 32]).unwrap()
}

fn owner() -> Owner {
    Owner { uid: rustix::process::geteuid().as_raw(), gid: rustix::process::getegid().as_raw() }
}

fn create(mounted: &Mounted, name: &str) -> Arc<Backing> {
    let make = |file| mounted.store.create(file);
    mounted.tree.create(ROOT, name.as_bytes(), 0o644, owner(), make).unwrap().1
}

fn open(mounted: &Mounted, name: &str) -> Result<Arc<Backing>, VolumeError> {
    open_in(&mounted.tree, &mounted.store, name)
}

fn open_in(tree: &Tree, store: &Store, name: &str) -> Result<Arc<Backing>, VolumeError> {
    let number = tree.lookup(ROOT, name.as_bytes())?.number;
    if let Some(backing) = store.get(number) {
        return Ok(backing);
    }
    store.open_file(tree.open_file(number, true)?)
}

/// Makes or overwrites a file as a whole.
fn put(mounted: &Mounted, name: &str, content: &[u8]) {
    let backing = match open(mounted, name) {
        Ok(backing) => backing,
        Err(VolumeError::Refused(Errno::NOENT)) => create(mounted, name),
        Err(e) => panic!("{e}"),
    };
    backing.set_len(0).unwrap();
    backing.write_at(0, content).unwrap();
    backing.commit(&backing.witness()).unwrap();
}

/// What a file contains; `None` if it is refused, or a part of it is.
fn get(mounted: &Mounted, name: &str) -> Option<Vec<u8>> {
    let read = open(mounted, name).and_then(|backing| backing.read_at(0, usize::MAX));
    match read {
        Ok(bytes) => Some(bytes),
        Err(VolumeError::Damaged(_)) => {
            assert!(!mounted.told.lock().unwrap().is_empty(), "nothing was told");
            None
        }
        Err(e) => panic!("{e}"),
    }
}

/// Bytes that differ from version to version and from chunk to chunk.
fn painted(version: u8, len: usize) -> Vec<u8> {
    (0..len).map(|i| (i / CHUNK) as u8 ^ version.wrapping_mul(37)).collect()
}
