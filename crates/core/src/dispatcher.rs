//! Hands the jobs of a piece of work to the lanes of its engines.
//!
//! Each lane takes a job, runs it and finishes it itself: nothing is handed over between threads. Lanes of a faster
//! engine come back sooner and so take more, and all take less towards the end, so that they end together.
//!
//! An engine that fails is not asked again. Its lanes keep the jobs that they have filled, and run them and all that
//! follow by another engine, where there is one that can.

use crate::Suite;
use crate::engine::{Buffer, Engine, Fault, Job, Verdicts};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock};
use std::{fmt, iter, ptr, thread};

/// A piece of work that consists of jobs, called from all lanes at once.
pub trait Work: Sync {
    /// Why it failed.
    type Error: From<Fault> + Send;

    /// The suite of its jobs.
    fn suite(&self) -> Suite;

    /// How much there is to do.
    fn extent(&self) -> Extent;

    /// The length of the buffer that a job for `len` bytes of the work takes.
    fn room(&self, len: usize) -> usize;

    /// An empty job around a buffer of an engine's, for a lane to fill again and again.
    fn job(&self, buf: Buffer) -> Job;

    /// Takes the next part of the work into a job, no more than the lane's share of what is left. Returns whether there
    /// was one.
    fn fill(&self, job: &mut Job, share: Share) -> Result<bool, Self::Error>;

    /// Takes over what an engine made of the job.
    fn finish(&self, job: &mut Job, verdicts: &Verdicts) -> Result<(), Self::Error>;

    /// Lets no call wait any longer: some lane has failed.
    fn abort(&self);
}

/// How much work there is, and how finely it can be cut.
#[derive(Clone, Copy, Debug)]
pub struct Extent {
    /// All of it in bytes, if that is known.
    pub len: Option<u64>,
    /// What jobs are whole multiples of, in bytes.
    pub granule: usize,
}

impl Extent {
    /// All of it, in whole multiples.
    fn granules(self) -> Option<u64> {
        self.len.map(|len| len.div_ceil(self.granule as u64).max(1))
    }

    /// The length of the jobs of a lane whose engine takes no more than `most` bytes at once.
    fn job_len(self, share: Share, most: usize) -> usize {
        let most = (most / self.granule).max(1) as u64;
        let Some(len) = self.len else { return most as usize * self.granule };
        let each = share.of(self.granules().unwrap_or(1)).min(most);
        (each * self.granule as u64).min(len.max(1)) as usize
    }
}

/// How much of what is left a lane takes at once: less than falls to it, so that no lane waits long for the last one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Share {
    /// What the lane's engine is best at, in bytes.
    mine: u64,
    /// The same of all lanes together.
    all: u64,
}

impl Share {
    /// How many of `left` parts: half of what falls to the lane, and one at least.
    pub fn of(self, left: u64) -> u64 {
        let part = u128::from(left) * u128::from(self.mine) / (2 * u128::from(self.all));
        u64::try_from(part).unwrap_or(u64::MAX).max(1)
    }
}

/// Who is told of an engine's fault, once an engine, when another one takes over.
pub type OnFault = dyn Fn(&Fault) + Send + Sync;

/// The lanes of one or more engines.
pub struct Dispatcher {
    engines: Vec<Member>,
    on_fault: Box<OnFault>,
}

/// An engine of a dispatcher.
pub(crate) struct Member {
    pub engine: Arc<dyn Engine>,
    /// Whether it works only where no other engine can.
    is_fallback: bool,
    /// Why another engine has taken over.
    fault: OnceLock<Fault>,
}

impl Member {
    fn new(engine: Arc<dyn Engine>, is_fallback: bool) -> Self {
        assert!(engine.info().lanes > 0);
        Self { engine, is_fallback, fault: OnceLock::new() }
    }

    fn has(&self, suite: Suite) -> bool {
        self.engine.info().suites.contains(&suite)
    }

    fn can(&self, suite: Suite) -> bool {
        self.fault.get().is_none() && self.has(suite)
    }

    /// What the lane of a job is worth beside other lanes.
    fn weight(&self) -> u64 {
        let info = self.engine.info();
        info.preferred_job.min(info.largest_job).max(1) as u64
    }
}

impl Dispatcher {
    /// All lanes of the engines. Where an engine fails, the others go on.
    ///
    /// # Panics
    /// If there is no engine, or one without a lane.
    pub fn new(engines: &[Arc<dyn Engine>]) -> Self {
        assert!(!engines.is_empty());
        let engines = engines.iter().map(|engine| Member::new(engine.clone(), false)).collect();
        Self { engines, on_fault: Box::new(|_| {}) }
    }

    /// Has an engine take over where none of the others can.
    pub fn with_fallback(mut self, engine: Arc<dyn Engine>) -> Self {
        self.engines.push(Member::new(engine, true));
        self
    }

    /// Tells of each engine that failed, once, when another one takes over. Where none is left, the run fails instead.
    pub fn on_fault(mut self, tell: impl Fn(&Fault) + Send + Sync + 'static) -> Self {
        self.on_fault = Box::new(tell);
        self
    }

    /// One entry a lane of the engines that can run the suite; of the fallback, where there is none.
    pub(crate) fn lanes(&self, suite: Suite) -> Result<Vec<&Member>, Fault> {
        let of = |fallback: bool| {
            let able = self.engines.iter().filter(move |m| m.is_fallback == fallback && m.can(suite));
            able.flat_map(|m| iter::repeat_n(m, m.engine.info().lanes)).collect::<Vec<_>>()
        };
        let lanes = Some(of(false)).filter(|lanes| !lanes.is_empty()).unwrap_or_else(|| of(true));
        if lanes.is_empty() { Err(self.none_can(suite)) } else { Ok(lanes) }
    }

    /// Why no engine can run the suite.
    fn none_can(&self, suite: Suite) -> Fault {
        if let Some(fault) = self.engines.iter().filter(|m| m.has(suite)).find_map(|m| m.fault.get()) {
            return fault.clone();
        }
        let names: Vec<&str> = self.engines.iter().map(|m| m.engine.info().name.as_str()).collect();
        Fault { engine: names.join(" and "), reason: format!("it has no {} (engine cpu has)", suite.name()) }
    }

    /// The engine that takes over from one that failed, which is not asked again; the fault, where there is none.
    fn successor(&self, failed: &Member, suite: Suite, fault: Fault) -> Result<&Member, Fault> {
        let able = |m: &&Member| m.can(suite) && !ptr::eq(*m, failed);
        let Some(next) = self.engines.iter().find(able) else { return Err(fault) };
        if failed.fault.set(fault.clone()).is_ok() {
            (self.on_fault)(&fault);
        }
        Ok(next)
    }

    /// What `run` makes of the engine, or of its successors. Gives the one that did it, too.
    pub(crate) fn by_turns<'m, T>(
        &'m self,
        mut member: &'m Member,
        suite: Suite,
        mut run: impl FnMut(&dyn Engine) -> Result<T, Fault>,
    ) -> Result<(T, &'m Member), Fault> {
        loop {
            let done = match member.fault.get() {
                Some(fault) => Err(fault.clone()),
                None => run(&*member.engine),
            };
            match done {
                Ok(done) => return Ok((done, member)),
                Err(fault) => member = self.successor(member, suite, fault)?,
            }
        }
    }

    /// Runs the work to its end, or to its first failure.
    pub fn run<W: Work>(&self, work: &W) -> Result<(), W::Error> {
        let lanes = self.lanes(work.suite())?;
        let all = lanes.iter().map(|member| member.weight()).sum();
        let run = Run { dispatcher: self, work, all, stop: AtomicBool::new(false), failure: Mutex::new(None) };
        // The calling thread is a lane too: a single job starts no thread.
        let (mine, others) = lanes[..run.useful(&lanes)].split_first().expect("there are lanes");
        thread::scope(|scope| {
            for member in others {
                // Where the system gives no more threads, those that there are do the work.
                if thread::Builder::new().spawn_scoped(scope, || run.lane(member)).is_err() {
                    break;
                }
            }
            run.lane(mine);
        });
        match run.failure.into_inner().unwrap_or_else(|poisoned| poisoned.into_inner()) {
            Some(error) => Err(error),
            None => Ok(()),
        }
    }
}

impl fmt::Debug for Dispatcher {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names = self.engines.iter().map(|m| &m.engine.info().name);
        f.debug_list().entries(names).finish()
    }
}

/// What the lanes of one run share.
struct Run<'a, W: Work> {
    dispatcher: &'a Dispatcher,
    work: &'a W,
    /// What all lanes are worth.
    all: u64,
    stop: AtomicBool,
    failure: Mutex<Option<W::Error>>,
}

impl<'a, W: Work> Run<'a, W> {
    fn share(&self, member: &Member) -> Share {
        Share { mine: member.weight(), all: self.all }
    }

    /// The length of a lane's jobs.
    fn job_len(&self, member: &Member) -> usize {
        let most = usize::try_from(member.weight()).unwrap_or(usize::MAX);
        self.work.extent().job_len(self.share(member), most)
    }

    /// How many lanes have something to do, the first ones.
    fn useful(&self, lanes: &[&Member]) -> usize {
        let extent = self.work.extent();
        let Some(mut left) = extent.granules() else { return lanes.len() };
        let busy = lanes.iter().take_while(|member| {
            let before = left;
            left = left.saturating_sub((self.job_len(member) / extent.granule).max(1) as u64);
            before > 0
        });
        busy.count()
    }

    fn lane(&self, member: &'a Member) {
        let _abort = AbortOnPanic(self);
        if let Err(error) = self.jobs(member) {
            let mut failure = self.failure.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
            // The first failure is the cause; the others' are its effects.
            failure.get_or_insert(error);
            drop(failure);
            self.abort();
        }
    }

    /// The lane's work, by its engine or by those that take over.
    fn jobs(&self, mut member: &'a Member) -> Result<(), W::Error> {
        let suite = self.work.suite();
        let dispatcher = self.dispatcher;
        'buffer: while !self.stop.load(Ordering::Relaxed) {
            let room = self.work.room(self.job_len(member));
            let (buf, able) = dispatcher.by_turns(member, suite, |engine| engine.buffer(room))?;
            member = able;
            let mut job = self.work.job(buf);
            while !self.stop.load(Ordering::Relaxed) {
                if !self.work.fill(&mut job, self.share(member))? {
                    return Ok(());
                }
                let (verdicts, able) = dispatcher.by_turns(member, suite, |engine| engine.run(&mut job))?;
                job.wipe(&verdicts);
                self.work.finish(&mut job, &verdicts)?;
                if !ptr::eq(member, able) {
                    // From here on jobs and buffers are as the other engine likes them.
                    member = able;
                    continue 'buffer;
                }
            }
        }
        Ok(())
    }

    fn abort(&self) {
        self.stop.store(true, Ordering::Relaxed);
        self.work.abort();
    }
}

/// Keeps the other lanes from waiting for a lane that panicked; the scope passes the panic on.
struct AbortOnPanic<'a, 'b, W: Work>(&'a Run<'b, W>);

impl<W: Work> Drop for AbortOnPanic<'_, '_, W> {
    fn drop(&mut self) {
        if thread::panicking() {
            self.0.abort();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Extent, Share};

    const MIB: usize = 1 << 20;

    #[test]
    fn work_is_shared_among_lanes() {
        let len = |len: usize, lanes: u64| {
            Extent { len: Some(len as u64), granule: MIB }.job_len(Share { mine: 8, all: 8 * lanes }, 8 * MIB)
        };
        assert_eq!(len(0, 2), 1);
        assert_eq!(len(1000, 2), 1000);
        assert_eq!(len(MIB, 16), MIB);
        assert_eq!(len(2 * MIB, 2), MIB);
        assert_eq!(len(8 * MIB, 2), 2 * MIB);
        assert_eq!(len(1024 * MIB, 2), 8 * MIB);
        assert_eq!(len(1024 * MIB, 1), 8 * MIB);
        assert_eq!(len(3 * MIB + 5, 16), MIB);
        let unknown = |granule| Extent { len: None, granule }.job_len(Share { mine: 1, all: 2 }, 8 * MIB);
        assert_eq!(unknown(MIB), 8 * MIB);
        assert_eq!(unknown(16 * MIB), 16 * MIB);
    }

    #[test]
    fn shares_are_as_engines_like_them_and_shrink() {
        let (large, small) = (Share { mine: 16, all: 24 }, Share { mine: 2, all: 24 });
        assert_eq!((large.of(240), small.of(240)), (80, 10));
        assert_eq!((large.of(2), small.of(2), small.of(0)), (1, 1, 1));
        assert_eq!(Share { mine: u64::MAX, all: u64::MAX }.of(u64::MAX), u64::MAX / 2);
        // However much there is, the last job is one part, and few more jobs are run than there would be of equal ones.
        let (mut left, mut jobs) = (1000, 0);
        while left > 0 {
            left -= Share { mine: 1, all: 4 }.of(left).min(8);
            jobs += 1;
        }
        assert!(jobs < 1000 / 8 + 40, "{jobs}");
    }
}
