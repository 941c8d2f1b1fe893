//! The form in which a server sends a backup: three files, one after another, and a digest, so that a stream that was cut
//! off or altered on its way is not taken for a whole one.
//!
//! ```text
//! "phalanx backup 1"
//! for each file:  u8 length of the name ‖ name ‖ u64 length ‖ bytes        rows.db, buckets.db, root.phx
//! at the end:     u8 0 ‖ SHA3-256 of everything before it
//! ```

use aws_lc_rs::digest::{Context, SHA3_256};
use std::io::{self, Read};

/// The files of a backup, in their order.
pub const FILES: [&str; 3] = ["rows.db", "buckets.db", "root.phx"];
/// The most bytes that are sent at once.
pub const PIECE: usize = 64 << 10;

const MAGIC: &[u8] = b"phalanx backup 1";
const DIGEST: usize = 32;

/// Writes a stream to whatever takes its pieces.
pub struct Writer<T> {
    take: T,
    digest: Context,
}

impl<T: FnMut(Vec<u8>) -> io::Result<()>> Writer<T> {
    /// Begins a stream.
    ///
    /// # Errors
    /// Those of `take`.
    pub fn new(take: T) -> io::Result<Self> {
        let mut new = Self { take, digest: Context::new(&SHA3_256) };
        new.put(MAGIC.to_vec())?;
        Ok(new)
    }

    /// Writes a file of this length.
    ///
    /// # Errors
    /// If the file cannot be read or is shorter, and those of `take`.
    pub fn file(&mut self, name: &str, len: u64, file: &mut impl Read) -> io::Result<()> {
        let name_len = u8::try_from(name.len()).map_err(io::Error::other)?;
        let mut head = vec![name_len];
        head.extend_from_slice(name.as_bytes());
        head.extend_from_slice(&len.to_le_bytes());
        self.put(head)?;
        let mut left = len;
        while left > 0 {
            let mut piece = vec![0; usize::try_from(left.min(PIECE as u64)).unwrap_or(PIECE)];
            file.read_exact(&mut piece)?;
            left -= piece.len() as u64;
            self.put(piece)?;
        }
        Ok(())
    }

    /// Ends the stream.
    ///
    /// # Errors
    /// Those of `take`.
    pub fn finish(mut self) -> io::Result<()> {
        self.put(vec![0])?;
        (self.take)(self.digest.finish().as_ref().to_vec())
    }

    fn put(&mut self, bytes: Vec<u8>) -> io::Result<()> {
        self.digest.update(&bytes);
        (self.take)(bytes)
    }
}

/// Takes the files of a backup.
pub trait Sink {
    /// What fails.
    type Error;
    /// A file begins.
    ///
    /// # Errors
    /// If it cannot be made.
    fn begin(&mut self, number: usize) -> Result<(), Self::Error>;
    /// Some of its bytes.
    ///
    /// # Errors
    /// If they cannot be written.
    fn bytes(&mut self, number: usize, bytes: &[u8]) -> Result<(), Self::Error>;
}

/// Reads a stream, in whatever pieces it comes.
pub struct Reader {
    digest: Context,
    /// What is expected next has not come in full.
    kept: Vec<u8>,
    next: Next,
    /// The number of the file.
    file: usize,
}

#[derive(Clone, Copy)]
enum Next {
    Magic,
    Head,
    Bytes(u64),
    Digest,
    End,
}

/// Why a stream is not taken.
pub enum Unfit<E> {
    /// It is not in this form, or altered.
    Form,
    /// Its bytes could not be written.
    Sink(E),
}

impl Default for Reader {
    fn default() -> Self {
        Self { digest: Context::new(&SHA3_256), kept: Vec::new(), next: Next::Magic, file: 0 }
    }
}

impl Reader {
    /// Takes the next piece.
    ///
    /// # Errors
    /// If the stream is unfit, or the sink fails.
    pub fn take<S: Sink>(&mut self, mut piece: &[u8], sink: &mut S) -> Result<(), Unfit<S::Error>> {
        while !piece.is_empty() {
            if let Next::Bytes(left) = self.next {
                let now = usize::try_from(left.min(piece.len() as u64)).unwrap_or(piece.len());
                let (bytes, rest) = piece.split_at(now);
                self.digest.update(bytes);
                sink.bytes(self.file, bytes).map_err(Unfit::Sink)?;
                piece = rest;
                self.continue_with(left - now as u64);
                continue;
            }
            self.kept.push(piece[0]);
            piece = &piece[1..];
            self.step(sink)?;
        }
        Ok(())
    }

    /// Whether the stream was whole.
    pub fn is_whole(&self) -> bool {
        matches!(self.next, Next::End)
    }

    fn continue_with(&mut self, left: u64) {
        self.next = if left > 0 {
            Next::Bytes(left)
        } else {
            self.file += 1;
            Next::Head
        };
    }

    /// Takes a part of the stream that is kept whole, if it is.
    fn step<S: Sink>(&mut self, sink: &mut S) -> Result<(), Unfit<S::Error>> {
        match self.next {
            Next::Magic if self.kept.len() == MAGIC.len() => {
                if self.kept != MAGIC {
                    return Err(Unfit::Form);
                }
                self.keep_nothing(Next::Head);
            }
            Next::Head => return self.head(sink),
            Next::Digest if self.kept.len() == DIGEST => {
                let digest = std::mem::replace(&mut self.digest, Context::new(&SHA3_256)).finish();
                if digest.as_ref() != self.kept {
                    return Err(Unfit::Form);
                }
                self.next = Next::End;
            }
            Next::End => return Err(Unfit::Form),
            _ => {}
        }
        Ok(())
    }

    fn head<S: Sink>(&mut self, sink: &mut S) -> Result<(), Unfit<S::Error>> {
        let Some(name) = FILES.get(self.file) else {
            if self.kept != [0] {
                return Err(Unfit::Form);
            }
            self.keep_nothing(Next::Digest);
            return Ok(());
        };
        let begin = [&[u8::try_from(name.len()).unwrap_or(0)], name.as_bytes()].concat();
        let same = self.kept.len().min(begin.len());
        if self.kept[..same] != begin[..same] {
            return Err(Unfit::Form);
        }
        let Some(len) = self.kept.get(begin.len()..).and_then(|len| <[u8; 8]>::try_from(len).ok()) else {
            return Ok(());
        };
        sink.begin(self.file).map_err(Unfit::Sink)?;
        self.keep_nothing(Next::Head);
        self.continue_with(u64::from_le_bytes(len));
        Ok(())
    }

    fn keep_nothing(&mut self, next: Next) {
        self.digest.update(&self.kept);
        self.kept.clear();
        self.next = next;
    }
}

/// Backups in memory, for tests.
#[cfg(any(test, feature = "fuzzing"))]
pub mod memory {
    use super::{FILES, Reader, Sink, Writer};

    #[derive(Default)]
    struct Files(Vec<Vec<u8>>);

    impl Sink for Files {
        type Error = ();
        fn begin(&mut self, number: usize) -> Result<(), ()> {
            assert_eq!(number, self.0.len());
            self.0.push(Vec::new());
            Ok(())
        }
        fn bytes(&mut self, number: usize, bytes: &[u8]) -> Result<(), ()> {
            self.0[number].extend_from_slice(bytes);
            Ok(())
        }
    }

    /// The stream of these files.
    #[must_use]
    pub fn sent(files: &[Vec<u8>]) -> Vec<u8> {
        let mut all = Vec::new();
        let take = |piece: Vec<u8>| {
            all.extend_from_slice(&piece);
            Ok(())
        };
        let mut writer = Writer::new(take).expect("memory");
        for (name, bytes) in FILES.iter().zip(files) {
            writer.file(name, bytes.len() as u64, &mut bytes.as_slice()).expect("memory");
        }
        writer.finish().expect("memory");
        all
    }

    /// The files of a stream that comes in pieces of this length, if it is whole.
    #[must_use]
    pub fn received(stream: &[u8], piece: usize) -> Option<Vec<Vec<u8>>> {
        let (mut reader, mut files) = (Reader::default(), Files::default());
        stream.chunks(piece).try_for_each(|piece| reader.take(piece, &mut files).ok())?;
        reader.is_whole().then_some(files.0)
    }
}

#[cfg(test)]
mod tests {
    use super::PIECE;
    use super::memory::{received, sent};

    #[test]
    fn streams_are_read_in_any_pieces() {
        let files = vec![vec![7; 3 * PIECE + 5], Vec::new(), b"root".to_vec()];
        let stream = sent(&files);
        for piece in [1, 7, 1000, PIECE, stream.len()] {
            assert_eq!(received(&stream, piece).as_ref(), Some(&files));
        }
    }

    #[test]
    fn what_is_cut_off_or_altered_is_noticed() {
        let files = vec![b"rows".to_vec(), b"buckets".to_vec(), Vec::new()];
        let whole = sent(&files);
        for len in 0..whole.len() {
            assert_eq!(received(&whole[..len], 9), None, "{len}");
        }
        for at in 0..whole.len() {
            let mut altered = whole.clone();
            altered[at] ^= 1;
            assert_eq!(received(&altered, 9), None, "{at}");
        }
        assert_eq!(received(&[whole.as_slice(), b"x"].concat(), 9), None);
    }
}
