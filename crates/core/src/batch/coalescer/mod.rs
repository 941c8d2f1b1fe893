//! Messages that arrive one by one, from many threads or tasks, sealed or opened in batches.
//!
//! Messages that arrive within a limit of bytes or time form one batch. While it runs, the next one gathers. If the
//! queue is full, [`Coalescer::submit`] waits, [`Coalescer::try_submit`] refuses, and the future of
//! [`Coalescer::submit_async`] is pending. No runtime is needed.
//!
//! ```
//! use phalanx_core::batch::coalescer::{Coalescer, Limits};
//! use phalanx_core::{Roster, SecretKey, Suite};
//! use std::sync::Arc;
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let sealing = Coalescer::to_seal(Roster::cpu(), Suite::default(), Limits::default())?;
//! let key = Arc::new(SecretKey::random()?);
//! let ticket = sealing.submit(&key, b"record 7", b"text")?; // from any thread
//! let stored: Vec<u8> = ticket.wait()?.into_vec(); // or: ticket.await
//! assert_eq!(stored.len(), Suite::default().overhead() + 4);
//! # Ok(())
//! # }
//! ```
//!
//! Dropping a ticket abandons its message. A panic or fault of an engine costs only its batch: the tickets get a
//! [`Failure`], and the next batch runs. A closed coalescer accepts nothing more and finishes the queued messages.
//! Plaintexts are wiped whatever happens to their messages.

mod queue;
mod slot;
mod sync;
#[cfg(test)]
mod tests;

pub use slot::{Ticket, Wiped};

use crate::batch::message::Message;
use crate::keys::key::SecretKey;
use crate::op::Op;
use crate::roster::Roster;
use crate::{Suite, batch};
use queue::{Item, Queue};
use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;
use std::{fmt, io};
use sync::thread::{self, JoinHandle};
use sync::{Mutex, lock};

/// When a batch begins, and when the queue is full. Bytes are those of stored messages and of their associated data,
/// and at least 48 for each message.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// A batch begins as soon as this many bytes wait: enough to keep some workers busy for longer than it takes to
    /// start them.
    pub enough: usize,
    /// The most bytes of a batch, which may exceed it only with a single message. A batch begins as soon as this many
    /// bytes wait, if that is less than `enough`.
    pub bytes: usize,
    /// A batch begins when its first message has waited this long.
    pub delay: Duration,
    /// The most bytes in the queue. An empty queue takes a single message of any length.
    pub queue: usize,
}

impl Default for Limits {
    /// 512 KiB, 4 MiB, a millisecond, and a queue of 64 MiB.
    fn default() -> Self {
        Self { enough: 512 << 10, bytes: 4 << 20, delay: Duration::from_millis(1), queue: 64 << 20 }
    }
}

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
    worker: Mutex<Option<JoinHandle<()>>>,
}

impl Coalescer {
    /// Starts the thread that seals batches on the workers of a roster.
    ///
    /// # Errors
    /// If the system cannot start a thread.
    pub fn to_seal(roster: Roster, suite: Suite, limits: Limits) -> io::Result<Self> {
        Self::new(roster, Op::Seal, suite, limits)
    }

    /// Starts the thread that opens batches on the workers of a roster.
    ///
    /// # Errors
    /// If the system cannot start a thread.
    pub fn to_open(roster: Roster, suite: Suite, limits: Limits) -> io::Result<Self> {
        Self::new(roster, Op::Open, suite, limits)
    }

    fn new(roster: Roster, op: Op, suite: Suite, limits: Limits) -> io::Result<Self> {
        let queue = Arc::new(Queue::new(limits));
        let work = {
            let queue = queue.clone();
            move || {
                let _end = CloseAtEnd(&queue);
                while let Some(items) = queue.take() {
                    run(&roster, op, suite, items);
                }
            }
        };
        let worker = thread::Builder::new().name("coalescer".into()).spawn(work)?;
        Ok(Self { queue, op, suite, worker: Mutex::new(Some(worker)) })
    }

    /// Takes a plaintext to seal, or a stored message to open. Waits while the queue is full.
    ///
    /// # Errors
    /// [`Failure::Closed`], [`Failure::TooLong`].
    pub fn submit(&self, key: &Arc<SecretKey>, ad: &[u8], bytes: &[u8]) -> Result<Ticket, Failure> {
        let (item, ticket) = self.item(key, ad, bytes)?;
        self.queue.push_when_there_is_room(item)?;
        Ok(ticket)
    }

    /// Takes a plaintext to seal, or a stored message to open, if the queue has room: it never waits.
    ///
    /// # Errors
    /// [`Failure::Full`], [`Failure::Closed`], [`Failure::TooLong`].
    pub fn try_submit(&self, key: &Arc<SecretKey>, ad: &[u8], bytes: &[u8]) -> Result<Ticket, Failure> {
        let (item, ticket) = self.item(key, ad, bytes)?;
        self.queue.push(item).map_err(|(_, failure)| failure)?;
        Ok(ticket)
    }

    /// Takes a plaintext to seal, or a stored message to open, and gives a future of the result. The message is queued
    /// when the future is polled and there is room.
    pub fn submit_async(&self, key: &Arc<SecretKey>, ad: &[u8], bytes: &[u8]) -> Submission {
        let queue = self.queue.clone();
        match self.item(key, ad, bytes) {
            Ok((item, ticket)) => Submission { queue, item: Some(item), place: None, ticket: Ok(ticket) },
            Err(failure) => Submission { queue, item: None, place: None, ticket: Err(failure) },
        }
    }

    /// Accepts no more messages, and wakes all waiting submitters. Queued messages are still processed.
    pub fn close(&self) {
        self.queue.close();
    }

    fn item(&self, key: &Arc<SecretKey>, ad: &[u8], bytes: &[u8]) -> Result<(Item, Ticket), Failure> {
        let overhead = self.suite.overhead();
        let len = if self.op == Op::Seal { bytes.len() } else { bytes.len().saturating_sub(overhead) };
        if len > self.suite.longest_message() {
            return Err(Failure::TooLong);
        }
        let data = match self.op {
            Op::Seal => Wiped::new(batch::with_room(self.suite, bytes), 0),
            Op::Open => Wiped::new(bytes.to_vec(), overhead.min(bytes.len())),
        };
        Ok(Item::new(key.clone(), ad.to_vec(), data))
    }
}

impl Drop for Coalescer {
    /// Closes, and waits until all queued messages are done.
    fn drop(&mut self) {
        self.close();
        let worker = lock(&self.worker).take();
        // The last owner may be a waker that the worker itself calls. The worker cannot wait for itself.
        if let Some(worker) = worker.filter(|worker| worker.thread().id() != thread::current().id()) {
            // If the worker has panicked, the queue is closed and each ticket has its failure.
            let _ = worker.join();
        }
    }
}

impl fmt::Debug for Coalescer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Coalescer({:?}, {})", self.op, self.suite.name())
    }
}

/// Closes the queue when the worker ends for any reason, so that nobody waits for it.
struct CloseAtEnd<'a>(&'a Queue);

impl Drop for CloseAtEnd<'_> {
    fn drop(&mut self) {
        self.0.close();
        self.0.clear();
    }
}

/// Seals or opens a batch, and gives each ticket its result.
fn run(roster: &Roster, op: Op, suite: Suite, mut items: Vec<Item>) {
    // A dropped ticket means that nobody wants the result.
    items.retain(Item::is_wanted);
    let batch = AssertUnwindSafe(|| {
        let mut messages: Vec<Message> = items.iter_mut().map(|item| item.message(op, suite)).collect();
        match op {
            Op::Seal => batch::seal(roster, suite, &mut messages).map(|()| Vec::new()),
            Op::Open => batch::open_all(roster, suite, &mut messages),
        }
    });
    let result = match catch_unwind(batch) {
        Ok(result) => result.map_err(|error| Failure::Failed(error.to_string())),
        Err(_) => Err(Failure::Panicked),
    };
    match result {
        Ok(failed) => {
            let mut failed = failed.iter().peekable();
            for (i, item) in items.into_iter().enumerate() {
                item.finish(if failed.next_if_eq(&&i).is_some() { Some(Failure::NotAuthentic) } else { None });
            }
        }
        Err(failure) => items.into_iter().for_each(|item| item.finish(Some(failure.clone()))),
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
