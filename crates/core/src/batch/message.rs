//! Messages: short plaintexts, each under its user's key. See `docs/format.md`, section 7.
//!
//! [`crate::batch`] seals and opens whole sets of them.

use crate::Suite;
use crate::batch::key::KeyOf;
use crate::op::Op;
use std::fmt;

/// A message in the caller's memory, to be sealed or opened in place. All messages of a set have the same suite.
pub struct Message<'a> {
    /// If consecutive messages name the same key, at the same address, or the same user of the same `UserKeys`, their
    /// keys are derived once.
    pub(crate) key: KeyOf<'a>,
    pub(crate) ad: &'a [u8],
    /// Nonce, tag and ciphertext, as they are stored. Before sealing and after opening: room, then the plaintext.
    pub(crate) data: &'a mut [u8],
    /// Whether it is to be sealed or opened.
    pub(crate) op: Op,
    /// The length of the room before a plaintext.
    pub(crate) room: usize,
}

impl<'a> Message<'a> {
    /// A plaintext to be sealed under its user's key. The associated data may be empty. They are authenticated, but not
    /// stored.
    #[must_use]
    pub fn to_seal(key: impl Into<KeyOf<'a>>, ad: &'a [u8], plaintext: BehindRoom<'a>) -> Self {
        Self { key: key.into(), ad, data: plaintext.buffer, op: Op::Seal, room: plaintext.room }
    }

    /// A stored message to be opened. Its plaintext will lie after [`Suite::overhead`] bytes of meaningless content.
    pub fn to_open(key: impl Into<KeyOf<'a>>, ad: &'a [u8], stored: &'a mut [u8]) -> Self {
        Self { key: key.into(), ad, data: stored, op: Op::Open, room: 0 }
    }
}

/// A plaintext after [`Suite::overhead`] bytes of room, into which sealing writes nonce and tag.
#[derive(Debug)]
pub struct BehindRoom<'a> {
    buffer: &'a mut [u8],
    room: usize,
}

impl<'a> BehindRoom<'a> {
    /// Takes the whole buffer. Its first [`Suite::overhead`] bytes are room, and their content will be lost. `None` if
    /// the buffer is shorter than that.
    pub fn new(suite: Suite, buffer: &'a mut [u8]) -> Option<Self> {
        let room = suite.overhead();
        (buffer.len() >= room).then_some(Self { buffer, room })
    }
}

impl Message<'_> {
    /// A rough measure of the work, in bytes. For short messages, keys and tag are more work than the content.
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

/// How many messages at the front together cost at most `cost`; at least one.
pub(crate) fn front(messages: &[Message<'_>], cost: usize) -> usize {
    let mut sum = 0;
    let within = |message: &&Message| {
        sum += message.cost();
        sum <= cost
    };
    messages.iter().take_while(within).count().max(1)
}
