//! The coalescer in real time: its limits, a full queue, and engines that fail.

use crate::common::engines;
use phalanx_core::batch::coalescer::{Coalescer, Failure, Limits};
use phalanx_core::batch::{BehindRoom, Message};
use phalanx_core::engine::{Buffer, CpuEngine, Engine, EngineInfo, Fault, Job, Levels, Op, Verdicts};
use phalanx_core::{Roster, SecretKey, Suite, batch};
use std::future::Future;
use std::pin::pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, mpsc};
use std::task::{Context, Poll, Wake, Waker};
use std::time::{Duration, Instant};
use std::{iter, thread};

const SUITE: Suite = Suite::Aes256CtrSha3;
/// Longer than any test waits.
const NEVER: Duration = Duration::from_secs(3600);

fn key(i: u8) -> Arc<SecretKey> {
    Arc::new(SecretKey::from_slice(&[i; 32]).unwrap())
}

fn cpu() -> Roster {
    Roster::new(&engines()[engines().len() - 1..])
}

/// The CPU, with a function called before each batch.
struct Before<F>(CpuEngine, F);

impl<F: Fn(usize) -> Result<(), Fault> + Send + Sync> Engine for Before<F> {
    fn info(&self) -> &EngineInfo {
        self.0.info()
    }
    fn buffer(&self, len: usize) -> Result<Buffer, Fault> {
        self.0.buffer(len)
    }
    fn run(&self, job: &mut Job) -> Result<Verdicts, Fault> {
        self.0.run(job)
    }
    fn messages(&self, op: Op, suite: Suite, set: &mut [Message<'_>]) -> Option<Result<Verdicts, Fault>> {
        if let Err(fault) = (self.1)(set.len()) {
            return Some(Err(fault));
        }
        self.0.messages(op, suite, set)
    }
}

fn before(work: impl Fn(usize) -> Result<(), Fault> + Send + Sync + 'static) -> Roster {
    Roster::new(&[Arc::new(Before(CpuEngine::serial(Levels::detect()), work))])
}

/// A gate at which engines wait.
#[derive(Default)]
struct Gate(Mutex<bool>, Condvar);

impl Gate {
    fn wait(&self) {
        drop(self.1.wait_while(self.0.lock().unwrap(), |open| !*open).unwrap());
    }
    fn open(&self) {
        *self.0.lock().unwrap() = true;
        self.1.notify_all();
    }
}

/// The CPU, whose batches wait at a gate. It calls a function with the number of messages before each wait.
fn gated(note: impl Fn(usize) + Send + Sync + 'static) -> (Arc<Gate>, Roster) {
    let gate = Arc::new(Gate::default());
    let waiting = gate.clone();
    let engine = before(move |len| {
        note(len);
        waiting.wait();
        Ok(())
    });
    (gate, engine)
}

/// Polls a future, and parks the thread between polls.
fn block_on<F: Future>(future: F) -> F::Output {
    struct Unpark(thread::Thread);
    impl Wake for Unpark {
        fn wake(self: Arc<Self>) {
            self.0.unpark();
        }
    }
    let waker = Arc::new(Unpark(thread::current())).into();
    let mut future = pin!(future);
    loop {
        match future.as_mut().poll(&mut Context::from_waker(&waker)) {
            Poll::Ready(output) => return output,
            Poll::Pending => thread::park(),
        }
    }
}

#[test]
fn sealed_messages_open() {
    for &suite in Suite::ALL {
        let sealing = Coalescer::to_seal(cpu(), suite, Limits::default()).unwrap();
        let opening = Coalescer::to_open(cpu(), suite, Limits::default()).unwrap();
        thread::scope(|scope| {
            for user in 0..8 {
                let (sealing, opening) = (&sealing, &opening);
                scope.spawn(move || {
                    for i in 0..50usize {
                        let text = vec![user; i * 97];
                        let ad = [user, i as u8];
                        let stored = match i % 2 {
                            0 => sealing.submit(&key(user), &ad, &text).unwrap().wait().unwrap(),
                            _ => block_on(sealing.submit_async(&key(user), &ad, &text)).unwrap(),
                        };
                        assert_eq!(stored.len(), suite.overhead() + text.len());
                        let opened = opening.submit(&key(user), &ad, &stored).unwrap().wait().unwrap();
                        assert_eq!(opened[..], text);
                        assert_eq!(opened.into_vec(), text);
                        // Another key, other associated data, an altered byte, a truncated message.
                        let mut altered = stored.to_vec();
                        altered[i] ^= 1;
                        let wrong = [
                            opening.submit(&key(user + 1), &ad, &stored),
                            opening.submit(&key(user), b"", &stored),
                            opening.submit(&key(user), &ad, &altered),
                            opening.submit(&key(user), &ad, &stored[..suite.overhead() - 1]),
                            opening.submit(&key(user), &ad, b""),
                        ];
                        for ticket in wrong {
                            assert_eq!(ticket.unwrap().wait().unwrap_err(), Failure::NotAuthentic);
                        }
                    }
                });
            }
        });
    }
}

#[test]
fn a_batch_begins_with_enough_bytes_or_after_the_delay() {
    let sizes = Arc::new(Mutex::new(Vec::new()));
    let counted = |limits| {
        let sizes = sizes.clone();
        let count = move |len| {
            sizes.lock().unwrap().push(len);
            Ok(())
        };
        Coalescer::to_seal(before(count), SUITE, limits).unwrap()
    };
    // Three messages of 100 stored bytes, and the delay never comes.
    let sealing = counted(Limits { enough: usize::MAX, bytes: 300, delay: NEVER, queue: 10_000 });
    let tickets: Vec<_> = (0..3).map(|_| sealing.submit(&key(1), b"", &[0; 52]).unwrap()).collect();
    tickets.into_iter().for_each(|ticket| drop(ticket.wait().unwrap()));
    assert_eq!(std::mem::take(&mut *sizes.lock().unwrap()), [3]);
    // A message longer than a batch forms its own batch.
    sealing.submit(&key(1), b"", &[0; 5000]).unwrap().wait().unwrap();
    assert_eq!(std::mem::take(&mut *sizes.lock().unwrap()), [1]);

    // Longer than a busy machine delays a thread.
    let delay = Duration::from_secs(1);
    let sealing = counted(Limits { enough: usize::MAX, bytes: usize::MAX, delay, queue: 10_000 });
    let start = Instant::now();
    let tickets: Vec<_> = (0..3).map(|_| sealing.submit(&key(1), b"", &[0; 52]).unwrap()).collect();
    tickets.into_iter().for_each(|ticket| drop(ticket.wait().unwrap()));
    assert!(start.elapsed() >= delay);
    assert_eq!(*sizes.lock().unwrap(), [3]);
}

#[test]
fn messages_during_a_batch_form_one_batch() {
    let sizes = Arc::new(Mutex::new(Vec::new()));
    let noted = sizes.clone();
    let (gate, engine) = gated(move |len| noted.lock().unwrap().push(len));
    // One message is enough to begin, and six fill a batch.
    let limits = Limits { enough: 100, bytes: 600, delay: NEVER, queue: 10_000 };
    let sealing = Coalescer::to_seal(engine, SUITE, limits).unwrap();
    let submit = |_| sealing.submit(&key(1), b"", &[0; 52]).unwrap();
    let first = submit(0);
    while sizes.lock().unwrap().is_empty() {
        thread::yield_now();
    }
    let others: Vec<_> = (0..8).map(submit).collect();
    gate.open();
    assert!(iter::once(first).chain(others).all(|ticket| ticket.wait().is_ok()));
    assert_eq!(*sizes.lock().unwrap(), [1, 6, 2]);
}

#[test]
fn a_full_queue_pushes_back() {
    let (gate, engine) = gated(|_| ());
    let limits = Limits { enough: usize::MAX, bytes: 100, delay: Duration::ZERO, queue: 200 };
    let sealing = Arc::new(Coalescer::to_seal(engine, SUITE, limits).unwrap());
    let submit = || sealing.try_submit(&key(1), b"", &[0; 52]);
    // The first is taken as a batch and waits at the gate. Two more fill the queue.
    let mut tickets = vec![submit().unwrap()];
    while tickets.len() < 3 {
        match submit() {
            Ok(ticket) => tickets.push(ticket),
            Err(failure) => assert_eq!(failure, Failure::Full),
        }
    }
    let deadline = Instant::now() + Duration::from_secs(20);
    while submit().map(|ticket| tickets.push(ticket)) != Err(Failure::Full) {
        assert!(Instant::now() < deadline && tickets.len() <= 3, "the queue takes too much");
    }
    // A dropped future gives up its place.
    let mut given_up = Box::pin(sealing.submit_async(&key(1), b"", &[0; 52]));
    assert!(given_up.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
    drop(given_up);
    let waiting = thread::spawn({
        let sealing = sealing.clone();
        move || sealing.submit(&key(1), b"", &[0; 52]).unwrap().wait().map(drop)
    });
    let task = thread::spawn({
        let sealing = sealing.clone();
        move || block_on(sealing.submit_async(&key(1), b"", &[0; 52])).map(drop)
    });
    thread::sleep(Duration::from_millis(20));
    assert!(!waiting.is_finished() && !task.is_finished());
    gate.open();
    assert_eq!((waiting.join().unwrap(), task.join().unwrap()), (Ok(()), Ok(())));
    assert!(tickets.into_iter().all(|ticket| ticket.wait().is_ok()));
}

#[test]
fn tasks_that_wait_for_room_are_woken_when_it_is_their_turn() {
    struct Woken(usize, mpsc::Sender<usize>);
    impl Wake for Woken {
        fn wake(self: Arc<Self>) {
            self.1.send(self.0).unwrap();
        }
    }
    const TASKS: usize = 3000;
    let (gate, engine) = gated(|_| ());
    // Room for two, in batches of one.
    let limits = Limits { enough: usize::MAX, bytes: 100, delay: Duration::ZERO, queue: 200 };
    let sealing = Coalescer::to_seal(engine, SUITE, limits).unwrap();
    let (send, woken) = mpsc::channel();
    let mut tasks: Vec<_> = (0..TASKS).map(|_| Some(Box::pin(sealing.submit_async(&key(1), b"", &[0; 52])))).collect();
    (0..TASKS).for_each(|i| send.send(i).unwrap());
    let (mut left, mut polls) = (TASKS, 0);
    while left > 0 {
        let i = woken.recv_timeout(Duration::from_secs(60)).expect("some task's turn comes");
        let waker = Waker::from(Arc::new(Woken(i, send.clone())));
        polls += 1;
        if let Some(task) = &mut tasks[i]
            && let Poll::Ready(result) = task.as_mut().poll(&mut Context::from_waker(&waker))
        {
            result.unwrap();
            tasks[i] = None;
            left -= 1;
        }
        if polls == TASKS {
            gate.open();
        }
    }
    // One poll at first, one or two for room, one for the result, and not one for each batch.
    assert!(polls <= 5 * TASKS, "{polls} polls of {TASKS} tasks");
}

#[test]
fn a_turn_that_is_given_up_goes_to_the_next() {
    struct Flag(AtomicUsize);
    impl Wake for Flag {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }
    let (gate, engine) = gated(|_| ());
    let limits = Limits { enough: usize::MAX, bytes: 100, delay: Duration::ZERO, queue: 100 };
    let sealing = Coalescer::to_seal(engine, SUITE, limits).unwrap();
    // One is being sealed, one fills the queue, two wait.
    let first = sealing.submit(&key(1), b"", &[0; 52]).unwrap();
    let second = sealing.submit(&key(1), b"", &[0; 52]).unwrap();
    let flags = [(); 2].map(|()| Arc::new(Flag(AtomicUsize::new(0))));
    let mut tasks = [(); 2].map(|()| Box::pin(sealing.submit_async(&key(1), b"", &[0; 52])));
    let mut poll = |i: usize| tasks[i].as_mut().poll(&mut Context::from_waker(&Waker::from(flags[i].clone())));
    assert!(poll(0).is_pending() && poll(1).is_pending());
    gate.open();
    first.wait().unwrap();
    second.wait().unwrap();
    // The queue has been emptied, and there is room for one.
    let woken = || [0, 1].map(|i: usize| flags[i].0.load(Ordering::Relaxed));
    assert_eq!(woken(), [1, 0]);
    let [given_up, waits] = tasks;
    drop(given_up);
    assert_eq!(woken(), [1, 1]);
    assert!(block_on(waits).is_ok());
}

#[test]
fn a_fault_or_a_panic_costs_only_its_batch() {
    let turn = AtomicUsize::new(0);
    let engine = before(move |_| match turn.fetch_add(1, Ordering::Relaxed) % 3 {
        0 => Ok(()),
        1 => Err(Fault { engine: "this".into(), reason: "as the test wants it".into() }),
        _ => panic!("as the test wants it"),
    });
    let limits = Limits { enough: usize::MAX, bytes: usize::MAX, delay: Duration::from_millis(1), queue: usize::MAX };
    let sealing = Coalescer::to_seal(engine, SUITE, limits).unwrap();
    for i in 0..9 {
        let result = block_on(sealing.submit_async(&key(1), b"", b"text"));
        match i % 3 {
            0 => assert!(result.is_ok()),
            1 => assert_eq!(result.unwrap_err(), Failure::Failed("engine this failed: as the test wants it".into())),
            _ => assert_eq!(result.unwrap_err(), Failure::Panicked),
        }
    }
}

#[test]
fn a_panic_of_one_task_does_not_affect_others() {
    struct Bad;
    impl Wake for Bad {
        fn wake(self: Arc<Self>) {
            panic!("as the test wants it");
        }
    }
    let limits = Limits { enough: usize::MAX, bytes: usize::MAX, delay: Duration::from_secs(1), queue: usize::MAX };
    let sealing = Coalescer::to_seal(cpu(), SUITE, limits).unwrap();
    let mut bad = Box::pin(sealing.submit_async(&key(1), b"", b"text"));
    let waker = Waker::from(Arc::new(Bad));
    assert!(bad.as_mut().poll(&mut Context::from_waker(&waker)).is_pending());
    assert!(sealing.submit(&key(1), b"", b"text").unwrap().wait().is_ok());
    assert!(sealing.submit(&key(1), b"", b"text").unwrap().wait().is_ok());
}

/// With an endless delay, only the size begins a batch.
#[test]
fn a_delay_may_be_endless() {
    let limits = Limits { enough: 200, bytes: 200, delay: Duration::MAX, queue: 1000 };
    let sealing = Coalescer::to_seal(cpu(), SUITE, limits).unwrap();
    let tickets: Vec<_> = (0..2).map(|_| sealing.submit(&key(1), b"", &[0; 52]).unwrap()).collect();
    assert!(tickets.into_iter().all(|ticket| ticket.wait().is_ok()));
}

/// The last owner may be a task that the worker wakes.
#[test]
fn a_coalescer_may_be_dropped_by_its_own_worker() {
    struct Owner(Mutex<Option<Arc<Coalescer>>>);
    impl Wake for Owner {
        fn wake(self: Arc<Self>) {
            drop(self.0.lock().unwrap().take());
        }
    }
    let limits = Limits { delay: Duration::from_secs(1), ..Limits::default() };
    let sealing = Arc::new(Coalescer::to_seal(cpu(), SUITE, limits).unwrap());
    let mut future = Box::pin(sealing.submit_async(&key(1), b"", b"text"));
    let waker = Waker::from(Arc::new(Owner(Mutex::new(Some(sealing)))));
    assert!(future.as_mut().poll(&mut Context::from_waker(&waker)).is_pending());
    assert!(block_on(future).is_ok());
}

#[test]
fn abandoned_messages_are_not_sealed() {
    let done = Arc::new(AtomicUsize::new(0));
    let count = {
        let done = done.clone();
        move |len| {
            done.fetch_add(len, Ordering::Relaxed);
            Ok(())
        }
    };
    let limits = Limits { enough: usize::MAX, bytes: usize::MAX, delay: NEVER, queue: usize::MAX };
    let sealing = Coalescer::to_seal(before(count), SUITE, limits).unwrap();
    let mut tickets: Vec<_> = (0..10).map(|_| sealing.submit(&key(1), b"", b"text").unwrap()).collect();
    tickets.truncate(4);
    drop(sealing);
    assert_eq!(done.load(Ordering::Relaxed), 4);
    assert!(tickets.into_iter().all(|ticket| ticket.wait().is_ok()));
}

#[test]
fn debug_shows_no_secret_of_the_coalescer() {
    let sealing = Coalescer::to_open(cpu(), SUITE, Limits::default()).unwrap();
    let mut stored = batch::with_room(SUITE, b"secret");
    batch::seal(&cpu(), SUITE, &mut [Message::to_seal(&key(1), b"", BehindRoom::new(SUITE, &mut stored).unwrap())])
        .unwrap();
    let ticket = sealing.submit(&key(1), b"", &stored).unwrap();
    assert_eq!(format!("{ticket:?} {sealing:?}"), "Ticket(…) Coalescer(Open, AES-256-CTR + SHA-3)");
    assert_eq!(format!("{:?}", ticket.wait().unwrap()), "Wiped(6 bytes)");
}
