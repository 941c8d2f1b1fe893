//! `encrypt`, `decrypt`, `rewrap`, `datakey` and `random`.

use super::{Api, NO_CONTEXT, NOT_AUTHENTIC, data, enveloped};
use crate::common::{Server, base64, from_base64};
use serde_json::{Value, json};

fn with_keys(server: &Server) -> Api {
    let mut api = Api::new(server);
    api.post("transit/keys/plain", json!({}));
    api.post("transit/keys/gcm", json!({ "type": "aes256-gcm96" }));
    api.post("transit/keys/users", json!({ "derived": true }));
    api
}

fn text(value: &Value) -> &str {
    value.as_str().expect("a text")
}

#[test]
fn what_is_sealed_is_opened() {
    let server = Server::start(&[]);
    let mut api = with_keys(&server);
    for key in ["plain", "gcm", "users"] {
        for (method, body) in [
            ("POST", json!({ "plaintext": "aGVsbG8=", "context": "YWRh" })),
            ("PUT", json!({ "plaintext": "", "context": "YWRh", "associated_data": "cm93IDc=" })),
            (
                "POST",
                json!({ "plaintext": base64(vec![7; 70_000]), "context": base64(vec![0; 4096]), "key_version": "1" }),
            ),
            ("POST", json!({ "plaintext": null, "context": "YWRh" })),
        ] {
            let sealed = data(&api.call(method, &format!("transit/encrypt/{key}"), &body));
            assert_eq!(sealed.as_object().map(|fields| fields.len()), Some(2));
            assert_eq!(sealed["key_version"], 1);
            let ciphertext = text(&sealed["ciphertext"]);
            assert!(ciphertext.starts_with("vault:v1:"), "{ciphertext}");
            let mut back = body.clone();
            back["ciphertext"] = json!(ciphertext);
            for name in ["plaintext", "key_version"] {
                back.as_object_mut().expect("an object").remove(name);
            }
            let opened = data(&api.call(method, &format!("transit/decrypt/{key}"), &back));
            assert_eq!(opened, json!({ "plaintext": body["plaintext"].as_str().unwrap_or("") }));
            // Bound to the user, and to the associated data.
            for name in ["context", "associated_data"] {
                let mut other = back.clone();
                other[name] = json!("Ym9i");
                api.refuses("POST", &format!("transit/decrypt/{key}"), &other, 400, &[NOT_AUTHENTIC]);
            }
        }
    }
    let one = api.seal("plain", "a");
    assert_ne!(one, api.seal("plain", "a"), "two ciphertexts of a text differ");
    api.refuses("POST", "transit/decrypt/gcm", &json!({ "ciphertext": one }), 400, &[NOT_AUTHENTIC]);
}

#[test]
fn what_is_wrong_with_a_text_is_said_in_vaults_words() {
    let server = Server::start(&[]);
    let mut api = with_keys(&server);
    let encrypt = [
        ("plain", json!({}), "missing plaintext to encrypt"),
        ("plain", json!({ "plaintext": "%%%" }), "illegal base64 data"),
        ("plain", json!({ "plaintext": "YQ" }), "illegal base64 data"),
        ("plain", json!({ "plaintext": "a-_=" }), "illegal base64 data"),
        ("plain", json!({ "plaintext": "YQ==YQ==" }), "illegal base64 data"),
        ("plain", json!({ "plaintext": 1 }), "illegal base64 data"),
        ("plain", json!({ "plaintext": "", "context": "?" }), "illegal base64 data"),
        ("plain", json!({ "plaintext": "", "associated_data": "?" }), "illegal base64 data"),
        (
            "plain",
            json!({ "plaintext": "", "context": base64(vec![0; 4097]) }),
            "the context is longer than 4096 bytes",
        ),
        ("users", json!({ "plaintext": "" }), NO_CONTEXT),
        ("users", json!({ "plaintext": "", "context": "" }), NO_CONTEXT),
        ("plain", json!({ "plaintext": "", "nonce": "AAAA" }), "provided nonce not allowed for this key"),
        ("plain", json!({ "plaintext": "", "convergent_encryption": true }), "convergent encryption is not supported"),
        ("plain", json!({ "plaintext": "", "padding_scheme": "oaep" }), "padding_scheme is for RSA keys only"),
        (
            "plain",
            json!({ "plaintext": "", "key_version": 2 }),
            "requested version for encryption is higher than the latest key version",
        ),
        (
            "plain",
            json!({ "plaintext": "", "key_version": 1_u64 << 40 }),
            "requested version for encryption is higher than the latest key version",
        ),
        ("plain", json!({ "plaintext": "", "key_version": -1 }), "requested version for encryption is negative"),
        (
            "plain",
            json!({ "plaintext": [] }),
            "Field validation failed: error converting input for field \"plaintext\": '' expected type 'string', got unconvertible type '[]interface {}'",
        ),
        (
            "plain",
            json!({ "plaintext": "", "key_version": 1.5 }),
            "Field validation failed: error converting input for field \"key_version\": cannot parse '' as int: 1.5 is not one",
        ),
        ("plain", json!({ "batch_input": [] }), "missing batch input to process"),
        (
            "plain",
            json!({ "batch_input": "x" }),
            "failed to parse batch input: source data must be an array or slice, got string",
        ),
        (
            "plain",
            json!({ "batch_input": { "plaintext": "" } }),
            "failed to parse batch input: source data must be an array or slice, got map",
        ),
        (
            "plain",
            json!({ "batch_input": [{ "plaintext": "" }, "x"] }),
            "failed to parse batch input: [1] expected a map, got 'string'",
        ),
        (
            "plain",
            json!({ "batch_input": [{}] }),
            "failed to parse batch input: 1 error(s) decoding:\n\n* '[0].plaintext' missing plaintext to encrypt",
        ),
        (
            "plain",
            json!({ "batch_input": [{ "plaintext": "", "key_version": {} }] }),
            "failed to parse batch input: 1 error(s) decoding:\n\n* '[0].key_version' expected type 'int', got unconvertible type 'map[string]interface {}'",
        ),
        (
            "plain",
            json!({ "batch_input": [{ "plaintext": null }] }),
            "failed to parse batch input: 1 error(s) decoding:\n\n* '[0].plaintext' expected type 'string', got unconvertible type 'nil'",
        ),
        (
            "plain",
            json!({ "batch_input": [{ "plaintext": "" }, { "plaintext": "", "reference": 7 }] }),
            "failed to parse batch input: 1 error(s) decoding:\n\n* '[1].reference' expected type 'string', got unconvertible type 'json.Number'",
        ),
    ];
    for (key, body, error) in &encrypt {
        api.refuses("POST", &format!("transit/encrypt/{key}"), body, 400, &[error]);
    }
    let good = api.seal("plain", "x");
    let decrypt = [
        (json!({}), "missing ciphertext to decrypt"),
        (json!({ "ciphertext": "" }), "missing ciphertext to decrypt"),
        (json!({ "ciphertext": null }), "missing ciphertext to decrypt"),
        (json!({ "ciphertext": "garbage" }), "invalid ciphertext: no prefix"),
        (json!({ "ciphertext": good.replace("vault", "Vault") }), "invalid ciphertext: no prefix"),
        (json!({ "ciphertext": "vault:v1" }), "invalid ciphertext: wrong number of fields"),
        (json!({ "ciphertext": "vault:vx:AAAA" }), "invalid ciphertext: version number could not be decoded"),
        (json!({ "ciphertext": "vault:v2:AAAA" }), "invalid ciphertext: version is too new"),
        (json!({ "ciphertext": "vault:v1:!!!!" }), "invalid ciphertext: could not decode base64"),
        (json!({ "ciphertext": "vault:v1:AAAA" }), "invalid ciphertext length"),
        (json!({ "ciphertext": format!("vault:v1:{}", base64([1; 40])) }), NOT_AUTHENTIC),
        (json!({ "ciphertext": good, "associated_data": "AAAA" }), NOT_AUTHENTIC),
    ];
    for (body, error) in &decrypt {
        api.refuses("POST", "transit/decrypt/plain", body, 400, &[error]);
        api.refuses("PUT", "transit/rewrap/plain", body, 400, &[error]);
    }
    let long = json!({ "plaintext": base64(vec![0; (1 << 20) + 1]) });
    api.refuses("POST", "transit/encrypt/plain", &long, 413, &["the text is longer than 1048576 bytes"]);
}

#[test]
fn base64_may_have_ends_of_lines_and_escapes() {
    let server = Server::start(&[]);
    let mut api = with_keys(&server);
    let sealed =
        api.send("POST", "transit/encrypt/plain", br#"{"plaintext":"aGVs\r\nbG8\u003d\n","context":"YW\nRh"}"#);
    let ciphertext = text(&data(&sealed)["ciphertext"]).to_owned();
    // As PHP writes it, and as a shell wraps it.
    let escaped = format!("{}\\n", ciphertext.replace('/', "\\/"));
    let opened = api.send(
        "POST",
        "transit/decrypt/plain",
        format!(r#"{{"ciphertext":"{escaped}","context":"YWRh"}}"#).as_bytes(),
    );
    assert_eq!(data(&opened), json!({ "plaintext": "aGVsbG8=" }));
}

#[test]
fn a_batch_keeps_its_order_and_its_references() {
    let server = Server::start(&[]);
    let mut api = with_keys(&server);
    let items: Vec<Value> = (0..300)
        .map(|i| json!({ "reference": format!("r\u{e9}\"{i}"), "plaintext": base64(vec![i as u8; i]), "context": base64(format!("user {i}")), "other": [{}] }))
        .collect();
    // What a batch has beside it does not count, nor its place.
    let body = json!({ "batch_input": items, "context": "?", "plaintext": null, "key_version": 9 });
    let sealed = api.post("transit/encrypt/users", body);
    let results = sealed["batch_results"].as_array().expect("results");
    assert_eq!(results.len(), items.len());
    let mut back = Vec::new();
    for (item, result) in items.iter().zip(results) {
        let ciphertext = text(&result["ciphertext"]);
        assert_eq!(*result, json!({ "ciphertext": ciphertext, "key_version": 1, "reference": item["reference"] }));
        back.push(
            json!({ "ciphertext": ciphertext, "context": item["context"], "associated_data": null, "nonce": "" }),
        );
    }
    let opened = api.post("transit/decrypt/users", json!({ "ciphertext": null, "batch_input": back }));
    let wanted: Vec<Value> =
        items.iter().map(|item| json!({ "plaintext": item["plaintext"], "reference": "" })).collect();
    assert_eq!(opened, json!({ "batch_results": wanted }));
}

#[test]
fn a_batch_that_fails_in_part_answers_with_all_results() {
    let server = Server::start(&[]);
    let mut api = with_keys(&server);
    let sealed =
        api.post("transit/encrypt/users", json!({ "plaintext": "YQ==", "context": "YWRh" }))["ciphertext"].clone();
    let good = json!({ "ciphertext": sealed, "context": "YWRh", "reference": "good" });
    let bad = json!({ "ciphertext": sealed, "context": "Ym9i", "reference": "bad" });
    let none = json!({ "ciphertext": "" });
    let results = json!({ "batch_results": [
        { "plaintext": "YQ==", "reference": "good" },
        { "plaintext": "", "error": NOT_AUTHENTIC, "reference": "bad" },
        { "plaintext": "", "error": "missing ciphertext to decrypt", "reference": "" },
    ]});
    let reverting = "invalid HTTP response code override from partial_failure_response_code, reverting to 400";
    for (code, status, warnings) in [
        (Value::Null, 400, Value::Null),
        (json!(200), 200, Value::Null),
        (json!("202"), 202, Value::Null),
        (json!(1000), 400, json!([reverting])),
        (json!(204), 400, json!([reverting])),
        (json!(205), 400, json!([reverting])),
        (json!(304), 400, json!([reverting])),
        (json!(0), 400, Value::Null),
    ] {
        let body = json!({ "partial_failure_response_code": code, "batch_input": [good, bad, none] });
        let answer = api.call("POST", "transit/decrypt/users", &body);
        assert_eq!(answer.status, status, "{}", answer.text());
        assert_eq!(enveloped(&answer, &warnings, if status == 200 { "transit" } else { "" }), results);
    }
    // Where all fail, the code does not count.
    let body = json!({ "partial_failure_response_code": 200, "batch_input": [bad] });
    assert_eq!(api.call("POST", "transit/decrypt/users", &body).status, 400);
    // Unlike in Vault, an item without context fails alone.
    let body = json!({ "batch_input": [{ "plaintext": "YQ==" }, { "plaintext": "YQ==", "context": "YWRh", "key_version": "1" }] });
    let answer = api.call("POST", "transit/encrypt/users", &body);
    let results = answer.json()["data"]["batch_results"].clone();
    assert_eq!((answer.status, &results[0]), (400, &json!({ "error": NO_CONTEXT, "reference": "" })));
    assert_eq!(results[1]["key_version"], 1);
    // Rewrapping answers 200 whatever fails.
    let answer = api.call("POST", "transit/rewrap/users", &json!({ "batch_input": [good, bad] }));
    let results = data(&answer)["batch_results"].clone();
    assert_eq!(results[1], json!({ "error": NOT_AUTHENTIC, "reference": "bad" }));
    assert_eq!((&results[0]["reference"], &results[0]["key_version"]), (&json!("good"), &json!(1)));
}

#[test]
fn rewrapping_seals_under_the_newest_version_or_another_one() {
    let server = Server::start(&[]);
    let mut api = with_keys(&server);
    let body = json!({ "plaintext": "YQ==", "context": "YWRh", "associated_data": "cm93" });
    let old = api.post("transit/encrypt/users", body)["ciphertext"].clone();
    for _ in 0..2 {
        api.post("transit/keys/users/rotate", Value::Null);
    }
    let item = |version: Value| json!({ "ciphertext": old, "context": "YWRh", "associated_data": "cm93", "key_version": version });
    for (version, wanted) in [(Value::Null, 3), (json!(0), 3), (json!(2), 2), (json!("1"), 1)] {
        let single = api.post("transit/rewrap/users", item(version.clone()));
        let batch =
            api.post("transit/rewrap/users", json!({ "batch_input": [item(version)] }))["batch_results"][0].clone();
        for new in [single, batch] {
            assert_eq!(new["key_version"], wanted);
            assert!(text(&new["ciphertext"]).starts_with(&format!("vault:v{wanted}:")));
            let back = json!({ "ciphertext": new["ciphertext"], "context": "YWRh", "associated_data": "cm93" });
            assert_eq!(api.post("transit/decrypt/users", back), json!({ "plaintext": "YQ==" }));
        }
    }
    let error = "requested version for encryption is higher than the latest key version";
    api.refuses("POST", "transit/rewrap/users", &item(json!(4)), 400, &[error]);
}

#[test]
fn a_data_key_is_given_sealed_and_in_plain() {
    let server = Server::start(&[]);
    let mut api = with_keys(&server);
    for (bits, bytes) in [(Value::Null, 32), (json!(128), 16), (json!("256"), 32), (json!(512), 64)] {
        let mut body = json!({ "context": "YWRh", "associated_data": "cm93" });
        if !bits.is_null() {
            body["bits"] = bits;
        }
        let made = api.post("transit/datakey/plaintext/users", body);
        assert_eq!(from_base64(text(&made["plaintext"])).len(), bytes);
        let back = json!({ "ciphertext": made["ciphertext"], "context": "YWRh", "associated_data": "cm93" });
        assert_eq!(api.post("transit/decrypt/users", back), json!({ "plaintext": made["plaintext"] }));
    }
    let wrapped = api.post("transit/datakey/wrapped/plain", Value::Null);
    assert_eq!(
        wrapped.as_object().map(|fields| fields.keys().cloned().collect()),
        Some(vec!["ciphertext".to_owned(), "key_version".to_owned()])
    );
    let cases = [
        ("plaintext/plain", json!({ "bits": 100 }), "invalid bit length"),
        ("plaintext/plain", json!({ "bits": null }), "invalid bit length"),
        ("plaintext/plain", json!({ "context": "?" }), "failed to base64-decode context"),
        ("other/plain", json!({}), "Invalid path, must be 'plaintext' or 'wrapped'"),
        ("plaintext/users", json!({}), NO_CONTEXT),
        (
            "plaintext/plain",
            json!({ "key_version": 2 }),
            "requested version for encryption is higher than the latest key version",
        ),
        ("plaintext/plain", json!({ "nonce": "AAAA" }), "provided nonce not allowed for this key"),
    ];
    for (path, body, error) in cases {
        api.refuses("POST", &format!("transit/datakey/{path}"), &body, 400, &[error]);
    }
}

#[test]
fn random_bytes_come_in_two_forms() {
    let server = Server::start(&[]);
    let mut api = Api::new(&server);
    for (path, body, len) in [
        ("random", Value::Null, 32),
        ("random", json!({ "bytes": "5" }), 5),
        ("random/7", json!({ "bytes": 3 }), 7),
        ("random/all", json!({ "bytes": 3 }), 3),
        ("random/platform/131072", json!({}), 131_072),
    ] {
        let random = api.post(&format!("transit/{path}"), body);
        assert_eq!(from_base64(text(&random["random_bytes"])).len(), len, "{path}");
    }
    let hex = api.post("transit/random/20", json!({ "format": "hex" }));
    let hex = text(&hex["random_bytes"]);
    assert!(hex.len() == 40 && hex.bytes().all(|digit| b"0123456789abcdef".contains(&digit)), "{hex}");
    let answer = api.call("POST", "transit/random/seal", &json!({}));
    enveloped(&answer, &json!(["no seal/entropy augmentation available, using platform entropy source"]), "transit");
    enveloped(&api.call("POST", "sys/tools/random/8", &json!({})), &Value::Null, "system");
    let cases = [
        ("random", json!({ "bytes": 0 }), "\"bytes\" cannot be less than 1"),
        ("random/131073", json!({}), "\"bytes\" should be less than 131072"),
        ("random", json!({ "format": "x" }), "unsupported encoding format \"x\"; must be \"hex\" or \"base64\""),
        ("random/x", json!({}), "error parsing url-set byte count: strconv.Atoi: parsing \"x\": invalid syntax"),
        ("random/x/8", json!({}), "unsupported entropy source \"x\"; must be \"platform\" or \"seal\", or \"all\""),
    ];
    for (path, body, error) in cases {
        api.refuses("POST", &format!("transit/{path}"), &body, 400, &[error]);
    }
}

#[test]
fn encrypting_makes_a_key_only_if_the_server_and_the_rights_say_so() {
    let server = Server::start(&["--create-keys"]);
    let mut api = Api::new(&server);
    let batch = |contexts: [Value; 2]| json!({ "batch_input": contexts.map(|context| json!({ "context": context, "plaintext": "YQ==" })) });
    for (name, body, derived, kind) in [
        ("a", json!({ "plaintext": "YQ==" }), false, "aes256-ctr-sha3"),
        ("b", json!({ "context": "YWRh", "plaintext": "YQ==", "type": "aes256-gcm96" }), true, "aes256-gcm96"),
        ("c", batch([json!("YWRh"), json!("Ym9i")]), true, "aes256-ctr-sha3"),
        ("d", batch([Value::Null, json!("")]), false, "aes256-ctr-sha3"),
    ] {
        data(&api.call("POST", &format!("transit/encrypt/{name}"), &body));
        let key = api.get(&format!("transit/keys/{name}"));
        assert_eq!((&key["derived"], &key["type"]), (&json!(derived), &json!(kind)), "{name}");
    }
    let cases = [
        (json!({ "plaintext": "", "type": "ed25519" }), "unknown key type ed25519"),
        (json!({ "plaintext": "", "convergent_encryption": true }), "convergent encryption is not supported"),
    ];
    for (body, error) in cases {
        api.refuses("POST", "transit/encrypt/z", &body, 400, &[error]);
    }
    assert_eq!(api.get("transit/config/keys"), json!({ "disable_upsert": false }));
    let token = server.token(&["seal:*"]);
    let mut sealer = Api::by(&server, &token);
    sealer.refuses("POST", "transit/encrypt/e", &json!({ "plaintext": "" }), 400, &["encryption key not found"]);
    let token = server.token(&["seal:*", "manage:e*"]);
    data(&Api::by(&server, &token).call("POST", "transit/encrypt/e", &json!({ "plaintext": "" })));
}
