//! The layout of a file: `docs/format.md`, section 2.3.

use crate::{Error, Result, Suite};

/// The places of a file's chunks, for a file whose length is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Layout {
    header_len: u64,
    /// The plaintext of every chunk but the last, in bytes.
    chunk_len: u64,
    /// Nonce and tag of one chunk.
    overhead: u64,
    chunks: u64,
    plaintext_len: u64,
}

impl Layout {
    /// The layout for a plaintext of `plaintext_len` bytes; `None` if the file would be longer than 2^63 − 1 bytes, or
    /// longer than the suite allows.
    #[must_use]
    pub fn for_plaintext(header_len: usize, suite: Suite, chunk_log2: u8, plaintext_len: u64) -> Option<Self> {
        let chunk_len = 1u64 << chunk_log2;
        let overhead = suite.overhead() as u64;
        let header_len = header_len as u64;
        let chunks = Some(plaintext_len.div_ceil(chunk_len).max(1)).filter(|chunks| *chunks <= suite.max_chunks())?;
        let file_len = chunks.checked_mul(overhead)?.checked_add(plaintext_len)?.checked_add(header_len)?;
        i64::try_from(file_len).ok()?;
        Some(Self { header_len, chunk_len, overhead, chunks, plaintext_len })
    }

    /// The layout of a stored file of `file_len` bytes.
    ///
    /// # Errors
    /// [`Error::Truncated`] or [`Error::Extended`] if no plaintext gives a file of that length.
    pub fn for_file(header_len: usize, suite: Suite, chunk_log2: u8, file_len: u64) -> Result<Self> {
        let overhead = suite.overhead() as u64;
        let record = (1u64 << chunk_log2) + overhead;
        let body =
            file_len.checked_sub(header_len as u64).filter(|n| *n > 0).ok_or(Error::Truncated("it has no chunk"))?;
        let chunks = body.div_ceil(record);
        let last = body - (chunks - 1) * record;
        if last < overhead || (last == overhead && chunks > 1) {
            return Err(Error::Truncated("its last chunk is not whole"));
        }
        Self::for_plaintext(header_len, suite, chunk_log2, body - chunks * overhead)
            .ok_or(Error::Extended("it is longer than a file may be"))
    }

    /// The number of chunks, at least 1.
    #[must_use]
    pub fn chunks(&self) -> u64 {
        self.chunks
    }

    /// The length of the plaintext in bytes.
    #[must_use]
    pub fn plaintext_len(&self) -> u64 {
        self.plaintext_len
    }

    /// The length of the stored file in bytes.
    #[must_use]
    pub fn file_len(&self) -> u64 {
        self.header_len + self.plaintext_len + self.chunks * self.overhead
    }

    /// Whether chunk `index` is the last.
    #[must_use]
    pub fn is_last(&self, index: u64) -> bool {
        index + 1 == self.chunks
    }

    /// The length of chunk `index`'s plaintext.
    #[must_use]
    pub fn data_len(&self, index: u64) -> usize {
        (self.plaintext_len - self.plaintext_offset(index)).min(self.chunk_len) as usize
    }

    /// Where chunk `index` begins in the plaintext.
    #[must_use]
    pub fn plaintext_offset(&self, index: u64) -> u64 {
        index * self.chunk_len
    }

    /// Where chunk `index` begins in the stored file.
    #[must_use]
    pub fn file_offset(&self, index: u64) -> u64 {
        self.header_len + index * (self.chunk_len + self.overhead)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// One of each kind: their nonces and tags differ in length.
    const SUITES: [Suite; 2] = [Suite::Aes256CtrSha3, Suite::Aes256Gcm];

    #[test]
    fn plaintext_and_file_lengths_agree() {
        for (log2, suite) in [12, 13, 20, 24].into_iter().flat_map(|log2| SUITES.map(|suite| (log2, suite))) {
            let c = 1u64 << log2;
            let head = if suite == Suite::Aes256Gcm { 28 } else { 48 };
            for len in [0, 1, 27, 47, 48, 49, c - 1, c, c + 1, 2 * c - 1, 2 * c, 2 * c + 1, 9 * c, (1 << 40) + 7] {
                let a = Layout::for_plaintext(100, suite, log2, len).unwrap();
                assert_eq!(a, Layout::for_file(100, suite, log2, a.file_len()).unwrap(), "{log2} {len}");
                assert_eq!(a.file_len(), 100 + len + head * len.div_ceil(c).max(1));
                let last = a.chunks() - 1;
                assert!(a.is_last(last));
                assert_eq!(a.plaintext_offset(last) + a.data_len(last) as u64, len);
                assert_eq!(a.file_offset(last) + head + a.data_len(last) as u64, a.file_len());
            }
        }
    }

    #[test]
    fn a_length_is_valid_exactly_if_a_plaintext_gives_it() {
        // Miri takes one length of chunk, and not three, and of the lengths those at its ends.
        let chunks = if cfg!(miri) { 1 } else { 3 };
        let is_tried = |len: &u64| !cfg!(miri) || len % 4096 < 150;
        for suite in SUITES {
            let file_len = |n| Layout::for_plaintext(60, suite, 12, n).unwrap().file_len();
            let lawful: std::collections::HashSet<u64> = (0..chunks * 4096).map(file_len).filter(is_tried).collect();
            for len in (0..60 + chunks * (4096 + suite.overhead() as u64)).filter(is_tried) {
                assert_eq!(Layout::for_file(60, suite, 12, len).is_ok(), lawful.contains(&len), "{len}");
            }
        }
    }

    #[test]
    fn nothing_overflows() {
        for len in [u64::MAX, u64::MAX - 1, 1 << 63, (1 << 63) - 1, (1 << 63) - 1000] {
            for log2 in [12, 24] {
                let _ = Layout::for_plaintext(65536, SUITES[0], log2, len);
                let _ = Layout::for_file(65536, SUITES[0], log2, len);
            }
        }
        assert!(Layout::for_plaintext(60, SUITES[0], 12, (1 << 63) - 1).is_none());
        let most = 1 << (32 + 12);
        assert!(Layout::for_plaintext(60, Suite::Aes256Gcm, 12, most).is_some());
        assert!(Layout::for_plaintext(60, Suite::Aes256Gcm, 12, most + 1).is_none());
        assert!(Layout::for_plaintext(60, SUITES[0], 12, most + 1).is_some());
    }
}
