//! What the server tells without knowing who asks.

use super::body::Body;
use super::edge::Edge;
use super::listen::Peer;
use super::target::Target;
use super::{json, refused, response};
use crate::caller::Caller;
use crate::refusal::{Kind, Refusal};
use crate::transit;
use hyper::header::HOST;
use hyper::{HeaderMap, Method, Response};
use std::net::{Ipv4Addr, Ipv6Addr};

/// The answer to a path that anybody may read, or any process of this machine. Nothing if it is not one.
pub fn answer(edge: &Edge, peer: &Peer, target: &Target, headers: &HeaderMap) -> Option<Response<Body>> {
    match path(target)?.as_slice() {
        ["healthz"] => Some(health(edge)),
        ["v2", "limits"] => Some(json(200, &edge.server.limits)),
        ["v1", "sys", "health"] if let Some(trouble) = trouble(edge) => Some(refused(&unavailable(trouble))),
        ["v1", "sys", rest @ ..] => transit::sys(&edge.server, rest, &target.query),
        path if is_local(peer, headers) => told(path).map(|tell| tell(edge)),
        _ => None,
    }
}

/// The answer to a path that callers with any right may read too, or nothing if it is not one.
pub fn answer_to(edge: &Edge, target: &Target, caller: Result<&Caller, &Refusal>) -> Option<Response<Body>> {
    let tell = told(&path(target)?)?;
    Some(match caller {
        Ok(caller) if !caller.rights.list.is_empty() => tell(edge),
        Ok(_) => refused(&Refusal::denied()),
        Err(refusal) => refused(refusal),
    })
}

/// The path of a request that reads something.
fn path(target: &Target) -> Option<Vec<&str>> {
    let reads = target.method == Method::GET || target.method == Method::HEAD;
    reads.then(|| target.path.parts.iter().map(String::as_str).collect())
}

/// The pages for processes of this machine, and for callers with any right.
fn told(path: &[&str]) -> Option<fn(&Edge) -> Response<Body>> {
    match path {
        ["metrics"] => Some(metrics),
        ["v2", "status"] => Some(status),
        _ => None,
    }
}

/// Whether a process of this machine asks.
fn is_local(peer: &Peer, headers: &HeaderMap) -> bool {
    match peer {
        Peer::User(_) => true,
        Peer::Address { address, .. } => address.ip().is_loopback() && names_this_machine(headers),
    }
}

fn unavailable(trouble: &'static str) -> Refusal {
    Refusal::new(Kind::Unavailable, trouble)
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
    } else if edge.server.is_current().is_err() {
        Some("the store cannot be reached")
    } else {
        None
    }
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

/// Whether the host is `localhost` or an address. A page of a browser on this machine has another one, whatever its name
/// resolves to.
fn names_this_machine(headers: &HeaderMap) -> bool {
    let host = headers.get(HOST).and_then(|host| host.to_str().ok()).unwrap_or("");
    let is_port = |port: &str| port.bytes().all(|digit| digit.is_ascii_digit());
    let name = host.rsplit_once(':').filter(|(_, port)| is_port(port)).map_or(host, |(name, _)| name);
    match name.strip_prefix('[').and_then(|name| name.strip_suffix(']')) {
        Some(inner) => inner.parse::<Ipv6Addr>().is_ok(),
        None => name.eq_ignore_ascii_case("localhost") || name.parse::<Ipv4Addr>().is_ok(),
    }
}

/// The answer to somebody who asks for help.
pub fn help() -> Response<Body> {
    let help = "This server speaks HTTP as Vault's Transit does. docs/server.md describes its paths.";
    json(200, &serde_json::json!({ "help": help, "see_also": [] }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_names_that_nobody_else_can_give_are_of_this_machine() {
        let is_local = |host: &'static str| {
            names_this_machine(&HeaderMap::from_iter([(HOST, hyper::header::HeaderValue::from_static(host))]))
        };
        for host in ["localhost", "LOCALHOST:80", "127.0.0.1", "127.0.0.1:8200", "[::1]", "[::1]:8200"] {
            assert!(is_local(host), "{host}");
        }
        for host in
            ["", "evil.example", "evil.example:8200", "127.0.0.1.evil.example:1", "localhost.evil", "[::1", "1:2:3"]
        {
            assert!(!is_local(host), "{host}");
        }
        assert!(!names_this_machine(&HeaderMap::new()));
    }
}
