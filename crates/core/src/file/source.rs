//! What goes in, what comes out, and who is told how far the work has come.

use crate::file::input::Stamp;
use crate::file::read_at::FromStart;
use crate::file::stream::Stream;
use crate::format::header::Header;
use crate::{Error, Result};
use std::fs::File;
use std::io::{BufReader, Read, Write};

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
