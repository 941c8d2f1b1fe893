//! `keys`: making, reading, listing, rotating, configuring, trimming and deleting them.

use super::envelope::{self, Mount};
use super::json::{self, Fields};
use super::{of_store, request, unsupported};
use crate::caller::Caller;
use crate::http::Call;
use crate::http::body::Body;
use crate::keys::types::{suite_of, type_of};
use crate::keys::{Config, Key, NewKey};
use crate::refusal::{Kind, Refusal};
use crate::server::Server;
use hyper::Response;
use phalanx_core::Suite;
use serde_json::{Map, Value, json};
use std::sync::Arc;
use std::time::Duration;

/// So often, and after such a pause, a key that others may be making is looked for.
const TRIES: usize = 50;
const PAUSE: Duration = Duration::from_millis(100);

const NEW: &[&str] = &[
    "type",
    "mode",
    "derived",
    "convergent_encryption",
    "exportable",
    "allow_plaintext_backup",
    "auto_rotate_period",
    "key_size",
    "context",
];

const CONFIG: &[&str] = &[
    "min_decryption_version",
    "min_encryption_version",
    "deletion_allowed",
    "exportable",
    "allow_plaintext_backup",
    "auto_rotate_period",
];

/// Makes a key, or answers with the one that exists.
///
/// # Errors
/// Why it is refused.
pub async fn create(call: &mut Call, name: &str) -> Result<Response<Body>, Refusal> {
    super::permit_managing(call, name)?;
    let body = request::small(call).await?;
    let fields = json::read(&body.bytes, NEW)?;
    let new = new_key(&fields)?;
    let shreddable = new.shreddable;
    let (key, is_new) = call.server.create_key(&call.caller.by(), name, new).await.map_err(of_store)?;
    let mut warnings = fields.warnings(&["name"]);
    if !is_new {
        let asks_for_mode = fields.string("mode")?.is_some_and(|mode| !mode.is_empty());
        if asks_for_mode && shreddable != key.record.shreddable {
            return Err(Refusal::invalid(format!("key {name} already exists, with another mode")));
        }
        warnings.push(format!("key {name} already existed"));
    }
    Ok(envelope::data(call, &described(&key), &warnings, Mount::Transit))
}

fn new_key(fields: &Fields<'_>) -> Result<NewKey, Refusal> {
    refuse_what_never_is(fields)?;
    if fields.bool("convergent_encryption")? == Some(true) {
        return Err(unsupported("convergent encryption"));
    }
    let suite = suite(fields)?;
    if fields.int("key_size")?.unwrap_or(0) != 0 {
        return Err(Refusal::invalid(format!("key_size is not valid for algorithm {}", type_of(suite))));
    }
    let mode = fields.string("mode")?;
    let shreddable = match mode.as_deref().unwrap_or("") {
        "" | "derived" => false,
        "shreddable" => true,
        _ => return Err(Refusal::invalid("unknown mode: it is derived or shreddable")),
    };
    Ok(NewKey { suite, shreddable, needs_user: shreddable || fields.bool("derived")?.unwrap_or(false) })
}

/// The suite of the field `type`.
fn suite(fields: &Fields<'_>) -> Result<Suite, Refusal> {
    let name = fields.string("type")?;
    let name = name.as_deref().unwrap_or("");
    if name.is_empty() {
        return Ok(Suite::Aes256CtrSha3);
    }
    let shown: String = name.chars().filter(|c| !c.is_control()).take(40).collect();
    suite_of(name).ok_or_else(|| Refusal::invalid(format!("unknown key type {shown}")))
}

/// Refuses what this server does with no key.
fn refuse_what_never_is(fields: &Fields<'_>) -> Result<(), Refusal> {
    if fields.bool("exportable")? == Some(true) {
        return Err(unsupported("exportable: true"));
    }
    if fields.bool("allow_plaintext_backup")? == Some(true) {
        return Err(unsupported("allow_plaintext_backup: true"));
    }
    if fields.duration("auto_rotate_period")?.unwrap_or(0) != 0 {
        return Err(unsupported("auto_rotate_period"));
    }
    Ok(())
}

/// Makes the key for which `encrypt` was asked, if the server does that and the caller may. As in Vault it needs a context
/// from then on if this request has one.
///
/// # Errors
/// If there shall be no key.
pub async fn create_to_encrypt(
    server: &Arc<Server>,
    caller: &Caller,
    name: &str,
    body: &[u8],
) -> Result<Arc<Key>, Refusal> {
    if caller.rights.permit_managing(name).is_err() || !server.creates_keys {
        return Err(super::no_key());
    }
    const KNOWN: &[&str] = &["context", "type", "convergent_encryption"];
    let mut has_context = false;
    let fields = json::read_batch(body, KNOWN, server.limits.json_items, |item| {
        has_context |= item.number == 0 && item.string("context")?.is_some_and(|text| !text.is_empty());
        Ok(())
    })?;
    if fields.bool("convergent_encryption")? == Some(true) {
        return Err(unsupported("convergent encryption"));
    }
    if fields.items.is_none() {
        has_context = fields.string("context")?.is_some_and(|text| !text.is_empty());
    }
    let new = NewKey { suite: suite(&fields)?, shreddable: false, needs_user: has_context };
    for _ in 0..TRIES {
        match server.create_key(&caller.by(), name, new).await.map(|(key, _)| key).map_err(of_store) {
            Err(refusal) if refusal.kind == Kind::Busy => tokio::time::sleep(PAUSE).await,
            done => return done,
        }
        // Many first requests for a key come at once, and one of them makes it.
        if let Ok(key) = server.find_key(name).await {
            return Ok(key);
        }
    }
    server.find_key(name).await.map_err(|_| Refusal::new(Kind::Busy, "too many changes wait"))
}

/// Describes a key.
///
/// # Errors
/// If the caller has no right on it, or there is none.
pub async fn read(call: &mut Call, name: &str) -> Result<Response<Body>, Refusal> {
    if !call.caller.rights.knows(name) {
        return Err(Refusal::denied());
    }
    let key = call.server.find_key(name).await.map_err(|refusal| super::or(refusal, envelope::absent))?;
    Ok(envelope::data(call, &described(&key), &[], Mount::Transit))
}

/// Lists the keys that the caller knows, as OpenBao does after a name and up to a number.
///
/// # Errors
/// If there is none, or the limit is no number.
pub fn list(call: &Call) -> Result<Response<Body>, Refusal> {
    let after = call.query("after").unwrap_or("");
    let limit = match call.query("limit").unwrap_or("") {
        "" | "-1" | "0" => usize::MAX,
        text => text.parse().map_err(|_| Refusal::invalid("the limit is not a number"))?,
    };
    let all = call.server.keys.all();
    let names = all.iter().map(|key| key.record.name.as_str());
    let known = names.filter(|name| *name > after && call.caller.rights.knows(name)).take(limit);
    let names: Vec<&str> = known.collect();
    if names.is_empty() {
        return Err(envelope::absent());
    }
    Ok(envelope::data(call, &json!({ "keys": names }), &[], Mount::Transit))
}

/// Adds a version.
///
/// # Errors
/// Why it is refused.
pub async fn rotate(call: &mut Call, name: &str) -> Result<Response<Body>, Refusal> {
    super::permit_managing(call, name)?;
    let body = request::small(call).await?;
    let fields = json::read(&body.bytes, &[])?;
    call.server.find_key(name).await.map_err(|refusal| super::or(refusal, || Refusal::invalid("key not found")))?;
    let key = call.server.rotate_key(&call.caller.by(), name).await.map_err(of_store)?;
    Ok(envelope::data(call, &described(&key), &fields.warnings(&["name"]), Mount::Transit))
}

/// Changes what a key allows.
///
/// # Errors
/// Why it is refused.
pub async fn configure(call: &mut Call, name: &str) -> Result<Response<Body>, Refusal> {
    super::permit_managing(call, name)?;
    let body = request::small(call).await?;
    let fields = json::read(&body.bytes, CONFIG)?;
    let absent = || Refusal::invalid(format!("no existing key named {name} could be found"));
    let latest = call.server.find_key(name).await.map_err(|refusal| super::or(refusal, absent))?.latest();
    let mut warnings = fields.warnings(&["name"]);
    // Spring Vault sends null for what is not to be changed, and Vault takes that for 0.
    let opens = version(&fields, "min_decryption_version", "decryption", latest)?;
    if opens == Some(0) {
        warnings.push("since Vault 0.3, transit key numbering starts at 1; forcing minimum to 1".into());
    }
    let seals = version(&fields, "min_encryption_version", "encryption", latest)?;
    refuse_what_never_is(&fields)?;
    let deletion_allowed = if is_null(&fields, "deletion_allowed") { None } else { fields.bool("deletion_allowed")? };
    let config = Config { min_decryption: opens, min_encryption: seals, deletion_allowed };
    let key = call.server.configure_key(&call.caller.by(), name, config).await.map_err(of_store)?;
    Ok(envelope::data(call, &described(&key), &warnings, Mount::Transit))
}

fn is_null(fields: &Fields<'_>, name: &str) -> bool {
    matches!(fields.get(name), Some(super::text::Raw::Null))
}

/// A version in a field. Null leaves it as it is.
fn version(fields: &Fields<'_>, name: &str, what: &str, latest: u32) -> Result<Option<u32>, Refusal> {
    if is_null(fields, name) {
        return Ok(None);
    }
    let Some(number) = fields.int(name)? else { return Ok(None) };
    if number < 0 {
        return Err(Refusal::invalid(format!("min {what} version cannot be negative")));
    }
    let too_new =
        || Refusal::invalid(format!("cannot set min {what} version of {number}, latest key version is {latest}"));
    u32::try_from(number).map(Some).map_err(|_| too_new())
}

/// Destroys old versions.
///
/// # Errors
/// Why it is refused.
pub async fn trim(call: &mut Call, name: &str) -> Result<Response<Body>, Refusal> {
    super::permit_managing(call, name)?;
    let body = request::small(call).await?;
    let fields = json::read(&body.bytes, &["min_available_version"])?;
    call.server.find_key(name).await.map_err(|refusal| super::or(refusal, || Refusal::invalid("invalid key name")))?;
    let wanted =
        fields.int("min_available_version")?.ok_or_else(|| Refusal::invalid("missing min_available_version"))?;
    if wanted < 0 {
        return Err(Refusal::invalid("minimum available version cannot be decremented"));
    }
    // No version is newer than the largest number.
    let key = call
        .server
        .trim_key(&call.caller.by(), name, u32::try_from(wanted).unwrap_or(u32::MAX))
        .await
        .map_err(of_store)?;
    Ok(envelope::data(call, &described(&key), &fields.warnings(&["name"]), Mount::Transit))
}

/// Destroys a key.
///
/// # Errors
/// Why it is refused.
pub async fn delete(call: &mut Call, name: &str) -> Result<Response<Body>, Refusal> {
    super::permit_managing(call, name)?;
    let blamed = |error: Refusal| match error.kind {
        crate::refusal::Kind::Invalid => Refusal::invalid(format!("error deleting policy {name}: {}", error.text)),
        _ => error,
    };
    call.server.delete_key(&call.caller.by(), name).await.map_err(|error| blamed(of_store(error)))?;
    Ok(envelope::nothing())
}

/// What `read` says of a key.
fn described(key: &Key) -> Value {
    let record = &key.record;
    let opens = |number: &u32| *number >= record.min_decryption;
    let versions = record.versions.iter().filter(|version| opens(&version.number));
    let versions: Map<String, Value> =
        versions.map(|version| (version.number.to_string(), version.created.into())).collect();
    let mut data = json!({
        "allow_plaintext_backup": false,
        "auto_rotate_period": 0,
        "deletion_allowed": record.deletion_allowed,
        "derived": record.needs_user,
        "exportable": false,
        "imported_key": false,
        "keys": versions,
        "latest_version": key.latest(),
        "min_available_version": record.min_available,
        "min_decryption_version": record.min_decryption,
        "min_encryption_version": record.min_encryption,
        "mode": if record.shreddable { "shreddable" } else { "derived" },
        "name": record.name,
        "supports_decryption": true,
        "supports_derivation": true,
        "supports_encryption": true,
        "supports_signing": false,
        "type": type_of(key.suite),
    });
    if record.needs_user {
        data["kdf"] = "kmac256".into();
        data["convergent_encryption"] = false.into();
    }
    data
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rights::Rights;
    use crate::server::tests::Bench;

    /// More than may wait for a change.
    #[tokio::test]
    async fn many_first_requests_for_a_key_get_it() {
        let mut bench = Bench::new(false).await;
        Arc::get_mut(&mut bench.server).unwrap().creates_keys = true;
        let rights = Arc::new(Rights::parse(["manage:orders", "seal:orders"], None).unwrap());
        let caller = Caller { name: "a".into(), account: "a".into(), rights, token: None };
        let held = bench.server.keys.changing().await;
        let asked: Vec<_> = (0..100)
            .map(|_| {
                let (server, caller) = (bench.server.clone(), caller.clone());
                tokio::spawn(
                    async move { create_to_encrypt(&server, &caller, "orders", br#"{"plaintext":"YQ=="}"#).await },
                )
            })
            .collect();
        while bench.server.keys.changes.count() < crate::changes::MOST {
            tokio::task::yield_now().await;
        }
        drop(held);
        for asked in asked {
            asked.await.unwrap().unwrap();
        }
    }
}
