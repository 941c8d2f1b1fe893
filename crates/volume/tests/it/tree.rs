//! The tree of nodes, without FUSE.

mod basics;
mod few;
mod hostile;
mod rename;
mod threads;

use phalanx_core::volume::Config;
use phalanx_core::{ChunkSize, Recipient, SecretKey, Suite};
use phalanx_volume::Result;
use phalanx_volume::folder;
use phalanx_volume::names::Names;
use phalanx_volume::tree::{Attr, Kind, Owner, ROOT, Tree, TreeOptions};
use rustix::fd::OwnedFd;
use rustix::fs::{AtFlags, Dir, FileType, Mode, OFlags, openat, statat};
use rustix::io::Errno;
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

/// A volume in a temporary folder.
struct Volume {
    folder: tempfile::TempDir,
    config: Config,
    tree: Tree,
    damage: Arc<Mutex<Vec<String>>>,
}

/// The kind and the content of each entry of a tree or a plain folder, by path.
type Snapshot = BTreeMap<String, (Kind, Vec<u8>)>;

fn owner() -> Owner {
    Owner { uid: rustix::process::geteuid().as_raw(), gid: rustix::process::getegid().as_raw() }
}

/// Whether this is root, who can give entries away.
pub fn is_root() -> bool {
    let is_root = rustix::process::geteuid().is_root();
    if !is_root {
        let required = std::env::var("PHALANX_REQUIRE").unwrap_or_default();
        assert!(!required.split([',', ' ']).any(|r| r == "root"), "PHALANX_REQUIRE names root, and this is not");
        println!("skipped: no root");
    }
    is_root
}

fn open(folder: &Path) -> OwnedFd {
    File::open(folder).unwrap().into()
}

fn tree(folder: &Path, config: &Config, damage: &Arc<Mutex<Vec<String>>>) -> Result<Tree> {
    let damage = damage.clone();
    let options = TreeOptions {
        read_only: false,
        plain_len: Box::new(Some),
        on_damage: Arc::new(move |message| damage.lock().unwrap().push(message.into())),
    };
    Tree::open(open(folder), config, options)
}

impl Volume {
    fn new() -> Self {
        let recipient = Recipient::key(&SecretKey::from_slice(&[7; 32]).unwrap());
        let config = Config::create(Suite::default(), ChunkSize::new(4096).unwrap(), &[recipient]).unwrap().1;
        let folder = tempfile::tempdir().unwrap();
        folder::init(open(folder.path()), &Names::new(config.keys())).unwrap();
        let damage = Arc::default();
        Self { tree: tree(folder.path(), &config, &damage).unwrap(), folder, config, damage }
    }

    /// Mounts the same volume again.
    fn again(self) -> Self {
        let damage = Arc::default();
        Self { tree: tree(self.folder.path(), &self.config, &damage).unwrap(), damage, ..self }
    }

    fn path(&self) -> &Path {
        self.folder.path()
    }

    fn damage(&self) -> Vec<String> {
        self.damage.lock().unwrap().clone()
    }

    /// Where the entry of a node with this inode lies in the backing folder.
    fn stored(&self, attr: &Attr) -> PathBuf {
        use std::os::unix::fs::MetadataExt;
        let mut folders = vec![self.path().to_path_buf()];
        while let Some(folder) = folders.pop() {
            for entry in fs::read_dir(folder).unwrap() {
                let path = entry.unwrap().path();
                let metadata = path.symlink_metadata().unwrap();
                if metadata.ino() == attr.number {
                    return path;
                }
                if metadata.is_dir() {
                    folders.push(path);
                }
            }
        }
        panic!("not stored: {attr:?}");
    }

    fn file(&self, parent: u64, name: &str, content: &str) -> Result<Attr> {
        let write = |mut file: File| {
            file.write_all(content.as_bytes()).unwrap();
            Ok(())
        };
        self.tree.create(parent, name.as_bytes(), 0o644, owner(), write).map(|(attr, ())| attr)
    }

    fn mkdir(&self, parent: u64, name: &str) -> Result<Attr> {
        self.tree.mkdir(parent, name.as_bytes(), 0o755, owner())
    }

    fn link(&self, parent: u64, name: &str, target: &str) -> Result<Attr> {
        self.tree.symlink(parent, name.as_bytes(), target.as_bytes(), owner())
    }

    fn lookup(&self, parent: u64, name: &str) -> Result<Attr> {
        self.tree.lookup(parent, name.as_bytes())
    }

    /// Looks a path up from the root.
    fn find(&self, path: &str) -> Result<Attr> {
        let mut attr = self.tree.getattr(ROOT)?;
        for name in path.split('/').filter(|name| !name.is_empty()) {
            attr = self.lookup(attr.number, name)?;
        }
        Ok(attr)
    }

    fn snapshot(&self) -> Snapshot {
        let mut snapshot = Snapshot::new();
        let mut folders = vec![(String::new(), ROOT)];
        while let Some((path, number)) = folders.pop() {
            let list = self.tree.list(number).unwrap();
            for index in 0..list.len() {
                let Some(entry) = self.tree.entry(&list, index).unwrap() else { continue };
                let attr = self.tree.lookup_entry(&list, index).unwrap();
                assert_eq!(attr.number, entry.number);
                assert_eq!(self.tree.lookup(number, &entry.name).unwrap(), attr);
                assert_eq!(self.tree.getattr(attr.number).unwrap(), attr);
                let path = format!("{path}/{}", String::from_utf8(entry.name).unwrap());
                let content = match attr.kind {
                    Kind::File => read(self.tree.open_file(attr.number, false).unwrap()),
                    Kind::Link => self.tree.readlink(attr.number).unwrap(),
                    _ => Vec::new(),
                };
                if attr.kind == Kind::Link {
                    assert_eq!(attr.size, content.len() as u64);
                }
                if attr.kind == Kind::Folder {
                    folders.push((path.clone(), attr.number));
                }
                snapshot.insert(path, (attr.kind, content));
            }
        }
        snapshot
    }

    /// Checks that the backing folder contains only what belongs there. It uses descriptors, since folders may be
    /// nested too deep for any path.
    fn check_backing(&self) {
        check_folder(&open(self.path()));
    }
}

fn check_folder(folder: &OwnedFd) {
    let names: BTreeMap<String, FileType> = Dir::read_from(folder)
        .unwrap()
        .map(|entry| entry.unwrap())
        .map(|entry| (entry.file_name().to_str().unwrap().to_owned(), entry.file_type()))
        .filter(|(name, _)| name != "." && name != "..")
        .collect();
    for (name, file_type) in &names {
        if let Some(long) = name.strip_suffix(".full") {
            assert!(names.contains_key(long), "{name} is left");
        } else if name.starts_with("phalanx.name.") {
            assert!(names.contains_key(&format!("{name}.full")), "{name} has no full name");
        } else {
            assert!(name == "phalanx.folder" || !name.contains('.'), "{name} is left");
        }
        if name == "phalanx.folder" {
            assert_eq!(statat(folder, name, AtFlags::SYMLINK_NOFOLLOW).unwrap().st_size, 32);
        }
        if *file_type == FileType::Directory {
            check_folder(&openat(folder, name, OFlags::DIRECTORY | OFlags::NOFOLLOW, Mode::empty()).unwrap());
        }
    }
}

fn read(mut file: File) -> Vec<u8> {
    let mut content = Vec::new();
    file.read_to_end(&mut content).unwrap();
    content
}

fn errno<T>(result: Result<T>) -> Errno {
    match result {
        Ok(_) => panic!("should fail"),
        Err(error) => error.errno(),
    }
}
