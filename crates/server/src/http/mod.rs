//! HTTP: connections, who the caller is, and where a request goes.

mod asked;
pub mod body;
mod caller;
mod connection;
mod edge;
mod listen;
pub mod path;
mod peers;
mod place;
mod room;
mod route;
mod sent;
mod serve;
mod stream;
mod target;
mod tls;
mod unasked;
mod watch;

pub use asked::Asked;
pub use edge::Edge;
pub use listen::{Listener, Peer};
pub use peers::{PeerRights, Peers, is_own};
pub use place::{Where, socket_mode};
pub use serve::{Ending, serve};
pub use tls::{Files as TlsFiles, Tls};

use crate::audit::Note;
use crate::caller::Caller;
use crate::in_flight::Share;
use crate::refusal::{Kind, Refusal};
use crate::server::Server;
use body::Body;
use hyper::header::{ALLOW, CACHE_CONTROL, CONTENT_TYPE, HeaderValue, RETRY_AFTER};
use hyper::{HeaderMap, Method, Response, StatusCode};
use std::sync::Arc;

/// A request, with what is known of its caller.
pub struct Call {
    /// The server.
    pub server: Arc<Server>,
    /// The identity of the request, a UUID: in the audit log, in the header `X-Request-Id` and in envelopes.
    pub id: String,
    /// The caller.
    pub caller: Caller,
    /// What the caller may have in flight.
    pub share: Share,
    /// The method. A GET with `?list=true` is LIST, and one with `?help=1` is HELP.
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
    /// The request, for a handler whose answer is sent while the work goes on: [`Asked::more`] writes a line for each further
    /// part of the answer.
    pub asked: Arc<Asked>,
}

impl Call {
    /// A call of this process itself, which comes from no connection.
    pub fn own(server: Arc<Server>, caller: Caller, method: Method, path: Vec<String>, body: Body) -> Self {
        let asked = Asked::new(server.clone(), String::new(), String::new(), "");
        let share = server.shares.of(&caller.name);
        let (query, headers, note) = (Vec::new(), HeaderMap::new(), Note::default());
        Self {
            server,
            id: String::new(),
            caller,
            share,
            method,
            path,
            query,
            headers,
            body,
            note,
            asked: Arc::new(asked),
        }
    }

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
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(kind));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    // What is refused for now may be asked again.
    if [Kind::Busy, Kind::Unavailable].iter().any(|kind| kind.status() == status) {
        headers.insert(RETRY_AFTER, HeaderValue::from_static("1"));
    }
    response
}

/// The answer to a refused request, in the form of Vault. A refusal without a text has no errors in it.
pub fn refused(refusal: &Refusal) -> Response<Body> {
    let errors: Vec<&str> = [refusal.text.as_ref()].into_iter().filter(|text| !text.is_empty()).collect();
    let mut response = json(refusal.kind.status(), &serde_json::json!({ "errors": errors }));
    if refusal.kind == Kind::Method {
        response.headers_mut().insert(ALLOW, HeaderValue::from_static("GET, LIST, POST, PUT, DELETE"));
    }
    response
}
