//! Who asks.

use super::edge::Edge;
use super::listen::Peer;
use crate::caller::Caller;
use crate::refusal::Refusal;
use hyper::HeaderMap;
use hyper::header::AUTHORIZATION;

/// Who asks, as memory knows: the owner of the token or, without one, a user of this machine or the owner of a certificate. A token that is
/// not valid is refused whoever sends it.
///
/// # Errors
/// If nobody is known.
pub fn caller(edge: &Edge, peer: &Peer, headers: &HeaderMap) -> Result<Caller, Refusal> {
    if let Some(text) = token(headers)? {
        let (token, account) = edge.server.tokens.find_caller(text).ok_or_else(Refusal::denied)?;
        let mut name = format!("token:{}", token.record.accessor);
        if let Peer::Address { certificate: Some(fingerprint), .. } = peer {
            name.push_str(" cert:");
            name.push_str(fingerprint);
        }
        return Ok(Caller { name, account, rights: token.rights.clone(), token: Some(token) });
    }
    let (name, rights) = edge.peers.find(peer).ok_or_else(Refusal::denied)?;
    Ok(Caller { account: name.as_str().into(), name, rights, token: None })
}

/// Who asks, who was found in memory or not: also the owner of a token that another server has made a moment ago.
///
/// When memory may be too old, nobody is known, and this does not wait for the store.
/// [`Server::follow`](crate::server::Server::follow) asks the store until it answers.
///
/// # Errors
/// If nobody is known, or the store cannot say.
pub async fn latest(
    edge: &Edge,
    peer: &Peer,
    headers: &HeaderMap,
    found: Result<Caller, Refusal>,
) -> Result<Caller, Refusal> {
    edge.server.is_current()?;
    if found.is_err() && matches!(token(headers), Ok(Some(_))) {
        edge.server.catch_up().await?;
        return caller(edge, peer, headers);
    }
    found
}

/// The token that is sent, as Vault reads it: an empty one is none.
fn token(headers: &HeaderMap) -> Result<Option<&str>, Refusal> {
    let text = |value: &'_ hyper::header::HeaderValue| value.to_str().map(|_| ()).map_err(|_| Refusal::denied());
    let mut named = headers.get_all("x-vault-token").iter().filter(|value| !value.is_empty());
    if let Some(value) = named.next() {
        text(value)?;
        // Of two different tokens, none is the one that was meant.
        return if named.all(|other| other == value) { Ok(value.to_str().ok()) } else { Err(Refusal::denied()) };
    }
    for value in headers.get_all(AUTHORIZATION) {
        if let Some(bearer) = value.as_bytes().strip_prefix(b"Bearer ") {
            let bearer = std::str::from_utf8(bearer).map_err(|_| Refusal::denied())?.trim();
            return Ok(Some(bearer).filter(|bearer| !bearer.is_empty()));
        }
    }
    Ok(None)
}

/// From where somebody asks, for the audit log.
pub fn remote(peer: &Peer) -> String {
    match peer {
        Peer::User(uid) => format!("uid:{uid}"),
        Peer::Address { address, .. } => address.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(headers: &[(&'static str, &'static [u8])]) -> Result<Option<String>, ()> {
        let mut map = HeaderMap::new();
        for (name, value) in headers {
            map.append(*name, hyper::header::HeaderValue::from_bytes(value).unwrap());
        }
        token(&map).map(|token| token.map(str::to_owned)).map_err(|_| ())
    }

    #[test]
    fn tokens_are_found() {
        assert_eq!(read(&[]), Ok(None));
        assert_eq!(read(&[("x-vault-token", b"")]), Ok(None));
        assert_eq!(read(&[("x-vault-token", b"a"), ("authorization", b"Bearer b")]), Ok(Some("a".into())));
        assert_eq!(read(&[("x-vault-token", b""), ("authorization", b"Bearer  b ")]), Ok(Some("b".into())));
        assert_eq!(read(&[("authorization", b"Basic b")]), Ok(None));
        assert_eq!(read(&[("authorization", b"Basic b"), ("authorization", b"Bearer c")]), Ok(Some("c".into())));
        assert_eq!(read(&[("x-vault-token", b"a"), ("x-vault-token", b"b")]), Err(()));
        assert_eq!(read(&[("x-vault-token", b"\xff")]), Err(()));
        assert_eq!(read(&[("authorization", b"Bearer \xff")]), Err(()));
    }
}
