//! What goes in, what comes out, and who is told how far the work has come.

use crate::file::input::Stamp;
use crate::file::stream::Stream;
use crate::format::header::Header;
use crate::keys::access::{KeySource, Opened, Opener};
use crate::{Class, Error, Result};
use std::fs::File;
use std::io::{self, BufReader, Read, Write};
use std::os::unix::fs::FileExt;

/// Where the bytes come from.
pub enum Source<'a> {
    /// A regular file, as it was when its protection began: any worker reads anywhere.
    File(&'a File, Stamp),
    /// Anything else, read in order; with the file that it is read from where that was empty, and may be written to meanwhile.
    Stream(Stream<'a>, Option<(&'a File, Stamp)>),
}

impl<'a> Source<'a> {
    /// An opened file of any kind. What does not tell its length (pipes, devices, many files under /proc) is a stream.
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
            Source::File(file, _) => Header::read(&mut BufReader::with_capacity(4096, FromStart { file, offset: 0 })),
            Source::Stream(stream, _) => Header::read(stream),
        }
    }

    /// Reads the header, and finds a key that opens it.
    ///
    /// What is read while another process changes the header in place may be half of the old one and half of the new one.
    /// So what does not open is read again, and tried again if it has changed.
    pub(crate) fn open(&mut self, keys: &Opener<impl KeySource>) -> Result<(Header, Opened)> {
        const TIMES: usize = 3;
        let mut read = self.header();
        for _ in 0..TIMES {
            let before = read.as_ref().map_or(Vec::new(), |header| header.bytes().to_vec());
            let opened = read.and_then(|header| keys.open(&header).map(|opened| (header, opened)));
            match opened {
                Err(e) if e.class() == Class::NotAuthentic && matches!(self, Source::File(..)) => {
                    read = self.header();
                    if read.as_ref().map_or(&[][..], Header::bytes) == before {
                        return Err(e);
                    }
                }
                done => return done,
            }
        }
        read.and_then(|header| keys.open(&header).map(|opened| (header, opened)))
    }
}

/// Reads a file from its beginning, wherever its cursor is.
struct FromStart<'a> {
    file: &'a File,
    offset: u64,
}

impl Read for FromStart<'_> {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        let len = self.file.read_at(buf, self.offset)?;
        self.offset += len as u64;
        Ok(len)
    }
}

/// Where the bytes go.
pub enum Sink<'a> {
    /// An empty regular file: any worker writes anywhere.
    File(&'a File),
    /// The same, but it will be synced: the bytes go to the disk at once, so that it works while the cores do.
    Synced(&'a File),
    /// Anything else, written in order.
    Stream(Box<dyn Write + Send + 'a>),
    /// Nowhere: the bytes are only checked.
    Nothing,
}

/// Who is told how far the work has come, in bytes of plaintext. Called from all workers.
pub trait Progress: Sync {
    /// So many bytes more are done.
    fn advance(&self, bytes: u64);
}

/// Nobody is told.
impl Progress for () {
    fn advance(&self, _: u64) {}
}
