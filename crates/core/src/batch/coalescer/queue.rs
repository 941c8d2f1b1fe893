//! The messages that wait for a worker, the workers that wait for messages, and the submitters that wait for room.
//!
//! A notification is a system call, so nobody is notified who does not wait.

use super::item::Item;
use super::slot::wake;
use super::sync::{Condvar, Mutex, MutexGuard, lock, wait};
use super::{Failure, Limits};
use std::collections::{BTreeMap, VecDeque};
use std::mem;
use std::task::Waker;

/// As many bytes are worth another worker: sealing them takes longer than waking it.
const SHARE: usize = 64 << 10;

/// The waiting messages, in the order of arrival.
pub(super) struct Queue {
    limits: Limits,
    state: Mutex<Queued>,
    /// Signals an idle worker that messages have arrived.
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
    /// How many workers there are.
    workers: usize,
    /// How many of them wait for messages.
    idle: usize,
    /// How many of these have been called, and have not come yet.
    called: usize,
    /// How many threads wait for room.
    submitters: usize,
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
        let mut state = lock(&self.state);
        self.admit(&mut state, item)?;
        self.unlock_and_call(state);
        Ok(())
    }

    /// Takes the item when there is room.
    pub fn push_when_there_is_room(&self, mut item: Item) -> Result<(), Failure> {
        let mut state = lock(&self.state);
        loop {
            match self.admit(&mut state, item) {
                Ok(()) => break,
                Err((again, Failure::Full)) => item = again,
                Err((_, failure)) => return Err(failure),
            }
            state.submitters += 1;
            state = wait(&self.drained, state);
            state.submitters -= 1;
        }
        self.unlock_and_call(state);
        Ok(())
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
        self.unlock_and_call(state);
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
        state.items.push_back(item);
        state.len += len;
        Ok(())
    }

    /// Unlocks, and calls an idle worker if the called ones are too few for what waits.
    fn unlock_and_call(&self, mut state: MutexGuard<'_, Queued>) {
        let calls = state.wants_worker();
        state.called += usize::from(calls);
        drop(state);
        if calls {
            self.filled.notify_one();
        }
    }

    /// Waits for messages, and takes the next batch, of at least one. `None` at the end.
    pub fn take(&self) -> Option<Vec<Item>> {
        let mut state = lock(&self.state);
        while state.items.is_empty() {
            if state.closed {
                return None;
            }
            state.idle += 1;
            state = wait(&self.filled, state);
            state.idle -= 1;
            // It may have woken without a call. Then a worker more is called than is needed, and none too few.
            state.called = state.called.saturating_sub(1);
        }
        let batch = state.batch(self.limits.bytes);
        let next = self.next(&mut state);
        let waiting = state.submitters > 0;
        self.unlock_and_call(state);
        self.there_is_room(waiting, next);
        Some(batch)
    }

    /// A worker begins.
    pub fn begin(&self) {
        lock(&self.state).workers += 1;
    }

    /// A worker ends. After the last one nobody may wait for another.
    pub fn end(&self) {
        let mut state = lock(&self.state);
        state.workers -= 1;
        if state.workers > 0 {
            return self.unlock_and_call(state);
        }
        drop(state);
        self.close();
        self.clear();
    }

    /// Accepts no more messages, and wakes everyone who waits for room.
    pub fn close(&self) {
        let mut state = lock(&self.state);
        state.closed = true;
        let next = self.next(&mut state);
        drop(state);
        self.filled.notify_all();
        self.there_is_room(true, next);
    }

    /// Drops all waiting messages, because no worker is left.
    fn clear(&self) {
        let mut state = lock(&self.state);
        let items = mem::take(&mut state.items);
        state.len = 0;
        drop(state);
        // Outside the lock, because the tasks of their tickets may call back at once.
        drop(items);
    }

    /// Tells threads, if any wait, and tasks.
    fn there_is_room(&self, threads: bool, tasks: Vec<Waker>) {
        if threads {
            self.drained.notify_all();
        }
        tasks.into_iter().for_each(wake);
    }
}

impl Queued {
    /// Whether an idle worker is to be called.
    fn wants_worker(&self) -> bool {
        self.called < self.idle && self.len > self.called * SHARE
    }

    /// Takes the next messages: a fair share of them if other workers are idle and there are many, otherwise as many
    /// as a batch may have, and at least one.
    fn batch(&mut self, most: usize) -> Vec<Item> {
        let mut room = (self.len / (1 + self.idle)).max(SHARE).min(most);
        let mut batch = Vec::new();
        while let Some(next) = self.items.front_mut() {
            let len = next.len();
            if len > room && !batch.is_empty() {
                break;
            }
            room = room.saturating_sub(len);
            self.len -= len;
            batch.extend(self.items.pop_front());
        }
        batch
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::batch::coalescer::key::MessageKey;
    use crate::batch::coalescer::slot::Wiped;
    use crate::keys::key::SecretKey;
    use std::sync::Arc;

    #[test]
    fn a_worker_takes_its_share_of_much_and_all_of_little() {
        let work = || {
            let taken = |kib: &[usize], idle: usize, most: usize| {
                let key = Arc::new(SecretKey::from_slice(&[1; 32]).unwrap());
                let item = |kib: &usize| {
                    let data = Wiped::new(vec![0; kib << 10], 0);
                    Item::new(MessageKey::Own(key.clone()), Vec::new(), data).0
                };
                let items: VecDeque<_> = kib.iter().map(item).collect();
                let len = kib.iter().sum::<usize>() << 10;
                let mut state = Queued { items, len, idle, ..Queued::default() };
                let batch = state.batch(most << 10);
                assert_eq!(state.len, state.items.iter_mut().map(Item::len).sum::<usize>());
                batch.len()
            };
            assert_eq!(taken(&[1; 60], 3, 4096), 60, "too little to share");
            assert_eq!(taken(&[1; 400], 0, 4096), 400, "nobody is idle");
            assert_eq!(taken(&[1; 400], 3, 4096), 100);
            assert_eq!(taken(&[1; 100], 3, 4096), 64);
            assert_eq!(taken(&[1; 400], 3, 10), 10);
            assert_eq!(taken(&[500, 1, 1], 3, 10), 1, "one is always taken");
        };
        shuttle::check_random(work, 1);
    }

    #[test]
    fn workers_are_called_for_what_waits() {
        let wants =
            |kib: usize, idle, called| Queued { len: kib << 10, idle, called, ..Queued::default() }.wants_worker();
        assert!(wants(1, 1, 0) && wants(65, 2, 1) && wants(129, 3, 2));
        assert!(!wants(1, 0, 0), "all are busy");
        assert!(!wants(0, 2, 0), "there is nothing to do");
        assert!(!wants(64, 2, 1) && !wants(128, 3, 2), "those that come are enough");
        assert!(!wants(1000, 2, 2), "all have been called");
    }
}
