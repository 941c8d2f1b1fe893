//! Reading a protected file by range without doing any input: it says which bytes it needs, and the caller passes them
//! in.

use crate::file::records::{Memory, Records};
use crate::format::chunk_size::ChunkSize;
use crate::format::header::Header;
use crate::format::layout::Layout;
use crate::format::purpose::Purpose;
use crate::keys::access::{Opened, OpenedBy, Opener};
use crate::keys::key::FileKeys;
use crate::keys::source::KeySource;
use crate::roster::{Member, Roster};
use crate::seam::{Job, Unit};
use crate::{Error, Result, Suite};
use std::fmt;
use std::ops::Range;
use std::sync::Arc;
use zeroize::Zeroizing;

/// How many bytes are requested first: enough for most headers.
const HEAD: u64 = 4096;

/// A protected file that is about to be opened by range. It reads nothing itself: the caller passes it the bytes that
/// it needs. They may come from a store, by any client, with or without async. Opening needs the header, mostly 4 KiB,
/// and the last chunk. Smaller chunks ([`NewFile::with_chunk_size`](crate::NewFile::with_chunk_size)) make ranges
/// cheaper to fetch.
///
/// ```
/// use phalanx_core::{KdfLimit, Opener, RangeOpening, Recipient, Roster, SecretKey, protect};
/// use std::{ops::Range, sync::Arc};
///
/// let key = SecretKey::random()?;
/// let stored = protect(b"The quick brown fox", &[Recipient::key(&key)])?;
/// let fetch = |range: Range<u64>| &stored[range.start as usize..range.end as usize];
///
/// let mut opening = RangeOpening::new(stored.len() as u64);
/// while let Some(range) = opening.needs() {
///     opening.feed(fetch(range))?;
/// }
/// let reader = opening.open(&Opener::new(key, KdfLimit::default()), Arc::new(Roster::cpu()))?;
/// let bytes = fetch(reader.needs(4..9));
/// assert_eq!(**reader.read(4..9, bytes)?, *b"quick");
/// # Ok::<(), phalanx_core::Error>(())
/// ```
pub struct RangeOpening {
    /// The length of the file.
    size: u64,
    head: Vec<u8>,
    /// The header, and the layout for the file's length, or why there is none.
    header: Option<(Header, Result<Layout>)>,
    /// The stored form of the last chunk.
    end: Option<Vec<u8>>,
}

impl RangeOpening {
    /// Begins to open a protected file of this length in bytes.
    #[must_use]
    pub fn new(size: u64) -> Self {
        Self { size, head: Vec::new(), header: None, end: None }
    }

    /// Which bytes of the file are needed next; `None` when it can be opened.
    #[must_use]
    pub fn needs(&self) -> Option<Range<u64>> {
        let have = self.head.len() as u64;
        match (&self.header, &self.end) {
            (None, _) => Some(have..self.head_end()),
            (Some((header, layout)), None) => last_chunk(header, layout, self.size),
            (Some(_), Some(_)) => None,
        }
    }

    /// Takes the bytes that [`RangeOpening::needs`] has named. After [`Error::Changed`] they can be given again.
    ///
    /// # Errors
    /// [`Error::Changed`] if the number of bytes differs: the file does not have the expected length.
    /// [`Error::NotPhalanx`], [`Error::Version`] or [`Error::Header`] if there is no header that can be read.
    pub fn feed(&mut self, bytes: &[u8]) -> Result<()> {
        let Some(range) = self.needs() else { return Ok(()) };
        if bytes.len() as u64 != range.end - range.start {
            return Err(Error::Changed);
        }
        if self.header.is_some() {
            self.end = Some(bytes.to_vec());
            return Ok(());
        }
        self.head.extend_from_slice(bytes);
        if self.head.len() as u64 == self.head_end() {
            let header = Header::read(&mut &self.head[..])?;
            header.check_purpose(Purpose::File)?;
            let layout = header.layout_for_file(self.size);
            self.header = Some((header, layout));
        }
        Ok(())
    }

    /// Finds a key that opens the header, and opens the last chunk, which proves the length. The chunk is not kept. An
    /// engine of the roster opens chunks, here and later, on the calling thread. Nothing waits for input, but a
    /// password costs its key derivation, and a large chunk some milliseconds. Async programs call it where they may
    /// block.
    ///
    /// # Errors
    /// [`Error::NoKey`] or [`Error::WrongKey`] if no key at hand opens it. [`Error::Truncated`] or [`Error::Extended`]
    /// if chunks are missing or more bytes follow. [`Error::Altered`] if the last chunk is damaged, cut or extended.
    /// [`Error::Fault`] if no engine has the suite. [`Error::Changed`] if bytes are still needed.
    pub fn open(self, keys: &Opener<impl KeySource>, roster: Arc<Roster>) -> Result<RangeReader> {
        let needs = self.needs();
        let (Some((header, layout)), None) = (self.header, needs) else { return Err(Error::Changed) };
        let Opened { keys, slot, by, .. } = keys.open(&header)?;
        let layout = match layout {
            Ok(layout) => layout,
            Err(error) => {
                let ends_before =
                    |(end, layout): (Vec<u8>, _)| Ranges::new(&header, &keys, layout, roster).check_end(&end).is_ok();
                let shorter = self.end.zip(whole_layout(&header, self.size));
                return Err(if shorter.is_some_and(ends_before) { GOES_ON } else { error });
            }
        };
        let ranges = Ranges::new(&header, &keys, layout, roster);
        ranges.check_end(&self.end.unwrap_or_default())?;
        Ok(RangeReader { ranges, slot, by })
    }

    /// How much of the beginning must be read, as far as this is known.
    fn head_end(&self) -> u64 {
        let len = self.head.get(8..12).map(|len| u32::from_le_bytes(len.try_into().expect("four bytes")).into());
        let have = self.head.len() as u64;
        // Parsing the header refuses a length that no header has.
        len.filter(|len| (have..=1 << 16).contains(len)).unwrap_or(HEAD.max(have)).min(self.size)
    }
}

impl fmt::Debug for RangeOpening {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "RangeOpening({} bytes)", self.size)
    }
}

/// The error for a file with more bytes than its chunks.
pub(crate) const GOES_ON: Error = Error::Extended("it goes on after its last chunk");

/// The layout of the whole chunks of a file whose length cannot be right because its last chunk is too short.
pub(crate) fn whole_layout(header: &Header, size: u64) -> Option<Layout> {
    let header_len = header.bytes().len() as u64;
    let record = (header.suite().overhead() + (1 << header.chunk_log2())) as u64;
    let whole = size.saturating_sub(header_len) / record;
    if whole == 0 { None } else { header.layout_for_file(header_len + whole * record).ok() }
}

/// Where the last chunk lies. If the length cannot be right, this is the last whole chunk, which may be the true end.
fn last_chunk(header: &Header, layout: &Result<Layout>, size: u64) -> Option<Range<u64>> {
    let whole;
    let layout = match layout {
        Ok(layout) => layout,
        Err(Error::Truncated(_)) => {
            whole = whole_layout(header, size)?;
            &whole
        }
        Err(_) => return None,
    };
    Some(layout.file_offset(layout.chunks() - 1)..layout.file_len())
}

/// A protected file that is read by range, from bytes that the caller fetches. Made by [`RangeOpening`].
pub struct RangeReader {
    ranges: Ranges,
    slot: usize,
    by: OpenedBy,
}

impl RangeReader {
    /// The length of the plaintext in bytes, which is authentic.
    #[must_use]
    pub fn len(&self) -> u64 {
        self.ranges.layout.plaintext_len()
    }

    /// Whether the plaintext has no bytes.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Which bytes of the file a range of the plaintext needs: whole chunks, with their nonces and tags. Bytes after
    /// the end of the plaintext do not count. An empty range needs nothing: it gives `0..0`, which must not be fetched.
    #[must_use]
    pub fn needs(&self, plaintext: Range<u64>) -> Range<u64> {
        self.ranges.stored(plaintext)
    }

    /// The plaintext of a range, given the bytes that [`RangeReader::needs`] has named. Each chunk is checked before
    /// any of its bytes is returned. The work is done on the calling thread. A range that exceeds the plaintext stops
    /// at its end.
    ///
    /// # Errors
    /// [`Error::Changed`] if the number of bytes differs, [`Error::Altered`] if a chunk is not authentic, or a fault if
    /// an engine failed.
    pub fn read(&self, plaintext: Range<u64>, stored: &[u8]) -> Result<Zeroizing<Vec<u8>>> {
        let needed = self.needs(plaintext.clone());
        if stored.len() as u64 != needed.end - needed.start {
            return Err(Error::Changed);
        }
        let ranges = &self.ranges;
        let (chunks, end) = (ranges.chunks(plaintext.clone()), plaintext.end.min(self.len()));
        if chunks.is_empty() {
            return Ok(Zeroizing::default());
        }
        let mut memory = ranges.memory(&chunks)?;
        memory.bytes_mut().copy_from_slice(stored);
        let opened = ranges.open(&mut memory, &chunks, ranges.roster.first(self.suite())?)?;
        if let Some(index) = (chunks.start + opened as u64..chunks.end).next() {
            return Err(Error::Altered { chunk: index, last: ranges.layout.is_last(index) });
        }
        let mut out = Zeroizing::new(Vec::with_capacity((end - plaintext.start) as usize));
        for (place, chunk) in chunks.enumerate() {
            let data = &memory.bytes()[ranges.records.data(place, ranges.layout.data_len(chunk))];
            let at = ranges.layout.plaintext_offset(chunk);
            let from = plaintext.start.saturating_sub(at).min(data.len() as u64) as usize;
            let to = (end - at).min(data.len() as u64) as usize;
            out.extend_from_slice(&data[from..to]);
        }
        Ok(out)
    }

    /// What opened the file.
    #[must_use]
    pub fn opened_by(&self) -> &OpenedBy {
        &self.by
    }

    /// The [number](Header::slots) of the slot that opened it.
    #[must_use]
    pub fn opened_slot(&self) -> usize {
        self.slot
    }

    /// The file's suite.
    #[must_use]
    pub fn suite(&self) -> Suite {
        self.ranges.records.suite
    }

    /// How many bytes of plaintext a chunk holds: what is opened at once.
    #[must_use]
    pub fn chunk_size(&self) -> ChunkSize {
        self.ranges.records.chunk_size()
    }
}

impl fmt::Debug for RangeReader {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "RangeReader({}, {} bytes)", self.suite().name(), self.len())
    }
}

/// The chunks of a protected file, and how their stored bytes are opened.
pub(crate) struct Ranges {
    pub layout: Layout,
    pub records: Records,
    pub roster: Arc<Roster>,
}

impl Ranges {
    pub fn new(header: &Header, keys: &FileKeys, layout: Layout, roster: Arc<Roster>) -> Self {
        Self { layout, records: Records::new(header, keys), roster }
    }

    /// The chunk that has a byte of the plaintext.
    pub fn chunk_of(&self, offset: u64) -> u64 {
        offset / self.records.chunk_len as u64
    }

    /// Where the chunks of a range of the plaintext are stored; `0..0` if it is empty.
    pub fn stored(&self, plaintext: Range<u64>) -> Range<u64> {
        let chunks = self.chunks(plaintext);
        if chunks.is_empty() {
            return 0..0;
        }
        let last = chunks.end - 1;
        let after =
            if self.layout.is_last(last) { self.layout.file_len() } else { self.layout.file_offset(chunks.end) };
        self.layout.file_offset(chunks.start)..after
    }

    /// The stored length of a run of chunks.
    pub fn stored_len(&self, chunks: &Range<u64>) -> usize {
        let last = chunks.end - 1;
        let data = self.layout.data_len(last) + self.records.suite.overhead();
        (last - chunks.start) as usize * self.records.record_len() + data
    }

    /// Memory for a run of chunks.
    pub fn memory(&self, chunks: &Range<u64>) -> Result<Memory> {
        Memory::new(self.stored_len(chunks), self.records.suite.overhead())
    }

    /// The chunks that a range of the plaintext needs.
    fn chunks(&self, plaintext: Range<u64>) -> Range<u64> {
        let end = plaintext.end.min(self.layout.plaintext_len());
        if plaintext.start >= end { 0..0 } else { self.chunk_of(plaintext.start)..self.chunk_of(end - 1) + 1 }
    }

    /// The units of a run of chunks in memory.
    fn units(&self, chunks: &Range<u64>) -> Vec<Unit> {
        let unit =
            |(place, chunk)| self.records.unit(place, chunk, self.layout.is_last(chunk), self.layout.data_len(chunk));
        chunks.clone().enumerate().map(unit).collect()
    }

    /// The job that opens a range, whose stored bytes are these.
    pub fn job(&self, plaintext: Range<u64>, stored: &[u8]) -> Job {
        self.records.job_elsewhere(stored, self.units(&self.chunks(plaintext)))
    }

    /// Opens a run of chunks where it lies in memory. Returns how many of them are authentic, from the first on. It is
    /// an error if the first is not.
    pub fn open(&self, memory: &mut Memory, chunks: &Range<u64>, member: &Member) -> Result<usize> {
        match self.records.open(&self.roster, member, memory, self.units(chunks))? {
            0 => Err(Error::Altered { chunk: chunks.start, last: self.layout.is_last(chunks.start) }),
            opened => Ok(opened),
        }
    }

    /// Opens the last chunk from its stored bytes, which proves the length.
    fn check_end(&self, stored: &[u8]) -> Result<()> {
        let last = self.layout.chunks() - 1;
        let chunks = last..last + 1;
        let fill = || -> Result<Memory> {
            let mut memory = self.memory(&chunks)?;
            memory.bytes_mut().copy_from_slice(stored);
            Ok(memory)
        };
        match self.open(&mut fill()?, &chunks, self.roster.first(self.records.suite)?) {
            Err(Error::Altered { .. }) if self.goes_on_after(last, fill()?)? => Err(CUT_OFF),
            checked => checked.map(drop),
        }
    }

    /// Whether a chunk, whose stored bytes are in memory, is intact at its place, but not the last of its file.
    pub fn goes_on_after(&self, chunk: u64, mut memory: Memory) -> Result<bool> {
        let units = vec![self.records.unit(0, chunk, false, self.layout.data_len(chunk))];
        let member = self.roster.first(self.records.suite)?;
        Ok(self.records.open(&self.roster, member, &mut memory, units)? == 1)
    }
}

/// The error for a file whose last chunk is one from its middle.
pub(crate) const CUT_OFF: Error = Error::Truncated("chunks are missing at its end");
