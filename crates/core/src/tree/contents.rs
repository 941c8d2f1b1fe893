//! What a protected file holds, in a form that needs no key.

use super::hash_tree::{HashTree, leaf};
use crate::file::read_at::{FromStart, ReadAt, read_full_at};
use crate::file::source::{ChunkHead, Progress};
use crate::format::header::Header;
use crate::format::layout::Layout;
use crate::{ChunkSize, Result, Suite};
use std::fmt;
use std::io::BufReader;
use std::ops::Range;
use std::sync::{Mutex, PoisonError};

/// The most bytes of a chunk's nonce and tag.
const HEAD: usize = 48;

/// Nonce and tag of a file's last chunk. They change whenever the file is written, and survive a change of its keys. They can be
/// read without a key. In suite 4, 20 zero bytes follow.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct LastChunk(pub [u8; HEAD]);

impl LastChunk {
    pub(crate) fn new(nonce: &[u8], tag: &[u8]) -> Self {
        let mut head = [0; HEAD];
        head[..nonce.len()].copy_from_slice(nonce);
        head[nonce.len()..nonce.len() + tag.len()].copy_from_slice(tag);
        Self(head)
    }

    /// Whether it is one of suite 4, whose tags do not commit to the content. In another suite it would end in 20 zero bytes
    /// with a chance of 2^-160.
    #[must_use]
    pub fn is_of_gcm(&self) -> bool {
        self.0[Suite::Aes256Gcm.overhead()..].iter().all(|byte| *byte == 0)
    }

    /// Reads it from a stored file, with the length of the plaintext, in bytes.
    ///
    /// # Errors
    /// Those of [`Header::read`], and [`Error::Truncated`](crate::Error::Truncated) or
    /// [`Error::Extended`](crate::Error::Extended) if no plaintext gives a file of that length.
    pub fn read(stored: &impl ReadAt) -> Result<(Self, u64)> {
        let chunks = StoredChunks::read(stored)?;
        let last = chunks.head(chunks.layout.chunks() - 1)?;
        let (nonce, tag) = chunks.split(&last);
        Ok((Self::new(nonce, tag), chunks.layout.plaintext_len()))
    }
}

impl fmt::Debug for LastChunk {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "LastChunk({:02x?}…)", &self.0[..4])
    }
}

/// What a protected file holds: its last chunk, and the root of the hash tree over the nonces and tags of all its chunks.
///
/// The keys of the file bind both. So two files with equal contents have equal plaintexts, unless somebody who knows the file
/// key made one of them in suite 4.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Contents {
    /// Nonce and tag of the last chunk.
    pub last: LastChunk,
    /// The root of the hash tree.
    pub root: [u8; 32],
}

impl Contents {
    /// Reads them from a stored file. Of its chunks, only nonces and tags are read.
    ///
    /// # Errors
    /// Those of [`LastChunk::read`].
    pub fn read(stored: &impl ReadAt) -> Result<Self> {
        StoredChunks::read(stored)?.contents(|_| {})
    }
}

/// The chunks of a stored file, whose nonces and tags are read one by one.
pub(super) struct StoredChunks<'a, S> {
    stored: &'a S,
    pub suite: Suite,
    pub chunk_size: ChunkSize,
    pub layout: Layout,
}

impl<'a, S: ReadAt> StoredChunks<'a, S> {
    pub fn read(stored: &'a S) -> Result<Self> {
        let header = Header::read(&mut BufReader::with_capacity(4096, FromStart::new(stored)))?;
        let layout = header.layout_for_file(stored.size().map_err(crate::Error::Read)?)?;
        Ok(Self { stored, suite: header.suite(), chunk_size: ChunkSize(header.chunk_log2()), layout })
    }

    /// Reads the nonces and tags of all chunks. `note` gets each.
    pub fn contents(&self, mut note: impl FnMut(&ChunkHead<'_>)) -> Result<Contents> {
        let (mut tree, mut last) = (HashTree::default(), LastChunk([0; HEAD]));
        for index in 0..self.layout.chunks() {
            let head = self.head(index)?;
            let (nonce, tag) = self.split(&head);
            tree.add(index, leaf(nonce, tag));
            last = LastChunk::new(nonce, tag);
            note(&ChunkHead { index, is_last: self.layout.is_last(index), nonce, tag });
        }
        let root = tree.root(self.layout.chunks()).expect("all chunks were added");
        Ok(Contents { last, root })
    }

    fn head(&self, index: u64) -> Result<[u8; HEAD]> {
        let mut head = [0; HEAD];
        read_full_at(self.stored, &mut head[..self.suite.overhead()], self.layout.file_offset(index))?;
        Ok(head)
    }

    fn split<'h>(&self, head: &'h [u8; HEAD]) -> (&'h [u8], &'h [u8]) {
        head[..self.suite.overhead()].split_at(self.suite.nonce_len())
    }
}

/// Makes a file's [`Contents`] while it is protected or unprotected. It passes progress on.
pub struct Recorder<'a> {
    progress: &'a dyn Progress,
    recorded: Mutex<Recorded>,
}

#[derive(Default)]
struct Recorded {
    tree: HashTree,
    /// How many chunks there are, and the last, once that is known.
    last: Option<(u64, LastChunk)>,
}

impl<'a> Recorder<'a> {
    /// Passes progress on to `progress`.
    pub fn new(progress: &'a dyn Progress) -> Self {
        Self { progress, recorded: Mutex::default() }
    }

    /// The contents; `None` if not all chunks were sealed or opened in this run.
    #[must_use]
    pub fn contents(self) -> Option<Contents> {
        let Recorded { tree, last } = self.recorded.into_inner().unwrap_or_else(PoisonError::into_inner);
        let (chunks, last) = last?;
        Some(Contents { last, root: tree.root(chunks)? })
    }
}

impl Progress for Recorder<'_> {
    fn advance(&self, bytes: u64) {
        self.progress.advance(bytes);
    }

    fn is_cancelled(&self) -> bool {
        self.progress.is_cancelled()
    }

    fn written(&self, chunks: Range<u64>) {
        self.progress.written(chunks);
    }

    fn record(&self, head: &ChunkHead<'_>) {
        let hash = leaf(head.nonce, head.tag);
        let mut recorded = self.recorded.lock().unwrap_or_else(PoisonError::into_inner);
        recorded.tree.add(head.index, hash);
        if head.is_last {
            recorded.last = Some((head.index + 1, LastChunk::new(head.nonce, head.tag)));
        }
    }
}
