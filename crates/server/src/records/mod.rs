//! Octet streams of records, under `/v2`: `docs/server.md`.

use crate::http::Call;
use crate::http::body::Body;
use crate::refusal::Refusal;
use hyper::Response;

/// Answers a request under `/v2`.
///
/// # Errors
/// Why it is refused.
pub async fn answer(_call: &mut Call) -> Result<Response<Body>, Refusal> {
    Err(Refusal::not_found("unsupported path"))
}
