//! Telling the store which files lose or get a name, for volumes that find files which come back.

use crate::error::Result;
use crate::tree::base::{Dir, Tree};
use crate::tree::stored::{change_mode, through_proc};
use rustix::fd::OwnedFd;
use rustix::fs::{CWD, FileType, Mode, OFlags, Stat, fstat, openat};
use rustix::io::Errno;
use std::cell::Cell;
use std::fs::File;
use std::sync::Arc;

/// A file that is about to lose a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Removal {
    /// Its inode.
    pub inode: u64,
    /// Its id.
    pub id: [u8; 16],
}

/// Takes a name away.
pub type Act<'a> = dyn FnMut() -> Result<(), Errno> + 'a;

/// Is told which files lose or get a name.
pub trait Removals: Send + Sync {
    /// Identifies a stored file. `open` opens it for reading, if that is necessary.
    fn identify(&self, inode: u64, open: &dyn Fn() -> Option<File>) -> Option<Removal>;

    /// Takes a name away from a file by `act`, in a folder which has this number and this descriptor. `links` says how many
    /// names there are. With `is_replaced` another entry gets the name.
    ///
    /// # Errors
    /// Those of `act`.
    fn remove(
        &self,
        removal: Removal,
        links: &dyn Fn() -> u64,
        folder: (u64, &Arc<OwnedFd>),
        is_replaced: bool,
        act: &mut Act<'_>,
    ) -> Result<(), Errno>;

    /// A file is about to get one more name.
    ///
    /// # Errors
    /// If that cannot be recorded. The file then does not get the name.
    fn linking(&self, file: Removal) -> Result<()>;
}

impl Tree {
    /// From now on, tells which files lose or get a name. Only the first call counts.
    pub fn tell_removals(&self, to: Arc<dyn Removals>) {
        let _ = self.removals.set(to);
    }

    /// Identifies the file of a descriptor that is good for attributes only, if somebody wants to know. `None` for one that cannot be
    /// read: it can be removed all the same, and nobody knows which one it was.
    ///
    /// # Errors
    /// Those that pass, such as too many open files.
    pub(super) fn identify(&self, handle: &OwnedFd) -> Result<Option<Removal>, Errno> {
        let Some(removals) = self.removals.get() else { return Ok(None) };
        let Ok(stat) = fstat(handle) else { return Ok(None) };
        if FileType::from_raw_mode(stat.st_mode) != FileType::RegularFile {
            return Ok(None);
        }
        let failed = Cell::new(None);
        let found = removals.identify(stat.st_ino, &|| open(handle, &stat).inspect_err(|e| failed.set(Some(*e))).ok());
        match (found, failed.get()) {
            (None, Some(e @ (Errno::MFILE | Errno::NFILE | Errno::NOMEM | Errno::INTR))) => Err(e),
            (found, _) => Ok(found),
        }
    }

    /// Takes a name away by `act` from the inode of a descriptor that is good for attributes only.
    pub(super) fn unname(
        &self,
        handle: &OwnedFd,
        dir: &Dir,
        is_replaced: bool,
        mut act: impl FnMut() -> Result<(), Errno>,
    ) -> Result<(), Errno> {
        match (self.removals.get(), self.identify(handle)?) {
            (Some(removals), Some(removal)) => {
                let links = || links(handle).unwrap_or(0);
                removals.remove(removal, &links, (dir.folder.number, &dir.fd), is_replaced, &mut act)
            }
            _ => act(),
        }
    }

    /// Tells that a file is about to get one more name.
    pub(super) fn linking(&self, handle: &OwnedFd) -> Result<()> {
        match (self.removals.get(), self.identify(handle)?) {
            (Some(removals), Some(file)) => removals.linking(file),
            _ => Ok(()),
        }
    }
}

#[allow(clippy::useless_conversion, reason = "the type of this field depends on the architecture")]
fn links(handle: &OwnedFd) -> Option<u64> {
    Some(fstat(handle).ok()?.st_nlink.into())
}

/// Opens a file for reading, even if its permissions forbid that to its owner.
fn open(handle: &OwnedFd, stat: &Stat) -> Result<File, Errno> {
    let open = || openat(CWD, through_proc(handle), OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NONBLOCK, Mode::empty());
    let opened = match open() {
        Err(Errno::ACCESS) => {
            change_mode(handle, stat.st_mode | Mode::RUSR.bits())?;
            let opened = open();
            change_mode(handle, stat.st_mode)?;
            opened
        }
        opened => opened,
    };
    opened.map(File::from)
}
