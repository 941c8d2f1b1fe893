//! The chunks of all files that were last opened because a part of them was read.

use crate::backing::page::Page;
use std::collections::VecDeque;
use std::sync::{Arc, Mutex};

/// The most memory that they take, in bytes, unless a single chunk takes more.
const LIMIT: usize = 4 << 20;
/// How many there are at most. Each call searches all of them.
const MOST: usize = 1024;

/// Identifies a chunk of one state of its file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ChunkId {
    /// A number that no other `Backing` of the mount has.
    pub backing: u64,
    /// How often the file has been committed.
    pub generation: u64,
    pub index: u64,
}

#[derive(Default)]
pub(crate) struct Cache(Mutex<VecDeque<(ChunkId, Arc<Page>)>>);

impl Cache {
    pub fn get(&self, id: ChunkId) -> Option<Arc<Page>> {
        let mut pages = self.0.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        let place = pages.iter().position(|(its, _)| *its == id)?;
        let found = pages.remove(place)?;
        pages.push_back(found.clone());
        Some(found.1)
    }

    pub fn put(&self, id: ChunkId, page: Arc<Page>) {
        let mut pages = self.0.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        // Chunks of earlier states of the file are never needed again.
        pages
            .retain(|(its, _)| its.backing != id.backing || (its.generation == id.generation && its.index != id.index));
        pages.push_back((id, page));
        let mut all: usize = pages.iter().map(|(_, page)| page.room()).sum();
        while pages.len() > MOST || (all > LIMIT && pages.len() > 1) {
            all -= pages.pop_front().map_or(0, |(_, page)| page.room());
        }
    }

    /// Forgets the chunks of a file.
    pub fn forget(&self, backing: u64) {
        self.0.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).retain(|(its, _)| its.backing != backing);
    }
}
