//! A message in the queue.

use super::Failure;
use super::key::MessageKey;
use super::slot::{Slot, Ticket, Wiped};
use crate::Suite;
use crate::batch::message::Message;
use crate::op::Op;
use std::mem;
use std::sync::Arc;

/// A message to be sealed or opened. If it is dropped without a result, its ticket gets a failure.
pub(super) struct Item {
    key: MessageKey,
    ad: Vec<u8>,
    data: Wiped,
    slot: Arc<Slot>,
}

impl Item {
    pub fn new(key: MessageKey, ad: Vec<u8>, data: Wiped) -> (Self, Ticket) {
        let slot = Arc::new(Slot::new());
        let ticket = Ticket::new(slot.clone());
        (Self { key, ad, data, slot }, ticket)
    }

    pub fn message(&mut self, op: Op, suite: Suite) -> Message<'_> {
        let room = suite.overhead();
        Message { key: self.key.as_ref(), ad: &self.ad, data: self.data.whole(), op, room }
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
    pub fn len(&mut self) -> usize {
        const LEAST: usize = 48;
        (self.data.whole().len() + self.ad.len() + self.key.len()).max(LEAST)
    }
}

impl Drop for Item {
    fn drop(&mut self) {
        self.slot.finish(Err(Failure::Closed));
    }
}
