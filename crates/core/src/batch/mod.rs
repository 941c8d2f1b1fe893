//! Many users' messages in one call, each under its own key: `docs/format.md`, section 7.
//!
//! A service seals its records in place, and stores the bytes of each:
//!
//! ```
//! use phalanx_core::batch::{self, BehindRoom, Message};
//! use phalanx_core::{Error, Result, Roster, SecretKey, Suite};
//! # fn main() -> Result<()> {
//! let (roster, suite) = (Roster::cpu(), Suite::default());
//! let keys = [SecretKey::random()?, SecretKey::random()?];
//!
//! let mut records = ["Ada's record", "Grace's record"].map(|text| batch::with_room(suite, text.as_bytes()));
//! let mut set = Vec::new();
//! for (key, record) in keys.iter().zip(&mut records) {
//!     let plaintext = BehindRoom::new(suite, record).expect("it was made with room");
//!     set.push(Message::to_seal(key, b"v1", plaintext));
//! }
//! batch::seal(&roster, suite, &mut set)?;
//!
//! records[1][60] ^= 1; // somebody alters Grace's, and with it nothing else
//! let mut set = Vec::new();
//! for (key, record) in keys.iter().zip(&mut records) {
//!     set.push(Message::to_open(key, b"v1", record));
//! }
//! let opened = batch::open(&roster, suite, &mut set);
//! assert!(matches!(opened, Err(Error::NotAuthentic { failed }) if failed == [1]));
//! assert_eq!(records[0][suite.overhead()..], *b"Ada's record");
//! # Ok(())
//! # }
//! ```
//!
//! The messages may lie anywhere. [`seal_into`] and [`open_into`] copy them into one buffer. For messages that are not
//! authentic, [`open`] returns an error that names them, and [`open_into`] returns no range. The workers of a roster
//! share the work. Keys, digests and tags of different messages are computed side by side, so that short messages cost
//! little more than their bytes. The cost is linear in messages and bytes.

pub mod coalescer;
pub(crate) mod jobs;
pub(crate) mod key;
pub(crate) mod message;
mod share;

pub use key::KeyOf;
pub use message::{BehindRoom, Message};

use crate::op::Op;
use crate::roster::Roster;
use crate::seam::Verdicts;
use crate::secret::wipe;
use crate::{Error, Result, Suite};
use share::{alone, share};
use std::ops::Range;

/// A plaintext after the room that sealing needs for nonce and tag.
#[must_use]
pub fn with_room(suite: Suite, plaintext: &[u8]) -> Vec<u8> {
    let mut data = Vec::with_capacity(suite.overhead() + plaintext.len());
    data.resize(suite.overhead(), 0);
    data.extend_from_slice(plaintext);
    data
}

/// Seals all messages where they lie, under new random nonces.
///
/// # Errors
/// If a message has no room for nonce and tag, or is too long for its suite; if no engine has the suite; or if engines
/// or the system's random generator failed. Every message's plaintext is then unchanged.
pub fn seal(roster: &Roster, suite: Suite, messages: &mut [Message<'_>]) -> Result<()> {
    share(roster, Op::Seal, suite, messages, &|_, group| draw_nonces(suite, group)).map(drop)
}

/// Opens all messages where they lie.
///
/// # Errors
/// [`Error::NotAuthentic`] names the messages that are not authentic. These are wiped, and all others are opened. If no
/// engine has the suite, or engines failed, every message is unchanged, except those already found not to be authentic.
pub fn open(roster: &Roster, suite: Suite, messages: &mut [Message<'_>]) -> Result<()> {
    let verdicts = share(roster, Op::Open, suite, messages, &|_, _| Ok(()))?;
    if verdicts.all_passed() { Ok(()) } else { Err(Error::NotAuthentic { failed: verdicts.failed().to_vec() }) }
}

/// Seals or opens all messages where they lie, on the calling thread, as this worker of the roster. Returns those that
/// are not authentic.
fn run_as(worker: usize, roster: &Roster, op: Op, suite: Suite, messages: &mut [Message<'_>]) -> Result<Verdicts> {
    match op {
        Op::Seal => alone(worker, roster, op, suite, messages, &|_, group| draw_nonces(suite, group)),
        Op::Open => alone(worker, roster, op, suite, messages, &|_, _| Ok(())),
    }
}

/// A message to be copied from its present place.
#[derive(Clone, Copy)]
pub struct Copied<'a> {
    /// The user's key.
    pub key: KeyOf<'a>,
    /// The associated data.
    pub ad: &'a [u8],
    /// The plaintext to seal, or the stored message to open.
    pub bytes: &'a [u8],
}

/// Seals messages as [`seal`] does, but copies them from anywhere into one buffer. They lie there one after another,
/// each in its stored form, in the returned ranges. The buffer must have room for all plaintexts and
/// [`Suite::overhead`] for each.
///
/// # Errors
/// As for [`seal`], or if the buffer is too short. The buffer is then wiped.
pub fn seal_into(roster: &Roster, suite: Suite, inputs: &[Copied<'_>], out: &mut [u8]) -> Result<Vec<Range<usize>>> {
    let (_, places) = copied(roster, Op::Seal, suite, inputs, out)?;
    Ok(places)
}

/// Opens messages from anywhere into one buffer, which must be as long as all of them together. Each plaintext lies in
/// its returned range. A message that is not authentic has no range, and its place is wiped.
///
/// # Errors
/// If no engine has the suite, if engines failed, or if the buffer is too short. The buffer is then wiped.
pub fn open_into(
    roster: &Roster,
    suite: Suite,
    inputs: &[Copied<'_>],
    out: &mut [u8],
) -> Result<Vec<Option<Range<usize>>>> {
    let (verdicts, places) = copied(roster, Op::Open, suite, inputs, out)?;
    let plaintext = |place: Range<usize>| place.start + suite.overhead()..place.end;
    let mut opened: Vec<_> = places.into_iter().map(|place| Some(plaintext(place))).collect();
    verdicts.failed().iter().for_each(|&i| opened[i] = None);
    Ok(opened)
}

/// Copies each input to its place just before a worker works on it. Returns the places of the whole messages.
fn copied(
    roster: &Roster,
    op: Op,
    suite: Suite,
    inputs: &[Copied<'_>],
    out: &mut [u8],
) -> Result<(Verdicts, Vec<Range<usize>>)> {
    let room = if op == Op::Seal { suite.overhead() } else { 0 };
    let mut places = Vec::with_capacity(inputs.len());
    let mut messages = Vec::with_capacity(inputs.len());
    let (mut at, mut rest) = (0, &mut *out);
    for (index, &Copied { key, ad, bytes }) in inputs.iter().enumerate() {
        let len = room + bytes.len();
        let Some((data, behind)) = rest.split_at_mut_checked(len) else {
            return Err(Error::Message { index, reason: "the output buffer ends before it" });
        };
        messages.push(Message { key, ad, data, op, room });
        places.push(at..at + len);
        (at, rest) = (at + len, behind);
    }
    let result = share(roster, op, suite, &mut messages, &|first, group| {
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
