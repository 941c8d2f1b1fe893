//! `/v1`, as the clients of Vault's Transit see it.

mod crypt;
mod ends;
mod hostile;
mod keys;
mod races;
mod rights;
mod sys;
mod tokens;

use crate::common::{Answer, Client, Server};
use serde_json::{Value, json};

/// A connection that sends JSON, by the owner of a token or with all rights.
pub struct Api {
    client: Client,
    token: Option<String>,
}

impl Api {
    /// A connection with all rights.
    pub fn new(server: &Server) -> Self {
        Self { client: server.client(), token: None }
    }

    /// A connection of the owner of a token.
    pub fn by(server: &Server, token: &str) -> Self {
        Self { client: server.client(), token: Some(token.to_owned()) }
    }

    /// Sends bytes.
    pub fn send(&mut self, method: &str, path: &str, body: &[u8]) -> Answer {
        let token = self.token.iter().map(|token| ("X-Vault-Token", token.as_str()));
        let headers: Vec<_> = token.collect();
        self.client.request(method, &format!("/v1/{path}"), &headers, body)
    }

    /// Sends JSON. Null is no body at all.
    pub fn call(&mut self, method: &str, path: &str, body: &Value) -> Answer {
        let text = if body.is_null() { String::new() } else { body.to_string() };
        self.send(method, path, text.as_bytes())
    }

    /// A POST that succeeds: the data of its envelope.
    pub fn post(&mut self, path: &str, body: Value) -> Value {
        data(&self.call("POST", path, &body))
    }

    /// A GET that succeeds: the data of its envelope.
    pub fn get(&mut self, path: &str) -> Value {
        data(&self.call("GET", path, &Value::Null))
    }

    /// A request that is refused, with its status and its whole body.
    pub fn refuses(&mut self, method: &str, path: &str, body: &Value, status: u16, errors: &[&str]) {
        let answer = self.call(method, path, body);
        assert_eq!((answer.status, answer.json()), (status, json!({ "errors": errors })), "{method} {path} {body}");
        assert_eq!(answer.header("content-type"), Some("application/json"), "{path}");
    }

    /// Seals a text with a key that needs no context.
    pub fn seal(&mut self, key: &str, text: &str) -> String {
        let body = json!({ "plaintext": crate::common::base64(text) });
        let sealed = self.post(&format!("transit/encrypt/{key}"), body);
        sealed["ciphertext"].as_str().expect("a ciphertext").to_owned()
    }
}

/// The data of an answer's envelope, whose other fields are as they must be.
pub fn data(answer: &Answer) -> Value {
    assert_eq!(answer.status, 200, "{}", answer.text());
    enveloped(answer, &Value::Null, "transit")
}

/// The data of an answer's envelope with these warnings and this kind of mount.
pub fn enveloped(answer: &Answer, warnings: &Value, mount: &str) -> Value {
    assert_eq!(answer.header("content-type"), Some("application/json"));
    assert_eq!(answer.header("cache-control"), Some("no-store"));
    let mut envelope = answer.json();
    let (id, data) = (envelope["request_id"].take(), envelope["data"].take());
    assert_eq!(id.as_str().expect("an id").len(), 36);
    let wanted = json!({
        "request_id": null, "lease_id": "", "renewable": false, "lease_duration": 0, "data": null, "wrap_info": null,
        "warnings": warnings, "auth": null, "mount_type": mount,
    });
    assert_eq!(envelope, wanted);
    data
}

pub const NO_CONTEXT: &str = "missing 'context' for key derivation; the key was created using a derived key, which means \
    additional, per-request information must be included in order to perform operations with the key";
pub const NOT_AUTHENTIC: &str = "cipher: message authentication failed";
