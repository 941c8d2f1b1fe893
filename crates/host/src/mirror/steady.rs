//! A file to which others may write while it is read, and which cannot become another one by that.

use crate::lock::lock;
use phalanx_core::{ReadAt, Reader};
use std::collections::BTreeMap;
use std::io;
use std::sync::Mutex;

/// A protected file of which some bytes are read only once: what was read of them first is what every later read returns.
///
/// These are the bytes that its digest is made from: the header, and the nonces and tags of its chunks. They bind all else, so
/// what is opened is what was digested, or is not authentic. Its length is the one that it had at first.
pub struct Steady {
    source: Box<dyn ReadAt + Send + Sync>,
    len: u64,
    kept: Mutex<Kept>,
}

/// The bytes that were read.
#[derive(Default)]
struct Kept {
    /// By their offsets. Where some overlap, they are the same.
    parts: BTreeMap<u64, Vec<u8>>,
    /// The length of the longest part.
    longest: u64,
    /// Which bytes are kept; all that are read, as long as that is not known.
    heads: Option<Heads>,
}

/// Where the nonces and tags of a file's chunks lie.
#[derive(Clone, Copy)]
struct Heads {
    first: u64,
    /// From one to the next.
    step: u64,
    len: u64,
}

impl Steady {
    /// The file as it is now.
    ///
    /// # Errors
    /// If its length cannot be read.
    pub fn new(source: impl ReadAt + Send + Sync + 'static) -> io::Result<Self> {
        let len = source.size()?;
        Ok(Self { source: Box::new(source), len, kept: Mutex::default() })
    }

    /// From now on keeps nonces and tags only. What was read before stays as it is.
    pub fn keep_heads_of<S: ReadAt + Send + Sync + 'static>(&self, reader: &Reader<S>) {
        let len = reader.suite().overhead() as u64;
        let step = reader.chunk_size().bytes() as u64 + len;
        lock(&self.kept).heads = Some(Heads { first: reader.protected_range(0..1).start, step, len });
    }
}

impl ReadAt for Steady {
    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<usize> {
        if lock(&self.kept).fill(buf, offset) {
            return Ok(buf.len());
        }
        let len = self.source.read_at(buf, offset)?.min(buf.len());
        // Another thread may have read the same bytes meanwhile. The first one counts.
        lock(&self.kept).settle(&mut buf[..len], offset);
        Ok(len)
    }

    fn size(&self) -> io::Result<u64> {
        Ok(self.len)
    }
}

impl Kept {
    /// Fills `buf` if all bytes from an offset on are in one part.
    fn fill(&self, buf: &mut [u8], offset: u64) -> bool {
        let part = self.parts.get(&offset).and_then(|part| part.get(..buf.len()));
        part.inspect(|part| buf.copy_from_slice(part)).is_some()
    }

    /// Puts what is kept in the place of what was read now, and keeps the rest of it.
    fn settle(&mut self, bytes: &mut [u8], offset: u64) {
        let end = offset + bytes.len() as u64;
        for (start, part) in self.parts.range(offset.saturating_sub(self.longest)..end) {
            let (from, to) = (offset.max(*start), end.min(start + part.len() as u64));
            if from < to {
                let part = &part[(from - start) as usize..(to - start) as usize];
                bytes[(from - offset) as usize..(to - offset) as usize].copy_from_slice(part);
            }
        }
        let Some(Heads { first, step, len }) = self.heads else { return self.keep(bytes, offset) };
        let mut head = first + offset.saturating_sub(first) / step * step;
        while head < end {
            let (from, to) = (head.max(offset), end.min(head + len));
            if from < to {
                self.keep(&bytes[(from - offset) as usize..(to - offset) as usize], from);
            }
            head += step;
        }
    }

    fn keep(&mut self, bytes: &[u8], offset: u64) {
        let part = self.parts.entry(offset).or_default();
        if part.len() < bytes.len() {
            *part = bytes.to_vec();
            self.longest = self.longest.max(bytes.len() as u64);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicU8, Ordering};

    /// A file that has other bytes in each read.
    struct Restless(AtomicU8);

    impl ReadAt for Restless {
        fn read_at(&self, buf: &mut [u8], _: u64) -> io::Result<usize> {
            buf.fill(self.0.fetch_add(1, Ordering::Relaxed));
            Ok(buf.len())
        }

        fn size(&self) -> io::Result<u64> {
            Ok(100)
        }
    }

    fn read(steady: &Steady, offset: u64, len: usize) -> Vec<u8> {
        let mut buf = vec![0xff; len];
        assert_eq!(steady.read_at(&mut buf, offset).unwrap(), len);
        buf
    }

    #[test]
    fn bytes_that_were_read_stay_the_same() {
        let steady = Steady::new(Restless(AtomicU8::new(0))).unwrap();
        assert_eq!(read(&steady, 4, 4), [0; 4]);
        assert_eq!(read(&steady, 2, 8), [1, 1, 0, 0, 0, 0, 1, 1]);
        assert_eq!(read(&steady, 4, 2), [0; 2]);
        assert_eq!(read(&steady, 0, 12), [2, 2, 1, 1, 0, 0, 0, 0, 1, 1, 2, 2]);
        assert_eq!(read(&steady, 9, 2), [1, 2]);
    }

    #[test]
    fn of_chunks_the_heads_stay_the_same() {
        let steady = Steady::new(Restless(AtomicU8::new(0))).unwrap();
        lock(&steady.kept).heads = Some(Heads { first: 3, step: 5, len: 2 });
        assert_eq!(read(&steady, 0, 9), [0; 9]);
        assert_eq!(read(&steady, 0, 15), [1, 1, 1, 0, 0, 1, 1, 1, 0, 1, 1, 1, 1, 1, 1]);
        assert_eq!(read(&steady, 7, 8), [2, 0, 1, 2, 2, 2, 1, 1]);
        assert_eq!(lock(&steady.kept).parts.values().map(Vec::len).max(), Some(2));
    }
}
