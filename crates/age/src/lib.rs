//! Phalanx files for age recipients: age's own keys, SSH keys, and age plugins.
//!
//! - [`Recipient`] is a public key. It becomes a [`phalanx_core::Recipient`], for which files are protected.
//! - [`Identities`] are private keys. They are a [`phalanx_core::KeySource`], which opens files.
//! - [`Outline`] tells what an age slot shows without a key.
//!
//! The age files themselves are the work of the crate `age`. This crate bounds what it is given, and what may come of that:
//! `docs/format.md`, section 4, says how. It speaks to plugins itself, so that no plugin sees a key or a password in its
//! environment, and none runs for ever.
//!
//! Anybody can protect a file for a public key. So nothing is known about who wrote a file that an identity opens.
#![forbid(unsafe_code)]
#![deny(missing_docs)]
#![warn(clippy::missing_errors_doc, clippy::must_use_candidate)]

mod file;
mod identity;
mod outline;
mod plugin;
mod recipient;
mod ssh;
mod user;

pub use file::catches_panics;
pub use identity::{Identities, IdentityError, MAX_IDENTITIES};
pub use outline::{MAX_STANZAS, NotASlot, Outline, Stanza};
pub use plugin::{PLUGIN_TIME, Plugins};
pub use recipient::{Listed, Recipient, RecipientError, is_public, recipients};
pub use user::{Nobody, User};
