//! Keys, with what Transit does not say of them.

use super::{done, read};
use crate::http::Call;
use crate::http::body::Body;
use crate::keys::types::{self, suite_of, type_of};
use crate::keys::{Key, NewKey, check_name};
use crate::refusal::Refusal;
use crate::store::{Error, VersionRecord};
use hyper::Response;
use phalanx_core::Suite;
use serde::Deserialize;
use serde_json::{Value, json};
use std::sync::Arc;

/// The suite of a type.
///
/// # Errors
/// A line that names all of them.
fn suite(text: &str) -> Result<Suite, Refusal> {
    suite_of(text).ok_or_else(|| {
        let wanted = types::parse(text).err().unwrap_or_default();
        Refusal::invalid(format!("the type of a key is {wanted}"))
    })
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

/// The versions, with when they were made.
fn versions(key: &Key) -> Value {
    let shown = |version: &VersionRecord| json!({ "version": version.number, "created": version.created });
    key.record.versions.iter().map(shown).collect()
}

pub(super) async fn list(call: &mut Call) -> Result<Response<Body>, Refusal> {
    call.note.action = "key-list";
    let knows = |key: &Arc<Key>| call.caller.rights.knows(&key.record.name);
    let keys: Vec<Value> = call.server.keys.all().iter().filter(|key| knows(key)).map(|key| shown(key)).collect();
    done(&json!({ "keys": keys }))
}

pub(super) async fn read_one(call: &mut Call, name: &str) -> Result<Response<Body>, Refusal> {
    call.note.action = "key-read";
    name.clone_into(&mut call.note.key);
    if !call.caller.rights.knows(name) {
        return Err(Refusal::denied());
    }
    call.server.be_latest().await?;
    let key = super::key(&call.server, name).await?;
    let mut value = shown(&key);
    value["versions"] = versions(&key);
    // Counting takes the store's time.
    if key.record.shreddable && call.caller.rights.permit_managing(name).is_ok() {
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
    call.note.action = "key-new";
    name.clone_into(&mut call.note.key);
    call.caller.rights.permit_managing(name)?;
    check_name(name)?;
    let new: New = read(call).await?;
    let shreddable = new.mode == Mode::Shreddable;
    if shreddable && !new.needs_user {
        return Err(Refusal::invalid("a shreddable key needs a user in every request"));
    }
    let suite = new.r#type.as_deref().map_or(Ok(Suite::default()), suite)?;
    let new = NewKey { suite, shreddable, needs_user: new.needs_user };
    let (key, is_new) = call.server.create_key(&call.caller.by(), name, new).await.map_err(Error::told)?;
    if !is_new {
        return Err(Refusal::invalid(format!("there is a key {name} already")));
    }
    done(&shown(&key))
}
