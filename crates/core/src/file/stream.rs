//! Streams that can look ahead.

use crate::Result;
use crate::io::read_full;
use crate::seam::Buffer;
use std::io::{self, Read};
use std::ops::Range;

/// An input that looks ahead. The bytes it holds are wiped.
pub struct Stream<'a> {
    input: Box<dyn Read + Send + 'a>,
    /// Allocated when it is needed.
    buffer: Option<Buffer>,
    /// The part of the buffer that was read and not yet taken.
    ahead: Range<usize>,
    /// The first end counts, even if more comes later, as from a terminal or a growing file.
    ended: bool,
}

impl<'a> Stream<'a> {
    /// The number of bytes that are read ahead. An input is short if it ends within them.
    const PROBE: usize = 64 * 1024;

    /// Wraps an input.
    pub fn new(input: impl Read + Send + 'a) -> Self {
        Self { input: Box::new(input), buffer: None, ahead: 0..0, ended: false }
    }

    /// Reads until this many bytes are held, or the input ends.
    fn look_ahead(&mut self, len: usize) -> Result<()> {
        if self.ahead.len() < len && !self.ended {
            let buffer = match &mut self.buffer {
                Some(buffer) => buffer,
                none => none.insert(Buffer::try_paged(Self::PROBE)?),
            };
            buffer.copy_within(self.ahead.clone(), 0);
            self.ahead = 0..self.ahead.len();
            self.ahead.end += read_full(&mut self.input, &mut buffer[self.ahead.end..len])?;
            self.ended = self.ahead.end < len;
        }
        Ok(())
    }

    /// The length of the rest, if it is short.
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
        let Some(buffer) = self.buffer.as_ref().filter(|_| !self.ahead.is_empty()) else {
            return if self.ended { Ok(0) } else { self.input.read(buf) };
        };
        let len = buf.len().min(self.ahead.len());
        buf[..len].copy_from_slice(&buffer[self.ahead.start..][..len]);
        self.ahead.start += len;
        Ok(len)
    }
}
