//! Octet streams of records, under `/v2`: `docs/server-format.md`.
//!
//! The body of a request is cut into records (`frame`), which are put into batches (`collect`). Several batches are under
//! way at the same time (`running`), and their answers (`answers`) come out in the order of the records. A request has
//! only so much in memory (`budget`). All this is put together in `stream`, and `send` gives the answers to the client.

mod answers;
mod budget;
mod collect;
pub mod frame;
mod running;
mod send;
mod stream;
#[cfg(test)]
mod tests;
#[cfg(test)]
mod vectors;

use crate::http::Call;
use crate::http::body::{self, Body};
use crate::refusal::{Kind, Refusal};
use crate::rights::{Action, Right};
use hyper::{Method, Response, header};
use stream::Stream;

/// The content type of both ways.
pub const OCTETS: &str = "application/octet-stream";

/// Answers a request under `/v2`.
///
/// # Errors
/// Why it is refused.
pub async fn answer(call: &mut Call) -> Result<Response<Body>, Refusal> {
    let action = match call.parts().as_slice() {
        ["seal"] => Action::Seal,
        ["open"] => Action::Open,
        ["rewrap"] => Action::Rewrap,
        _ => return Err(Refusal::not_found("unsupported path")),
    };
    call.note.action = action.name();
    check(call, action)?;
    let body = std::mem::replace(&mut call.body, body::empty());
    let mut stream = Stream::new(&call.server, &call.caller, call.share.clone(), action, body);
    while !stream.has_ready() && !stream.is_finished() {
        stream.go_on().await;
        if let Some(refusal) = stream.refusal() {
            return Err(refusal);
        }
    }
    Ok(send::begin(call, stream))
}

fn no_method() -> Refusal {
    Refusal::new(Kind::Method, "unsupported operation")
}

/// Refuses what is wrong with the request as a whole.
fn check(call: &Call, action: Action) -> Result<(), Refusal> {
    if call.method != Method::POST {
        return Err(no_method());
    }
    let header = |name| call.headers.get(name).map(|value| value.to_str().unwrap_or("?"));
    let kind = header(header::CONTENT_TYPE).map(|kind| kind.split(';').next().unwrap_or(kind).trim());
    if kind.is_some_and(|kind| !kind.eq_ignore_ascii_case(OCTETS)) {
        return Err(Refusal::invalid("the content type must be application/octet-stream"));
    }
    if header(header::CONTENT_ENCODING).is_some_and(|coding| !coding.eq_ignore_ascii_case("identity")) {
        return Err(Refusal::invalid("the body must not be compressed"));
    }
    if !may_ever(call, action) {
        return Err(Refusal::denied());
    }
    if hyper::body::Body::size_hint(&call.body).lower() > call.server.limits.stream_bytes {
        return Err(stream::too_long(&call.server));
    }
    Ok(())
}

/// Whether the caller may do it with any key at all.
fn may_ever(call: &Call, action: Action) -> bool {
    let rights = &call.caller.rights.list;
    let has = |action| rights.iter().any(|right| matches!(right, Right::Key(own, _) if *own == action));
    let is_admin = rights.contains(&Right::Admin);
    is_admin || has(action) || action == Action::Rewrap && has(Action::Seal) && has(Action::Open)
}
