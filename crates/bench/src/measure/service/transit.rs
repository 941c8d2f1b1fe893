//! Requests in JSON, as Vault's Transit takes them, and what its answers say.

use super::client::Client;
use super::servers::{KEY, Server};
use crate::measure::{Error, Result};
use base64ct::{Base64, Encoding};
use serde_json::{Value, json};

pub fn get(path: &str, token: &str) -> Vec<u8> {
    head("GET", path, token, "application/json", None).into_bytes()
}

pub fn post(path: &str, token: &str, body: &str) -> Vec<u8> {
    let mut request = head("POST", path, token, "application/json", Some(body.len())).into_bytes();
    request.extend_from_slice(body.as_bytes());
    request
}

/// The head of a request.
pub fn head(method: &str, path: &str, token: &str, kind: &str, len: Option<usize>) -> String {
    let mut head = format!("{method} {path} HTTP/1.1\r\nHost: 127.0.0.1\r\n");
    if !token.is_empty() {
        head += &format!("X-Vault-Token: {token}\r\nX-Vault-Request: true\r\n");
    }
    if let Some(len) = len {
        head += &format!("Content-Type: {kind}\r\nContent-Length: {len}\r\n");
    }
    head + "\r\n"
}

/// The name of a user, which is the context.
pub fn user(i: usize) -> String {
    format!("user-{i:010}@example.org")
}

fn base64(bytes: &[u8]) -> String {
    Base64::encode_string(bytes)
}

/// A text of this length, which is another one for each user.
pub fn text(i: usize, len: usize) -> Vec<u8> {
    (0..len).map(|at| (i.wrapping_mul(31) + at) as u8).collect()
}

/// A request that encrypts the text of one user.
pub fn encrypt(token: &str, i: usize, len: usize) -> Vec<u8> {
    let (plaintext, context) = (base64(&text(i, len)), base64(user(i).as_bytes()));
    let body = format!(r#"{{"plaintext":"{plaintext}","context":"{context}"}}"#);
    post(&format!("/v1/transit/encrypt/{KEY}"), token, &body)
}

/// A request that encrypts the texts of many users.
pub fn encrypt_batch(token: &str, users: std::ops::Range<usize>, len: usize) -> Vec<u8> {
    let item =
        |i: usize| format!(r#"{{"plaintext":"{}","context":"{}"}}"#, base64(&text(i, len)), base64(user(i).as_bytes()));
    let body = format!(r#"{{"batch_input":[{}]}}"#, users.map(item).collect::<Vec<_>>().join(","));
    post(&format!("/v1/transit/encrypt/{KEY}"), token, &body)
}

/// The ciphertexts of many users, from the answer to a batch.
pub fn ciphertexts(answer: &[u8]) -> Result<Vec<String>> {
    let all = results(answer)?.into_iter().map(|item| Some(item.get("ciphertext")?.as_str()?.to_owned()));
    all.collect::<Option<_>>().ok_or_else(|| wrong("an item without ciphertext"))
}

/// A request that decrypts the ciphertexts of many users, who have numbers from `first` on.
pub fn decrypt_batch(token: &str, first: usize, ciphertexts: &[String]) -> Vec<u8> {
    let item = |(i, ciphertext)| json!({ "ciphertext": ciphertext, "context": base64(user(i).as_bytes()) });
    let items: Vec<Value> = (first..).zip(ciphertexts).map(item).collect();
    post(&format!("/v1/transit/decrypt/{KEY}"), token, &json!({ "batch_input": items }).to_string())
}

fn results(answer: &[u8]) -> Result<Vec<Value>> {
    let answer: Value = serde_json::from_slice(answer).map_err(|e| wrong(&e.to_string()))?;
    let results = answer.pointer("/data/batch_results").and_then(Value::as_array);
    results.cloned().ok_or_else(|| wrong("no batch_results"))
}

fn wrong(what: &str) -> Error {
    Error::NotRun(format!("the server answers wrongly: {what}"))
}

/// Encrypts and decrypts some texts, and fails unless they come back. What one context has sealed, no other may open.
pub fn check(server: &Server) -> Result<()> {
    let mut client = Client::connect(&server.address)?;
    let sealed = ciphertexts(client.ask(&encrypt_batch(&server.token, 0..3, 256))?)?;
    let opened = results(client.ask(&decrypt_batch(&server.token, 0, &sealed))?)?;
    let is_same =
        |(i, item): (usize, &Value)| item.get("plaintext").and_then(Value::as_str) == Some(&base64(&text(i, 256)));
    if sealed.len() != 3 || opened.len() != 3 || !opened.iter().enumerate().all(is_same) {
        return Err(Error::Program(format!("{}: what it decrypts is not what it has encrypted", server.scheme)));
    }
    match client.ask(&decrypt_batch(&server.token, 1, &sealed[..1])) {
        Ok(_) => Err(Error::Program(format!("{}: another user's context opens a text", server.scheme))),
        Err(_) => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_have_their_length() {
        let request = String::from_utf8(encrypt("t", 7, 256)).unwrap();
        let (head, body) = request.split_once("\r\n\r\n").unwrap();
        assert!(head.contains(&format!("Content-Length: {}", body.len())) && head.contains("X-Vault-Token: t"));
        let body: Value = serde_json::from_str(body).unwrap();
        assert_eq!(Base64::decode_vec(body["plaintext"].as_str().unwrap()).unwrap(), text(7, 256));
        assert!(!String::from_utf8(get("/x", "")).unwrap().contains("Token"));
    }

    #[test]
    fn what_a_batch_has_encrypted_is_decrypted_by_the_same_users() {
        let answer =
            json!({ "data": { "batch_results": [{ "ciphertext": "vault:v1:a" }, { "ciphertext": "vault:v1:b" }] } });
        let all = ciphertexts(answer.to_string().as_bytes()).unwrap();
        let request = String::from_utf8(decrypt_batch("t", 5, &all)).unwrap();
        assert!(request.contains(&base64(user(5).as_bytes())) && request.contains("vault:v1:b"), "{request}");
        assert!(ciphertexts(br#"{"data":{"batch_results":[{"error":"no"}]}}"#).is_err());
    }
}
