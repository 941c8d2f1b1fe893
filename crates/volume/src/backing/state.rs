//! What is committed of a file, and what is changed in memory. Changes are made here without any input or output.

use crate::backing::page::Page;
use phalanx_core::format::{Header, Layout};
use phalanx_core::volume::{Holes, MAX_HOLES};
use rustix::io::Errno;
use std::collections::BTreeMap;
use std::ops::Range;

/// A chunk below the file's end is in `dirty`, or in one of `holes`, or stored and unchanged. It is stored only if it was no
/// hole when the file was committed, and neither has its length changed since then nor whether it is the last.
pub(super) struct State {
    /// As it was committed.
    pub header: Header,
    pub stored: Layout,
    pub stored_holes: Holes,
    /// As it is now.
    pub layout: Layout,
    pub holes: Vec<Range<u64>>,
    /// Plaintext: each as long as its chunk is now.
    pub dirty: BTreeMap<u64, Page>,
    /// Whether the store has been told of changes.
    pub is_listed: bool,
    /// Why changes were dropped that nobody was told of.
    pub dropped: Option<Errno>,
    /// Whether nothing of the file has been synced, since it was created in this mount.
    pub is_fresh: bool,
    /// Whether chunks in their places may not be synced, which the journal does not have.
    pub direct_unsynced: bool,
    /// The epoch in which the journal has the file's length.
    pub logged: Option<u64>,
    /// The epoch at whose end the file is synced.
    pub named: Option<u64>,
    /// Up to which transaction of the mount its changes go.
    pub transactions: u64,
    /// How often it was committed.
    pub generation: u64,
}

impl State {
    pub fn new(header: Header, layout: Layout, holes: Holes, is_fresh: bool, transactions: u64, epoch: u64) -> Self {
        Self {
            header,
            stored: layout,
            holes: holes.ranges().to_vec(),
            stored_holes: holes,
            layout,
            dirty: BTreeMap::new(),
            is_listed: false,
            dropped: None,
            is_fresh,
            direct_unsynced: is_fresh,
            logged: None,
            // A file that is fresh has been created in this epoch.
            named: is_fresh.then_some(epoch),
            transactions,
            generation: 0,
        }
    }

    /// Whether something has to be committed.
    pub fn is_changed(&self) -> bool {
        !self.dirty.is_empty() || self.layout != self.stored || self.holes != self.stored_holes.ranges()
    }

    /// The hole that a chunk lies in now, as its place in the list.
    pub fn hole_at(&self, index: u64) -> Option<usize> {
        let place = self.holes.partition_point(|hole| hole.end <= index);
        self.holes.get(place).is_some_and(|hole| hole.contains(&index)).then_some(place)
    }

    /// Takes a chunk out of its hole. The list may become longer by one.
    pub fn take_out(&mut self, index: u64) {
        let Some(place) = self.hole_at(index) else { return };
        let hole = self.holes[place].clone();
        let left = [hole.start..index, index + 1..hole.end];
        self.holes.splice(place..=place, left.into_iter().filter(|part| !part.is_empty()));
    }

    /// Makes a range a hole, together with the holes that it meets. The list may become longer by one.
    pub fn add_hole(&mut self, range: Range<u64>) {
        let first = self.holes.partition_point(|hole| hole.end < range.start);
        let behind = self.holes.partition_point(|hole| hole.start <= range.end);
        let met = &self.holes[first..behind.max(first)];
        let start = met.first().map_or(range.start, |hole| hole.start.min(range.start));
        let end = met.last().map_or(range.end, |hole| hole.end.max(range.end));
        self.holes.splice(first..behind.max(first), std::iter::once(start..end));
    }

    /// Whether the list of holes is as long as it may be.
    pub fn holes_are_full(&self) -> bool {
        self.holes.len() >= MAX_HOLES
    }

    /// Whether a chunk may be written to its place without any trace of the committed file being lost.
    pub fn is_free(&self, index: u64) -> bool {
        index >= self.stored.chunks() || self.stored_holes.around(index).is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use phalanx_core::volume::Config;
    use phalanx_core::{ChunkSize, Recipient, SecretKey, Suite};

    fn state() -> State {
        let recipient = Recipient::key(&SecretKey::random().unwrap());
        let made = Config::create(Suite::default(), ChunkSize::new(4096).unwrap(), &[recipient]).unwrap();
        let (header, _) = made.1.new_file().unwrap();
        let layout = header.layout_for_plaintext(100 * 4096).unwrap();
        State::new(header, layout, Holes::default(), false, 0, 0)
    }

    /// Against a list of all chunks.
    #[test]
    fn holes_are_split_and_joined() {
        let (mut state, mut model, mut seed) = (state(), [false; 100], 1u64);
        for _ in 0..5000 {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let (first, len) = ((seed >> 33) % 90, 1 + (seed >> 50) % 9);
            if seed >> 63 == 0 {
                state.take_out(first);
                model[first as usize] = false;
            } else {
                state.add_hole(first..first + len);
                model[first as usize..(first + len) as usize].fill(true);
            }
            for (index, is_hole) in model.iter().enumerate() {
                assert_eq!(state.hole_at(index as u64).is_some(), *is_hole);
            }
            assert!(Holes::new(state.holes.clone()).is_some(), "{:?}", state.holes);
        }
    }
}
