//! Messages on the CPU, processed in place in the caller's memory.

use crate::Suite;
use crate::batch::key::derive;
use crate::batch::message::{Message, front};
use crate::cpu::chunk::Keys;
use crate::cpu::levels::Levels;
use crate::cpu::pieces::{Bound, Piece};
use crate::op::Op;
use crate::seam::SLICE;

/// The most work that the CPU does side by side, as `Message::cost` counts it. It fits in the second-level cache of a
/// core.
const GROUP: usize = 512 << 10;
/// The most messages that it does side by side. For short ones its working memory is then 100 KiB.
const SIDE_BY_SIDE: usize = 128;

/// Seals or opens messages on the CPU in place. Returns those that failed.
///
/// # Panics
/// If a message is shorter than its nonce and tag.
pub(crate) fn run(levels: Levels, op: Op, suite: Suite, mut messages: &mut [Message<'_>]) -> Vec<usize> {
    let mut failed = Vec::new();
    let mut first = 0;
    // AES-GCM takes one message after another: only the keys are derived side by side.
    let most = if suite == Suite::Aes256Gcm { usize::MAX } else { GROUP };
    while !messages.is_empty() {
        let (group, rest) = messages.split_at_mut(front(messages, most).min(SIDE_BY_SIDE));
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
        Keys::new(suite, SLICE, &content).run(levels, op, &mut pieces, |i| failed.push(first + i));
        first += pieces.len();
        messages = rest;
    }
    failed
}
