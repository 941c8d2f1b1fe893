//! What can go wrong, in one line each.

use crate::engine::Fault;
use crate::key::KeyId;
use std::io;

/// The result of the core's calls.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Why a call failed. The text is one line, names no secret, and leaves the path to the caller.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The file does not begin as a Phalanx file does.
    #[error("not a Phalanx file")]
    NotPhalanx,
    /// The file is of a format version that this program does not know.
    #[error("Phalanx format version {0} is not known to this program: a newer one may read it")]
    Version(u8),
    /// The header breaks a rule of the format.
    #[error("malformed header: {0}")]
    Header(&'static str),
    /// Deriving the key from a password would cost more than the limit.
    #[error("its password slots ask for more key derivation than the limit allows ({0})")]
    KdfLimit(&'static str),
    /// None of the keys at hand belongs to a slot of the file.
    #[error("no key at hand opens it: it needs {}", wanted(.keys, *.password))]
    NoKey {
        /// The ids of the file's key slots.
        keys: Vec<KeyId>,
        /// Whether a password would open the file.
        password: bool,
    },
    /// A key or password was at hand but does not open the file, or the header was altered.
    #[error("The data may be altered or decrypted with wrong password")]
    WrongKey,
    /// The header was opened, but a chunk is not authentic.
    #[error("The data may be altered or decrypted with wrong password (chunk {0} is not authentic)")]
    Altered(u64),
    /// The file ends where it must not, or goes on where it must end.
    #[error("The data may be altered or decrypted with wrong password (cut short or extended: {0})")]
    Cut(&'static str),
    /// The input could not be read.
    #[error("cannot read: {0}")]
    Read(#[source] io::Error),
    /// The input changed its length while it was read.
    #[error("the input changed while it was read")]
    Changed,
    /// The output could not be written.
    #[error("cannot write: {0}")]
    Write(#[source] io::Error),
    /// The output exists already.
    #[error("exists already (--force overwrites it)")]
    Exists,
    /// A key, a keyring or a password is not usable.
    #[error("{0}")]
    Key(String),
    /// The system's random generator failed.
    #[error("the system's random generator failed: {0}")]
    Random(getrandom::Error),
    /// A message of a batch cannot be what it should be.
    #[error("message {index}: {reason}")]
    Message {
        /// Its place in the batch.
        index: usize,
        /// What is wrong with it.
        reason: &'static str,
    },
    /// An engine failed.
    #[error(transparent)]
    Fault(#[from] Fault),
    /// The caller asked to stop.
    #[error("interrupted")]
    Cancelled,
}

/// The kind of an error, as the exit code tells it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Class {
    /// Not a whole, authentic file for the keys at hand.
    NotAuthentic,
    /// Input or output failed.
    InputOutput,
    /// Anything else.
    Other,
}

impl Error {
    /// The error's kind.
    pub fn class(&self) -> Class {
        match self {
            Error::NotPhalanx
            | Error::Version(_)
            | Error::Header(_)
            | Error::KdfLimit(_)
            | Error::NoKey { .. }
            | Error::WrongKey
            | Error::Altered(_)
            | Error::Cut(_) => Class::NotAuthentic,
            Error::Read(_) | Error::Changed | Error::Write(_) | Error::Exists => Class::InputOutput,
            Error::Key(_) | Error::Random(_) | Error::Message { .. } | Error::Fault(_) | Error::Cancelled => {
                Class::Other
            }
        }
    }
}

fn wanted(keys: &[KeyId], password: bool) -> String {
    let mut ways: Vec<String> = keys.iter().map(|id| format!("key {id}")).collect();
    if password {
        ways.push("a password".into());
    }
    if ways.is_empty() {
        ways.push("a kind of key that this program does not know".into());
    }
    ways.join(" or ")
}
