//! What lies in the current folder of a mirror, beside a source or a manifest that is walked.

use super::chain::Beside;
use crate::file::{ListedObject, ObjectFolder};
use crate::folders::{entries, kind_of};
use crate::{Error, Result};
use phalanx_system::fs::{self, AtFlags, FileType, Mode, OFlags};
use phalanx_system::io::Errno;
use phalanx_system::os::ffi::{OsStrExt, stored_name};
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::sync::Arc;

/// The folders of a mirror from the root to the current one.
#[derive(Debug)]
pub enum There {
    /// They lie on a disk. Some may be missing.
    Folder(Beside),
    /// They are objects, whose names are in memory.
    Objects(Objects),
}

/// A stored file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StoredFile {
    /// Its length in bytes.
    pub len: u64,
    /// Its user and group, if it has any.
    pub owner: Option<(u32, u32)>,
}

/// What a link of the mirror is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StoredLink {
    /// There is none.
    Missing,
    /// It leads elsewhere.
    Other,
    /// It is there and leads where it should.
    Same,
}

impl There {
    /// On a disk, from an open root on, if there is one.
    ///
    /// # Errors
    /// If it cannot be looked at.
    pub fn folder(root: Option<File>) -> Result<Self> {
        Beside::new(root).map(There::Folder)
    }

    /// In a store. The names of all its objects are read.
    ///
    /// # Errors
    /// Errors of the store.
    pub fn objects(folder: &Arc<dyn ObjectFolder>) -> Result<Self> {
        Ok(There::Objects(Objects::new(folder.list().map_err(Error::read)?)))
    }

    /// Whether the current folder is there. In a store each folder is.
    #[must_use]
    pub fn is_there(&self) -> bool {
        match self {
            There::Folder(beside) => beside.current().is_some(),
            There::Objects(_) => true,
        }
    }

    /// Enters a folder in the current one, whether it is there or not. Returns whether it is.
    pub fn enter(&mut self, name: &OsStr) -> bool {
        match self {
            There::Folder(beside) => beside.enter(name),
            There::Objects(objects) => {
                objects.enter(name);
                true
            }
        }
    }

    /// Goes back to the folder above.
    ///
    /// # Errors
    /// If it has been moved, or cannot be opened again.
    pub fn leave(&mut self) -> Result<()> {
        match self {
            There::Folder(beside) => beside.leave(),
            There::Objects(objects) => {
                objects.leave();
                Ok(())
            }
        }
    }

    /// The current folder as an open one, if it lies on a disk and is there.
    #[must_use]
    pub fn opened(&self) -> Option<&File> {
        if let There::Folder(beside) = self { beside.current() } else { None }
    }

    /// A stored file in the current folder.
    #[must_use]
    pub fn file(&self, name: &OsStr) -> Option<StoredFile> {
        match self {
            There::Folder(beside) => {
                let stat = fs::statat(beside.current()?, name, AtFlags::SYMLINK_NOFOLLOW).ok()?;
                let is_file = FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile;
                is_file.then_some(StoredFile { len: stat.st_size as u64, owner: Some((stat.st_uid, stat.st_gid)) })
            }
            There::Objects(objects) => objects.len_of(name).map(|len| StoredFile { len, owner: None }),
        }
    }

    /// A link in the current folder that should lead to `target`. A store has no links: the manifest alone lists them.
    #[must_use]
    pub fn link(&self, name: &OsStr, target: &[u8]) -> StoredLink {
        match self {
            There::Folder(beside) => {
                match beside.current().and_then(|folder| fs::readlinkat(folder, name, Vec::new()).ok()) {
                    None => StoredLink::Missing,
                    Some(stored) if stored.as_bytes() == target => StoredLink::Same,
                    Some(_) => StoredLink::Other,
                }
            }
            There::Objects(_) => StoredLink::Same,
        }
    }

    /// Whether the current folder is there and lacks an entry that should be in it.
    #[must_use]
    pub fn lacks(&self, name: &OsStr, is_file: bool) -> bool {
        match self {
            There::Folder(beside) => beside.current().is_some_and(|folder| kind_of(folder, name) == Err(Errno::NOENT)),
            There::Objects(objects) => is_file && objects.len_of(name).is_none(),
        }
    }

    /// The entries of the current folder, in the order of their names.
    ///
    /// # Errors
    /// If it is not there, or cannot be read.
    pub fn entries(&self) -> Result<Vec<(OsString, FileType)>> {
        match self {
            There::Folder(beside) => entries(beside.current().ok_or_else(|| Error::read(Errno::NOENT))?),
            There::Objects(objects) => Ok(objects.entries()),
        }
    }
}

/// The names of a folder's objects, seen as folders and files.
#[derive(Clone, Debug)]
pub struct Objects {
    /// In the order of their names.
    all: Arc<Vec<ListedObject>>,
    /// The name of the current folder, with a slash at its end unless it is the root.
    path: Vec<u8>,
    /// The lengths of the names of the folders above.
    above: Vec<usize>,
}

impl Objects {
    /// Begins at the root. The objects are in the order of their names.
    #[must_use]
    pub fn new(all: Vec<ListedObject>) -> Self {
        Self { all: Arc::new(all), path: Vec::new(), above: Vec::new() }
    }

    fn enter(&mut self, name: &OsStr) {
        self.above.push(self.path.len());
        self.path.extend_from_slice(name.as_bytes());
        self.path.push(b'/');
    }

    fn leave(&mut self) {
        self.path.truncate(self.above.pop().expect("the root is never left"));
    }

    /// The length of an object in the current folder.
    fn len_of(&self, name: &OsStr) -> Option<u64> {
        let whole = [&self.path, name.as_bytes()].concat();
        let at = self.all.binary_search_by(|object| object.name.as_bytes().cmp(&whole)).ok()?;
        Some(self.all[at].len)
    }

    fn entries(&self) -> Vec<(OsString, FileType)> {
        let from = |name: &[u8]| self.all.partition_point(|object| object.name.as_bytes() < name);
        let (mut at, mut found) = (from(&self.path), Vec::new());
        while let Some(rest) = self.all.get(at).and_then(|object| object.name.as_bytes().strip_prefix(&*self.path)) {
            match rest.iter().position(|byte| *byte == b'/') {
                None => {
                    found.push((stored_name(rest).to_owned(), FileType::RegularFile));
                    at += 1;
                }
                Some(len) => {
                    found.push((stored_name(&rest[..len]).to_owned(), FileType::Directory));
                    // The first name after those that begin with this folder's and a slash.
                    at = from(&[&self.path, &rest[..len], b"0"].concat());
                }
            }
        }
        found.sort_by(|a, b| a.0.cmp(&b.0));
        found
    }

    /// Whether there is an object of this name, from the root on.
    #[must_use]
    pub fn has(&self, name: &str) -> bool {
        self.all.binary_search_by(|object| (*object.name).cmp(name)).is_ok()
    }

    /// The names of all objects in the folder of this name, and of the object of this name.
    pub fn at_and_below(&self, name: &str) -> impl Iterator<Item = &str> {
        let below = format!("{name}/");
        let from = self.all.partition_point(|object| *object.name < *name);
        let near = self.all[from..].iter().map(|object| &*object.name).take_while(move |other| other.starts_with(name));
        near.filter(move |other| *other == name || other.starts_with(&below))
    }
}

/// Opens a stored file.
pub(super) fn open_stored(dir: &File, name: &OsStr) -> phalanx_system::io::Result<File> {
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let file = File::from(fs::openat(dir, name, flags, Mode::empty())?);
    match FileType::from_raw_mode(fs::fstat(&file)?.st_mode) {
        FileType::RegularFile => Ok(file),
        _ => Err(Errno::INVAL),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn objects(names: &[&str]) -> Objects {
        let mut names: Vec<_> = names.to_vec();
        names.sort();
        Objects::new(names.into_iter().map(|name| ListedObject { name: name.into(), len: name.len() as u64 }).collect())
    }

    #[test]
    fn folders_are_found_in_names() {
        let mut there = There::Objects(objects(&["a.phx", "a/b.phx", "a/c/d.phx", "a0", "phalanx.tree", "x/y"]));
        let names = |there: &There| {
            let entries = there.entries().unwrap().into_iter();
            let named = |(name, kind): (OsString, FileType)| {
                name.into_string().unwrap() + if kind == FileType::Directory { "/" } else { "" }
            };
            entries.map(named).collect::<Vec<_>>().join(" ")
        };
        assert_eq!(names(&there), "a/ a.phx a0 phalanx.tree x/");
        assert!(there.enter(OsStr::new("a")));
        assert_eq!(names(&there), "b.phx c/");
        assert_eq!(there.file(OsStr::new("b.phx")).map(|file| file.len), Some(7));
        assert!(there.lacks(OsStr::new("d.phx"), true) && !there.lacks(OsStr::new("d"), false));
        there.enter(OsStr::new("nothing"));
        assert_eq!(names(&there), "");
        there.leave().unwrap();
        there.leave().unwrap();
        assert_eq!(names(&there), "a/ a.phx a0 phalanx.tree x/");
    }

    #[test]
    fn what_is_below_a_name_is_found() {
        let all = objects(&["a", "a.phx", "a/b", "a/b/c", "a0", "b"]);
        assert_eq!(all.at_and_below("a").collect::<Vec<_>>(), ["a", "a/b", "a/b/c"]);
        assert_eq!(all.at_and_below("a.phx").collect::<Vec<_>>(), ["a.phx"]);
        assert_eq!(all.at_and_below("c").count(), 0);
    }
}
