//! What is in a folder.

use crate::error::{Result, VolumeError};
use crate::folder::read_full;
use crate::names::{is_entry, is_long};
use crate::tree::attr::Attr;
use crate::tree::base::{Dir, Tree};
use crate::tree::kind::Kind;
use crate::tree::listing::{Listed, Listing, Memory};
use crate::tree::node::read;
use crate::tree::stored::{MAX_REMOVED, each_entry, is_left};
use phalanx_host::lock::lock;
use rustix::fd::AsFd;
use rustix::fs::{AtFlags, FileType, Stat, statat};
use rustix::io::Errno;
use std::sync::Arc;

/// An entry of a folder.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Its plain name.
    pub name: Vec<u8>,
    /// The number that its node has, or would have.
    pub number: u64,
    /// What it is.
    pub kind: Kind,
}

impl Tree {
    /// Reads which entries a folder has, and removes part of what killed runs have left in it. While a list exists and
    /// no entry has changed through this tree, the same list is returned.
    ///
    /// # Errors
    /// As `getdents` has them, and `ENOMEM` for a folder of many millions of entries, or if all lists together have as
    /// many.
    pub fn list(&self, number: u64) -> Result<Arc<Listing>> {
        let dir = self.dir(number)?;
        let folder = dir.folder.clone();
        // No entry is being changed now. Each later change is counted first.
        let changes = *read(&folder.lock);
        let last = lock(&folder.listing).upgrade();
        if let Some(listing) = last.filter(|listing| listing.changes == changes) {
            return Ok(listing);
        }
        let mut memory = Memory::new(self.listed.clone());
        let (mut names, mut entries) = (Vec::new(), Vec::new());
        let (mut left, mut has_room) = (Vec::new(), true);
        each_entry(&dir.fd, |name, inode, file_type| {
            if is_entry(name) {
                has_room = memory.take(name.len() + size_of::<Listed>());
                names.extend_from_slice(name);
                entries.push(Listed { inode, end: names.len(), kind: Kind::of(file_type) });
            } else if is_left(name) && left.len() < MAX_REMOVED {
                left.push(name.to_vec());
            }
            has_room
        })?;
        self.remove_left(&dir.fd, &left);
        if !has_room {
            return Err(Errno::NOMEM.into());
        }
        names.shrink_to_fit();
        entries.shrink_to_fit();
        let Dir { fd, id, .. } = dir;
        let listing = Arc::new(Listing { number, fd, id, names, entries, changes, _memory: memory });
        *lock(&folder.listing) = Arc::downgrade(&listing);
        Ok(listing)
    }

    /// An entry of a list. `None` if there is none at this index any more, or its name does not decrypt in this folder;
    /// then [`Listing::len`] says whether there are more.
    ///
    /// # Errors
    /// [`VolumeError::Unlisted`] if its name or its type cannot be read. It says nothing of the other entries.
    pub fn entry(&self, listing: &Listing, index: usize) -> Result<Option<Entry>> {
        let Some((stored, entry)) = listing.stored(index) else { return Ok(None) };
        self.read_entry(listing, stored, entry).map_err(|error| VolumeError::Unlisted {
            stored: self.stored_path(listing.number, stored),
            errno: error.errno(),
        })
    }

    fn read_entry(&self, listing: &Listing, stored: &[u8], entry: Listed) -> Result<Option<Entry>> {
        let Some(name) = self.plain_name(listing, stored)? else { return Ok(None) };
        let kind = match entry.kind {
            // The file system does not list the type.
            None => stat_entry(listing, stored)?.and_then(|stat| Kind::of(FileType::from_raw_mode(stat.st_mode))),
            kind => kind,
        };
        Ok(kind.map(|kind| Entry { name, number: self.nodes().number(entry.inode), kind }))
    }

    /// Looks up an entry of a list. This does what [`Tree::lookup`] does, without encrypting the name again.
    ///
    /// # Errors
    /// As [`Tree::lookup`]: `ENOENT` if it has gone meanwhile.
    pub fn lookup_entry(&self, listing: &Listing, index: usize) -> Result<Attr> {
        let (stored, _) = listing.stored(index).ok_or(Errno::NOENT)?;
        let folder = self.nodes().folder(listing.number)?;
        self.lookup_stored(&Dir { folder, fd: listing.fd.clone(), id: listing.id }, stored)
    }

    /// The plain name of a stored entry; `None`, and a report, if it does not decrypt.
    fn plain_name(&self, listing: &Listing, stored: &[u8]) -> Result<Option<Vec<u8>>> {
        let name = if is_long(stored) {
            let sealed = read_full(listing.fd.as_fd(), stored)?;
            let name = sealed.and_then(|sealed| self.names.open_long(&listing.id, stored, &sealed));
            if name.is_none() && stat_entry(listing, stored)?.is_none() {
                // Removed since the list was read.
                return Ok(None);
            }
            name
        } else {
            self.names.open(&listing.id, stored)
        };
        if name.is_none() {
            self.damaged(listing.number, stored, "an entry whose name was not made in this folder");
        }
        Ok(name)
    }
}

/// What a stored entry is; `None` if it was removed since the list was read.
fn stat_entry(listing: &Listing, stored: &[u8]) -> Result<Option<Stat>> {
    match statat(&listing.fd, stored, AtFlags::SYMLINK_NOFOLLOW) {
        Ok(stat) => Ok(Some(stat)),
        Err(Errno::NOENT) => Ok(None),
        Err(errno) => Err(errno.into()),
    }
}
