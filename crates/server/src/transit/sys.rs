//! `sys`: what clients ask of a server before they use it. A part of it anybody may ask.

use super::envelope::{self, Mount};
use super::{json, request};
use crate::http::body::Body;
use crate::http::{Call, json as answer};
use crate::keys::now;
use crate::refusal::{Kind, Refusal};
use crate::rights::{Action, Rights};
use crate::server::Server;
use hyper::Response;
use serde_json::{Map, Value, json};

/// The version of Vault whose Transit this speaks, and of the program.
const VERSION: &str = concat!("1.21.4+phalanx.", env!("CARGO_PKG_VERSION"));

/// Answers what anybody may ask.
pub fn open_to_all(_server: &Server, path: &[&str], query: &[(String, String)]) -> Option<Response<Body>> {
    Some(match path {
        ["health"] => health(query),
        ["seal-status"] => answer(200, &seal_status()),
        ["leader"] => answer(200, &leader()),
        ["init"] => answer(200, &json!({ "initialized": true })),
        _ => return None,
    })
}

/// `health`: this server is never sealed and no standby, so that of the codes in the query only one can apply.
fn health(query: &[(String, String)]) -> Response<Body> {
    const CODES: [&str; 8] = [
        "activecode",
        "standbycode",
        "sealedcode",
        "uninitcode",
        "drsecondarycode",
        "performancestandbycode",
        "haunhealthycode",
        "removedcode",
    ];
    let mut status = 200;
    for (name, value) in query.iter().filter(|(name, _)| CODES.contains(&name.as_str())) {
        // With these there would be an answer without its body, which clients wait for.
        let fits = |code: &u16| (200..600).contains(code) && ![204, 205, 304].contains(code);
        let code = value.parse().ok().filter(fits);
        match code {
            None => return answer(400, &json!({ "errors": [] })),
            Some(code) if name == "activecode" => status = code,
            Some(_) => {}
        }
    }
    let body = json!({
        "initialized": true, "sealed": false, "standby": false, "performance_standby": false,
        "replication_performance_mode": "disabled", "replication_dr_mode": "disabled", "server_time_utc": now(),
        "version": VERSION, "enterprise": false, "cluster_name": "phalanx-server", "cluster_id": "",
        "echo_duration_ms": 0, "clock_skew_ms": 0, "replication_primary_canary_age_ms": 0,
    });
    answer(status, &body)
}

fn seal_status() -> Value {
    json!({
        "type": "phalanx", "initialized": true, "sealed": false, "t": 1, "n": 1, "progress": 0, "nonce": "", "version": VERSION,
        "build_date": "", "migration": false, "cluster_name": "phalanx-server", "cluster_id": "", "recovery_seal": false,
        "storage_type": "phalanx",
    })
}

fn leader() -> Value {
    json!({
        "ha_enabled": false, "is_self": false, "active_time": "0001-01-01T00:00:00Z", "leader_address": "",
        "leader_cluster_address": "", "performance_standby": false, "performance_standby_last_remote_wal": 0,
    })
}

/// `mounts`: what there is under `/v1`. It cannot be changed.
pub fn mounts(call: &Call) -> Response<Body> {
    let mount = |kind: &str, description: &str| {
        json!({
            "accessor": format!("{kind}_phalanx"), "config": {
                "default_lease_ttl": 0, "force_no_cache": false, "max_lease_ttl": 0
            },
            "deprecation_status": "supported", "description": description, "external_entropy_access": false, "local": false,
            "options": null, "plugin_version": "", "running_plugin_version": "", "running_sha256": "", "seal_wrap": false,
            "type": kind, "uuid": "",
        })
    };
    let mounts = [("transit/", mount("transit", "sealing and opening")), ("token/", mount("token", "tokens"))];
    injected(call, mounts.into_iter().map(|(path, mount)| (path.to_owned(), mount)).collect())
}

/// An answer whose data stand beside the envelope's fields too, as Vault does it here.
fn injected(call: &Call, data: Map<String, Value>) -> Response<Body> {
    let mut body = data.clone();
    let envelope = json!({
        "request_id": call.id, "lease_id": "", "renewable": false, "lease_duration": 0, "data": data,
        "wrap_info": null, "warnings": null, "auth": null, "mount_type": "system",
    });
    if let Value::Object(envelope) = envelope {
        body.extend(envelope);
    }
    answer(200, &body)
}

/// Mounting: what there is cannot be mounted again, and nothing else can be mounted.
pub fn mount(path: &str) -> Refusal {
    match path {
        "transit" | "token" | "sys" | "auth" => Refusal::invalid(format!("path is already in use at {path}/")),
        _ => Refusal::invalid("there is only transit/, and nothing else can be mounted"),
    }
}

/// `capabilities-self`: what the caller may do with paths.
///
/// # Errors
/// If the paths are no list.
pub async fn capabilities_self(call: &mut Call) -> Result<Response<Body>, Refusal> {
    let body = request::small(call).await?;
    let fields = json::read(&body.bytes, &["paths", "path"])?;
    let mut paths = fields.list("paths")?.unwrap_or_default();
    paths.extend(fields.list("path")?.unwrap_or_default());
    if paths.is_empty() {
        return Err(Refusal::invalid("paths must be supplied"));
    }
    paths.truncate(1000);
    let mut data = Map::new();
    for path in &paths {
        data.insert(path.clone(), capabilities(&call.caller.rights, path).into());
    }
    if let [only] = paths.as_slice() {
        data.insert("capabilities".into(), capabilities(&call.caller.rights, only).into());
    }
    Ok(injected(call, data))
}

fn capabilities(rights: &Rights, path: &str) -> Vec<&'static str> {
    if rights.is_admin() {
        return vec!["root"];
    }
    let user = rights.user.as_deref().unwrap_or(b"");
    let may = |action, key: &str| rights.permit(action, key, user).is_ok();
    let manages = |key: &str| rights.permit_managing(key).is_ok();
    let parts: Vec<&str> = path.trim_matches('/').split('/').collect();
    let found = match parts.as_slice() {
        ["transit", "encrypt", key] | ["transit", "datakey", _, key] if may(Action::Seal, key) => vec!["update"],
        ["transit", "decrypt", key] if may(Action::Open, key) => vec!["update"],
        ["transit", "rewrap", key] if may(Action::Rewrap, key) => vec!["update"],
        ["transit", "keys"] => vec!["list"],
        ["transit", "keys", key] if manages(key) => vec!["create", "delete", "read", "update"],
        ["transit", "keys", key] if rights.knows(key) => vec!["read"],
        ["transit", "keys", key, "rotate" | "config" | "trim"] if manages(key) => vec!["update"],
        ["transit", "random", ..] | ["sys", "capabilities-self"] => vec!["update"],
        ["auth", "token", "lookup-self"] => vec!["read", "update"],
        ["auth", "token", "renew-self" | "revoke-self" | "create"] => vec!["update"],
        _ => Vec::new(),
    };
    if found.is_empty() { vec!["deny"] } else { found }
}

/// The answer to a method that a path does not have.
pub fn no_method() -> Refusal {
    envelope::listed(Kind::Method, "unsupported operation")
}

/// `internal/ui/mounts/…`: what `vault kv` asks first.
///
/// # Errors
/// As Vault does, for what is not mounted.
pub fn ui_mount(call: &Call, path: &[&str]) -> Result<Response<Body>, Refusal> {
    match path {
        ["transit", ..] => {
            Ok(envelope::data(call, &json!({ "path": "transit/", "type": "transit" }), &[], Mount::System))
        }
        _ => Err(Refusal::new(
            Kind::Denied,
            "preflight capability check returned 403, please ensure client's policies grant access to path",
        )),
    }
}
