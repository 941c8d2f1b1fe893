//! The source of the bytes, their destination, and progress.

use crate::file::look_ahead::LookAhead;
use crate::file::read_at::{FromStart, Snapshot};
use crate::file::write_at::WriteAt;
use crate::format::header::Header;
use crate::format::purpose::Purpose;
use crate::keys::access::{Opened, Opener};
use crate::keys::source::KeySource;
use crate::{Class, Error, Result};
use std::io::{BufReader, Read, Write};
use std::ops::Range;
use std::sync::Arc;

/// Where the bytes come from.
pub struct Source<'a>(pub(crate) Kind<'a>);

pub(crate) enum Kind<'a> {
    /// Any worker reads anywhere in it.
    Ranged(Arc<dyn Snapshot + 'a>),
    /// It is read in order. If it was found empty and may still be written to, the file is here too.
    Stream(LookAhead<'a>, Option<Arc<dyn Snapshot + 'a>>),
}

impl<'a> Source<'a> {
    /// A source that is read by range, as it is now.
    pub fn ranged(input: impl Snapshot + 'a) -> Self {
        Self(Kind::Ranged(Arc::new(input)))
    }

    /// A stream, read in order.
    pub fn stream(input: impl Read + Send + 'a) -> Self {
        Self(Kind::Stream(LookAhead::new(input), None))
    }

    /// A stream that reads a file. If the file changes while it is read, protecting it fails.
    pub fn stream_of(input: impl Read + Send + 'a, file: impl Snapshot + 'a) -> Self {
        Self(Kind::Stream(LookAhead::new(input), Some(Arc::new(file))))
    }

    /// The source, if it is read by range.
    pub(crate) fn by_range(&self) -> Option<Arc<dyn Snapshot + 'a>> {
        if let Kind::Ranged(input) = &self.0 { Some(input.clone()) } else { None }
    }

    /// The length of what is to be read, in bytes, if it is known or short.
    pub(crate) fn short_len(&mut self) -> Result<Option<u64>> {
        match &mut self.0 {
            Kind::Ranged(input) => input.size().map(Some).map_err(Error::Read),
            Kind::Stream(stream, _) => stream.short_len(),
        }
    }

    /// Reads the header that a protected source begins with.
    ///
    /// # Errors
    /// [`Error::NotPhalanx`], [`Error::Version`] or [`Error::Header`] if there is no header that can be read,
    /// [`Error::Read`] if reading fails.
    pub fn header(&mut self) -> Result<Header> {
        match &mut self.0 {
            Kind::Ranged(input) => Header::read(&mut BufReader::with_capacity(4096, FromStart::new(&**input))),
            Kind::Stream(stream, _) => Header::read(stream),
        }
    }

    /// Reads the header of a file, and finds a key that opens it. It is read again if necessary: see [`open_header`].
    pub(crate) fn open(&mut self, keys: &Opener<impl KeySource>) -> Result<(Header, Opened)> {
        self.open_for(|header| header.check_purpose(Purpose::File), keys)
    }

    /// Reads the header of a file that `check` accepts, and finds a key that opens it. It is read again if necessary.
    pub(crate) fn open_for(
        &mut self,
        check: impl Fn(&Header) -> Result<()>,
        keys: &Opener<impl KeySource>,
    ) -> Result<(Header, Opened)> {
        let is_ranged = matches!(self.0, Kind::Ranged(_));
        let mut read = || self.header().and_then(|header| check(&header).map(|()| header));
        if is_ranged {
            return open_header(read, keys);
        }
        let header = read()?;
        let opened = keys.open(&header)?;
        Ok((header, opened))
    }
}

/// Reads a header, which can be read more than once, and finds a key that opens it.
///
/// If another process is changing the header in place, the read bytes may be half old and half new. So a header that
/// does not open is read again, and tried again if it has changed.
pub(crate) fn open_header(
    mut read: impl FnMut() -> Result<Header>,
    keys: &Opener<impl KeySource>,
) -> Result<(Header, Opened)> {
    const TIMES: usize = 3;
    let mut header = read();
    for _ in 0..TIMES {
        let before = header.as_ref().map_or(Vec::new(), |header| header.bytes().to_vec());
        let opened = header.and_then(|header| keys.open(&header).map(|opened| (header, opened)));
        match opened {
            Err(e) if e.class() == Class::NotAuthentic => {
                header = read();
                if header.as_ref().map_or(&[][..], Header::bytes) == before {
                    return Err(e);
                }
            }
            done => return done,
        }
    }
    header.and_then(|header| keys.open(&header).map(|opened| (header, opened)))
}

/// Where the bytes go.
pub enum Sink<'a> {
    /// An output that is empty or has only chunks of the same run. Any worker writes anywhere in it.
    Ranged(Box<dyn WriteAt + 'a>),
    /// Anything else, written in order.
    Stream(Box<dyn Write + Send + 'a>),
    /// Nowhere. The bytes are only checked.
    Nothing,
}

impl<'a> Sink<'a> {
    /// An output that is written at offsets.
    pub fn ranged(output: impl WriteAt + 'a) -> Self {
        Sink::Ranged(Box::new(output))
    }

    /// A stream, written in order.
    pub fn stream(output: impl Write + Send + 'a) -> Self {
        Sink::Stream(Box::new(output))
    }
}

/// Receives the progress of the work, in bytes of plaintext. Called from all workers.
pub trait Progress: Sync {
    /// Receives how many more bytes are done.
    fn advance(&self, bytes: u64);

    /// Whether the work should end with [`Error::Cancelled`](crate::Error::Cancelled). Each worker calls it after each
    /// job, and where files are opened also before it writes what was recorded last.
    fn is_cancelled(&self) -> bool {
        false
    }

    /// Receives which chunks have been written to the output, though perhaps not to the disk.
    fn written(&self, chunks: Range<u64>) {
        let _ = chunks;
    }

    /// Notes a chunk that was sealed and written, or that is authentic and about to be written, in any order.
    fn record(&self, head: &ChunkHead<'_>) {
        let _ = head;
    }
}

/// What is stored before a chunk's ciphertext, and the place of the chunk.
#[derive(Clone, Copy, Debug)]
pub struct ChunkHead<'a> {
    /// Its number, from 0.
    pub index: u64,
    /// Whether it is the last chunk of its file.
    pub is_last: bool,
    /// Its nonce, as long as those of the suite.
    pub nonce: &'a [u8],
    /// Its tag, as long as those of the suite.
    pub tag: &'a [u8],
}

/// Ignores progress.
impl Progress for () {
    fn advance(&self, _: u64) {}
}
