//! A file that several processes protect or unprotect together. Each of them does its own runs of chunks.

use crate::file::pipeline;
use crate::file::read_at::ReadAt;
use crate::file::source::{Progress, Sink, Source};
use crate::file::survey::{self, Partial};
use crate::file::write_at::Draft;
use crate::format::chunk_size::ChunkSize;
use crate::format::header::Header;
use crate::format::slot::Slot;
use crate::keys::access::Opener;
use crate::keys::key::{FileKeys, SHARED};
use crate::keys::recipient::Recipient;
use crate::keys::source::KeySource;
use crate::roster::Roster;
use crate::{Error, Result, Suite};
use std::fmt;
use std::ops::Range;
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

    /// The keys of the content and the header, as bytes for another process. They give access to this file and to no
    /// other.
    #[must_use]
    pub fn to_bytes(&self) -> Zeroizing<Vec<u8>> {
        let header = self.header.bytes();
        let mut bytes = Zeroizing::new(Vec::with_capacity(SHARED + header.len()));
        bytes.extend_from_slice(&*self.keys.to_bytes());
        bytes.extend_from_slice(header);
        bytes
    }

    /// Reads the bytes that [`SharedFile::to_bytes`] returned in another process.
    ///
    /// # Errors
    /// If these bytes are something else.
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

    /// The tag of an entry in the record of an unfinished output: `docs/format.md`, section 11. `output` identifies the
    /// output in the record.
    #[must_use]
    pub fn record_tag(&self, entry: &[u8], output: &[u8]) -> [u8; 32] {
        self.keys.record_tag(entry, output, self.header.bytes())
    }

    /// Whether it is for exactly these recipients. `opener` has their keys and passwords.
    ///
    /// # Errors
    /// If one of its slots cannot be tried.
    pub fn is_for(&self, recipients: &[Recipient], opener: &Opener<impl KeySource>) -> Result<bool> {
        gives_to(&self.header, &self.keys, recipients, opener)
    }

    /// How many bytes of plaintext its chunks hold.
    #[must_use]
    pub fn chunk_size(&self) -> ChunkSize {
        ChunkSize(self.header.chunk_log2())
    }

    /// Protects `source`, or these runs of its chunks in ascending order. The header goes before the first chunk.
    /// Returns how many bytes of plaintext were sealed.
    ///
    /// # Errors
    /// Those of [`NewFile::protect`](crate::NewFile::protect).
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

    /// Unprotects `source`, or these runs of its chunks in ascending order. With runs, zeros are left out of the
    /// output, whose length is to be set when all of it is done. Returns how many bytes of plaintext were opened.
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

    /// The chunks of a run that are not done yet in an output that is being protected, as runs in ascending order.
    /// `progress` is notified of those that are done. The plaintext has `len` bytes.
    ///
    /// # Errors
    /// If an engine fails. A chunk that cannot be read counts as not done.
    pub fn not_sealed(
        &self,
        roster: &Roster,
        output: &dyn Draft,
        len: u64,
        within: Range<u64>,
        progress: &dyn Progress,
    ) -> Result<Vec<Range<u64>>> {
        let layout = self.header.layout_for_plaintext(len)?;
        survey::missing(roster, &self.header, &self.keys, &layout, Partial::Protected(output), within, progress)
    }

    /// The chunks of a run that are not done yet in the plaintext `output` of the file `protected`, as runs in
    /// ascending order. `progress` is notified of those that are done. Existing bytes of the others stay, and the
    /// caller must clear them before it continues.
    ///
    /// # Errors
    /// If an engine fails, or if `protected` cannot be read.
    pub fn not_opened(
        &self,
        roster: &Roster,
        protected: &(dyn ReadAt + Send + Sync),
        output: &dyn Draft,
        within: Range<u64>,
        progress: &dyn Progress,
    ) -> Result<Vec<Range<u64>>> {
        let layout = self.header.layout_for_file(protected.size().map_err(Error::Read)?)?;
        let partial = Partial::Plaintext { output, protected };
        survey::missing(roster, &self.header, &self.keys, &layout, partial, within, progress)
    }
}

impl fmt::Debug for SharedFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SharedFile({})", self.suite().name())
    }
}

/// Whether a header gives access to exactly these recipients.
pub(crate) fn gives_to(
    header: &Header,
    keys: &FileKeys,
    recipients: &[Recipient],
    opener: &Opener<impl KeySource>,
) -> Result<bool> {
    let slots = || header.numbered().filter(|(_, slot)| !matches!(slot, Slot::Padding(_)));
    if slots().count() != recipients.len() {
        return Ok(false);
    }
    // Each slot belongs to a different recipient.
    let mut left: Vec<&Recipient> = recipients.iter().collect();
    for (number, slot) in slots() {
        let is_its = |recipient: &&Recipient| match (recipient, slot) {
            (Recipient::Key { id: its, .. }, Slot::Key { id, .. }) => its == id,
            (Recipient::Password { .. }, Slot::Password { .. }) => true,
            (Recipient::Age(recipient), Slot::Age { tag, .. }) => keys.recipient_tag(recipient.text()) == *tag,
            (Recipient::Service { uri: its, .. }, Slot::Service { uri, .. }) => **its == **uri,
            _ => false,
        };
        let Some(found) = left.iter().position(is_its) else { return Ok(false) };
        let recipient = left.swap_remove(found);
        if !matches!(recipient, Recipient::Age(_)) && !opens(opener, header, number)? {
            return Ok(false);
        }
    }
    Ok(true)
}

fn opens(opener: &Opener<impl KeySource>, header: &Header, number: usize) -> Result<bool> {
    match opener.open_slot(header, |slot| slot == number) {
        Ok(_) => Ok(true),
        Err(Error::NoKey { .. } | Error::WrongKey | Error::KeysRefused { .. } | Error::KdfLimit(_)) => Ok(false),
        Err(e) => Err(e),
    }
}
