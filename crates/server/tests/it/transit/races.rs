//! Requests that arrive at the same moment: what was acknowledged is what the server then does.

use super::Api;
use crate::common::{Client, Server};
use serde_json::{Value, json};

/// Sends all requests but for their last byte, then the last bytes, and returns the answers.
fn at_once(server: &Server, requests: &[(&str, String, Value)]) -> Vec<(u16, Value)> {
    let mut clients: Vec<(Client, Vec<u8>)> = requests
        .iter()
        .map(|(method, path, body)| {
            let body = body.to_string();
            let head = format!("{method} {path} HTTP/1.1\r\nHost: localhost\r\nContent-Length: {}\r\n\r\n", body.len());
            let mut bytes = [head.as_bytes(), body.as_bytes()].concat();
            let last = bytes.split_off(bytes.len() - 1);
            let mut client = server.client();
            client.raw(&bytes).unwrap();
            (client, last)
        })
        .collect();
    clients.iter_mut().for_each(|(client, last)| client.raw(last).unwrap());
    let answers = clients.iter_mut().map(|(client, _)| client.answer().unwrap());
    answers.map(|answer| (answer.status, serde_json::from_slice(&answer.body).unwrap_or_default())).collect()
}

fn rotate(key: &str) -> (&'static str, String, Value) {
    ("POST", format!("/v1/transit/keys/{key}/rotate"), json!({}))
}

#[test]
fn memory_has_every_version_that_was_acknowledged() {
    let server = Server::start(&[]);
    let mut api = Api::new(&server);
    api.post("transit/keys/k", json!({}));
    for round in 1..=10 {
        let answers = at_once(&server, &[rotate("k"), rotate("k"), rotate("k"), rotate("k"), rotate("k"), rotate("k")]);
        let mut versions: Vec<_> = answers.iter().map(|(_, body)| body["data"]["latest_version"].as_u64()).collect();
        versions.sort_unstable();
        let wanted: Vec<_> = (6 * round - 4..=6 * round + 1).map(Some).collect();
        assert_eq!(versions, wanted);
        assert_eq!(api.get("transit/keys/k")["latest_version"], 6 * round + 1);
    }
}

#[test]
fn a_setting_that_was_acknowledged_holds_whatever_else_is_changed_meanwhile() {
    let server = Server::start(&[]);
    let mut api = Api::new(&server);
    api.post("transit/keys/k", json!({}));
    let old = api.seal("k", "old");
    // Many versions take long to open.
    (0..40).for_each(|_| drop(api.post("transit/keys/k/rotate", json!({}))));
    let config = |body: Value| ("POST", "/v1/transit/keys/k/config".to_owned(), body);
    for round in 0..10 {
        api.post("transit/keys/k/config", json!({ "min_decryption_version": 1 }));
        let mut requests = vec![rotate("k"), config(json!({ "deletion_allowed": true })), rotate("k"), rotate("k")];
        requests.insert(round % 5, config(json!({ "min_decryption_version": 2 })));
        let answers = at_once(&server, &requests);
        assert!(answers.iter().all(|(status, _)| *status == 200), "{answers:?}");
        let opened = api.call("POST", "transit/decrypt/k", &json!({ "ciphertext": old }));
        assert_eq!(opened.status, 400, "{}", opened.text());
    }
}

#[test]
fn a_key_that_is_deleted_is_gone_whatever_else_is_changed_meanwhile() {
    let server = Server::start(&[]);
    let mut api = Api::new(&server);
    for round in 0..15 {
        let key = format!("k{round}");
        api.post(&format!("transit/keys/{key}"), json!({}));
        api.post(&format!("transit/keys/{key}/config"), json!({ "deletion_allowed": true }));
        let delete = ("DELETE", format!("/v1/transit/keys/{key}"), json!({}));
        let requests = [rotate(&key), rotate(&key), rotate(&key), delete, rotate(&key), rotate(&key)];
        assert_eq!(at_once(&server, &requests)[3].0, 204);
        let sealed = api.call("POST", &format!("transit/encrypt/{key}"), &json!({ "plaintext": "" }));
        assert_eq!(sealed.status, 400, "{}", sealed.text());
    }
}
