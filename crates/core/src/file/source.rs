//! The source of the bytes, their destination, and progress.

use crate::file::input::Stamp;
use crate::file::read_at::FromStart;
use crate::file::stream::Stream;
use crate::format::header::{Header, Purpose};
use crate::keys::access::{KeySource, Opened, Opener};
use crate::{Class, Error, Result};
use std::fs::File;
use std::io::{BufReader, Read, Write};
use std::ops::Range;

/// Where the bytes come from.
pub enum Source<'a> {
    /// A regular file, as it was when its protection began. Any worker reads anywhere in it.
    File(&'a File, Stamp),
    /// Anything else, read in order. If it reads a file that was empty, which may be written to meanwhile, that file is
    /// here too.
    Stream(Stream<'a>, Option<(&'a File, Stamp)>),
}

impl<'a> Source<'a> {
    /// An opened file of any kind. One that does not tell its length (a pipe, a device, many files under /proc) is a
    /// stream.
    ///
    /// # Errors
    /// [`Error::Read`] if the file cannot be looked at.
    pub fn new(file: &'a File) -> Result<Self> {
        let meta = file.metadata().map_err(Error::Read)?;
        match (meta.is_file(), meta.len()) {
            (true, 1..) => Self::file(file),
            (true, 0) => Ok(Source::Stream(Stream::new(file), Some((file, Stamp::of(file).map_err(Error::Read)?)))),
            (false, _) => Ok(Source::stream(file)),
        }
    }

    /// A regular file, which may be empty.
    ///
    /// # Errors
    /// [`Error::Read`] if the file cannot be looked at.
    pub fn file(file: &'a File) -> Result<Self> {
        Ok(Source::File(file, Stamp::of(file).map_err(Error::Read)?))
    }

    /// A stream.
    pub fn stream(input: impl Read + Send + 'a) -> Self {
        Source::Stream(Stream::new(input), None)
    }

    /// The length of what is to be read, in bytes, if it is known or short.
    pub(crate) fn short_len(&mut self) -> Result<Option<u64>> {
        match self {
            Source::File(_, stamp) => Ok(Some(stamp.len())),
            Source::Stream(stream, _) => stream.short_len(),
        }
    }

    /// Reads the header that a protected source begins with.
    ///
    /// # Errors
    /// [`Error::NotPhalanx`], [`Error::Version`] or [`Error::Header`] if there is no header that can be read, [`Error::Read`]
    /// if reading fails.
    pub fn header(&mut self) -> Result<Header> {
        match self {
            Source::File(file, _) => Header::read(&mut BufReader::with_capacity(4096, FromStart::new(*file))),
            Source::Stream(stream, _) => Header::read(stream),
        }
    }

    /// Reads the header of a file, and finds a key that opens it. It is read again if need be: [`open_header`].
    pub(crate) fn open(&mut self, keys: &Opener<impl KeySource>) -> Result<(Header, Opened)> {
        self.open_for(|header| header.check_purpose(Purpose::File), keys)
    }

    /// Reads the header of a file that `check` accepts, and finds a key that opens it. It is read again if need be.
    pub(crate) fn open_for(
        &mut self,
        check: impl Fn(&Header) -> Result<()>,
        keys: &Opener<impl KeySource>,
    ) -> Result<(Header, Opened)> {
        let is_file = matches!(self, Source::File(..));
        let mut read = || self.header().and_then(|header| check(&header).map(|()| header));
        if is_file {
            return open_header(read, keys);
        }
        let header = read()?;
        let opened = keys.open(&header)?;
        Ok((header, opened))
    }
}

/// Reads a header, which can be read more than once, and finds a key that opens it.
///
/// What is read while another process changes the header in place may be half of the old one and half of the new one. So
/// what does not open is read again, and tried again if it has changed.
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
    /// A regular file, which is empty or has nothing but chunks of the same run. Any worker writes anywhere in it.
    File(&'a File),
    /// A regular file as in [`Sink::File`] that will be synced. Write-back starts at once, so that the disk works while the
    /// cores do.
    Synced(&'a File),
    /// Anything else, written in order.
    Stream(Box<dyn Write + Send + 'a>),
    /// Nowhere. The bytes are only checked.
    Nothing,
}

/// Receives the progress of the work, in bytes of plaintext. Called from all workers.
pub trait Progress: Sync {
    /// Notes that more bytes are done.
    fn advance(&self, bytes: u64);

    /// Whether the work is to end with [`Error::Cancelled`](crate::Error::Cancelled). Each worker asks after each job.
    fn is_cancelled(&self) -> bool {
        false
    }

    /// Notes that these chunks have been written to the output, though perhaps not to the disk.
    fn written(&self, chunks: Range<u64>) {
        let _ = chunks;
    }
}

/// Ignores progress.
impl Progress for () {
    fn advance(&self, _: u64) {}
}
