//! Sharing a batch of messages among the lanes of a dispatcher, all or nothing.
//!
//! Each lane takes from what is left, large parts first and smaller ones towards the end, so that all end together. What an
//! engine could not do another one does; if none could, what was done is undone.

use crate::chunk::Levels;
use crate::dispatcher::{Dispatcher, Member};
use crate::engine::{Op, Verdicts};
use crate::message::{self, Message, front};
use crate::{Error, Result, Suite, stack};
use std::ops::Range;
use std::sync::{Mutex, MutexGuard};
use std::{iter, panic, thread};

/// As much work as pays for starting a thread, as [`Message::cost`] counts it.
const WORTH_A_LANE: usize = 128 << 10;
/// The least that a lane takes at once: enough for the kernels to work side by side.
const LEAST: usize = 64 << 10;
/// A message shorter than this is never worked on by several threads.
const WORTH_DIVIDING: usize = 1 << 20;

/// What a lane does to messages, the first of which has the given number, before its engine gets them.
pub(crate) type Prepare<'a> = dyn Fn(usize, &mut [Message<'_>]) -> Result<()> + Sync + 'a;

/// Seals or opens all messages where they lie, and wipes those that failed. On an error all others are as they were.
pub(crate) fn share(
    dispatcher: &Dispatcher,
    op: Op,
    suite: Suite,
    messages: &mut [Message<'_>],
    prepare: &Prepare<'_>,
) -> Result<Verdicts> {
    let lanes = dispatcher.lanes(suite)?;
    let dividing = lanes.iter().filter(|member| member.engine.info().divides);
    let widest = dividing.max_by_key(|member| member.engine.info().lanes);
    let mut unfit = Vec::new();
    for (index, message) in messages.iter_mut().enumerate() {
        if let Some(reason) = misfit(suite, message) {
            if op == Op::Seal {
                return Err(Error::Message { index, reason });
            }
            message.data.fill(0);
            unfit.push(index);
        }
    }

    let cost = cost(messages);
    let useful = (cost / WORTH_A_LANE).clamp(1, lanes.len());
    let fair = (cost / (2 * lanes.len())).max(WORTH_DIVIDING);
    // Associated data are hashed by one thread, whoever's.
    let is_long = |message: &Message| suite != Suite::Aes256Gcm && widest.is_some() && message.data.len() > fair;
    let (parts, long) = divide(messages, |message| misfit(suite, message).is_some(), is_long);
    let cost = parts.iter().map(|part| self::cost(part.messages)).sum();
    let state = State { parts, cost, done: Vec::new(), failed: unfit, error: None };
    let run = Run { dispatcher, op, suite, prepare, lanes: lanes.len(), state: Mutex::new(state) };

    for part in long {
        run.part(widest.expect("else none is long"), part, true);
    }
    // The calling thread is a lane too: a small batch starts no thread.
    let able: Vec<_> = thread::scope(|scope| {
        let run = &run;
        let start = |member| thread::Builder::new().spawn_scoped(scope, move || (member, run.lane(member)));
        // Where the system gives no more threads, those that there are do the work.
        let others: Vec<_> = lanes[1..useful].iter().map_while(|member| start(*member).ok()).collect();
        let mine = (lanes[0], run.lane(lanes[0]));
        let others = others.into_iter().map(|lane| lane.join().unwrap_or_else(|cause| panic::resume_unwind(cause)));
        iter::once(mine).chain(others).collect()
    });
    // What a lane gave back after the others had ended.
    for (member, able) in able {
        if able {
            run.lane(member);
        }
    }

    let mut state = run.state.into_inner().unwrap_or_else(|poisoned| poisoned.into_inner());
    state.failed.sort_unstable();
    if state.parts.is_empty() {
        return Ok(Verdicts::from_failed(state.failed));
    }
    let State { done, failed, error, .. } = state;
    undo(op, suite, messages, done, &failed);
    Err(error.expect("something was left because of it"))
}

/// Why the message cannot be one of the suite.
fn misfit(suite: Suite, message: &Message) -> Option<&'static str> {
    let Some(len) = message.data.len().checked_sub(suite.overhead()) else {
        return Some("it has no room for nonce and tag");
    };
    (len > suite.longest_message()).then_some("it is too long for its suite")
}

fn cost(messages: &[Message]) -> usize {
    messages.iter().map(Message::cost).sum()
}

/// Messages that lie behind one another, the first of them with its number.
struct Part<'q, 'm> {
    first: usize,
    messages: &'q mut [Message<'m>],
}

/// Cuts out the messages to be left alone, and those that are long. The parts between them come in descending order.
fn divide<'q, 'm>(
    messages: &'q mut [Message<'m>],
    is_unfit: impl Fn(&Message) -> bool,
    is_long: impl Fn(&Message) -> bool,
) -> (Vec<Part<'q, 'm>>, Vec<Part<'q, 'm>>) {
    let (mut parts, mut long) = (Vec::new(), Vec::new());
    let (mut first, mut rest) = (0, messages);
    while !rest.is_empty() {
        let end = rest.iter().position(|message| is_unfit(message) || is_long(message)).unwrap_or(rest.len());
        let (part, behind) = rest.split_at_mut(end);
        if !part.is_empty() {
            parts.push(Part { first, messages: part });
        }
        let (one, behind) = behind.split_at_mut(behind.len().min(1));
        if one.first().is_some_and(|message| !is_unfit(message)) {
            long.push(Part { first: first + end, messages: one });
        }
        (first, rest) = (first + end + 1, behind);
    }
    parts.reverse();
    (parts, long)
}

struct Run<'r, 'q, 'm> {
    dispatcher: &'r Dispatcher,
    op: Op,
    suite: Suite,
    prepare: &'r Prepare<'r>,
    lanes: usize,
    state: Mutex<State<'q, 'm>>,
}

struct State<'q, 'm> {
    /// What is left, and what lanes gave back; the next is the last.
    parts: Vec<Part<'q, 'm>>,
    /// About how much work is left.
    cost: usize,
    done: Vec<Range<usize>>,
    failed: Vec<usize>,
    /// Why the last lane that gave something back did.
    error: Option<Error>,
}

impl<'q, 'm> Run<'_, 'q, 'm> {
    /// Works until nothing is left. Returns whether the engine, or one that took over, is able to.
    fn lane(&self, member: &Member) -> bool {
        while let Some(part) = self.take(member.engine.info().preferred_job) {
            if !self.part(member, part, false) {
                return false;
            }
        }
        true
    }

    fn take(&self, most: usize) -> Option<Part<'q, 'm>> {
        let mut state = self.lock();
        let Part { first, messages } = state.parts.pop()?;
        let share = (state.cost / (4 * self.lanes)).clamp(LEAST, most.max(LEAST));
        let end = front(messages, share);
        let (messages, rest) = messages.split_at_mut(end);
        if !rest.is_empty() {
            state.parts.push(Part { first: first + end, messages: rest });
        }
        state.cost -= cost(messages);
        Some(Part { first, messages })
    }

    /// Seals or opens a part, or gives it back. Returns whether an engine could. With `wide`, all its threads work on it.
    fn part(&self, member: &Member, part: Part<'q, 'm>, wide: bool) -> bool {
        let Part { first, messages } = part;
        let prepared = (self.prepare)(first, messages);
        let run = prepared.and_then(|()| {
            let (verdicts, _) = self.dispatcher.by_turns(member, self.suite, |engine| {
                let threads = if wide { engine.info().lanes } else { 1 };
                engine.messages(self.op, self.suite, messages, threads)
            })?;
            Ok(verdicts)
        });
        if let Ok(verdicts) = &run {
            verdicts.failed().iter().for_each(|&i| messages[i].data.fill(0));
        }
        let mut state = self.lock();
        match run {
            Ok(verdicts) => {
                state.done.push(first..first + messages.len());
                state.failed.extend(verdicts.failed().iter().map(|i| first + i));
                true
            }
            Err(error) => {
                state.cost += cost(messages);
                state.parts.push(Part { first, messages });
                state.error = Some(error);
                false
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, State<'q, 'm>> {
        self.state.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }
}

/// Opens what was sealed, or seals again, under the nonces that they have, what was opened.
fn undo(op: Op, suite: Suite, messages: &mut [Message<'_>], done: Vec<Range<usize>>, failed: &[usize]) {
    let back = if op == Op::Seal { Op::Open } else { Op::Seal };
    for i in done.into_iter().flatten().filter(|i| failed.binary_search(i).is_err()) {
        let failed = stack::wiped(|| message::run(Levels::detect(), back, suite, &mut messages[i..=i], 1));
        assert!(failed.is_empty(), "an engine's message is not authentic");
    }
}
