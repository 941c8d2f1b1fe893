//! Messages of 256 bytes that arrive one by one and are sealed through a coalescer: how long one alone takes, and how
//! many a second come from 64 callers of whom each waits for its result before it submits again. The callers are
//! threads, or tasks of one thread. At last, one thread submits a flood of messages, and then waits for all results.
//!
//! `cargo bench -p phalanx-core --bench arrivals`

use phalanx_core::batch::coalescer::{Coalescer, Limits, Submission};
use phalanx_core::{Roster, SecretKey, Suite};
use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, mpsc};
use std::task::{Context, Poll, Wake, Waker};
use std::thread;
use std::time::{Duration, Instant};

const TEXT: [u8; 256] = [7; 256];
const CALLERS: usize = 64;
const ALONE: usize = 2000;
const FLOOD: usize = 500_000;
const TIME: Duration = Duration::from_secs(2);

fn main() {
    let key = Arc::new(SecretKey::random().expect("random bytes"));
    for suite in [Suite::Aes256CtrSha3, Suite::Aes256CtrTurboShake, Suite::Aes256Gcm] {
        let sealing = Coalescer::to_seal(Roster::cpu(), suite, Limits::default()).expect("threads");
        let [median, late] = alone(&sealing, &key);
        let (threads, tasks) = (by_threads(&sealing, &key), by_tasks(&sealing, &key));
        let flood = flood(&sealing, &key);
        println!(
            "suite {}: alone {median:?}, 99th percentile {late:?}; a second: {CALLERS} threads {threads:.0}, \
             {CALLERS} tasks {tasks:.0}, a flood {flood:.0}",
            suite.id()
        );
    }
}

/// The median and the 99th percentile of the time from a submission to its result.
fn alone(sealing: &Coalescer, key: &Arc<SecretKey>) -> [Duration; 2] {
    let mut times: Vec<_> = (0..ALONE)
        .map(|_| {
            let started = Instant::now();
            sealing.submit(key, b"", &TEXT).expect("it is open").wait().expect("it seals");
            started.elapsed()
        })
        .collect();
    times.sort_unstable();
    [times[ALONE / 2], times[ALONE * 99 / 100]]
}

/// How many messages threads have sealed in a second.
fn by_threads(sealing: &Coalescer, key: &Arc<SecretKey>) -> f64 {
    let (done, ended) = (AtomicU64::new(0), AtomicBool::new(false));
    let started = Instant::now();
    thread::scope(|scope| {
        for _ in 0..CALLERS {
            scope.spawn(|| {
                while !ended.load(Ordering::Relaxed) {
                    sealing.submit(key, b"", &TEXT).expect("it is open").wait().expect("it seals");
                    done.fetch_add(1, Ordering::Relaxed);
                }
            });
        }
        thread::sleep(TIME);
        ended.store(true, Ordering::Relaxed);
    });
    done.into_inner() as f64 / started.elapsed().as_secs_f64()
}

/// How many messages of a flood are sealed in a second.
fn flood(sealing: &Coalescer, key: &Arc<SecretKey>) -> f64 {
    let started = Instant::now();
    let submit = |_| sealing.submit(key, b"", &TEXT).expect("it is open");
    let tickets: Vec<_> = (0..FLOOD).map(submit).collect();
    tickets.into_iter().for_each(|ticket| drop(ticket.wait().expect("it seals")));
    FLOOD as f64 / started.elapsed().as_secs_f64()
}

/// How many messages the tasks of one thread have sealed in a second.
fn by_tasks(sealing: &Coalescer, key: &Arc<SecretKey>) -> f64 {
    let (send, woken) = mpsc::channel();
    let wakers: Vec<Waker> = (0..CALLERS).map(|task| Arc::new(Woken { task, send: send.clone() }).into()).collect();
    let mut tasks: Vec<Option<Submission>> = (0..CALLERS).map(|_| None).collect();
    (0..CALLERS).for_each(|task| send.send(task).expect("it is received"));
    let (started, mut done) = (Instant::now(), 0u64);
    while started.elapsed() < TIME {
        let i = woken.recv().expect("it is sent");
        loop {
            let task = tasks[i].get_or_insert_with(|| sealing.submit_async(key, b"", &TEXT));
            let Poll::Ready(result) = Pin::new(task).poll(&mut Context::from_waker(&wakers[i])) else { break };
            result.expect("it seals");
            tasks[i] = None;
            done += 1;
        }
    }
    done as f64 / started.elapsed().as_secs_f64()
}

struct Woken {
    task: usize,
    send: mpsc::Sender<usize>,
}

impl Wake for Woken {
    fn wake(self: Arc<Self>) {
        // At the end nobody receives it.
        let _ = self.send.send(self.task);
    }
}
