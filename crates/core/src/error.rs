//! Errors. The text of each is one line.

use crate::keys::id::KeyId;
use std::io;

/// The result of this crate's functions.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Why a call failed. The text is one line, reveals no secret, and does not name the path, which the caller knows.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The file does not begin like a Phalanx file.
    #[error("not a Phalanx file")]
    NotPhalanx,
    /// The file has a format version that this program does not know.
    #[error("Phalanx format version {0} is not known to this program: a newer one may read it")]
    Version(u8),
    /// The header breaks a rule of the format.
    #[error("malformed header: {0}")]
    Header(&'static str),
    /// The file is the config of a volume, which has no content of its own.
    #[error("it is the config of a volume, not a file")]
    Volume,
    /// Deriving the key from a password would cost more than the limit.
    #[error("its password slots ask for more key derivation than the limit allows ({0})")]
    KdfLimit(&'static str),
    /// None of the given keys belongs to a slot of the file.
    #[error("no key at hand opens it: it needs {}", wanted(.keys, *.identity, .services, *.password))]
    NoKey {
        /// The ids of the file's key slots.
        keys: Vec<KeyId>,
        /// Whether the file has age recipients, and no identity at hand opens it.
        identity: bool,
        /// The URIs of the file's key services that did not open it. The writer of the file chose them.
        services: Box<[String]>,
        /// Whether a password would open the file.
        password: bool,
    },
    /// A key or password was given but does not open the file, or the header was altered.
    #[error("wrong key or password, or the header is damaged")]
    WrongKey,
    /// The header was opened, but a chunk is not authentic.
    #[error("damaged in chunk {chunk}{}", if *.last { ", the last one, or truncated or extended there" } else { "" })]
    Altered {
        /// The number of the chunk, from 0.
        chunk: u64,
        /// Whether it is in the place of the file's last chunk: the file may then also be cut or extended there.
        last: bool,
    },
    /// The file ends too early.
    #[error("truncated: {0}")]
    Truncated(&'static str),
    /// The file continues after its end.
    #[error("bytes after the end: {0}")]
    Extended(&'static str),
    /// The input could not be read.
    #[error("cannot read: {0}")]
    Read(#[source] io::Error),
    /// The input changed while it was read, or gave another number of bytes than was asked for.
    #[error("the input changed while it was read")]
    Changed,
    /// The output could not be written.
    #[error("cannot write: {0}")]
    Write(#[source] io::Error),
    /// There is not enough memory.
    #[error("not enough memory: {0}")]
    Memory(String),
    /// A key's text cannot be read.
    #[error(transparent)]
    KeyText(#[from] Unreadable),
    /// No given key opens the file, and some that might open it are refused or cannot be read.
    #[error("{}; {}", unopened(.keys, *.identity, .services, *.password, *.tried), .refused.join("; "))]
    KeysRefused {
        /// The ids of the file's key slots for which no key was found.
        keys: Vec<KeyId>,
        /// Whether the file has age recipients, and no identity at hand opens it.
        identity: bool,
        /// The URIs of the file's key services that did not open it. The writer of the file chose them.
        services: Box<[String]>,
        /// Whether a password would open the file.
        password: bool,
        /// Whether another key or a password was tried and does not open the file.
        tried: bool,
        /// For each refused key, which one it is and why.
        refused: Vec<String>,
        /// The command that mends the first of them for which there is one.
        remedy: Option<String>,
    },
    /// A file cannot be protected for this age recipient or key service.
    #[error("cannot protect for {}: {reason}", brief(.recipient))]
    Recipient {
        /// Its canonical text, or its URI.
        recipient: String,
        /// What failed, in one line.
        reason: String,
    },
    /// The number of recipients is not allowed.
    #[error("a file has 1 to 64 keys, not {0}")]
    KeyCount(usize),
    /// A file cannot have more passwords than the format allows.
    #[error("a file has at most 4 passwords")]
    TooManyPasswords,
    /// The slots of the file would make its header too long.
    #[error("too many recipients: a header has at most 65536 bytes, and these need {0}")]
    HeaderLen(usize),
    /// A header that is changed in place keeps its length, and the ways in do not fit into it.
    #[error("its header has no room for these keys and passwords")]
    HeaderRoom,
    /// As far as the keys at hand can tell, nothing would open the file any more.
    #[error("no way in would be left that is known to work")]
    LastWay,
    /// The header has no slot of this [number](crate::format::Header::slots), or it is padding.
    #[error("it has no slot {0} to remove")]
    NoSuchSlot(usize),
    /// A slot is to be removed by its number, which was seen before an interrupted change was finished.
    #[error("an interrupted change was finished just now, so its slots may have other numbers: none was removed")]
    Renumbered,
    /// The way in with this [number](crate::format::Header::slots) cannot be carried over to a new file key, because its
    /// key or password is not at hand.
    #[error("slot {0} cannot be kept under a new file key: what opens it is not at hand")]
    NotAtHand(usize),
    /// There is not enough memory to derive a key from a password.
    #[error("not enough memory: Argon2 needs {0} KiB")]
    KdfMemory(u32),
    /// The system's random generator failed.
    #[error("the system's random generator failed: {0}")]
    Random(getrandom::Error),
    /// Messages of a batch are not authentic. They are wiped, and all others are opened.
    #[error("not authentic: {} of the messages (the first is message {})", .failed.len(), .failed.first().unwrap_or(&0))]
    NotAuthentic {
        /// Their indices in the batch, in ascending order.
        failed: Vec<usize>,
    },
    /// A message of a batch is invalid.
    #[error("message {index}: {reason}")]
    Message {
        /// Its index in the batch.
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

/// An engine could not run a job. The job's input is unchanged. If another engine can continue, this one is not used
/// again.
#[derive(Clone, Debug, thiserror::Error)]
#[error("engine {engine} failed: {reason}")]
pub struct Fault {
    /// The engine's name.
    pub engine: String,
    /// What happened, in one line.
    pub reason: String,
}

/// Why a key's text cannot be read. No message repeats the text.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Unreadable {
    /// It does not begin like a key's text.
    #[error("not a key's text: it does not begin with phalanx-key-1")]
    Prefix,
    /// It has too few or too many characters.
    #[error("the key's text has {0} characters after phalanx-key-1 instead of 60")]
    Length(usize),
    /// It has a character that no key's text has.
    #[error("a character of the key's text is not one of A to Z and 2 to 7 (character {0} after phalanx-key-1)")]
    Character(usize),
    /// The checksum does not match.
    #[error("a character of the key's text is wrong: the checksum does not fit")]
    Checksum,
}

/// The kind of an error, which determines the exit code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Class {
    /// Not a complete, authentic file for the given keys.
    NotAuthentic,
    /// Input or output failed.
    InputOutput,
    /// The caller asked for something impossible.
    Argument,
    /// Anything else.
    Other,
}

impl Error {
    /// The kind of the error.
    #[must_use]
    pub fn class(&self) -> Class {
        match self {
            Error::NotPhalanx
            | Error::Version(_)
            | Error::Header(_)
            | Error::KdfLimit(_)
            | Error::NoKey { .. }
            | Error::KeysRefused { .. }
            | Error::WrongKey
            | Error::NotAuthentic { .. }
            | Error::Volume
            | Error::Altered { .. }
            | Error::Truncated(_)
            | Error::Extended(_) => Class::NotAuthentic,
            Error::Read(_) | Error::Changed | Error::Write(_) | Error::KeyText(_) => Class::InputOutput,
            Error::Memory(_)
            | Error::Random(_)
            | Error::Message { .. }
            | Error::Fault(_)
            | Error::KdfMemory(_)
            | Error::Recipient { .. }
            | Error::Cancelled => Class::Other,
            Error::KeyCount(_)
            | Error::TooManyPasswords
            | Error::HeaderLen(_)
            | Error::HeaderRoom
            | Error::Renumbered
            | Error::LastWay
            | Error::NoSuchSlot(_)
            | Error::NotAtHand(_) => Class::Argument,
        }
    }
}

/// An error of input or output is passed on as it is. If data are not authentic, or changed while they were read, the
/// kind is [`io::ErrorKind::InvalidData`] with the [`Error`] inside.
impl From<Error> for io::Error {
    fn from(error: Error) -> Self {
        let kind = match (error.class(), &error) {
            (Class::NotAuthentic, _) | (_, Error::Changed) => io::ErrorKind::InvalidData,
            (_, Error::Memory(_) | Error::KdfMemory(_)) => io::ErrorKind::OutOfMemory,
            _ => io::ErrorKind::Other,
        };
        match error {
            Error::Read(e) | Error::Write(e) => e,
            error => io::Error::new(kind, error),
        }
    }
}

fn wanted(keys: &[KeyId], identity: bool, services: &[String], password: bool) -> String {
    let mut ways: Vec<String> = keys.iter().map(|id| format!("key {id}")).collect();
    if identity {
        ways.push("the identity of one of its age recipients".into());
    }
    ways.extend(services.iter().map(|uri| format!("the key service {}", brief(uri))));
    if password {
        ways.push("a password".into());
    }
    if ways.is_empty() {
        ways.push("a kind of key that this program does not know".into());
    }
    ways.join(" or ")
}

fn unopened(keys: &[KeyId], identity: bool, services: &[String], password: bool, tried: bool) -> String {
    if tried {
        Error::WrongKey.to_string()
    } else {
        Error::NoKey { keys: keys.to_vec(), identity, services: services.into(), password }.to_string()
    }
}

/// A recipient's text, shortened, because it can have thousands of characters.
fn brief(text: &str) -> String {
    const START: usize = 64;
    match text.split_at_checked(START) {
        Some((start, rest)) if rest.len() > START => format!("{start}…"),
        _ => text.into(),
    }
}
