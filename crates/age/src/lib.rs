//! Phalanx files for age recipients: age's own keys, SSH keys, and age plugins. And [`signing`]: signatures by SSH keys.
//!
//! - [`Recipient`] is a public key. It becomes a [`phalanx_core::Recipient`], for which files are protected.
//! - [`Identities`] are private keys. They are a [`phalanx_core::KeySource`], which opens files.
//! - [`Outline`] is the part of an age slot that can be read without a key.
//!
//! The crate `age` reads and writes the age files. This crate bounds the input of that crate and the work for it: see
//! `docs/format.md`, section 4. It runs plugins itself, so that no plugin sees a key or a password in its environment,
//! and none runs without a time limit.
//!
//! Anybody can protect a file for a public key. So the sender of a file that an identity opens is unknown.
#![forbid(unsafe_code)]
#![deny(missing_docs)]
#![warn(clippy::missing_errors_doc, clippy::must_use_candidate)]

#[cfg(test)]
mod cctv;
mod file;
mod identity;
mod outline;
mod plugin;
mod point;
mod pq;
pub mod program;
mod recipient;
pub mod signing;
mod ssh;
mod user;

pub use file::catches_panics;
pub use identity::{Identities, IdentityError, MAX_IDENTITIES, new_identity, refused_identities};
pub use outline::{MAX_STANZAS, NotASlot, Outline, Stanza};
pub use plugin::{PLUGIN_TIME, Plugins};
pub use recipient::{Listed, Recipient, RecipientError, is_public, recipients};
pub use user::{Nobody, User};
