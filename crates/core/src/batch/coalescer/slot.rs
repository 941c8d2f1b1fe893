//! A message's result, and its waiters.

use super::Failure;
use super::sync::{Condvar, Mutex, lock, wait};
use crate::secret::wipe;
use std::fmt;
use std::future::Future;
use std::mem;
use std::ops::Deref;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

/// Bytes that are wiped on drop: a sealed message as it is stored, or an opened one's plaintext.
#[derive(Default)]
pub struct Wiped {
    bytes: Vec<u8>,
    /// Where the result begins.
    start: usize,
}

impl Wiped {
    pub(super) fn new(bytes: Vec<u8>, start: usize) -> Self {
        Self { bytes, start }
    }

    /// All bytes, including those before the result.
    pub(super) fn whole(&mut self) -> &mut [u8] {
        &mut self.bytes
    }

    /// Returns the bytes, which are no longer wiped when they are dropped.
    #[must_use]
    pub fn into_vec(mut self) -> Vec<u8> {
        let mut bytes = mem::take(&mut self.bytes);
        bytes.copy_within(self.start.., 0);
        let len = bytes.len() - self.start;
        // Bytes beyond the vector's length could not be wiped later.
        wipe(&mut bytes[len..]);
        bytes.truncate(len);
        bytes
    }
}

impl Deref for Wiped {
    type Target = [u8];
    fn deref(&self) -> &[u8] {
        &self.bytes[self.start..]
    }
}

impl Drop for Wiped {
    fn drop(&mut self) {
        wipe(&mut self.bytes);
    }
}

impl fmt::Debug for Wiped {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Wiped({} bytes)", self.len())
    }
}

/// The place where a ticket finds its result.
pub(super) struct Slot {
    state: Mutex<Delivery>,
    done: Condvar,
}

enum Delivery {
    /// Whether a thread waits for the result, and the task that does.
    Waiting {
        thread: bool,
        task: Option<Waker>,
    },
    Done(Result<Wiped, Failure>),
    Given,
}

impl Slot {
    pub fn new() -> Self {
        Self { state: Mutex::new(Delivery::Waiting { thread: false, task: None }), done: Condvar::new() }
    }

    /// Sets the result, unless there is one already.
    pub fn finish(&self, result: Result<Wiped, Failure>) {
        let mut state = lock(&self.state);
        let Delivery::Waiting { thread, task } = &mut *state else { return };
        let (thread, task) = (*thread, task.take());
        *state = Delivery::Done(result);
        drop(state);
        if thread {
            self.done.notify_one();
        }
        if let Some(task) = task {
            wake(task);
        }
    }
}

/// Wakes a task. Its code is the caller's, so a panic there must not affect other tickets.
pub(super) fn wake(waker: Waker) {
    let _ = catch_unwind(AssertUnwindSafe(|| waker.wake()));
}

/// The right to a message's result: call [`Ticket::wait`], or await it. Dropping it abandons the message.
pub struct Ticket {
    slot: Arc<Slot>,
}

impl Ticket {
    pub(super) fn new(slot: Arc<Slot>) -> Self {
        Self { slot }
    }

    /// Waits until the message is sealed or opened.
    ///
    /// # Errors
    /// See [`Failure`].
    pub fn wait(self) -> Result<Wiped, Failure> {
        let mut state = lock(&self.slot.state);
        loop {
            match mem::replace(&mut *state, Delivery::Given) {
                Delivery::Done(result) => return result,
                Delivery::Waiting { task, .. } => *state = Delivery::Waiting { thread: true, task },
                Delivery::Given => unreachable!("a ticket gives its result once"),
            }
            state = wait(&self.slot.done, state);
        }
    }
}

impl Future for Ticket {
    type Output = Result<Wiped, Failure>;

    /// # Panics
    /// If it has already returned its result.
    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let mut state = lock(&self.slot.state);
        match mem::replace(&mut *state, Delivery::Given) {
            Delivery::Done(result) => Poll::Ready(result),
            Delivery::Waiting { thread, task: before } => {
                *state = Delivery::Waiting { thread, task: Some(context.waker().clone()) };
                // A waker's drop is the caller's code, so it must not run under the lock.
                drop(state);
                drop(before);
                Poll::Pending
            }
            Delivery::Given => panic!("a ticket gives its result once"),
        }
    }
}

impl fmt::Debug for Ticket {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Ticket(…)")
    }
}
