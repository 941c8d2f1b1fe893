//! The keyring: named 32-byte keys, each in a file `NAME.key` of 32 raw bytes that only its owner can read.

use crate::key::{KeyId, SecretKey};
use crate::output::{Existing, Output};
use crate::{Error, Result};
use std::fs::{self, DirBuilder, File};
use std::io::{self, Read, Write};
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::path::{Path, PathBuf};
use zeroize::Zeroizing;

const EXTENSION: &str = "key";

/// A folder of named keys. It need not exist before the first key is stored.
#[derive(Clone, Debug)]
pub struct Keyring {
    dir: PathBuf,
}

impl Keyring {
    /// The keyring in a folder.
    pub fn new(dir: impl Into<PathBuf>) -> Self {
        Self { dir: dir.into() }
    }

    /// The folder.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// Stores a key under a new name.
    pub fn store(&self, name: &str, key: &SecretKey) -> Result<()> {
        let path = self.path(name)?;
        DirBuilder::new().recursive(true).mode(0o700).create(&self.dir).map_err(|e| Error::Write(at(&self.dir, e)))?;
        let write = || {
            let output = Output::create(&path, Existing::Keep)?;
            output.file().write_all(key.expose()).map_err(Error::Write)?;
            output.commit(Existing::Keep, true).map(drop)
        };
        write().map_err(|error| match error {
            Error::Write(e) => Error::Write(at(&path, e)),
            error => error,
        })
    }

    /// The key of a name.
    pub fn load(&self, name: &str) -> Result<SecretKey> {
        let path = self.path(name)?;
        let mut file = File::open(&path).map_err(|e| match e.kind() {
            io::ErrorKind::NotFound => {
                Error::Key(format!("no key named {name} in the keyring (phalanx key list shows them)"))
            }
            _ => Error::Read(at(&path, e)),
        })?;
        let meta = file.metadata().map_err(|e| Error::Read(at(&path, e)))?;
        if meta.permissions().mode() & 0o077 != 0 {
            let path = path.display();
            return Err(Error::Key(format!("the key {name} is open to other users (chmod 600 {path})")));
        }
        read_key(&mut file)?.ok_or_else(|| Error::Key(format!("the key {name} is damaged: it has not 32 bytes")))
    }

    /// All names in order.
    pub fn names(&self) -> Result<Vec<String>> {
        let entries = match fs::read_dir(&self.dir) {
            Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            entries => entries.map_err(|e| Error::Read(at(&self.dir, e)))?,
        };
        let mut names = Vec::new();
        for entry in entries {
            let file_name = PathBuf::from(entry.map_err(|e| Error::Read(at(&self.dir, e)))?.file_name());
            let stem = file_name.file_stem().and_then(|s| s.to_str());
            if let Some(name) = stem.filter(|s| is_name(s) && file_name.extension().is_some_and(|e| e == EXTENSION)) {
                names.push(name.to_owned());
            }
        }
        names.sort();
        Ok(names)
    }

    /// The key with this id, and its name, if the keyring has it. Keys that cannot be used are passed over, and told.
    pub fn find(&self, id: &KeyId, mut unusable: impl FnMut(Error)) -> Result<Option<(String, SecretKey)>> {
        for name in self.names()? {
            match self.load(&name) {
                Ok(key) if key.id() == *id => return Ok(Some((name, key))),
                Ok(_) => {}
                Err(error) => unusable(error),
            }
        }
        Ok(None)
    }

    /// Deletes a key.
    pub fn remove(&self, name: &str) -> Result<()> {
        let path = self.path(name)?;
        fs::remove_file(&path).map_err(|e| match e.kind() {
            io::ErrorKind::NotFound => Error::Key(format!("no key named {name} in the keyring")),
            _ => Error::Write(at(&path, e)),
        })
    }

    fn path(&self, name: &str) -> Result<PathBuf> {
        if !is_name(name) {
            let rule = "1 to 64 letters, digits, '.', '_', '-' and '@', the first a letter or digit";
            return Err(Error::Key(format!("not a name for a key: {} ({rule})", name.escape_debug())));
        }
        Ok(self.dir.join(format!("{name}.{EXTENSION}")))
    }
}

/// Reads a key of exactly 32 raw bytes; `None` where the input has another length.
pub fn read_key(input: &mut impl Read) -> Result<Option<SecretKey>> {
    let mut bytes = Zeroizing::new([0; 33]);
    let n = crate::header::read_full(input, &mut *bytes)?;
    Ok(SecretKey::from_slice(&bytes[..n]))
}

/// The error, with its path: callers know only a key's name.
fn at(path: &Path, error: io::Error) -> io::Error {
    io::Error::new(error.kind(), format!("{}: {error}", path.display()))
}

fn is_name(name: &str) -> bool {
    let lawful = |b: u8| b.is_ascii_alphanumeric() || b"._-@".contains(&b);
    (1..=64).contains(&name.len()) && name.bytes().all(lawful) && name.as_bytes()[0].is_ascii_alphanumeric()
}
