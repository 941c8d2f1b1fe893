//! The files that hold the user's keys and passwords: what is protected with a key never deletes the key.

use crate::args::KeyArgs;
use crate::secrets;
use std::collections::HashSet;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// Device and inode.
type Id = (u64, u64);

/// Where the keys of a command are kept.
#[derive(Debug, Default)]
pub struct KeyFiles {
    /// The folder of the keyring.
    keyring: Option<Id>,
    /// The files that its names lead to.
    kept: HashSet<Id>,
    /// The files of the keys and passwords that this command uses.
    in_use: HashSet<Id>,
}

impl KeyFiles {
    /// Those of a command line. What cannot be found is no file that could be deleted.
    pub fn new(args: &KeyArgs, identities: &[PathBuf]) -> Self {
        let keyring = secrets::keyring().ok();
        let dir = keyring.as_ref().map(|ring| ring.dir());
        let named = args.keys.iter().filter_map(|name| Some(dir?.join(format!("{name}.key"))));
        let given = args.files().chain(identities).cloned();
        let entries = dir.and_then(|dir| fs::read_dir(dir).ok()).into_iter().flatten().flatten();
        Self {
            keyring: dir.and_then(id),
            kept: entries.filter_map(|entry| id(&entry.path())).collect(),
            in_use: named.chain(given).filter_map(|path| id(&path)).collect(),
        }
    }

    /// Whether a folder is the keyring's.
    pub fn is_keyring(&self, folder: Id) -> bool {
        self.keyring == Some(folder)
    }

    /// Whether a file holds a key of the keyring, or a key or password that this command uses.
    pub fn holds(&self, file: Id) -> bool {
        self.kept.contains(&file) || self.is_in_use(file)
    }

    /// Whether a file holds a key or a password that this command uses.
    pub fn is_in_use(&self, file: Id) -> bool {
        self.in_use.contains(&file)
    }
}

fn id(path: &Path) -> Option<Id> {
    fs::metadata(path).ok().map(|meta| (meta.dev(), meta.ino()))
}
