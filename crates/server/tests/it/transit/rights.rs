//! Who may what with keys.

use super::{Api, data};
use crate::common::Server;
use crate::store::failed;
use serde_json::{Value, json};

const DENIED: &str = "permission denied";

#[test]
fn each_action_needs_its_right_and_nothing_tells_which_keys_exist() {
    let server = Server::start(&[]);
    let mut admin = Api::new(&server);
    for key in ["orders", "other"] {
        admin.post(&format!("transit/keys/{key}"), json!({}));
    }
    let ciphertext = admin.seal("orders", "a");
    let requests = [
        ("POST", "encrypt/KEY", json!({ "plaintext": "" }), "seal"),
        ("POST", "datakey/plaintext/KEY", json!({}), "seal"),
        ("POST", "decrypt/KEY", json!({ "ciphertext": ciphertext }), "open"),
        ("POST", "rewrap/KEY", json!({ "ciphertext": ciphertext }), "rewrap"),
        ("POST", "keys/KEY", json!({}), "manage"),
        ("POST", "keys/KEY/rotate", json!({}), "manage"),
        ("POST", "keys/KEY/config", json!({ "min_decryption_version": 1 }), "manage"),
        ("POST", "keys/KEY/trim", json!({}), "manage"),
        ("DELETE", "keys/KEY", Value::Null, "manage"),
    ];
    for right in ["seal", "open", "rewrap", "manage"] {
        let token = server.token(&[&format!("{right}:orders")]);
        let mut api = Api::by(&server, &token);
        for (method, path, body, needs) in &requests {
            let own = api.call(method, &format!("transit/{}", path.replace("KEY", "orders")), body);
            assert_eq!(own.status != 403, right == *needs, "{right} {path}: {}", own.text());
            for key in ["other", "none"] {
                api.refuses(method, &format!("transit/{}", path.replace("KEY", key)), body, 403, &[DENIED]);
            }
        }
        assert_eq!(api.get("transit/keys/orders")["name"], "orders");
        assert_eq!(data(&api.call("LIST", "transit/keys", &Value::Null)), json!({ "keys": ["orders"] }));
        for key in ["other", "none"] {
            api.refuses("GET", &format!("transit/keys/{key}"), &Value::Null, 403, &[DENIED]);
        }
    }
    // Who may seal and open may rewrap.
    let token = server.token(&["seal:ord*", "open:orders"]);
    data(&Api::by(&server, &token).call("POST", "transit/rewrap/orders", &json!({ "ciphertext": ciphertext })));
}

#[test]
fn a_token_of_one_user_is_for_that_user_only() {
    let server = Server::start(&[]);
    let mut admin = Api::new(&server);
    for (key, derived) in [("users", true), ("plain", false)] {
        admin.post(&format!("transit/keys/{key}"), json!({ "derived": derived }));
    }
    let bobs =
        admin.post("transit/encrypt/users", json!({ "plaintext": "YQ==", "context": "Ym9i" }))["ciphertext"].clone();
    let token = server.token(&["seal:*", "open:*", "manage:users", "user=ada"]);
    let mut ada = Api::by(&server, &token);
    let own =
        ada.post("transit/encrypt/users", json!({ "plaintext": "YQ==", "context": "YWRh" }))["ciphertext"].clone();
    for (path, body) in [
        ("encrypt/users", json!({ "plaintext": "YQ==", "context": "Ym9i" })),
        ("encrypt/plain", json!({ "plaintext": "YQ==" })),
        ("encrypt/users", json!({ "plaintext": "YQ==" })),
        ("decrypt/users", json!({ "ciphertext": bobs, "context": "Ym9i" })),
        ("rewrap/users", json!({ "ciphertext": bobs, "context": "Ym9i" })),
        ("datakey/plaintext/users", json!({ "context": "Ym9i" })),
        ("datakey/wrapped/plain", json!({})),
    ] {
        ada.refuses("POST", &format!("transit/{path}"), &body, 403, &[DENIED]);
    }
    // A key is for all users.
    for (method, path) in [("POST", "keys/users/rotate"), ("POST", "keys/users/config"), ("DELETE", "keys/users")] {
        ada.refuses(method, &format!("transit/{path}"), &Value::Null, 403, &[DENIED]);
    }
    // Whoever may manage it for one user may do nothing to the key.
    let token = server.token(&["manage:users", "user=ada"]);
    let mut bound = Api::by(&server, &token);
    for (method, path) in [
        ("POST", "transit/keys/users/rotate"),
        ("POST", "transit/keys/users/config"),
        ("POST", "transit/keys/users/trim"),
        ("DELETE", "transit/keys/users"),
        ("POST", "transit/keys/new"),
    ] {
        bound.refuses(method, path, &Value::Null, 403, &[DENIED]);
    }
    assert_eq!(server.post_by(&token, "/v2/manage/keys/new", &json!({})).status, 403);
    let answer = bound.call("POST", "sys/capabilities-self", &json!({ "paths": ["transit/keys/users/rotate"] }));
    assert_eq!(answer.json()["data"]["capabilities"], json!(["deny"]));
    // Showing oneself stays.
    let shown = server.post_by(&token, "/v2/manage/users/users", &json!({ "user": "YWRh" }));
    assert_eq!(shown.status, 400, "the key is not shreddable: {}", shown.text());
    let nobody = json!({ "rights": ["manage:users"], "user": "", "ttl": 60 });
    let nobody = server.post("/v2/manage/tokens", &nobody).json()["token"].as_str().expect("a token").to_owned();
    Api::by(&server, &nobody).refuses("POST", "transit/keys/users/rotate", &Value::Null, 403, &[DENIED]);
    // In a batch only the item is refused.
    let items = json!([{ "ciphertext": own, "context": "YWRh" }, { "ciphertext": bobs, "context": "Ym9i" }]);
    let answer = ada.call("POST", "transit/decrypt/users", &json!({ "batch_input": items }));
    let results = answer.json()["data"]["batch_results"].clone();
    let wanted =
        json!([{ "plaintext": "YQ==", "reference": "" }, { "plaintext": "", "error": DENIED, "reference": "" }]);
    assert_eq!((answer.status, results), (400, wanted));
}

#[test]
fn an_administrator_is_not_for_one_user() {
    let server = Server::start(&[]);
    let mut admin = Api::new(&server);
    let why = "admin is for all users: leave out admin or user=";
    for body in [
        json!({ "policies": ["admin", "user=ada"] }),
        json!({ "policies": ["root"], "user": "ada" }),
        json!({ "policies": ["seal:orders", "root"], "meta": { "user": "ada" } }),
        // Without policies it would have the rights of its maker.
        json!({ "meta": { "user": "ada" } }),
    ] {
        admin.refuses("POST", "auth/token/create", &body, 400, &[why]);
        admin.refuses("POST", "auth/token/create-orphan", &body, 400, &[why]);
    }
    let managed = server.post("/v2/manage/tokens", &json!({ "rights": ["admin"], "user": "YWRh", "ttl": 60 }));
    assert_eq!((managed.status, managed.json()["errors"][0].as_str()), (400, Some(why)));
    failed(&server.folder.run(["token", "new", "--allow", "admin,user=ada"]), 2, why);
    failed(&server.folder.run(["run", "--peer", "1000=admin,user=ada"]), 2, why);
    assert_eq!(server.get("/v2/manage/tokens").json()["tokens"], json!([]));
}

#[test]
fn nobody_is_let_in_by_a_wrong_token() {
    let server = Server::start(&["--listen", "127.0.0.1:0"]);
    let address = server.address();
    let ask =
        |headers: &[(&str, &str)], path: &str| crate::common::Client::tcp(&address).request("GET", path, headers, b"");
    for headers in [vec![], vec![("X-Vault-Token", "wrong")], vec![("Authorization", "Bearer wrong")]] {
        for path in ["/v1/transit/keys/k", "/v1/auth/token/lookup-self", "/v1/sys/mounts", "/v1/none"] {
            let answer = ask(&headers, path);
            assert_eq!((answer.status, answer.json()), (403, json!({ "errors": [DENIED] })), "{path}");
        }
        assert_eq!(ask(&headers, "/v1/sys/health").status, 200);
    }
    let token = server.token(&["root"]);
    let bearer = format!("Bearer {token}");
    assert_eq!(ask(&[("Authorization", &bearer)], "/v1/auth/token/lookup-self").json()["data"]["id"], json!(token));
}

#[test]
fn wrapped_answers_and_namespaces_are_refused() {
    let server = Server::start(&[]);
    for (name, value, status) in [
        ("X-Vault-Wrap-TTL", "60s", 400),
        ("X-Vault-Wrap-TTL", "0", 405),
        ("X-Vault-Namespace", "team/", 400),
        ("X-Vault-Namespace", "root", 405),
        ("X-Vault-Namespace", "", 405),
        ("X-Vault-Request", "true", 405),
    ] {
        let answer = server.request("GET", "/v1/transit/random", &[(name, value)], b"");
        assert_eq!(answer.status, status, "{name}: {value}: {}", answer.text());
    }
}
