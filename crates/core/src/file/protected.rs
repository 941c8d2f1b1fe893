//! Protecting a file for its recipients, and opening a protected file. Each is a value that is used once.

use crate::file::chunks::ChunkWriter;
use crate::file::pipeline;
use crate::file::salvage::{self, Salvage};
use crate::file::shared::{self, SharedFile};
use crate::file::source::{Progress, Sink, Source};
use crate::file::write_at::WriteAt;
use crate::file::writer::Writer;
use crate::format::chunk_size::ChunkSize;
use crate::format::header::{Draft, Header};
use crate::keys::access::{Opened, OpenedBy, Opener};
use crate::keys::key::FileKeys;
use crate::keys::recipient::{Recipient, new_header};
use crate::keys::source::KeySource;
use crate::roster::Roster;
use crate::seam::Engine;
use crate::{Error, Result, Suite};
use std::fmt;
use std::io::{self, Write};
use std::sync::Arc;

/// A file that is about to be protected: its new file key, and the header that gives it to the recipients. Sealing
/// takes it, so no key is ever used for two files.
pub struct NewFile {
    header: Draft,
    keys: FileKeys,
}

impl NewFile {
    /// Draws a file key for these recipients, 1 to 64 and no more than 4 passwords among them.
    ///
    /// # Errors
    /// If there are too few or too many recipients, or if the system's random generator failed.
    pub fn new(suite: Suite, recipients: &[Recipient]) -> Result<Self> {
        Self::with_chunk_size(suite, ChunkSize::default(), recipients)
    }

    /// Draws a file key for these recipients, as [`NewFile::new`] does, for a file with another size of chunks.
    ///
    /// # Errors
    /// Those of [`NewFile::new`].
    pub fn with_chunk_size(suite: Suite, chunk_size: ChunkSize, recipients: &[Recipient]) -> Result<Self> {
        let (header, keys) = new_header(suite, chunk_size.0, recipients)?;
        Ok(Self { header, keys })
    }

    /// Protects `source`: writes the header and the sealed chunks to `sink`. Returns the plaintext's length in bytes.
    ///
    /// # Errors
    /// If reading, an engine or writing failed, if the input changed while it was read, or if it is too long for its
    /// suite. What `sink` holds is then no protected file.
    pub fn protect(
        self,
        roster: &Roster,
        mut source: Source<'_>,
        sink: Sink<'_>,
        progress: &dyn Progress,
    ) -> Result<u64> {
        let header = self.header.finish(source.short_len()?, &self.keys)?;
        pipeline::seal(roster, &header, &self.keys, source, sink, None, progress)
    }

    /// The header and the keys, for several processes that protect a plaintext together. `len` is its length, if that
    /// is known.
    ///
    /// # Errors
    /// If it is too long for the suite.
    pub fn shared(self, len: Option<u64>) -> Result<SharedFile> {
        let header = self.header.finish(len, &self.keys)?;
        header.layout_for_plaintext(len.unwrap_or(0))?;
        Ok(SharedFile::new(header, self.keys))
    }

    /// The suite.
    #[must_use]
    pub fn suite(&self) -> Suite {
        self.header.suite()
    }

    /// How many bytes of plaintext its chunks hold.
    #[must_use]
    pub fn chunk_size(&self) -> ChunkSize {
        ChunkSize(self.header.chunk_log2())
    }

    /// Protects bytes that come piece by piece: what is written to the [`Writer`] is sealed and goes to `output`. The
    /// protected file is complete only after [`Writer::finish`] has succeeded.
    ///
    /// # Errors
    /// A fault if no engine has the suite.
    pub fn writer<W: Write>(self, roster: Arc<Roster>, output: W) -> Result<Writer<W>> {
        Writer::new(self.header.finish(None, &self.keys)?, &self.keys, roster, output)
    }

    /// Protects bytes that lie where no engine of a roster reaches them: see [`ChunkWriter`].
    ///
    /// # Errors
    /// None: the header fits already.
    pub fn chunk_writer<W: Write>(self, output: W) -> Result<ChunkWriter<W>> {
        Ok(ChunkWriter::new(self.header.finish(None, &self.keys)?, self.keys, output))
    }
}

impl fmt::Debug for NewFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "NewFile({})", self.header.suite().name())
    }
}

/// A protected file that a key at hand opens. Its header is authentic; its chunks are checked when they are opened.
pub struct ProtectedFile<'a> {
    source: Source<'a>,
    header: Header,
    opened: Opened,
}

impl<'a> ProtectedFile<'a> {
    /// Reads the header, and finds a key that opens it.
    ///
    /// # Errors
    /// If reading failed, if it is not a Phalanx file or is malformed, or if no key at hand opens it.
    pub fn open(mut source: Source<'a>, keys: &Opener<impl KeySource>) -> Result<Self> {
        let (header, opened) = source.open(keys)?;
        Ok(Self { source, header, opened })
    }

    /// The header, which is authentic.
    #[must_use]
    pub fn header(&self) -> &Header {
        &self.header
    }

    /// What opened the file.
    #[must_use]
    pub fn opened_by(&self) -> &OpenedBy {
        &self.opened.by
    }

    /// The [number](Header::slots) of the slot that opened it.
    #[must_use]
    pub fn opened_slot(&self) -> usize {
        self.opened.slot
    }

    /// The tag that names a recipient in its age slot, given the recipient's canonical text.
    #[must_use]
    pub fn recipient_tag(&self, recipient: &str) -> [u8; 16] {
        self.opened.keys.recipient_tag(recipient)
    }

    /// The file's suite.
    #[must_use]
    pub fn suite(&self) -> Suite {
        self.header.suite()
    }

    /// How many bytes of plaintext its chunks hold.
    #[must_use]
    pub fn chunk_size(&self) -> ChunkSize {
        ChunkSize(self.header.chunk_log2())
    }

    /// Writes the plaintext to `sink`, each chunk after its tag is checked. Returns its length in bytes. With
    /// [`Sink::Nothing`] the chunks are checked only.
    ///
    /// # Errors
    /// If a chunk is not authentic, if the file is truncated or continues after its end, or if reading, an engine or
    /// writing failed. What `sink` holds is then not the plaintext.
    pub fn unprotect(self, roster: &Roster, sink: Sink<'_>, progress: &dyn Progress) -> Result<u64> {
        pipeline::open(roster, &self.header, &self.opened.keys, self.source, sink, None, progress)
    }

    /// Whether it is for exactly these recipients. `opener` has their keys and passwords.
    ///
    /// # Errors
    /// If one of its slots cannot be tried.
    pub fn is_for(&self, recipients: &[Recipient], opener: &Opener<impl KeySource>) -> Result<bool> {
        shared::gives_to(&self.header, &self.opened.keys, recipients, opener)
    }

    /// The header and the keys, for several processes that unprotect the file together.
    #[must_use]
    pub fn shared(self) -> SharedFile {
        SharedFile::new(self.header, self.opened.keys)
    }

    /// Writes all authentic chunks at their places in the empty file `sink`; zeros stand for the others.
    ///
    /// # Errors
    /// If no chunk is authentic, if the source is a stream, or if reading, the engine or writing failed.
    pub fn salvage(self, engine: &dyn Engine, sink: &dyn WriteAt, progress: &dyn Progress) -> Result<Salvage> {
        let Some(source) = self.source.by_range() else {
            return Err(Error::Read(io::Error::new(io::ErrorKind::InvalidInput, "not a regular file")));
        };
        salvage::salvage(engine, &self.header, &self.opened.keys, &*source, sink, progress)
    }
}

impl fmt::Debug for ProtectedFile<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ProtectedFile({})", self.suite().name())
    }
}
