//! Tokens that end while a request of theirs is under way, and those who were made by them.

use super::Api;
use crate::common::{Client, Server};
use serde_json::{Value, json};

/// A request of which all but the last byte has come.
fn begun(server: &Server, token: &str, path: &str, body: &Value) -> (Client, Vec<u8>) {
    let body = body.to_string();
    let head = format!("POST {path} HTTP/1.1\r\nHost: localhost\r\nX-Vault-Token: {token}\r\n");
    let mut bytes = format!("{head}Content-Length: {}\r\nExpect: 100-continue\r\n\r\n", body.len()).into_bytes();
    let mut client = server.client();
    client.raw(&bytes).unwrap();
    // Who asks is known when the server asks for the body.
    assert_eq!(client.head().unwrap().status, 100);
    bytes = body.into_bytes();
    let last = bytes.split_off(bytes.len() - 1);
    client.raw(&bytes).unwrap();
    (client, last)
}

#[test]
fn a_token_that_was_revoked_before_the_body_came_does_nothing() {
    let server = Server::start(&[]);
    let mut admin = Api::new(&server);
    admin.post("transit/keys/k", json!({}));
    let ciphertext = admin.seal("k", "secret");
    for (path, body) in [
        ("/v1/transit/decrypt/k", json!({ "ciphertext": ciphertext })),
        ("/v1/transit/keys/k/rotate", json!({})),
        ("/v1/auth/token/renew-self", json!({ "increment": 3600 })),
        ("/v1/auth/token/create", json!({ "ttl": "1h" })),
        ("/v2/manage/tokens", json!({ "rights": ["admin"], "ttl": 60 })),
        ("/v2/manage/keys/new", json!({})),
    ] {
        let token = server.token(&["admin"]);
        let (mut client, last) = begun(&server, &token, path, &body);
        assert_eq!(admin.call("POST", "auth/token/revoke", &json!({ "token": token })).status, 204);
        client.raw(&last).unwrap();
        let answer = client.answer().unwrap();
        assert_eq!(answer.status, 403, "{path}: {}", answer.text());
        assert_eq!(server.post_by(&token, "/v1/auth/token/lookup-self", &json!({})).status, 403, "{path}");
    }
    assert_eq!(admin.get("transit/keys/k")["latest_version"], 1);
    assert_eq!(server.get("/v2/manage/tokens").json(), json!({ "tokens": [] }));
}

#[test]
fn a_token_for_longer_than_100_years_is_refused() {
    let server = Server::start(&[]);
    let century = json!({ "errors": ["a token lives for 100 years at most"] });
    for field in ["ttl", "lease", "period"] {
        let answer = server.post("/v1/auth/token/create", &json!({ field: "18446744073709551615" }));
        assert_eq!((answer.status, answer.json()), (400, century.clone()), "{field}");
    }
    let answer = server.post("/v2/manage/tokens", &json!({ "rights": ["seal:a"], "ttl": 1_u64 << 63 }));
    assert_eq!((answer.status, answer.json()), (400, century));
}
