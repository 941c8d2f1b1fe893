//! The coalescer under Poisson arrivals: throughput, and the time from a message's arrival to its result.

use crate::workload::{self, Shape};
use phalanx_core::Suite;
use phalanx_core::batch;
use phalanx_core::chunk::Levels;
use phalanx_core::coalescer::{Coalescer, Limits, Ticket};
use phalanx_core::cpu::CpuEngine;
use phalanx_core::dispatcher::Dispatcher;
use phalanx_core::engine::Op;
use phalanx_core::key::SecretKey;
use phalanx_core::message::Message;
use std::collections::VecDeque;
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, OnceLock, mpsc};
use std::task::{Context, Wake, Waker};
use std::thread::{self, Thread};
use std::time::{Duration, Instant};

const SUITE: Suite = Suite::Aes256CtrSha3;
const DELAY: Duration = Duration::from_millis(2);
/// How long each load is kept up.
const SPAN: Duration = Duration::from_secs(3);

/// Latencies at several parts of what goes through at most.
pub fn flow(cores: usize) {
    println!("the coalescer in suite 1, P2's irregular lengths, a delay of {DELAY:?}");
    let lengths = workload::lengths(1000, Shape::Irregular, 5);
    let mean = lengths.iter().sum::<usize>() as f64 / lengths.len() as f64;
    let most = saturated(cores, &lengths);
    println!("  {:<64} {:7.3}  {most:.0} messages/s", "as fast as 4 threads submit", most * mean / 1e9);
    for load in [0.25, 0.5, 0.75] {
        let done = under_load(cores, &lengths, most * load);
        let mut waits: Vec<f64> = done.iter().map(|(wait, _)| wait.as_secs_f64() * 1e3).collect();
        waits.sort_by(f64::total_cmp);
        let [p50, p99, p999] = [0.5, 0.99, 0.999].map(|part| waits[((waits.len() - 1) as f64 * part).round() as usize]);
        let what = format!("load {load:.2}, {} messages: done in, at 50, 99 and 99.9 %", waits.len());
        println!("  {what:<64} {p50:7.3}, {p99:.3}, {p999:.3} ms");
        if load == 0.5 {
            let size = common_batch(&done);
            let service = service(cores, &lengths, size) * 1e3;
            println!("  99 % of the batches have {size} messages or fewer, which take {service:.3} ms");
            let (ratio, what) =
                (p99 / (DELAY.as_secs_f64() * 1e3 + service), "at 99 %, over the delay and such a batch");
            let reached = if ratio <= 1.0 { "reached" } else { "MISSED" };
            println!("  = {what:<62} {ratio:7.3} ×   bar 1 × at most   {reached}");
        }
    }
}

fn dispatcher(cores: usize) -> Dispatcher {
    Dispatcher::new(&[Arc::new(CpuEngine::parallel(cores, Levels::detect()))])
}

fn coalescer(cores: usize) -> Coalescer {
    let limits = Limits { delay: DELAY, ..Limits::default() };
    Coalescer::new(dispatcher(cores), Op::Seal, SUITE, limits).expect("a thread")
}

fn key() -> Arc<SecretKey> {
    Arc::new(SecretKey::from_slice(&[3; 32]).expect("32 bytes"))
}

/// Messages a second when the queue is never empty.
fn saturated(cores: usize, lengths: &[usize]) -> f64 {
    let (sealing, key) = (coalescer(cores), key());
    let start = Instant::now();
    let submit = |first: usize| {
        let text = vec![1; workload::LONGEST];
        let mut tickets = VecDeque::new();
        let mut count = 0usize;
        for len in lengths.iter().cycle().skip(first).take_while(|_| start.elapsed() < SPAN) {
            tickets.push_back(sealing.submit(&key, b"", &text[..*len]).expect("open"));
            count += 1;
            if tickets.len() > 50 {
                drop(tickets.pop_front().map(|ticket| ticket.wait().expect("sealed")));
            }
        }
        tickets.into_iter().for_each(|ticket| drop(ticket.wait().expect("sealed")));
        count
    };
    let count: usize = thread::scope(|scope| {
        let threads: Vec<_> = (0..4).map(|i| scope.spawn(move || submit(i * 250))).collect();
        threads.into_iter().map(|thread| thread.join().expect("no panic")).sum()
    });
    count as f64 / start.elapsed().as_secs_f64()
}

/// Notes when the worker wakes it, and lets the collecting thread know.
struct Done {
    at: OnceLock<Instant>,
    collector: Thread,
}

impl Wake for Done {
    fn wake(self: Arc<Self>) {
        let _ = self.at.set(Instant::now());
        self.collector.unpark();
    }
}

type OnItsWay = (Instant, Arc<Done>, Pin<Box<Ticket>>);

/// Submits at the times of a Poisson process. Gives each message's latency, and when it was done.
fn under_load(cores: usize, lengths: &[usize], rate: f64) -> Vec<(Duration, Instant)> {
    let (sealing, key) = (coalescer(cores), key());
    let text = vec![1; workload::LONGEST];
    let (give, take) = mpsc::channel::<OnItsWay>();
    let collector = thread::spawn(move || take.into_iter().map(collect).collect());
    let start = Instant::now();
    let mut arrival = start;
    for (len, time) in lengths.iter().cycle().zip(workload::arrivals(rate, 11)) {
        arrival += time;
        if arrival > start + SPAN {
            break;
        }
        // What came while this thread slept too long is submitted late, and counts from when it came.
        thread::sleep(arrival.saturating_duration_since(Instant::now()));
        let mut ticket = Box::pin(sealing.submit(&key, b"", &text[..*len]).expect("open"));
        let done = Arc::new(Done { at: OnceLock::new(), collector: collector.thread().clone() });
        if ticket.as_mut().poll(&mut Context::from_waker(&Waker::from(done.clone()))).is_ready() {
            continue; // too seldom to matter: a batch began and ended in between
        }
        give.send((arrival, done, ticket)).expect("the collector is there");
    }
    drop((give, sealing));
    collector.join().expect("no panic")
}

fn collect((arrival, done, mut ticket): OnItsWay) -> (Duration, Instant) {
    let at = loop {
        if let Some(at) = done.at.get() {
            break *at;
        }
        thread::park();
    };
    let result = ticket.as_mut().poll(&mut Context::from_waker(Waker::noop()));
    assert!(result.is_ready());
    (at - arrival, at)
}

/// The size that 99 % of the batches do not exceed. Results of one batch come close together.
fn common_batch(done: &[(Duration, Instant)]) -> usize {
    const APART: Duration = Duration::from_micros(50);
    let mut sizes: Vec<usize> = done.chunk_by(|(_, a), (_, b)| *b - *a < APART).map(<[_]>::len).collect();
    sizes.sort_unstable();
    sizes[(sizes.len() - 1) * 99 / 100]
}

/// How many seconds a batch of so many messages takes: the median.
fn service(cores: usize, lengths: &[usize], size: usize) -> f64 {
    let (dispatcher, key) = (dispatcher(cores), key());
    let mut times: Vec<f64> = (0..200)
        .map(|i| {
            let lengths = lengths.iter().cycle().skip(i * 5).take(size);
            let mut stored: Vec<_> = lengths.map(|len| vec![1; SUITE.overhead() + len]).collect();
            let mut set: Vec<_> = stored.iter_mut().map(|data| Message { key: &key, ad: b"", data }).collect();
            let start = Instant::now();
            batch::seal(&dispatcher, SUITE, &mut set).expect("sealed");
            start.elapsed().as_secs_f64()
        })
        .collect();
    times.sort_by(f64::total_cmp);
    times[times.len() / 2]
}
