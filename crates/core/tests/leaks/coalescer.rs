//! The coalescer: results that are taken, or abandoned before or after the work, engines that fail, and a shutdown with
//! work queued.

use crate::common::sweep_by;
use crate::set::{AD, After, ByJobs, Set, cpu, fault, panics, wipe};
use phalanx_core::batch::coalescer::{Coalescer, Failure, Limits, Ticket};
use phalanx_core::engine::Op;
use phalanx_core::{Roster, Suite};
use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Barrier};
use std::task::{Context, Waker};
use std::time::Duration;

fn new(roster: Roster, op: Op, suite: Suite, limits: Limits) -> Coalescer {
    match op {
        Op::Seal => Coalescer::to_seal(roster, suite, limits).unwrap(),
        Op::Open => Coalescer::to_open(roster, suite, limits).unwrap(),
    }
}

/// Limits under which nothing begins before the coalescer is closed.
const HELD: Limits =
    Limits { enough: usize::MAX, bytes: usize::MAX, delay: Duration::from_secs(3600), queue: usize::MAX };

fn submit(to: &Coalescer, op: Op, set: &Set) -> Vec<Ticket> {
    set.keys.iter().zip(set.inputs(op)).map(|(key, input)| to.submit(key, AD, input.bytes).unwrap()).collect()
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
    let suites = [Suite::Aes256CtrSha3, Suite::Aes256Gcm];
    let some = |op| suites.into_iter().step_by(sweep_by(1, 2)).map(move |suite| (op, suite));
    for (op, suite) in [Op::Seal, Op::Open].into_iter().flat_map(some) {
        let set = Set::new(op, suite);
        set.hunt(op).nothing_left(&format!("{what}, {op:?}, {}", suite.name()), || {
            work(op, new(roster(), op, suite, limits), &set);
            set.wipe();
        });
    }
}

pub fn results_that_are_taken() {
    let by_jobs = || ByJobs::roster(usize::MAX, fault);
    check("taken", Limits::default(), cpu, |op, coalescer, set| take(submit(&coalescer, op, set)));
    check("taken by jobs", Limits::default(), by_jobs, |op, coalescer, set| take(submit(&coalescer, op, set)));
}

pub fn messages_that_are_given_up() {
    check("given up in the queue", HELD, cpu, |op, coalescer, set| drop(submit(&coalescer, op, set)));
    check("given up before the queue", HELD, cpu, |op, coalescer, set| {
        for (key, input) in set.keys.iter().zip(set.inputs(op)) {
            drop(coalescer.submit_async(key, AD, input.bytes));
        }
    });
    // The queue takes only one byte after the first message.
    let narrow = Limits { queue: 1, ..HELD };
    check("given up while waiting for room", narrow, cpu, |op, coalescer, set| {
        let first = coalescer.submit(&set.keys[0], AD, set.inputs(op)[0].bytes).unwrap();
        for (key, input) in set.keys.iter().zip(set.inputs(op)) {
            assert_eq!(coalescer.try_submit(key, AD, input.bytes).unwrap_err(), Failure::Full);
            let mut waits = coalescer.submit_async(key, AD, input.bytes);
            assert!(Pin::new(&mut waits).poll(&mut Context::from_waker(Waker::noop())).is_pending());
        }
        drop(first);
    });
}

pub fn abandoned_results() {
    check("results dropped", Limits::default(), cpu, |op, coalescer, set| {
        let tickets = submit(&coalescer, op, set);
        drop(coalescer);
        drop(tickets);
    });
    // The tickets are dropped while the engine works.
    let (barrier, first) = (Arc::new(Barrier::new(2)), Arc::new(AtomicBool::new(true)));
    let held = || {
        first.store(true, Ordering::Relaxed);
        let (barrier, first) = (barrier.clone(), first.clone());
        After::roster(move || {
            if first.swap(false, Ordering::Relaxed) {
                barrier.wait();
                barrier.wait();
            }
        })
    };
    check("given up during the work", HELD, held, |op, coalescer, set| {
        let tickets = submit(&coalescer, op, set);
        coalescer.close();
        barrier.wait();
        drop(tickets);
        barrier.wait();
    });
}

pub fn engines_that_fail() {
    let fails = |failure: Failure| {
        move |op: Op, coalescer: Coalescer, set: &Set| {
            let tickets = submit(&coalescer, op, set);
            coalescer.close();
            assert!(tickets.into_iter().all(|ticket| ticket.wait().unwrap_err() == failure));
        }
    };
    let failed = Failure::Failed("engine this failed: as the test wants it".into());
    check("a fault", HELD, || ByJobs::roster(2, fault), fails(failed));
    check("a panic by jobs", HELD, || ByJobs::roster(2, panics), fails(Failure::Panicked));
    check("a panic in place", HELD, || After::roster(|| drop(panics())), fails(Failure::Panicked));
}

pub fn shut_down_with_work_queued() {
    check("dropped, then taken", HELD, cpu, |op, coalescer, set| {
        let tickets = submit(&coalescer, op, set);
        drop(coalescer);
        take(tickets);
    });
    check("closed", HELD, cpu, |op, coalescer, set| {
        let tickets = submit(&coalescer, op, set);
        coalescer.close();
        let input = set.inputs(op)[0];
        assert_eq!(coalescer.submit(&set.keys[0], AD, input.bytes).unwrap_err(), Failure::Closed);
        take(tickets);
    });
}
