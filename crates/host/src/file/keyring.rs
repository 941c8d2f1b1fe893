//! The keyring: named 32-byte keys, each in a file `NAME.key` of 32 raw bytes that only its owner can read.
//!
//! Each look-up opens the folder once, and opens the keys within it. A folder or key that others could read or change
//! is refused.

use crate::file::output::{Existing, Output};
use crate::file::private;
use crate::{Error, Refused, Result};
use phalanx_core::SecretKey;
use phalanx_core::{Error as CoreError, KeyId};
use rustix::fs::{self, AtFlags, Dir, Mode, OFlags};
use rustix::io::Errno;
use std::ffi::OsStr;
use std::fs::{DirBuilder, File};
use std::io::{self, Write};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

const EXTENSION: &str = ".key";

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

    /// Whether a key may have this name.
    #[must_use]
    pub fn is_name(name: &str) -> bool {
        is_name(name)
    }

    /// The folder.
    #[must_use]
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// The file of a key.
    ///
    /// # Errors
    /// [`Error::KeyName`] if the name is not one for a key.
    pub fn path(&self, name: &str) -> Result<PathBuf> {
        Ok(self.dir.join(file_name(name)?))
    }

    /// Stores a key under a new name.
    ///
    /// # Errors
    /// [`Error::KeyName`], [`Error::Exists`] if the name is in use, [`Error::Refused`] if others could change the
    /// keyring, [`Error::Read`](phalanx_core::Error::Read) or [`Error::Write`](phalanx_core::Error::Write) if the key
    /// cannot be stored.
    pub fn store(&self, name: &str, key: &SecretKey) -> Result<()> {
        let file = file_name(name)?;
        DirBuilder::new().recursive(true).mode(0o700).create(&self.dir).map_err(|e| Error::write(at(&self.dir, e)))?;
        let dir = Arc::new(self.open()?.ok_or_else(|| Error::write(at(&self.dir, io::ErrorKind::NotFound.into())))?);
        let write = || {
            let output = Output::create_in(dir, OsStr::new(&file), Existing::Keep)?;
            output.file().write_all(key.expose()).map_err(Error::write)?;
            output.commit(Existing::Keep, true).map(drop)
        };
        write().map_err(|error| match error {
            Error::Core(CoreError::Write(e)) => Error::write(at(&self.dir.join(file), e)),
            error => error,
        })
    }

    /// The key of a name.
    ///
    /// # Errors
    /// [`Error::KeyName`], [`Error::NoSuchKey`], [`Error::Refused`] if others could read or change the key,
    /// [`Error::KeyDamaged`], or [`Error::Read`](phalanx_core::Error::Read).
    pub fn load(&self, name: &str) -> Result<SecretKey> {
        file_name(name)?;
        let dir = self.open()?.ok_or_else(|| Error::NoSuchKey(name.into()))?;
        let (key, usable) = self.read(&dir, name)?;
        usable?;
        Ok(key)
    }

    /// Whether anything has the name, whatever it is.
    ///
    /// # Errors
    /// [`Error::KeyName`], [`Error::Refused`] if others could change the keyring, or
    /// [`Error::Read`](phalanx_core::Error::Read).
    pub fn has(&self, name: &str) -> Result<bool> {
        let file = file_name(name)?;
        let Some(dir) = self.open()? else { return Ok(false) };
        match fs::statat(&dir, &*file, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(_) => Ok(true),
            Err(Errno::NOENT) => Ok(false),
            Err(e) => Err(Error::read(at(&self.dir.join(file), e.into()))),
        }
    }

    /// All names in order.
    ///
    /// # Errors
    /// [`Error::Refused`] if others could change the keyring, or [`Error::Read`](phalanx_core::Error::Read).
    pub fn names(&self) -> Result<Vec<String>> {
        self.open()?.map_or(Ok(Vec::new()), |dir| self.names_in(&dir))
    }

    /// The key with this id, and its name, if the keyring has it.
    ///
    /// Keys that are refused or cannot be read are skipped. They are reported if they have this id, or if their id is
    /// unknown. (A refused key is read for its id, and for nothing else.)
    ///
    /// # Errors
    /// [`Error::Refused`] if others could change the keyring, or [`Error::Read`](phalanx_core::Error::Read).
    pub fn find(&self, id: &KeyId, mut unusable: impl FnMut(Error)) -> Result<Option<(String, SecretKey)>> {
        let Some(dir) = self.open()? else { return Ok(None) };
        for name in self.names_in(&dir)? {
            match self.read(&dir, &name) {
                Ok((key, usable)) if key.id() == *id => match usable {
                    Ok(()) => return Ok(Some((name, key))),
                    Err(refused) => unusable(refused.into()),
                },
                // It is another key, or was deleted meanwhile.
                Ok(_) | Err(Error::NoSuchKey(_)) => {}
                Err(error) => unusable(error),
            }
        }
        Ok(None)
    }

    /// Deletes a key.
    ///
    /// # Errors
    /// [`Error::KeyName`], [`Error::NoSuchKey`], [`Error::Refused`] if others could change the keyring,
    /// [`Error::Read`](phalanx_core::Error::Read), or [`Error::Write`](phalanx_core::Error::Write) if the key cannot be
    /// deleted.
    pub fn remove(&self, name: &str) -> Result<()> {
        let file = file_name(name)?;
        let dir = self.open()?.ok_or_else(|| Error::NoSuchKey(name.into()))?;
        fs::unlinkat(&dir, &*file, AtFlags::empty()).map_err(|e| match e {
            Errno::NOENT => Error::NoSuchKey(name.into()),
            e => Error::write(at(&self.dir.join(file), e.into())),
        })
    }

    /// Opens the folder, if it exists, and checks that only the user has access.
    fn open(&self) -> Result<Option<File>> {
        let failed = |e: io::Error| Error::read(at(&self.dir, e));
        let dir = match fs::open(&self.dir, OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty()) {
            Err(Errno::NOENT) => return Ok(None),
            dir => File::from(dir.map_err(|e| failed(e.into()))?),
        };
        let what = format!("the keyring {}", self.dir.display());
        private::check_folder(&what, &dir.metadata().map_err(failed)?, &self.dir)?;
        Ok(Some(dir))
    }

    fn names_in(&self, dir: &File) -> Result<Vec<String>> {
        let failed = |e: Errno| Error::read(at(&self.dir, e.into()));
        let mut names = Vec::new();
        for entry in Dir::read_from(dir).map_err(failed)? {
            let entry = entry.map_err(failed)?;
            let name = str::from_utf8(entry.file_name().to_bytes()).ok().and_then(|name| name.strip_suffix(EXTENSION));
            names.extend(name.filter(|name| is_name(name)).map(str::to_owned));
        }
        names.sort();
        Ok(names)
    }

    /// The key of a name, and whether it may be used.
    fn read(&self, dir: &File, name: &str) -> Result<(SecretKey, Result<(), Refused>)> {
        let (what, path) = (format!("the key {name}"), self.dir.join(file_name(name)?));
        let failed = |e: io::Error| Error::read(at(&path, e));
        let no_file = || Refused::new(&what, "it is not a regular file");
        // A link is followed, because the user may keep the key elsewhere. Opening a pipe must not wait for its other
        // end.
        let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NONBLOCK | OFlags::NOCTTY;
        let mut file = match fs::openat(dir, &*file_name(name)?, flags, Mode::empty()) {
            Ok(file) => File::from(file),
            Err(Errno::NOENT) => return Err(Error::NoSuchKey(name.into())),
            // A socket.
            Err(Errno::NXIO) => return Err(no_file().into()),
            Err(e) => return Err(failed(e.into())),
        };
        let meta = file.metadata().map_err(failed)?;
        if !meta.is_file() {
            return Err(no_file().into());
        }
        let key = SecretKey::read(&mut file).map_err(|e| match e {
            CoreError::Read(e) => failed(e),
            CoreError::KeyText(_) => Error::KeyDamaged(name.into()),
            e => e.into(),
        })?;
        let key = key.ok_or_else(|| Error::KeyDamaged(name.into()))?;
        Ok((key, private::check_file(&what, &meta, &path)))
    }
}

/// The error, with its path: callers know only a key's name.
fn at(path: &Path, error: io::Error) -> io::Error {
    io::Error::new(error.kind(), format!("{}: {error}", path.display()))
}

/// The name of the file of a key, if the key's name is valid.
fn file_name(name: &str) -> Result<String> {
    if is_name(name) { Ok(format!("{name}{EXTENSION}")) } else { Err(Error::KeyName(name.into())) }
}

fn is_name(name: &str) -> bool {
    let allowed = |b: u8| b.is_ascii_alphanumeric() || b"._-@".contains(&b);
    (1..=64).contains(&name.len()) && name.bytes().all(allowed) && name.as_bytes()[0].is_ascii_alphanumeric()
}
