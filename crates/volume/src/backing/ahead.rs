//! Reading ahead, for engines that like long jobs: what follows a sequential read is opened in one job and waits as plaintext.
//! Other engines need none of it, because the kernel reads ahead too.

use crate::backing::Backing;
use crate::backing::plan::LARGEST;
use crate::backing::state::State;
use phalanx_core::volume::Records;
use std::collections::VecDeque;
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// How much of all files waits at most, in bytes.
const LIMIT: usize = 32 << 20;
/// Reads are sequential that begin so near to the end of the one before, in bytes: several threads serve them in any order.
const NEAR: u64 = 1 << 20;
/// How much has to be read in order first, in bytes.
const STREAK: u64 = 512 << 10;

/// What was read ahead of all files, the oldest first.
#[derive(Default)]
pub(crate) struct Ahead(Mutex<VecDeque<Arc<Opened>>>);

/// Opened chunks of one file. They are wiped when they are dropped.
pub(crate) struct Opened {
    backing: u64,
    generation: u64,
    pub chunks: Range<u64>,
    records: Records,
}

/// How one file is read.
#[derive(Default)]
pub(super) struct Reads {
    end: AtomicU64,
    streak: AtomicU64,
    /// One at a time reads ahead. The others wait for what it opens.
    turn: Mutex<()>,
}

impl Ahead {
    fn get(&self, backing: u64, generation: u64, index: u64) -> Option<Arc<Opened>> {
        let runs = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let is_it =
            |run: &&Arc<Opened>| run.backing == backing && run.generation == generation && run.chunks.contains(&index);
        runs.iter().find(is_it).cloned()
    }

    /// Older runs of the same file are not asked for again.
    fn put(&self, run: Arc<Opened>) {
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

impl Backing {
    /// Somebody reads a range.
    pub(super) fn note_read(&self, offset: u64, len: usize) {
        let end = offset + len as u64;
        let before = self.reads.end.swap(end, Ordering::Relaxed);
        if offset.abs_diff(before) <= NEAR {
            self.reads.streak.fetch_add(len as u64, Ordering::Relaxed);
        } else {
            self.reads.streak.store(0, Ordering::Relaxed);
        }
    }

    /// The opened run that a stored chunk lies in, if reads are sequential and an engine likes long jobs. `None` if the chunk
    /// is to be opened by itself.
    pub(super) fn read_ahead(&self, st: &State, index: u64) -> Option<Arc<Opened>> {
        let threshold = self.shared.options.threshold;
        if threshold > LARGEST || self.reads.streak.load(Ordering::Relaxed) < STREAK {
            return None;
        }
        let _turn = self.reads.turn.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(run) = self.shared.ahead.get(self.number, st.generation, index) {
            return Some(run);
        }
        let chunk_len = self.chunks.chunk_len();
        let wanted = threshold.max(LARGEST / 2);
        let left = usize::try_from(st.layout.plaintext_len() - index * chunk_len as u64).unwrap_or(usize::MAX);
        let chunks = index..self.run_end(st, index, wanted.min(left), wanted);
        if chunks.end - chunks.start < 2 {
            return None;
        }
        let Ok(records) = self.open_run(st, chunks.clone()) else {
            // Only whoever reads what is damaged gets an error. For a while each read opens what it needs.
            self.reads.streak.store(0, Ordering::Relaxed);
            return None;
        };
        let run = Arc::new(Opened { backing: self.number, generation: st.generation, chunks, records });
        self.shared.ahead.put(run.clone());
        Some(run)
    }
}

impl Opened {
    /// The plaintext of one of its chunks, which has `len` bytes.
    pub fn chunk(&self, index: u64, len: usize) -> &[u8] {
        self.records.chunk((index - self.chunks.start) as usize, len)
    }
}
