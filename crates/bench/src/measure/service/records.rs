//! Records as they lie in an octet stream: lengths first, then the key's name, the user, associated data and the text.

use super::client::{Address, Client};
use super::transit::{head, user};
use crate::measure::{Error, Result};

/// Adds a record. Its text is written by `write`.
pub fn push(to: &mut Vec<u8>, key: &str, user: &[u8], len: usize, write: impl FnOnce(&mut [u8])) {
    to.extend_from_slice(&(key.len() as u16).to_le_bytes());
    to.extend_from_slice(&(user.len() as u16).to_le_bytes());
    to.extend_from_slice(&0u32.to_le_bytes());
    to.extend_from_slice(&(len as u32).to_le_bytes());
    to.extend_from_slice(key.as_bytes());
    to.extend_from_slice(user);
    let at = to.len();
    to.resize(at + len, 0);
    write(&mut to[at..]);
}

/// The length of a record.
pub fn len(key: &str, user: usize, text: usize) -> usize {
    12 + key.len() + user + text
}

/// Records of these users, with texts of one length.
pub fn stream(key: &str, users: std::ops::Range<usize>, text: usize) -> Vec<u8> {
    let mut all = Vec::with_capacity(users.len() * len(key, user(0).len(), text));
    users.for_each(|i| {
        push(&mut all, key, user(i).as_bytes(), text, |place| place.copy_from_slice(&super::transit::text(i, text)))
    });
    all
}

/// The head of a request that seals a stream of this length.
pub fn seal(token: &str, len: usize) -> Vec<u8> {
    head("POST", "/v2/seal", token, "application/octet-stream", Some(len)).into_bytes()
}

/// Seals and opens some records, and fails unless their texts come back. What one user has sealed, no other may open.
pub fn check(address: &Address, token: &str, key: &str) -> Result<()> {
    let mut client = Client::connect(address)?;
    let mut ask = |path: &str, body: &[u8]| -> Result<Vec<(u16, Vec<u8>)>> {
        let mut request = head("POST", path, token, "application/octet-stream", Some(body.len())).into_bytes();
        request.extend_from_slice(body);
        answers(client.ask(&request)?).ok_or_else(|| Error::NotRun("the server's records end too early".into()))
    };
    let sealed = ask("/v2/seal", &stream(key, 0..3, 100))?;
    let open = |first: usize| {
        let mut all = Vec::new();
        for (i, (_, sealed)) in (first..).zip(&sealed) {
            push(&mut all, key, user(i).as_bytes(), sealed.len(), |place| place.copy_from_slice(sealed));
        }
        all
    };
    let opened = ask("/v2/open", &open(0))?;
    let want = (0..3).map(|i| (0, super::transit::text(i, 100)));
    if !opened.iter().cloned().eq(want) {
        let statuses: Vec<u16> = sealed.iter().chain(&opened).map(|(status, _)| *status).collect();
        return Err(Error::NotRun(format!("the server does not open what it has sealed: statuses {statuses:?}")));
    }
    match ask("/v2/open", &open(1))?.iter().all(|(status, _)| *status != 0) {
        true => Ok(()),
        false => Err(Error::Program("phalanx-server: another user opens a record".into())),
    }
}

/// The answers to records: their statuses and bytes.
fn answers(mut body: &[u8]) -> Option<Vec<(u16, Vec<u8>)>> {
    let mut all = Vec::new();
    while !body.is_empty() {
        let (head, rest) = body.split_at_checked(8)?;
        let len = u32::from_le_bytes(head[4..].try_into().ok()?) as usize;
        let (bytes, rest) = rest.split_at_checked(len)?;
        all.push((u16::from_le_bytes([head[0], head[1]]), bytes.to_vec()));
        body = rest;
    }
    Some(all)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_lie_as_documented() {
        let mut all = Vec::new();
        push(&mut all, "k", b"ab", 3, |text| text.copy_from_slice(b"xyz"));
        assert_eq!(all, b"\x01\0\x02\0\0\0\0\0\x03\0\0\0kabxyz");
        assert_eq!(all.len(), len("k", 2, 3));
        assert_eq!(stream("k", 5..8, 100).len(), 3 * len("k", user(5).len(), 100));
        assert_eq!(answers(b"\0\0\0\0\x01\0\0\0x\x93\x01\0\0\0\0\0\0"), Some(vec![(0, b"x".to_vec()), (403, vec![])]));
        assert_eq!(answers(b"\0\0\0\0\x02\0\0\0x"), None);
        assert!(String::from_utf8(seal("", 9)).unwrap().contains("Content-Length: 9\r\n"));
    }
}
