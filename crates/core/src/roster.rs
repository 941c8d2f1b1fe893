//! The engines that do the work, and how one takes over from another that fails. An engine that failed is not used
//! again.

use crate::Suite;
use crate::cpu::{CpuEngine, Levels};
use crate::error::Fault;
use crate::seam::Engine;
use crate::secret::wiped_to;
use std::sync::{Arc, OnceLock};
use std::{fmt, iter, ptr};

/// Called with an engine's fault when another engine takes over, once for each engine.
pub type OnFault = dyn Fn(&Fault) + Send + Sync;

/// One or more engines, and a fallback in case they fail.
pub struct Roster {
    engines: Vec<Member>,
    /// How much memory all jobs together may take, in bytes.
    memory: usize,
    on_fault: Box<OnFault>,
}

/// An engine of a roster.
pub(crate) struct Member {
    pub engine: Arc<dyn Engine>,
    /// Whether it is used only if no other engine can work.
    is_fallback: bool,
    /// The fault after which another engine took over.
    fault: OnceLock<Fault>,
    /// The most bytes of a job.
    most: usize,
}

impl Member {
    fn new(engine: Arc<dyn Engine>, is_fallback: bool) -> Self {
        Self { engine, is_fallback, fault: OnceLock::new(), most: usize::MAX }
    }

    fn has(&self, suite: Suite) -> bool {
        self.engine.info().suites.contains(&suite)
    }

    fn can(&self, suite: Suite) -> bool {
        self.fault.get().is_none() && self.has(suite)
    }

    /// The weight of a worker of this engine relative to others.
    pub fn weight(&self) -> u64 {
        let info = self.engine.info();
        info.preferred_job.min(info.largest_job).min(self.most).max(1) as u64
    }
}

impl Roster {
    /// All cores of this machine, with its fastest kernels.
    #[must_use]
    pub fn cpu() -> Self {
        let threads = std::thread::available_parallelism().map_or(1, |n| n.get());
        Self::new(&[Arc::new(CpuEngine::parallel(threads, Levels::detect()))])
    }

    /// All workers of the engines. If an engine fails, the others continue. Without an engine or a worker, each run
    /// fails.
    #[must_use]
    pub fn new(engines: &[Arc<dyn Engine>]) -> Self {
        let engines = engines.iter().map(|engine| Member::new(engine.clone(), false)).collect();
        Self { engines, memory: usize::MAX, on_fault: Box::new(|_| {}) }
    }

    /// Adds an engine that takes over if none of the others can work.
    pub fn with_fallback(mut self, engine: Arc<dyn Engine>) -> Self {
        self.engines.push(Member::new(engine, true));
        self
    }

    /// Makes no job longer than this many bytes, unless a single chunk is longer.
    #[must_use]
    pub fn with_jobs_of(mut self, most: usize) -> Self {
        self.engines.iter_mut().for_each(|member| member.most = most);
        self
    }

    /// Starts at most as many workers as can each have a job in this many bytes of memory, but at least one.
    #[must_use]
    pub fn with_memory(mut self, bytes: usize) -> Self {
        self.memory = bytes;
        self
    }

    pub(crate) fn memory(&self) -> usize {
        self.memory
    }

    /// Calls `tell` for each engine that failed, once, when another one takes over. If none is left, the run fails
    /// instead.
    pub fn on_fault(mut self, tell: impl Fn(&Fault) + Send + Sync + 'static) -> Self {
        self.on_fault = Box::new(tell);
        self
    }

    /// One entry for each worker of the engines that can run the suite, or of the fallback if there are none.
    pub(crate) fn workers(&self, suite: Suite) -> Result<Vec<&Member>, Fault> {
        let of = |fallback: bool| {
            let able = self.engines.iter().filter(move |m| m.is_fallback == fallback && m.can(suite));
            able.flat_map(|m| iter::repeat_n(m, m.engine.info().workers)).collect::<Vec<_>>()
        };
        let workers = Some(of(false)).filter(|workers| !workers.is_empty()).unwrap_or_else(|| of(true));
        if workers.is_empty() { Err(self.none_can(suite)) } else { Ok(workers) }
    }

    /// The engine for a single job: the first that can run the suite.
    pub(crate) fn first(&self, suite: Suite) -> Result<&Member, Fault> {
        let able = |fallback: bool| {
            self.engines.iter().find(|m| m.is_fallback == fallback && m.can(suite) && m.engine.info().workers > 0)
        };
        able(false).or_else(|| able(true)).ok_or_else(|| self.none_can(suite))
    }

    /// Why no engine can run the suite.
    fn none_can(&self, suite: Suite) -> Fault {
        if let Some(fault) = self.engines.iter().filter(|m| m.has(suite)).find_map(|m| m.fault.get()) {
            return fault.clone();
        }
        if self.engines.is_empty() {
            return Fault { engine: "none".into(), reason: "there is no engine".into() };
        }
        let names: Vec<&str> = self.engines.iter().map(|m| m.engine.info().name.as_str()).collect();
        Fault { engine: names.join(" and "), reason: format!("it has no {}", suite.name()) }
    }

    /// The engine that takes over from a failed one, which is not used again. Returns the fault if there is none.
    fn successor(&self, failed: &Member, suite: Suite, fault: Fault) -> Result<&Member, Fault> {
        let able = |m: &&Member| m.can(suite) && !ptr::eq(*m, failed);
        let Some(next) = self.engines.iter().find(able) else { return Err(fault) };
        if failed.fault.set(fault.clone()).is_ok() {
            (self.on_fault)(&fault);
        }
        Ok(next)
    }

    /// Runs `run` with the engine, or with its successors if it fails. Also returns the engine that succeeded.
    pub(crate) fn by_turns<'m, T>(
        &'m self,
        mut member: &'m Member,
        suite: Suite,
        mut run: impl FnMut(&dyn Engine) -> Result<T, Fault>,
    ) -> Result<(T, &'m Member), Fault> {
        loop {
            let done = match member.fault.get() {
                Some(fault) => Err(fault.clone()),
                None => wiped_to(member.engine.stack(), || run(&*member.engine)),
            };
            match done {
                Ok(done) => return Ok((done, member)),
                Err(fault) if member.engine.is_wrong() => return Err(fault),
                Err(fault) => member = self.successor(member, suite, fault)?,
            }
        }
    }
}

impl fmt::Debug for Roster {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names = self.engines.iter().map(|m| &m.engine.info().name);
        f.debug_list().entries(names).finish()
    }
}
