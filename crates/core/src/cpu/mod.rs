//! The CPU engines: `serial` is one worker, `cpu` one worker for each thread.

pub(crate) mod chunk;
mod ctr_sha3;
mod gcm;
mod levels;
pub(crate) mod messages;
mod pieces;

pub use levels::{Levels, NoSuchKernel};

use crate::Suite;
use crate::batch::message::Message;
use crate::error::Fault;
use crate::op::Op;
use crate::seam::{Buffer, Engine, EngineInfo, Job, Verdicts};
use crate::secret::DEPTH;
use phalanx_kernels::aes;

/// The length of a job in bytes. Two jobs fit in the cache of a core, and workers that write to one file do not wait
/// long for each other.
const PREFERRED_JOB: usize = 2 << 20;
/// The most memory that all jobs together should take, in bytes. With many workers, jobs are shorter.
const ALL_JOBS: usize = 256 << 20;

/// Runs jobs on the thread that calls it.
pub struct CpuEngine {
    info: EngineInfo,
    levels: Levels,
}

impl CpuEngine {
    /// The `serial` engine: one worker.
    #[must_use]
    pub fn serial(levels: Levels) -> Self {
        Self::new("serial", 1, levels)
    }

    /// The `cpu` engine: `threads` workers.
    #[must_use]
    pub fn parallel(threads: usize, levels: Levels) -> Self {
        Self::new("cpu", threads.max(1), levels)
    }

    fn new(name: &str, workers: usize, levels: Levels) -> Self {
        let info = EngineInfo {
            name: name.into(),
            detail: format!(
                "{workers} thread{}, AES {}, SHA-3 {}",
                if workers == 1 { "" } else { "s" },
                levels.aes,
                levels.keccak
            ),
            suites: Suite::ALL,
            workers,
            preferred_job: PREFERRED_JOB.min(ALL_JOBS / workers),
            largest_job: usize::MAX,
        };
        Self { info, levels }
    }
}

impl CpuEngine {
    /// Kernels that fail the known answers get no data, even if they were named or no others are left.
    fn check(&self) -> Result<(), Fault> {
        match self.levels.first_wrong() {
            Some(kernel) => {
                Err(Fault { engine: self.info.name.clone(), reason: format!("this machine computes {kernel} wrongly") })
            }
            None => Ok(()),
        }
    }
}

impl Engine for CpuEngine {
    fn info(&self) -> &EngineInfo {
        &self.info
    }

    fn stack(&self) -> usize {
        // Optimized builds use 13 KiB with these kernels, and 20 KiB with the portable one: a test measures it. Builds
        // without any optimization use up to 62 KiB. They also leave copies in all other code, so no limit is claimed
        // for them.
        match self.levels.aes {
            aes::Level::AesNi | aes::Level::Vaes256 | aes::Level::Vaes512 => 16 << 10,
            _ => DEPTH,
        }
    }

    fn buffer(&self, len: usize) -> Result<Buffer, Fault> {
        Buffer::try_paged(len).map_err(|e| Fault { engine: self.info.name.clone(), reason: e.to_string() })
    }

    fn run(&self, job: &mut Job) -> Result<Verdicts, Fault> {
        self.check()?;
        Ok(Verdicts::from_failed(chunk::run(self.levels, job)))
    }

    fn messages(&self, op: Op, suite: Suite, messages: &mut [Message<'_>]) -> Option<Result<Verdicts, Fault>> {
        let done = self.check().map(|()| Verdicts::from_failed(messages::run(self.levels, op, suite, messages)));
        Some(done)
    }
}
