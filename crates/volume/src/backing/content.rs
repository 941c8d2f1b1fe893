//! What is committed of a file, and what is changed in memory. Nothing here reads or writes the disk.

use crate::backing::drops::Drops;
use crate::backing::page::Page;
use crate::backing::sealed::SealedRuns;
use phalanx_core::format::{Header, Layout};
use phalanx_core::volume::{Holes, State};
use std::collections::BTreeMap;
use std::ops::Range;

/// A chunk below the file's end is in `dirty`, in `sealed`, in one of `holes`, or stored and unchanged. A stored one
/// was no hole when the file was committed. Since then, neither its length nor whether it is the last has changed.
pub(super) struct Content {
    /// As it was committed.
    pub header: Header,
    pub stored: Layout,
    pub stored_holes: Holes,
    /// In a volume with a table of versions.
    pub stored_state: Option<State>,
    /// As it is now.
    pub layout: Layout,
    pub holes: Vec<Range<u64>>,
    /// Plaintext: each as long as its chunk is now.
    pub dirty: BTreeMap<u64, Page>,
    /// Whole chunks that are sealed already. The file's last chunk is not among them.
    pub sealed: SealedRuns,
    /// Whether the store knows of changes.
    pub is_listed: bool,
    /// The changes that were dropped.
    pub drops: Drops,
    /// Whether the file was created in this mount and nothing of it has been synced.
    pub is_fresh: bool,
    /// Whether chunks were written to their places without the journal and may not be synced.
    pub direct_unsynced: bool,
    /// The epoch in which the journal has the file's length.
    pub logged: Option<u64>,
    /// The epoch that syncs the file when it ends.
    pub named: Option<u64>,
    /// The last transaction of the mount with its changes.
    pub transactions: u64,
    /// How often it was committed.
    pub generation: u64,
}

/// A file as its header says.
pub(super) struct Stored {
    pub header: Header,
    pub layout: Layout,
    pub holes: Holes,
    pub state: Option<State>,
}

/// Consecutive chunks that are all pages or all in one sealed run, and that either all replace something or all replace
/// nothing.
pub(super) struct Piece {
    pub chunks: Range<u64>,
    pub is_sealed: bool,
    pub is_free: bool,
}

impl Content {
    /// `fresh` is the epoch, if the file was created in it and nothing of it has been synced.
    pub fn new(opened: Stored, fresh: Option<u64>, transactions: u64) -> Self {
        let Stored { header, layout, holes, state } = opened;
        Self {
            header,
            stored_state: state,
            stored: layout,
            holes: holes.ranges().to_vec(),
            stored_holes: holes,
            layout,
            dirty: BTreeMap::new(),
            sealed: SealedRuns::default(),
            is_listed: false,
            drops: Drops::default(),
            is_fresh: fresh.is_some(),
            direct_unsynced: fresh.is_some(),
            logged: None,
            named: fresh,
            transactions,
            generation: 0,
        }
    }

    /// Whether something has to be committed.
    pub fn is_changed(&self) -> bool {
        self.has_chunks() || self.layout != self.stored || self.holes != self.stored_holes.ranges()
    }

    /// Whether chunks are only in memory.
    pub fn has_chunks(&self) -> bool {
        !self.dirty.is_empty() || !self.sealed.is_empty()
    }

    /// The first chunk from `index` on that is only in memory.
    pub fn next_changed(&self, index: u64) -> Option<u64> {
        let page = self.dirty.range(index..).next().map(|(index, _)| *index);
        page.into_iter().chain(self.sealed.next(index)).min()
    }

    /// All chunks that are only in memory, in ascending order.
    pub fn changed(&self) -> Vec<Piece> {
        let mut pieces: Vec<Piece> = Vec::new();
        for &index in self.dirty.keys() {
            let (is_free, _) = self.free_until(index);
            match pieces.last_mut() {
                Some(piece) if piece.chunks.end == index && piece.is_free == is_free => piece.chunks.end += 1,
                _ => pieces.push(Piece { chunks: index..index + 1, is_sealed: false, is_free }),
            }
        }
        for chunks in self.sealed.ranges() {
            let mut start = chunks.start;
            while start < chunks.end {
                let (is_free, end) = self.free_until(start);
                let end = end.min(chunks.end);
                pieces.push(Piece { chunks: start..end, is_sealed: true, is_free });
                start = end;
            }
        }
        pieces.sort_unstable_by_key(|piece| piece.chunks.start);
        pieces
    }

    /// Whether writing a chunk to its place destroys nothing of the committed file, and up to which chunk the answer
    /// holds.
    fn free_until(&self, index: u64) -> (bool, u64) {
        let stored = self.stored.chunks();
        let holes = self.stored_holes.ranges();
        let next = holes.get(holes.partition_point(|hole| hole.end <= index));
        match next {
            _ if index >= stored => (true, u64::MAX),
            Some(hole) if hole.contains(&index) => (true, hole.end),
            Some(hole) => (false, hole.start),
            None => (false, stored),
        }
    }

    /// The index of the hole that a chunk lies in now.
    pub fn hole_at(&self, index: u64) -> Option<usize> {
        let place = self.holes.partition_point(|hole| hole.end <= index);
        self.holes.get(place).is_some_and(|hole| hole.contains(&index)).then_some(place)
    }

    /// Removes chunks from the holes that they lie in. The list may become longer by one.
    pub fn take_out(&mut self, chunks: Range<u64>) {
        let first = self.holes.partition_point(|hole| hole.end <= chunks.start);
        let behind = self.holes.partition_point(|hole| hole.start < chunks.end);
        if first >= behind {
            return;
        }
        let left = [self.holes[first].start..chunks.start, chunks.end..self.holes[behind - 1].end];
        self.holes.splice(first..behind, left.into_iter().filter(|part| !part.is_empty()));
    }

    /// Makes a range a hole, and joins it with the holes that it touches. The list may become longer by one.
    pub fn add_hole(&mut self, range: Range<u64>) {
        let first = self.holes.partition_point(|hole| hole.end < range.start);
        let behind = self.holes.partition_point(|hole| hole.start <= range.end);
        let met = &self.holes[first..behind.max(first)];
        let start = met.first().map_or(range.start, |hole| hole.start.min(range.start));
        let end = met.last().map_or(range.end, |hole| hole.end.max(range.end));
        self.holes.splice(first..behind.max(first), std::iter::once(start..end));
    }

    /// Whether writing a chunk to its place destroys nothing of the committed file.
    pub fn is_free(&self, index: u64) -> bool {
        self.free_until(index).0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use phalanx_core::volume::Config;
    use phalanx_core::{ChunkSize, Recipient, SecretKey, Suite};

    fn content() -> Content {
        let recipient = Recipient::key(&SecretKey::random().unwrap());
        let made = Config::create(Suite::default(), ChunkSize::new(4096).unwrap(), &[recipient]).unwrap();
        let (header, _) = made.1.new_file().unwrap();
        let layout = header.layout_for_plaintext(100 * 4096).unwrap();
        Content::new(Stored { header, layout, holes: Holes::default(), state: None }, None, 0)
    }

    /// Compares the list of holes with a list of all chunks.
    #[test]
    fn holes_are_split_and_joined() {
        let (mut content, mut model, mut seed) = (content(), [false; 100], 1u64);
        for _ in 0..5000 {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let (first, len) = ((seed >> 33) % 90, 1 + (seed >> 50) % 9);
            if seed >> 63 == 0 {
                content.take_out(first..first + len);
                model[first as usize..(first + len) as usize].fill(false);
            } else {
                content.add_hole(first..first + len);
                model[first as usize..(first + len) as usize].fill(true);
            }
            for (index, is_hole) in model.iter().enumerate() {
                assert_eq!(content.hole_at(index as u64).is_some(), *is_hole);
            }
            assert!(Holes::new(content.holes.clone()).is_some(), "{:?}", content.holes);
        }
    }
}
