//! What the server tells without knowing who asks.

use super::body::Body;
use super::edge::Edge;
use super::listen::Peer;
use super::route::Target;
use super::{caller, json, refused, response};
use crate::refusal::{Kind, Refusal};
use crate::transit;
use hyper::{HeaderMap, Method, Response};

/// The answer to a path that anybody may read, or nothing if it is not one.
pub fn answer(edge: &Edge, peer: &Peer, target: &Target, headers: &HeaderMap) -> Option<Response<Body>> {
    if target.method != Method::GET && target.method != Method::HEAD {
        return None;
    }
    let path: Vec<&str> = target.path.parts.iter().map(String::as_str).collect();
    match path.as_slice() {
        ["healthz"] => Some(health(edge)),
        ["v2", "limits"] => Some(json(200, &edge.server.limits)),
        ["metrics"] => Some(told(edge, peer, headers, metrics)),
        ["v2", "status"] => Some(told(edge, peer, headers, status)),
        ["v1", "sys", rest @ ..] => transit::sys(&edge.server, rest, &target.query),
        _ => None,
    }
}

fn health(edge: &Edge) -> Response<Body> {
    match trouble(edge) {
        Some(trouble) => response(503, "text/plain", format!("{trouble}\n")),
        None => response(200, "text/plain", "ok\n"),
    }
}

/// Why the server does not serve, if it does not.
fn trouble(edge: &Edge) -> Option<&'static str> {
    if edge.is_draining() {
        Some("draining")
    } else if edge.server.audit.is_broken() {
        Some("the audit log cannot be written")
    } else {
        None
    }
}

/// What processes of this machine and callers who are known are told.
fn told(edge: &Edge, peer: &Peer, headers: &HeaderMap, tell: fn(&Edge) -> Response<Body>) -> Response<Body> {
    let is_local = match peer {
        Peer::User(_) => true,
        Peer::Address { address, .. } => address.ip().is_loopback(),
    };
    if !is_local && caller::caller(edge, peer, headers).is_err() {
        return refused(&Refusal::denied());
    }
    tell(edge)
}

fn metrics(edge: &Edge) -> Response<Body> {
    response(200, "text/plain; version=0.0.4; charset=utf-8", edge.server.metrics.text(edge.gauges()))
}

/// Whether the server serves, since when, and how many connections it has.
fn status(edge: &Edge) -> Response<Body> {
    let (gauges, trouble) = (edge.gauges(), trouble(edge));
    let status = serde_json::json!({
        "serves": trouble.is_none(),
        "state": trouble.unwrap_or("serving"),
        "version": env!("CARGO_PKG_VERSION"),
        "started": edge.server.metrics.started(),
        "connections": gauges.connections,
        "in_flight_bytes": gauges.in_flight,
    });
    json(200, &status)
}

/// The answer to somebody who asks for help.
pub fn help() -> Response<Body> {
    let help = "This server speaks HTTP as Vault's Transit does. docs/server.md describes its paths.";
    json(200, &serde_json::json!({ "help": help, "see_also": [] }))
}

/// The refusal of a method.
pub fn no_method() -> Refusal {
    Refusal::new(Kind::Method, "")
}
