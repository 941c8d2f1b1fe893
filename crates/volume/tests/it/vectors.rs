//! The volumes of `vectors/volume`, which another implementation wrote: each is laid into a real folder, opened as a mount
//! opens it, and compared with what the vectors say.

mod model;

use model::{Model, Want, hex, pieces};
use phalanx_core::{Error, KdfLimit, KeyId, KeySource, Opener, Password, SecretKey};
use phalanx_kernels::keccak::sha3_256;
use phalanx_volume::tree::{Kind, ROOT, Tree, TreeOptions};
use phalanx_volume::verify::{Findings, verify};
use phalanx_volume::{Disk, JOURNAL, Store, StoreOptions, Volume, VolumeError};
use rustix::io::Errno;
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// Fewer files mean that something was lost.
const SCENARIOS: usize = 175;

/// What a test has at hand to open a volume with.
struct AtHand {
    key: Option<SecretKey>,
    password: Option<Vec<u8>>,
}

impl KeySource for AtHand {
    fn key(&self, id: &KeyId) -> phalanx_core::Result<Option<SecretKey>> {
        Ok(self.key.clone().filter(|key| key.id() == *id))
    }

    fn password(&self) -> phalanx_core::Result<Option<Password>> {
        Ok(self.password.clone().map(Password::new))
    }
}

/// Nothing is synced, and no space is reserved: this test looks at content.
struct Unsynced;

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

/// A volume that is open as `phalanx mount` has it.
struct Mounted {
    store: Arc<Store>,
    tree: Tree,
    told: Arc<Mutex<Vec<String>>>,
    _volume: Volume,
}

/// Where a volume was refused.
#[derive(Debug)]
enum Refused {
    Volume(VolumeError),
    Store(VolumeError),
    Tree(VolumeError),
}

fn mount(folder: &Path, model: &Model, read_only: bool) -> Result<Mounted, Refused> {
    let at_hand = AtHand {
        key: model.key.as_ref().map(|key| SecretKey::from_slice(key).unwrap()),
        password: model.password.clone(),
    };
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
        disk: Arc::new(Unsynced),
        ..StoreOptions::default()
    };
    let store = Store::open(&volume.root, volume.config.clone(), options).map_err(Refused::Store)?;
    let plain_len = {
        let store = store.clone();
        move |len| store.plain_len(len)
    };
    let options = TreeOptions { read_only, plain_len: Box::new(plain_len), on_damage: Arc::new(log) };
    let tree = Tree::open(volume.root.try_clone().unwrap(), &volume.config, options).map_err(Refused::Tree)?;
    Ok(Mounted { store, tree, told, _volume: volume })
}

/// The word of the vectors for what a volume was refused for.
fn word(refused: &Refused) -> &'static str {
    match refused {
        Refused::Volume(VolumeError::Refused(Errno::NOENT | Errno::LOOP | Errno::ISDIR)) => "no-config",
        Refused::Volume(VolumeError::Core(error)) => match error {
            Error::NotPhalanx => "not-phalanx",
            Error::Version(_) => "version",
            Error::Header(_) | Error::Volume => "header",
            Error::KdfLimit(_) => "kdf-limit",
            Error::NoKey { .. } | Error::WrongKey => "no-key",
            Error::Altered { .. } | Error::Truncated(_) | Error::Extended(_) => "altered",
            other => panic!("{other:?}"),
        },
        Refused::Tree(VolumeError::Damaged(_)) => "root",
        Refused::Store(VolumeError::Io { .. }) => "journal",
        other => panic!("{other:?}"),
    }
}

#[test]
fn every_scenario_is_read_as_it_says() {
    let (mut seen, mut opened, mut journals) = (0, 0, 0);
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../vectors/volume");
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let mut model = Model::load(&path);
        seen += 1;
        let name = path.file_stem().unwrap().to_str().unwrap();
        let at = tempfile::tempdir().unwrap();
        if !model.lay(at.path()) {
            println!("skipped: no extended attributes here: {name}");
            continue;
        }
        if model.transactions > 0 {
            let refused = mount(at.path(), &model, true).err();
            assert!(matches!(refused, Some(Refused::Store(VolumeError::Unfinished))), "{name}: {refused:?}");
        }
        let mounted = match mount(at.path(), &model, false) {
            Ok(mounted) => mounted,
            Err(refused) => {
                assert_eq!(word(&refused), model.expect, "{name}: {refused:?}");
                continue;
            }
        };
        assert_eq!(model.expect, "ok", "{name}");
        opened += 1;
        journals += usize::from(model.transactions > 0);
        check_applied(name, at.path(), &model, &mounted);
        check_tree(name, &model, &mounted);
        drop(mounted);
        // The journal has been dealt with, and nothing is written any more.
        let again = mount(at.path(), &model, true).unwrap_or_else(|refused| panic!("{name}: {refused:?}"));
        check_tree(name, &model, &again);
    }
    assert!(seen >= SCENARIOS, "only {seen} scenarios");
    assert!(opened > 100 && journals > 20, "only {opened} opened, {journals} with a journal");
}

/// What applying the journal has made of the stored files, and what it has reported.
fn check_applied(name: &str, at: &Path, model: &Model, mounted: &Mounted) {
    for (path, bytes) in model.files() {
        if path == JOURNAL {
            continue; // how much of it is overwritten is left to the reader
        }
        let found = fs::read(at.join(path)).unwrap();
        match model.after.get(path) {
            Some(digest) => assert_eq!(hex(&sha3_256(&found)), *digest, "{name}: {path}"),
            None => assert!(found == bytes, "{name}: {path} was changed"),
        }
    }
    let told = std::mem::take(&mut *mounted.told.lock().unwrap());
    assert_eq!(told.len(), model.left_out.len(), "{name}: {told:?}");
    for (index, line) in model.left_out.iter().zip(&told) {
        assert!(line.ends_with(&format!("in chunk {index}")), "{name}: {line}");
    }
}

/// What is in a tree, by its path as the vectors have it.
fn check_tree(name: &str, model: &Model, mounted: &Mounted) {
    let mut found = BTreeMap::new();
    walk(mounted, ROOT, String::new(), &mut found);
    let paths = |tree: &BTreeMap<String, Want>| tree.keys().cloned().collect::<Vec<_>>();
    assert_eq!(paths(&found), paths(&model.tree), "{name}");
    for (path, want) in &model.tree {
        assert!(found[path] == *want, "{name}: {path}: {:?}, not {want:?}", found[path]);
    }
    let told = mounted.told.lock().unwrap().len();
    let damaged = model.tree.values().filter(|want| want.is_damaged()).count();
    assert!(told >= damaged, "{name}: {told} lines for {damaged} entries");

    let failed = Failed::default();
    let verified = verify(&mounted.tree, &mounted.store, 1, &failed);
    assert_eq!(verified.failed, damaged as u64, "{name}");
    assert_eq!(failed.0.into_inner(), damaged, "{name}");
}

#[derive(Default)]
struct Failed(AtomicUsize);

impl Findings for Failed {
    fn whole(&self, _: &Path, _: u64) {}
    fn failed(&self, _: &Path, error: &VolumeError) {
        assert_eq!(error.errno(), Errno::IO, "{error:?}");
        self.0.fetch_add(1, Ordering::Relaxed);
    }
    fn advance(&self, _: u64) {}
}

fn walk(mounted: &Mounted, number: u64, path: String, found: &mut BTreeMap<String, Want>) {
    let listing = damaged(mounted.tree.list(number));
    let xattrs = if listing.is_some() { xattrs(mounted, number, [0; 16]) } else { BTreeMap::new() };
    found.insert(path.clone(), Want::Folder { is_damaged: listing.is_none(), xattrs });
    let Some(listing) = listing else { return };
    for index in 0..listing.len() {
        let Some(entry) = mounted.tree.entry(&listing, index) else { continue };
        let attr = mounted.tree.lookup_entry(&listing, index).unwrap();
        assert_eq!(mounted.tree.lookup(number, &entry.name).unwrap(), attr);
        let path = if path.is_empty() { hex(&entry.name) } else { format!("{path}/{}", hex(&entry.name)) };
        match attr.kind {
            Kind::Folder => walk(mounted, attr.number, path, found),
            Kind::File => drop(found.insert(path, file(mounted, attr.number))),
            Kind::Link => {
                let target = damaged(mounted.tree.readlink(attr.number));
                drop(found.insert(path, Want::Link(target)));
            }
            Kind::Fifo => drop(found.insert(path, Want::Fifo)),
            other => panic!("{path}: {other:?}"),
        }
        mounted.tree.forget(attr.number, 2);
    }
}

fn file(mounted: &Mounted, number: u64) -> Want {
    let stored = mounted.tree.open_file(number, false).unwrap();
    let Some(backing) = damaged(mounted.store.open_file(stored)) else {
        return Want::File { content: None, xattrs: BTreeMap::new() };
    };
    let chunk = mounted.store.chunk_len() as u64;
    let chunks = backing.len().div_ceil(chunk).max(1);
    let content = (0..chunks).map(|index| damaged(backing.read_at(index * chunk, chunk as usize)));
    let content = pieces(&content.collect::<Vec<_>>());
    Want::File { content: Some(content), xattrs: xattrs(mounted, number, backing.id()) }
}

fn xattrs(mounted: &Mounted, number: u64, file: [u8; 16]) -> BTreeMap<String, Option<Vec<u8>>> {
    let names = mounted.tree.list_xattrs(number, || Ok(file)).unwrap();
    let value = |name: &Vec<u8>| (hex(name), damaged(mounted.tree.get_xattr(number, name, || Ok(file))));
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
