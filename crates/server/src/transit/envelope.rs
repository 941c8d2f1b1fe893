//! What answers are wrapped in, as Vault does it. An answer may have texts in it: what is freed is wiped (see `main.rs`).

use super::base64;
use crate::http::body::{Body, Room};
use crate::http::{self, Call};
use crate::refusal::Refusal;
use hyper::body::Bytes;
use hyper::{HeaderMap, Response};
use serde::Serialize;
use std::io;

/// The part of the server that answers, as `mount_type`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mount {
    Transit,
    Token,
    System,
    /// As in answers whose status was forced.
    None,
}

impl Mount {
    fn name(self) -> &'static str {
        match self {
            Self::Transit => "transit",
            Self::Token => "token",
            Self::System => "system",
            Self::None => "",
        }
    }
}

/// An answer that is being written.
pub struct Writer<'a> {
    out: Vec<u8>,
    warnings: &'a [String],
}

/// The bytes of an envelope without its data and warnings.
const ENVELOPE: usize = 256;

impl<'a> Writer<'a> {
    /// Begins an answer whose data have about so many bytes, and writes the envelope up to the data.
    pub fn begin(id: &str, bytes: usize, warnings: &'a [String]) -> Self {
        let mut writer = Self { out: Vec::with_capacity(ENVELOPE + bytes), warnings };
        writer.raw("{\"request_id\":\"");
        writer.raw(id);
        writer.raw("\",\"lease_id\":\"\",\"renewable\":false,\"lease_duration\":0,\"data\":");
        writer
    }

    fn put(&mut self, bytes: &[u8]) {
        self.out.extend_from_slice(bytes);
    }

    /// Appends text as it is.
    pub fn raw(&mut self, text: &str) {
        self.put(text.as_bytes());
    }

    /// Appends a value.
    pub fn value(&mut self, value: &(impl Serialize + ?Sized)) {
        // Writing to a buffer cannot fail.
        let _ = serde_json::to_writer(self, value);
    }

    /// Appends the base64 of bytes.
    pub fn base64(&mut self, bytes: &[u8]) {
        base64::append(bytes, &mut self.out);
    }

    /// Appends bytes in hexadecimal digits, in constant time.
    pub fn hex(&mut self, bytes: &[u8]) {
        let digit = |half: u8| half + b'0' + (9_u8.wrapping_sub(half) >> 7) * (b'a' - b'0' - 10);
        bytes.iter().for_each(|byte| self.put(&[digit(byte >> 4), digit(byte & 15)]));
    }

    /// Writes the rest of the envelope, and makes it an answer. It counts as in flight until it is sent.
    pub fn end(mut self, status: u16, auth: Option<&Auth<'_>>, mount: Mount, room: Room) -> Response<Body> {
        let warnings = Some(self.warnings).filter(|warnings| !warnings.is_empty());
        self.raw(",\"wrap_info\":null,\"warnings\":");
        self.value(&warnings);
        self.raw(",\"auth\":");
        self.value(&auth);
        self.raw(",\"mount_type\":");
        self.value(mount.name());
        self.raw("}\n");
        http::response(status, "application/json", Bytes::from_owner(Held { out: self.out, _room: room }))
    }
}

impl io::Write for &mut Writer<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.put(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// The bytes of an answer, which are in flight until it is sent.
struct Held {
    out: Vec<u8>,
    _room: Room,
}

impl AsRef<[u8]> for Held {
    fn as_ref(&self) -> &[u8] {
        &self.out
    }
}

/// What `auth` says of a token.
#[derive(Debug, Serialize)]
pub struct Auth<'a> {
    pub client_token: &'a str,
    pub accessor: &'a str,
    pub policies: Vec<String>,
    pub token_policies: Vec<String>,
    pub metadata: Option<serde_json::Value>,
    pub lease_duration: u64,
    pub renewable: bool,
    pub entity_id: &'a str,
    pub token_type: &'a str,
    pub orphan: bool,
    pub mfa_requirement: Option<()>,
    pub num_uses: u32,
}

/// An answer with this data.
pub fn data(call: &Call, data: &impl Serialize, warnings: &[String], mount: Mount) -> Response<Body> {
    let mut writer = Writer::begin(&call.id, 1024, warnings);
    writer.value(data);
    writer.end(200, None, mount, Room::default())
}

/// An answer with a token.
pub fn auth(call: &Call, auth: &Auth<'_>, warnings: &[String]) -> Response<Body> {
    let mut writer = Writer::begin(&call.id, 4096, warnings);
    writer.raw("null");
    writer.end(200, Some(auth), Mount::Token, Room::default())
}

/// The answer that has nothing to say.
pub fn nothing() -> Response<Body> {
    let mut response = http::response(204, "application/json", Bytes::new());
    response.headers_mut().remove(hyper::header::CONTENT_TYPE);
    response
}

/// The refusal of what does not exist: without any text, as Vault's clients want it.
pub fn absent() -> Refusal {
    Refusal::not_found("")
}

/// A refusal in the form that Vault gives what its framework refuses.
pub fn listed(kind: crate::refusal::Kind, text: &str) -> Refusal {
    Refusal::new(kind, format!("1 error occurred:\n\t* {text}\n\n"))
}

/// The text of a header.
pub fn header<'a>(headers: &'a HeaderMap, name: &str) -> Option<&'a str> {
    headers.get(name).and_then(|value| value.to_str().ok())
}
