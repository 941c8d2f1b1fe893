//! A file that several processes protect or unprotect together. Each of them does its own runs of chunks.

use crate::file::input::Stamp;
use crate::file::marks::{Identity, Kind, Recorder};
use crate::file::pipeline;
use crate::file::resume;
use crate::file::source::{Progress, Sink, Source};
use crate::file::survey::{self, Partial};
use crate::format::header::Header;
use crate::format::layout::Layout;
use crate::keys::key::{FileKeys, SHARED};
use crate::roster::Roster;
use crate::{Error, Result, Suite};
use std::fmt;
use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use zeroize::Zeroizing;

/// The header of a file, and the keys of its content. Each process that works on the file has them.
pub struct SharedFile {
    header: Header,
    keys: FileKeys,
}

impl SharedFile {
    pub(crate) fn new(header: Header, keys: FileKeys) -> Self {
        Self { header, keys }
    }

    pub(crate) fn recorder(&self, kind: Kind, stamp: Stamp, output: &File) -> Result<Recorder<'_>> {
        let output = Identity::new(kind, output)?;
        Ok(Recorder { kind, stamp, output, header: &self.header, keys: &self.keys })
    }

    /// For another process: the keys of the content and the header. Whoever has these bytes can read and write the file, and
    /// no other.
    #[must_use]
    pub fn to_bytes(&self) -> Zeroizing<Vec<u8>> {
        let header = self.header.bytes();
        let mut bytes = Zeroizing::new(Vec::with_capacity(SHARED + header.len()));
        bytes.extend_from_slice(&*self.keys.to_bytes());
        bytes.extend_from_slice(header);
        bytes
    }

    /// What [`SharedFile::to_bytes`] gave in another process.
    ///
    /// # Errors
    /// If these bytes are not that.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self> {
        let (keys, mut header) = bytes.split_first_chunk::<SHARED>().ok_or(Error::Header("keys without a header"))?;
        let header = Header::read(&mut header)?;
        let keys = FileKeys::from_bytes(header.suite(), keys);
        if !header.is_authentic(&keys) {
            return Err(Error::Header("not the header of these keys"));
        }
        Ok(Self { header, keys })
    }

    /// The header, which is authentic.
    #[must_use]
    pub fn header(&self) -> &Header {
        &self.header
    }

    /// The suite.
    #[must_use]
    pub fn suite(&self) -> Suite {
        self.header.suite()
    }

    /// Whether a file begins with the header.
    ///
    /// # Errors
    /// If it cannot be read.
    pub fn begins(&self, file: &File) -> io::Result<bool> {
        let mut bytes = vec![0; self.header.bytes().len()];
        match file.read_exact_at(&mut bytes, 0) {
            Ok(()) => Ok(bytes == self.header.bytes()),
            Err(e) if e.kind() == io::ErrorKind::UnexpectedEof => Ok(false),
            Err(e) => Err(e),
        }
    }

    /// Protects `source`, or these runs of its chunks in ascending order. The header goes before the first chunk. Returns how
    /// many bytes of plaintext were sealed.
    ///
    /// # Errors
    /// Those of [`NewFile::seal`](crate::NewFile::seal).
    pub fn seal(
        &self,
        roster: &Roster,
        source: Source<'_>,
        sink: Sink<'_>,
        runs: Option<Vec<Range<u64>>>,
        progress: &dyn Progress,
    ) -> Result<u64> {
        pipeline::seal(roster, &self.header, &self.keys, source, sink, runs, progress)
    }

    /// Unprotects `source`, or these runs of its chunks in ascending order. With runs, zeros are left out of the output, whose
    /// length is to be set when all of it is done. Returns how many bytes of plaintext were opened.
    ///
    /// # Errors
    /// Those of [`ProtectedFile::unprotect`](crate::ProtectedFile::unprotect).
    pub fn open(
        &self,
        roster: &Roster,
        source: Source<'_>,
        sink: Sink<'_>,
        runs: Option<Vec<Range<u64>>>,
        progress: &dyn Progress,
    ) -> Result<u64> {
        pipeline::open(roster, &self.header, &self.keys, source, sink, runs, progress)
    }

    /// The chunks of a run that are not done yet in an output that is being protected: runs in ascending order. `progress` is
    /// told of those that are done. The plaintext has `len` bytes.
    ///
    /// # Errors
    /// If an engine fails. A chunk that cannot be read is not done.
    pub fn not_sealed(
        &self,
        roster: &Roster,
        output: &File,
        len: u64,
        within: Range<u64>,
        progress: &dyn Progress,
    ) -> Result<Vec<Range<u64>>> {
        let layout = self.header.layout_for_plaintext(len)?;
        self.missing(roster, &layout, Partial::Protected(output), within, progress)
    }

    /// The chunks of a run that are not done yet in `output`, the plaintext of the file `protected`: runs in ascending order.
    /// What is not done is empty then: a hole, or zeros.
    ///
    /// # Errors
    /// If an engine fails, if `protected` cannot be read, or if `output` cannot be written.
    pub fn not_opened(
        &self,
        roster: &Roster,
        protected: &File,
        output: &File,
        within: Range<u64>,
        progress: &dyn Progress,
    ) -> Result<Vec<Range<u64>>> {
        let layout = self.header.layout_for_file(protected.metadata().map_err(Error::Read)?.len())?;
        self.missing(roster, &layout, Partial::Plaintext { output, protected }, within, progress)
    }

    pub(crate) fn missing(
        &self,
        roster: &Roster,
        layout: &Layout,
        partial: Partial<'_>,
        within: Range<u64>,
        progress: &dyn Progress,
    ) -> Result<Vec<Range<u64>>> {
        let missing = survey::missing(roster, &self.header, &self.keys, layout, partial, within, progress)?;
        if let Partial::Plaintext { output, .. } = partial {
            resume::clear(output, layout, &missing).map_err(Error::Write)?;
        }
        Ok(missing)
    }
}

impl fmt::Debug for SharedFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SharedFile({})", self.suite().name())
    }
}
