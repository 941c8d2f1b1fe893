//! `sys`.

use super::Api;
use crate::common::Server;
use serde_json::{Value, json};

#[test]
fn anybody_learns_that_it_serves() {
    let server = Server::start(&["--listen", "127.0.0.1:0"]);
    let address = server.address();
    let ask = |method: &str, path: &str| {
        crate::common::Client::tcp(&address).request(method, &format!("/v1/sys/{path}"), &[], b"")
    };
    let mut health = ask("GET", "health").json();
    assert!(health["server_time_utc"].take().as_u64() > Some(1_700_000_000));
    let version = health["version"].take();
    assert!(version.as_str().expect("a version").starts_with("1.21.4+phalanx."), "{version}");
    assert_eq!(
        health,
        json!({
            "initialized": true, "sealed": false, "standby": false, "performance_standby": false,
            "replication_performance_mode": "disabled", "replication_dr_mode": "disabled", "server_time_utc": null, "version": null,
            "enterprise": false, "cluster_name": "phalanx-server", "cluster_id": "", "echo_duration_ms": 0, "clock_skew_ms": 0,
            "replication_primary_canary_age_ms": 0,
        })
    );
    for (path, status) in [
        ("health", 200),
        ("health?activecode=204", 400),
        ("health?activecode=205", 400),
        ("health?activecode=304", 400),
        ("health?activecode=299&sealedcode=298", 299),
        ("health?sealedcode=299", 200),
        ("health?uninitcode=x", 400),
        ("health?activecode=99", 400),
        ("health?activecode=1000", 400),
    ] {
        assert_eq!((ask("GET", path).status, ask("HEAD", path).status), (status, status), "{path}");
    }
    let status = ask("GET", "seal-status").json();
    assert_eq!(
        (&status["sealed"], &status["initialized"], &status["t"], &status["version"]),
        (&json!(false), &json!(true), &json!(1), &version)
    );
    assert_eq!(ask("GET", "leader").json()["ha_enabled"], false);
    assert_eq!(ask("GET", "init").json(), json!({ "initialized": true }));
    assert_eq!(ask("GET", "mounts").status, 403);
}

#[test]
fn mounts_are_fixed() {
    let server = Server::start(&[]);
    let mut api = Api::new(&server);
    let mounts = api.call("GET", "sys/mounts", &Value::Null).json();
    for path in ["transit/", "token/"] {
        assert_eq!(mounts[path]["type"], path.trim_end_matches('/'));
        assert_eq!(mounts[path], mounts["data"][path]);
    }
    api.refuses(
        "POST",
        "sys/mounts/transit",
        &json!({ "type": "transit" }),
        400,
        &["path is already in use at transit/"],
    );
    api.refuses("POST", "sys/mounts/kv", &json!({}), 400, &["there is only transit/, and nothing else can be mounted"]);
}

#[test]
fn a_caller_learns_its_capabilities() {
    let server = Server::start(&[]);
    let mut admin = Api::new(&server);
    let answer = admin.call("POST", "sys/capabilities-self", &json!({ "paths": ["transit/keys/a"] })).json();
    assert_eq!((&answer["capabilities"], &answer["data"]["transit/keys/a"]), (&json!(["root"]), &json!(["root"])));
    let token = server.token(&["seal:a"]);
    let mut api = Api::by(&server, &token);
    let paths = json!(["transit/encrypt/a", "transit/decrypt/a", "transit/keys/a", "transit/keys/b", "secret/x"]);
    let answer = api.call("POST", "sys/capabilities-self", &json!({ "paths": paths })).json();
    assert_eq!(
        answer["data"],
        json!({
            "transit/encrypt/a": ["update"], "transit/decrypt/a": ["deny"], "transit/keys/a": ["read"], "transit/keys/b": ["deny"],
            "secret/x": ["deny"],
        })
    );
    api.refuses("POST", "sys/capabilities-self", &json!({}), 400, &["paths must be supplied"]);
}
