//! What a commit does, chunk by chunk.

use crate::backing::Backing;
use crate::backing::content::{Content, Piece};
use crate::error::{Result, VolumeError};
use crate::journal::Journal;
use phalanx_core::volume::{Holes, Records};
use std::ops::Range;

/// Runs of chunks that replace nothing and are longer than this, in bytes, go to their places without the journal.
/// Longer commits are sealed by several threads.
pub(super) const LONG: usize = 256 << 10;
/// How many bytes one thread seals at a time, unless a chunk is longer.
const PART: usize = 512 << 10;
/// The longest job for an engine that prefers long jobs, in bytes.
pub(super) const LARGEST: usize = 16 << 20;

/// The steps of a commit.
pub(super) struct Plan {
    /// Whether the header changes: the holes have, or it has the sums of the chunks.
    pub has_header: bool,
    pub holes: Holes,
    pub parts: Vec<Part>,
    /// The chunks that go to their places without the journal.
    pub direct: Vec<Range<u64>>,
    /// How many bytes of plaintext are sealed.
    pub unsealed_len: usize,
    /// How many bytes of ciphertext go to the journal.
    pub data_len: usize,
    /// What the journal needs at most, in bytes.
    pub cost: u64,
}

/// Chunks in ascending order: pages to be sealed together, or a run that is sealed already.
pub(super) struct Part {
    pub chunks: Vec<u64>,
    pub is_direct: bool,
    pub is_sealed: bool,
}

impl Part {
    /// The records that hold its chunks, and the index of the first. `own` has those that the commit sealed.
    pub fn records<'a>(&self, content: &'a Content, own: Option<&'a Records>) -> (&'a Records, usize) {
        match own {
            Some(records) => (records, 0),
            None => content.sealed.get(self.chunks[0]).expect("a part of a commit is sealed"),
        }
    }
}

impl Backing {
    pub(super) fn plan(&self, content: &Content) -> Result<Plan> {
        let chunk_len = self.chunks.chunk_len();
        let holes = Holes::new(content.holes.clone())
            .filter(|holes| holes.ranges().len() <= self.shared.config.max_holes())
            .ok_or(VolumeError::Core(phalanx_core::Error::Header("a malformed list of holes")))?;
        let has_header = holes != content.stored_holes || content.stored_state.is_some();
        let len_of = |chunks: &Range<u64>| {
            content.layout.plaintext_len().min(chunks.end * chunk_len as u64) - chunks.start * chunk_len as u64
        };
        let pieces = content.changed();
        let mut direct: Vec<Range<u64>> = Vec::new();
        for piece in pieces.iter().filter(|piece| piece.is_free) {
            match direct.last_mut() {
                Some(run) if run.end == piece.chunks.start => run.end = piece.chunks.end,
                _ => direct.push(piece.chunks.clone()),
            }
        }
        direct.retain(|run| len_of(run) > LONG as u64);
        let is_direct = |index: u64| {
            let place = direct.partition_point(|run| run.end <= index);
            direct.get(place).is_some_and(|run| run.contains(&index))
        };
        let unsealed = pieces.iter().filter(|piece| !piece.is_sealed);
        let unsealed_len = unsealed.map(|piece| len_of(&piece.chunks)).sum::<u64>() as usize;
        let threshold = self.shared.options.threshold;
        let part_len = if unsealed_len >= threshold { unsealed_len.min(threshold.max(LARGEST)) } else { PART };
        let most = (part_len / chunk_len).max(1);
        let mut parts: Vec<Part> = Vec::new();
        let (mut data_len, mut journaled) = (0, 0);
        for Piece { chunks, is_sealed, .. } in pieces {
            let is_direct = is_direct(chunks.start);
            if !is_direct {
                data_len += len_of(&chunks) as usize;
                journaled += (chunks.end - chunks.start) as usize;
            }
            if is_sealed {
                parts.push(Part { chunks: chunks.collect(), is_direct, is_sealed });
                continue;
            }
            for index in chunks {
                match parts.last_mut() {
                    Some(part) if !part.is_sealed && part.is_direct == is_direct && part.chunks.len() < most => {
                        part.chunks.push(index);
                    }
                    _ => parts.push(Part { chunks: vec![index], is_direct, is_sealed }),
                }
            }
        }
        // The records of chunks have 88 bytes, those of lengths 36, of ranges 44, and of headers 4124.
        let table_len = 36 + 88 * journaled + 44 * direct.len() + if has_header { 4124 } else { 0 };
        let cost = Journal::cost(table_len, data_len) + Journal::cost(36, 0);
        Ok(Plan { has_header, holes, parts, direct, unsealed_len, data_len, cost })
    }
}
