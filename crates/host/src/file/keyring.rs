//! The keyring: named 32-byte keys, each in a file `NAME.key` of 32 raw bytes that only its owner can read. A locked key
//! is in a protected file `NAME.ID.key.phx` instead, whose plaintext is these bytes. ID is the key's id, which is no secret.
//!
//! Each look-up opens the folder once, and opens the keys within it. A folder or key that others could read or change
//! is refused.

use crate::file::output::{Existing, Output, sync_folder};
use crate::file::private;
use crate::folders::make_private;
use crate::{Error, Refused, Result};
use phalanx_core::SecretKey;
use phalanx_core::{Error as CoreError, KeyId};
use phalanx_system::files::locked_folder;
use phalanx_system::fs::{self, AtFlags, Dir, FileType, Mode, OFlags};
use phalanx_system::io::Errno;
use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

const EXTENSION: &str = ".key";
const LOCKED: &str = ".key.phx";
/// The most bytes of a locked key: a header and a chunk.
const LONGEST_LOCKED: usize = (64 << 10) + (4 << 10);

/// How long another process may change the keyring.
const LONGEST_WAIT: Duration = Duration::from_secs(10);
const BUSY: &str = "another run changes the keyring";

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

    /// The file of a locked key.
    #[must_use]
    pub fn locked_path(&self, name: &str, id: &KeyId) -> PathBuf {
        self.dir.join(locked_name(name, id))
    }

    /// Stores a key under a new name.
    ///
    /// # Errors
    /// [`Error::KeyName`], [`Error::Exists`] if the name is in use, [`Error::Refused`] if others could change the
    /// keyring, [`Error::Read`](phalanx_core::Error::Read) or [`Error::Write`](phalanx_core::Error::Write) if the key
    /// cannot be stored.
    pub fn store(&self, name: &str, key: &SecretKey) -> Result<()> {
        let file = file_name(name)?;
        make_private(&self.dir).map_err(|e| Error::write(at(&self.dir, e)))?;
        let dir = self.open_to_change()?.ok_or_else(|| Error::write(at(&self.dir, io::ErrorKind::NotFound.into())))?;
        if !self.locked_ids(&dir, name)?.is_empty() {
            return Err(Error::Exists);
        }
        self.write(dir, &file, key.expose())
    }

    fn write(&self, dir: File, file: &str, bytes: &[u8]) -> Result<()> {
        let write = || {
            let output = Output::create_in(Arc::new(dir), OsStr::new(file), Existing::Keep)?;
            output.file().write_all(bytes).map_err(Error::write)?;
            output.commit(Existing::Keep, true).map(drop)
        };
        write().map_err(|error| match error {
            Error::Core(CoreError::Write(e)) => Error::write(at(&self.dir.join(file), e)),
            error => error,
        })
    }

    /// Replaces a key by its protected file. The key goes once that is on the disk.
    ///
    /// # Errors
    /// Those of [`Keyring::load`], [`Error::Exists`] if another key of this name is locked, and [`Error::Refused`] if the key's file is a link: the key
    /// itself would stay where that leads.
    pub fn lock(&self, name: &str, key: &SecretKey, protected: &[u8]) -> Result<()> {
        let (open, locked) = (file_name(name)?, locked_name(name, &key.id()));
        let dir = self.open_to_change()?.ok_or_else(|| Error::NoSuchKey(name.into()))?;
        // It may have been locked, deleted or replaced since it was loaded.
        if !self.read(&dir, name)?.0.matches(key) {
            return Err(Error::NoSuchKey(name.into()));
        }
        if self.locked_ids(&dir, name)?.into_iter().any(|other| other != key.id()) {
            return Err(Error::Exists);
        }
        let failed = |e: Errno| Error::write(at(&self.dir.join(&open), e.into()));
        let meta = fs::statat(&dir, &*open, AtFlags::SYMLINK_NOFOLLOW).map_err(failed)?;
        if FileType::from_raw_mode(meta.st_mode) == FileType::Symlink {
            return Err(Refused::new(
                &format!("the key {name}"),
                "its file is a link, and what it leads to would stay",
            )
            .into());
        }
        // It is left of a run that was killed before the key was gone.
        let _ = fs::unlinkat(&dir, &*locked, AtFlags::empty());
        self.write(dir.try_clone().map_err(Error::read)?, &locked, protected)?;
        fs::unlinkat(&dir, &*open, AtFlags::empty()).map_err(failed)?;
        sync_folder(&dir).map_err(failed)
    }

    /// Puts a key in the place of its protected file.
    ///
    /// # Errors
    /// [`Error::NoSuchKey`] if it is not locked, and those of [`Keyring::store`].
    pub fn unlock(&self, name: &str, key: &SecretKey) -> Result<()> {
        let dir = self.open_to_change()?.ok_or_else(|| Error::NoSuchKey(name.into()))?;
        let locked = locked_name(name, &key.id());
        fs::statat(&dir, &*locked, AtFlags::SYMLINK_NOFOLLOW).map_err(|_| Error::NoSuchKey(name.into()))?;
        match self.write(dir.try_clone().map_err(Error::read)?, &file_name(name)?, key.expose()) {
            // A run was killed before the protected file was gone.
            Err(Error::Exists) if self.read(&dir, name)?.0.matches(key) => {}
            written => written?,
        }
        fs::unlinkat(&dir, &*locked, AtFlags::empty()).map_err(|e| Error::write(at(&self.dir.join(&locked), e.into())))
    }

    /// The protected file of a locked key, and the key's id. `None` if no key of this name is locked.
    ///
    /// # Errors
    /// [`Error::Refused`] if others could change the keyring or several keys of this name are locked, and those of
    /// [`Keyring::locked_file`].
    pub fn locked(&self, name: &str) -> Result<Option<(KeyId, Vec<u8>)>> {
        let Some(dir) = self.open()? else { return Ok(None) };
        let Some(id) = self.only(name, &self.locked_ids(&dir, name)?)? else { return Ok(None) };
        Ok(self.locked_file(name, &id)?.map(|bytes| (id, bytes)))
    }

    /// The protected file of the locked key with this name and id. `None` without a keyring.
    ///
    /// # Errors
    /// [`Error::Refused`] if others could change the keyring, [`Error::KeyDamaged`] if it is too long, or
    /// [`Error::Read`](phalanx_core::Error::Read).
    pub fn locked_file(&self, name: &str, id: &KeyId) -> Result<Option<Vec<u8>>> {
        let Some(dir) = self.open()? else { return Ok(None) };
        let file = locked_name(name, id);
        let failed = |e: io::Error| Error::read(at(&self.dir.join(&file), e));
        let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::NOFOLLOW;
        let opened = File::from(fs::openat(&dir, &*file, flags, Mode::empty()).map_err(|e| failed(e.into()))?);
        let mut bytes = Vec::new();
        opened.take(LONGEST_LOCKED as u64 + 1).read_to_end(&mut bytes).map_err(failed)?;
        if bytes.len() > LONGEST_LOCKED { Err(Error::KeyDamaged(name.into())) } else { Ok(Some(bytes)) }
    }

    /// The name of the locked key with this id.
    ///
    /// # Errors
    /// Those of [`Keyring::names`].
    pub fn locked_with(&self, id: &KeyId) -> Result<Option<String>> {
        Ok(self.list()?.into_iter().find(|(_, locked)| locked.as_ref() == Some(id)).map(|(name, _)| name))
    }

    /// The ids of the locked keys of a name, in order. There are several after keyrings were merged.
    fn locked_ids(&self, dir: &File, name: &str) -> Result<Vec<KeyId>> {
        Ok(self.entries(dir)?.into_iter().filter(|(other, _)| other == name).filter_map(|(_, locked)| locked).collect())
    }

    /// The only one of these ids, or `None` if there is none. The first of several is not meant more than the others.
    fn only(&self, name: &str, ids: &[KeyId]) -> Result<Option<KeyId>> {
        let [_, .., last] = ids else { return Ok(ids.first().copied()) };
        let [from, to] = [name, "NAME"].map(|name| self.locked_path(name, last));
        let all = ids.iter().map(KeyId::to_string).collect::<Vec<_>>().join(", ");
        let refused = Refused::new(&format!("the name {name}"), format!("several keys have it: {all}"));
        Err(refused.mended_by(format!("mv {} {}", from.display(), to.display())).into())
    }

    /// The key of a name.
    ///
    /// # Errors
    /// [`Error::KeyName`], [`Error::NoSuchKey`], [`Error::KeyLocked`], [`Error::Refused`] if others could read or change
    /// the key, [`Error::KeyDamaged`], or [`Error::Read`](phalanx_core::Error::Read).
    pub fn load(&self, name: &str) -> Result<SecretKey> {
        file_name(name)?;
        let dir = self.open()?.ok_or_else(|| Error::NoSuchKey(name.into()))?;
        match self.read(&dir, name) {
            Err(Error::NoSuchKey(_)) if self.only(name, &self.locked_ids(&dir, name)?)?.is_some() => {
                Err(Error::KeyLocked(name.into()))
            }
            read => {
                let (key, usable) = read?;
                usable?;
                Ok(key)
            }
        }
    }

    /// The id of a key, and whether it is locked. Nothing has to open it.
    ///
    /// # Errors
    /// Those of [`Keyring::load`], and [`Error::Refused`] if other keys of this name are locked.
    pub fn id(&self, name: &str) -> Result<(KeyId, bool)> {
        let open = match self.load(name) {
            Err(Error::KeyLocked(_)) => None,
            loaded => Some(loaded?.id()),
        };
        let locked = self.open()?.map_or(Ok(Vec::new()), |dir| self.locked_ids(&dir, name))?;
        let ids: Vec<_> = open.into_iter().chain(locked.into_iter().filter(|id| Some(*id) != open)).collect();
        let id = self.only(name, &ids)?.ok_or_else(|| Error::NoSuchKey(name.into()))?;
        Ok((id, open.is_none()))
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
            Err(Errno::NOENT) => Ok(!self.locked_ids(&dir, name)?.is_empty()),
            Err(e) => Err(Error::read(at(&self.dir.join(file), e.into()))),
        }
    }

    /// All names in order.
    ///
    /// # Errors
    /// [`Error::Refused`] if others could change the keyring, or [`Error::Read`](phalanx_core::Error::Read).
    pub fn names(&self) -> Result<Vec<String>> {
        let mut names: Vec<String> = self.list()?.into_iter().map(|(name, _)| name).collect();
        names.dedup();
        Ok(names)
    }

    /// All names in order, with the ids of locked keys. After a run was killed a key may be there both locked and not: first not.
    ///
    /// # Errors
    /// As for [`Keyring::names`].
    pub fn list(&self) -> Result<Vec<(String, Option<KeyId>)>> {
        self.open()?.map_or(Ok(Vec::new()), |dir| self.entries(&dir))
    }

    /// The key with this id, and its name, if the keyring has it.
    ///
    /// Keys that are locked, refused or cannot be read are skipped. They are reported if they have this id, or if their id is
    /// unknown. (A refused key is read for its id, and for nothing else.)
    ///
    /// # Errors
    /// [`Error::Refused`] if others could change the keyring, or [`Error::Read`](phalanx_core::Error::Read).
    pub fn find(&self, id: &KeyId, mut unusable: impl FnMut(Error)) -> Result<Option<(String, SecretKey)>> {
        let Some(dir) = self.open()? else { return Ok(None) };
        for (name, locked) in self.entries(&dir)? {
            if let Some(locked) = locked {
                if locked == *id {
                    unusable(Error::KeyLocked(name));
                }
                continue;
            }
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

    /// Deletes a key. Then it stays deleted after a power cut.
    ///
    /// # Errors
    /// [`Error::KeyName`], [`Error::NoSuchKey`], [`Error::Refused`] if others could change the keyring,
    /// [`Error::Read`](phalanx_core::Error::Read), or [`Error::Write`](phalanx_core::Error::Write) if the key cannot be
    /// deleted.
    pub fn remove(&self, name: &str) -> Result<()> {
        let file = file_name(name)?;
        let dir = self.open_to_change()?.ok_or_else(|| Error::NoSuchKey(name.into()))?;
        self.unlink(&dir, name, file)?;
        sync_folder(&dir).map_err(|e| Error::write(at(&self.dir, e.into())))
    }

    fn unlink(&self, dir: &File, name: &str, file: String) -> Result<()> {
        let remove = |file: String| {
            fs::unlinkat(dir, &*file, AtFlags::empty()).map_err(|e| match e {
                Errno::NOENT => Error::NoSuchKey(name.into()),
                e => Error::write(at(&self.dir.join(file), e.into())),
            })
        };
        let locked = self.locked_ids(dir, name)?;
        let Some(first) = locked.first() else { return remove(file) };
        match self.read(dir, name) {
            Err(Error::NoSuchKey(_)) => {
                self.only(name, &locked)?;
                remove(locked_name(name, first))
            }
            // A run was killed that locked it or unlocked it.
            Ok((key, _)) if locked.contains(&key.id()) => {
                remove(file).and_then(|()| remove(locked_name(name, &key.id())))
            }
            // Another key of this name is locked. It stays.
            _ => remove(file),
        }
    }

    /// Opens the folder as [`Keyring::open`] does, and waits until no other process changes it, but not for ever. Two that lock and
    /// unlock the same key could each delete the file that the other relies on.
    fn open_to_change(&self) -> Result<Option<File>> {
        let Some(dir) = self.open()? else { return Ok(None) };
        // Other users can lock a folder that they may look into, and must not stop this one without a word.
        let busy = || Error::write(at(&self.dir, io::Error::new(io::ErrorKind::ResourceBusy, BUSY)));
        locked_folder(dir, LONGEST_WAIT).ok_or_else(busy).map(Some)
    }

    /// Opens the folder, if it exists, and checks that only the user has access.
    fn open(&self) -> Result<Option<File>> {
        let failed = |e: io::Error| Error::read(at(&self.dir, e));
        let dir = match fs::open(&self.dir, OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty()) {
            Err(Errno::NOENT) => return Ok(None),
            dir => File::from(dir.map_err(|e| failed(e.into()))?),
        };
        let what = format!("the keyring {}", self.dir.display());
        private::check_folder(&what, &dir, &dir.metadata().map_err(failed)?, &self.dir)?;
        Ok(Some(dir))
    }

    /// All names in order, with the ids of locked keys. After a run was killed a key may be there both locked and not.
    fn entries(&self, dir: &File) -> Result<Vec<(String, Option<KeyId>)>> {
        let failed = |e: Errno| Error::read(at(&self.dir, e.into()));
        let mut entries = Vec::new();
        for entry in Dir::read_from(dir).map_err(failed)? {
            let entry = entry.map_err(failed)?;
            entries.extend(str::from_utf8(entry.file_name().to_bytes()).ok().and_then(meaning));
        }
        entries.sort();
        Ok(entries)
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
        Ok((key, private::check_file(&what, &file, &meta, &path)))
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

/// The name of the file of a locked key.
fn locked_name(name: &str, id: &KeyId) -> String {
    format!("{name}.{id}{LOCKED}")
}

/// The key that a file's name stands for, with its id if it is locked.
fn meaning(file: &str) -> Option<(String, Option<KeyId>)> {
    let (name, id) = match file.strip_suffix(LOCKED) {
        Some(locked) => {
            let (name, id) = locked.rsplit_once('.')?;
            (name, Some(KeyId::from_hex(id).filter(|parsed| parsed.to_string() == id)?))
        }
        None => (file.strip_suffix(EXTENSION)?, None),
    };
    is_name(name).then(|| (name.to_owned(), id))
}

fn is_name(name: &str) -> bool {
    let allowed = |b: u8| b.is_ascii_alphanumeric() || b"._-@".contains(&b);
    (1..=64).contains(&name.len()) && name.bytes().all(allowed) && name.as_bytes()[0].is_ascii_alphanumeric()
}
