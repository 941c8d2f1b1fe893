//! What a signature of a protected file is made of: a short text that anybody can make from the file without a key.
//! `docs/signatures.md` specifies it.

use super::contents::{Contents, StoredChunks};
use crate::file::read_at::ReadAt;
use crate::file::source::ChunkHead;
use crate::{ChunkSize, Result, Suite};
use std::fmt;

/// What a signed file is to its reader. One is never taken for the other: a signer may protect what somebody else has written, and
/// that may look like a manifest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Signed {
    /// A file of its own.
    File,
    /// The manifest of a tree, which stands for the whole tree.
    Tree,
}

/// The text that is signed. It stays the same if only the file's header changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SignedText {
    signed: Signed,
    suite: Suite,
    chunk_size: ChunkSize,
    plaintext_len: u64,
    root: [u8; 32],
}

impl SignedText {
    /// The text of a file that was just written or opened; `None` in suite 4, whose tags do not commit to the content.
    #[must_use]
    pub fn new(
        signed: Signed,
        (suite, chunk_size): (Suite, ChunkSize),
        plaintext_len: u64,
        contents: &Contents,
    ) -> Option<Self> {
        (suite != Suite::Aes256Gcm).then_some(Self { signed, suite, chunk_size, plaintext_len, root: contents.root })
    }

    /// How many chunks a stored file has, by its header and its length. All are as long as the header says, so a file with
    /// holes can have very many.
    ///
    /// # Errors
    /// Those of [`Contents::read`].
    pub fn chunks(stored: &impl ReadAt) -> Result<u64> {
        Ok(StoredChunks::read(stored)?.layout.chunks())
    }

    /// Makes it from a stored file, of whose chunks only nonces and tags are read. `note` gets each of them. `None` as for
    /// [`SignedText::new`].
    ///
    /// # Errors
    /// Those of [`Contents::read`].
    pub fn read(stored: &impl ReadAt, signed: Signed, note: impl FnMut(&ChunkHead<'_>)) -> Result<Option<Self>> {
        let chunks = StoredChunks::read(stored)?;
        if chunks.suite == Suite::Aes256Gcm {
            return Ok(None);
        }
        let contents = chunks.contents(note)?;
        Ok(Self::new(signed, (chunks.suite, chunks.chunk_size), chunks.layout.plaintext_len(), &contents))
    }
}

impl fmt::Display for SignedText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = match self.signed {
            Signed::File => "file",
            Signed::Tree => "tree",
        };
        write!(f, "phalanx signed {kind} 1\nsuite {}\n", self.suite.id())?;
        write!(f, "chunk {}\nplaintext {}\nroot ", self.chunk_size.bytes(), self.plaintext_len)?;
        self.root.iter().try_for_each(|byte| write!(f, "{byte:02x}"))?;
        f.write_str("\n")
    }
}
