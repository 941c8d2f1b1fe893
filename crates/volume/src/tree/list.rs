//! What is in a folder.

use super::attr::Attr;
use super::node::Kind;
use super::remove::{MAX_REMOVED, is_left};
use super::{Dir, Tree, kind, lock, read};
use crate::error::Result;
use crate::folder::{SAFELY, read_full};
use crate::names::{is_entry, is_long};
use rustix::fd::{AsFd, OwnedFd};
use rustix::fs::{AtFlags, FileType, Mode, OFlags, RawDir, openat, statat};
use rustix::io::Errno;
use std::mem::MaybeUninit;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// The memory that the entries of one folder may take, in bytes: some millions of entries.
const MAX_LISTING: usize = 192 << 20;
/// The memory that the entries of all lists may take together, in bytes. Whoever may open folders can keep many of them open.
const MAX_LISTINGS: usize = 256 << 20;
/// How much of a folder is read at once, in bytes.
const BUFFER: usize = 64 << 10;

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

/// The entries that a folder had at one moment. Their names are decrypted when they are asked for.
pub struct Listing {
    dir: Dir,
    /// All stored names, one after another.
    names: Vec<u8>,
    entries: Vec<Stored>,
    /// How often the folder's entries had changed.
    changes: u64,
    _memory: Memory,
}

/// The memory that a list takes of that for all lists, until it is dropped.
struct Memory {
    bytes: usize,
    all: Arc<AtomicUsize>,
}

impl Memory {
    /// Takes more. Says whether there is as much.
    fn take(&mut self, bytes: usize) -> bool {
        self.bytes += bytes;
        let all = self.all.fetch_add(bytes, Ordering::Relaxed) + bytes;
        self.bytes <= MAX_LISTING && all <= MAX_LISTINGS
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        self.all.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

#[derive(Clone, Copy)]
struct Stored {
    inode: u64,
    /// Where its name ends in `names`.
    end: usize,
    kind: Option<Kind>,
}

impl Listing {
    /// How many entries were stored. Those that cannot be decrypted are among them.
    #[must_use]
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether nothing was stored.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// The number of the folder's node.
    #[must_use]
    pub fn folder(&self) -> u64 {
        self.dir.folder.number
    }

    fn stored(&self, index: usize) -> Option<(&[u8], Stored)> {
        let entry = *self.entries.get(index)?;
        let start = index.checked_sub(1).map_or(0, |before| self.entries[before].end);
        Some((&self.names[start..entry.end], entry))
    }
}

impl Tree {
    /// Reads which entries a folder has, and removes what killed runs have left in it, some of it each time. While somebody
    /// holds a list and no entry has changed through this tree, there is no second list.
    ///
    /// # Errors
    /// As `getdents` has them, and `ENOMEM` for a folder of many millions of entries, or if all lists together have as many.
    pub fn list(&self, number: u64) -> Result<Arc<Listing>> {
        let dir = self.dir(number)?;
        let folder = dir.folder.clone();
        // Nobody is changing an entry now. Who does so later counts it first.
        let changes = *read(&folder.lock);
        let last = lock(&folder.listing).upgrade();
        if let Some(listing) = last.filter(|listing| listing.changes == changes) {
            return Ok(listing);
        }
        let mut memory = Memory { bytes: 0, all: self.listed.clone() };
        let (mut names, mut entries) = (Vec::new(), Vec::new());
        let (mut left, mut has_room) = (Vec::new(), true);
        each_entry(&dir.fd, |name, inode, file_type| {
            if is_entry(name) {
                has_room = memory.take(name.len() + size_of::<Stored>());
                names.extend_from_slice(name);
                entries.push(Stored { inode, end: names.len(), kind: kind(file_type) });
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
        let listing = Arc::new(Listing { dir, names, entries, changes, _memory: memory });
        *lock(&folder.listing) = Arc::downgrade(&listing);
        Ok(listing)
    }

    /// An entry of a list. `None` if there is none at this index any more, or its name does not decrypt in this folder; then
    /// [`Listing::len`] says whether there are more.
    #[must_use]
    pub fn entry(&self, listing: &Listing, index: usize) -> Option<Entry> {
        let (stored, entry) = listing.stored(index)?;
        let name = self.plain_name(&listing.dir, stored)?;
        let kind = entry.kind.or_else(|| {
            // The file system does not say it in the list.
            let stat = statat(&listing.dir.fd, stored, AtFlags::SYMLINK_NOFOLLOW).ok()?;
            kind(FileType::from_raw_mode(stat.st_mode))
        })?;
        Some(Entry { name, number: self.nodes().number(entry.inode), kind })
    }

    /// Like [`Tree::lookup`] for an entry of a list, without encrypting its name again.
    ///
    /// # Errors
    /// As [`Tree::lookup`]: `ENOENT` if it has gone meanwhile.
    pub fn lookup_entry(&self, listing: &Listing, index: usize) -> Result<Attr> {
        let (stored, _) = listing.stored(index).ok_or(Errno::NOENT)?;
        self.lookup_stored(&listing.dir, stored)
    }

    /// The plain name of a stored entry; `None`, and a report, if it does not decrypt.
    fn plain_name(&self, dir: &Dir, stored: &[u8]) -> Option<Vec<u8>> {
        let name = if is_long(stored) {
            let sealed = read_full(dir.fd.as_fd(), stored).ok().flatten();
            let name = sealed.and_then(|sealed| self.names.open_long(&dir.id, stored, &sealed));
            if name.is_none() && matches!(statat(&dir.fd, stored, AtFlags::SYMLINK_NOFOLLOW), Err(Errno::NOENT)) {
                // Removed since the list was read.
                return None;
            }
            name
        } else {
            self.names.open(&dir.id, stored)
        };
        if name.is_none() {
            self.damaged(dir.folder.number, stored, "an entry whose name was not made in this folder");
        }
        name
    }
}

/// Gives each entry of a folder but `.` and `..`: its name, its inode and its type, until told to stop.
pub(super) fn each_entry(folder: &OwnedFd, mut take: impl FnMut(&[u8], u64, FileType) -> bool) -> Result<(), Errno> {
    // Its own descriptor, since the place up to where it has been read belongs to the descriptor.
    let fd = openat(folder, ".", OFlags::RDONLY | OFlags::DIRECTORY | SAFELY, Mode::empty())?;
    let mut buffer = vec![MaybeUninit::uninit(); BUFFER];
    let mut entries = RawDir::new(fd, &mut buffer);
    while let Some(entry) = entries.next() {
        let entry = entry?;
        let name = entry.file_name().to_bytes();
        if name != b"." && name != b".." && !take(name, entry.ino(), entry.file_type()) {
            break;
        }
    }
    Ok(())
}
