//! Inputs: regular files that are read and may be deleted afterwards.
//!
//! A file is opened within its folder, which stays open, so a change of the path meanwhile has no effect. Opening never
//! blocks.

use crate::file::names::rename_new;
use crate::file::obstacle::Obstacle;
use crate::file::temporary::{step, unused_name};
use crate::{Error, Result};
use phalanx_core::Error as CoreError;
use phalanx_system::files::{ends_in_slash, keep_from_writers};
use phalanx_system::fs::{self, AtFlags, FileType, Mode, OFlags, Stat};
use phalanx_system::parent;
use std::collections::HashSet;
use std::ffi::{CString, OsStr, OsString};
use std::fs::File;
use std::io;
use std::path::Path;
use std::sync::{Arc, LazyLock, Mutex, MutexGuard};

/// A regular file that has been opened for reading.
#[derive(Debug)]
pub struct InputFile {
    file: File,
    /// The stamp of the file when it was opened.
    stamp: Stamp,
    /// Its folder and its name there. `None` if the path has no last name, or ends in a slash.
    entry: Option<(Arc<File>, OsString)>,
}

impl InputFile {
    /// Opens a regular file. A symbolic link is followed; folders, pipes, sockets and devices are refused.
    ///
    /// # Errors
    /// [`Error::Read`](phalanx_core::Error::Read) if it cannot be opened, or is not a regular file.
    pub fn open(path: &Path) -> Result<Self> {
        match path.file_name() {
            Some(name) if !ends_in_slash(path) => {
                Self::open_entry(Arc::new(search(parent(path))?), name, OFlags::empty())
            }
            _ => Self::new(fs::open(path, FLAGS, Mode::empty()).map_err(Error::read)?.into(), None),
        }
    }

    /// Opens a regular file in an opened folder. A symbolic link is not followed.
    ///
    /// # Errors
    /// [`Error::Read`](phalanx_core::Error::Read) if it cannot be opened, or is not a regular file.
    pub fn open_in(dir: Arc<File>, name: &OsStr) -> Result<Self> {
        Self::open_entry(dir, name, OFlags::NOFOLLOW)
    }

    fn open_entry(dir: Arc<File>, name: &OsStr, more: OFlags) -> Result<Self> {
        let file = fs::openat(&dir, name, FLAGS | more, Mode::empty()).map_err(Error::read)?;
        Self::new(file.into(), Some((dir, name.to_owned())))
    }

    fn new(file: File, entry: Option<(Arc<File>, OsString)>) -> Result<Self> {
        let stat = fs::fstat(&file).map_err(Error::read)?;
        let refuse = |why: Obstacle| Err(Error::read(why));
        match FileType::from_raw_mode(stat.st_mode) {
            FileType::RegularFile => Ok(Self { file, stamp: Stamp::new(&stat), entry }),
            FileType::Directory => refuse(Obstacle::Folder),
            _ => refuse(Obstacle::NotRegular),
        }
    }

    /// The file, to read from.
    #[must_use]
    pub fn file(&self) -> &File {
        &self.file
    }

    /// The stamp of the file when it was opened.
    #[must_use]
    pub fn stamp(&self) -> Stamp {
        self.stamp
    }

    /// Its open folder, and its name there.
    pub(crate) fn entry(&self) -> Option<&(Arc<File>, OsString)> {
        self.entry.as_ref()
    }

    /// The removal that deletes the file later, when it is no longer open.
    #[must_use]
    pub fn removal(&self) -> Option<Removal> {
        let (dir, name) = self.entry.clone()?;
        Some(Removal { dir, name, stamp: self.stamp, target: None, signature: None })
    }
}

// Without NONBLOCK, opening a pipe without a writer would wait for ever.
const FLAGS: OFlags = OFlags::RDONLY.union(OFlags::CLOEXEC).union(OFlags::NONBLOCK).union(OFlags::NOCTTY);

/// Opens a folder only to reach its entries, so it need not be readable.
fn search(path: &Path) -> Result<File> {
    fs::open(path, fs::SEARCH | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty()).map(File::from).map_err(Error::read)
}

/// The identity of a file, and signs of a write to it: device, inode, length, and the times of its last changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stamp {
    id: (u64, u64),
    len: i64,
    modified: (i64, u64),
    changed: (i64, u64),
}

impl Stamp {
    /// The stamp of a file with these properties.
    #[must_use]
    #[allow(clippy::unnecessary_cast, reason = "rustix over libc, which Miri needs, has another type")]
    pub fn new(stat: &Stat) -> Self {
        Self {
            id: (stat.st_dev, stat.st_ino),
            len: stat.st_size,
            modified: (stat.st_mtime, stat.st_mtime_nsec as u64),
            changed: (stat.st_ctime, stat.st_ctime_nsec as u64),
        }
    }

    /// The stamp of an opened file.
    ///
    /// # Errors
    /// If the file cannot be looked at.
    pub fn of(file: &File) -> io::Result<Self> {
        Ok(Self::new(&fs::fstat(file)?))
    }

    /// Inode, length, and the times of its last changes in seconds and nanoseconds. The device is not among them,
    /// because it may have another number when its file system is mounted again.
    pub(crate) fn fields(&self) -> [u64; 6] {
        let Self { id, len, modified, changed } = *self;
        [id.1, len as u64, modified.0 as u64, modified.1, changed.0 as u64, changed.1]
    }

    /// Device and inode.
    #[must_use]
    pub fn id(&self) -> (u64, u64) {
        self.id
    }

    /// The length in bytes.
    #[must_use]
    pub fn len(&self) -> u64 {
        self.len as u64
    }

    /// Whether the length is 0.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Whether it is the same file and was not written to. The time of the last status change is not compared, because
    /// a new or removed name changes it too.
    #[must_use]
    pub fn has_same_content(&self, now: &Self) -> bool {
        *self == Self { changed: self.changed, ..*now }
    }
}

/// A file or a symbolic link to be deleted, if its name still leads to it.
#[derive(Debug)]
pub struct Removal {
    dir: Arc<File>,
    name: OsString,
    stamp: Stamp,
    /// The target, for a link.
    target: Option<CString>,
    /// That of the file's signature, which goes after it.
    signature: Option<Box<Removal>>,
}

impl Removal {
    /// The removal of a link to `target`, as it is now.
    #[must_use]
    pub fn link(dir: Arc<File>, name: &OsStr, stat: &Stat, target: CString) -> Self {
        Self { dir, name: name.to_owned(), stamp: Stamp::new(stat), target: Some(target), signature: None }
    }

    /// The removal of a file and then of its signature, if it has one.
    #[must_use]
    pub fn with_signature(self, signature: Option<Removal>) -> Self {
        Self { signature: signature.map(Box::new), ..self }
    }

    /// The removal of the signature, which is to follow.
    pub fn take_signature(&mut self) -> Option<Removal> {
        self.signature.take().map(|signature| *signature)
    }

    /// Whether a signature goes too.
    #[must_use]
    pub fn has_signature(&self) -> bool {
        self.signature.is_some()
    }

    /// Deletes it.
    ///
    /// It is compared, renamed aside, compared again, and then deleted. If something else took its name or it was
    /// written to meanwhile, it is put back. On Windows nobody can write to it meanwhile, and it stays if somebody could. Two changes go unnoticed: one between the comparisons that restores the
    /// time of modification, and one through a mapping on a file system that keeps no times for these (tmpfs).
    ///
    /// # Errors
    /// [`Error::Changed`](phalanx_core::Error::Changed) if it changed. It then keeps its name, or has the name in
    /// [`Error::Aside`]. [`Error::Read`](phalanx_core::Error::Read) or [`Error::Write`](phalanx_core::Error::Write) if
    /// it cannot be looked at, renamed or deleted.
    pub fn run(self) -> Result<()> {
        let _step = step();
        let _kept = match self.target {
            None => keep_from_writers(&self.dir, &self.name).map_err(Error::read)?,
            Some(_) => None,
        };
        let stat = |name: &OsStr| fs::statat(&self.dir, name, AtFlags::SYMLINK_NOFOLLOW).map_err(Error::read);
        let before = stat(&self.name)?;
        let now = Stamp::new(&before);
        // Deleting another name of the same file changes the time of the last status change.
        let is_ours = now == self.stamp || unlinked().contains(&now.id) && self.stamp.has_same_content(&now);
        if !is_ours {
            return Err(CoreError::Changed.into());
        }
        let aside = unused_name("removed")?;
        let (name, aside) = (&*self.name, OsStr::new(&aside));
        // Nobody else uses this name, so a plain rename is safe. Some file systems rename without replacing in two
        // steps, and a new file could appear in between.
        fs::renameat(&self.dir, name, &self.dir, aside).map_err(Error::write)?;
        let removed = match stat(aside) {
            Ok(now) if self.stamp.has_same_content(&Stamp::new(&now)) && self.leads_as_before(aside) => {
                fs::unlinkat(&self.dir, aside, AtFlags::empty()).map_err(Error::write)
            }
            Ok(_) => Err(CoreError::Changed.into()),
            Err(error) => Err(error),
        };
        if removed.is_ok() && before.st_nlink > 1 {
            unlinked().insert(self.stamp.id);
        }
        removed.map_err(|error| match rename_new(&self.dir, aside, name) {
            Ok(()) => error,
            Err(_) => Error::Aside(aside.to_string_lossy().into_owned()),
        })
    }

    fn leads_as_before(&self, name: &OsStr) -> bool {
        let Some(target) = &self.target else { return true };
        fs::readlinkat(&self.dir, name, Vec::new()).is_ok_and(|now| now == *target)
    }
}

/// The files with several names, one of which this process has deleted.
fn unlinked() -> MutexGuard<'static, HashSet<(u64, u64)>> {
    static UNLINKED: LazyLock<Mutex<HashSet<(u64, u64)>>> = LazyLock::new(Mutex::default);
    UNLINKED.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
}
