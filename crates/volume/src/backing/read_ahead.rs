//! Reading ahead, for engines that prefer long jobs: what follows a sequential read is opened in one job and waits as
//! plaintext. Other engines do not need it, because the kernel reads ahead too.

use crate::backing::Backing;
use crate::backing::ahead::Opened;
use crate::backing::content::Content;
use crate::backing::plan::LARGEST;
use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError};

/// A read is sequential if it begins within this many bytes of the end of the last one. Several threads serve reads in
/// any order.
const NEAR: u64 = 1 << 20;
/// How much has to be read in order first, in bytes.
const STREAK: u64 = 512 << 10;

impl Backing {
    /// Records a read, to recognize sequential reads.
    pub(super) fn note_read(&self, offset: u64, len: usize) {
        let end = offset + len as u64;
        let before = self.reads.end.swap(end, Ordering::Relaxed);
        if offset.abs_diff(before) <= NEAR {
            self.reads.streak.fetch_add(len as u64, Ordering::Relaxed);
        } else {
            self.reads.streak.store(0, Ordering::Relaxed);
        }
    }

    /// The opened run that a stored chunk lies in, if reads are sequential and an engine prefers long jobs. `None` if
    /// the chunk is to be opened by itself.
    pub(super) fn read_ahead(&self, content: &Content, index: u64) -> Option<Arc<Opened>> {
        let threshold = self.shared.options.threshold;
        if threshold > LARGEST || self.reads.streak.load(Ordering::Relaxed) < STREAK {
            return None;
        }
        let _turn = self.reads.turn.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(run) = self.shared.ahead.get(self.number, content.generation, index) {
            return Some(run);
        }
        let chunk_len = self.chunks.chunk_len();
        let wanted = threshold.max(LARGEST / 2);
        let left = usize::try_from(content.layout.plaintext_len() - index * chunk_len as u64).unwrap_or(usize::MAX);
        let chunks = index..self.run_end(content, index, wanted.min(left), wanted);
        if chunks.end - chunks.start < 2 {
            return None;
        }
        let Ok(records) = self.open_run(content, chunks.clone()) else {
            // Only a read of damaged chunks may fail. So for a while each read opens only what it needs.
            self.reads.streak.store(0, Ordering::Relaxed);
            return None;
        };
        let run = Arc::new(Opened { backing: self.number, generation: content.generation, chunks, records });
        self.shared.ahead.put(run.clone());
        Some(run)
    }
}
