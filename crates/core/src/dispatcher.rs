//! Hands the jobs of a piece of work to the lanes of its engines.
//!
//! Each lane takes a job, runs it and finishes it itself: nothing is handed over between threads. Lanes of a faster
//! engine come back sooner and so take more.

use crate::engine::{Engine, Fault, Job, Verdicts};
use crate::stack;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;

/// A piece of work that consists of jobs, called from all lanes at once.
pub trait Work: Sync {
    /// Why it failed.
    type Error: From<Fault> + Send;

    /// How much there is to do.
    fn extent(&self) -> Extent;

    /// An empty job with a buffer of the engine's of `len` bytes, for a lane to fill again and again.
    fn job(&self, engine: &dyn Engine, len: usize) -> Result<Job, Self::Error>;

    /// Takes the next part of the work into a job. Returns whether there was one.
    fn fill(&self, job: &mut Job) -> Result<bool, Self::Error>;

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
    /// How many of `lanes` lanes have something to do, and the length of the jobs of an engine that prefers `preferred` bytes.
    ///
    /// Jobs are short enough that each lane gets two or more, so that no lane waits long for the last one.
    fn share(self, lanes: usize, preferred: usize) -> (usize, usize) {
        let most = (preferred / self.granule).max(1) as u64;
        let Some(len) = self.len else { return (lanes, most as usize * self.granule) };
        let granules = len.div_ceil(self.granule as u64).max(1);
        let each = (granules / (2 * lanes as u64)).clamp(1, most);
        let useful = granules.div_ceil(each).min(lanes as u64);
        (useful as usize, (each * self.granule as u64).min(len.max(1)) as usize)
    }
}

/// The lanes of one or more engines.
pub struct Dispatcher {
    /// One entry a lane.
    lanes: Vec<Arc<dyn Engine>>,
}

impl Dispatcher {
    /// All lanes of the engines.
    ///
    /// # Panics
    /// If there is no engine, or one without a lane.
    pub fn new(engines: &[Arc<dyn Engine>]) -> Self {
        let lanes: Vec<_> = engines.iter().flat_map(|e| vec![e.clone(); e.info().lanes]).collect();
        assert!(!lanes.is_empty());
        Self { lanes }
    }

    /// One entry a lane.
    pub(crate) fn lanes(&self) -> &[Arc<dyn Engine>] {
        &self.lanes
    }

    /// Runs the work to its end, or to its first failure.
    pub fn run<W: Work>(&self, work: &W) -> Result<(), W::Error> {
        let (useful, _) = work.extent().share(self.lanes.len(), usize::MAX);
        let run = Run { work, lanes: self.lanes.len(), stop: AtomicBool::new(false), failure: Mutex::new(None) };
        // The calling thread is a lane too: a single job starts no thread.
        let (mine, others) = self.lanes[..useful].split_first().expect("an engine has lanes");
        thread::scope(|scope| {
            for engine in others {
                // Where the system gives no more threads, those that there are do the work.
                if thread::Builder::new().spawn_scoped(scope, || run.lane(&**engine)).is_err() {
                    break;
                }
            }
            run.lane(&**mine);
        });
        match run.failure.into_inner().unwrap_or_else(|poisoned| poisoned.into_inner()) {
            Some(error) => Err(error),
            None => Ok(()),
        }
    }
}

/// What the lanes of one run share.
struct Run<'a, W: Work> {
    work: &'a W,
    lanes: usize,
    stop: AtomicBool,
    failure: Mutex<Option<W::Error>>,
}

impl<W: Work> Run<'_, W> {
    fn lane(&self, engine: &dyn Engine) {
        let _abort = AbortOnPanic(self);
        if let Err(error) = self.jobs(engine) {
            let mut failure = self.failure.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
            // The first failure is the cause; the others' are its effects.
            failure.get_or_insert(error);
            drop(failure);
            self.abort();
        }
    }

    fn jobs(&self, engine: &dyn Engine) -> Result<(), W::Error> {
        let info = engine.info();
        let (_, len) = self.work.extent().share(self.lanes, info.preferred_job.min(info.largest_job));
        let mut job = self.work.job(engine, len)?;
        while !self.stop.load(Ordering::Relaxed) && self.work.fill(&mut job)? {
            let verdicts = stack::wiped(|| engine.run(&mut job))?;
            job.wipe(&verdicts);
            self.work.finish(&mut job, &verdicts)?;
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
    use super::Extent;

    const MIB: usize = 1 << 20;

    #[test]
    fn work_is_shared_among_lanes() {
        let share = |len: usize, lanes| Extent { len: Some(len as u64), granule: MIB }.share(lanes, 8 * MIB);
        assert_eq!(share(0, 2), (1, 1));
        assert_eq!(share(1000, 2), (1, 1000));
        assert_eq!(share(MIB, 16), (1, MIB));
        assert_eq!(share(2 * MIB, 2), (2, MIB));
        assert_eq!(share(8 * MIB, 2), (2, 2 * MIB));
        assert_eq!(share(1024 * MIB, 2), (2, 8 * MIB));
        assert_eq!(share(1024 * MIB, 1), (1, 8 * MIB));
        assert_eq!(share(3 * MIB + 5, 16), (4, MIB));
        assert_eq!(Extent { len: None, granule: MIB }.share(2, 8 * MIB), (2, 8 * MIB));
        assert_eq!(Extent { len: None, granule: 16 * MIB }.share(2, 8 * MIB), (2, 16 * MIB));
    }
}
