//! The engine from host to host, and plain pinned copies by the same number of threads. They show which part of the
//! copies' speed the engine reaches.

use phalanx_core::engine::{Bind, Engine, Fault, Job, Op, Unit};
use phalanx_core::{SecretKey, Suite};
use phalanx_gpu::{Device, GpuEngine};
use phalanx_kernels::keccak;
use std::sync::Barrier;
use std::thread;
use std::time::{Duration, Instant};

const CHUNK: usize = 1 << 20;

/// The engine, and how much data it gets at once.
pub struct HostToHost {
    engine: GpuEngine,
    /// The number of jobs that each lane runs.
    rounds: usize,
}

impl HostToHost {
    /// An engine with this number of lanes, whose jobs have `job` bytes.
    pub fn new(device: &Device, bytes: usize, lanes: usize, job: usize) -> Self {
        let engine = GpuEngine::with_lanes(device.clone(), keccak::Level::detect(), lanes, job);
        let rounds = (bytes / (engine.info().workers * engine.info().preferred_job)).max(2);
        Self { engine, rounds }
    }

    pub fn bytes(&self) -> usize {
        self.rounds * self.engine.info().workers * self.engine.info().preferred_job
    }

    pub fn case(&self) -> String {
        let info = self.engine.info();
        format!("{} lanes, {} MiB a job, {} jobs each", info.workers, info.preferred_job >> 20, self.rounds)
    }

    /// Runs all lanes at once. Each repeats its own job, with these operations in turn.
    pub fn run(&self, operations: &[Op]) -> Result<Duration, Fault> {
        self.on_all_lanes(
            || self.job(),
            |job| {
                operations.iter().try_for_each(|op| {
                    job.op = *op;
                    assert!(self.engine.run(job)?.all_passed(), "the engine refuses what it sealed");
                    Ok(())
                })
            },
        )
    }

    /// Copies the same bytes to the device and back.
    pub fn copies(&self, device: &Device) -> Result<Duration, Fault> {
        let len = self.engine.info().preferred_job;
        let fault = |error: phalanx_gpu::Error| Fault { engine: "copies".into(), reason: error.to_string() };
        let lane = || {
            let mut stream = device.stream().map_err(fault)?;
            let buffer = stream.buffer(len).map_err(fault)?;
            Ok((stream, buffer, device.pinned(len).map_err(fault)?))
        };
        self.on_all_lanes(lane, |(stream, buffer, pinned)| {
            stream.upload(buffer, 0, pinned).map_err(fault)?;
            stream.download(buffer, 0, pinned).map_err(fault)
        })
    }

    fn on_all_lanes<T>(
        &self,
        lane: impl Fn() -> Result<T, Fault> + Sync,
        round: impl Fn(&mut T) -> Result<(), Fault> + Sync,
    ) -> Result<Duration, Fault> {
        let lanes = self.engine.info().workers;
        let start = Barrier::new(lanes + 1);
        thread::scope(|scope| {
            let work = || {
                let made = lane().and_then(|mut lane| round(&mut lane).map(|()| lane));
                start.wait();
                let mut lane = made?;
                (0..self.rounds).try_for_each(|_| round(&mut lane))
            };
            let lanes: Vec<_> = (0..lanes).map(|_| scope.spawn(work)).collect();
            start.wait();
            let started = Instant::now();
            lanes.into_iter().try_for_each(|lane| lane.join().expect("no lane panics"))?;
            Ok(started.elapsed())
        })
    }

    /// A lane's job of whole chunks.
    fn job(&self) -> Result<Job, Fault> {
        let suite = Suite::default();
        let keys = SecretKey::from_slice(&[7; 32]).expect("32 bytes").file_keys(suite).content().clone();
        let len = self.engine.info().preferred_job;
        let mut job = Job::of_chunks(Op::Seal, suite, CHUNK.ilog2() as u8, [keys].into(), self.engine.buffer(len)?);
        let unit = |i: usize| {
            let bind = Bind::Chunk { index: i as u64, last: false };
            let data = i * CHUNK..len.min((i + 1) * CHUNK);
            Unit { key: 0, nonce: [i as u8; 16], bind, data, tag: [0; 32] }
        };
        job.units = (0..len.div_ceil(CHUNK)).map(unit).collect();
        Ok(job)
    }
}
