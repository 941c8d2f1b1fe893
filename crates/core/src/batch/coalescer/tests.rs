//! The coalescer under many schedules of its threads, chosen at random by a checker.

use super::queue::{Item, Queue};
use super::slot::Wiped;
use super::{CloseAtEnd, Coalescer, Failure, Limits};
use crate::Suite;
use crate::cpu::{CpuEngine, Levels};
use crate::keys::key::SecretKey;
use crate::op::Op;
use crate::roster::Roster;
use shuttle::{future, thread};
use std::sync::Arc;
use std::time::Duration;

/// How many schedules are tried.
const SCHEDULES: usize = 2000;

fn coalescer(op: Op, limits: Limits) -> Arc<Coalescer> {
    let engine = CpuEngine::serial(Levels::detect());
    Arc::new(Coalescer::new(Roster::new(&[Arc::new(engine)]), op, SUITE, limits).unwrap())
}

const SUITE: Suite = Suite::Aes256CtrSha3;

fn key() -> Arc<SecretKey> {
    Arc::new(SecretKey::from_slice(&[5; 32]).unwrap())
}

/// A queue of two messages of a byte, in batches of two.
const NARROW: Limits = Limits { enough: usize::MAX, bytes: 98, delay: Duration::ZERO, queue: 98 };

/// The stored message opens to the text.
#[track_caller]
fn is_sealed(stored: Result<super::Wiped, Failure>, text: &[u8]) {
    let mut data = stored.unwrap().into_vec();
    let (key, ad) = (&*key(), &[][..]);
    let mut set = [crate::batch::Message::to_open(key, ad, &mut data)];
    let roster = Roster::new(&[Arc::new(CpuEngine::serial(Levels::detect()))]);
    crate::batch::open(&roster, SUITE, &mut set).unwrap();
    assert_eq!(&data[SUITE.overhead()..], text);
}

#[test]
fn every_thread_gets_its_own_message_from_a_short_queue() {
    shuttle::check_random(
        || {
            let sealing = coalescer(Op::Seal, NARROW);
            let threads: Vec<_> = (0..3u8)
                .map(|i| {
                    let sealing = sealing.clone();
                    thread::spawn(move || {
                        for text in [[i], [i + 100]] {
                            is_sealed(sealing.submit(&key(), b"", &text).unwrap().wait(), &text);
                        }
                    })
                })
                .collect();
            threads.into_iter().for_each(|thread| thread.join().unwrap());
        },
        SCHEDULES,
    );
}

#[test]
fn tasks_wait_for_room_too() {
    shuttle::check_random(
        || {
            let sealing = coalescer(Op::Seal, NARROW);
            let tasks: Vec<_> = (0..4u8)
                .map(|i| {
                    let sealing = sealing.clone();
                    future::spawn(async move { is_sealed(sealing.submit_async(&key(), b"", &[i]).await, &[i]) })
                })
                .collect();
            let thread = {
                let sealing = sealing.clone();
                thread::spawn(move || is_sealed(sealing.submit(&key(), b"", b"t").unwrap().wait(), b"t"))
            };
            tasks.into_iter().for_each(|task| future::block_on(task).unwrap());
            thread.join().unwrap();
        },
        SCHEDULES,
    );
}

#[test]
fn dropped_waiters_do_not_block_others() {
    shuttle::check_random(
        || {
            let sealing = coalescer(Op::Seal, NARROW);
            let leaver = {
                let sealing = sealing.clone();
                thread::spawn(move || drop(sealing.submit(&key(), b"", b"x").unwrap()))
            };
            let aborted = {
                let sealing = sealing.clone();
                let task = future::spawn(async move { sealing.submit_async(&key(), b"", b"y").await });
                thread::spawn(move || task.abort())
            };
            is_sealed(sealing.submit(&key(), b"", b"1").unwrap().wait(), b"1");
            is_sealed(future::block_on(sealing.submit_async(&key(), b"", b"2")), b"2");
            leaver.join().unwrap();
            aborted.join().unwrap();
        },
        SCHEDULES,
    );
}

#[test]
fn closing_loses_no_accepted_message() {
    shuttle::check_random(
        || {
            let sealing = coalescer(Op::Seal, NARROW);
            let threads: Vec<_> = (0..3u8)
                .map(|i| {
                    let sealing = sealing.clone();
                    thread::spawn(move || match sealing.submit(&key(), b"", &[i]) {
                        Ok(ticket) => is_sealed(ticket.wait(), &[i]),
                        Err(failure) => assert_eq!(failure, Failure::Closed),
                    })
                })
                .collect();
            let task = {
                let sealing = sealing.clone();
                future::spawn(async move {
                    match sealing.submit_async(&key(), b"", b"t").await {
                        Err(failure) => assert_eq!(failure, Failure::Closed),
                        sealed => is_sealed(sealed, b"t"),
                    }
                })
            };
            sealing.close();
            assert_eq!(sealing.try_submit(&key(), b"", b"late").unwrap_err(), Failure::Closed);
            threads.into_iter().for_each(|thread| thread.join().unwrap());
            future::block_on(task).unwrap();
        },
        SCHEDULES,
    );
}

/// If the worker ends for any reason, even a panic, all messages get a result: those being processed, those in the
/// queue, and those that wait for room.
#[test]
fn nobody_waits_for_a_worker_that_has_ended() {
    shuttle::check_random(
        || {
            let queue = Arc::new(Queue::new(NARROW));
            let worker = thread::spawn({
                let queue = queue.clone();
                move || {
                    let _end = CloseAtEnd(&queue);
                    drop(queue.take());
                }
            });
            let submitters: Vec<_> = (0..4u8)
                .map(|i| {
                    let queue = queue.clone();
                    thread::spawn(move || {
                        let data = Wiped::new(crate::batch::with_room(SUITE, &[i]), 0);
                        let (item, ticket) = Item::new(key(), Vec::new(), data);
                        queue.push_when_there_is_room(item).and_then(|()| ticket.wait()).map(drop)
                    })
                })
                .collect();
            for submitter in submitters {
                assert_eq!(submitter.join().unwrap(), Err(Failure::Closed));
            }
            worker.join().unwrap();
        },
        SCHEDULES,
    );
}

#[test]
fn dropping_a_coalescer_finishes_queued_messages() {
    shuttle::check_random(
        || {
            let sealing = coalescer(Op::Seal, Limits { delay: Duration::from_secs(3600), ..Limits::default() });
            let tickets: Vec<_> = (0..3u8).map(|i| sealing.submit(&key(), b"", &[i]).unwrap()).collect();
            let waiter = thread::spawn(move || {
                tickets.into_iter().zip(0..).for_each(|(ticket, i)| is_sealed(ticket.wait(), &[i]));
            });
            drop(sealing);
            waiter.join().unwrap();
        },
        SCHEDULES,
    );
}
