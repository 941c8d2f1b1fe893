//! Plaintext that was read ahead and waits to be used.

use phalanx_core::volume::Records;
use std::collections::VecDeque;
use std::ops::Range;
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex, PoisonError};

/// How much of all files waits at most, in bytes.
const LIMIT: usize = 32 << 20;

/// The runs that were read ahead of all files, the oldest first.
#[derive(Default)]
pub(crate) struct Ahead(Mutex<VecDeque<Arc<Opened>>>);

/// Opened chunks of one file. They are wiped when they are dropped.
pub(crate) struct Opened {
    /// A number that no other `Backing` of the mount has.
    pub backing: u64,
    /// How often the file has been committed.
    pub generation: u64,
    pub chunks: Range<u64>,
    pub records: Records,
}

/// How one file is read.
#[derive(Default)]
pub(super) struct Reads {
    /// Where the last read ended.
    pub end: AtomicU64,
    /// How much was read in order.
    pub streak: AtomicU64,
    /// Held by the one thread that reads ahead. The others wait for what it opens.
    pub turn: Mutex<()>,
}

impl Ahead {
    pub fn get(&self, backing: u64, generation: u64, index: u64) -> Option<Arc<Opened>> {
        let runs = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let is_it =
            |run: &&Arc<Opened>| run.backing == backing && run.generation == generation && run.chunks.contains(&index);
        runs.iter().find(is_it).cloned()
    }

    /// Adds a run. Of the older runs of the same file, only the one directly before it is kept.
    pub fn put(&self, run: Arc<Opened>) {
        let mut gone = Vec::new();
        let mut runs = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let kept = |old: &Arc<Opened>| {
            old.backing != run.backing || (old.generation == run.generation && old.chunks.end == run.chunks.start)
        };
        gone.extend(runs.iter().filter(|old| !kept(old)).cloned());
        runs.retain(kept);
        runs.push_back(run);
        let mut all: usize = runs.iter().map(|run| run.records.bytes().len()).sum();
        while all > LIMIT && runs.len() > 1 {
            let Some(old) = runs.pop_front() else { break };
            all -= old.records.bytes().len();
            gone.push(old);
        }
        // Wiping takes a while.
        drop(runs);
        drop(gone);
    }

    /// Forgets the chunks of a file.
    pub fn forget(&self, backing: u64) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).retain(|run| run.backing != backing);
    }
}

impl Opened {
    /// The plaintext of one of its chunks, which has `len` bytes.
    pub fn chunk(&self, index: u64, len: usize) -> &[u8] {
        self.records.chunk((index - self.chunks.start) as usize, len)
    }
}
