//! A list of what is in a folder.

use crate::names::FolderId;
use crate::tree::kind::Kind;
use rustix::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// The memory that the entries of one folder may take, in bytes: some millions of entries.
const MAX_LISTING: usize = 192 << 20;
/// The memory that the entries of all lists may take together, in bytes. Users can keep many folders open.
const MAX_LISTINGS: usize = 256 << 20;
/// The entries that a folder had at one moment. Their names are decrypted when they are asked for.
pub struct Listing {
    /// The number of the folder's node.
    pub(super) number: u64,
    pub(super) fd: Arc<OwnedFd>,
    pub(super) id: FolderId,
    /// All stored names, one after another.
    pub(super) names: Vec<u8>,
    pub(super) entries: Vec<Listed>,
    /// How often the folder's entries had changed when the list was read.
    pub(super) changes: u64,
    pub(super) _memory: Memory,
}

/// A list's share of the memory for all lists. It is returned when this is dropped.
pub(super) struct Memory {
    bytes: usize,
    all: Arc<AtomicUsize>,
}

impl Memory {
    /// Takes no memory yet.
    pub fn new(all: Arc<AtomicUsize>) -> Self {
        Self { bytes: 0, all }
    }

    /// Takes more memory. Returns whether there is enough.
    pub fn take(&mut self, bytes: usize) -> bool {
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

/// A stored entry.
#[derive(Clone, Copy)]
pub(super) struct Listed {
    pub inode: u64,
    /// Where its name ends in `names`.
    pub end: usize,
    pub kind: Option<Kind>,
}

impl Listing {
    /// How many entries were stored. Those that cannot be decrypted are among them.
    #[must_use]
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether no entries were stored.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// The number of the folder's node.
    #[must_use]
    pub fn folder(&self) -> u64 {
        self.number
    }

    pub(super) fn stored(&self, index: usize) -> Option<(&[u8], Listed)> {
        let entry = *self.entries.get(index)?;
        let start = index.checked_sub(1).map_or(0, |before| self.entries[before].end);
        Some((&self.names[start..entry.end], entry))
    }
}
