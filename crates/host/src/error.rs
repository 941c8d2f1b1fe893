//! Errors of files and keys on this machine. The text of each is one line.

use phalanx_core::tree::Invalid;
use phalanx_core::{Class, Error as CoreError};
use std::io;

/// The result of this crate's functions.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Why a call failed. The text is one line, reveals no secret, and does not name the path, which the caller knows.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// Protecting or opening failed.
    #[error(transparent)]
    Core(#[from] CoreError),
    /// The file is protected already, and was about to be protected again.
    #[error("protected already")]
    Protected,
    /// The output has its name, but could not be synced.
    #[error("it is written and has its name, but may not be on the disk yet: {0}")]
    Unsynced(#[source] io::Error),
    /// The output exists already.
    #[error("exists already")]
    Exists,
    /// The output would replace its own input.
    #[error("input and output are the same file")]
    SameFile,
    /// Another output of the same run has that name.
    #[error("another output of this run has this name here: nothing was replaced")]
    OwnOutput,
    /// The output's name now leads to another file, so its input was not deleted.
    #[error("its name now leads to another file: the input was not deleted")]
    Displaced,
    /// The input changed while it was being deleted, and its name was taken. It was kept under another name.
    #[error("the input changed meanwhile: it was kept as {0} in its folder")]
    Aside(String),
    /// The file system has no locks, so that two changes of a header in place at once could destroy it.
    #[error("its file system has no locks, which a change in place needs")]
    NoLocks,
    /// It is the URL of an object, and this program was built without stores.
    #[error("this program was built without stores")]
    NoStores,
    /// A change of the ways in was interrupted, and may be why the file does not open.
    #[error("{0}; a change of its keys was interrupted")]
    Interrupted(Box<Error>),
    /// The changed ways in are in their place, but the side file of the change, or its name, may still be there. The
    /// next change of the file removes it.
    #[error("its keys are changed, but the side file of the change may be left: {0}")]
    Uncleared(#[source] Box<Error>),
    /// The manifest of a mirror cannot be read.
    #[error(transparent)]
    Manifest(Invalid),
    /// What this machine remembers of a mirror cannot be read. Nothing is known of the mirror by that.
    #[error("{0}: {1}")]
    Remembered(String, #[source] Box<Error>),
    /// A file of a mirror is not what the mirror's manifest lists in its place.
    #[error("not the content that the manifest lists: {0}")]
    NotListed(&'static str),
    /// The keyring has no key of this name.
    #[error("no key named {0} in the keyring")]
    NoSuchKey(String),
    /// The keyring has a key of this name, but it is locked.
    #[error("the key {0} is locked")]
    KeyLocked(String),
    /// This cannot be the name of a key.
    #[error("not a name for a key{}: it has 1 to 64 letters, digits, '.', '_', '-' and '@', the first a letter or digit", short_name(.0))]
    KeyName(String),
    /// The file of this key does not hold a key.
    #[error("the key {0} is damaged: it does not have 32 bytes")]
    KeyDamaged(String),
    /// A key, or the whole keyring, is refused because others could read or change it.
    #[error(transparent)]
    Refused(#[from] Refused),
}

impl Error {
    /// The input could not be read.
    pub fn read(error: impl Into<io::Error>) -> Self {
        CoreError::Read(error.into()).into()
    }

    /// The output could not be written.
    pub fn write(error: impl Into<io::Error>) -> Self {
        CoreError::Write(error.into()).into()
    }

    /// The kind of the error.
    #[must_use]
    pub fn class(&self) -> Class {
        match self {
            Error::Core(error) => error.class(),
            Error::Interrupted(error) => error.class(),
            Error::Manifest(_) | Error::NotListed(_) => Class::NotAuthentic,
            Error::SameFile | Error::KeyName(_) | Error::NoStores => Class::Argument,
            Error::Protected
            | Error::Unsynced(_)
            | Error::Exists
            | Error::OwnOutput
            | Error::Displaced
            | Error::Aside(_)
            | Error::NoLocks
            | Error::Uncleared(_)
            | Error::NoSuchKey(_)
            | Error::KeyLocked(_)
            | Error::KeyDamaged(_)
            | Error::Remembered(..)
            | Error::Refused(_) => Class::InputOutput,
        }
    }

    /// Whether it happened at the output, if there are an input and an output.
    #[must_use]
    pub fn is_of_output(&self) -> bool {
        matches!(
            self,
            Error::Core(CoreError::Write(_))
                | Error::Unsynced(_)
                | Error::Exists
                | Error::SameFile
                | Error::OwnOutput
                | Error::Displaced
                | Error::NoLocks
        )
    }
}

/// An error of input or output stays what it was. What is not authentic, or changed while it was read, is
/// [`io::ErrorKind::InvalidData`] with the [`Error`] inside.
impl From<Error> for io::Error {
    fn from(error: Error) -> Self {
        match error {
            Error::Core(error) => error.into(),
            error if error.class() == Class::NotAuthentic => io::Error::new(io::ErrorKind::InvalidData, error),
            error => io::Error::other(error),
        }
    }
}

/// The name, unless it is so long that it may be something else, such as the text of a key.
fn short_name(name: &str) -> String {
    if name.len() > 64 { String::new() } else { format!(" ({})", name.escape_debug()) }
}

/// Something that is not used, and why.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{what} is refused because {why}")]
pub struct Refused {
    what: String,
    why: String,
    hint: Option<String>,
}

impl Refused {
    /// A refusal of `what`: “the key work”, “it”.
    #[must_use]
    pub fn new(what: &str, why: impl Into<String>) -> Self {
        Self { what: what.into(), why: why.into(), hint: None }
    }

    /// Adds the command that fixes it.
    #[must_use]
    pub fn mended_by(self, command: String) -> Self {
        Self { hint: Some(command), ..self }
    }

    /// The command that fixes it, if there is one.
    #[must_use]
    pub fn hint(&self) -> Option<&str> {
        self.hint.as_deref()
    }
}
