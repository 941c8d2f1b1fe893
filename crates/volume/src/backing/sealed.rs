//! Whole chunks of long writes: sealed as they arrive, before the file is locked, so that several threads seal at once. They
//! wait for the next commit as ciphertext.

use crate::backing::Backing;
use crate::backing::page::Page;
use crate::backing::state::State;
use crate::error::Result;
use phalanx_core::volume::{Place, Records};
use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

/// Shorter runs of whole chunks wait as plaintext, in bytes: they may be written again before they are committed.
const LEAST: usize = 64 << 10;
/// Longer ones too: they are stored in several transactions. No request of the kernel's is so long.
const MOST: usize = 8 << 20;

/// Runs of sealed chunks of one file, none of which is its last.
#[derive(Default)]
pub(super) struct SealedRuns {
    /// By their first chunks.
    runs: BTreeMap<u64, Run>,
    /// The memory that they take, in bytes.
    room: usize,
}

/// Sealed chunks that follow one another, in the file and in memory.
pub(super) struct Run {
    pub chunks: Range<u64>,
    /// What is left of a run that was written to shares its memory with the rest.
    records: Arc<Records>,
    /// Which record is the first chunk's.
    place: usize,
}

impl Run {
    /// The memory that it takes, in bytes.
    pub fn room(&self) -> usize {
        self.records.bytes().len()
    }

    fn part(&self, chunks: Range<u64>) -> Self {
        let place = self.place + (chunks.start - self.chunks.start) as usize;
        Self { chunks, records: self.records.clone(), place }
    }
}

impl SealedRuns {
    pub fn is_empty(&self) -> bool {
        self.runs.is_empty()
    }

    /// The memory that they take, in bytes.
    pub fn room(&self) -> usize {
        self.room
    }

    /// The ranges of chunks, in ascending order.
    pub fn ranges(&self) -> impl Iterator<Item = Range<u64>> {
        self.runs.values().map(|run| run.chunks.clone())
    }

    /// The records that hold a chunk, and which of them is the chunk's.
    pub fn get(&self, index: u64) -> Option<(&Records, usize)> {
        let (_, run) = self.runs.range(..=index).next_back()?;
        run.chunks.contains(&index).then(|| (&*run.records, run.place + (index - run.chunks.start) as usize))
    }

    /// The first sealed chunk from `index` on.
    pub fn next(&self, index: u64) -> Option<u64> {
        if self.get(index).is_some() { Some(index) } else { self.runs.range(index..).next().map(|(first, _)| *first) }
    }

    /// None of the run's chunks may be there.
    fn insert(&mut self, run: Run) {
        self.room += run.room();
        self.runs.insert(run.chunks.start, run);
    }

    /// Takes chunks out. What memory is then free goes to `free`.
    fn remove(&mut self, chunks: &Range<u64>, mut free: impl FnMut(Records)) {
        loop {
            let last = self.runs.range(..chunks.end).next_back();
            let Some((&first, _)) = last.filter(|(_, run)| run.chunks.end > chunks.start) else { break };
            let run = self.runs.remove(&first).expect("it was found just now");
            for left in [run.chunks.start..chunks.start, chunks.end..run.chunks.end] {
                if !left.is_empty() {
                    self.runs.insert(left.start, run.part(left));
                }
            }
            if let Some(records) = Arc::into_inner(run.records) {
                self.room -= records.bytes().len();
                free(records);
            }
        }
    }
}

impl Backing {
    /// Seals what a write has of whole chunks, if there are enough of them. The file's last chunk is left out: whether a chunk
    /// is the last changes its tag.
    pub(super) fn seal_early(&self, offset: u64, data: &[u8]) -> Result<Option<Run>> {
        // Where an engine likes long jobs, chunks wait until many can be sealed at once.
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
        Ok(Some(Run { chunks: first..behind, records: Arc::new(records), place: 0 }))
    }

    /// Puts sealed chunks in the place of what the file has there. None of them is its last. The list of holes may become
    /// longer by one.
    pub(super) fn insert_run(&self, st: &mut State, run: Run) {
        self.remove_changes(st, run.chunks.clone());
        st.take_out(run.chunks.clone());
        self.account(0, run.room());
        st.sealed.insert(run);
    }

    /// Sealed chunks that are not wanted.
    pub(super) fn discard_run(&self, run: Run) {
        if let Some(records) = Arc::into_inner(run.records) {
            self.shared.give_records(records, 0);
        }
    }

    /// Forgets what is changed in some chunks.
    pub(super) fn remove_changes(&self, st: &mut State, chunks: Range<u64>) {
        self.remove_sealed(st, chunks.clone());
        while let Some((&index, _)) = st.dirty.range(chunks.clone()).next() {
            self.remove_page(st, index);
        }
    }

    pub(super) fn remove_sealed(&self, st: &mut State, chunks: Range<u64>) {
        let before = st.sealed.room();
        st.sealed.remove(&chunks, |records| self.shared.give_records(records, 0));
        self.account(before, st.sealed.room());
    }

    /// A copy of a sealed chunk.
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

#[cfg(test)]
mod tests {
    use super::*;
    use phalanx_core::volume::{Chunks, Config};
    use phalanx_core::{ChunkSize, Recipient, SecretKey, Suite};

    /// Against a list of all chunks: which write sealed each, and which record is its.
    #[test]
    fn runs_are_cut_and_memory_is_counted() {
        let recipient = Recipient::key(&SecretKey::random().unwrap());
        let made = Config::create(Suite::default(), ChunkSize::new(4096).unwrap(), &[recipient]).unwrap();
        let (header, keys) = made.1.new_file().unwrap();
        let chunks = Chunks::new(&header, &keys);
        let (mut runs, mut model, mut seed) = (SealedRuns::default(), [None::<(u64, usize)>; 60], 1u64);
        let mut freed = 0;
        for step in 0..2000 {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let (first, len) = ((seed >> 33) % 50, 1 + (seed >> 50) % 10);
            runs.remove(&(first..first + len), |_| freed += 1);
            model[first as usize..(first + len) as usize].fill(None);
            if seed >> 63 == 0 {
                let mut records = chunks.records(len as usize, 4096).unwrap();
                for place in 0..len as usize {
                    records.chunk_mut(place, 8).copy_from_slice(&u64::to_le_bytes(step));
                    model[first as usize + place] = Some((step, place));
                }
                runs.insert(Run { chunks: first..first + len, records: Arc::new(records), place: 0 });
            }
            let mut alive: Vec<(u64, usize)> = Vec::new();
            for (index, expected) in model.iter().enumerate() {
                let found = runs.get(index as u64).map(|(records, place)| {
                    let step = u64::from_le_bytes(records.chunk(place, 8).try_into().unwrap());
                    alive.push((step, records.bytes().len()));
                    (step, place)
                });
                assert_eq!(found, *expected, "step {step}, chunk {index}");
                let next = model[index..].iter().position(Option::is_some).map(|more| (index + more) as u64);
                assert_eq!(runs.next(index as u64), next, "step {step}, chunk {index}");
            }
            alive.sort_unstable();
            alive.dedup();
            assert_eq!(runs.room(), alive.iter().map(|(_, room)| room).sum::<usize>(), "step {step}");
        }
        runs.remove(&(0..60), |_| freed += 1);
        assert!(runs.is_empty() && runs.room() == 0 && freed > 500);
    }
}
