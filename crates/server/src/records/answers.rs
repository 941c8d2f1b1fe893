//! Answers as they lie in a stream: `docs/server-format.md`.
//!
//! ```text
//! u16 status  u16 0  u32 length  bytes
//! ```

use crate::batch::{Batch, Done};
use crate::refusal::Refusal;
use hyper::body::Bytes;
use std::collections::VecDeque;
use std::ops::Range;

/// The bytes of an answer before its ciphertext, text or reason.
const HEAD: usize = 8;

/// The bytes of a version, which is the beginning of a ciphertext.
const VERSION: usize = 4;

/// A result of so many bytes is sent from where it was sealed or opened. Shorter ones are copied next to one another,
/// because each part that is sent costs more than such a copy.
const LARGE: usize = 16 << 10;

/// Answers, one after another, in parts. They may be texts: what is freed is wiped (see `main.rs`).
#[derive(Default)]
pub struct Answers(VecDeque<Bytes>);

impl Answers {
    /// The answers for all records of a batch.
    pub fn to_batch(batch: Batch) -> Self {
        let (bytes, items) = batch.into_done();
        let copied = Vec::with_capacity(items.iter().map(copied_len).sum());
        let mut writing = Writing { bytes, copied, parts: Vec::new() };
        items.iter().for_each(|item| writing.answer(item));
        writing.end()
    }

    /// The same refusal for each of some records.
    pub fn all_refused(count: usize, refusal: &Refusal) -> Self {
        let mut answers = Vec::with_capacity(count * (HEAD + refusal.text.len()));
        (0..count).for_each(|_| self::refuse(&mut answers, refusal));
        Self([answers.into()].into())
    }

    /// Adds the answer that ends a stream.
    pub fn and_last(mut self, refusal: &Refusal) -> Self {
        self.0.extend(Self::all_refused(1, refusal).0);
        self
    }

    /// The bytes, in parts.
    pub fn into_parts(self) -> VecDeque<Bytes> {
        self.0
    }
}

/// The answers for a batch while they are written.
struct Writing {
    /// The buffer of the batch.
    bytes: Vec<u8>,
    /// The answers that are not sent from there. There is room for all, so that it never grows.
    copied: Vec<u8>,
    parts: Vec<Part>,
}

/// Answers that lie next to one another.
enum Part {
    /// In the buffer of the batch.
    InPlace(Range<usize>),
    /// Among those that are copied.
    Copied(Range<usize>),
}

impl Writing {
    fn answer(&mut self, item: &Result<Done, Refusal>) {
        let start = self.copied.len();
        match item {
            Ok(done) if is_in_place(done) => return self.in_place(done),
            Ok(done) => {
                let (head, len) = head_of(done);
                self.copied.extend_from_slice(&head[..len]);
                self.copied.extend_from_slice(&self.bytes[done.start..done.end]);
            }
            Err(refusal) => refuse(&mut self.copied, refusal),
        }
        let end = self.copied.len();
        match self.parts.last_mut() {
            Some(Part::Copied(range)) => range.end = end,
            _ => self.parts.push(Part::Copied(start..end)),
        }
    }

    /// Writes the head before a result, over what it was bound to.
    fn in_place(&mut self, done: &Done) {
        let (head, len) = head_of(done);
        let start = done.start - len;
        self.bytes[start..done.start].copy_from_slice(&head[..len]);
        self.parts.push(Part::InPlace(start..done.end));
    }

    fn end(self) -> Answers {
        let (bytes, copied) = (Bytes::from(self.bytes), Bytes::from(self.copied));
        let part = |part| match part {
            Part::InPlace(range) => bytes.slice(range),
            Part::Copied(range) => copied.slice(range),
        };
        Answers(self.parts.into_iter().map(part).collect())
    }
}

/// Whether the answer is sent from where the result lies: if that is worthwhile, and there is room for the head.
fn is_in_place(done: &Done) -> bool {
    done.end - done.start >= LARGE && done.start - done.free >= HEAD + VERSION
}

/// How many bytes of an answer are copied.
fn copied_len(item: &Result<Done, Refusal>) -> usize {
    match item {
        Ok(done) if is_in_place(done) => 0,
        Ok(done) => HEAD + VERSION + done.end - done.start,
        Err(refusal) => HEAD + refusal.text.len(),
    }
}

/// What is before a result, and how long it is: the head, and the version if it was sealed.
fn head_of(done: &Done) -> ([u8; HEAD + VERSION], usize) {
    let mut bytes = [0; HEAD + VERSION];
    let version = done.version.map_or(0, |_| VERSION);
    bytes[..HEAD].copy_from_slice(&head(0, version + done.end - done.start));
    bytes[HEAD..].copy_from_slice(&done.version.unwrap_or_default().to_le_bytes());
    (bytes, HEAD + version)
}

fn refuse(answers: &mut Vec<u8>, refusal: &Refusal) {
    answers.extend_from_slice(&head(refusal.kind.status(), refusal.text.len()));
    answers.extend_from_slice(refusal.text.as_bytes());
}

fn head(status: u16, len: usize) -> [u8; HEAD] {
    let mut head = [0; HEAD];
    head[..2].copy_from_slice(&status.to_le_bytes());
    head[4..].copy_from_slice(&u32::try_from(len).unwrap_or(u32::MAX).to_le_bytes());
    head
}
