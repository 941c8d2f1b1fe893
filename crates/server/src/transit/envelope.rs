//! What answers are wrapped in, as Vault does it. An answer may have texts in it: its buffer is wiped when it is sent.

use super::base64;
use crate::http::body::Body;
use crate::http::{self, Call};
use crate::refusal::Refusal;
use hyper::body::Bytes;
use hyper::{HeaderMap, Response};
use serde::Serialize;
use tokio::sync::OwnedSemaphorePermit;
use zeroize::Zeroizing;

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

/// An answer that is being written. It never grows beyond its first buffer if the writer has asked for enough, so that no
/// copy of a text is left behind.
pub struct Writer {
    out: Zeroizing<Vec<u8>>,
}

/// The bytes of an envelope without its data and warnings.
const ENVELOPE: usize = 256;

impl Writer {
    /// Begins an answer whose data has about so many bytes, and writes the envelope up to the data.
    pub fn begin(id: &str, bytes: usize) -> Self {
        let mut out = Zeroizing::new(Vec::with_capacity(ENVELOPE + bytes));
        out.extend_from_slice(b"{\"request_id\":\"");
        out.extend_from_slice(id.as_bytes());
        out.extend_from_slice(b"\",\"lease_id\":\"\",\"renewable\":false,\"lease_duration\":0,\"data\":");
        Self { out }
    }

    /// Appends text as it is.
    pub fn raw(&mut self, text: &str) {
        self.out.extend_from_slice(text.as_bytes());
    }

    /// Appends a value.
    pub fn value(&mut self, value: &(impl Serialize + ?Sized)) {
        // Writing to a buffer cannot fail.
        let _ = serde_json::to_writer(&mut *self.out, value);
    }

    /// Appends the base64 of bytes.
    pub fn base64(&mut self, bytes: &[u8]) {
        base64::append(bytes, &mut self.out);
    }

    /// Appends bytes in hexadecimal digits, in constant time.
    pub fn hex(&mut self, bytes: &[u8]) {
        let digit = |half: u8| half + b'0' + (9_u8.wrapping_sub(half) >> 7) * (b'a' - b'0' - 10);
        bytes.iter().for_each(|byte| self.out.extend_from_slice(&[digit(byte >> 4), digit(byte & 15)]));
    }

    /// Appends a number.
    pub fn number(&mut self, number: impl Serialize) {
        self.value(&number);
    }

    /// Writes the rest of the envelope, and makes it an answer.
    pub fn end(mut self, status: u16, warnings: &[String], auth: Option<&Auth<'_>>, mount: Mount) -> Response<Body> {
        self.raw(",\"wrap_info\":null,\"warnings\":");
        if warnings.is_empty() {
            self.raw("null")
        } else {
            self.value(warnings)
        }
        self.raw(",\"auth\":");
        self.value(&auth);
        self.raw(",\"mount_type\":");
        self.value(mount.name());
        self.raw("}\n");
        answer(status, self.out, None)
    }

    /// The same, and the answer counts as in flight until it is sent.
    pub fn end_batch(
        mut self,
        status: u16,
        warnings: &[String],
        mount: Mount,
        permit: Option<OwnedSemaphorePermit>,
    ) -> Response<Body> {
        self.raw(",\"wrap_info\":null,\"warnings\":");
        if warnings.is_empty() {
            self.raw("null")
        } else {
            self.value(warnings)
        }
        self.raw(",\"auth\":null,\"mount_type\":");
        self.value(mount.name());
        self.raw("}\n");
        answer(status, self.out, permit)
    }
}

fn answer(status: u16, out: Zeroizing<Vec<u8>>, permit: Option<OwnedSemaphorePermit>) -> Response<Body> {
    http::response(status, "application/json", Bytes::from_owner(Wiped { out, _permit: permit }))
}

/// The bytes of an answer, which are wiped when it is sent.
struct Wiped {
    out: Zeroizing<Vec<u8>>,
    _permit: Option<OwnedSemaphorePermit>,
}

impl AsRef<[u8]> for Wiped {
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
    let mut writer = Writer::begin(&call.id, 1024);
    writer.value(data);
    writer.end(200, warnings, None, mount)
}

/// An answer with a token.
pub fn auth(call: &Call, auth: &Auth<'_>, warnings: &[String]) -> Response<Body> {
    let mut writer = Writer::begin(&call.id, 4096);
    writer.raw("null");
    writer.end(200, warnings, Some(auth), Mount::Token)
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
