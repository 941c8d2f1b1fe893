//! Where a request goes, and what is written of it.

use super::asked::Asked;
use super::body::Body;
use super::caller::{caller, latest, remote};
use super::edge::Edge;
use super::listen::Peer;
use super::target::{name_of, read_target};
use super::watch::Watch;
use super::{Call, refused, unasked};
use crate::audit::Note;
use crate::in_flight::{Permit, Share};
use crate::refusal::{Kind, Refusal};
use crate::{manage, records, transit};
use hyper::body::Body as _;
use hyper::header::{HeaderValue, ORIGIN};
use hyper::http::request::Parts;
use hyper::{Method, Request, Response};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
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
        Err(refusal) => {
            return asked.refuse_stranger(&Note { action: "malformed", ..Note::default() }, &refusal).await;
        }
    };
    // Who memory says it is. What needs no caller does not wait for the store.
    let known = caller(edge, peer, &head.headers);
    let is_in_memory = known.is_ok();
    let unasked = unasked::answer(edge, peer, &target, &head.headers);
    let caller = if unasked.is_some() { known } else { latest(edge, peer, &head.headers, known).await };
    let met = if is_in_memory || caller.is_ok() {
        edge.connections.meet(&edge.server.limits, watch, peer.holder())
    } else {
        watch.is_strange();
        Ok(())
    };
    if let Some(answer) = unasked.or_else(|| unasked::answer_to(edge, &target, caller.as_ref())) {
        return answer;
    }
    let caller = match caller {
        Ok(caller) => caller,
        Err(refusal) => {
            if let Peer::Address { certificate: Some(fingerprint), .. } = peer {
                asked.caller = format!("none cert:{fingerprint}");
            }
            let note = Note { action: "denied", path: target.path.shown(), ..Note::default() };
            return asked.refuse_stranger(&note, &refusal).await;
        }
    };
    asked.caller.clone_from(&caller.name);
    *share = edge.server.shares.of(&caller.account);
    if let Err(refusal) = met {
        edge.server.metrics.connections_refused.fetch_add(1, Relaxed);
        return asked.refuse("too many", &refusal).await;
    }
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::changes::By;
    use crate::http::room::Who;
    use crate::http::{Peers, body};
    use crate::server::tests::{Bench, admin};
    use std::sync::atomic::Ordering::SeqCst;
    use std::time::Duration;
    use tokio::time::timeout;

    /// The status of an answer to a client with a token, and whether the connection stays.
    async fn asked(edge: &Arc<Edge>, path: &str, token: &str) -> (u16, bool) {
        let peer = Peer::Address { address: "192.0.2.1:1".parse().unwrap(), certificate: None };
        let request = Request::get(path).header("host", "localhost").header("x-vault-token", token);
        let watch = Watch::new();
        let answered = answer(edge, &peer, &watch, request.body(body::empty()).unwrap());
        let (answer, _) = timeout(Duration::from_secs(60), answered).await.expect("it waits");
        (answer.status().as_u16(), watch.is_known())
    }

    #[tokio::test]
    async fn what_needs_no_caller_does_not_wait_for_the_store() {
        let bench = Bench::new(true).await;
        let edge = Arc::new(Edge::new(bench.server.clone(), Peers::default()).unwrap());
        bench.switches.hangs.store(true, SeqCst);
        for path in ["/healthz", "/v2/limits", "/v1/sys/health", "/v1/sys/seal-status"] {
            assert_eq!(asked(&edge, path, "phx.nobody").await, (200, false), "{path}");
        }
        bench.switches.hangs.store(false, SeqCst);
        assert_eq!(asked(&edge, "/metrics", "phx.nobody").await, (403, false));
    }

    #[tokio::test]
    async fn the_owner_of_a_certificate_is_one_caller() {
        let mut bench = Bench::new(false).await;
        Arc::get_mut(&mut bench.server).unwrap().limits.connections_of_one = 1;
        let edge = Arc::new(Edge::new(bench.server.clone(), Peers::default()).unwrap());
        let (token, _) = bench.server.create_token(&By::Admin, admin()).await.unwrap();
        let mut kept = Vec::new();
        for (last, status) in [(1, 200), (2, 429)] {
            let address = std::net::SocketAddr::from(([192, 0, 2, last], 1));
            let accepted = Peer::Address { address, certificate: None };
            let watch = edge.connections.add(&edge.server.limits, Who::Stranger, accepted.holder()).unwrap();
            let peer = Peer::Address { address, certificate: Some("ab".repeat(32)) };
            let request = Request::get("/v1/auth/token/lookup-self").header("host", "localhost");
            let request = request.header("x-vault-token", token.as_str()).body(body::empty()).unwrap();
            let (answer, _) = answer(&edge, &peer, &watch, request).await;
            assert_eq!((answer.status().as_u16(), watch.is_known()), (status, status == 200));
            assert_eq!(answer.headers().contains_key("retry-after"), status == 429);
            kept.push(watch);
        }
    }

    #[tokio::test]
    async fn known_clients_keep_their_connections_while_the_store_is_away() {
        let bench = Bench::new(true).await;
        let edge = Arc::new(Edge::new(bench.server.clone(), Peers::default()).unwrap());
        let (token, _) = bench.server.create_token(&By::Admin, admin()).await.unwrap();
        assert_eq!(asked(&edge, "/v2/manage/tokens", &token).await, (200, true));
        bench.server.follow.end_lease();
        for path in ["/v2/manage/tokens", "/metrics", "/healthz"] {
            assert_eq!(asked(&edge, path, &token).await, (503, true), "{path}");
            assert_eq!(asked(&edge, path, "phx.nobody").await, (503, false), "{path}");
        }
    }
}
