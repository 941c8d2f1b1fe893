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

    /// The bytes that say what becomes of the record: all before the text, and as much of that as a ciphertext has
    /// before its message.
    fn start(&self) -> usize {
        self.key + self.user + self.ad + self.text.min(ciphertext::HEAD)
    }

    /// The record of which these bytes are there.
    fn split<'a>(&self, body: &'a [u8]) -> Record<'a> {
        let (key, rest) = body.split_at(self.key);
        let (user, rest) = rest.split_at(self.user);
        let (ad, text) = rest.split_at(self.ad);
        Record { key, user, ad, text, len: self.text }
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
    /// The text, or the ciphertext, or the beginning of it.
    pub text: &'a [u8],
    /// The length of the whole text.
    pub len: usize,
}

impl Record<'_> {
    /// Whether the whole text is there.
    pub fn is_whole(&self) -> bool {
        self.text.len() == self.len
    }
}

/// What came of a record.
pub enum Came<'a> {
    /// The record, or its beginning.
    Record(Record<'a>),
    /// More of its text.
    More(&'a [u8]),
    /// The last of its text, of this record without it.
    Last(Record<'a>, &'a [u8]),
}

/// Takes records out of the chunks of a body. No text is copied: of a record that lies in several chunks, each part of its
/// text comes as soon as it is there.
#[derive(Default)]
pub struct Frames {
    /// The first bytes of the lengths, while not all are there.
    lengths: Vec<u8>,
    head: Option<Head>,
    /// The beginning of a record that lies in several chunks.
    start: Vec<u8>,
    /// How many bytes of its text have not come, once it has begun.
    left: usize,
    /// Whether the record is to come as a whole.
    is_put_back: bool,
}

impl Frames {
    /// The lengths of the next record, once they are there, or of one that has begun.
    ///
    /// # Errors
    /// If one is above its limit.
    pub fn head(&mut self, chunk: &mut &[u8], bounds: &Bounds) -> Result<Option<Head>, Refusal> {
        if self.head.is_none() {
            // Of the record before.
            self.start = Vec::new();
            if self.lengths.is_empty()
                && let Some((lengths, rest)) = chunk.split_first_chunk::<HEAD>()
            {
                *chunk = rest;
                self.head = Some(Head::read(lengths, bounds)?);
            } else {
                let more = front(chunk, HEAD - self.lengths.len());
                self.lengths.extend_from_slice(more);
                if let Some(lengths) = self.lengths.first_chunk::<HEAD>() {
                    self.head = Some(Head::read(lengths, bounds)?);
                    self.lengths.clear();
                }
            }
        }
        Ok(self.head)
    }

    /// What came of the record whose lengths `head` returned last, if it is enough to go on with.
    pub fn next<'a, 'c: 'a>(&'a mut self, chunk: &mut &'c [u8]) -> Option<Came<'a>> {
        let head = self.head?;
        if self.left > 0 {
            return self.more(head, chunk);
        }
        if self.start.is_empty() && chunk.len() >= head.body() {
            self.head = None;
            return Some(Came::Record(head.split(front(chunk, head.body()))));
        }
        let needed = self.needed(head);
        self.start.reserve_exact(needed - self.start.len());
        self.start.extend_from_slice(front(chunk, needed - self.start.len()));
        if self.start.len() < needed {
            return None;
        }
        self.left = head.body() - needed;
        if self.left == 0 {
            (self.head, self.is_put_back) = (None, false);
        }
        Some(Came::Record(head.split(&self.start)))
    }

    fn more<'a, 'c: 'a>(&'a mut self, head: Head, chunk: &mut &'c [u8]) -> Option<Came<'a>> {
        let more = front(chunk, self.left);
        self.left -= more.len();
        if self.left > 0 {
            return (!more.is_empty()).then_some(Came::More(more));
        }
        self.head = None;
        Some(Came::Last(head.split(&self.start), more))
    }

    /// Takes back the text of a record that has begun: all that came of it after its beginning. It will come again as a
    /// whole.
    pub fn put_back(&mut self, text: &[u8]) {
        if let Some(head) = self.head {
            self.start.reserve_exact(head.body() - self.start.len());
            self.start.extend_from_slice(text);
            (self.left, self.is_put_back) = (0, true);
        }
    }

    /// The key of the record that [`Frames::next`] would begin next.
    pub fn key(&self, chunk: &[u8]) -> Option<Vec<u8>> {
        let head = self.head.filter(|_| self.left == 0)?;
        let begins = self.start.len() + chunk.len() >= self.needed(head);
        begins.then(|| self.start.iter().chain(chunk).take(head.key).copied().collect())
    }

    /// Whether a record has begun that is not there as a whole.
    pub fn is_inside(&self) -> bool {
        !self.lengths.is_empty() || self.head.is_some()
    }

    /// How many bytes of the record must be there before it begins.
    fn needed(&self, head: Head) -> usize {
        if self.is_put_back { head.body() } else { head.start() }
    }
}

/// Takes so many bytes from the front, or all that there are.
fn front<'c>(chunk: &mut &'c [u8], most: usize) -> &'c [u8] {
    let (front, rest) = chunk.split_at(chunk.len().min(most));
    *chunk = rest;
    front
}

/// All records of a body in these chunks, put together again, and whether the end is between two of them. `puts_back` says
/// after which chunks the text of a record that has begun is taken back.
///
/// # Errors
/// If a length is above its limit: that, beside the records before it.
#[cfg(any(test, feature = "fuzzing"))]
pub fn read(
    chunks: &[&[u8]],
    bounds: &Bounds,
    puts_back: impl Fn(usize) -> bool,
) -> (Vec<[Vec<u8>; 4]>, Result<bool, Refusal>) {
    let (mut frames, mut found) = (Frames::default(), Vec::new());
    let mut text: Option<Vec<u8>> = None;
    for (i, chunk) in chunks.iter().enumerate() {
        let mut chunk = *chunk;
        loop {
            match frames.head(&mut chunk, bounds) {
                Err(refusal) => return (found, Err(refusal)),
                Ok(None) => break,
                Ok(Some(_)) => {}
            }
            let parts =
                |record: Record<'_>, text: &[u8]| [record.key, record.user, record.ad, text].map(<[u8]>::to_vec);
            match frames.next(&mut chunk) {
                None => break,
                Some(Came::Record(record)) if record.is_whole() => found.push(parts(record, record.text)),
                Some(Came::Record(_)) => text = Some(Vec::new()),
                Some(Came::More(more)) => text.as_mut().expect("it has begun").extend(more),
                Some(Came::Last(record, last)) => {
                    let text = [record.text, &text.take().expect("it has begun"), last].concat();
                    found.push(parts(record, &text));
                }
            }
        }
        assert!(chunk.is_empty());
        if puts_back(i)
            && let Some(text) = text.take()
        {
            frames.put_back(&text);
        }
    }
    (found, Ok(!frames.is_inside()))
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
        read_with(chunks, |_| false)
    }

    fn read_with(chunks: &[&[u8]], puts_back: impl Fn(usize) -> bool) -> (Vec<[Vec<u8>; 4]>, bool) {
        let (found, end) = super::read(chunks, &Bounds::new(Action::Seal, &Limits::default()), puts_back);
        (found, end.unwrap())
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
                assert_eq!(read_with(&chunks, |_| true), whole, "{first} {second}, put back");
            }
        }
        let each: Vec<&[u8]> = bytes.chunks(1).collect();
        assert_eq!(read(&each), whole);
        for which in 0..each.len() {
            assert_eq!(read_with(&each, |i| i == which), whole, "put back after {which}");
        }
    }

    #[test]
    fn a_text_comes_before_it_is_whole() {
        let bytes = record([b"orders", b"ada", b"v1", b"a longer text"]);
        let (mut frames, bounds) = (Frames::default(), Bounds::new(Action::Seal, &Limits::default()));
        let mut chunk = &bytes[..bytes.len() - 1];
        assert!(frames.head(&mut chunk, &bounds).unwrap().is_some());
        assert_eq!(frames.key(chunk).unwrap(), b"orders");
        let Some(Came::Record(begun)) = frames.next(&mut chunk) else { panic!("it does not begin") };
        assert_eq!((begun.user, begun.ad, begun.text, begun.len), (&b"ada"[..], &b"v1"[..], &b"a lon"[..], 13));
        assert!(matches!(frames.next(&mut chunk), Some(Came::More(b"ger tex"))));
        assert!(frames.next(&mut chunk).is_none() && frames.key(chunk).is_none() && frames.is_inside());
        frames.put_back(b"ger tex");
        assert!(frames.next(&mut chunk).is_none() && frames.is_inside());
        let Some(Came::Record(whole)) = frames.next(&mut &bytes[bytes.len() - 1..]) else { panic!("it does not come") };
        assert!(whole.is_whole() && whole.text == b"a longer text");
        assert!(!frames.is_inside());
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
