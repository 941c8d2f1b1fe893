//! What a request asks for: its method, its path and its query.

use super::path::{Path, parse_bool, parse_query};
use crate::refusal::{Kind, Refusal};
use hyper::header::HOST;
use hyper::http::request::Parts;
use hyper::{Method, Version};

/// What a request asks for.
pub struct Target {
    /// The method, as [`Call::method`].
    pub method: Method,
    /// The path, with its version.
    pub path: Path,
    /// The query, decoded.
    pub query: Vec<(String, String)>,
}

/// Reads what a request asks for.
///
/// # Errors
/// If it is malformed.
pub fn read_target(head: &Parts) -> Result<Target, Refusal> {
    // Who reads another host than the one before read another request.
    let hosts = head.headers.get_all(HOST).iter().count();
    if hosts > 1 || hosts == 0 && head.version == Version::HTTP_11 {
        return Err(Refusal::invalid("a request has one Host header"));
    }
    if name_of(&head.method) == OTHER {
        return Err(Refusal::new(Kind::Method, ""));
    }
    let path = Path::parse(head.uri.path())?;
    let query = parse_query(head.uri.query().unwrap_or(""))?;
    let value = |name: &str| query.iter().find(|(own, _)| own == name).map(|(_, value)| value.as_str());
    let is_set = |name: &str| match value(name) {
        Some(text) => parse_bool(text).ok_or_else(|| Refusal::invalid("")),
        None => Ok(false),
    };
    let method = match head.method {
        Method::GET if value("help").is_some_and(|help| parse_bool(help) == Some(true)) => named("HELP"),
        Method::GET if is_set("list")? => named("LIST"),
        ref other => other.clone(),
    };
    Ok(Target { method, path, query })
}

/// What the audit log calls a method that the server does not know: its name may be as long as a head.
const OTHER: &str = "OTHER";

/// The name of a method that the server knows.
pub fn name_of(method: &Method) -> &'static str {
    const KNOWN: [&str; 8] = ["GET", "HEAD", "LIST", "HELP", "POST", "PUT", "PATCH", "DELETE"];
    KNOWN.into_iter().find(|name| *name == method.as_str()).unwrap_or(OTHER)
}

fn named(method: &str) -> Method {
    Method::from_bytes(method.as_bytes()).unwrap_or(Method::GET)
}
