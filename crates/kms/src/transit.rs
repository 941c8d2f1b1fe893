//! The Transit engine of HashiCorp Vault, of OpenBao and of phalanx-server.

use crate::http::{address, post, variable, wait};
use crate::{Call, Given, What};
use base64ct::{Base64, Encoding};
use reqwest::Certificate;
use reqwest::header::{HeaderMap, HeaderValue};
use serde::Deserialize;
use std::path::PathBuf;
use std::{env, fs};

#[derive(Deserialize)]
struct Answer {
    data: Option<Data>,
    #[serde(default)]
    errors: Vec<String>,
}

#[derive(Deserialize)]
struct Data {
    plaintext: Option<String>,
    ciphertext: Option<String>,
}

/// Has a run key wrapped or unwrapped by the key `KEY` or `KEY?engine=PATH`.
///
/// # Errors
/// In one line, if the server cannot be asked or refuses.
pub fn call(call: &Call) -> Result<Given, String> {
    let (key, engine) = place(call.key)?;
    let (verb, field, text) = match call.what {
        What::Wrap(plaintext) => ("encrypt", "plaintext", plaintext),
        What::Unwrap(wrapped) => {
            let text = str::from_utf8(wrapped).map_err(|_| "this was not wrapped by Transit".to_string())?;
            ("decrypt", "ciphertext", text)
        }
    };
    let server = address("VAULT_ADDR")?.ok_or("VAULT_ADDR does not say where the server is")?;
    let url = format!("{}/v1/{engine}/{verb}/{key}", server.trim_end_matches('/'));
    let bound = Base64::encode_string(call.purpose.as_bytes());
    let body = serde_json::json!({ field: text, "associated_data": bound }).to_string();
    let (status, bytes) = wait(post(&server, &url, headers()?, body, trusted()?))?;
    let answer: Option<Answer> = serde_json::from_slice(&bytes).ok();
    if !status.is_success() {
        let errors = answer.map(|answer| answer.errors.join("; ")).filter(|errors| !errors.is_empty());
        return Err(format!("{server} answers {status}{}", errors.map(|e| format!(": {e}")).unwrap_or_default()));
    }
    let data = answer.and_then(|answer| answer.data).ok_or_else(|| format!("{server} does not answer like Transit"))?;
    let given = match call.what {
        What::Wrap(_) => data.ciphertext,
        What::Unwrap(_) => data.plaintext,
    };
    given.map(String::into_bytes).ok_or_else(|| format!("{server} does not answer like Transit"))
}

/// The key and the path of its engine.
fn place(key: &str) -> Result<(&str, &str), String> {
    let (key, engine) = match key.split_once('?') {
        None => (key, "transit"),
        Some((key, query)) => (key, query.strip_prefix("engine=").unwrap_or_default()),
    };
    let is_name = |name: &str| {
        let allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
        !name.is_empty() && name.bytes().all(allowed) && name.bytes().any(|byte| byte != b'.')
    };
    if is_name(key) && engine.split('/').all(is_name) {
        Ok((key, engine))
    } else {
        Err("the URI has the form NAME://KEY or NAME://KEY?engine=PATH, with letters, digits, - _ and .".into())
    }
}

/// The certificates that are trusted in place of those of the system.
fn trusted() -> Result<Option<Vec<Certificate>>, String> {
    let Some(path) = variable("VAULT_CACERT")? else { return Ok(None) };
    let pem = fs::read(&path).map_err(|e| format!("VAULT_CACERT: {path}: {e}"))?;
    let trusted = Certificate::from_pem_bundle(&pem).ok().filter(|trusted| !trusted.is_empty());
    trusted.map(Some).ok_or_else(|| format!("VAULT_CACERT: {path}: no certificate in it"))
}

fn headers() -> Result<HeaderMap, String> {
    let secret = |name: &str, text: &str| {
        HeaderValue::from_str(text).map_err(|_| format!("{name} has characters that no header may have"))
    };
    let mut headers = HeaderMap::new();
    headers.insert("Content-Type", HeaderValue::from_static("application/json"));
    headers.insert("X-Vault-Request", HeaderValue::from_static("true"));
    let mut token = secret("VAULT_TOKEN", &token()?)?;
    token.set_sensitive(true);
    headers.insert("X-Vault-Token", token);
    if let Some(namespace) = variable("VAULT_NAMESPACE")? {
        headers.insert("X-Vault-Namespace", secret("VAULT_NAMESPACE", &namespace)?);
    }
    Ok(headers)
}

/// The token of the variable, or of the file that `vault login` writes.
fn token() -> Result<String, String> {
    if let Some(token) = variable("VAULT_TOKEN")? {
        return Ok(token);
    }
    let path = env::var_os("HOME").map(|home| PathBuf::from(home).join(".vault-token"));
    let token = path.and_then(|path| fs::read_to_string(path).ok());
    token
        .map(|token| token.trim().to_owned())
        .ok_or_else(|| "no token: neither VAULT_TOKEN nor ~/.vault-token has one".into())
}
