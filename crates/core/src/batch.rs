//! Many users' messages in one call, each under its own key: `docs/format.md`, section 7.
//!
//! A service seals what it has at hand, and stores each record as it then lies in memory:
//!
//! ```
//! use phalanx_core::{Result, Suite, batch, chunk::Levels, cpu::CpuEngine, dispatcher::Dispatcher};
//! use phalanx_core::{key::SecretKey, message::Message};
//! # fn main() -> Result<()> {
//! let cpu = Dispatcher::new(&[std::sync::Arc::new(CpuEngine::parallel(2, Levels::detect()))]);
//! let (suite, keys) = (Suite::default(), [SecretKey::random()?, SecretKey::random()?]);
//! let mut records = ["Ada's record", "Grace's record"].map(|text| batch::with_room(suite, text.as_bytes()));
//! let mut set: Vec<_> = keys.iter().zip(&mut records).map(|(key, data)| Message { key, ad: b"v1", data }).collect();
//! batch::seal(&cpu, suite, &mut set)?;
//! set[1].data[60] ^= 1; // somebody alters Grace's, and with it nothing else
//! assert_eq!(batch::open(&cpu, suite, &mut set)?.failed(), [1]);
//! assert_eq!(records[0][suite.overhead()..], *b"Ada's record");
//! # Ok(())
//! # }
//! ```
//!
//! The messages lie anywhere, also one behind another in one buffer ([`seal_into`]). The work is shared among the lanes of a
//! dispatcher; keys, digests and tags of different messages are computed side by side, so that short ones cost what their
//! bytes cost and little more. A message that is longer than a lane's share is worked on by several threads (not in
//! suite 4, whose hash is one chain). The cost is linear in messages and bytes.

use crate::dispatcher::Dispatcher;
use crate::engine::{Op, Verdicts, wipe};
use crate::key::SecretKey;
use crate::message::Message;
use crate::share::share;
use crate::{Error, Result, Suite};
use std::ops::Range;

/// A plaintext behind the room that sealing needs for nonce and tag.
pub fn with_room(suite: Suite, plaintext: &[u8]) -> Vec<u8> {
    let mut data = Vec::with_capacity(suite.overhead() + plaintext.len());
    data.resize(suite.overhead(), 0);
    data.extend_from_slice(plaintext);
    data
}

/// Seals all messages where they lie, under new random nonces.
///
/// # Errors
/// If a message has no room for nonce and tag, or is too long for its suite; if no engine has the suite; if engines or the
/// system's random generator failed. Every message's plaintext is then as it was.
pub fn seal(dispatcher: &Dispatcher, suite: Suite, messages: &mut [Message<'_>]) -> Result<()> {
    share(dispatcher, Op::Seal, suite, messages, &|_, group| draw_nonces(suite, group)).map(drop)
}

/// Opens all messages where they lie. The verdicts name those that are not authentic, which are wiped.
///
/// # Errors
/// If no engine has the suite, or engines failed. Every message is then as it was, but for those already found not to be
/// authentic.
pub fn open(dispatcher: &Dispatcher, suite: Suite, messages: &mut [Message<'_>]) -> Result<Verdicts> {
    share(dispatcher, Op::Open, suite, messages, &|_, _| Ok(()))
}

/// A message to be copied from where it lies.
#[derive(Clone, Copy)]
pub struct Input<'a> {
    /// The user's key.
    pub key: &'a SecretKey,
    /// The associated data.
    pub ad: &'a [u8],
    /// The plaintext to seal, or the stored message to open.
    pub bytes: &'a [u8],
}

/// [`seal`] from anywhere into one buffer: the messages lie there one behind another, each as it is stored, in the ranges
/// that are returned. The buffer has room for all plaintexts and [`Suite::overhead`] for each.
///
/// # Errors
/// Those of [`seal`], or if the buffer is too short. The buffer is then wiped.
pub fn seal_into(
    dispatcher: &Dispatcher,
    suite: Suite,
    inputs: &[Input<'_>],
    out: &mut [u8],
) -> Result<Vec<Range<usize>>> {
    let (_, places) = copied(dispatcher, Op::Seal, suite, inputs, out)?;
    Ok(places)
}

/// [`open`] from anywhere into one buffer, which is as long as all messages: each plaintext lies in its range of those that
/// are returned, with [`Suite::overhead`] bytes before it that mean nothing.
///
/// # Errors
/// Those of [`open`], or if the buffer is too short. The buffer is then wiped.
pub fn open_into(
    dispatcher: &Dispatcher,
    suite: Suite,
    inputs: &[Input<'_>],
    out: &mut [u8],
) -> Result<(Verdicts, Vec<Range<usize>>)> {
    let (verdicts, mut places) = copied(dispatcher, Op::Open, suite, inputs, out)?;
    places.iter_mut().for_each(|place| place.start = place.end.min(place.start + suite.overhead()));
    Ok((verdicts, places))
}

/// Copies each input to its place just before the lane that takes it works on it. Gives the places of the whole messages.
fn copied(
    dispatcher: &Dispatcher,
    op: Op,
    suite: Suite,
    inputs: &[Input<'_>],
    out: &mut [u8],
) -> Result<(Verdicts, Vec<Range<usize>>)> {
    let room = if op == Op::Seal { suite.overhead() } else { 0 };
    let mut places = Vec::with_capacity(inputs.len());
    let mut messages = Vec::with_capacity(inputs.len());
    let (mut at, mut rest) = (0, &mut *out);
    for (index, Input { key, ad, bytes }) in inputs.iter().enumerate() {
        let len = room + bytes.len();
        let Some((data, behind)) = rest.split_at_mut_checked(len) else {
            return Err(Error::Message { index, reason: "the output buffer ends before it" });
        };
        messages.push(Message { key, ad, data });
        places.push(at..at + len);
        (at, rest) = (at + len, behind);
    }
    let result = share(dispatcher, op, suite, &mut messages, &|first, group| {
        for (message, input) in group.iter_mut().zip(&inputs[first..]) {
            message.data[room..].copy_from_slice(input.bytes);
        }
        if op == Op::Seal { draw_nonces(suite, group) } else { Ok(()) }
    });
    match result {
        Ok(verdicts) => Ok((verdicts, places)),
        Err(error) => {
            wipe(out);
            Err(error)
        }
    }
}

/// New nonces for all messages, by one call of the system's generator.
fn draw_nonces(suite: Suite, messages: &mut [Message<'_>]) -> Result<()> {
    let len = suite.nonce_len();
    let mut random = vec![0; messages.len() * len];
    getrandom::fill(&mut random).map_err(Error::Random)?;
    for (message, nonce) in messages.iter_mut().zip(random.chunks(len)) {
        message.data[..len].copy_from_slice(nonce);
    }
    Ok(())
}
