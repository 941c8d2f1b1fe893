//! Messages, one short plaintext each under its user's key: `docs/format.md`, section 7.
//!
//! [`crate::batch`] seals and opens whole sets of them. Here is what an engine does with its part of a set.

use crate::Suite;
use crate::chunk::{Bound, Keys, Levels, Piece};
use crate::engine::{Bind, Engine, Fault, Job, Op, Unit, Verdicts};
use crate::key::{ContentKeys, SecretKey};
use phalanx_kernels::aes::BLOCK;
use phalanx_kernels::keccak;
use std::{fmt, ptr};

/// A message in the caller's memory. The suite is the same for all of a set.
pub struct Message<'a> {
    /// The user's key. Where messages that follow each other name the same key, in the same place, it is derived from once.
    pub key: &'a SecretKey,
    /// The associated data: authenticated, but not stored. May be empty.
    pub ad: &'a [u8],
    /// Nonce, tag and ciphertext, as they are stored. Before sealing and after opening: [`Suite::overhead`] bytes of room,
    /// and then the plaintext.
    pub data: &'a mut [u8],
}

impl Message<'_> {
    /// About how much work it is, in bytes: the keys and the tag of a short one are more of it than its content.
    pub(crate) fn cost(&self) -> usize {
        const KEYS_AND_TAG: usize = 1024;
        self.data.len() + self.ad.len() + KEYS_AND_TAG
    }
}

impl fmt::Debug for Message<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Message({} bytes)", self.data.len())
    }
}

/// How many messages at the front are no more work than `cost` bytes; one at least.
pub(crate) fn front(messages: &[Message<'_>], cost: usize) -> usize {
    let mut sum = 0;
    let within = |message: &&Message| {
        sum += message.cost();
        sum <= cost
    };
    messages.iter().take_while(within).count().max(1)
}

/// What the CPU does side by side, as [`Message::cost`] counts it: it stays in the second-level cache of a core.
const GROUP: usize = 512 << 10;

/// Seals or opens messages on the CPU, where they lie. Returns those that failed.
///
/// # Panics
/// If a message is shorter than its nonce and tag.
pub(crate) fn run(
    levels: Levels,
    op: Op,
    suite: Suite,
    mut messages: &mut [Message<'_>],
    threads: usize,
) -> Vec<usize> {
    let mut failed = Vec::new();
    let mut first = 0;
    // AES-GCM takes one message after another: only the keys are side by side.
    let most = if suite == Suite::Aes256Gcm { usize::MAX } else { GROUP };
    while !messages.is_empty() {
        let (group, rest) = messages.split_at_mut(front(messages, most));
        let (users, content) = derive(levels.keccak, suite, group);
        let piece = |(message, key)| {
            let Message { ad, data, .. }: &mut Message = message;
            let (stored, data) = data.split_at_mut(suite.nonce_len());
            let (tag, data) = data.split_at_mut(suite.tag_len());
            let mut nonce = [0; 16];
            nonce[..stored.len()].copy_from_slice(stored);
            Piece { key, nonce, bound: Bound::Message { ad }, data, tag }
        };
        let mut pieces: Vec<_> = group.iter_mut().zip(users).map(piece).collect();
        Keys::new(suite, &content).run(levels, op, &mut pieces, threads, |i| failed.push(first + i));
        first += pieces.len();
        messages = rest;
    }
    failed
}

/// The keys of the messages, and which of them each message has.
fn derive<'a>(level: keccak::Level, suite: Suite, messages: &[Message<'a>]) -> (Vec<usize>, Vec<ContentKeys>) {
    let mut keys: Vec<&'a SecretKey> = Vec::with_capacity(messages.len());
    let which = |message: &Message<'a>| {
        if keys.last().is_none_or(|last| !ptr::eq(*last, message.key)) {
            keys.push(message.key);
        }
        keys.len() - 1
    };
    let which = messages.iter().map(which).collect();
    (which, ContentKeys::of_messages(level, suite, keys.into_iter()))
}

/// Seals or opens messages by way of the engine's buffers: copied in, run as jobs, copied out. Returns those that failed.
/// On a fault all messages are as they were.
pub(crate) fn by_jobs<E: Engine + ?Sized>(
    engine: &E,
    op: Op,
    suite: Suite,
    messages: &mut [Message<'_>],
) -> Result<Verdicts, Fault> {
    let info = engine.info();
    let most = info.preferred_job.min(info.largest_job);
    let mut jobs: Vec<(Job, Verdicts)> = Vec::new();
    let mut rest = &*messages;
    while !rest.is_empty() {
        let (group, behind) = rest.split_at(front(rest, most));
        let mut job = job(engine, op, suite, group)?;
        let verdicts = engine.run(&mut job)?;
        job.wipe(&verdicts);
        jobs.push((job, verdicts));
        rest = behind;
    }
    let mut failed = Vec::new();
    let mut first = 0;
    for (job, verdicts) in &jobs {
        failed.extend(verdicts.failed().iter().map(|i| first + i));
        for (message, unit) in messages[first..].iter_mut().zip(&job.units) {
            let (head, data) = message.data.split_at_mut(suite.overhead());
            data.copy_from_slice(&job.buf[unit.data.clone()]);
            head[suite.nonce_len()..].copy_from_slice(&unit.tag[..suite.tag_len()]);
        }
        first += job.units.len();
    }
    Ok(Verdicts::from_failed(failed))
}

/// A copy of the messages, each behind its associated data.
fn job<E: Engine + ?Sized>(engine: &E, op: Op, suite: Suite, messages: &[Message<'_>]) -> Result<Job, Fault> {
    let (which, keys) = derive(keccak::Level::detect(), suite, messages);
    // Devices like data that begin with a whole block.
    let start = |at: usize, message: &Message| (at + message.ad.len()).next_multiple_of(BLOCK);
    let len = messages.iter().fold(0, |at, m| start(at, m) + m.data.len() - suite.overhead());
    let mut job = Job::new(op, suite, keys.into(), engine.buffer(len)?);
    let mut at = 0;
    for (message, key) in messages.iter().zip(which) {
        let (head, data) = message.data.split_at(suite.overhead());
        let start = start(at, message);
        let ad = start - message.ad.len()..start;
        let range = start..start + data.len();
        job.buf[ad.clone()].copy_from_slice(message.ad);
        job.buf[range.clone()].copy_from_slice(data);
        at = range.end;
        let mut unit = Unit { key: key as u32, nonce: [0; 16], bind: Bind::Message { ad }, data: range, tag: [0; 32] };
        let (nonce, tag) = head.split_at(suite.nonce_len());
        unit.nonce[..nonce.len()].copy_from_slice(nonce);
        unit.tag[..tag.len()].copy_from_slice(tag);
        job.units.push(unit);
    }
    Ok(job)
}
