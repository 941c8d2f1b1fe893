//! Records as they lie in a stream: `docs/server-format.md`.
//!
//! ```text
//! u16 key length  u16 user length  u32 AD length  u32 text length  key  user  AD  text
//! ```

use crate::keys::{LONGEST_NAME, ciphertext};
use crate::limits::Limits;
use crate::refusal::{Kind, Refusal};
use crate::rights::Action;
use phalanx_core::Suite;

/// The bytes of a record's lengths.
pub const HEAD: usize = 12;

/// What a record counts as beside its bytes: the room that the smallest one takes in a batch and in the answer.
const OVERHEAD: usize = 256;

/// The most bytes of a record's parts.
#[derive(Clone, Copy, Debug)]
pub struct Bounds {
    user: usize,
    ad: usize,
    text: usize,
}

impl Bounds {
    /// Those of texts to seal, or of ciphertexts.
    pub fn new(action: Action, limits: &Limits) -> Self {
        let longer = if action == Action::Seal { 0 } else { longest_overhead() };
        Self { user: limits.user_bytes, ad: limits.record_bytes, text: limits.record_bytes + longer }
    }
}

/// The lengths of a record's parts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Head {
    key: usize,
    user: usize,
    ad: usize,
    text: usize,
}

impl Head {
    /// Reads the lengths.
    ///
    /// # Errors
    /// If one is above its limit. Where the next record begins is not looked for then.
    fn read(bytes: &[u8; HEAD], bounds: &Bounds) -> Result<Self, Refusal> {
        let u16_at = |at: usize| usize::from(u16::from_le_bytes([bytes[at], bytes[at + 1]]));
        let u32_at = |at: usize| u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]]) as usize;
        let head = Self { key: u16_at(0), user: u16_at(2), ad: u32_at(4), text: u32_at(8) };
        let bounds = [
            ("key's name", head.key, LONGEST_NAME),
            ("user", head.user, bounds.user),
            ("record's associated data", head.ad, bounds.ad),
            ("record's text", head.text, bounds.text),
        ];
        match bounds.iter().find(|(_, len, most)| len > most) {
            None => Ok(head),
            Some((what, _, most)) => Err(Refusal::new(Kind::TooLarge, format!("a {what} is longer than {most} bytes"))),
        }
    }

    /// The bytes after the lengths.
    fn body(&self) -> usize {
        self.key + self.user + self.ad + self.text
    }

    /// What the record counts as, of all that a request may have in memory.
    pub fn cost(&self) -> usize {
        HEAD + self.body() + OVERHEAD
    }

    fn split<'a>(&self, body: &'a [u8]) -> Record<'a> {
        let (key, rest) = body.split_at(self.key);
        let (user, rest) = rest.split_at(self.user);
        let (ad, text) = rest.split_at(self.ad);
        Record { key, user, ad, text }
    }
}

/// The most that a ciphertext is longer than its text.
fn longest_overhead() -> usize {
    ciphertext::HEAD + Suite::ALL.iter().map(|suite| suite.overhead()).max().unwrap_or_default()
}

/// A record.
#[derive(Clone, Copy)]
pub struct Record<'a> {
    /// The name of the key.
    pub key: &'a [u8],
    /// The user.
    pub user: &'a [u8],
    /// The associated data.
    pub ad: &'a [u8],
    /// The text, or the ciphertext.
    pub text: &'a [u8],
}

/// Takes records out of the chunks of a body. A record that lies in one chunk is not copied.
#[derive(Default)]
pub struct Frames {
    /// The first bytes of the lengths, while not all are there.
    lengths: Vec<u8>,
    head: Option<Head>,
    /// A record that began in another chunk.
    partial: Option<Vec<u8>>,
    is_taken: bool,
}

impl Frames {
    /// The lengths of the next record, once they are there.
    ///
    /// # Errors
    /// If one is above its limit.
    pub fn head(&mut self, chunk: &mut &[u8], bounds: &Bounds) -> Result<Option<Head>, Refusal> {
        self.forget_taken();
        if self.head.is_none() {
            if self.lengths.is_empty()
                && let Some((lengths, rest)) = chunk.split_first_chunk::<HEAD>()
            {
                *chunk = rest;
                self.head = Some(Head::read(lengths, bounds)?);
            } else {
                let (more, rest) = chunk.split_at(chunk.len().min(HEAD - self.lengths.len()));
                *chunk = rest;
                self.lengths.extend_from_slice(more);
                if let Some(lengths) = self.lengths.first_chunk::<HEAD>() {
                    self.head = Some(Head::read(lengths, bounds)?);
                    self.lengths.clear();
                }
            }
        }
        Ok(self.head)
    }

    /// The record whose lengths `head` returned last, once it is there.
    pub fn record<'a, 'c: 'a>(&'a mut self, chunk: &mut &'c [u8]) -> Option<Record<'a>> {
        let head = self.head?;
        if self.partial.is_none() && chunk.len() >= head.body() {
            let (body, rest) = chunk.split_at(head.body());
            *chunk = rest;
            self.head = None;
            return Some(head.split(body));
        }
        let partial = self.partial.get_or_insert_with(|| Vec::with_capacity(head.body()));
        let (more, rest) = chunk.split_at(chunk.len().min(head.body() - partial.len()));
        *chunk = rest;
        partial.extend_from_slice(more);
        if partial.len() < head.body() {
            return None;
        }
        (self.head, self.is_taken) = (None, true);
        Some(head.split(partial))
    }

    /// The key of the record that [`Frames::record`] would return next, once that is there.
    pub fn key(&self, chunk: &[u8]) -> Option<Vec<u8>> {
        let head = self.head?;
        let begun = self.partial.as_ref().map_or(&[][..], |partial| &partial[..]);
        let is_there = begun.len() + chunk.len() >= head.body();
        is_there.then(|| begun.iter().chain(chunk).take(head.key).copied().collect())
    }

    /// Whether a record has begun that is not there as a whole.
    pub fn is_inside(&self) -> bool {
        !self.lengths.is_empty() || self.head.is_some()
    }

    fn forget_taken(&mut self) {
        if std::mem::take(&mut self.is_taken) {
            self.partial = None;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(parts: [&[u8]; 4]) -> Vec<u8> {
        let [key, user, ad, text] = parts;
        let mut bytes = Vec::new();
        bytes.extend((key.len() as u16).to_le_bytes());
        bytes.extend((user.len() as u16).to_le_bytes());
        bytes.extend((ad.len() as u32).to_le_bytes());
        bytes.extend((text.len() as u32).to_le_bytes());
        parts.iter().for_each(|part| bytes.extend_from_slice(part));
        bytes
    }

    /// The records in chunks, and whether the end is between two of them.
    fn read(chunks: &[&[u8]]) -> (Vec<[Vec<u8>; 4]>, bool) {
        let (mut frames, mut found) = (Frames::default(), Vec::new());
        for chunk in chunks {
            let mut chunk = *chunk;
            while frames.head(&mut chunk, &Bounds::new(Action::Seal, &Limits::default())).unwrap().is_some() {
                let Some(record) = frames.record(&mut chunk) else { break };
                found.push([record.key, record.user, record.ad, record.text].map(<[u8]>::to_vec));
            }
            assert!(chunk.is_empty());
        }
        (found, !frames.is_inside())
    }

    #[test]
    fn records_are_the_same_however_the_chunks_are_cut() {
        let parts = [[&b"orders"[..], b"ada", b"v1", b"a text"], [b"", b"", b"", b""], [b"k", b"", b"", b"x"]];
        let bytes = parts.map(record).concat();
        let whole = (parts.map(|parts| parts.map(<[u8]>::to_vec)).to_vec(), true);
        for first in 0..=bytes.len() {
            for second in first..=bytes.len() {
                let chunks = [&bytes[..first], &bytes[first..second], &bytes[second..]];
                assert_eq!(read(&chunks), whole, "{first} {second}");
            }
        }
        let each: Vec<&[u8]> = bytes.chunks(1).collect();
        assert_eq!(read(&each), whole);
    }

    #[test]
    fn a_record_that_is_not_whole_is_seen() {
        let bytes = record([b"orders", b"ada", b"v1", b"a text"]);
        assert_eq!(read(&[b""]), (Vec::new(), true));
        for len in 1..bytes.len() {
            assert_eq!(read(&[&bytes[..len]]), (Vec::new(), false), "{len}");
        }
    }

    #[test]
    fn lengths_have_limits() {
        let limits = Limits::default();
        let (texts, ciphertexts) = (Bounds::new(Action::Seal, &limits), Bounds::new(Action::Open, &limits));
        let head = |bounds: &Bounds, key: u16, user: u16, ad: u32, text: u32| {
            let bytes = [&key.to_le_bytes()[..], &user.to_le_bytes(), &ad.to_le_bytes(), &text.to_le_bytes()].concat();
            Head::read(bytes.first_chunk().unwrap(), bounds).map_err(|refusal| refusal.kind)
        };
        let most = limits.record_bytes as u32;
        assert!(head(&texts, 128, 4096, most, most).is_ok());
        assert!(head(&ciphertexts, 128, 4096, most, most + 53).is_ok());
        assert!(head(&texts, 0, 0, 0, most + 1).is_err());
        for (key, user, ad, text) in
            [(129, 0, 0, 0), (0, 4097, 0, 0), (0, 0, most + 1, 0), (0, 0, 0, most + 54), (0, 0, 0, u32::MAX)]
        {
            assert_eq!(head(&ciphertexts, key, user, ad, text), Err(Kind::TooLarge), "{key} {user} {ad} {text}");
        }
    }
}
