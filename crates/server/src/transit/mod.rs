//! HTTP as Vault's Transit speaks it: JSON under `/v1`.

use crate::http::body::Body;
use crate::http::{Call, json};
use crate::refusal::Refusal;
use crate::server::Server;
use hyper::Response;

/// Answers a request under `/v1` of a known caller.
///
/// # Errors
/// Why it is refused.
pub async fn answer(_call: &mut Call) -> Result<Response<Body>, Refusal> {
    Err(Refusal::not_found("unsupported path"))
}

/// Answers a request under `/v1/sys` that anybody may make.
pub fn sys(_server: &Server, path: &[&str], _query: &[(String, String)]) -> Option<Response<Body>> {
    match path {
        ["health"] => Some(json(200, &serde_json::json!({ "initialized": true, "sealed": false, "standby": false }))),
        _ => None,
    }
}
