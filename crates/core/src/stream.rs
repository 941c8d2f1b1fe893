//! Streams that are looked at before they are taken.

use crate::Result;
use crate::header::read_full;
use std::io::{self, Read};
use zeroize::Zeroizing;

/// An input that looks ahead. What it holds is wiped.
pub struct Stream<'a> {
    input: Box<dyn Read + Send + 'a>,
    /// What has been read and not yet taken.
    ahead: Zeroizing<Vec<u8>>,
    /// An end is an end, even where more comes later, as from a terminal or a growing file.
    ended: bool,
}

impl<'a> Stream<'a> {
    /// Wraps an input.
    pub fn new(input: impl Read + Send + 'a) -> Self {
        Self { input: Box::new(input), ahead: Zeroizing::new(Vec::with_capacity(Self::PROBE)), ended: false }
    }

    /// As much as is looked at to tell a short input from a long one, in bytes.
    const PROBE: usize = 64 * 1024;

    /// Reads until so many bytes are held, or the input ends.
    fn look_ahead(&mut self, len: usize) -> Result<()> {
        let held = self.ahead.len();
        if held < len && !self.ended {
            self.ahead.resize(len, 0);
            let more = read_full(&mut self.input, &mut self.ahead[held..])?;
            self.ahead.truncate(held + more);
            self.ended = held + more < len;
        }
        Ok(())
    }

    /// The length of what is left, if that is short.
    pub(crate) fn short_len(&mut self) -> Result<Option<u64>> {
        self.look_ahead(Self::PROBE)?;
        Ok(self.ended.then_some(self.ahead.len() as u64))
    }

    /// Whether nothing follows.
    pub(crate) fn ends_here(&mut self) -> Result<bool> {
        self.look_ahead(1)?;
        Ok(self.ahead.is_empty())
    }
}

impl Read for Stream<'_> {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        if self.ahead.is_empty() {
            return if self.ended { Ok(0) } else { self.input.read(buf) };
        }
        let len = buf.len().min(self.ahead.len());
        buf[..len].copy_from_slice(&self.ahead[..len]);
        self.ahead.drain(..len);
        Ok(len)
    }
}
