//! Answers of HTTP/1.1 as they come in pieces, and the answers of records within them.

use std::io;

/// The most bytes of a head, and of what is kept of a refusal.
const HEAD: usize = 16 << 10;
const REFUSAL: usize = 400;

/// What becomes of a body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Body {
    /// It is only counted.
    Counted,
    /// It is kept.
    Kept,
    /// It is a stream of answers to records, which are counted.
    Records,
}

/// An answer that is being read.
#[derive(Debug)]
pub struct Answer {
    kind: Body,
    state: State,
    head: Vec<u8>,
    line: Vec<u8>,
    pub status: u16,
    /// The body, or the beginning of that of a refusal.
    pub body: Vec<u8>,
    pub records: Records,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Head,
    Rest(u64),
    Size,
    Chunk(u64),
    AfterChunk,
    Trailer,
    Done,
}

/// Answers to records, by their statuses: `u16 status, u16 0, u32 length, bytes`.
#[derive(Debug, Default)]
pub struct Records {
    pub good: u64,
    /// The first status that is not 0, with the text.
    pub refused: Option<(u16, Vec<u8>)>,
    head: [u8; 8],
    have: usize,
    left: u64,
    is_refused: bool,
}

impl Answer {
    pub fn new(kind: Body) -> Self {
        let (head, line, body) = (Vec::with_capacity(1024), Vec::new(), Vec::new());
        Self { kind, state: State::Head, head, line, status: 0, body, records: Records::default() }
    }

    /// Makes it ready for the next answer on the connection.
    pub fn renew(&mut self) {
        self.state = State::Head;
        self.head.clear();
        self.body.clear();
        self.records = Records::default();
    }

    pub fn is_done(&self) -> bool {
        self.state == State::Done
    }

    /// Reads the next bytes. None may follow the answer, since no request is sent before.
    ///
    /// # Errors
    /// If they are not HTTP.
    pub fn read(&mut self, mut bytes: &[u8]) -> io::Result<()> {
        while !bytes.is_empty() {
            let taken = match self.state {
                State::Head => self.read_head(bytes)?,
                State::Rest(left) => {
                    let taken = self.take(left, bytes);
                    self.state = if taken == left { State::Done } else { State::Rest(left - taken) };
                    taken as usize
                }
                State::Chunk(left) => {
                    let taken = self.take(left, bytes);
                    self.state = if taken == left { State::AfterChunk } else { State::Chunk(left - taken) };
                    taken as usize
                }
                State::Size | State::AfterChunk | State::Trailer => self.read_line(bytes)?,
                State::Done => return Err(wrong("bytes after the answer")),
            };
            bytes = &bytes[taken..];
        }
        Ok(())
    }

    fn read_head(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let before = self.head.len();
        self.head.extend_from_slice(bytes);
        let from = before.saturating_sub(3);
        let Some(end) = self.head[from..].windows(4).position(|four| four == b"\r\n\r\n") else {
            return if self.head.len() > HEAD { Err(wrong("a head without end")) } else { Ok(bytes.len()) };
        };
        let end = from + end + 4;
        self.head.truncate(end);
        let text = std::str::from_utf8(&self.head).map_err(|_| wrong("a head that is no text"))?;
        let mut lines = text.split("\r\n");
        let status = lines.next().and_then(|line| line.strip_prefix("HTTP/1.1 ")?.get(..3)?.parse().ok());
        self.status = status.ok_or_else(|| wrong("no status"))?;
        let mut state = State::Rest(0);
        for (name, value) in lines.filter_map(|line| line.split_once(':')) {
            let value = value.trim();
            if name.eq_ignore_ascii_case("content-length") {
                state = State::Rest(value.parse().map_err(|_| wrong("a wrong length"))?);
            } else if name.eq_ignore_ascii_case("transfer-encoding") && value.eq_ignore_ascii_case("chunked") {
                state = State::Size;
            }
        }
        self.state = match (self.status, state) {
            (100, _) => {
                self.head.clear();
                State::Head
            }
            (204, _) | (_, State::Rest(0)) => State::Done,
            (_, state) => state,
        };
        Ok(end - before)
    }

    /// Reads to the end of a line of the coding in chunks.
    fn read_line(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let end = bytes.iter().position(|byte| *byte == b'\n');
        let taken = end.map_or(bytes.len(), |end| end + 1);
        self.line.extend_from_slice(&bytes[..taken]);
        if self.line.len() > HEAD {
            return Err(wrong("a line without end"));
        }
        if end.is_none() {
            return Ok(taken);
        }
        let line = String::from_utf8_lossy(&self.line).trim().to_owned();
        self.line.clear();
        self.state = match self.state {
            State::AfterChunk => State::Size,
            State::Trailer if line.is_empty() => State::Done,
            State::Trailer => State::Trailer,
            _ => match u64::from_str_radix(line.split(';').next().unwrap_or_default().trim(), 16) {
                Ok(0) => State::Trailer,
                Ok(len) => State::Chunk(len),
                Err(_) => return Err(wrong("a chunk without length")),
            },
        };
        Ok(taken)
    }

    fn take(&mut self, left: u64, bytes: &[u8]) -> u64 {
        let taken = left.min(bytes.len() as u64);
        let part = &bytes[..taken as usize];
        match self.kind {
            _ if self.status != 200 => {
                let room = REFUSAL.saturating_sub(self.body.len());
                self.body.extend_from_slice(&part[..part.len().min(room)]);
            }
            Body::Kept => self.body.extend_from_slice(part),
            Body::Records => self.records.read(part),
            Body::Counted => {}
        }
        taken
    }

    /// What the server has refused, in words, if anything.
    pub fn refusal(&self) -> Option<String> {
        if self.status != 200 && self.status != 204 {
            let text = String::from_utf8_lossy(&self.body);
            return Some(format!("{}: {}", self.status, text.split_whitespace().collect::<Vec<_>>().join(" ")));
        }
        let (status, text) = self.records.refused.as_ref()?;
        Some(format!("a record: {status}: {}", String::from_utf8_lossy(text)))
    }
}

impl Records {
    fn read(&mut self, mut bytes: &[u8]) {
        while !bytes.is_empty() {
            if self.left == 0 {
                let taken = (8 - self.have).min(bytes.len());
                self.head[self.have..self.have + taken].copy_from_slice(&bytes[..taken]);
                self.have += taken;
                bytes = &bytes[taken..];
                if self.have == 8 {
                    self.begin();
                }
                continue;
            }
            let taken = self.left.min(bytes.len() as u64) as usize;
            if let Some((_, text)) = self.refused.as_mut().filter(|_| self.is_refused) {
                text.extend_from_slice(&bytes[..taken.min(REFUSAL.saturating_sub(text.len()))]);
            }
            self.left -= taken as u64;
            bytes = &bytes[taken..];
        }
    }

    /// A record begins, whose head is there.
    fn begin(&mut self) {
        let [s0, s1, _, _, l0, l1, l2, l3] = self.head;
        let status = u16::from_le_bytes([s0, s1]);
        self.left = u64::from(u32::from_le_bytes([l0, l1, l2, l3]));
        self.have = 0;
        self.is_refused = status != 0 && self.refused.is_none();
        if status == 0 {
            self.good += 1;
        } else if self.is_refused {
            self.refused = Some((status, Vec::new()));
        }
    }
}

fn wrong(what: &str) -> io::Error {
    io::Error::other(format!("no HTTP: {what}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// However it is cut, an answer is the same.
    fn read(kind: Body, bytes: &[u8]) -> Answer {
        let mut answers = (1..=bytes.len()).map(|piece| {
            let mut answer = Answer::new(kind);
            bytes.chunks(piece).for_each(|piece| answer.read(piece).unwrap());
            assert!(answer.is_done());
            answer
        });
        let first = answers.next().unwrap();
        for answer in answers {
            assert_eq!(
                (answer.status, &answer.body, answer.records.good),
                (first.status, &first.body, first.records.good)
            );
        }
        first
    }

    #[test]
    fn answers_are_read_in_any_pieces() {
        let plain = read(Body::Kept, b"HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nhello");
        assert_eq!((plain.status, &*plain.body), (200, &b"hello"[..]));
        let chunks = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nhel\r\n2;x=y\r\nlo\r\n0\r\n\r\n";
        assert_eq!(read(Body::Kept, chunks).body, b"hello");
        assert!(read(Body::Counted, b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 204 No Content\r\n\r\n").body.is_empty());
        let refused = read(Body::Counted, b"HTTP/1.1 403 F\r\nContent-Length: 6\r\n\r\nno\nno\n");
        assert_eq!(refused.refusal().as_deref(), Some("403: no no"));
    }

    #[test]
    fn records_are_counted_by_their_status() {
        let mut body = [&[0, 0, 0, 0, 2, 0, 0, 0][..], b"ab", &[0; 8], &[0x93, 1, 0, 0, 2, 0, 0, 0], b"no"].concat();
        let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n", body.len());
        let answer = read(Body::Records, &[head.as_bytes(), &body].concat());
        assert_eq!(answer.records.good, 2);
        assert_eq!(answer.refusal().as_deref(), Some("a record: 403: no"));
        body.truncate(10);
        let mut records = Records::default();
        records.read(&body);
        assert_eq!((records.good, records.left), (1, 0));
    }

    #[test]
    fn what_is_not_http_is_an_error() {
        for bytes in
            [&b"SSH-2.0-x\r\n\r\n"[..], b"HTTP/1.1 204 N\r\n\r\nmore", b"HTTP/1.1 200 OK\r\ncontent-length: x\r\n\r\n"]
        {
            assert!(Answer::new(Body::Kept).read(bytes).is_err());
        }
    }
}
