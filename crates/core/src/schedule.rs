//! How work is cut into jobs, and jobs are shared among workers.
//!
//! Each worker takes a job, runs it and finishes it itself. Nothing passes from thread to thread. Workers of a faster
//! engine come back sooner and so take more. Towards the end all take less, so that they finish together. A worker
//! whose engine fails keeps the job that it has filled. It runs this job and all later ones on another engine, if there
//! is one.

use crate::Suite;
use crate::error::Fault;
use crate::roster::{Member, Roster};
use crate::seam::{Buffer, Job, Verdicts};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::{ptr, thread};

/// Work that consists of jobs. Its methods are called from all workers at once.
pub trait Work: Sync {
    /// The error of the work.
    type Error: From<Fault> + Send;

    /// The suite of its jobs.
    fn suite(&self) -> Suite;

    /// The amount of work.
    fn extent(&self) -> Extent;

    /// The length of the buffer that a job for `len` bytes of the work takes.
    fn room(&self, len: usize) -> usize;

    /// An empty job around an engine's buffer. A worker fills it again and again.
    fn job(&self, buf: Buffer) -> Job;

    /// Takes the next part of the work into a job, at most the worker's share of the rest. Returns whether there was
    /// one.
    ///
    /// # Errors
    /// An error that ends the whole work, such as a failed read.
    fn fill(&self, job: &mut Job, share: Share) -> Result<bool, Self::Error>;

    /// Takes the result of an engine.
    ///
    /// # Errors
    /// An error that ends the whole work, such as a failed write or a wrong tag.
    fn finish(&self, job: &mut Job, verdicts: &Verdicts) -> Result<(), Self::Error>;

    /// Ends all waiting calls after a worker has failed.
    fn abort(&self);
}

/// The amount of work, and how finely it can be cut.
#[derive(Clone, Copy, Debug)]
pub struct Extent {
    /// The total in bytes, if it is known.
    pub len: Option<u64>,
    /// The unit of jobs, which are whole multiples of it, in bytes.
    pub granule: usize,
}

impl Extent {
    /// The total in granules, rounded up.
    fn granules(self) -> Option<u64> {
        self.len.map(|len| len.div_ceil(self.granule as u64).max(1))
    }

    /// The length of a worker's jobs if its engine takes at most `most` bytes at once.
    fn job_len(self, share: Share, most: usize) -> usize {
        let most = (most / self.granule).max(1) as u64;
        let Some(len) = self.len else { return most as usize * self.granule };
        let each = share.of(self.granules().unwrap_or(1)).min(most);
        (each * self.granule as u64).min(len.max(1)) as usize
    }
}

/// The part of the remaining work that a worker takes at once. It is less than the worker's fair share, so that the
/// others do not wait long for the last worker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Share {
    /// The weight of the worker, in bytes.
    mine: u64,
    /// The weight of all workers together.
    all: u64,
}

impl Share {
    /// The number of parts to take of those left: half of the worker's fair share, and at least one.
    #[must_use]
    pub fn of(self, left: u64) -> u64 {
        let part = u128::from(left) * u128::from(self.mine) / (2 * u128::from(self.all));
        u64::try_from(part).unwrap_or(u64::MAX).max(1)
    }
}

/// Runs the work until it is done or fails.
///
/// # Errors
/// The first failure of the work, or the fault of the last engine that could run it.
pub fn run<W: Work>(roster: &Roster, work: &W) -> Result<(), W::Error> {
    let workers = roster.workers(work.suite())?;
    let all = workers.iter().map(|member| member.weight()).sum();
    let run = Run { roster, work, all, stop: AtomicBool::new(false), failure: Mutex::new(None) };
    // The calling thread is a worker too, so a single job starts no thread.
    let useful = run.useful(&workers).min(run.fitting(workers[0]));
    let (mine, others) = workers[..useful].split_first().expect("there are workers");
    thread::scope(|scope| {
        for member in others {
            // If the system gives no more threads, the existing ones do the work.
            if thread::Builder::new().spawn_scoped(scope, || run.worker(member)).is_err() {
                break;
            }
        }
        run.worker(mine);
    });
    match run.failure.into_inner().unwrap_or_else(|poisoned| poisoned.into_inner()) {
        Some(error) => Err(error),
        None => Ok(()),
    }
}

/// The state that the workers of one run share.
struct Run<'a, W: Work> {
    roster: &'a Roster,
    work: &'a W,
    /// The weight of all workers.
    all: u64,
    stop: AtomicBool,
    failure: Mutex<Option<W::Error>>,
}

impl<'a, W: Work> Run<'a, W> {
    fn share(&self, member: &Member) -> Share {
        Share { mine: member.weight(), all: self.all }
    }

    /// The length of a worker's jobs.
    fn job_len(&self, member: &Member) -> usize {
        let most = usize::try_from(member.weight()).unwrap_or(usize::MAX);
        self.work.extent().job_len(self.share(member), most)
    }

    /// The number of workers, from the first on, that have something to do.
    fn useful(&self, workers: &[&Member]) -> usize {
        let extent = self.work.extent();
        let Some(mut left) = extent.granules() else { return workers.len() };
        let busy = workers.iter().take_while(|member| {
            let before = left;
            left = left.saturating_sub((self.job_len(member) / extent.granule).max(1) as u64);
            before > 0
        });
        busy.count()
    }

    /// The number of workers like this one whose jobs fit into the roster's memory.
    fn fitting(&self, member: &Member) -> usize {
        (self.roster.memory() / self.work.room(self.job_len(member)).max(1)).max(1)
    }

    fn worker(&self, member: &'a Member) {
        let _abort = AbortOnPanic(self);
        if let Err(error) = self.jobs(member) {
            let mut failure = self.failure.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
            // The first failure is the cause, and the others are its effects.
            failure.get_or_insert(error);
            drop(failure);
            self.abort();
        }
    }

    /// Runs the worker's jobs on its engine, or on those that take over.
    fn jobs(&self, mut member: &'a Member) -> Result<(), W::Error> {
        let suite = self.work.suite();
        let roster = self.roster;
        'buffer: while !self.stop.load(Ordering::Relaxed) {
            let room = self.work.room(self.job_len(member));
            let (buf, able) = roster.by_turns(member, suite, |engine| engine.buffer(room))?;
            member = able;
            let mut job = self.work.job(buf);
            while !self.stop.load(Ordering::Relaxed) {
                if !self.work.fill(&mut job, self.share(member))? {
                    return Ok(());
                }
                let (verdicts, able) = roster.by_turns(member, suite, |engine| engine.run(&mut job))?;
                job.wipe(&verdicts);
                self.work.finish(&mut job, &verdicts)?;
                if !ptr::eq(member, able) {
                    // From here on, jobs and buffers are made for the other engine.
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

/// Keeps the other workers from waiting for one that panicked. The thread scope passes the panic on.
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
    fn work_is_shared_among_workers() {
        let len = |len: usize, workers: u64| {
            Extent { len: Some(len as u64), granule: MIB }.job_len(Share { mine: 8, all: 8 * workers }, 8 * MIB)
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
    fn shares_fit_the_engines_and_shrink() {
        let (large, small) = (Share { mine: 16, all: 24 }, Share { mine: 2, all: 24 });
        assert_eq!((large.of(240), small.of(240)), (80, 10));
        assert_eq!((large.of(2), small.of(2), small.of(0)), (1, 1, 1));
        assert_eq!(Share { mine: u64::MAX, all: u64::MAX }.of(u64::MAX), u64::MAX / 2);
        // For any amount of work, the last job is one part, and there are only a few more jobs than with equal parts.
        let (mut left, mut jobs) = (1000, 0);
        while left > 0 {
            left -= Share { mine: 1, all: 4 }.of(left).min(8);
            jobs += 1;
        }
        assert!(jobs < 1000 / 8 + 40, "{jobs}");
    }
}
