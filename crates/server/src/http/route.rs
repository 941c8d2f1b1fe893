//! Where a request goes, and what is written of it.

use super::body::{Body, hold};
use super::caller::{caller, remote};
use super::edge::Edge;
use super::listen::Peer;
use super::path::{Path, parse_bool, parse_query};
use super::sent::{AtEnd, Closing};
use super::watch::Watch;
use super::{Call, refused, unasked};
use crate::audit::{Entry, Note};
use crate::refusal::{Kind, Refusal};
use crate::{manage, records, transit};
use http_body_util::BodyExt;
use hyper::body::Body as _;
use hyper::header::{HOST, HeaderValue};
use hyper::http::request::Parts;
use hyper::{Method, Request, Response, Version};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};
use tokio::sync::OwnedSemaphorePermit;

/// An answer, with its share of what may be in flight.
pub type Answer = (Response<Body>, Option<OwnedSemaphorePermit>);

/// Answers a request.
pub async fn answer(edge: &Arc<Edge>, peer: &Peer, watch: &Watch, request: Request<Body>) -> Answer {
    let (head, body) = request.into_parts();
    let asked = Asked {
        edge: edge.clone(),
        id: edge.new_id(),
        caller: "none".to_owned(),
        remote: remote(peer),
        method: head.method.to_string(),
        begun: Instant::now(),
    };
    let id = HeaderValue::from_str(&asked.id);
    let mut answer = answer_to(asked, peer, watch, head, body).await;
    if let Ok(id) = id {
        answer.headers_mut().insert("x-request-id", id);
    }
    let permit = answer.body().size_hint().exact().and_then(|bytes| hold(&edge.server, bytes));
    (answer, permit)
}

async fn answer_to(mut asked: Asked, peer: &Peer, watch: &Watch, head: Parts, body: Body) -> Response<Body> {
    let edge = asked.edge.clone();
    let target = match read_target(&head) {
        Ok(target) => target,
        Err(refusal) => return asked.refuse(Note { action: "malformed", ..Note::default() }, &refusal).await,
    };
    if let Some(answer) = unasked::answer(&edge, peer, &target.method, &target.path.parts, &target.query, &head.headers)
    {
        return answer;
    }
    let caller = match caller(&edge, peer, &head.headers) {
        Ok(caller) => caller,
        Err(refusal) => return asked.refuse(Note { action: "denied", ..Note::default() }, &refusal).await,
    };
    watch.is_known();
    asked.caller.clone_from(&caller.name);
    if let Err(refusal) = edge.server.audit.ready().await {
        edge.server.metrics.count(
            &Note { action: "unavailable", ..Note::default() },
            refusal.kind.status(),
            asked.took(),
        );
        return refused(&refusal);
    }
    let mut call = Call {
        server: edge.server.clone(),
        id: asked.id.clone(),
        caller,
        method: target.method,
        path: target.path.parts,
        query: target.query,
        headers: head.headers,
        body,
        note: Note::default(),
        late: None,
    };
    let answered = dispatch(&mut call, target.path.is_folder).await;
    let answered = answered.unwrap_or_else(|refusal| refused(&refusal));
    asked.note(call, answered).await
}

/// What a request asks for.
struct Target {
    method: Method,
    path: Path,
    query: Vec<(String, String)>,
}

fn read_target(head: &Parts) -> Result<Target, Refusal> {
    // Who reads another host than the one before read another request.
    let hosts = head.headers.get_all(HOST).iter().count();
    if hosts > 1 || hosts == 0 && head.version == Version::HTTP_11 {
        return Err(Refusal::invalid("a request has one Host header"));
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
    if !["GET", "HEAD", "LIST", "POST", "PUT", "PATCH", "DELETE"].contains(&call.method.as_str()) {
        return Err(unasked::no_method());
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

/// What is known of a request from its start.
struct Asked {
    edge: Arc<Edge>,
    id: String,
    caller: String,
    remote: String,
    method: String,
    begun: Instant,
}

impl Asked {
    fn took(&self) -> Duration {
        self.begun.elapsed()
    }

    fn entry<'a>(&'a self, note: &'a Note, status: u16, part: Option<&'static str>) -> Entry<'a> {
        let micros = u64::try_from(self.took().as_micros()).unwrap_or(u64::MAX);
        Entry {
            id: &self.id,
            caller: &self.caller,
            remote: &self.remote,
            method: &self.method,
            note,
            status,
            micros,
            part,
        }
    }

    /// Refuses a request that no handler has seen.
    async fn refuse(&self, note: Note, refusal: &Refusal) -> Response<Body> {
        self.write(&note, refused(refusal), None).await
    }

    /// Counts an answer and writes its line, or gives another answer if the line must be written and is not.
    async fn write(&self, note: &Note, answer: Response<Body>, part: Option<&'static str>) -> Response<Body> {
        let server = &self.edge.server;
        let status = answer.status().as_u16();
        let written = server.audit.write(self.entry(note, status, part)).await;
        let answer = match written {
            Ok(()) => answer,
            Err(refusal) => refused(&refusal),
        };
        server.metrics.count(note, answer.status().as_u16(), self.took());
        answer
    }

    /// Writes what the handler of a call has noted.
    async fn note(self, call: Call, answer: Response<Body>) -> Response<Body> {
        let mut note = call.note;
        if note.action.is_empty() {
            note.action = "other";
        }
        let Some(late) = call.late else { return self.write(&note, answer, None).await };
        let answer = self.write(&note, answer, Some("begin")).await;
        let late = Late { asked: self, note: late, status: answer.status().as_u16(), is_over: false };
        answer.map(|body| Closing::new(body, late.at_end()).boxed_unsync())
    }
}

/// The second line of a request whose answer is sent while the work goes on.
struct Late {
    asked: Asked,
    note: Arc<Mutex<Note>>,
    status: u16,
    is_over: bool,
}

impl Late {
    fn noted(&self) -> Note {
        self.note.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Writes the line, or the line of a broken answer if this is dropped before it ends.
    fn at_end(self) -> AtEnd {
        Box::pin(async move {
            let mut late = self;
            let note = late.noted();
            let server = late.asked.edge.server.clone();
            server.metrics.count_items(&note);
            let written = server.audit.write(late.asked.entry(&note, late.status, Some("end"))).await;
            late.is_over = true;
            drop(late);
            written.map_err(Into::into)
        })
    }
}

impl Drop for Late {
    fn drop(&mut self) {
        if !self.is_over {
            let note = self.noted();
            self.asked.edge.server.audit.write_soon(self.asked.entry(&note, self.status, Some("broken")));
        }
    }
}
