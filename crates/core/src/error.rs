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
    /// The file is protected already, and was about to be protected again.
    #[error("protected already")]
    Protected,
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
    #[error("damaged in chunk {chunk}{}", if *.last { ", its last: or else truncated or extended there" } else { "" })]
    Altered {
        /// Its number, from 0.
        chunk: u64,
        /// Whether it is where the file's last chunk should be.
        last: bool,
    },
    /// The file ends where it must not.
    #[error("truncated: {0}")]
    Truncated(&'static str),
    /// The file goes on where it must end.
    #[error("bytes after the end: {0}")]
    Extended(&'static str),
    /// The input could not be read.
    #[error("cannot read: {0}")]
    Read(#[source] io::Error),
    /// The input changed its length while it was read.
    #[error("the input changed while it was read")]
    Changed,
    /// The output could not be written.
    #[error("cannot write: {0}")]
    Write(#[source] io::Error),
    /// The output could not be synced after it had got its name.
    #[error("it is written and has its name, but may not be on the disk yet: {0}")]
    Unsynced(#[source] io::Error),
    /// The output exists already.
    #[error("exists already")]
    Exists,
    /// Another output of the same run has that name.
    #[error("another output of this run has this name here: nothing was replaced")]
    OwnOutput,
    /// The output's name leads to another file by now, so its input was not deleted.
    #[error("its name leads to another file by now: the input was not deleted")]
    Displaced,
    /// The input changed while it was about to be deleted, and its name was taken: it was kept under another one.
    #[error("the input changed meanwhile: it was kept as {0} in its folder")]
    Aside(String),
    /// There is not enough memory.
    #[error("not enough memory: {0}")]
    Memory(String),
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
            | Error::Altered { .. }
            | Error::Truncated(_)
            | Error::Extended(_) => Class::NotAuthentic,
            Error::Read(_)
            | Error::Changed
            | Error::Write(_)
            | Error::Unsynced(_)
            | Error::Exists
            | Error::Protected
            | Error::OwnOutput
            | Error::Displaced
            | Error::Aside(_) => Class::InputOutput,
            Error::Memory(_)
            | Error::Key(_)
            | Error::Random(_)
            | Error::Message { .. }
            | Error::Fault(_)
            | Error::Cancelled => Class::Other,
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
