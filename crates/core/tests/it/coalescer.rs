//! The coalescer in real time: its workers, its limits, a full queue, and engines that fail.

use crate::common::{SUITES, engines};
use phalanx_core::batch::coalescer::{Coalescer, Failure, Limits};
use phalanx_core::batch::{BehindRoom, Message};
use phalanx_core::engine::{Buffer, CpuEngine, Engine, EngineInfo, Fault, Job, Levels, Op, Verdicts};
use phalanx_core::{Roster, SecretKey, Suite, UserKeys, batch};
use phalanx_reference as reference;
use std::future::Future;
use std::pin::pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, mpsc};
use std::task::{Context, Poll, Wake, Waker};
use std::time::{Duration, Instant};
use std::{iter, thread};

const SUITE: Suite = Suite::Aes256CtrSha3;

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

fn before(workers: usize, work: impl Fn(usize) -> Result<(), Fault> + Send + Sync + 'static) -> Roster {
    Roster::new(&[Arc::new(Before(CpuEngine::parallel(workers, Levels::detect()), work))])
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

/// The numbers of messages of batches, in the order in which these began.
#[derive(Clone, Default)]
struct Batches(Arc<Mutex<Vec<usize>>>);

impl Batches {
    fn all(&self) -> Vec<usize> {
        self.0.lock().unwrap().clone()
    }
    /// Waits until so many have begun.
    fn wait_for(&self, count: usize) {
        let deadline = Instant::now() + Duration::from_secs(60);
        while self.all().len() < count {
            assert!(Instant::now() < deadline, "only {:?} have begun", self.all());
            thread::yield_now();
        }
    }
}

/// A CPU with some workers, whose batches are noted and wait at a gate.
fn gated(workers: usize) -> (Arc<Gate>, Batches, Roster) {
    let (gate, batches) = (Arc::new(Gate::default()), Batches::default());
    let (waiting, noted) = (gate.clone(), batches.clone());
    let engine = before(workers, move |len| {
        noted.0.lock().unwrap().push(len);
        waiting.wait();
        Ok(())
    });
    (gate, batches, engine)
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
    for &suite in SUITES {
        let sealing = Coalescer::to_seal(cpu(), suite, Limits::default()).unwrap();
        let opening = Coalescer::to_open(cpu(), suite, Limits::default()).unwrap();
        thread::scope(|scope| {
            for user in 0..if cfg!(miri) { 2 } else { 8 } {
                let (sealing, opening) = (&sealing, &opening);
                scope.spawn(move || {
                    for i in 0..if cfg!(miri) { 1 } else { 50usize } {
                        let text = vec![user; i * 97];
                        let ad = [user, i as u8];
                        let stored = match i % 2 {
                            0 => sealing.submit(key(user), &ad, &text).unwrap().wait().unwrap(),
                            _ => block_on(sealing.submit_async(key(user), &ad, &text)).unwrap(),
                        };
                        assert_eq!(stored.len(), suite.overhead() + text.len());
                        let opened = opening.submit(key(user), &ad, &stored).unwrap().wait().unwrap();
                        assert_eq!(opened[..], text);
                        assert_eq!(opened.into_vec(), text);
                        // Another key, other associated data, an altered byte, a truncated message.
                        let mut altered = stored.to_vec();
                        altered[i] ^= 1;
                        let wrong = [
                            opening.submit(key(user + 1), &ad, &stored),
                            opening.submit(key(user), b"", &stored),
                            opening.submit(key(user), &ad, &altered),
                            opening.submit(key(user), &ad, &stored[..suite.overhead() - 1]),
                            opening.submit(key(user), &ad, b""),
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
fn a_message_does_not_wait_for_others() {
    let (gate, batches, engine) = gated(1);
    gate.open();
    let sealing = Coalescer::to_seal(engine, SUITE, Limits { bytes: 300, queue: 10_000 }).unwrap();
    // The last one is longer than a batch.
    for len in [52, 0, 5000] {
        sealing.submit(key(1), b"", &vec![0; len]).unwrap().wait().unwrap();
    }
    assert_eq!(batches.all(), [1, 1, 1]);
}

#[test]
fn messages_during_a_batch_form_one_batch() {
    let (gate, batches, engine) = gated(1);
    // Six messages fill a batch.
    let sealing = Coalescer::to_seal(engine, SUITE, Limits { bytes: 600, queue: 10_000 }).unwrap();
    let submit = |_| sealing.submit(key(1), b"", &[0; 52]).unwrap();
    let first = submit(0);
    batches.wait_for(1);
    let others: Vec<_> = (0..8).map(submit).collect();
    gate.open();
    assert!(iter::once(first).chain(others).all(|ticket| ticket.wait().is_ok()));
    assert_eq!(batches.all(), [1, 6, 2]);
}

#[test]
fn idle_workers_take_what_arrives_while_others_work() {
    let (gate, batches, engine) = gated(3);
    let sealing = Coalescer::to_seal(engine, SUITE, Limits::default()).unwrap();
    let submit = || sealing.submit(key(1), b"", &[0; 52]).unwrap();
    let mut tickets = Vec::new();
    for busy in 1..=3 {
        tickets.push(submit());
        batches.wait_for(busy);
    }
    // All workers are busy, so these gather.
    tickets.extend((0..5).map(|_| submit()));
    gate.open();
    assert!(tickets.into_iter().all(|ticket| ticket.wait().is_ok()));
    assert_eq!(batches.all(), [1, 1, 1, 5]);
}

#[test]
fn another_engine_takes_over_from_one_that_fails() {
    let turn = AtomicUsize::new(0);
    let fails = move |_| match turn.fetch_add(1, Ordering::Relaxed) {
        0 => Ok(()),
        _ => Err(Fault { engine: "this".into(), reason: "as the test wants it".into() }),
    };
    let faulty = Arc::new(Before(CpuEngine::parallel(2, Levels::detect()), fails));
    let faults = Arc::new(AtomicUsize::new(0));
    let told = faults.clone();
    let roster =
        Roster::new(&[faulty]).with_fallback(Arc::new(CpuEngine::serial(Levels::detect()))).on_fault(move |_| {
            told.fetch_add(1, Ordering::Relaxed);
        });
    let sealing = Coalescer::to_seal(roster, SUITE, Limits::default()).unwrap();
    for _ in 0..20 {
        sealing.submit(key(1), b"", b"text").unwrap().wait().unwrap();
    }
    assert_eq!(faults.load(Ordering::Relaxed), 1);
}

#[test]
fn without_an_engine_each_message_fails() {
    let sealing = Coalescer::to_seal(Roster::new(&[]), SUITE, Limits::default()).unwrap();
    for _ in 0..3 {
        let failure = sealing.submit(key(1), b"", b"text").unwrap().wait().unwrap_err();
        assert!(matches!(failure, Failure::Failed(_)), "{failure}");
    }
}

#[test]
fn users_keys_are_derived_in_the_batch() {
    let root = [3; 32];
    let keys = Arc::new(UserKeys::new(&SecretKey::from_slice(&root).unwrap(), b"test users"));
    for &suite in SUITES {
        let sealing = Coalescer::to_seal(cpu(), suite, Limits::default()).unwrap();
        let opening = Coalescer::to_open(cpu(), suite, Limits::default()).unwrap();
        for user in [&b""[..], b"ada", &[7; 1000]] {
            let stored = sealing.submit((&keys, user), b"ad", b"text").unwrap().wait().unwrap();
            let of_user: [u8; 32] = reference::kmac256(&root, user, 256, "test users").try_into().unwrap();
            let opened = reference::open_message(&of_user, suite.id(), b"ad", &stored);
            assert_eq!(opened.unwrap(), b"text");
            let opened = block_on(opening.submit_async((&keys, user), b"ad", &stored)).unwrap();
            assert_eq!(*opened, *b"text");
            let own = Arc::new(keys.key(user));
            assert!(opening.submit(&own, b"ad", &stored).unwrap().wait().is_ok());
            let other = opening.submit((&keys, &b"grace"[..]), b"ad", &stored).unwrap().wait();
            assert_eq!(other.unwrap_err(), Failure::NotAuthentic);
        }
    }
}

#[test]
fn buffers_are_taken_over_without_a_copy() {
    for &suite in SUITES {
        let sealing = Coalescer::to_seal(cpu(), suite, Limits::default()).unwrap();
        let opening = Coalescer::to_open(cpu(), suite, Limits::default()).unwrap();
        let buffer = batch::with_room(suite, b"text");
        let place = buffer.as_ptr();
        let stored = block_on(sealing.submit_async_owned(key(1), b"ad".to_vec(), buffer)).unwrap().into_vec();
        assert_eq!((stored.as_ptr(), stored.len()), (place, suite.overhead() + 4));
        let opened = block_on(opening.submit_async_owned(key(1), b"ad".to_vec(), stored)).unwrap();
        assert_eq!(*opened, *b"text");
        let text = opened.into_vec();
        assert_eq!(text.as_ptr(), place);

        let short = vec![0; suite.overhead() - 1];
        let refused = block_on(sealing.submit_async_owned(key(1), Vec::new(), short.clone()));
        assert_eq!(refused.unwrap_err(), Failure::NoRoom);
        let failed = block_on(opening.submit_async_owned(key(1), Vec::new(), short));
        assert_eq!(failed.unwrap_err(), Failure::NotAuthentic);
    }
}

#[test]
fn a_full_queue_pushes_back() {
    let (gate, _, engine) = gated(1);
    let limits = Limits { bytes: 100, queue: 200 };
    let sealing = Arc::new(Coalescer::to_seal(engine, SUITE, limits).unwrap());
    let submit = || sealing.try_submit(key(1), b"", &[0; 52]);
    // The first is taken as a batch and waits at the gate. Two more fill the queue.
    let mut tickets = vec![submit().unwrap()];
    while tickets.len() < 3 {
        match submit() {
            Ok(ticket) => tickets.push(ticket),
            Err(failure) => assert_eq!(failure, Failure::Full),
        }
    }
    let deadline = Instant::now() + Duration::from_secs(120);
    while submit().map(|ticket| tickets.push(ticket)) != Err(Failure::Full) {
        assert!(Instant::now() < deadline && tickets.len() <= 3, "the queue takes too much");
    }
    // A dropped future gives up its place.
    let mut given_up = Box::pin(sealing.submit_async(key(1), b"", &[0; 52]));
    assert!(given_up.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
    drop(given_up);
    let waiting = thread::spawn({
        let sealing = sealing.clone();
        move || sealing.submit(key(1), b"", &[0; 52]).unwrap().wait().map(drop)
    });
    let task = thread::spawn({
        let sealing = sealing.clone();
        move || block_on(sealing.submit_async(key(1), b"", &[0; 52])).map(drop)
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
    const TASKS: usize = if cfg!(miri) { 6 } else { 3000 };
    let (gate, _, engine) = gated(1);
    // Room for two, in batches of one.
    let limits = Limits { bytes: 100, queue: 200 };
    let sealing = Coalescer::to_seal(engine, SUITE, limits).unwrap();
    let (send, woken) = mpsc::channel();
    let mut tasks: Vec<_> = (0..TASKS).map(|_| Some(Box::pin(sealing.submit_async(key(1), b"", &[0; 52])))).collect();
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
    let (gate, _, engine) = gated(1);
    let limits = Limits { bytes: 100, queue: 100 };
    let sealing = Coalescer::to_seal(engine, SUITE, limits).unwrap();
    // One is being sealed, one fills the queue, two wait.
    let first = sealing.submit(key(1), b"", &[0; 52]).unwrap();
    let second = sealing.submit(key(1), b"", &[0; 52]).unwrap();
    let flags = [(); 2].map(|()| Arc::new(Flag(AtomicUsize::new(0))));
    let mut tasks = [(); 2].map(|()| Box::pin(sealing.submit_async(key(1), b"", &[0; 52])));
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
    let engine = before(1, move |_| match turn.fetch_add(1, Ordering::Relaxed) % 3 {
        0 => Ok(()),
        1 => Err(Fault { engine: "this".into(), reason: "as the test wants it".into() }),
        _ => panic!("as the test wants it"),
    });
    let sealing = Coalescer::to_seal(engine, SUITE, Limits::default()).unwrap();
    for i in 0..9 {
        let result = block_on(sealing.submit_async(key(1), b"", b"text"));
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
    let (gate, _, engine) = gated(1);
    let sealing = Coalescer::to_seal(engine, SUITE, Limits::default()).unwrap();
    let mut bad = Box::pin(sealing.submit_async(key(1), b"", b"text"));
    let waker = Waker::from(Arc::new(Bad));
    assert!(bad.as_mut().poll(&mut Context::from_waker(&waker)).is_pending());
    gate.open();
    assert!(sealing.submit(key(1), b"", b"text").unwrap().wait().is_ok());
    assert!(sealing.submit(key(1), b"", b"text").unwrap().wait().is_ok());
}

/// The last owner may be a task that the worker wakes.
#[test]
fn a_coalescer_may_be_dropped_by_its_own_worker() {
    struct Owner(Mutex<Option<Arc<Coalescer>>>, mpsc::Sender<()>);
    impl Wake for Owner {
        fn wake(self: Arc<Self>) {
            drop(self.0.lock().unwrap().take());
            self.1.send(()).unwrap();
        }
    }
    let (gate, _, engine) = gated(2);
    let sealing = Arc::new(Coalescer::to_seal(engine, SUITE, Limits::default()).unwrap());
    let mut future = Box::pin(sealing.submit_async(key(1), b"", b"text"));
    let (send, dropped) = mpsc::channel();
    let waker = Waker::from(Arc::new(Owner(Mutex::new(Some(sealing)), send)));
    assert!(future.as_mut().poll(&mut Context::from_waker(&waker)).is_pending());
    gate.open();
    dropped.recv_timeout(Duration::from_secs(60)).expect("the worker drops it");
    assert!(block_on(future).is_ok());
}

#[test]
fn abandoned_messages_are_not_sealed() {
    let (gate, batches, engine) = gated(1);
    let sealing = Coalescer::to_seal(engine, SUITE, Limits::default()).unwrap();
    let first = sealing.submit(key(1), b"", b"text").unwrap();
    batches.wait_for(1);
    let mut tickets: Vec<_> = (0..10).map(|_| sealing.submit(key(1), b"", b"text").unwrap()).collect();
    tickets.truncate(4);
    gate.open();
    drop(sealing);
    assert_eq!(batches.all(), [1, 4]);
    assert!(iter::once(first).chain(tickets).all(|ticket| ticket.wait().is_ok()));
}

#[test]
fn debug_shows_no_secret_of_the_coalescer() {
    let sealing = Coalescer::to_open(cpu(), SUITE, Limits::default()).unwrap();
    let mut stored = batch::with_room(SUITE, b"secret");
    batch::seal(&cpu(), SUITE, &mut [Message::to_seal(&key(1), b"", BehindRoom::new(SUITE, &mut stored).unwrap())])
        .unwrap();
    let ticket = sealing.submit(key(1), b"", &stored).unwrap();
    assert_eq!(format!("{ticket:?} {sealing:?}"), "Ticket(…) Coalescer(Open, AES-256-CTR + SHA-3)");
    assert_eq!(format!("{:?}", ticket.wait().unwrap()), "Wiped(6 bytes)");
}
