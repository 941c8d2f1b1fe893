//! What the commands ask for and Vault's Transit has not: JSON under `/v2/manage`. See `docs/server.md`.
//!
//! ```text
//! GET  keys             all keys that the caller may use
//! GET  keys/NAME        one of them
//! POST keys/NAME        makes it: {"mode", "type", "needs_user"}
//! POST users/NAME       whether a key has a user: {"user"} in base64
//! POST shred/NAME       deletes a user for ever: {"user"}
//! GET  tokens           all tokens
//! POST tokens           makes one: {"rights", "user", "ttl", "renewable", "name"}
//! POST revoke           ends one: {"accessor"} or {"token"}
//! POST check            opens every secret of the store
//! POST backup           sends a copy of the store and the root key
//! ```

pub mod backup;
mod check;
mod keys;
mod tokens;
mod users;

use crate::http::body::{self, Body};
use crate::http::{Call, json};
use crate::keys::Key;
use crate::refusal::{Kind, Refusal};
use crate::server::Server;
use hyper::{Method, Response};
use serde::de::DeserializeOwned;
use std::sync::Arc;

/// The most bytes of a body. A user's name in base64 is the longest thing in one.
const LONGEST: usize = 64 << 10;

/// Answers a request under `/v2/manage` of a known caller.
///
/// # Errors
/// Why it is refused.
pub async fn answer(call: &mut Call) -> Result<Response<Body>, Refusal> {
    let path = call.path.clone();
    let parts: Vec<&str> = path.iter().map(String::as_str).skip(1).collect();
    let reads = call.method == Method::GET;
    if !reads && call.method != Method::POST && call.method != Method::PUT {
        return Err(Refusal::new(Kind::Method, "unsupported operation"));
    }
    match (reads, parts.as_slice()) {
        (true, ["keys"]) => keys::list(call).await,
        (true, ["keys", name]) => keys::read_one(call, name).await,
        (false, ["keys", name]) => keys::create(call, name).await,
        (false, ["users", name]) => users::show(call, name).await,
        (false, ["shred", name]) => users::shred(call, name).await,
        (true, ["tokens"]) => tokens::list(call),
        (false, ["tokens"]) => tokens::create(call).await,
        (false, ["revoke"]) => tokens::revoke(call).await,
        (false, ["check"]) => check::run(call).await,
        (false, ["backup"]) => backup::run(call).await,
        _ => Err(Refusal::new(Kind::NotFound, "unsupported path")),
    }
}

/// Reads the body of a request.
async fn read<T: DeserializeOwned>(call: &mut Call) -> Result<T, Refusal> {
    let body = std::mem::replace(&mut call.body, body::empty());
    let whole = body::whole(&call.server, &call.share, body, LONGEST).await?;
    call.caller.check(&call.server)?;
    // What serde says may repeat what is in the body, which the client knows.
    serde_json::from_slice(&whole.bytes).map_err(|e| Refusal::invalid(format!("error parsing JSON: {e}")))
}

/// The key of this name.
async fn key(server: &Server, name: &str) -> Result<Arc<Key>, Refusal> {
    // Vault's words for it are for clients of Vault.
    let not_found = |refusal: Refusal| match refusal.kind {
        Kind::NotFound => Refusal::not_found(format!("no key {name}")),
        _ => refusal,
    };
    server.find_key(name).await.map_err(not_found)
}

/// Refuses callers who may not do everything.
fn admins_only(call: &Call) -> Result<(), Refusal> {
    if call.caller.rights.is_admin() { Ok(()) } else { Err(Refusal::denied()) }
}

fn done(value: &serde_json::Value) -> Result<Response<Body>, Refusal> {
    Ok(json(200, value))
}
