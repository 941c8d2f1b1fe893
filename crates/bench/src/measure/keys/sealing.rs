//! P5's two steps as Phalanx does them: the key's id, and chunks sealed under the key.

use crate::measure::keys::key;
use crate::measure::threads::try_each;
use crate::measure::{Error, Random, Result};
use phalanx_core::engine::{Bind, Engine, Job, Op, Tag, Unit};
use phalanx_core::{SecretKey, Suite};
use std::sync::Arc;

const CHUNK: usize = 1 << 20;

/// Chunks in memory, in one job for each lane of the engine.
pub struct Sealing {
    engine: Arc<dyn Engine>,
    suite: Suite,
    jobs: Vec<Job>,
}

impl Sealing {
    pub fn new(engine: Arc<dyn Engine>, suite: Suite, bytes: usize) -> Result<Self> {
        let chunks = bytes.div_ceil(CHUNK);
        let each = chunks.div_ceil(engine.info().workers).max(1);
        let keys = key(0);
        let keys = SecretKey::from_slice(&keys).expect("32 bytes").file_keys(suite).content().clone();
        let keys: Arc<[_]> = [keys].into();
        let mut jobs = Vec::new();
        for first in (0..chunks).step_by(each) {
            let (start, end) = (first * CHUNK, bytes.min((first + each) * CHUNK));
            let mut buffer = engine.buffer(end - start).map_err(phalanx_core::Error::from)?;
            for (i, chunk) in buffer.chunks_mut(CHUNK).enumerate() {
                Random::new((first + i) as u64).fill(chunk);
            }
            let mut job = Job::of_chunks(Op::Seal, suite, CHUNK.ilog2() as u8, keys.clone(), buffer);
            job.units = (0..end - start).step_by(CHUNK).map(|at| unit(first, at, end - start, chunks)).collect();
            jobs.push(job);
        }
        Ok(Self { engine, suite, jobs })
    }

    /// Expands the key, and seals all chunks under it.
    pub fn run(&mut self, key: &SecretKey) -> Result<()> {
        let keys: Arc<[_]> = key.file_keys(self.suite).of_jobs();
        let run = |job: &mut Job| {
            job.keys = keys.clone();
            self.engine.run(job).map(drop)
        };
        try_each(self.jobs.len(), &mut self.jobs, run).map_err(|fault| Error::Core(fault.into()))
    }

    /// The chunks' tags. After a run they show whether all bytes are right.
    pub fn tags(&self) -> Vec<Tag> {
        self.jobs.iter().flat_map(|job| job.units.iter().map(|unit| unit.tag)).collect()
    }
}

/// The chunk at `at` in a job that begins with chunk `first`.
fn unit(first: usize, at: usize, len: usize, chunks: usize) -> Unit {
    let index = first + at / CHUNK;
    Unit {
        key: 0,
        nonce: [index as u8; 16],
        bind: Bind::Chunk { index: index as u64, last: index + 1 == chunks },
        data: at..len.min(at + CHUNK),
        tag: [0; 32],
    }
}
