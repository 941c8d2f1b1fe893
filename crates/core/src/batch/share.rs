//! Sharing a batch of messages among the workers of a roster, all or nothing.
//!
//! Workers take parts of the remaining messages, large parts first and smaller ones towards the end, so that all finish
//! together. If an engine cannot do a part, another one does it. If none can, the finished parts are undone.

use crate::batch::jobs::by_jobs;
use crate::batch::message::{Message, front};
use crate::cpu::{Levels, messages};
use crate::op::Op;
use crate::roster::{Member, Roster};
use crate::seam::Verdicts;
use crate::secret::wiped;
use crate::{Error, Result, Suite};
use std::ops::Range;
use std::sync::{Mutex, MutexGuard};
use std::{iter, panic, thread};

/// The least work for which a thread is started, in the unit of [`Message::cost`]: what one thread does in 200
/// microseconds. Starting and ending a thread takes 50 to 65 microseconds (`benches/few.rs`), and longer if other
/// programs use the core too.
fn worth_a_thread(suite: Suite) -> usize {
    match suite {
        Suite::Aes256Gcm => 2 << 20,
        Suite::Aes256CtrTurboShake => 512 << 10,
        _ => 384 << 10,
    }
}

/// How many threads can usefully share messages of these costs. While one works on the longest message, the others have
/// only the rest.
fn useful_threads(suite: Suite, costs: impl Iterator<Item = usize>) -> usize {
    let (all, longest) = costs.fold((0, 0), |(all, longest), cost| (all + cost, cost.max(longest)));
    let worth = worth_a_thread(suite);
    (all / worth).min(1 + (all - longest) / worth).max(1)
}

/// The least that a worker takes at once, which is enough for the kernels to work side by side.
const LEAST: usize = 64 << 10;

/// A function that a worker calls for messages before its engine gets them. Its first argument is the number of the
/// first message.
pub(crate) type Prepare<'a> = dyn Fn(usize, &mut [Message<'_>]) -> Result<()> + Sync + 'a;

/// Seals or opens all messages where they lie, and wipes those that failed. After an error all others are unchanged.
pub(crate) fn share(
    roster: &Roster,
    op: Op,
    suite: Suite,
    messages: &mut [Message<'_>],
    prepare: &Prepare<'_>,
) -> Result<Verdicts> {
    among(&roster.workers(suite)?, roster, op, suite, messages, prepare)
}

/// Does what [`share`] does on the calling thread alone, as the worker with this number.
pub(crate) fn alone(
    worker: usize,
    roster: &Roster,
    op: Op,
    suite: Suite,
    messages: &mut [Message<'_>],
    prepare: &Prepare<'_>,
) -> Result<Verdicts> {
    let workers = roster.workers(suite)?;
    // There may be fewer workers than before, because an engine has failed.
    let mine = workers[worker % workers.len()];
    among(&[mine], roster, op, suite, messages, prepare)
}

/// Shares the messages among some workers of a roster.
fn among(
    workers: &[&Member],
    roster: &Roster,
    op: Op,
    suite: Suite,
    messages: &mut [Message<'_>],
    prepare: &Prepare<'_>,
) -> Result<Verdicts> {
    let mut unfit = Vec::new();
    for (index, message) in messages.iter_mut().enumerate() {
        if let Some(reason) = misfit(op, suite, message) {
            if op == Op::Seal || message.op != op {
                return Err(Error::Message { index, reason });
            }
            message.data.fill(0);
            unfit.push(index);
        }
    }

    let useful = useful_threads(suite, messages.iter().map(Message::cost)).min(workers.len());
    let parts = divide(messages, &unfit);
    let cost = parts.iter().map(|part| self::cost(part.messages)).sum();
    let state = RunState { parts, cost, done: Vec::new(), failed: unfit, error: None };
    let run = Run { roster, op, suite, prepare, workers: useful, state: Mutex::new(state) };
    // The calling thread is a worker too, so a small batch starts no thread.
    let able: Vec<_> = thread::scope(|scope| {
        let run = &run;
        let start = |member| thread::Builder::new().spawn_scoped(scope, move || (member, run.worker(member)));
        // If the system gives no more threads, the existing ones do the work.
        let others: Vec<_> = workers[1..useful].iter().map_while(|member| start(*member).ok()).collect();
        let mine = (workers[0], run.worker(workers[0]));
        let others = others.into_iter().map(|worker| worker.join().unwrap_or_else(|cause| panic::resume_unwind(cause)));
        iter::once(mine).chain(others).collect()
    });
    // A part that a worker gave back after the others had ended.
    for (member, able) in able {
        if able {
            run.worker(member);
        }
    }

    let mut state = run.state.into_inner().unwrap_or_else(|poisoned| poisoned.into_inner());
    state.failed.sort_unstable();
    if state.parts.is_empty() {
        return Ok(Verdicts::from_failed(state.failed));
    }
    let RunState { done, failed, error, .. } = state;
    undo(op, suite, messages, done, &failed);
    Err(error.expect("something was left because of it"))
}

/// Why the message is invalid in the suite.
fn misfit(op: Op, suite: Suite, message: &Message) -> Option<&'static str> {
    if message.op != op {
        return Some(if op == Op::Seal { "it is one to be opened" } else { "it is one to be sealed" });
    }
    if op == Op::Seal && message.room != suite.overhead() {
        return Some("its room is that of another suite");
    }
    let Some(len) = message.data.len().checked_sub(suite.overhead()) else {
        return Some("it has no room for nonce and tag");
    };
    (len > suite.longest_message()).then_some("it is too long for its suite")
}

fn cost(messages: &[Message]) -> usize {
    messages.iter().map(Message::cost).sum()
}

/// Consecutive messages, and the number of the first one.
struct Part<'q, 'm> {
    first: usize,
    messages: &'q mut [Message<'m>],
}

/// The parts between the messages that must not be touched, in descending order.
fn divide<'q, 'm>(messages: &'q mut [Message<'m>], unfit: &[usize]) -> Vec<Part<'q, 'm>> {
    let mut parts = Vec::new();
    let (mut first, mut rest) = (0, messages);
    for &end in unfit.iter().chain(&[first + rest.len()]) {
        let (part, behind) = rest.split_at_mut(end - first);
        if !part.is_empty() {
            parts.push(Part { first, messages: part });
        }
        rest = behind.split_at_mut(behind.len().min(1)).1;
        first = end + 1;
    }
    parts.reverse();
    parts
}

struct Run<'r, 'q, 'm> {
    roster: &'r Roster,
    op: Op,
    suite: Suite,
    prepare: &'r Prepare<'r>,
    workers: usize,
    state: Mutex<RunState<'q, 'm>>,
}

struct RunState<'q, 'm> {
    /// The remaining parts, including those that workers gave back. The last one is next.
    parts: Vec<Part<'q, 'm>>,
    /// About how much work is left.
    cost: usize,
    done: Vec<Range<usize>>,
    failed: Vec<usize>,
    /// The fault of the last worker that gave something back.
    error: Option<Error>,
}

impl<'q, 'm> Run<'_, 'q, 'm> {
    /// Works until nothing is left. Returns whether the engine, or one that took over, still works.
    fn worker(&self, member: &Member) -> bool {
        while let Some(part) = self.take(member.engine.info().preferred_job) {
            if !self.part(member, part) {
                return false;
            }
        }
        true
    }

    fn take(&self, most: usize) -> Option<Part<'q, 'm>> {
        let mut state = self.lock();
        let Part { first, messages } = state.parts.pop()?;
        // One worker alone has nobody to finish together with.
        let share = if self.workers == 1 { state.cost } else { state.cost / (4 * self.workers) };
        let share = share.clamp(LEAST, most.max(LEAST));
        let end = front(messages, share);
        let (messages, rest) = messages.split_at_mut(end);
        if !rest.is_empty() {
            state.parts.push(Part { first: first + end, messages: rest });
        }
        state.cost -= cost(messages);
        Some(Part { first, messages })
    }

    /// Seals or opens a part, or gives it back. Returns whether an engine did it.
    fn part(&self, member: &Member, part: Part<'q, 'm>) -> bool {
        let Part { first, messages } = part;
        let prepared = (self.prepare)(first, messages);
        let run = prepared.and_then(|()| {
            let (verdicts, _) = self.roster.by_turns(member, self.suite, |engine| {
                let here = engine.messages(self.op, self.suite, messages);
                here.unwrap_or_else(|| by_jobs(engine, self.op, self.suite, messages))
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

    fn lock(&self) -> MutexGuard<'_, RunState<'q, 'm>> {
        self.state.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }
}

/// Opens what was sealed, or seals what was opened, under the same nonces.
fn undo(op: Op, suite: Suite, messages: &mut [Message<'_>], done: Vec<Range<usize>>, failed: &[usize]) {
    let back = if op == Op::Seal { Op::Open } else { Op::Seal };
    for i in done.into_iter().flatten().filter(|i| failed.binary_search(i).is_err()) {
        let failed = wiped(|| messages::run(Levels::detect(), back, suite, &mut messages[i..=i]));
        assert!(failed.is_empty(), "an engine's message is not authentic");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn few_messages_start_no_thread() {
        let threads = |suite, kib: &[usize]| useful_threads(suite, kib.iter().map(|kib| kib << 10));
        for suite in Suite::ALL.iter().copied() {
            assert_eq!(threads(suite, &[]), 1);
            assert_eq!(threads(suite, &[64; 5]), 1, "{suite:?}");
            assert_eq!(threads(suite, &[1, 2, 8, 32, 256]), 1, "{suite:?}");
            assert_eq!(threads(suite, &[1 << 20, 1, 1, 1]), 1, "{suite:?}: the others have nothing to do");
            assert!(threads(suite, &[1024; 64]) >= 16, "{suite:?}");
        }
        assert_eq!(threads(Suite::Aes256CtrSha3, &[256; 5]), 3);
        assert_eq!(threads(Suite::Aes256CtrTurboShake, &[256; 5]), 2);
        assert_eq!(threads(Suite::Aes256Gcm, &[256; 5]), 1);
        assert_eq!(threads(Suite::Aes256Gcm, &[1024; 5]), 2);
    }
}
