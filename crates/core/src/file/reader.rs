//! Reading a protected file by range, from any source of bytes at offsets.

use crate::file::cache::Block;
use crate::file::fetch::{Fetch, ReadStream};
use crate::file::ranges::{GOES_ON, Ranges, whole_layout};
use crate::file::read_at::{FromStart, ReadAt, read_full_at};
use crate::file::source::open_header;
use crate::format::chunk_size::ChunkSize;
use crate::format::header::Header;
use crate::format::purpose::Purpose;
use crate::keys::access::{Opened, OpenedBy, Opener};
use crate::keys::key::FileKeys;
use crate::keys::source::KeySource;
use crate::roster::Roster;
use crate::seam::Job;
use crate::tree::LastChunk;
use crate::{Error, Result, Suite};
use std::fmt;
use std::io::{self, BufRead, BufReader, Read, Seek, SeekFrom};
use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The number of streams that [`Reader::read_at`] distinguishes.
const STREAMS: usize = 8;

/// How a [`Reader`] works: how much it keeps, how far it reads ahead, and which engines do the work.
///
/// By default it keeps 16 MiB or four chunks, reads 8 MiB or two chunks ahead, whichever is more, and works on all
/// cores.
#[derive(Clone, Debug, Default)]
pub struct ReaderOptions {
    cache: Option<usize>,
    read_ahead: Option<usize>,
    roster: Option<Arc<Roster>>,
}

impl ReaderOptions {
    /// The options of [`Reader::open`].
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// How many bytes of opened chunks are kept at most, but at least one chunk. In addition, each reading thread uses
    /// the memory of a chunk, or 1 MiB.
    #[must_use]
    pub fn cache(mut self, bytes: usize) -> Self {
        self.cache = Some(bytes);
        self
    }

    /// How many bytes are opened ahead of a sequential reader; 0 for none, and never more than half of the cache. The
    /// first read of a stream opens nothing ahead, and later reads at most as much as was read before.
    #[must_use]
    pub fn read_ahead(mut self, bytes: usize) -> Self {
        self.read_ahead = Some(bytes);
        self
    }

    /// Which engines open chunks, and by how many threads: a read-ahead starts as many threads as they have workers.
    #[must_use]
    pub fn roster(mut self, roster: Arc<Roster>) -> Self {
        self.roster = Some(roster);
        self
    }
}

/// A protected file whose plaintext is read by range. Each chunk is checked before any of its bytes is returned, and
/// the length is checked too.
///
/// It is [`Read`], [`BufRead`] and [`Seek`]. [`Reader::read_at`] needs no cursor, and many threads may call it at once.
/// A clone has its own cursor, and shares the opened chunks. A clone that reads by its cursor also keeps the chunks
/// that its last read ended in. When the last clone has been dropped, all chunks are wiped, and the threads that read
/// ahead have ended.
///
/// That drop waits for reads of the source that are under way. Do not drop the last clone while you hold a lock that
/// the source takes, such as an interpreter's. A child process after `fork` must not use a reader of its parent.
///
/// If the file is not authentic, errors of [`Read`] have the kind [`io::ErrorKind::InvalidData`], with the [`Error`]
/// inside. A reader can be used after an error: other chunks can still be read.
///
/// ```
/// use phalanx_core::{KdfLimit, NewFile, Opener, Reader, Recipient, Roster, SecretKey, Sink, Source, Suite};
///
/// let (key, mut stored) = (SecretKey::random()?, Vec::new());
/// let new = NewFile::new(Suite::default(), &[Recipient::key(&key)])?;
/// let sink = Sink::stream(&mut stored);
/// new.protect(&Roster::cpu(), Source::stream(&b"The quick brown fox"[..]), sink, &())?;
///
/// let reader = Reader::open(stored, &Opener::new(key, KdfLimit::default()))?;
/// assert_eq!(reader.len(), 19);
/// let mut word = [0; 5];
/// assert_eq!(reader.read_at(&mut word, 4)?, 5);
/// assert_eq!(&word, b"quick");
/// assert_eq!(reader.read_at(&mut word, 19)?, 0);
/// # Ok::<(), phalanx_core::Error>(())
/// ```
pub struct Reader<S> {
    shared: Arc<Shared<S>>,
    position: u64,
    /// The block that the last read ended in.
    here: Option<Arc<Block>>,
    stream: ReadStream,
}

/// What all clones share.
struct Shared<S> {
    fetch: Arc<Fetch<S>>,
    /// Nonce and tag of the last chunk, which was authentic.
    last: LastChunk,
    /// The number of the slot that opened the file, and its owner.
    slot: usize,
    by: OpenedBy,
    /// The streams of `read_at`, the most recent one last.
    streams: Mutex<Vec<ReadStream>>,
}

impl<S> Drop for Shared<S> {
    fn drop(&mut self) {
        self.fetch.close();
    }
}

impl<S: ReadAt + Send + Sync + 'static> Reader<S> {
    /// Reads the header, finds a key that opens it, and opens the last chunk, which proves the length.
    ///
    /// # Errors
    /// If reading failed, if it is not a Phalanx file or is malformed, if no key at hand opens it, or if the file is
    /// truncated, extended, or damaged in its last chunk.
    pub fn open(source: S, keys: &Opener<impl KeySource>) -> Result<Self> {
        Self::open_with(source, keys, &ReaderOptions::new())
    }

    /// Reads the header, finds a key that opens it, and opens the last chunk, with other options than [`Reader::open`].
    ///
    /// # Errors
    /// Those of [`Reader::open`], or a fault if no engine has the file's suite.
    pub fn open_with(source: S, keys: &Opener<impl KeySource>, options: &ReaderOptions) -> Result<Self> {
        let read = || {
            let header = Header::read(&mut BufReader::with_capacity(4096, FromStart::new(&source)))?;
            header.check_purpose(Purpose::File).map(|()| header)
        };
        let (header, Opened { keys, slot, by, .. }) = open_header(read, keys)?;
        let len = source.size().map_err(Error::Read)?;
        let layout = header.layout_for_file(len).map_err(|error| explain(error, &source, len, &header, &keys))?;
        let roster = options.roster.clone().unwrap_or_else(|| Arc::new(Roster::cpu()));
        let ranges = Ranges::new(&header, &keys, layout, roster);
        let cache = options.cache.unwrap_or((16 << 20).max(4 * ranges.records.record_len()));
        let ahead = options.read_ahead.unwrap_or((8 << 20).max(2 * ranges.records.record_len()));
        let fetch = Fetch::new(source, ranges, cache, ahead)?;
        let last = fetch.check_end()?;
        let shared = Shared { fetch: Arc::new(fetch), last, slot, by, streams: Mutex::default() };
        Ok(Self { shared: Arc::new(shared), position: 0, here: None, stream: ReadStream::default() })
    }

    /// Reads plaintext from `offset` on into `buf`, and returns how many bytes. Any number of threads may call it.
    ///
    /// `buf` is filled unless the file ends. A read at or after the end returns 0.
    ///
    /// # Errors
    /// [`Error::Altered`] if a chunk is not authentic, [`Error::Changed`] if the source ends earlier than it said, or
    /// if reading or an engine failed. `buf` may then hold authentic bytes of earlier chunks.
    pub fn read_at(&self, buf: &mut [u8], offset: u64) -> Result<usize> {
        let left = self.len().saturating_sub(offset);
        let wanted = usize::try_from(left).unwrap_or(usize::MAX).min(buf.len());
        if wanted == 0 {
            return Ok(0);
        }
        let end = self.chunk_of(offset + wanted as u64 - 1) + 1;
        let mut stream = self.take_stream(offset, wanted as u64);
        let mut done = 0;
        while done < wanted {
            let at = offset + done as u64;
            let block = self.shared.fetch.block(self.chunk_of(at), end, &mut stream)?;
            let copied = self.copy(&block, at, &mut buf[done..wanted]);
            stream.advance(at + copied as u64, copied);
            done += copied;
        }
        self.put_stream(stream);
        Ok(done)
    }

    /// The length of the plaintext in bytes, which is authentic.
    #[must_use]
    pub fn len(&self) -> u64 {
        self.shared.fetch.ranges.layout.plaintext_len()
    }

    /// Whether the plaintext has no bytes.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Nonce and tag of the last chunk, as they were when it was opened. Unlike what [`LastChunk::read`] finds, they are
    /// authentic, and they belong to what this reader reads: all other chunks have the same key.
    #[must_use]
    pub fn last_chunk(&self) -> LastChunk {
        self.shared.last
    }

    /// What opened the file.
    #[must_use]
    pub fn opened_by(&self) -> &OpenedBy {
        &self.shared.by
    }

    /// The [number](Header::slots) of the slot that opened it.
    #[must_use]
    pub fn opened_slot(&self) -> usize {
        self.shared.slot
    }

    /// The file's suite.
    #[must_use]
    pub fn suite(&self) -> Suite {
        self.shared.fetch.ranges.records.suite
    }

    /// How many bytes of plaintext a chunk holds: what is opened at once.
    #[must_use]
    pub fn chunk_size(&self) -> ChunkSize {
        self.shared.fetch.ranges.records.chunk_size()
    }

    fn chunk_len(&self) -> usize {
        self.shared.fetch.ranges.records.chunk_len
    }

    /// The source.
    #[must_use]
    pub fn source(&self) -> &S {
        &self.shared.fetch.source
    }

    /// Which bytes of the source a range of the plaintext needs, besides those that were read on opening: whole chunks,
    /// with their nonces and tags. Bytes after the end of the plaintext do not count, and an empty range needs nothing:
    /// `0..0`.
    ///
    /// A caller that fetches these bytes at once, and gives them to the source, avoids smaller requests.
    #[must_use]
    pub fn protected_range(&self, plaintext: Range<u64>) -> Range<u64> {
        self.shared.fetch.ranges.stored(plaintext)
    }

    /// Reads the bytes that [`Reader::protected_range`] names for a range of the plaintext to the beginning of `stored`,
    /// and makes the job that opens them, for an engine that leaves the bytes where they lie: the job's own buffer is
    /// empty, and its units name places in `stored`. Nothing is checked yet, and nothing is kept.
    ///
    /// The first chunk's plaintext begins at `plaintext.start`, rounded down to a multiple of [`Reader::chunk_size`]. The
    /// caller must use no byte of a unit that the engine's verdicts name.
    ///
    /// # Errors
    /// [`Error::Changed`] if the source ends earlier than it said, or [`Error::Read`].
    ///
    /// # Panics
    /// If `stored` is shorter than those bytes.
    pub fn job(&self, plaintext: Range<u64>, stored: &mut [u8]) -> Result<Job> {
        let range = self.protected_range(plaintext.clone());
        let stored = &mut stored[..(range.end - range.start) as usize];
        read_full_at(self.source(), stored, range.start)?;
        Ok(self.shared.fetch.ranges.job(plaintext, stored))
    }

    fn chunk_of(&self, offset: u64) -> u64 {
        self.shared.fetch.ranges.chunk_of(offset)
    }

    /// Copies as many bytes of a block, from `offset` of the plaintext on, as there is room for.
    fn copy(&self, block: &Block, offset: u64, buf: &mut [u8]) -> usize {
        let fetch = &self.shared.fetch;
        let (mut done, mut skip) = (0, (offset % self.chunk_len() as u64) as usize);
        for chunk in self.chunk_of(offset)..block.chunks.end {
            let data = &block.chunk(&fetch.ranges.records, chunk, fetch.ranges.layout.data_len(chunk))[skip..];
            let len = data.len().min(buf.len() - done);
            buf[done..done + len].copy_from_slice(&data[..len]);
            (done, skip) = (done + len, 0);
            if done == buf.len() {
                break;
            }
        }
        done
    }

    /// The block that the cursor is in, for a reader that wants this many bytes. `None` at or after the end.
    fn block_here(&mut self, wanted: usize) -> Result<Option<Arc<Block>>> {
        if self.position >= self.len() {
            self.here = None;
        }
        if self.position >= self.len() || wanted == 0 {
            return Ok(None);
        }
        let chunk = self.chunk_of(self.position);
        if self.here.as_ref().is_none_or(|block| !block.chunks.contains(&chunk)) {
            if self.position != self.stream.end {
                self.stream = ReadStream::new(self.position);
            }
            // Its memory may be the next block's.
            self.here = None;
            let end = self.chunk_of(self.position.saturating_add(wanted as u64).min(self.len()) - 1) + 1;
            self.here = Some(self.shared.fetch.block(chunk, end, &mut self.stream)?);
        }
        Ok(self.here.clone())
    }

    fn advance(&mut self, len: usize) {
        self.position += len as u64;
        self.stream.advance(self.position, len);
    }

    /// The stream that a read continues. Reads of several threads may arrive out of order, so a read may begin a little
    /// before or after the end of the one before.
    fn take_stream(&self, offset: u64, len: u64) -> ReadStream {
        let near = len.saturating_mul(2).min(1 << 20);
        let mut streams = self.streams();
        match streams.iter().rposition(|stream| stream.end.abs_diff(offset) <= near) {
            Some(place) => streams.remove(place),
            None => ReadStream::new(offset),
        }
    }

    fn put_stream(&self, stream: ReadStream) {
        let mut streams = self.streams();
        if streams.len() == STREAMS {
            streams.remove(0);
        }
        streams.push(stream);
    }

    fn streams(&self) -> MutexGuard<'_, Vec<ReadStream>> {
        self.shared.streams.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Why a file of an impossible length does not open: it ends too early, or it continues after its last chunk.
fn explain<S: ReadAt>(error: Error, source: &S, len: u64, header: &Header, keys: &FileKeys) -> Error {
    let ends_before = |layout| -> Result<()> {
        let ranges = Ranges::new(header, keys, layout, Arc::new(Roster::cpu()));
        Fetch::new(source, ranges, 0, 0)?.check_end().map(drop)
    };
    match whole_layout(header, len) {
        Some(layout) if matches!(error, Error::Truncated(_)) && ends_before(layout).is_ok() => GOES_ON,
        _ => error,
    }
}

impl<S: ReadAt + Send + Sync + 'static> Read for Reader<S> {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        let Some(block) = self.block_here(buf.len())? else { return Ok(0) };
        let done = self.copy(&block, self.position, buf);
        self.advance(done);
        Ok(done)
    }
}

/// Returns bytes without copying them: those of the cache, up to the end of the chunk.
impl<S: ReadAt + Send + Sync + 'static> BufRead for Reader<S> {
    fn fill_buf(&mut self) -> io::Result<&[u8]> {
        if self.block_here(1)?.is_none() {
            return Ok(&[]);
        }
        let (fetch, chunk) = (&self.shared.fetch, self.chunk_of(self.position));
        let skip = (self.position % self.chunk_len() as u64) as usize;
        match &self.here {
            Some(block) => Ok(&block.chunk(&fetch.ranges.records, chunk, fetch.ranges.layout.data_len(chunk))[skip..]),
            None => Ok(&[]),
        }
    }

    fn consume(&mut self, amount: usize) {
        let left = self.len().saturating_sub(self.position);
        self.advance(usize::try_from(left).unwrap_or(usize::MAX).min(amount));
    }
}

/// A position may lie after the end: nothing is read there.
impl<S: ReadAt + Send + Sync + 'static> Seek for Reader<S> {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        let position = match to {
            SeekFrom::Start(position) => Some(position),
            SeekFrom::Current(by) => self.position.checked_add_signed(by),
            SeekFrom::End(by) => self.len().checked_add_signed(by),
        };
        self.position =
            position.ok_or(io::Error::new(io::ErrorKind::InvalidInput, "before the beginning of the file"))?;
        Ok(self.position)
    }
}

impl<S> Clone for Reader<S> {
    fn clone(&self) -> Self {
        Self { shared: self.shared.clone(), position: self.position, here: None, stream: self.stream }
    }
}

impl<S> fmt::Debug for Reader<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let fetch = &self.shared.fetch;
        write!(f, "Reader({}, {} bytes)", fetch.ranges.records.suite.name(), fetch.ranges.layout.plaintext_len())
    }
}
