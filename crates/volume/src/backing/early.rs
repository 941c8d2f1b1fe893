//! Sealing the whole chunks of long writes as they arrive, before the file is locked, so that several threads seal in
//! parallel.

use crate::backing::Backing;
use crate::backing::content::Content;
use crate::backing::page::Page;
use crate::backing::sealed::Run;
use crate::error::Result;
use phalanx_core::volume::{Place, Records};
use std::ops::Range;

/// Shorter runs of whole chunks, in bytes, wait as plaintext, because they may be written again before they are
/// committed.
const LEAST: usize = 64 << 10;
/// Longer runs, in bytes, wait too, because they are stored in several transactions. No request of the kernel is so
/// long.
const MOST: usize = 8 << 20;

impl Backing {
    /// Seals the whole chunks of a write, if there are enough of them. The file's last chunk is left out, because the
    /// tag depends on whether a chunk is the last.
    pub(super) fn seal_early(&self, offset: u64, data: &[u8]) -> Result<Option<Run>> {
        // For an engine that prefers long jobs, chunks wait until many can be sealed together.
        if self.shared.options.threshold != usize::MAX {
            return Ok(None);
        }
        let chunk_len = self.chunks.chunk_len();
        let end = offset.saturating_add(data.len() as u64);
        let first = offset.div_ceil(chunk_len as u64);
        let behind = if end < self.len() { end / chunk_len as u64 } else { end.saturating_sub(1) / chunk_len as u64 };
        let count = behind.saturating_sub(first) as usize;
        if count < 2 || !(LEAST..=MOST).contains(&(count * chunk_len)) {
            return Ok(None);
        }
        let mut records = self.shared.records(&self.chunks, count)?;
        let from = (first * chunk_len as u64 - offset) as usize;
        let mut places = Vec::with_capacity(count);
        for (place, plaintext) in data[from..].chunks_exact(chunk_len).take(count).enumerate() {
            records.chunk_mut(place, chunk_len).copy_from_slice(plaintext);
            places.push(Place { index: first + place as u64, last: false, len: chunk_len });
        }
        self.chunks.seal(self.shared.roster(count * chunk_len), &mut records, &places)?;
        Ok(Some(Run::new(first..behind, records)))
    }

    /// Replaces chunks of the file by sealed ones. None of them is its last. The list of holes may become longer by
    /// one.
    pub(super) fn insert_run(&self, content: &mut Content, run: Run) {
        self.remove_changes(content, run.chunks.clone());
        content.take_out(run.chunks.clone());
        self.account(0, run.room());
        content.sealed.insert(run);
    }

    /// Discards sealed chunks that are not needed.
    pub(super) fn discard_run(&self, run: Run) {
        if let Some(records) = run.into_records() {
            self.shared.give_records(records, 0);
        }
    }

    /// Forgets the changes of some chunks.
    pub(super) fn remove_changes(&self, content: &mut Content, chunks: Range<u64>) {
        self.remove_sealed(content, chunks.clone());
        while let Some((&index, _)) = content.dirty.range(chunks.clone()).next() {
            self.remove_page(content, index);
        }
    }

    pub(super) fn remove_sealed(&self, content: &mut Content, chunks: Range<u64>) {
        let before = content.sealed.room();
        content.sealed.remove(&chunks, |records| self.shared.give_records(records, 0));
        self.account(before, content.sealed.room());
    }

    /// The plaintext of a sealed chunk.
    pub(super) fn open_sealed(&self, (run, place): (&Records, usize), index: u64) -> Result<Page> {
        let len = self.chunks.chunk_len();
        let mut records = self.shared.records(&self.chunks, 1)?;
        let record = run.record(place, len);
        records.bytes_mut()[..record.len()].copy_from_slice(record);
        let verdicts = self.chunks.open(self.shared.roster(len), &mut records, &[Place { index, last: false, len }])?;
        if !verdicts.all_passed() {
            return Err(self.damaged(index));
        }
        let mut page = self.shared.pages.take(len);
        page.write(0, records.chunk(0, len), &self.shared.pages);
        self.shared.give_records(records, self.chunks.overhead() + len);
        Ok(page)
    }
}
