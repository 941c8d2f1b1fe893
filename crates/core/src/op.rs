//! The two operations.

/// What to do with a job's units.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Op {
    /// Encrypt, and compute the tags.
    Seal,
    /// Check the tags, and decrypt the authentic units.
    Open,
}
