//! The expected result for a file, from the format's section 5 and from all slots and chunks that were ever made.

use crate::made::{Chunk, KDFS, LIMIT, Made, Way, shape};
use phalanx_core::{Error, KeyId};
use phalanx_reference as reference;
use std::rc::Rc;

/// The given keys and passwords.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hand {
    pub keys: [bool; 2],
    pub password: bool,
}

#[derive(Debug, PartialEq, Eq)]
pub enum Outcome {
    NotPhalanx,
    Version(u8),
    Header,
    KdfLimit,
    /// No key or password fits any slot: the ids of the key slots, and whether there are age slots and password slots.
    NoKey(Vec<[u8; 16]>, bool, bool),
    WrongKey,
    Altered,
    Opens,
}

pub struct Expected {
    pub outcome: Outcome,
    pub chunk_len: usize,
    /// Whether the length is impossible.
    pub cut: bool,
    /// Each chunk, or `None` if it is not authentic.
    pub chunks: Vec<Option<Rc<Chunk>>>,
}

impl Expected {
    pub fn first_bad(&self) -> Option<usize> {
        self.chunks.iter().position(Option::is_none)
    }

    /// The plaintext of the authentic chunks before the first bad one.
    pub fn authentic(&self) -> Vec<u8> {
        // If this compared byte by byte, each comparison would be reported to the fuzzer, which took two fifths of all time.
        let chunks: Vec<&[u8]> =
            self.chunks.iter().map_while(Option::as_ref).map(|chunk| &chunk.plaintext[..]).collect();
        chunks.concat()
    }

    /// Whether the core may give this result. If the length is wrong, a stream may first find a bad chunk.
    pub fn agrees<T>(&self, found: &Result<T, Error>) -> bool {
        match (&self.outcome, found) {
            (Outcome::Opens, Ok(_))
            | (Outcome::NotPhalanx, Err(Error::NotPhalanx))
            | (Outcome::Header, Err(Error::Header(_) | Error::Volume))
            | (Outcome::KdfLimit, Err(Error::KdfLimit(_)))
            | (Outcome::WrongKey, Err(Error::WrongKey)) => true,
            (Outcome::Version(expected), Err(Error::Version(version))) => expected == version,
            (Outcome::NoKey(ids, has_age, has_password), Err(Error::NoKey { keys, identity, password, .. })) => {
                let ids: Vec<_> = ids.iter().map(|id| KeyId(*id)).collect();
                *keys == ids && identity == has_age && password == has_password
            }
            (Outcome::Altered, Err(Error::Altered { chunk, .. })) => {
                self.chunks.get(*chunk as usize).is_some_and(Option::is_none)
            }
            (Outcome::Altered, Err(Error::Truncated(_) | Error::Extended(_))) => true,
            _ => false,
        }
    }
}

pub fn expect(made: &mut Made, hand: Hand, bytes: &[u8]) -> Expected {
    let fail = |outcome| Expected { outcome, chunk_len: 0, cut: false, chunks: Vec::new() };
    let header = match reference::read_header(bytes) {
        // The config of a volume.
        Ok(header) if header.slots.iter().any(|(kind, _)| *kind == 16) => return fail(Outcome::Header),
        Ok(header) => header,
        Err(reference::Error::NotPhalanx) => return fail(Outcome::NotPhalanx),
        Err(reference::Error::Version) => return fail(Outcome::Version(bytes[7])),
        Err(_) => return fail(Outcome::Header),
    };
    let file_key = match unlock(made, hand, &bytes[..header.len], &header) {
        Ok(file_key) => file_key,
        Err(outcome) => return fail(outcome),
    };
    let chunk_len = 1 << header.chunk_log2;
    let body = &bytes[header.len..];
    let head = shape(header.suite).overhead();
    let records: Vec<_> = body.chunks(head + chunk_len).collect();
    let short = records.last().is_none_or(|last| last.len() < head || (last.len() == head && records.len() > 1));
    let authentic = |(index, record): (usize, &&[u8])| {
        made.find(file_key, &header, index as u64, index + 1 == records.len(), record).cloned()
    };
    let chunks: Vec<_> = records.iter().enumerate().map(authentic).collect();
    let sound = !short && chunks.iter().all(Option::is_some);
    Expected { outcome: if sound { Outcome::Opens } else { Outcome::Altered }, chunk_len, cut: short, chunks }
}

/// Step 4: which of the file keys opens the header.
fn unlock(made: &mut Made, hand: Hand, bytes: &[u8], header: &reference::Header) -> Result<usize, Outcome> {
    let (body, tag) = bytes.split_at(bytes.len() - 32);
    let mut tried = false;
    let mut ids = Vec::new();
    let of_kind = |wanted| header.slots.iter().filter(move |(kind, _)| *kind == wanted).map(|(_, body)| &body[..]);
    for slot in of_kind(2) {
        let Some(key) = (0..2).find(|key| hand.keys[*key] && made.id(*key) == slot[..16]) else {
            ids.push(slot[..16].try_into().expect("16 bytes"));
            continue;
        };
        tried = true;
        if let Some(file_key) = made.unwrap(slot, [Way::Key(key)].into_iter())
            && made.file_keys(file_key, header.suite).header_tag(body) == tag
        {
            return Ok(file_key);
        }
    }
    let has_age = of_kind(3).next().is_some();
    let has_password = of_kind(1).next().is_some();
    if has_password && hand.password {
        tried = true;
        if is_beyond(header) {
            return Err(Outcome::KdfLimit);
        }
        for slot in of_kind(1) {
            let ways = (0..KDFS.len()).map(|kdf| Way::Password { which: 0, kdf });
            if let Some(file_key) = made.unwrap(slot, ways)
                && made.file_keys(file_key, header.suite).header_tag(body) == tag
            {
                return Ok(file_key);
            }
        }
    }
    Err(if tried { Outcome::WrongKey } else { Outcome::NoKey(ids, has_age, has_password) })
}

/// Whether the password slots exceed [`LIMIT`].
pub fn is_beyond(header: &reference::Header) -> bool {
    let number = |body: &[u8], at: usize| u128::from(u32::from_le_bytes(body[at..at + 4].try_into().expect("4 bytes")));
    let slots = || header.slots.iter().filter(|(kind, _)| *kind == 1).map(|(_, body)| body);
    slots().any(|body| number(body, 16) > u128::from(LIMIT.memory_kib))
        || slots().map(|body| number(body, 16) * number(body, 20)).sum::<u128>() > u128::from(LIMIT.work)
}

/// The class of an error, in the words of the reference.
pub fn class(found: &Result<u64, Error>) -> reference::Error {
    match found {
        Err(Error::NotPhalanx) => reference::Error::NotPhalanx,
        Err(Error::Version(_)) => reference::Error::Version,
        Err(Error::Header(_) | Error::Volume) => reference::Error::Header,
        Err(Error::KdfLimit(_)) => reference::Error::KdfLimit,
        Err(Error::NoKey { .. } | Error::WrongKey) => reference::Error::NoKey,
        Err(Error::Truncated(_) | Error::Extended(_) | Error::Altered { .. }) => reference::Error::Altered,
        found => panic!("{found:?}"),
    }
}
