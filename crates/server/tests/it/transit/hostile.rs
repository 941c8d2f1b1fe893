//! Bodies that a hostile client sends.

use super::{Api, data};
use crate::common::Server;
use serde_json::json;

#[test]
fn json_that_is_none_is_refused() {
    let server = Server::start(&[]);
    let mut api = Api::new(&server);
    api.post("transit/keys/k", json!({}));
    let deep = |open: &str, close: &str, many: usize| [open.repeat(many), close.repeat(many)].concat();
    let (arrays, objects) = (deep("[", "]", 100_000), deep(r#"{"a":"#, "}", 100_000).replace(":}", ":1}"));
    let bodies: Vec<Vec<u8>> = vec![
        b"{".to_vec(),
        b"{\"plaintext\":\"".to_vec(),
        b"{\"plaintext\":\"YQ==\"".to_vec(),
        b"{\"plaintext\":\"YQ==\"}x".to_vec(),
        b"{\"plaintext\":\"YQ==\"}{}".to_vec(),
        b"{\"plaintext\" \"YQ==\"}".to_vec(),
        b"{'plaintext':'YQ=='}".to_vec(),
        b"{\"plaintext\":\"\xff\"}".to_vec(),
        b"{\"plaintext\":\"\xed\xa0\x80\"}".to_vec(),
        b"\xef\xbb\xbf{\"plaintext\":\"\"}".to_vec(),
        b"{\"plaintext\":\"a\nb\"}".to_vec(),
        b"{\"plaintext\":\"\\x\"}".to_vec(),
        b"{\"plaintext\":\"\\u12\"}".to_vec(),
        b"{\"plaintext\":nul}".to_vec(),
        b"{\"plaintext\":\"YQ==\",\"plaintext\":\"Yg==\"}".to_vec(),
        b"{\"plaintext\":\"YQ==\",\"\\u0070laintext\":\"Yg==\"}".to_vec(),
        b"{\"plaintext\":\"\",\"other\":1,\"other\":2}".to_vec(),
        b"{\"plaintext\":\"\",\"other\":1e999}".to_vec(),
        b"{\"plaintext\":\"\",\"other\":00}".to_vec(),
        b"{\"batch_input\":[{\"plaintext\":\"\"}],\"batch_input\":[{\"plaintext\":\"\"}]}".to_vec(),
        b"{\"batch_input\":[{\"plaintext\":\"\",\"context\":\"YQ==\",\"context\":\"Yg==\"}]}".to_vec(),
        b"{\"batch_input\":[{\"plaintext\":\"\"},]}".to_vec(),
        b"{\"batch_input\":[{\"plaintext\":\"\"}".to_vec(),
        b"[]".to_vec(),
        b"\"plaintext\"".to_vec(),
        b"7".to_vec(),
        b"true".to_vec(),
        arrays.clone().into_bytes(),
        format!("{{\"plaintext\":\"\",\"other\":{arrays}}}").into_bytes(),
        format!("{{\"plaintext\":\"\",\"other\":{objects}}}").into_bytes(),
        format!("{{\"batch_input\":{arrays}}}").into_bytes(),
        format!("{{\"batch_input\":[{{\"plaintext\":\"\",\"other\":{objects}}}]}}").into_bytes(),
        format!("{{\"plaintext\":{arrays}}}").into_bytes(),
        format!("{{\"plaintext\":\"\",\"key_version\":{}}}", "9".repeat(100_000)).into_bytes(),
        format!("{{\"plaintext\":\"\",{}\"z\":0}}", (0..200).map(|i| format!("\"f{i}\":0,")).collect::<String>())
            .into_bytes(),
    ];
    for body in bodies {
        let answer = api.send("POST", "transit/encrypt/k", &body);
        let shown = String::from_utf8_lossy(&body).chars().take(80).collect::<String>();
        assert_eq!(answer.status, 400, "{shown}: {}", answer.text());
        assert_eq!(answer.json()["errors"].as_array().map(Vec::len), Some(1), "{shown}");
        assert!(answer.body.len() < 300, "{shown}: {}", answer.text());
    }
    assert_eq!(data(&api.send("POST", "transit/encrypt/k", b" {\"plaintext\" : \"\" } \n"))["key_version"], 1);
}

#[test]
fn the_words_for_bad_json_are_known_to_clients() {
    let server = Server::start(&[]);
    let mut api = Api::new(&server);
    api.post("transit/keys/k", json!({}));
    let go = "error parsing JSON: failed to parse JSON input: json: cannot unmarshal";
    let into = "into Go value of type map[string]interface {}";
    for (body, error) in [
        ("[1]", format!("{go} array {into}")),
        ("\"a secret\"", format!("{go} string {into}")),
        (r#"{"plaintext":"","plaintext":""}"#, "error parsing JSON: duplicate key 'plaintext' in object".to_owned()),
        ("{", "error parsing JSON: EOF while parsing an object at line 1 column 1".to_owned()),
        ("", "missing plaintext to encrypt".to_owned()),
        (" \n", "missing plaintext to encrypt".to_owned()),
        ("null", "missing plaintext to encrypt".to_owned()),
    ] {
        let answer = api.send("POST", "transit/encrypt/k", body.as_bytes());
        assert_eq!((answer.status, answer.json()), (400, json!({ "errors": [error] })), "{body}");
    }
}

#[test]
fn there_are_bounds_of_items_and_bytes() {
    let server = Server::start(&[]);
    let mut api = Api::new(&server);
    api.post("transit/keys/k", json!({}));
    let batch = |many: usize| format!("{{\"batch_input\":[{}]}}", vec!["{\"plaintext\":\"\"}"; many].join(","));
    let sealed = data(&api.send("POST", "transit/encrypt/k", batch(10_000).as_bytes()));
    assert_eq!(sealed["batch_results"].as_array().map(Vec::len), Some(10_000));
    let answer = api.send("POST", "transit/encrypt/k", batch(10_001).as_bytes());
    assert_eq!(
        (answer.status, answer.json()),
        (400, json!({ "errors": ["JSON array exceeds allowed element count"] }))
    );
    // What has no batch is short.
    let long = format!("{{\"type\":\"{}\"}}", "a".repeat(300 << 10));
    assert_eq!(Api::new(&server).send("POST", "transit/keys/k2", long.as_bytes()).status, 413);
    for (many, status) in [(64, 200), (65, 400)] {
        let policies: Vec<_> = (0..many).map(|number| format!("seal:{number}")).collect();
        let many = json!({ "policies": policies, "meta": { "user": "ada" } });
        assert_eq!(api.call("POST", "auth/token/create", &many).status, status);
    }
    let twice = json!({ "policies": vec!["seal:a"; 65] });
    assert_eq!(api.call("POST", "auth/token/create", &twice).json()["auth"]["policies"], json!(["seal:a"]));
}

#[test]
fn texts_are_nowhere_but_in_the_answer() {
    let server = Server::start(&[]);
    let mut api = Api::new(&server);
    api.post("transit/keys/k", json!({}));
    // Not in the words of an error either.
    for body in [
        "{\"plaintext\":{\"c2VjcmV0\":1}}",
        "{\"plaintext\":\"c2VjcmV0!\"}",
        "{\"plaintext\":\"c2VjcmV0\" oops",
        "\"c2VjcmV0\"",
    ] {
        let answer = api.send("POST", "transit/encrypt/k", body.as_bytes());
        assert!(answer.status == 400 && !answer.text().contains("c2VjcmV0"), "{}", answer.text());
    }
}
