//! Keys: their life, and what is refused.

use super::{Api, data, enveloped};
use crate::common::Server;
use serde_json::{Value, json};

/// What `read` says of a key, apart from when its versions were made.
fn described(mut key: Value) -> Value {
    for version in key["keys"].as_object_mut().expect("versions").values_mut() {
        assert!(version.take().as_u64().expect("seconds") > 1_700_000_000);
    }
    key
}

fn key(name: &str, kind: &str) -> Value {
    json!({
        "allow_plaintext_backup": false, "auto_rotate_period": 0, "deletion_allowed": false, "derived": false,
        "exportable": false, "imported_key": false, "keys": { "1": null }, "latest_version": 1, "min_available_version": 0,
        "min_decryption_version": 1, "min_encryption_version": 0, "mode": "derived", "name": name, "supports_decryption": true,
        "supports_derivation": true, "supports_encryption": true, "supports_signing": false, "type": kind,
    })
}

#[test]
fn a_key_is_made_read_and_listed() {
    let server = Server::start(&[]);
    let mut api = Api::new(&server);
    api.refuses("LIST", "transit/keys", &Value::Null, 404, &[]);
    api.refuses("GET", "transit/keys/none", &Value::Null, 404, &[]);
    let cases = [
        ("plain", json!({}), "aes256-ctr-sha3"),
        ("gcm", json!({ "type": "aes256-gcm96" }), "aes256-gcm96"),
        ("k192", json!({ "type": "aes192-ctr-sha3" }), "aes192-ctr-sha3"),
        ("k128", json!({ "type": "aes128-ctr-sha3", "derived": false, "exportable": false }), "aes128-ctr-sha3"),
        (
            "turbo",
            json!({ "type": "aes256-ctr-turboshake", "auto_rotate_period": "0", "key_size": "0" }),
            "aes256-ctr-turboshake",
        ),
    ];
    for (i, (name, body, kind)) in cases.iter().enumerate() {
        let method = if i % 2 == 0 { "POST" } else { "PUT" };
        let made = data(&api.call(method, &format!("transit/keys/{name}"), body));
        assert_eq!(described(made), key(name, kind));
        assert_eq!(described(api.get(&format!("transit/keys/{name}"))), key(name, kind));
    }
    // A key that exists stays as it is.
    let again = api.call("POST", "transit/keys/gcm", &json!({ "type": "aes128-ctr-sha3", "derived": true }));
    let again = enveloped(&again, &json!(["key gcm already existed"]), "transit");
    assert_eq!(described(again), key("gcm", "aes256-gcm96"));
    let shreddable = json!({ "mode": "shreddable" });
    api.refuses("POST", "transit/keys/gcm", &shreddable, 400, &["key gcm already exists, with another mode"]);
    let names = json!({ "keys": ["gcm", "k128", "k192", "plain", "turbo"] });
    for (method, path) in [
        ("LIST", "transit/keys"),
        ("LIST", "transit/keys/"),
        ("GET", "transit/keys?list=true"),
        ("GET", "transit/keys/?list=1"),
    ] {
        assert_eq!(data(&api.call(method, path, &Value::Null)), names, "{method} {path}");
    }
    assert_eq!(
        data(&api.call("GET", "transit/keys?list=true&after=k128&limit=2", &Value::Null)),
        json!({ "keys": ["k192", "plain"] })
    );
    api.refuses("GET", "transit/keys?list=maybe", &Value::Null, 400, &[]);
}

#[test]
fn keys_for_users_have_the_fields_of_derived_ones() {
    let server = Server::start(&[]);
    let mut api = Api::new(&server);
    for (name, body, mode) in [
        ("d", json!({ "derived": "true" }), "derived"),
        ("s", json!({ "mode": "shreddable", "derived": false }), "shreddable"),
    ] {
        let mut wanted = key(name, "aes256-ctr-sha3");
        wanted["derived"] = json!(true);
        wanted["mode"] = json!(mode);
        wanted["kdf"] = json!("kmac256");
        wanted["convergent_encryption"] = json!(false);
        assert_eq!(described(api.post(&format!("transit/keys/{name}"), body)), wanted);
    }
}

#[test]
fn what_no_key_can_be_is_refused() {
    let server = Server::start(&[]);
    let mut api = Api::new(&server);
    let cases = [
        (json!({ "type": "rsa-2048" }), "unknown key type rsa-2048"),
        (json!({ "type": "chacha20-poly1305" }), "unknown key type chacha20-poly1305"),
        (json!({ "convergent_encryption": true, "derived": true }), "convergent encryption is not supported"),
        (json!({ "exportable": "1" }), "exportable: true is not supported"),
        (json!({ "allow_plaintext_backup": true }), "allow_plaintext_backup: true is not supported"),
        (json!({ "auto_rotate_period": "30d" }), "auto_rotate_period is not supported"),
        (json!({ "key_size": 32 }), "key_size is not valid for algorithm aes256-ctr-sha3"),
        (json!({ "mode": "other" }), "unknown mode: it is derived or shreddable"),
        (
            json!({ "derived": "yes" }),
            "Field validation failed: error converting input for field \"derived\": cannot parse '' as bool: strconv.ParseBool: parsing \"yes\": invalid syntax",
        ),
        (
            json!({ "type": [] }),
            "Field validation failed: error converting input for field \"type\": '' expected type 'string', got unconvertible type '[]interface {}'",
        ),
    ];
    for (body, error) in cases {
        api.refuses("POST", "transit/keys/k", &body, 400, &[error]);
    }
    api.refuses("LIST", "transit/keys", &Value::Null, 404, &[]);
    for name in ["a%20b", "%C3%A9", "a%2Fb", &"a".repeat(129)] {
        let answer = api.call("POST", &format!("transit/keys/{name}"), &json!({}));
        assert!(matches!(answer.status, 400 | 404), "{name}: {} {}", answer.status, answer.text());
    }
}

#[test]
fn nothing_is_sealed_that_does_not_open() {
    let server = Server::start(&[]);
    let mut api = Api::new(&server);
    api.post("transit/keys/k", json!({}));
    for _ in 0..2 {
        data(&api.call("POST", "transit/keys/k/rotate", &json!({})));
    }
    api.post("transit/keys/k/config", json!({ "min_decryption_version": 3 }));
    let sealed = api.seal("k", "text");
    let older = "requested version for encryption is less than the minimum encryption key version";
    let (encrypt, rewrap) =
        (json!({ "plaintext": "QQ==", "key_version": 2 }), json!({ "ciphertext": sealed, "key_version": 1 }));
    api.refuses("POST", "transit/encrypt/k", &encrypt, 400, &[older]);
    api.refuses("POST", "transit/rewrap/k", &rewrap, 400, &[older]);
    assert_eq!(api.post("transit/decrypt/k", json!({ "ciphertext": sealed }))["plaintext"], "dGV4dA==");
}

#[test]
fn fields_that_nobody_knows_bring_warnings() {
    let server = Server::start(&[]);
    let mut api = Api::new(&server);
    let answer = api.call("POST", "transit/keys/k", &json!({ "zebra": { "x": [1] }, "apple": null, "name": "other" }));
    let ignored = "Endpoint ignored these unrecognized parameters: [apple zebra]";
    let replaced =
        "Endpoint replaced the value of these parameters with the values captured from the endpoint's path: [name]";
    assert_eq!(enveloped(&answer, &json!([ignored, replaced]), "transit")["name"], "k");
}

#[test]
fn a_key_is_rotated_configured_trimmed_and_deleted() {
    let server = Server::start(&[]);
    let mut api = Api::new(&server);
    api.post("transit/keys/k", json!({}));
    let first = api.seal("k", "one");
    assert!(first.starts_with("vault:v1:"));
    for (body, method) in [(Value::Null, "POST"), (json!({}), "PUT")] {
        data(&api.call(method, "transit/keys/k/rotate", &body));
    }
    assert_eq!(data(&api.send("PUT", "transit/keys/k/rotate", b"null"))["latest_version"], 4);
    assert!(api.seal("k", "four").starts_with("vault:v4:"));

    let config =
        |body: Value, errors: &str, api: &mut Api| api.refuses("POST", "transit/keys/k/config", &body, 400, &[errors]);
    config(json!({ "min_decryption_version": -1 }), "min decryption version cannot be negative", &mut api);
    config(
        json!({ "min_decryption_version": "5" }),
        "cannot set min decryption version of 5, latest key version is 4",
        &mut api,
    );
    config(json!({ "min_encryption_version": -1 }), "min encryption version cannot be negative", &mut api);
    config(
        json!({ "min_encryption_version": 5 }),
        "cannot set min encryption version of 5, latest key version is 4",
        &mut api,
    );
    let both = "cannot set min encryption/decryption values; min encryption version of 2 must be greater than or equal to min decryption version of 3";
    config(
        json!({ "min_encryption_version": 2, "min_decryption_version": 3, "deletion_allowed": true }),
        both,
        &mut api,
    );
    config(json!({ "auto_rotate_period": "1h" }), "auto_rotate_period is not supported", &mut api);
    assert_eq!(api.get("transit/keys/k")["deletion_allowed"], false, "a refused change changes nothing");

    let trim =
        |body: Value, error: &str, api: &mut Api| api.refuses("POST", "transit/keys/k/trim", &body, 400, &[error]);
    trim(json!({}), "missing min_available_version", &mut api);
    trim(
        json!({ "min_available_version": 1 }),
        "minimum available version cannot be set when minimum encryption version is not set",
        &mut api,
    );
    trim(json!({ "min_available_version": -1 }), "minimum available version cannot be decremented", &mut api);

    // Null changes nothing: Spring Vault sends it for what is not to be changed.
    let configured = api.post(
        "transit/keys/k/config",
        json!({
            "min_decryption_version": 2, "min_encryption_version": "3", "deletion_allowed": null
        }),
    );
    assert_eq!(configured["keys"].as_object().map(|keys| keys.len()), Some(3));
    let kept =
        api.post("transit/keys/k/config", json!({ "min_decryption_version": null, "min_encryption_version": null }));
    assert_eq!((&kept["min_decryption_version"], &kept["min_encryption_version"]), (&json!(2), &json!(3)));
    let too_old = "ciphertext or signature version is disallowed by policy (too old)";
    api.refuses("POST", "transit/decrypt/k", &json!({ "ciphertext": first }), 400, &[too_old]);
    let body = json!({ "plaintext": "", "key_version": 2 });
    api.refuses(
        "POST",
        "transit/encrypt/k",
        &body,
        400,
        &["requested version for encryption is less than the minimum encryption key version"],
    );

    trim(
        json!({ "min_available_version": 4 }),
        "minimum available version cannot be greater than minmum encryption version",
        &mut api,
    );
    trim(
        json!({ "min_available_version": 3 }),
        "minimum available version cannot be greater than minimum decryption version",
        &mut api,
    );
    trim(json!({ "min_available_version": 0 }), "minimum available version should be positive", &mut api);
    // Before it is trimmed, what was disallowed can be allowed again.
    api.post("transit/keys/k/config", json!({ "min_decryption_version": 1 }));
    assert_eq!(api.post("transit/decrypt/k", json!({ "ciphertext": first }))["plaintext"], "b25l");
    api.post("transit/keys/k/config", json!({ "min_decryption_version": 2 }));
    assert_eq!(api.post("transit/keys/k/trim", json!({ "min_available_version": 2 }))["min_available_version"], 2);
    trim(json!({ "min_available_version": 1 }), "minimum available version cannot be decremented", &mut api);
    config(
        json!({ "min_decryption_version": 1 }),
        "min decryption version should not be less then min available version",
        &mut api,
    );
    config(
        json!({ "min_encryption_version": 0 }),
        "min encryption version should not be less than min available version",
        &mut api,
    );

    let answer = api.call("POST", "transit/keys/fresh", &json!({}));
    data(&answer);
    let answer = api.call("POST", "transit/keys/fresh/config", &json!({ "min_decryption_version": 0 }));
    let warning = "since Vault 0.3, transit key numbering starts at 1; forcing minimum to 1";
    assert_eq!(enveloped(&answer, &json!([warning]), "transit")["min_decryption_version"], 1);

    api.refuses(
        "DELETE",
        "transit/keys/k",
        &Value::Null,
        400,
        &["error deleting policy k: deletion is not allowed for this key"],
    );
    api.refuses(
        "DELETE",
        "transit/keys/none",
        &Value::Null,
        400,
        &["error deleting policy none: could not delete key; not found"],
    );
    api.post("transit/keys/k/config", json!({ "deletion_allowed": "true" }));
    let answer = api.call("DELETE", "transit/keys/k", &Value::Null);
    assert_eq!((answer.status, answer.body.len(), answer.header("content-type")), (204, 0, None));
    api.refuses("GET", "transit/keys/k", &Value::Null, 404, &[]);
    // A key of the same name has nothing of the old one.
    api.post("transit/keys/k", json!({}));
    api.refuses("POST", "transit/decrypt/k", &json!({ "ciphertext": first }), 400, &[super::NOT_AUTHENTIC]);
}

#[test]
fn the_words_for_a_key_that_does_not_exist_are_vaults() {
    let server = Server::start(&[]);
    let mut api = Api::new(&server);
    let cases = [
        ("encrypt/k", json!({ "plaintext": "" }), "encryption key not found"),
        ("decrypt/k", json!({ "ciphertext": "vault:v1:AAAA" }), "encryption key not found"),
        ("rewrap/k", json!({ "ciphertext": "vault:v1:AAAA" }), "encryption key not found"),
        ("datakey/plaintext/k", json!({}), "encryption key not found"),
        ("keys/k/rotate", json!({}), "key not found"),
        ("keys/k/config", json!({}), "no existing key named k could be found"),
        ("keys/k/trim", json!({ "min_available_version": 1 }), "invalid key name"),
    ];
    for (path, body, error) in cases {
        api.refuses("POST", &format!("transit/{path}"), &body, 400, &[error]);
    }
}

#[test]
fn methods_and_paths_that_are_not_there_are_refused_as_vault_does() {
    let server = Server::start(&[]);
    let mut api = Api::new(&server);
    let no_method = "1 error occurred:\n\t* unsupported operation\n\n";
    let no_path = "1 error occurred:\n\t* unsupported path\n\n";
    for (method, path) in [
        ("GET", "transit/encrypt/k"),
        ("DELETE", "transit/decrypt/k"),
        ("GET", "transit/keys"),
        ("GET", "transit/random"),
        ("LIST", "transit/keys/k"),
        ("PATCH", "transit/keys/k"),
        ("GET", "transit/keys/k/rotate"),
        ("GET", "auth/token/create"),
    ] {
        api.refuses(method, path, &Value::Null, 405, &[no_method]);
    }
    for path in [
        "transit/sign/k",
        "transit/export/encryption-key/k",
        "transit/keys/k/import",
        "auth/token/tidy",
        "sys/policies/acl",
    ] {
        api.refuses("POST", path, &json!({}), 404, &[no_path]);
    }
    api.refuses("GET", "foo/bar", &Value::Null, 404, &["no handler for route \"foo/bar\". route entry not found."]);
    assert_eq!(api.get("transit/config/keys"), json!({ "disable_upsert": true }));
}
