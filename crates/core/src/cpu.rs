//! The CPU engines: `serial` is one lane, `cpu` one lane for each thread.

use crate::Suite;
use crate::chunk::{self, Levels};
use crate::engine::{Buffer, Engine, EngineInfo, Fault, Job, Op, Verdicts};
use crate::message::{self, Message};

/// Short enough that two jobs a core stay in its cache, and that lanes which write to one file do not wait long for each other.
const PREFERRED_JOB: usize = 2 << 20;
/// What all lanes together should not take more of, in bytes: with many, jobs are shorter.
const ALL_JOBS: usize = 256 << 20;

/// Runs jobs on the thread that calls it.
pub struct CpuEngine {
    info: EngineInfo,
    levels: Levels,
}

impl CpuEngine {
    /// The `serial` engine: one lane.
    pub fn serial(levels: Levels) -> Self {
        Self::new("serial", 1, levels)
    }

    /// The `cpu` engine: `threads` lanes.
    pub fn parallel(threads: usize, levels: Levels) -> Self {
        Self::new("cpu", threads.max(1), levels)
    }

    fn new(name: &str, lanes: usize, levels: Levels) -> Self {
        let info = EngineInfo {
            name: name.into(),
            detail: format!(
                "{lanes} thread{}, AES {}, SHA-3 {}",
                if lanes == 1 { "" } else { "s" },
                levels.aes,
                levels.keccak
            ),
            suites: Suite::ALL,
            lanes,
            preferred_job: PREFERRED_JOB.min(ALL_JOBS / lanes),
            largest_job: usize::MAX,
            divides: lanes > 1,
        };
        Self { info, levels }
    }
}

impl Engine for CpuEngine {
    fn info(&self) -> &EngineInfo {
        &self.info
    }

    fn buffer(&self, len: usize) -> Result<Buffer, Fault> {
        Buffer::try_paged(len).map_err(|e| Fault { engine: self.info.name.clone(), reason: e.to_string() })
    }

    fn run(&self, job: &mut Job) -> Result<Verdicts, Fault> {
        Ok(Verdicts::from_failed(chunk::run(self.levels, job)))
    }

    fn messages(&self, op: Op, suite: Suite, messages: &mut [Message<'_>], threads: usize) -> Result<Verdicts, Fault> {
        Ok(Verdicts::from_failed(message::run(self.levels, op, suite, messages, threads)))
    }
}
