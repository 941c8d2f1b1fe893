//! The messages that wait for the next batch, and the submitters that wait for room.

use super::slot::{Slot, Ticket, Wiped, wake};
use super::sync::{Condvar, Mutex, has_come, lock, wait, wait_until};
use super::{Failure, Limits};
use crate::Suite;
use crate::batch::message::Message;
use crate::keys::key::SecretKey;
use crate::op::Op;
use std::collections::{BTreeMap, VecDeque};
use std::mem;
use std::sync::Arc;
use std::task::Waker;
use std::time::Instant;

/// A message to be sealed or opened. If it is dropped without a result, its ticket gets a failure.
pub(super) struct Item {
    key: Arc<SecretKey>,
    ad: Vec<u8>,
    data: Wiped,
    slot: Arc<Slot>,
    arrived: Instant,
}

impl Item {
    pub fn new(key: Arc<SecretKey>, ad: Vec<u8>, data: Wiped) -> (Self, Ticket) {
        let slot = Arc::new(Slot::new());
        let ticket = Ticket::new(slot.clone());
        (Self { key, ad, data, slot, arrived: Instant::now() }, ticket)
    }

    pub fn message(&mut self, op: Op, suite: Suite) -> Message<'_> {
        let room = suite.overhead();
        Message { key: &self.key, ad: &self.ad, data: self.data.whole(), op, room }
    }

    /// Whether its ticket still exists.
    pub fn is_wanted(&self) -> bool {
        Arc::strong_count(&self.slot) > 1
    }

    /// Sets the result: the processed message, or why there is none.
    pub fn finish(mut self, failure: Option<Failure>) {
        let data = mem::take(&mut self.data);
        self.slot.finish(failure.map_or(Ok(data), Err));
    }

    /// The length that counts in the queue. Empty messages take room too.
    fn len(&mut self) -> usize {
        const LEAST: usize = 48;
        (self.data.whole().len() + self.ad.len()).max(LEAST)
    }
}

impl Drop for Item {
    fn drop(&mut self) {
        self.slot.finish(Err(Failure::Closed));
    }
}

/// The waiting messages, in the order of arrival.
pub(super) struct Queue {
    limits: Limits,
    state: Mutex<Queued>,
    /// Signals the worker that messages have arrived.
    filled: Condvar,
    /// Signals submitting threads that there is room.
    drained: Condvar,
}

#[derive(Default)]
struct Queued {
    items: VecDeque<Item>,
    /// The bytes of all items.
    len: usize,
    closed: bool,
    /// Tasks that wait for room: each has its own place and the room that it needs.
    wakers: BTreeMap<u64, (Waker, usize)>,
    places: u64,
}

impl Queue {
    pub fn new(limits: Limits) -> Self {
        Self { limits, state: Mutex::default(), filled: Condvar::new(), drained: Condvar::new() }
    }

    /// Takes the item if there is room, or gives it back.
    pub fn push(&self, item: Item) -> Result<(), (Item, Failure)> {
        self.admit(&mut lock(&self.state), item)
    }

    /// Takes the item when there is room.
    pub fn push_when_there_is_room(&self, mut item: Item) -> Result<(), Failure> {
        let mut state = lock(&self.state);
        loop {
            match self.admit(&mut state, item) {
                Ok(()) => return Ok(()),
                Err((again, Failure::Full)) => item = again,
                Err((_, failure)) => return Err(failure),
            }
            state = wait(&self.drained, state);
        }
    }

    /// Takes the item if there is room. Otherwise gives it back, and wakes the task when there may be room.
    pub fn push_or_wake(&self, mut item: Item, place: &mut Option<u64>, waker: &Waker) -> Result<(), (Item, Failure)> {
        let len = item.len();
        let mut state = lock(&self.state);
        let result = self.admit(&mut state, item);
        // A task that asks again keeps its place.
        let before = place.take();
        let old = before.and_then(|before| state.wakers.remove(&before));
        if let Err((_, Failure::Full)) = result {
            state.places += u64::from(before.is_none());
            let at = before.unwrap_or(state.places);
            *place = Some(at);
            state.wakers.insert(at, (waker.clone(), len));
        }
        // A waker's drop is the caller's code, so it must not run under the lock.
        drop(state);
        drop(old);
        result
    }

    /// Gives up a place among the waiting tasks. If it was that place's turn, the next tasks are woken.
    pub fn forget(&self, place: u64) {
        let mut state = lock(&self.state);
        let old = state.wakers.remove(&place);
        let next = if old.is_none() { self.next(&mut state) } else { Vec::new() };
        drop(state);
        drop(old);
        next.into_iter().for_each(wake);
    }

    /// Removes the tasks for which there is room, in their order, or all of them when the queue is closed. Waking every
    /// task at each batch would take quadratic time.
    fn next(&self, state: &mut Queued) -> Vec<Waker> {
        let mut room = self.limits.queue.saturating_sub(state.len);
        let mut next = Vec::new();
        while let Some(first) = state.wakers.first_entry() {
            let len = first.get().1;
            // As in `admit()`, an empty queue takes one message of any length.
            if len > room && !state.closed && !(state.items.is_empty() && next.is_empty()) {
                break;
            }
            room = room.saturating_sub(len);
            next.push(first.remove().0);
        }
        next
    }

    fn admit(&self, state: &mut Queued, mut item: Item) -> Result<(), (Item, Failure)> {
        let len = item.len();
        if state.closed {
            return Err((item, Failure::Closed));
        }
        if !state.items.is_empty() && state.len + len > self.limits.queue {
            return Err((item, Failure::Full));
        }
        item.arrived = Instant::now();
        state.items.push_back(item);
        let before = state.len;
        state.len += len;
        // The worker waits for the first message, and then for enough bytes.
        if state.items.len() == 1 || (before < self.enough() && self.enough() <= state.len) {
            self.filled.notify_one();
        }
        Ok(())
    }

    /// The number of bytes at which a batch begins.
    fn enough(&self) -> usize {
        self.limits.enough.min(self.limits.bytes)
    }

    /// Waits for the next batch, of at least one message. `None` at the end.
    pub fn take(&self) -> Option<Vec<Item>> {
        let mut state = lock(&self.state);
        loop {
            let Some(first) = state.items.front() else {
                if state.closed {
                    return None;
                }
                state = wait(&self.filled, state);
                continue;
            };
            // `None` if the delay never ends.
            let time = first.arrived.checked_add(self.limits.delay);
            if state.closed || state.len >= self.enough() || time.is_some_and(has_come) {
                break;
            }
            state = match time {
                Some(time) => wait_until(&self.filled, &self.state, state, time),
                None => wait(&self.filled, state),
            };
        }
        let mut batch = Vec::new();
        let mut room = self.limits.bytes;
        while let Some(next) = state.items.front_mut() {
            let len = next.len();
            if len > room && !batch.is_empty() {
                break;
            }
            room = room.saturating_sub(len);
            state.len -= len;
            batch.extend(state.items.pop_front());
        }
        let next = self.next(&mut state);
        drop(state);
        self.there_is_room(next);
        Some(batch)
    }

    /// Accepts no more messages, and wakes everyone who waits for room.
    pub fn close(&self) {
        let mut state = lock(&self.state);
        state.closed = true;
        let next = self.next(&mut state);
        drop(state);
        self.filled.notify_all();
        self.there_is_room(next);
    }

    /// Drops all waiting messages, because no worker is left.
    pub fn clear(&self) {
        let items = mem::take(&mut lock(&self.state).items);
        // Outside the lock, because the tasks of their tickets may call back at once.
        drop(items);
    }

    fn there_is_room(&self, next: Vec<Waker>) {
        self.drained.notify_all();
        next.into_iter().for_each(wake);
    }
}
