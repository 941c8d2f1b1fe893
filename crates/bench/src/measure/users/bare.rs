//! Only AES in counter mode over many users' data: no authentication, no derived keys, no stored nonces.
//!
//! The paper on parallel AES for massive users (P2) measures this, in its schemes. **It is for measuring, not for
//! protecting data**: that is what [`phalanx_core::batch`] is for. Nothing is wiped here.

use crate::measure::threads::each;
use phalanx_core::engine::{Nonce, SLICE};
use phalanx_kernels::aes::{self, BLOCK, counter_after};
use std::sync::Barrier;
use std::{mem, ptr, slice, thread};

/// One user's data.
pub struct Task<'a> {
    /// The AES key: 16, 24 or 32 bytes.
    pub key: &'a [u8],
    /// The first counter block. It counts as in SP 800-38A, with all 16 bytes big-endian.
    pub counter: Nonce,
    /// The data, which are encrypted or decrypted in place.
    pub data: &'a mut [u8],
}

impl Task<'_> {
    fn reborrow(&mut self) -> Task<'_> {
        Task { key: self.key, counter: self.counter, data: self.data }
    }
}

impl<'a> Task<'a> {
    /// Splits off the first `len` bytes, in whole blocks, or all if there are no more.
    fn take(&mut self, len: usize) -> Task<'a> {
        let data = mem::take(&mut self.data);
        let (front, rest) = data.split_at_mut(len.min(data.len()));
        let counter = counter_after(&self.counter, (front.len() / BLOCK) as u64);
        self.data = rest;
        Task { key: self.key, counter: mem::replace(&mut self.counter, counter), data: front }
    }
}

/// The ways of dividing the users' data among the threads of a processor. All give the same bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Coalesced and sliced: threads take slices of 4 KiB of any user.
    Ccs,
    /// Coalesced, not sliced: a thread takes a whole user.
    Ccns,
    /// Not coalesced: one user after another, each by all threads.
    Cnc,
    /// One user after another, by one thread.
    Sr,
}

/// A scheme on the CPU.
#[derive(Clone, Copy, Debug)]
pub struct Cpu {
    /// The scheme.
    pub kind: Kind,
    /// The number of threads. [`Kind::Sr`] uses one.
    pub threads: usize,
    /// The kernel.
    pub level: aes::Level,
}

impl Cpu {
    /// The name in tables: the paper's.
    pub fn name(&self) -> &'static str {
        match self.kind {
            Kind::Ccs => "CCS",
            Kind::Ccns => "CCNS",
            Kind::Cnc => "CNC",
            Kind::Sr => "SR",
        }
    }

    /// Encrypts or decrypts all tasks.
    ///
    /// # Panics
    /// If a key has another length than AES's.
    pub fn run(&self, tasks: &mut [Task<'_>]) {
        match self.kind {
            Kind::Ccs => {
                each(self.useful(tasks), Runs { users: tasks.iter_mut(), rest: None }, |run| self.in_order(run));
            }
            Kind::Ccns => each(self.useful(tasks), tasks, |task| self.in_order([task.reborrow()])),
            Kind::Cnc => self.one_by_one(tasks),
            Kind::Sr => self.in_order(tasks.iter_mut().map(Task::reborrow)),
        }
    }

    /// The number of threads that have enough to do to be worth starting.
    fn useful(&self, tasks: &[Task<'_>]) -> usize {
        let len: usize = tasks.iter().map(|task| task.data.len()).sum();
        (len / RUN).clamp(1, self.threads.max(1))
    }

    /// Does one task after another, each as a whole.
    fn in_order<'a>(&self, tasks: impl IntoIterator<Item = Task<'a>>) {
        let mut last: Option<(&[u8], aes::Key)> = None;
        for task in tasks {
            // The parts of one user follow each other.
            let (_, key) = match &mut last {
                Some(last) if ptr::eq(last.0, task.key) => last,
                stale => stale.insert((task.key, aes::Key::new(task.key))),
            };
            aes::ctr_xor(self.level, key, &task.counter, task.data);
        }
    }

    /// Does one user after another with all threads. Each thread has its part of the user's blocks, and waits for the
    /// others at the end.
    fn one_by_one(&self, tasks: &mut [Task<'_>]) {
        let threads = self.threads.max(1);
        let mut parts: Vec<Vec<Task>> = (0..threads).map(|_| Vec::with_capacity(tasks.len())).collect();
        for task in tasks {
            let mut rest = task.reborrow();
            let len = rest.data.len().div_ceil(threads).next_multiple_of(BLOCK);
            parts.iter_mut().for_each(|parts| parts.push(rest.take(len)));
        }
        let turn = Barrier::new(threads);
        let in_turn = |parts: Vec<Task>| {
            for part in parts {
                self.in_order([part]);
                turn.wait();
            }
        };
        thread::scope(|scope| {
            let mine = parts.pop().expect("one thread at least");
            parts.into_iter().for_each(|parts| drop(scope.spawn(|| in_turn(parts))));
            in_turn(mine);
        });
    }
}

/// Runs of slices, of one user or of several consecutive ones. They are so long that the cost of taking them is
/// negligible.
struct Runs<'a, 't> {
    users: slice::IterMut<'a, Task<'t>>,
    /// The rest of the last user that was taken from.
    rest: Option<Task<'a>>,
}

/// The length of a run, in bytes: about as long as a thread takes to start.
const RUN: usize = 128 * SLICE;

impl<'a> Iterator for Runs<'a, '_> {
    type Item = Vec<Task<'a>>;

    fn next(&mut self) -> Option<Vec<Task<'a>>> {
        let (mut run, mut room) = (Vec::new(), RUN);
        while room > 0 {
            let Some(mut user) = self.rest.take().or_else(|| self.users.next().map(Task::reborrow)) else { break };
            let part = user.take(room);
            // Room is counted in whole slices, so that every run begins with one.
            room -= part.data.len().next_multiple_of(SLICE);
            run.push(part);
            if !user.data.is_empty() {
                self.rest = Some(user);
            }
        }
        (!run.is_empty()).then_some(run)
    }
}
