//! Why a request, or one of its items, is refused.

use std::borrow::Cow;
use std::fmt;

/// A refusal: the kind decides the status of HTTP, and the text is for the caller. It never holds a secret.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// The kind.
    pub kind: Kind,
    /// One line for the caller.
    pub text: Cow<'static, str>,
}

/// The kind of a refusal.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Kind {
    /// The request is wrong.
    Invalid,
    /// The caller may not do it.
    Denied,
    /// There is no such thing.
    NotFound,
    /// This path has no such method.
    Method,
    /// The request is longer than it may be.
    TooLarge,
    /// The client was too slow.
    Timeout,
    /// There is too much to do now, and the client may ask again.
    Busy,
    /// Something of the server itself failed, such as its disk.
    Failed,
    /// The server cannot serve now, such as without its audit log.
    Unavailable,
}

impl Kind {
    /// The status of HTTP.
    pub fn status(self) -> u16 {
        match self {
            Kind::Invalid => 400,
            Kind::Denied => 403,
            Kind::NotFound => 404,
            Kind::Method => 405,
            Kind::Timeout => 408,
            Kind::TooLarge => 413,
            Kind::Busy => 429,
            Kind::Failed => 500,
            Kind::Unavailable => 503,
        }
    }
}

impl Refusal {
    /// A refusal of this kind.
    pub fn new(kind: Kind, text: impl Into<Cow<'static, str>>) -> Self {
        Self { kind, text: text.into() }
    }

    /// The request is wrong.
    pub fn invalid(text: impl Into<Cow<'static, str>>) -> Self {
        Self::new(Kind::Invalid, text)
    }

    /// There is no such thing.
    pub fn not_found(text: impl Into<Cow<'static, str>>) -> Self {
        Self::new(Kind::NotFound, text)
    }

    /// The caller may not do it.
    pub fn denied() -> Self {
        Self::new(Kind::Denied, "permission denied")
    }

    /// Something of the server itself failed.
    pub fn failed(text: impl Into<Cow<'static, str>>) -> Self {
        Self::new(Kind::Failed, text)
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl std::error::Error for Refusal {}
