//! Keys, with what Transit does not say of them.

use super::{done, read};
use crate::http::Call;
use crate::http::body::Body;
use crate::keys::{Key, NewKey, check_name};
use crate::refusal::Refusal;
use crate::store::Error;
use hyper::Response;
use phalanx_core::Suite;
use phalanx_host::args::Cipher;
use serde::Deserialize;
use serde_json::{Value, json};
use std::sync::Arc;

/// The suite of a type: a name of Phalanx, or Transit's name for AES-256-GCM.
///
/// # Errors
/// A line that names all of them.
fn suite_of(text: &str) -> Result<Suite, Refusal> {
    let text = if text == "aes256-gcm96" { "aes-256-gcm" } else { text };
    let found = Cipher::ALL.into_iter().find(|cipher| cipher.name() == text);
    let names: Vec<_> = Cipher::ALL.iter().map(|cipher| cipher.name()).collect();
    found.map(Into::into).ok_or_else(|| Refusal::invalid(format!("the type of a key is one of {}", names.join(", "))))
}

fn type_of(suite: Suite) -> &'static str {
    Cipher::ALL.into_iter().find(|cipher| Suite::from(*cipher) == suite).map_or("", Cipher::name)
}

fn shown(key: &Key) -> Value {
    let record = &key.record;
    json!({
        "name": record.name,
        "type": type_of(key.suite),
        "mode": if record.shreddable { "shreddable" } else { "derived" },
        "needs_user": record.needs_user,
        "latest_version": key.latest(),
        "min_decryption_version": record.min_decryption,
        "min_encryption_version": record.min_encryption,
        "min_available_version": record.min_available,
        "deletion_allowed": record.deletion_allowed,
    })
}

pub(super) async fn list(call: &mut Call) -> Result<Response<Body>, Refusal> {
    call.note.action = "list";
    let knows = |key: &Arc<Key>| call.caller.rights.knows(&key.record.name);
    let keys: Vec<Value> = call.server.keys.all().iter().filter(|key| knows(key)).map(|key| shown(key)).collect();
    done(&json!({ "keys": keys }))
}

pub(super) async fn read_one(call: &mut Call, name: &str) -> Result<Response<Body>, Refusal> {
    call.note.action = "read";
    name.clone_into(&mut call.note.key);
    if !call.caller.rights.knows(name) {
        return Err(Refusal::denied());
    }
    let key = call.server.keys.get(name)?;
    let mut value = shown(&key);
    if key.record.shreddable {
        value["users"] = call.server.users.count(&key).await.map_err(Error::told)?.into();
    }
    done(&value)
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct New {
    #[serde(default)]
    mode: Mode,
    r#type: Option<String>,
    #[serde(default = "yes")]
    needs_user: bool,
}

#[derive(Clone, Copy, Default, Deserialize, PartialEq)]
#[serde(rename_all = "lowercase")]
enum Mode {
    #[default]
    Derived,
    Shreddable,
}

fn yes() -> bool {
    true
}

pub(super) async fn create(call: &mut Call, name: &str) -> Result<Response<Body>, Refusal> {
    call.note.action = "create";
    name.clone_into(&mut call.note.key);
    call.caller.rights.permit_managing(name)?;
    check_name(name)?;
    let new: New = read(call).await?;
    let shreddable = new.mode == Mode::Shreddable;
    if shreddable && !new.needs_user {
        return Err(Refusal::invalid("a shreddable key needs a user in every request"));
    }
    let suite = new.r#type.as_deref().map_or(Ok(Suite::default()), suite_of)?;
    let new = NewKey { suite, shreddable, needs_user: new.needs_user };
    let (key, is_new) = call.server.create_key(name, new).await.map_err(Error::told)?;
    if !is_new {
        return Err(Refusal::invalid(format!("there is a key {name} already")));
    }
    done(&shown(&key))
}
