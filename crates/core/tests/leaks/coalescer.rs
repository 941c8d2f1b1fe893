//! The coalescer: results that are taken, or abandoned before or after the work, engines that fail, and a shutdown with
//! work queued.

use crate::common::sweep_by;
use crate::set::{AD, After, ByJobs, LENGTHS, Set, cpu, fault, panics, wipe};
use phalanx_core::batch::coalescer::{Coalescer, Failure, Limits, Submission, Ticket};
use phalanx_core::engine::Op;
use phalanx_core::{Roster, Suite, batch};
use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Barrier, Condvar, Mutex};
use std::task::{Context, Waker};
use std::thread;

fn new(roster: Roster, op: Op, suite: Suite, limits: Limits) -> Coalescer {
    match op {
        Op::Seal => Coalescer::to_seal(roster, suite, limits).unwrap(),
        Op::Open => Coalescer::to_open(roster, suite, limits).unwrap(),
    }
}

/// A gate at which the only worker waits after its first batch. So what comes later waits in the queue.
#[derive(Clone, Default)]
struct Gate(Arc<(Mutex<bool>, Condvar)>);

impl Gate {
    /// Closes the gate, and makes a worker wait behind it.
    fn roster(&self) -> Roster {
        *self.0.0.lock().unwrap() = false;
        let gate = self.clone();
        After::roster(move || drop(gate.0.1.wait_while(gate.0.0.lock().unwrap(), |open| !*open).unwrap()))
    }
    fn open(&self) {
        *self.0.0.lock().unwrap() = true;
        self.0.1.notify_all();
    }
}

/// Submits the messages from this one on.
fn submit_from(first: usize, to: &Coalescer, op: Op, set: &Set) -> Vec<Ticket> {
    let each = set.inputs(op).into_iter().enumerate().skip(first);
    each.map(|(i, input)| to.submit(set.submitted_key(i), AD, input.bytes).unwrap()).collect()
}

fn submit(to: &Coalescer, op: Op, set: &Set) -> Vec<Ticket> {
    submit_from(0, to, op, set)
}

/// Waits for all results, and handles them like a caller.
fn take(tickets: Vec<Ticket>) {
    for (i, ticket) in tickets.into_iter().enumerate() {
        let result = ticket.wait().unwrap();
        // Half of them wipe themselves.
        if i % 2 == 0 {
            wipe(&mut result.into_vec());
        }
    }
}

/// Does the work with a coalescer in both operations, with SHA-3 and with AES-GCM. Nothing of the set may be left.
#[track_caller]
fn check(what: &str, limits: Limits, roster: impl Fn() -> Roster + Sync, work: impl Fn(Op, Coalescer, &Set) + Sync) {
    check_sets(what, Set::new, limits, roster, work);
}

/// Does the same with sets of this kind.
#[track_caller]
fn check_sets(
    what: &str,
    make: fn(Op, Suite) -> Set,
    limits: Limits,
    roster: impl Fn() -> Roster + Sync,
    work: impl Fn(Op, Coalescer, &Set) + Sync,
) {
    let suites = [Suite::Aes256CtrSha3, Suite::Aes256Gcm];
    let some = |op| suites.into_iter().step_by(sweep_by(1, 2)).map(move |suite| (op, suite));
    for (op, suite) in [Op::Seal, Op::Open].into_iter().flat_map(some) {
        let set = make(op, suite);
        set.hunt(op).nothing_left(&format!("{what}, {op:?}, {}", suite.name()), || {
            work(op, new(roster(), op, suite, limits), &set);
            set.wipe();
        });
    }
}

pub fn results_that_are_taken() {
    let by_jobs = || ByJobs::roster(usize::MAX, fault);
    let all = |op, coalescer: Coalescer, set: &Set| take(submit(&coalescer, op, set));
    check("taken", Limits::default(), cpu, all);
    check("taken by jobs", Limits::default(), by_jobs, all);
    check_sets("taken by users", Set::of_users, Limits::default(), cpu, all);
    check("taken over", Limits::default(), cpu, |op, coalescer, set| {
        let moved = |(i, input): (_, batch::Copied)| {
            let buffer = match op {
                Op::Seal => batch::with_room(set.suite, input.bytes),
                Op::Open => input.bytes.to_vec(),
            };
            coalescer.submit_async_owned(set.submitted_key(i), AD.to_vec(), buffer)
        };
        let mut submissions: Vec<_> = set.inputs(op).into_iter().enumerate().map(moved).collect();
        // Some are waited for, and the others are given up.
        let poll = |submission: &mut Submission| Pin::new(submission).poll(&mut Context::from_waker(Waker::noop()));
        while poll(&mut submissions[0]).is_pending() {
            thread::yield_now();
        }
        for submission in submissions.iter_mut().skip(1).step_by(2) {
            let _ = poll(submission);
        }
    });
}

pub fn messages_that_are_given_up() {
    let gate = Gate::default();
    check(
        "given up in the queue",
        Limits::default(),
        || gate.roster(),
        |op, coalescer, set| {
            drop(submit(&coalescer, op, set));
            gate.open();
        },
    );
    check("given up before the queue", Limits::default(), cpu, |op, coalescer, set| {
        for (i, input) in set.inputs(op).into_iter().enumerate() {
            drop(coalescer.submit_async(set.submitted_key(i), AD, input.bytes));
        }
    });
    // The queue takes only one byte after the first message.
    let narrow = Limits { queue: 1, ..Limits::default() };
    check(
        "given up while waiting for room",
        narrow,
        || gate.roster(),
        |op, coalescer, set| {
            // The worker has one and waits, and one is in the queue.
            let inputs = set.inputs(op);
            let tickets = [0, 1].map(|i| coalescer.submit(set.submitted_key(i), AD, inputs[i].bytes).unwrap());
            for (i, input) in inputs.iter().enumerate() {
                assert_eq!(coalescer.try_submit(set.submitted_key(i), AD, input.bytes).unwrap_err(), Failure::Full);
                let mut waits = coalescer.submit_async(set.submitted_key(i), AD, input.bytes);
                assert!(Pin::new(&mut waits).poll(&mut Context::from_waker(Waker::noop())).is_pending());
            }
            drop(tickets);
            gate.open();
        },
    );
}

pub fn abandoned_results() {
    check("results dropped", Limits::default(), cpu, |op, coalescer, set| {
        let tickets = submit(&coalescer, op, set);
        drop(coalescer);
        drop(tickets);
    });
    // The first batch is the first message. The tickets of the second are dropped while the engine works on it.
    let (barrier, turn) = (Arc::new(Barrier::new(2)), Arc::new(AtomicUsize::new(0)));
    let held = || {
        turn.store(0, Ordering::Relaxed);
        let (barrier, turn) = (barrier.clone(), turn.clone());
        After::roster(move || {
            if turn.fetch_add(1, Ordering::Relaxed) < 2 {
                barrier.wait();
                barrier.wait();
            }
        })
    };
    check("given up during the work", Limits::default(), held, |op, coalescer, set| {
        let first = coalescer.submit(set.submitted_key(0), AD, set.inputs(op)[0].bytes).unwrap();
        barrier.wait();
        let tickets = submit_from(1, &coalescer, op, set);
        barrier.wait();
        barrier.wait();
        drop(tickets);
        barrier.wait();
        drop(first);
    });
}

pub fn engines_that_fail() {
    let fails = |failure: Failure| {
        move |op: Op, coalescer: Coalescer, set: &Set| {
            let tickets = submit(&coalescer, op, set);
            assert_eq!(tickets.len(), LENGTHS.len());
            assert!(tickets.into_iter().all(|ticket| ticket.wait().unwrap_err() == failure));
        }
    };
    let failed = Failure::Failed("engine this failed: as the test wants it".into());
    let limits = Limits::default();
    check("a fault", limits, || ByJobs::roster(0, fault), fails(failed));
    check("a panic by jobs", limits, || ByJobs::roster(0, panics), fails(Failure::Panicked));
    check("a panic in place", limits, || After::roster(|| drop(panics())), fails(Failure::Panicked));
}

pub fn shut_down_with_work_queued() {
    let gate = Gate::default();
    check(
        "closed, dropped, then taken",
        Limits::default(),
        || gate.roster(),
        |op, coalescer, set| {
            let tickets = submit(&coalescer, op, set);
            coalescer.close();
            gate.open();
            drop(coalescer);
            take(tickets);
        },
    );
    check(
        "closed",
        Limits::default(),
        || gate.roster(),
        |op, coalescer, set| {
            let tickets = submit(&coalescer, op, set);
            coalescer.close();
            let input = set.inputs(op)[0];
            assert_eq!(coalescer.submit(set.submitted_key(0), AD, input.bytes).unwrap_err(), Failure::Closed);
            gate.open();
            take(tickets);
        },
    );
}
