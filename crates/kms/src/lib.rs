//! Programs `phalanx-kms-NAME`, which ask a key service to wrap or unwrap a run key: `docs/key-services.md`. They are
//! programs of their own, so that `phalanx` makes no connections.
//!
//! Run keys pass through buffers of JSON, HTTP and TLS, so each program wipes all that it frees: see [`Allocator`].
#![forbid(unsafe_code)]
#![deny(missing_docs)]

pub mod aws;
mod http;
pub mod transit;

use base64ct::{Base64, Encoding};
use serde::Deserialize;
use std::alloc::System;
use std::io::{self, Read, Write};
use std::process::ExitCode;
use zeroizing_alloc::ZeroAlloc;

/// The allocator of each of these programs: what is freed is wiped.
pub type Allocator = ZeroAlloc<System>;

/// That allocator.
pub const ALLOCATOR: Allocator = ZeroAlloc(System);

/// The longest request, in bytes.
const LONGEST: u64 = 64 << 10;

/// What a service is asked.
#[derive(Deserialize)]
struct Request {
    version: u32,
    operation: String,
    uri: String,
    context: Context,
    plaintext: Option<String>,
    ciphertext: Option<String>,
}

/// What the run key is bound to.
#[derive(Deserialize)]
struct Context {
    purpose: String,
}

/// A call of a service.
pub struct Call<'a> {
    /// What follows `NAME://` in the URI.
    pub key: &'a str,
    /// What the run key is bound to.
    pub purpose: &'a str,
    /// What is to be wrapped or unwrapped.
    pub what: What<'a>,
}

/// What is to be wrapped or unwrapped.
pub enum What<'a> {
    /// A run key in Base64.
    Wrap(&'a str),
    /// What an earlier call returned.
    Unwrap(&'a [u8]),
}

/// What a service gives: what it has wrapped, or the text of a run key in Base64.
pub type Given = Vec<u8>;

/// Reads a request for services of this name from standard input, and writes the answer to standard output.
pub fn answer(name: &str, call: impl Fn(&Call) -> Result<Given, String>) -> ExitCode {
    let answered = respond(name, call).unwrap_or_else(|error| json("error", &error));
    match io::stdout().write_all(answered.as_bytes()).and_then(|()| io::stdout().flush()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(_) => ExitCode::FAILURE,
    }
}

fn respond(name: &str, call: impl Fn(&Call) -> Result<Given, String>) -> Result<String, String> {
    let mut text = String::new();
    io::stdin().take(LONGEST + 1).read_to_string(&mut text).map_err(|e| format!("the request cannot be read: {e}"))?;
    if text.len() as u64 > LONGEST {
        return Err("the request is too long".into());
    }
    // No message repeats the request, which may hold a run key.
    let request: Request = serde_json::from_str(&text).map_err(|_| "this is not a request of phalanx".to_string())?;
    if request.version != 1 {
        return Err(format!("version {} of requests is not known to this program", request.version));
    }
    let key = request.uri.strip_prefix(name).and_then(|rest| rest.strip_prefix("://"));
    let key = key.ok_or_else(|| format!("this program is for URIs that begin with {name}://"))?;
    let purpose = &*request.context.purpose;
    match (&*request.operation, &request.plaintext, &request.ciphertext) {
        ("wrap", Some(plaintext), None) => {
            let wrapped = call(&Call { key, purpose, what: What::Wrap(plaintext) })?;
            Ok(json("ciphertext", &Base64::encode_string(&wrapped)))
        }
        ("unwrap", None, Some(ciphertext)) => {
            let wrapped = Base64::decode_vec(ciphertext).map_err(|_| "the ciphertext is not Base64".to_string())?;
            let plaintext = call(&Call { key, purpose, what: What::Unwrap(&wrapped) })?;
            let plaintext = String::from_utf8(plaintext).map_err(|_| "the service gave no Base64".to_string())?;
            Ok(json("plaintext", &plaintext))
        }
        _ => Err("the request is neither to wrap a plaintext nor to unwrap a ciphertext".into()),
    }
}

fn json(field: &str, text: &str) -> String {
    format!("{}\n", serde_json::json!({ field: text }))
}
