//! Where a request goes, and what is written of it.

use super::asked::Asked;
use super::body::Body;
use super::caller::{find_caller, remote};
use super::edge::Edge;
use super::listen::Peer;
use super::path::{Path, parse_bool, parse_query};
use super::watch::Watch;
use super::{Call, refused, unasked};
use crate::audit::Note;
use crate::in_flight::{Permit, Share};
use crate::refusal::{Kind, Refusal};
use crate::{manage, records, transit};
use hyper::body::Body as _;
use hyper::header::{HOST, HeaderValue, ORIGIN};
use hyper::http::request::Parts;
use hyper::{Method, Request, Response, Version};
use std::sync::Arc;
use std::time::Instant;

/// An answer, with its share of what may be in flight.
pub type Answer = (Response<Body>, Option<Permit>);

/// Answers a request.
pub async fn answer(edge: &Arc<Edge>, peer: &Peer, watch: &Watch, request: Request<Body>) -> Answer {
    let (head, body) = request.into_parts();
    let asked = Asked::new(edge.server.clone(), edge.new_id(), remote(peer), name_of(&head.method));
    let id = HeaderValue::from_str(&asked.id);
    let mut share = edge.server.shares.of(&asked.caller);
    let mut answer = answer_to(edge, asked, peer, watch, head, body, &mut share).await;
    if let Ok(id) = id {
        answer.headers_mut().insert("x-request-id", id);
    }
    let permit = answer.body().size_hint().exact().and_then(|bytes| share.take_some(bytes));
    (answer, permit)
}

async fn answer_to(
    edge: &Edge,
    mut asked: Asked,
    peer: &Peer,
    watch: &Watch,
    head: Parts,
    body: Body,
    share: &mut Share,
) -> Response<Body> {
    let target = match read_target(&head) {
        Ok(target) => target,
        Err(refusal) => return asked.refuse("malformed", &refusal).await,
    };
    let caller = find_caller(edge, peer, &head.headers).await;
    match &caller {
        Ok(_) => edge.connections.meet(&edge.server.limits, watch),
        Err(_) => watch.is_strange(),
    }
    if let Some(answer) = unasked::answer(edge, peer, &target, &head.headers, caller.as_ref().ok()) {
        return answer;
    }
    let caller = match caller {
        Ok(caller) => caller,
        Err(refusal) => {
            if let Peer::Address { certificate: Some(fingerprint), .. } = peer {
                asked.caller = format!("none cert:{fingerprint}");
            }
            let note = Note { action: "denied", path: target.path.shown(), ..Note::default() };
            return asked.finish(&note, refused(&refusal)).await;
        }
    };
    asked.caller.clone_from(&caller.name);
    *share = edge.server.shares.of(&caller.account);
    // A page of another site can make a browser send its owner's certificate, but no token.
    if caller.token.is_none() && head.headers.contains_key(ORIGIN) {
        return asked.refuse("denied", &Refusal::denied()).await;
    }
    if let Err(refusal) = edge.server.rates.take(&caller.account, Instant::now()) {
        return asked.refuse("too many", &refusal).await;
    }
    if let Err(refusal) = edge.server.audit.ready().await {
        asked.count(&Note { action: "unavailable", ..Note::default() }, refusal.kind.status());
        return refused(&refusal);
    }
    let is_folder = target.path.is_folder;
    let asked = Arc::new(asked);
    let mut call = Call {
        server: edge.server.clone(),
        id: asked.id.clone(),
        caller,
        share: share.clone(),
        method: target.method,
        path: target.path.parts,
        query: target.query,
        headers: head.headers,
        body,
        note: Note { action: "other", ..Note::default() },
        asked: asked.clone(),
    };
    let answered = dispatch(&mut call, is_folder).await;
    asked.finish(&call.note, answered.unwrap_or_else(|refusal| refused(&refusal))).await
}

/// What a request asks for.
pub struct Target {
    /// The method, as [`Call::method`].
    pub method: Method,
    /// The path, with its version.
    pub path: Path,
    /// The query, decoded.
    pub query: Vec<(String, String)>,
}

fn read_target(head: &Parts) -> Result<Target, Refusal> {
    // Who reads another host than the one before read another request.
    let hosts = head.headers.get_all(HOST).iter().count();
    if hosts > 1 || hosts == 0 && head.version == Version::HTTP_11 {
        return Err(Refusal::invalid("a request has one Host header"));
    }
    if name_of(&head.method) == OTHER {
        return Err(unasked::no_method());
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
fn name_of(method: &Method) -> &'static str {
    const KNOWN: [&str; 8] = ["GET", "HEAD", "LIST", "HELP", "POST", "PUT", "PATCH", "DELETE"];
    KNOWN.into_iter().find(|name| *name == method.as_str()).unwrap_or(OTHER)
}

fn named(method: &str) -> Method {
    Method::from_bytes(method.as_bytes()).unwrap_or(Method::GET)
}

async fn dispatch(call: &mut Call, is_folder: bool) -> Result<Response<Body>, Refusal> {
    let wraps = call
        .headers
        .get("x-vault-wrap-ttl")
        .is_some_and(|ttl| !["", "0", "0s"].map(str::as_bytes).contains(&ttl.as_bytes()));
    if wraps {
        return Err(Refusal::invalid("wrapped answers are not supported: X-Vault-Wrap-TTL must be absent"));
    }
    if is_folder && (call.method == Method::POST || call.method == Method::PUT) {
        return Err(Refusal::invalid("cannot write to a path ending in '/'"));
    }
    if call.method.as_str() == "HELP" {
        call.note.action = "help";
        return Ok(unasked::help());
    }
    let mut parts = std::mem::take(&mut call.path).into_iter();
    let version = parts.next();
    call.path = parts.collect();
    match version.as_deref() {
        Some("v1") => transit::answer(call).await,
        Some("v2") if call.path.first().is_some_and(|part| part == "manage") => manage::answer(call).await,
        Some("v2") => records::answer(call).await,
        _ => Err(no_path()),
    }
}

/// The refusal of a path that leads nowhere.
pub fn no_path() -> Refusal {
    Refusal::new(Kind::NotFound, "unsupported path")
}
