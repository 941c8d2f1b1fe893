//! Protecting bytes that lie elsewhere: their chunks are sealed there, and come here in order.

use crate::file::records::Records;
use crate::format::chunk_size::ChunkSize;
use crate::format::header::Header;
use crate::keys::key::FileKeys;
use crate::seam::{Job, Unit};
use crate::{Error, Result, Suite};
use std::collections::VecDeque;
use std::fmt;
use std::io::{self, Write};

/// Writes a protected file whose chunks are sealed by somebody who leaves the plaintext where it lies: in the memory of a
/// GPU, for example. Made by [`NewFile::chunk_writer`](crate::NewFile::chunk_writer).
///
/// [`ChunkWriter::job`] gives out runs of chunks in their order, as jobs for an engine, and [`ChunkWriter::write`] takes
/// them back in the same order when they are sealed. Several may be out at once.
///
/// The nonces of a job are drawn for it, and no chunk is given out twice. A job that failed is not given out again:
/// then the file is given up. Whoever seals must not seal other bytes by a job that has been used, because that would
/// use its nonces twice. So a job is a value that `write` consumes.
///
/// After an error, the output does not hold a protected file, and all further calls fail.
pub struct ChunkWriter<W> {
    output: W,
    header: Header,
    keys: FileKeys,
    records: Records,
    /// The units of the jobs that are out, as they were given out.
    out: VecDeque<Vec<Unit>>,
    /// How many chunks were given out.
    chunks: u64,
    /// The length of the plaintext that was given out, in bytes.
    len: u64,
    /// Whether the last chunk was given out.
    has_ended: bool,
    /// Whether the header is written.
    has_begun: bool,
    has_failed: bool,
}

impl<W: Write> ChunkWriter<W> {
    pub(crate) fn new(header: Header, keys: FileKeys, output: W) -> Self {
        let records = Records::new(&header, &keys);
        let [has_ended, has_begun, has_failed] = Default::default();
        Self {
            output,
            header,
            keys,
            records,
            out: VecDeque::new(),
            chunks: 0,
            len: 0,
            has_ended,
            has_begun,
            has_failed,
        }
    }

    /// The suite.
    #[must_use]
    pub fn suite(&self) -> Suite {
        self.records.suite
    }

    /// How many bytes of plaintext a chunk holds.
    #[must_use]
    pub fn chunk_size(&self) -> ChunkSize {
        self.records.chunk_size()
    }

    /// A job that seals the next `len` bytes of the plaintext, under new nonces. Its own buffer is empty, and its units name
    /// the places of their ciphertext in the memory that [`ChunkWriter::write`] takes: each after its nonce and tag. With
    /// `last`, the plaintext ends with them.
    ///
    /// # Errors
    /// [`Error::Write`] if the plaintext is too long for its suite, or [`Error::Random`].
    ///
    /// # Panics
    /// If the plaintext has ended, or if `len` is zero or no multiple of the chunk size. A last job may have any length but
    /// zero, and zero if the plaintext is empty.
    pub fn job(&mut self, len: usize, last: bool) -> Result<Job> {
        self.check()?;
        let chunk_len = self.records.chunk_len;
        let is_whole = len > 0 && len.is_multiple_of(chunk_len);
        assert!(!self.has_ended, "the plaintext has ended");
        assert!(is_whole || (last && (len > 0 || self.chunks == 0)), "{len} bytes are no run of chunks");
        self.has_failed = true;
        // Only an empty file has an empty chunk.
        let count = len.div_ceil(chunk_len).max(1);
        if self.suite().max_chunks() - self.chunks < count as u64 {
            return Err(Error::Write(io::ErrorKind::FileTooLarge.into()));
        }
        let unit = |chunk: usize| {
            let (index, is_last) = (self.chunks + chunk as u64, last && chunk + 1 == count);
            self.records.unit(chunk, index, is_last, chunk_len.min(len - chunk * chunk_len))
        };
        let job = self.records.new_job_elsewhere((0..count).map(unit).collect())?;
        self.out.push_back(job.units.clone());
        self.chunks += count as u64;
        self.len += len as u64;
        self.has_ended = last;
        self.has_failed = false;
        Ok(job)
    }

    /// Writes the oldest job that is out. It is sealed, so its units have their tags, and `stored` has their ciphertext at
    /// the places that they name. The nonces and tags are stored before it.
    ///
    /// # Errors
    /// [`Error::Write`] if writing fails, or if it is another job's turn.
    ///
    /// # Panics
    /// If `stored` ends before the last unit does.
    pub fn write(&mut self, job: Job, stored: &mut [u8]) -> Result<()> {
        self.check()?;
        self.has_failed = true;
        let given = self.out.pop_front().unwrap_or_default();
        let is_same = |(given, sealed): (&Unit, &Unit)| {
            given.nonce == sealed.nonce && given.bind == sealed.bind && given.data == sealed.data
        };
        if given.is_empty() || given.len() != job.units.len() || !given.iter().zip(&job.units).all(is_same) {
            return Err(Error::Write(io::Error::other("chunks are written in another order than they were given out")));
        }
        let end = given.last().map_or(0, |unit| unit.data.end);
        let stored = &mut stored[..end];
        self.records.put_heads(stored, &job.units);
        if !self.has_begun {
            if self.has_ended {
                // Nothing was written yet, and its length is known.
                self.header = self.header.clone().fitted(Some(self.len), &self.keys)?;
            }
            self.output.write_all(self.header.bytes()).map_err(Error::Write)?;
            self.has_begun = true;
        }
        self.output.write_all(stored).map_err(Error::Write)?;
        self.has_failed = false;
        Ok(())
    }

    /// Flushes the output, when the last chunk has been written. Returns the plaintext's length in bytes.
    ///
    /// # Errors
    /// [`Error::Write`] if that fails, if a chunk is missing, or if an earlier call failed.
    pub fn finish(mut self) -> Result<u64> {
        self.check()?;
        if !self.has_ended || !self.out.is_empty() {
            return Err(Error::Write(io::Error::other("the last chunk was not written")));
        }
        self.output.flush().map_err(Error::Write)?;
        Ok(self.len)
    }

    fn check(&self) -> Result<()> {
        if self.has_failed { Err(Error::Write(io::Error::other("an earlier write failed"))) } else { Ok(()) }
    }
}

impl<W> fmt::Debug for ChunkWriter<W> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ChunkWriter({}, {} bytes)", self.records.suite.name(), self.len)
    }
}
