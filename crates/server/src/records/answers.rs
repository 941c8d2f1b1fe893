//! Answers as they lie in a stream: `docs/server-format.md`.
//!
//! ```text
//! u16 status  u16 0  u32 length  bytes
//! ```

use crate::batch::Batch;
use crate::keys::ciphertext;
use crate::refusal::Refusal;
use phalanx_core::engine::Op;

/// The bytes of an answer before its ciphertext, text or reason.
const HEAD: usize = 8;

/// Answers, one after another. They may be texts: what is freed is wiped (see `main.rs`).
#[derive(Default)]
pub struct Answers(Vec<u8>);

impl Answers {
    /// The answers for all records of a batch.
    pub fn to_batch(batch: &Batch) -> Self {
        let mut answers = Self::with_room(len(batch));
        for i in 0..batch.len() {
            match batch.op() {
                Op::Seal => match batch.sealed(i) {
                    Ok(sealed) => answers.done(&[&sealed.version.to_le_bytes(), sealed.ciphertext]),
                    Err(refusal) => answers.refused(refusal),
                },
                Op::Open => match batch.opened(i) {
                    Ok(text) => answers.done(&[text]),
                    Err(refusal) => answers.refused(refusal),
                },
            }
        }
        answers
    }

    /// The same refusal for each of some records.
    pub fn all_refused(count: usize, refusal: &Refusal) -> Self {
        let mut answers = Self::with_room(count * (HEAD + refusal.text.len()));
        (0..count).for_each(|_| answers.refused(refusal));
        answers
    }

    /// Adds the answer that ends a stream.
    pub fn and_last(mut self, refusal: &Refusal) -> Self {
        self.refused(refusal);
        self
    }

    /// The bytes.
    pub fn into_bytes(self) -> Vec<u8> {
        self.0
    }

    fn with_room(len: usize) -> Self {
        Self(Vec::with_capacity(len))
    }

    fn done(&mut self, parts: &[&[u8]]) {
        self.head(0, parts.iter().map(|part| part.len()).sum());
        parts.iter().for_each(|part| self.0.extend_from_slice(part));
    }

    fn refused(&mut self, refusal: &Refusal) {
        self.head(refusal.kind.status(), refusal.text.len());
        self.0.extend_from_slice(refusal.text.as_bytes());
    }

    fn head(&mut self, status: u16, len: usize) {
        self.0.extend_from_slice(&status.to_le_bytes());
        self.0.extend_from_slice(&[0; 2]);
        self.0.extend_from_slice(&u32::try_from(len).unwrap_or(u32::MAX).to_le_bytes());
    }
}

/// The bytes of all answers, so that the buffer never grows, which would leave copies of texts.
fn len(batch: &Batch) -> usize {
    let len = |i: usize| match (batch.refusal(i), batch.op()) {
        (Some(refusal), _) => refusal.text.len(),
        (None, Op::Seal) => batch.sealed(i).map_or(0, |sealed| ciphertext::HEAD - 1 + sealed.ciphertext.len()),
        (None, Op::Open) => batch.opened(i).map_or(0, <[u8]>::len),
    };
    (0..batch.len()).map(|i| HEAD + len(i)).sum()
}
