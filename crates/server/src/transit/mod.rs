//! HTTP as Vault's Transit speaks it: JSON under `/v1`. What differs from Vault is in `docs/server.md`.
//!
//! [`json`] parses bodies as a stream; the endpoints of [`crypt`] decode its texts into a batch, and the others convert
//! fields as loosely as Vault does ([`loose`]). [`envelope`] is what answers are wrapped in.

mod auth;
pub mod base64;
mod crypt;
mod datakey;
mod envelope;
pub mod json;
mod keys;
mod loose;
mod random;
mod request;
mod route;
mod sys;
pub mod text;

pub use route::answer;
pub use sys::open_to_all as sys;

use crate::http::Call;
use crate::refusal::Refusal;
use crate::rights::Action;
use crate::store;

/// Allows an action with a key if the caller may do it for any user at all. Whether the key exists is not told.
fn permit_any_user(call: &Call, action: Action, key: &str) -> Result<(), Refusal> {
    let rights = &call.caller.rights;
    rights.permit(action, key, rights.user.as_deref().unwrap_or(b""))
}

/// Allows the management of a key: it is for all users, so that whoever is bound to one may not do it.
fn permit_managing(call: &Call, key: &str) -> Result<(), Refusal> {
    call.caller.rights.permit_managing(key)
}

/// There is no such key.
fn no_key() -> Refusal {
    Refusal::invalid("encryption key not found")
}

/// The refusal of what Vault has and this server has not.
fn unsupported(what: &str) -> Refusal {
    Refusal::invalid(format!("{what} is not supported"))
}

/// The refusal of a key that was not found, unless the store could not say.
fn or_no_key(refusal: Refusal) -> Refusal {
    or(refusal, no_key)
}

/// Another refusal of what was not found.
fn or(refusal: Refusal, other: impl FnOnce() -> Refusal) -> Refusal {
    if refusal.kind == crate::refusal::Kind::NotFound { other() } else { refusal }
}

/// The answer to the client when the store fails.
fn of_store(error: store::Error) -> Refusal {
    match error {
        store::Error::Refused(refusal) if refusal.kind == crate::refusal::Kind::NotFound => no_key(),
        error => error.told(),
    }
}
