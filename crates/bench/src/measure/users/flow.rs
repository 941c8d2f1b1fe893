//! Messages that arrive one by one as a Poisson process and are sealed through a [`Coalescer`]: throughput and latency.
//!
//! A latency runs from the time when the message was due to arrive, even if it was submitted later, to the time when
//! the task that awaits its result is woken.

use crate::measure::users::data::{Data, Scheme, roster, take_turns};
use crate::measure::users::workload::{self, Random, SEED, Shape};
use crate::measure::{Error, Over, Result, Row, Rows, Setup, Step, engine, row_of, scratch};
use crate::names::users::EXPERIMENT;
use phalanx_core::batch::coalescer::{Coalescer, Failure, Limits, Ticket};
use phalanx_core::{SecretKey, Suite};
use std::pin::Pin;
use std::sync::mpsc;
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll, Wake, Waker};
use std::thread;
use std::time::{Duration, Instant};

const SUITE: Suite = Suite::Aes256CtrSha3;
const SCHEME: &str = "Coalescer";
/// The loads, in percent of the capacity. The requirement is for one half.
const LOADS: [u64; 3] = [10, 50, 80];
const HALF: u64 = 50;
const PERCENTILES: [f64; 3] = [50.0, 99.0, 99.9];

struct Sizes {
    users: usize,
    /// How long messages arrive at each load, and the least number of them.
    seconds: f64,
    least: usize,
    runs: usize,
}

pub fn step(setup: &Setup) -> Result<Step<'_>> {
    let sizes = match setup.quick {
        true => Sizes { users: 300, seconds: 1.0, least: 1000, runs: 1 },
        false => Sizes { users: 2000, seconds: 4.0, least: 20_000, runs: 3 },
    };
    // The data, the copies in a batch of each worker, and a full queue of copies.
    let limits = Limits::default();
    let batches = (1 + setup.threads) * limits.bytes;
    scratch::require_memory((sizes.users * workload::LONGEST + batches + 2 * limits.queue) as u64)?;
    let weight = (sizes.seconds * 4e6) as u64 * sizes.runs as u64;
    Ok(Step::new(format!("{EXPERIMENT} flow"), weight, move |rows| measure(setup, &sizes, rows)))
}

const CAPACITY: &str = "arrivals as fast as the queue takes them";
const BOUND: &str = "the sealing of a full batch";

fn row(setup: &Setup, case: &str, measure: &str, scheme: &str, size: [u64; 2]) -> Row {
    row_of(EXPERIMENT, case, ["seal", measure, scheme, engine(setup.threads)], size, setup.threads)
}

fn measure(setup: &Setup, sizes: &Sizes, rows: &mut Rows<'_>) -> Result<()> {
    let limits = Limits::default();
    let bound = full_batch(setup, &limits, sizes, rows)?;
    let source = Source::new(sizes.users);
    // This is the throughput if all messages arrive at once and submitters wait while the queue is full.
    let count = 5 * sizes.least;
    let at_once = (0..sizes.runs).map(|_| run(setup, &source, count, std::iter::repeat(Duration::ZERO)));
    let at_once: Vec<f64> = at_once.map(|run| Ok(run?.seconds)).collect::<Result<_>>()?;
    let at_once = row(setup, CAPACITY, "throughput", SCHEME, [source.bytes(count), count as u64]).timed(at_once);
    let capacity = at_once.median_s.map_or(0.0, |seconds| count as f64 / seconds);
    rows.write(at_once)?;
    for load in LOADS {
        let rate = capacity * load as f64 / 100.0;
        let count = ((rate * sizes.seconds) as usize).max(sizes.least);
        let case = format!("arrivals at {load} % of that");
        let runs = (0..sizes.runs as u64).map(|i| run(setup, &source, count, workload::arrivals(rate, SEED + i)));
        let runs: Vec<Run> = runs.collect::<Result<_>>()?;
        let throughput = row(setup, &case, "throughput", SCHEME, [source.bytes(count), count as u64]);
        rows.write(throughput.timed(runs.iter().map(|run| run.seconds).collect()))?;
        for percent in PERCENTILES {
            let seconds = runs.iter().map(|run| percentile(&run.latencies, percent)).collect();
            let measure = format!("latency, {percent}th percentile");
            let mut row = row(setup, &case, &measure, SCHEME, [0, count as u64]).timed(seconds);
            if (load, percent) == (HALF, 99.0) {
                row = row.compared(Over { name: BOUND, median_s: bound }, None);
                let asked = format!("at most {BOUND} of {} MiB, {:.3} ms", limits.bytes >> 20, bound * 1e3);
                row.bar = row.median_s.and_then(|latency| setup.bar(asked, latency <= bound));
            }
            rows.write(row)?;
        }
    }
    Ok(())
}

/// Measures how long it takes to seal a batch of the largest size.
fn full_batch(setup: &Setup, limits: &Limits, sizes: &Sizes, rows: &mut Rows<'_>) -> Result<f64> {
    let mut lengths = workload::lengths(sizes.users, Shape::Irregular, SEED);
    let mut sum = 0;
    lengths.retain(|len| {
        sum += len + SUITE.overhead();
        sum <= limits.bytes
    });
    let mut data = Data::new(lengths, SUITE.overhead());
    let size = [data.plaintext() as u64, data.users() as u64];
    let batch = [Scheme::batch(SUITE, setup.threads, setup.levels)];
    let all = take_turns(&mut data, &batch, 9, |scheme, _, _| row(setup, "a full batch", "time", scheme, size))?;
    rows.write_all(all.iter().cloned())?;
    Ok(all[0].median_s.unwrap_or(0.0))
}

/// The users, whose messages arrive repeatedly.
struct Source(Vec<(Arc<SecretKey>, Vec<u8>)>);

impl Source {
    fn new(users: usize) -> Self {
        let mut random = Random::new(SEED);
        let user = |len| {
            let key = SecretKey::from_slice(&random.bytes::<32>()).expect("32 bytes");
            (Arc::new(key), vec![7; len])
        };
        Self(workload::lengths(users, Shape::Irregular, SEED).into_iter().map(user).collect())
    }

    fn message(&self, i: usize) -> &(Arc<SecretKey>, Vec<u8>) {
        &self.0[i % self.0.len()]
    }

    /// The length of the first `count` messages.
    fn bytes(&self, count: usize) -> u64 {
        (0..count).map(|i| self.message(i).1.len() as u64).sum()
    }
}

/// The results for a number of messages.
struct Run {
    /// From the first arrival to the last result.
    seconds: f64,
    latencies: Vec<f64>,
}

/// Seals messages that arrive at these intervals.
fn run(setup: &Setup, source: &Source, count: usize, intervals: impl Iterator<Item = Duration>) -> Result<Run> {
    let cpu = roster(setup.threads, setup.levels);
    let coalescer = Coalescer::to_seal(cpu, SUITE, Limits::default())
        .map_err(|e| Error::Resources(format!("the system gives no thread: {e}")))?;
    let done: Arc<Vec<OnceLock<Instant>>> = Arc::new((0..count).map(|_| OnceLock::new()).collect());
    let started = Instant::now();
    let mut due = Vec::with_capacity(count);
    thread::scope(|scope| {
        // Another thread takes the results, which frees their memory.
        let (give, tickets) = mpsc::channel::<Ticket>();
        let taker = scope.spawn(move || tickets.into_iter().try_for_each(|ticket| ticket.wait().map(drop)));
        let mut next = started;
        for (i, interval) in (0..count).zip(intervals) {
            next += interval;
            thread::sleep(next.saturating_duration_since(Instant::now()));
            due.push(next);
            let (key, text) = source.message(i);
            let mut ticket = coalescer.submit(key, b"", text)?;
            let waker = Waker::from(Arc::new(Arrived { done: done.clone(), i }));
            match Pin::new(&mut ticket).poll(&mut Context::from_waker(&waker)) {
                Poll::Ready(result) => {
                    drop(result?);
                    waker.wake();
                }
                Poll::Pending => drop(give.send(ticket)),
            }
        }
        drop(give);
        taker.join().expect("the taker does not panic")
    })
    .map_err(|failure: Failure| Error::Program(format!("a message was not sealed: {failure}")))?;
    // By now every task has been woken.
    drop(coalescer);
    let mut latencies: Vec<f64> = Vec::with_capacity(count);
    let mut last = started;
    for (done, due) in done.iter().zip(&due) {
        let done = *done.get().ok_or_else(|| Error::Program("a task was not woken".into()))?;
        last = last.max(done);
        latencies.push(done.saturating_duration_since(*due).as_secs_f64());
    }
    latencies.sort_by(f64::total_cmp);
    Ok(Run { seconds: last.saturating_duration_since(started).as_secs_f64(), latencies })
}

/// A stand-in for a task. It is woken when the result is ready.
struct Arrived {
    done: Arc<Vec<OnceLock<Instant>>>,
    i: usize,
}

impl Wake for Arrived {
    fn wake(self: Arc<Self>) {
        // Only the first wake-up counts.
        let _ = self.done[self.i].set(Instant::now());
    }
}

fn percentile(ascending: &[f64], percent: f64) -> f64 {
    let rank = (ascending.len() as f64 * percent / 100.0).ceil() as usize;
    ascending[rank.clamp(1, ascending.len()) - 1]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_nearest_ranks() {
        let numbers: Vec<f64> = (1..=1000).map(f64::from).collect();
        assert_eq!(
            [50.0, 99.0, 99.9, 100.0].map(|percent| percentile(&numbers, percent)),
            [500.0, 990.0, 999.0, 1000.0]
        );
        assert_eq!(percentile(&[3.0], 50.0), 3.0);
        assert_eq!(percentile(&[1.0, 2.0], 99.9), 2.0);
    }

    #[test]
    fn every_message_has_a_latency() {
        let setup = Setup::of_tests("unused");
        let source = Source::new(10);
        let run = run(&setup, &source, 25, workload::arrivals(1000.0, 1)).unwrap();
        assert_eq!(run.latencies.len(), 25);
        // No message is sealed in no time, and no latency is longer than the run.
        assert!(run.latencies[0] > 0.0, "{:?}", run.latencies);
        assert!(run.latencies.is_sorted() && run.latencies[24] <= run.seconds, "{:?}", run.latencies);
        assert_eq!(source.bytes(25), source.bytes(10) * 2 + source.bytes(5));
    }
}
