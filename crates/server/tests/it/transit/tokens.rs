//! `auth/token`.

use super::{Api, enveloped};
use crate::common::{Answer, Server};
use serde_json::{Value, json};

/// The `auth` of an answer that gives a token.
fn auth(answer: &Answer) -> Value {
    assert_eq!(answer.status, 200, "{}", answer.text());
    let envelope = answer.json();
    assert_eq!((&envelope["data"], &envelope["mount_type"]), (&Value::Null, &json!("token")));
    envelope["auth"].clone()
}

fn text(value: &Value) -> &str {
    value.as_str().expect("a text")
}

fn created(api: &mut Api, body: &Value) -> (String, Value) {
    let auth = auth(&api.call("POST", "auth/token/create", body));
    (text(&auth["client_token"]).to_owned(), auth)
}

#[test]
fn a_token_is_made_looked_up_renewed_and_revoked() {
    let server = Server::start(&[]);
    let mut admin = Api::new(&server);
    let (token, made) = created(
        &mut admin,
        &json!({
            "policies": ["seal:orders", "open:log-*", "default"], "ttl": "1h", "meta": { "user": "ada" }, "renewable": true,
            "display_name": "web", "no_default_policy": true
        }),
    );
    let accessor = text(&made["accessor"]).to_owned();
    assert_eq!(
        made,
        json!({
            "client_token": token, "accessor": accessor, "policies": ["seal:orders", "open:log-*"],
            "token_policies": ["seal:orders", "open:log-*"], "metadata": { "user": "ada" }, "lease_duration": 3600, "renewable": true,
            "entity_id": "", "token_type": "service", "orphan": true, "mfa_requirement": null, "num_uses": 0,
        })
    );
    let mut own = Api::by(&server, &token);
    for (method, path) in
        [("GET", "auth/token/lookup-self"), ("POST", "auth/token/lookup-self"), ("GET", "auth/token/lookup")]
    {
        let mut found = enveloped(&own.call(method, path, &Value::Null), &Value::Null, "token");
        for name in ["creation_time", "ttl", "issue_time", "expire_time"] {
            assert!(!found[name].take().is_null(), "{name}");
        }
        assert_eq!(
            found,
            json!({
                "accessor": accessor, "creation_time": null, "creation_ttl": 3600, "display_name": "token", "entity_id": "",
                "expire_time": null, "explicit_max_ttl": 0, "id": token, "issue_time": null, "meta": { "user": "ada" }, "num_uses": 0,
                "orphan": true, "path": "auth/token/create", "policies": ["seal:orders", "open:log-*"], "renewable": true,
                "ttl": null, "type": "service",
            })
        );
    }
    let renewed = auth(&own.call("PUT", "auth/token/renew-self", &json!({ "increment": "10m" })));
    assert_eq!((&renewed["client_token"], &renewed["lease_duration"]), (&json!(token), &json!(600)));
    let renewed = auth(&own.call("POST", "auth/token/renew-self", &json!({ "increment": 999_999 })));
    assert_eq!(renewed["lease_duration"], 3600, "never longer than it was made for");
    let by_accessor = enveloped(
        &admin.call("POST", "auth/token/lookup-accessor", &json!({ "accessor": accessor })),
        &Value::Null,
        "token",
    );
    assert_eq!((&by_accessor["id"], &by_accessor["accessor"]), (&json!(""), &json!(accessor)));

    assert_eq!(own.call("POST", "auth/token/revoke-self", &json!({})).status, 204);
    own.refuses("GET", "auth/token/lookup-self", &Value::Null, 403, &["permission denied"]);
    admin.refuses("POST", "auth/token/lookup", &json!({ "token": token }), 403, &["bad token"]);
}

#[test]
fn rights_are_passed_on_only_within_ones_own() {
    let server = Server::start(&[]);
    let mut admin = Api::new(&server);
    let (parent, _) = created(&mut admin, &json!({ "policies": "seal:log-*,open:orders", "ttl": 3600 }));
    let mut api = Api::by(&server, &parent);
    let subset = "child policies must be subset of parent";
    for policies in [
        json!(["seal:*"]),
        json!(["root"]),
        json!(["admin"]),
        json!(["open:orders*"]),
        json!(["seal:log-1", "manage:log-1"]),
    ] {
        api.refuses("POST", "auth/token/create", &json!({ "policies": policies }), 400, &[subset]);
    }
    // Without policies a child has the rights of its parent, and it never lives longer.
    let answer = api.call("POST", "auth/token/create", &Value::Null);
    let child = auth(&answer);
    assert_eq!(child["policies"], json!(["seal:log-*", "open:orders"]));
    assert!(
        child["lease_duration"].as_u64() <= Some(3600) && text(&answer.json()["warnings"][0]).starts_with("TTL of")
    );
    assert_eq!(child["orphan"], false);
    let (bound, _) = created(&mut api, &json!({ "policies": ["seal:log-1"], "user": "ada" }));
    let mut bound = Api::by(&server, &bound);
    for body in [json!({ "user": "bob" }), json!({ "meta": { "user": "bob" } }), json!({ "policies": ["user=bob"] })] {
        bound.refuses("POST", "auth/token/create", &body, 400, &[subset]);
    }
    let (grandchild, made) = created(&mut bound, &json!({}));
    assert_eq!(made["metadata"], json!({ "user": "ada" }));
    let (nothing, made) = created(&mut api, &json!({ "policies": ["default"] }));
    assert_eq!(made["policies"], json!([]));
    Api::by(&server, &nothing).refuses(
        "POST",
        "transit/encrypt/log-1",
        &json!({ "plaintext": "" }),
        403,
        &["permission denied"],
    );
    for path in ["create", "create-orphan"] {
        let body = json!({ "no_parent": true });
        api.refuses(
            "POST",
            &format!("auth/token/{path}"),
            &body,
            400,
            &["root or sudo privileges required to create orphan token"],
        );
    }
    // Whose parent is revoked is revoked too.
    assert_eq!(admin.call("POST", "auth/token/revoke", &json!({ "token": parent })).status, 204);
    for token in [grandchild, nothing, text(&child["client_token"]).to_owned()] {
        Api::by(&server, &token).refuses("GET", "auth/token/lookup-self", &Value::Null, 403, &["permission denied"]);
    }
}

#[test]
fn tokens_of_others_are_not_ones_own_business() {
    let server = Server::start(&[]);
    let mut admin = Api::new(&server);
    let (one, _) = created(&mut admin, &json!({ "policies": ["seal:a"] }));
    let (other, made) = created(&mut admin, &json!({ "policies": ["seal:a"] }));
    let mut api = Api::by(&server, &one);
    for (path, body) in [
        ("lookup", json!({ "token": other })),
        ("renew", json!({ "token": other })),
        ("revoke", json!({ "token": other })),
        ("lookup-accessor", json!({ "accessor": made["accessor"] })),
        ("revoke-accessor", json!({ "accessor": made["accessor"] })),
        ("revoke-accessor", json!({ "accessor": "none" })),
    ] {
        api.refuses("POST", &format!("auth/token/{path}"), &body, 403, &["permission denied"]);
    }
    let (child, made) = created(&mut api, &json!({}));
    assert_eq!(api.call("POST", "auth/token/renew", &json!({ "token": child })).status, 200);
    assert_eq!(api.call("POST", "auth/token/revoke-accessor", &json!({ "accessor": made["accessor"] })).status, 204);
    assert_eq!(api.call("POST", "auth/token/revoke", &json!({ "token": "unknown" })).status, 204);
    api.refuses("POST", "auth/token/revoke", &json!({}), 400, &["missing token ID"]);
}

#[test]
fn what_no_token_can_be_is_refused() {
    let server = Server::start(&[]);
    let mut admin = Api::new(&server);
    let no_right = |text: &str| {
        format!("{text:?} is not a right: rights are seal:KEY, open:KEY, rewrap:KEY, manage:KEY and admin")
    };
    let cases = [
        (json!({ "policies": ["writer"] }), no_right("writer")),
        (json!({ "policies": ["seal:"] }), no_right("seal:")),
        (json!({ "id": "mine" }), "a token's id of one's own is not supported".into()),
        (json!({ "num_uses": 3 }), "num_uses is not supported".into()),
        (json!({ "explicit_max_ttl": "1h" }), "explicit_max_ttl is not supported".into()),
        (json!({ "type": "batch" }), "a type of token other than service is not supported".into()),
        (json!({ "user": "a", "meta": { "user": "b" } }), "user and meta.user differ".into()),
        (
            json!({ "ttl": "-1s" }),
            "Field validation failed: error converting input for field \"ttl\": cannot provide negative value '-1s'"
                .into(),
        ),
    ];
    for (body, error) in cases {
        admin.refuses("POST", "auth/token/create", &body, 400, &[&error]);
    }
    let (fixed, _) = created(&mut admin, &json!({ "policies": ["root"], "renewable": false }));
    Api::by(&server, &fixed).refuses("POST", "auth/token/renew-self", &json!({}), 400, &["lease is not renewable"]);
    // Who comes by the socket has no token, and all rights.
    let own = enveloped(&admin.call("GET", "auth/token/lookup-self", &Value::Null), &Value::Null, "token");
    assert_eq!((&own["id"], &own["policies"], &own["ttl"]), (&json!(""), &json!(["root"]), &json!(0)));
    admin.refuses("POST", "auth/token/revoke-self", &json!({}), 400, &["the caller has no token"]);
}
