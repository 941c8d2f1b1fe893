//! Opening a volume as `phalanx mount` does, and listing what is in it.

use crate::vectors::model::Want;
use phalanx_core::{KdfLimit, KeyId, KeySource, Opener, Password, SecretKey};
use phalanx_vectors::hex;
use phalanx_volume::tree::{Kind, ROOT, Tree, TreeOptions};
use phalanx_volume::{Disk, Store, StoreOptions, Volume, VolumeError};
use rustix::io::Errno;
use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// The keys and passwords that a test has to open a volume.
pub struct AtHand {
    pub key: Option<SecretKey>,
    pub password: Option<Vec<u8>>,
}

impl KeySource for AtHand {
    fn key(&self, id: &KeyId) -> phalanx_core::Result<Option<SecretKey>> {
        Ok(self.key.clone().filter(|key| key.id() == *id))
    }

    fn password(&self) -> phalanx_core::Result<Option<Password>> {
        Ok(self.password.clone().map(Password::new))
    }
}

/// A disk that syncs nothing and reserves no space, for tests of the content.
pub struct Unsynced;

impl Disk for Unsynced {
    fn extend(&self, _: &File, _: u64, _: u64) -> io::Result<()> {
        Err(Errno::OPNOTSUPP.into())
    }
    fn sync_data(&self, _: &File) -> io::Result<()> {
        Ok(())
    }
    fn sync_all(&self, _: &File) -> io::Result<()> {
        Ok(())
    }
}

/// A volume that was opened as `phalanx mount` does.
pub struct Mounted {
    pub store: Arc<Store>,
    pub tree: Tree,
    pub told: Arc<Mutex<Vec<String>>>,
    _volume: Volume,
}

/// The step at which a volume was refused.
#[derive(Debug)]
pub enum Refused {
    Volume(VolumeError),
    Store(VolumeError),
    Tree(VolumeError),
}

pub fn mount(folder: &Path, at_hand: AtHand, read_only: bool, disk: Arc<dyn Disk>) -> Result<Mounted, Refused> {
    let volume =
        Volume::open(folder, &Opener::new(at_hand, KdfLimit::default()), read_only).map_err(Refused::Volume)?;
    let told: Arc<Mutex<Vec<String>>> = Arc::default();
    let log = {
        let told = told.clone();
        move |line: &str| told.lock().unwrap().push(line.into())
    };
    let hour = Duration::from_secs(3600);
    let options = StoreOptions {
        read_only,
        commit_after: hour,
        trim_after: hour,
        on_damage: Box::new(log.clone()),
        disk,
        ..StoreOptions::default()
    };
    let store = Store::open(&volume.root, volume.config.clone(), options).map_err(Refused::Store)?;
    let plain_len = {
        let store = store.clone();
        move |len| store.plain_len(len)
    };
    let options = TreeOptions { read_only, plain_len: Box::new(plain_len), on_damage: Arc::new(log) };
    let tree = Tree::open(volume.root.try_clone().unwrap(), &volume.config, options).map_err(Refused::Tree)?;
    tree.stop_with(store.broken());
    if store.has_versions() {
        tree.tell_removals(store.clone());
    }
    Ok(Mounted { store, tree, told, _volume: volume })
}

/// Everything in a volume, by path, with names in hexadecimal. The content of a file is a list of its chunks.
pub fn walk(tree: &Tree, store: &Store) -> BTreeMap<String, Want> {
    let mut found = BTreeMap::new();
    walk_folder(tree, store, ROOT, String::new(), &mut found);
    found
}

fn walk_folder(tree: &Tree, store: &Store, number: u64, path: String, found: &mut BTreeMap<String, Want>) {
    let listing = damaged(tree.list(number));
    let xattrs = if listing.is_some() { xattrs(tree, number, [0; 16]) } else { BTreeMap::new() };
    found.insert(path.clone(), Want::Folder { is_damaged: listing.is_none(), xattrs });
    let Some(listing) = listing else { return };
    for index in 0..listing.len() {
        let Some(entry) = tree.entry(&listing, index).unwrap() else { continue };
        let attr = tree.lookup_entry(&listing, index).unwrap();
        assert_eq!(tree.lookup(number, &entry.name).unwrap(), attr);
        let path = if path.is_empty() { hex(&entry.name) } else { format!("{path}/{}", hex(&entry.name)) };
        match attr.kind {
            Kind::Folder => walk_folder(tree, store, attr.number, path, found),
            Kind::File => drop(found.insert(path, file(tree, store, attr.number))),
            Kind::Link => {
                let target = damaged(tree.readlink(attr.number));
                drop(found.insert(path, Want::Link(target)));
            }
            Kind::Fifo => drop(found.insert(path, Want::Fifo)),
            other => panic!("{path}: {other:?}"),
        }
        tree.forget(attr.number, 2);
    }
}

fn file(tree: &Tree, store: &Store, number: u64) -> Want {
    let stored = tree.open_file(number, false).unwrap();
    let Some(backing) = damaged(store.open_file(stored)) else {
        return Want::File { content: None, xattrs: BTreeMap::new() };
    };
    let chunk = store.chunk_len() as u64;
    let chunks = backing.len().div_ceil(chunk).max(1);
    let content = (0..chunks).map(|index| damaged(backing.read_at(index * chunk, chunk as usize)));
    Want::File { content: Some(content.collect()), xattrs: xattrs(tree, number, backing.id()) }
}

fn xattrs(tree: &Tree, number: u64, file: [u8; 16]) -> BTreeMap<String, Option<Vec<u8>>> {
    let names = tree.list_xattrs(number, || Ok(file)).unwrap();
    let value = |name: &Vec<u8>| (hex(name), damaged(tree.get_xattr(number, name, || Ok(file))));
    names.iter().map(value).collect()
}

/// `None` for what was altered from outside.
fn damaged<T>(result: Result<T, VolumeError>) -> Option<T> {
    match result {
        Ok(value) => Some(value),
        Err(error) => {
            assert!(matches!(error, VolumeError::Damaged(_)), "{error:?}");
            assert_eq!(error.errno(), Errno::IO);
            None
        }
    }
}
