//! Messages from and to a plugin: stanzas, as age writes them.

use base64::Engine;
use base64::prelude::BASE64_STANDARD_NO_PAD;
use std::io::{self, Read};
use std::ops::Range;
use zeroize::Zeroizing;

/// The most characters of a plugin's text that are shown.
const MOST_SHOWN: usize = 300;
/// Characters of a whole line of Base64.
const LINE: usize = 64;

/// A message of a plugin: a stanza.
pub struct Message {
    head: String,
    pub body: Zeroizing<Vec<u8>>,
}

impl Message {
    pub fn read(from: &mut Lines<impl Read>) -> io::Result<Self> {
        let broken = || io::Error::from(io::ErrorKind::InvalidData);
        let head = from.next()?;
        let head = str::from_utf8(&head).ok().and_then(|head| head.strip_prefix("-> ")).ok_or_else(broken)?.to_owned();
        let mut encoded = Zeroizing::new(Vec::with_capacity(4096));
        loop {
            let data = from.next()?;
            encoded.extend_from_slice(&data);
            match data.len() {
                LINE => {}
                0..LINE => break,
                _ => return Err(broken()),
            }
        }
        let body = BASE64_STANDARD_NO_PAD.decode(&*encoded).map_err(|_| broken())?;
        Ok(Self { head, body: Zeroizing::new(body) })
    }

    pub fn kind(&self) -> &str {
        self.head.split(' ').next().unwrap_or_default()
    }

    pub fn arguments(&self) -> impl Iterator<Item = &str> {
        self.head.split(' ').skip(1)
    }

    /// The body as text for the user.
    pub fn words(&self) -> String {
        shown(&self.body)
    }
}

/// The lines that a plugin writes. What was read is wiped, since it may contain keys.
pub struct Lines<R> {
    from: R,
    buffer: Zeroizing<[u8; 4096]>,
    /// The part of the buffer that was read and not yet taken.
    ahead: Range<usize>,
}

impl<R: Read> Lines<R> {
    pub fn new(from: R) -> Self {
        Self { from, buffer: Zeroizing::new([0; 4096]), ahead: 0..0 }
    }

    /// The next line, without its end.
    fn next(&mut self) -> io::Result<Zeroizing<Vec<u8>>> {
        let mut line = Zeroizing::new(Vec::with_capacity(1024));
        loop {
            let ahead = &self.buffer[self.ahead.clone()];
            if let Some(end) = ahead.iter().position(|byte| *byte == b'\n') {
                line.extend_from_slice(&ahead[..end]);
                self.ahead.start += end + 1;
                return Ok(line);
            }
            line.extend_from_slice(ahead);
            self.ahead = 0..match self.from.read(&mut *self.buffer) {
                Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
                Ok(len) => len,
                Err(e) if e.kind() == io::ErrorKind::Interrupted => 0,
                Err(e) => return Err(e),
            };
        }
    }
}

/// Text that a terminal can show: on one line, and not too long.
pub fn shown(words: &[u8]) -> String {
    let words = String::from_utf8_lossy(words);
    let plain = |c: char| if c.is_control() { ' ' } else { c };
    words.trim().chars().map(plain).take(MOST_SHOWN).collect()
}

/// Adds a stanza.
pub fn command(to: &mut String, head: &str, body: &[u8]) {
    let encoded = Zeroizing::new(BASE64_STANDARD_NO_PAD.encode(body));
    to.push_str("-> ");
    to.push_str(head);
    to.push('\n');
    for line in encoded.as_bytes().chunks(LINE) {
        to.extend(line.iter().copied().map(char::from));
        to.push('\n');
    }
    // The last line must be shorter than the others.
    if encoded.len().is_multiple_of(LINE) {
        to.push('\n');
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stanzas_are_written_as_age_writes_them() {
        let written = |body: &[u8]| {
            let mut text = String::new();
            command(&mut text, "x y", body);
            text
        };
        assert_eq!(written(b""), "-> x y\n\n");
        assert_eq!(written(b"a"), "-> x y\nYQ\n");
        assert_eq!(written(&[0; 48]), format!("-> x y\n{}\n\n", "A".repeat(64)));
        assert_eq!(written(&[0; 51]), format!("-> x y\n{}\nAAAA\n", "A".repeat(64)));
    }
}
