//! The coalescer under many schedules of its threads, chosen at random by a checker.

use super::item::Item;
use super::key::MessageKey;
use super::queue::Queue;
use super::slot::Wiped;
use super::{Coalescer, Failure, Limits, Worker};
use crate::Suite;
use crate::cpu::{CpuEngine, Levels};
use crate::keys::key::SecretKey;
use crate::op::Op;
use crate::roster::Roster;
use shuttle::{future, thread};
use std::sync::Arc;

/// How many schedules are tried.
const SCHEDULES: usize = 2000;

/// A coalescer with a number of workers that the checker chooses.
fn coalescer(op: Op, limits: Limits) -> Arc<Coalescer> {
    let workers = shuttle::rand::Rng::gen_range(&mut shuttle::rand::thread_rng(), 1..4);
    let engine = CpuEngine::parallel(workers, Levels::detect());
    Arc::new(Coalescer::new(Roster::new(&[Arc::new(engine)]), op, SUITE, limits).unwrap())
}

const SUITE: Suite = Suite::Aes256CtrSha3;

fn key() -> Arc<SecretKey> {
    Arc::new(SecretKey::from_slice(&[5; 32]).unwrap())
}

/// A queue of two messages of a byte, in batches of two.
const NARROW: Limits = Limits { bytes: 98, queue: 98 };

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
                            is_sealed(sealing.submit(key(), b"", &text).unwrap().wait(), &text);
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
                    future::spawn(async move { is_sealed(sealing.submit_async(key(), b"", &[i]).await, &[i]) })
                })
                .collect();
            let thread = {
                let sealing = sealing.clone();
                thread::spawn(move || is_sealed(sealing.submit(key(), b"", b"t").unwrap().wait(), b"t"))
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
                thread::spawn(move || drop(sealing.submit(key(), b"", b"x").unwrap()))
            };
            let aborted = {
                let sealing = sealing.clone();
                let task = future::spawn(async move { sealing.submit_async(key(), b"", b"y").await });
                thread::spawn(move || task.abort())
            };
            is_sealed(sealing.submit(key(), b"", b"1").unwrap().wait(), b"1");
            is_sealed(future::block_on(sealing.submit_async(key(), b"", b"2")), b"2");
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
                    thread::spawn(move || match sealing.submit(key(), b"", &[i]) {
                        Ok(ticket) => is_sealed(ticket.wait(), &[i]),
                        Err(failure) => assert_eq!(failure, Failure::Closed),
                    })
                })
                .collect();
            let task = {
                let sealing = sealing.clone();
                future::spawn(async move {
                    match sealing.submit_async(key(), b"", b"t").await {
                        Err(failure) => assert_eq!(failure, Failure::Closed),
                        sealed => is_sealed(sealed, b"t"),
                    }
                })
            };
            sealing.close();
            assert_eq!(sealing.try_submit(key(), b"", b"late").unwrap_err(), Failure::Closed);
            threads.into_iter().for_each(|thread| thread.join().unwrap());
            future::block_on(task).unwrap();
        },
        SCHEDULES,
    );
}

/// If the workers end for any reason, even a panic, all messages get a result: those being processed, those in the
/// queue, and those that wait for room.
#[test]
fn nobody_waits_for_workers_that_have_ended() {
    shuttle::check_random(
        || {
            let queue = Arc::new(Queue::new(NARROW));
            let workers: Vec<_> = [0, 1].map(|number| Worker::new(queue.clone(), number)).into();
            let work = |worker: Worker| thread::spawn(move || drop(worker.queue.take()));
            let workers: Vec<_> = workers.into_iter().map(work).collect();
            let submitters: Vec<_> = (0..4u8)
                .map(|i| {
                    let queue = queue.clone();
                    thread::spawn(move || {
                        let data = Wiped::new(crate::batch::with_room(SUITE, &[i]), 0);
                        let (item, ticket) = Item::new(MessageKey::Own(key()), Vec::new(), data);
                        queue.push_when_there_is_room(item).and_then(|()| ticket.wait()).map(drop)
                    })
                })
                .collect();
            for submitter in submitters {
                assert_eq!(submitter.join().unwrap(), Err(Failure::Closed));
            }
            workers.into_iter().for_each(|worker| worker.join().unwrap());
        },
        SCHEDULES,
    );
}

/// One worker ends although it has been called, and the other one does its work.
#[test]
fn a_worker_that_ends_leaves_its_work_to_the_others() {
    shuttle::check_random(
        || {
            let queue = Arc::new(Queue::new(NARROW));
            let [leaver, stays] = [0, 1].map(|number| Worker::new(queue.clone(), number));
            let leaver = thread::spawn(move || drop(leaver.queue.take()));
            let roster = Roster::new(&[Arc::new(CpuEngine::serial(Levels::detect()))]);
            let stays = thread::spawn(move || stays.work(&roster, Op::Seal, SUITE));
            let results: Vec<_> = (0..4u8)
                .map(|i| {
                    let data = Wiped::new(crate::batch::with_room(SUITE, &[i]), 0);
                    let (item, ticket) = Item::new(MessageKey::Own(key()), Vec::new(), data);
                    queue.push_when_there_is_room(item).unwrap();
                    ticket.wait()
                })
                .collect();
            queue.close();
            // What the leaver has taken is lost, and nothing else.
            assert!(results.iter().filter(|result| result.is_err()).count() <= 1);
            leaver.join().unwrap();
            stays.join().unwrap();
        },
        SCHEDULES,
    );
}

/// Many messages at once are more than one worker takes while others are idle.
#[test]
fn a_burst_reaches_idle_workers() {
    shuttle::check_random(
        || {
            let sealing = coalescer(Op::Seal, Limits::default());
            let texts: Vec<_> = (0..4u8).map(|i| vec![i; 40 << 10]).collect();
            let tickets: Vec<_> = texts.iter().map(|text| sealing.submit(key(), b"", text).unwrap()).collect();
            tickets.into_iter().zip(&texts).for_each(|(ticket, text)| is_sealed(ticket.wait(), text));
        },
        SCHEDULES / 10,
    );
}

#[test]
fn dropping_a_coalescer_finishes_queued_messages() {
    shuttle::check_random(
        || {
            let sealing = coalescer(Op::Seal, Limits::default());
            let tickets: Vec<_> = (0..3u8).map(|i| sealing.submit(key(), b"", &[i]).unwrap()).collect();
            let waiter = thread::spawn(move || {
                tickets.into_iter().zip(0..).for_each(|(ticket, i)| is_sealed(ticket.wait(), &[i]));
            });
            drop(sealing);
            waiter.join().unwrap();
        },
        SCHEDULES,
    );
}
