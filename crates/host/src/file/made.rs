//! The outputs of a run, so that none of them replaces another.

use crate::file::names::id;
use crate::file::obstacle::Obstacle;
use crate::file::temporary::{step, unused_name};
use crate::{Error, Result};
use phalanx_system::files;
use phalanx_system::fs::{self, AtFlags, Dir, FileType, Stat};
use phalanx_system::io::Errno;
use phalanx_system::os::ffi::{OsStrExt, OsStringExt};
use std::collections::{HashMap, HashSet};
use std::ffi::{CStr, OsStr, OsString};
use std::fs::{File, Metadata};
use std::sync::{Arc, Mutex, MutexGuard};

/// The files, links and folders that a run has made. None of them may replace another. On a file system that does not
/// distinguish `A` from `a`, two inputs can lead to one output.
#[derive(Debug, Default)]
pub struct Made {
    spared: Arc<Spared>,
    inner: Mutex<Inner>,
}

/// Files and links that no output may replace, because they hold keys or lead to them. They are identified by device
/// and inode.
#[derive(Debug, Default)]
pub struct Spared {
    /// The files and links.
    pub ids: HashSet<(u64, u64)>,
    /// Folders whose direct entries are spared too.
    pub folders: HashSet<(u64, u64)>,
}

impl Spared {
    /// Refuses to replace what is spared, given what has the name.
    fn check(&self, dir: &File, named: &Stat) -> Result<()> {
        if FileType::from_raw_mode(named.st_mode) == FileType::Directory {
            return Ok(());
        }
        if self.ids.contains(&(named.st_dev, named.st_ino)) || self.folders.contains(&id(dir)?) {
            return Err(Error::write(Obstacle::HoldsKey));
        }
        Ok(())
    }
}

/// What has a name in a folder. Links are not followed.
pub(crate) fn named(dir: &File, name: &OsStr) -> Result<Option<Stat>> {
    match fs::statat(dir, name, AtFlags::SYMLINK_NOFOLLOW) {
        Ok(stat) => Ok(Some(stat)),
        Err(Errno::NOENT) => Ok(None),
        Err(e) => Err(Error::write(e)),
    }
}

#[derive(Debug, Default)]
struct Inner {
    ids: HashSet<(u64, u64)>,
    /// The folders that the run has written to, and whether they ignore the case of names, once that is known.
    folders: HashMap<(u64, u64), Option<bool>>,
}

impl Made {
    /// The outputs of a run that replaces none of these.
    #[must_use]
    pub fn sparing(spared: Arc<Spared>) -> Self {
        Self { spared, inner: Mutex::default() }
    }

    /// Refuses to replace what is spared.
    ///
    /// # Errors
    /// [`Error::Write`](phalanx_core::Error::Write) with [`Obstacle::HoldsKey`] if the name leads to such a file, or
    /// [`Error::Write`](phalanx_core::Error::Write) if it cannot be looked up.
    pub fn check(&self, dir: &File, name: &OsStr) -> Result<()> {
        named(dir, name)?.map_or(Ok(()), |stat| self.check_named(dir, &stat))
    }

    /// [`Made::check`], given what has the name.
    pub(crate) fn check_named(&self, dir: &File, named: &Stat) -> Result<()> {
        self.spared.check(dir, named)
    }

    /// Refuses to write to an open file, such as standard output, if it is spared. Only regular files count, because a
    /// terminal may be standard input too.
    ///
    /// # Errors
    /// [`Error::Write`](phalanx_core::Error::Write) with [`Obstacle::HoldsKey`] if it is spared.
    pub fn check_open(&self, file: &File) -> Result<()> {
        let is_spared = |meta: Metadata| {
            let id = || files::id_of_open(file, &meta).is_ok_and(|id| self.spared.ids.contains(&id));
            meta.is_file() && id()
        };
        if file.metadata().is_ok_and(is_spared) { Err(Error::write(Obstacle::HoldsKey)) } else { Ok(()) }
    }

    /// Adds a folder or link by its device and inode. Returns whether it is new.
    pub fn insert(&self, id: (u64, u64)) -> bool {
        self.lock().ids.insert(id)
    }

    /// Whether the run has made it.
    pub fn contains(&self, id: (u64, u64)) -> bool {
        self.lock().ids.contains(&id)
    }

    /// Renames the file with this id. It may replace a file that the run has not made.
    ///
    /// # Errors
    /// [`Error::OwnOutput`] if the run has made the existing file of that name, or an error if renaming failed.
    pub fn replace(&self, id: (u64, u64), dir: &File, from: &OsStr, to: &OsStr) -> Result<()> {
        let mut made = self.lock();
        if let Some(stat) = named(dir, to)? {
            self.check_named(dir, &stat)?;
            if made.ids.contains(&(stat.st_dev, stat.st_ino)) || made.is_alias(dir, to)? {
                return Err(Error::OwnOutput);
            }
            if FileType::from_raw_mode(stat.st_mode) == FileType::Directory {
                return Err(Error::write(Obstacle::FolderInTheWay));
            }
        }
        made.is_written(dir)?;
        fs::renameat(dir, from, dir, to).map_err(Error::write)?;
        made.ids.insert(id);
        Ok(())
    }

    /// Whether an existing name in a folder is another spelling of something that the run may have made there. Records
    /// that the run has written to that folder.
    ///
    /// # Errors
    /// If the folder cannot be looked at.
    pub fn is_alias(&self, dir: &File, name: &OsStr) -> Result<bool> {
        let mut made = self.lock();
        let is_alias = made.is_alias(dir, name)?;
        made.is_written(dir)?;
        Ok(is_alias)
    }

    /// Makes a symbolic link, and returns its device and inode. An existing file or link stays or is replaced.
    ///
    /// # Errors
    /// As for [`Made::replace`], or if the link cannot be made.
    pub fn symlink(&self, target: &CStr, dir: &File, name: &OsStr, force: bool) -> Result<(u64, u64)> {
        let _step = step();
        let id = |name: &OsStr| match fs::statat(dir, name, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(stat) => Ok((stat.st_dev, stat.st_ino)),
            Err(e) => Err(Error::write(e)),
        };
        match fs::symlinkat(target, dir, name) {
            Err(Errno::EXIST) if force => {
                let new = unused_name("link")?;
                fs::symlinkat(target, dir, &*new).map_err(Error::write)?;
                let new = OsStr::new(&new);
                let replaced = id(new).and_then(|id| self.replace(id, dir, new, name));
                if replaced.is_err() {
                    let _ = fs::unlinkat(dir, new, AtFlags::empty());
                }
                replaced?;
            }
            Err(Errno::EXIST) => return Err(Error::Exists),
            made => made.map_err(Error::write)?,
        }
        let made = id(name)?;
        self.insert(made);
        Ok(made)
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }
}

impl Inner {
    fn is_written(&mut self, dir: &File) -> Result<()> {
        self.folders.entry(id(dir)?).or_default();
        Ok(())
    }

    /// Inodes do not help here, because some file systems make up a new one for each spelling.
    fn is_alias(&mut self, dir: &File, name: &OsStr) -> Result<bool> {
        let Some(folds) = self.folders.get_mut(&id(dir)?) else { return Ok(false) };
        let folds = match *folds {
            Some(folds) => folds,
            None => {
                let Some(other) = swap_case(name) else { return Ok(false) };
                let answers = fs::statat(dir, &other, AtFlags::SYMLINK_NOFOLLOW).is_ok();
                // If the other one is listed, it may be a file of its own, or the one that this name leads to.
                let found = answers && !(is_listed(dir, &other)? && is_listed(dir, name)?);
                // Some file systems ignore the case of the letters of ASCII only, so others show nothing by being told apart.
                if found || name.as_bytes().iter().any(u8::is_ascii_alphabetic) {
                    *folds = Some(found);
                }
                found
            }
        };
        Ok(folds && !is_listed(dir, name)?)
    }
}

/// Another spelling of a name, which differs from it in capitals only; `None` if it has none. The letters of ASCII are swapped, which
/// every file system knows that ignores case, or else the first other letter with a single counterpart.
pub(crate) fn swap_case(name: &OsStr) -> Option<OsString> {
    if name.as_bytes().iter().any(u8::is_ascii_alphabetic) {
        let swap = |b: &u8| if b.is_ascii_lowercase() { b.to_ascii_uppercase() } else { b.to_ascii_lowercase() };
        return Some(OsString::from_vec(name.as_bytes().iter().map(swap).collect()));
    }
    let name = name.to_str()?;
    let (at, letter, other) = name.char_indices().find_map(|(at, letter)| Some((at, letter, counterpart(letter)?)))?;
    Some(format!("{}{other}{}", &name[..at], &name[at + letter.len_utf8()..]).into())
}

/// The capital of a small letter, or the small letter of a capital, if each is the only one of the other.
pub(crate) fn counterpart(letter: char) -> Option<char> {
    let (small, capital) = (only(letter.to_lowercase())?, only(letter.to_uppercase())?);
    let is_pair = only(small.to_uppercase()) == Some(capital) && only(capital.to_lowercase()) == Some(small);
    match () {
        () if small == capital || !is_pair => None,
        () if letter == small => Some(capital),
        () if letter == capital => Some(small),
        () => None,
    }
}

fn only(mut letters: impl Iterator<Item = char>) -> Option<char> {
    letters.next().filter(|_| letters.next().is_none())
}

/// Whether a folder has an entry of exactly this name.
pub(crate) fn is_listed(dir: &File, name: &OsStr) -> Result<bool> {
    for entry in Dir::read_from(dir).map_err(Error::read)? {
        if entry.map_err(Error::read)?.file_name().to_bytes() == name.as_bytes() {
            return Ok(true);
        }
    }
    Ok(false)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn another_spelling_differs_in_capitals_only() {
        let spelling = |name: &str| swap_case(OsStr::new(name));
        for (name, other) in
            [("a.phx", "A.PHX"), ("Straße", "sTRAßE"), ("Фото", "фото"), ("фото", "Фото"), ("7ö", "7Ö")]
        {
            assert_eq!(spelling(name), Some(other.into()), "{name}");
        }
        // What has several counterparts, or none, is passed by.
        assert_eq!(spelling("ßςя"), Some("ßςЯ".into()));
        for name in ["日記", "ß", "1", ""] {
            assert_eq!(spelling(name), None, "{name}");
        }
        assert_eq!(swap_case(OsStr::from_bytes(b"\xff")), None);
    }
}
