//! Messages that arrive one by one, from many threads or tasks, sealed or opened in batches.
//!
//! There is a thread for each worker of the roster. A message wakes one that is idle, which at once takes what waits:
//! a single message, if no more have arrived. While all are busy, the next batches gather. So batches grow with the
//! load, and nothing waits for company. If the queue is full, [`Coalescer::submit`] waits, [`Coalescer::try_submit`]
//! refuses, and the future of [`Coalescer::submit_async`] is pending. No runtime is needed.
//!
//! ```
//! use phalanx_core::batch::coalescer::{Coalescer, Limits};
//! use phalanx_core::{Roster, SecretKey, Suite, UserKeys};
//! use std::sync::Arc;
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let sealing = Coalescer::to_seal(Roster::cpu(), Suite::default(), Limits::default())?;
//! let key = Arc::new(SecretKey::random()?);
//! let ticket = sealing.submit(&key, b"record 7", b"text")?; // from any thread
//! let stored: Vec<u8> = ticket.wait()?.into_vec(); // or: ticket.await
//! assert_eq!(stored.len(), Suite::default().overhead() + 4);
//!
//! let keys = Arc::new(UserKeys::new(&key, b"example.org records"));
//! let ticket = sealing.submit((&keys, &b"ada"[..]), b"record 8", b"text")?; // under a key that the batch derives
//! # ticket.wait()?;
//! # Ok(())
//! # }
//! ```
//!
//! Dropping a ticket abandons its message. A panic or fault of an engine costs only its batch: the tickets get a
//! [`Failure`], and the next batch runs. A closed coalescer accepts nothing more and finishes the queued messages.
//! Plaintexts are wiped whatever happens to their messages.

mod item;
mod key;
mod queue;
mod slot;
mod sync;
#[cfg(test)]
mod tests;

pub use key::MessageKey;
pub use slot::{Ticket, Wiped};

use crate::batch::message::Message;
use crate::op::Op;
use crate::roster::Roster;
use crate::{Suite, batch};
use item::Item;
use queue::Queue;
use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::{fmt, io, mem};
use sync::thread::{self, JoinHandle};
use sync::{Mutex, lock};

/// How long batches are, and when the queue is full. Bytes are those of stored messages, of their associated data and
/// of the names of their users, and at least 48 for each message.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// The most bytes of a batch, which may exceed it only with a single message.
    pub bytes: usize,
    /// The most bytes in the queue. An empty queue takes a single message of any length.
    pub queue: usize,
}

impl Default for Limits {
    /// 4 MiB, and a queue of 64 MiB.
    fn default() -> Self {
        Self { bytes: 4 << 20, queue: 64 << 20 }
    }
}

/// The most threads of a coalescer.
const MOST_WORKERS: usize = 64;

/// Why a message was not sealed or opened.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Failure {
    /// The message is altered or truncated, or belongs to another key or other associated data.
    #[error("the message is not authentic")]
    NotAuthentic,
    /// The queue is full.
    #[error("the queue is full")]
    Full,
    /// The coalescer is closed.
    #[error("the coalescer is closed")]
    Closed,
    /// A buffer with a plaintext has no room for nonce and tag.
    #[error("the message has no room for nonce and tag")]
    NoRoom,
    /// The message is too long for the suite.
    #[error("the message is too long for its suite")]
    TooLong,
    /// Engines, or the system's random generator, failed.
    #[error("{0}")]
    Failed(String),
    /// An engine panicked.
    #[error("an engine panicked")]
    Panicked,
}

/// Gathers messages into batches. See the [module](self).
pub struct Coalescer {
    queue: Arc<Queue>,
    op: Op,
    suite: Suite,
    workers: Mutex<Vec<JoinHandle<()>>>,
}

impl Coalescer {
    /// Starts a thread for each worker of a roster, at most 64, that seals batches. If the system gives fewer threads,
    /// these do the work.
    ///
    /// # Errors
    /// If the system cannot start any thread.
    pub fn to_seal(roster: Roster, suite: Suite, limits: Limits) -> io::Result<Self> {
        Self::new(roster, Op::Seal, suite, limits)
    }

    /// Starts a thread for each worker of a roster, at most 64, that opens batches. If the system gives fewer threads,
    /// these do the work.
    ///
    /// # Errors
    /// If the system cannot start any thread.
    pub fn to_open(roster: Roster, suite: Suite, limits: Limits) -> io::Result<Self> {
        Self::new(roster, Op::Open, suite, limits)
    }

    fn new(roster: Roster, op: Op, suite: Suite, limits: Limits) -> io::Result<Self> {
        // Without an engine there is one too, by which each batch fails.
        let count = roster.workers(suite).map_or(1, |workers| workers.len().min(MOST_WORKERS));
        let (queue, roster) = (Arc::new(Queue::new(limits)), Arc::new(roster));
        let start = |number| {
            let worker = Worker::new(queue.clone(), number);
            let roster = roster.clone();
            thread::Builder::new().name("coalescer".into()).spawn(move || worker.work(&roster, op, suite))
        };
        let mut workers = vec![start(0)?];
        workers.extend((1..count).map_while(|number| start(number).ok()));
        Ok(Self { queue, op, suite, workers: Mutex::new(workers) })
    }

    /// Takes a plaintext to seal, or a stored message to open. Waits while the queue is full.
    ///
    /// # Errors
    /// [`Failure::Closed`], [`Failure::TooLong`].
    pub fn submit(&self, key: impl Into<MessageKey>, ad: &[u8], bytes: &[u8]) -> Result<Ticket, Failure> {
        let (item, ticket) = self.copied(key.into(), ad, bytes)?;
        self.queue.push_when_there_is_room(item)?;
        Ok(ticket)
    }

    /// Takes a plaintext to seal, or a stored message to open, if the queue has room: it never waits.
    ///
    /// # Errors
    /// [`Failure::Full`], [`Failure::Closed`], [`Failure::TooLong`].
    pub fn try_submit(&self, key: impl Into<MessageKey>, ad: &[u8], bytes: &[u8]) -> Result<Ticket, Failure> {
        let (item, ticket) = self.copied(key.into(), ad, bytes)?;
        self.queue.push(item).map_err(|(_, failure)| failure)?;
        Ok(ticket)
    }

    /// Takes a plaintext to seal, or a stored message to open, and gives a future of the result. The message is queued
    /// when the future is polled and there is room.
    pub fn submit_async(&self, key: impl Into<MessageKey>, ad: &[u8], bytes: &[u8]) -> Submission {
        self.submission(self.copied(key.into(), ad, bytes))
    }

    /// Does what [`Coalescer::submit_async`] does, without copying: the result is in the buffer that is given. To seal,
    /// it has [`Suite::overhead`] bytes of room and then the plaintext, as [`with_room`](batch::with_room) makes it. To
    /// open, it is the stored message.
    ///
    /// The buffer is wiped up to its length, whatever happens to the message, unless [`Wiped::into_vec`] gives it back.
    pub fn submit_async_owned(&self, key: impl Into<MessageKey>, ad: Vec<u8>, buffer: Vec<u8>) -> Submission {
        self.submission(self.item(key.into(), ad, buffer))
    }

    /// Accepts no more messages, and wakes all waiting submitters. Queued messages are still processed.
    pub fn close(&self) {
        self.queue.close();
    }

    fn submission(&self, item: Result<(Item, Ticket), Failure>) -> Submission {
        let queue = self.queue.clone();
        match item {
            Ok((item, ticket)) => Submission { queue, item: Some(item), place: None, ticket: Ok(ticket) },
            Err(failure) => Submission { queue, item: None, place: None, ticket: Err(failure) },
        }
    }

    fn copied(&self, key: MessageKey, ad: &[u8], bytes: &[u8]) -> Result<(Item, Ticket), Failure> {
        match self.op {
            // Nothing is copied in vain.
            Op::Seal if bytes.len() > self.suite.longest_message() => Err(Failure::TooLong),
            Op::Seal => self.item(key, ad.to_vec(), batch::with_room(self.suite, bytes)),
            Op::Open => self.item(key, ad.to_vec(), bytes.to_vec()),
        }
    }

    fn item(&self, key: MessageKey, ad: Vec<u8>, buffer: Vec<u8>) -> Result<(Item, Ticket), Failure> {
        let (len, overhead) = (buffer.len(), self.suite.overhead());
        let start = if self.op == Op::Seal { 0 } else { overhead.min(len) };
        // Whatever happens, it is wiped.
        let data = Wiped::new(buffer, start);
        if self.op == Op::Seal && len < overhead {
            return Err(Failure::NoRoom);
        }
        if len.saturating_sub(overhead) > self.suite.longest_message() {
            return Err(Failure::TooLong);
        }
        Ok(Item::new(key, ad, data))
    }
}

impl Drop for Coalescer {
    /// Closes, and waits until all queued messages are done.
    fn drop(&mut self) {
        self.close();
        let workers = mem::take(&mut *lock(&self.workers));
        // The last owner may be a waker that a worker itself calls. A worker cannot wait for itself.
        let me = thread::current().id();
        if workers.iter().all(|worker| worker.thread().id() != me) {
            for worker in workers {
                // If it has panicked, each of its tickets has its failure.
                let _ = worker.join();
            }
        }
    }
}

impl fmt::Debug for Coalescer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Coalescer({:?}, {})", self.op, self.suite.name())
    }
}

/// A worker's place at the queue, which it leaves when it ends for any reason.
struct Worker {
    queue: Arc<Queue>,
    number: usize,
}

impl Worker {
    fn new(queue: Arc<Queue>, number: usize) -> Self {
        queue.begin();
        Self { queue, number }
    }

    /// Works on one batch after another.
    fn work(self, roster: &Roster, op: Op, suite: Suite) {
        while let Some(items) = self.queue.take() {
            self.run(roster, op, suite, items);
        }
    }

    /// Seals or opens a batch, and gives each ticket its result.
    fn run(&self, roster: &Roster, op: Op, suite: Suite, mut items: Vec<Item>) {
        // A dropped ticket means that nobody wants the result.
        items.retain(Item::is_wanted);
        let batch = AssertUnwindSafe(|| {
            let mut messages: Vec<Message> = items.iter_mut().map(|item| item.message(op, suite)).collect();
            batch::run_as(self.number, roster, op, suite, &mut messages)
        });
        let result = match catch_unwind(batch) {
            Ok(result) => result.map_err(|error| Failure::Failed(error.to_string())),
            Err(_) => Err(Failure::Panicked),
        };
        match result {
            Ok(verdicts) => {
                let mut failed = verdicts.failed().iter().peekable();
                for (i, item) in items.into_iter().enumerate() {
                    item.finish(failed.next_if_eq(&&i).map(|_| Failure::NotAuthentic));
                }
            }
            Err(failure) => items.into_iter().for_each(|item| item.finish(Some(failure.clone()))),
        }
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        self.queue.end();
    }
}

/// A message on its way into the queue and through it. This is the future of [`Coalescer::submit_async`].
pub struct Submission {
    queue: Arc<Queue>,
    /// The message, until it is queued.
    item: Option<Item>,
    /// Its place among those that wait for room.
    place: Option<u64>,
    ticket: Result<Ticket, Failure>,
}

impl Future for Submission {
    type Output = Result<Wiped, Failure>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let this = &mut *self;
        if let Some(item) = this.item.take()
            && let Err((item, failure)) = this.queue.push_or_wake(item, &mut this.place, context.waker())
        {
            if failure != Failure::Full {
                return Poll::Ready(Err(failure));
            }
            this.item = Some(item);
            return Poll::Pending;
        }
        match &mut this.ticket {
            Ok(ticket) => Pin::new(ticket).poll(context),
            Err(failure) => Poll::Ready(Err(failure.clone())),
        }
    }
}

impl Drop for Submission {
    fn drop(&mut self) {
        if let Some(place) = self.place.take() {
            self.queue.forget(place);
        }
    }
}

impl fmt::Debug for Submission {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Submission(…)")
    }
}
