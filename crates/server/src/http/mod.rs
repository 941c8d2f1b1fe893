//! HTTP: connections, who the caller is, and where a request goes.

pub mod body;
mod connection;
mod listen;
mod route;

pub use connection::serve;
pub use listen::{Listener, Peer};
pub use route::answer;

use crate::audit::Note;
use crate::caller::Caller;
use crate::refusal::Refusal;
use crate::server::Server;
use body::Body;
use hyper::{HeaderMap, Method, Response, StatusCode};
use std::sync::Arc;

/// A request, with what is known of its caller.
pub struct Call {
    /// The server.
    pub server: Arc<Server>,
    /// The caller.
    pub caller: Caller,
    /// The method. A POST with `X-HTTP-Method-Override`, or a GET with `?list=true`, is what it stands for.
    pub method: Method,
    /// The path after its version, in parts that are decoded: `["transit", "encrypt", "orders"]`.
    pub path: Vec<String>,
    /// The query, decoded.
    pub query: Vec<(String, String)>,
    /// The headers.
    pub headers: HeaderMap,
    /// The body.
    pub body: Body,
    /// For the audit log.
    pub note: Note,
}

impl Call {
    /// The parts of the path.
    pub fn parts(&self) -> Vec<&str> {
        self.path.iter().map(String::as_str).collect()
    }

    /// The value of a name in the query.
    pub fn query(&self, name: &str) -> Option<&str> {
        self.query.iter().find(|(own, _)| own == name).map(|(_, value)| value.as_str())
    }
}

/// An answer in JSON.
pub fn json(status: u16, value: &impl serde::Serialize) -> Response<Body> {
    let bytes = serde_json::to_vec(value).unwrap_or_default();
    response(status, "application/json", bytes)
}

/// An answer with a body.
pub fn response(status: u16, kind: &'static str, bytes: impl Into<hyper::body::Bytes>) -> Response<Body> {
    let mut response = Response::new(body::full(bytes));
    *response.status_mut() = StatusCode::from_u16(status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let headers = response.headers_mut();
    headers.insert(hyper::header::CONTENT_TYPE, hyper::header::HeaderValue::from_static(kind));
    headers.insert(hyper::header::CACHE_CONTROL, hyper::header::HeaderValue::from_static("no-store"));
    response
}

/// The answer to a refused request, in the form of Vault.
pub fn refused(refusal: &Refusal) -> Response<Body> {
    let mut response = json(refusal.kind.status(), &serde_json::json!({ "errors": [refusal.text] }));
    if refusal.kind == crate::refusal::Kind::Busy {
        response.headers_mut().insert(hyper::header::RETRY_AFTER, hyper::header::HeaderValue::from_static("1"));
    }
    response
}
