//! Runs of chunks that are sealed already, and wait for the next commit as ciphertext.

use phalanx_core::volume::Records;
use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

/// Runs of sealed chunks of one file, none of which is its last.
#[derive(Default)]
pub(super) struct SealedRuns {
    /// The runs by their first chunks.
    runs: BTreeMap<u64, Run>,
    /// The memory that they take, in bytes.
    room: usize,
}

/// Sealed chunks that are consecutive, in the file and in memory.
pub(super) struct Run {
    pub chunks: Range<u64>,
    /// The pieces of a run that was partly overwritten share its memory.
    records: Arc<Records>,
    /// The index of the first chunk's record.
    place: usize,
}

impl Run {
    /// A run of chunks with all their records.
    pub fn new(chunks: Range<u64>, records: Records) -> Self {
        Self { chunks, records: Arc::new(records), place: 0 }
    }

    /// The records, if nothing else shares them.
    pub fn into_records(self) -> Option<Records> {
        Arc::into_inner(self.records)
    }

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

    /// The records that hold a chunk, and the index of the chunk's own.
    pub fn get(&self, index: u64) -> Option<(&Records, usize)> {
        let (_, run) = self.runs.range(..=index).next_back()?;
        run.chunks.contains(&index).then(|| (&*run.records, run.place + (index - run.chunks.start) as usize))
    }

    /// The first sealed chunk from `index` on.
    pub fn next(&self, index: u64) -> Option<u64> {
        if self.get(index).is_some() { Some(index) } else { self.runs.range(index..).next().map(|(first, _)| *first) }
    }

    /// Adds a run. None of its chunks may be present.
    pub fn insert(&mut self, run: Run) {
        self.room += run.room();
        self.runs.insert(run.chunks.start, run);
    }

    /// Removes chunks. Passes memory that is then free to `free`.
    pub fn remove(&mut self, chunks: &Range<u64>, mut free: impl FnMut(Records)) {
        loop {
            let last = self.runs.range(..chunks.end).next_back();
            let Some((&first, _)) = last.filter(|(_, run)| run.chunks.end > chunks.start) else { break };
            let run = self.runs.remove(&first).expect("it was found just now");
            for left in [run.chunks.start..chunks.start, chunks.end..run.chunks.end] {
                if !left.is_empty() {
                    self.runs.insert(left.start, run.part(left));
                }
            }
            if let Some(records) = run.into_records() {
                self.room -= records.bytes().len();
                free(records);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use phalanx_core::volume::{Chunks, Config};
    use phalanx_core::{ChunkSize, Recipient, SecretKey, Suite};

    /// Compares the runs with a list of all chunks: which write sealed each, and which record it has.
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
                runs.insert(Run::new(first..first + len, records));
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
