//! Looking up names, and forgetting nodes when the kernel does.

use crate::error::Result;
use crate::tree::attr::Attr;
use crate::tree::base::{Dir, Tree};
use crate::tree::node::read;
use rustix::fs::{AtFlags, Stat, statat};

impl Tree {
    /// Finds an entry of a folder. Its node stays known until it is forgotten.
    ///
    /// # Errors
    /// `ENOENT` if there is none, `ENAMETOOLONG` above 255 bytes; [`VolumeError::Damaged`](crate::VolumeError::Damaged)
    /// if the folder does not belong where it is, or another file system is mounted on the entry.
    pub fn lookup(&self, parent: u64, name: &[u8]) -> Result<Attr> {
        let dir = self.dir(parent)?;
        let stored = self.names.seal(&dir.id, name)?;
        self.lookup_stored(&dir, &stored.entry)
    }

    pub(super) fn lookup_stored(&self, dir: &Dir, stored: &[u8]) -> Result<Attr> {
        let _guard = read(&dir.folder.lock);
        let stat = statat(&dir.fd, stored, AtFlags::SYMLINK_NOFOLLOW)?;
        self.known(dir, stored, &stat)
    }

    /// Records an entry that the kernel gets to know. The folder's lock is held.
    pub(super) fn known(&self, dir: &Dir, stored: &[u8], stat: &Stat) -> Result<Attr> {
        let kind = self.kind(stat)?;
        let seen = self.nodes().looked_up(kind, stat.st_ino, dir.folder.number, stored);
        let (number, dropped) = seen.inspect_err(|error| self.report(error))?;
        self.drop_all(dropped);
        Ok(self.attr(number, kind, stat))
    }

    /// Records that the kernel has forgotten this many lookups of a node.
    pub fn forget(&self, number: u64, times: u64) {
        let dropped = self.nodes().forget(number, times);
        self.drop_all(dropped);
    }
}
