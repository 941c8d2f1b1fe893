//! Where a request goes.

use super::body::Body;
use super::{Call, Peer, refused, response};
use crate::audit::Note;
use crate::caller::Caller;
use crate::refusal::{Kind, Refusal};
use crate::rights::Rights;
use crate::server::Server;
use crate::{records, transit};
use hyper::{HeaderMap, Method, Request, Response};
use std::borrow::Cow;
use std::sync::Arc;

/// Answers a request.
pub async fn answer(server: &Arc<Server>, peer: &Peer, request: Request<Body>) -> Response<Body> {
    let (head, body) = request.into_parts();
    let query = parse_query(head.uri.query().unwrap_or(""));
    let path: Option<Vec<String>> = head.uri.path().trim_matches('/').split('/').map(decode).collect();
    let Some(path) = path else { return refused(&Refusal::invalid("the path is not valid")) };
    if let Some(answer) = open_to_all(server, &head.method, &path, &query) {
        return answer;
    }
    let caller = match caller(server, peer, &head.headers) {
        Ok(caller) => caller,
        Err(refusal) => return refused(&refusal),
    };
    let name = caller.name.clone();
    let mut call = Call {
        server: server.clone(),
        caller,
        method: head.method,
        path,
        query,
        headers: head.headers,
        body,
        note: Note::default(),
    };
    let answered = dispatch(&mut call).await;
    let answered = answered.unwrap_or_else(|refusal| refused(&refusal));
    match server.audit.write(&name, &call.note, answered.status().as_u16()).await {
        Ok(()) => answered,
        Err(refusal) => refused(&refusal),
    }
}

/// What needs no caller.
fn open_to_all(server: &Server, _method: &Method, path: &[String], query: &[(String, String)]) -> Option<Response<Body>> {
    let path: Vec<&str> = path.iter().map(String::as_str).collect();
    match path.as_slice() {
        ["healthz"] => Some(response(200, "text/plain", "ok\n")),
        ["v1", "sys", rest @ ..] => transit::sys(server, rest, query),
        _ => None,
    }
}

async fn dispatch(call: &mut Call) -> Result<Response<Body>, Refusal> {
    let path: Vec<String> = std::mem::take(&mut call.path);
    let mut parts = path.into_iter();
    let version = parts.next();
    call.path = parts.collect();
    match version.as_deref() {
        Some("v1") => transit::answer(call).await,
        Some("v2") => records::answer(call).await,
        _ => Err(no_path()),
    }
}

/// The refusal of a path that leads nowhere.
pub fn no_path() -> Refusal {
    Refusal::new(Kind::NotFound, "unsupported path")
}

/// Who asks: the owner of the token or, without one, a user of this machine.
fn caller(server: &Server, peer: &Peer, headers: &HeaderMap) -> Result<Caller, Refusal> {
    let value = |name| headers.get(name).and_then(|value| value.to_str().ok());
    let bearer = || value("authorization")?.strip_prefix("Bearer ");
    if let Some(text) = value("x-vault-token").or_else(bearer) {
        let token = server.tokens.find(text).ok_or_else(Refusal::denied)?;
        let name = format!("token:{}", token.record.accessor);
        return Ok(Caller { name, rights: token.rights.clone(), token: Some(token) });
    }
    match peer {
        Peer::User(uid) if *uid == 0 || *uid == rustix::process::geteuid().as_raw() => {
            Ok(Caller { name: format!("uid:{uid}"), rights: Arc::new(Rights::all()), token: None })
        }
        _ => Err(Refusal::new(Kind::Denied, "missing client token")),
    }
}

fn parse_query(query: &str) -> Vec<(String, String)> {
    let pair = |part: &str| {
        let (name, value) = part.split_once('=').unwrap_or((part, ""));
        Some((decode(&name.replace('+', " "))?, decode(&value.replace('+', " "))?))
    };
    query.split('&').filter(|part| !part.is_empty()).filter_map(pair).collect()
}

/// Decodes %XX.
fn decode(text: &str) -> Option<String> {
    if !text.contains('%') {
        return Some(text.to_owned());
    }
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((first, behind)) = rest.split_first() {
        rest = behind;
        if *first != b'%' {
            bytes.push(*first);
            continue;
        }
        let (hex, behind) = rest.split_at_checked(2)?;
        let hex: Cow<'_, str> = String::from_utf8_lossy(hex);
        bytes.push(u8::from_str_radix(&hex, 16).ok()?);
        rest = behind;
    }
    String::from_utf8(bytes).ok()
}
