//! Sources of bytes at offsets: files, memory, and anything else that can be read by range.

use crate::{Error, Result};
use std::fs::File;
use std::io::{self, IoSliceMut, Read};
#[cfg(unix)]
use std::os::unix::fs::FileExt;
#[cfg(windows)]
use std::os::windows::fs::FileExt;
use std::sync::Arc;

/// A source of bytes at offsets, for a [`Reader`](crate::Reader).
///
/// Files and memory are such sources. Object storage becomes one by implementing this trait: a read is then a request
/// for a range. If the source is [`Sync`], calls come from several threads at once.
pub trait ReadAt {
    /// Reads bytes from `offset` on into `buf`, and returns how many. It may return fewer than `buf` has room for, but
    /// 0 only if `buf` is empty or if the source ends at or before `offset`.
    ///
    /// # Errors
    /// Errors of the source. After [`io::ErrorKind::Interrupted`] the read is repeated.
    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<usize>;

    /// The length of the source in bytes.
    ///
    /// # Errors
    /// Errors of the source.
    fn size(&self) -> io::Result<u64>;

    /// Reads bytes from `offset` on into the parts, one after the other, and returns how many. The contract is that of
    /// [`ReadAt::read_at`]. A source that fills several parts in one call overrides it.
    ///
    /// # Errors
    /// Errors of the source. After [`io::ErrorKind::Interrupted`] the read is repeated.
    fn read_vectored_at(&self, parts: &mut [IoSliceMut<'_>], offset: u64) -> io::Result<usize> {
        match parts.iter_mut().find(|part| !part.is_empty()) {
            Some(part) => self.read_at(part, offset),
            None => Ok(0),
        }
    }
}

/// A source that knows whether it is unchanged since its protection began. Its [`ReadAt::size`] is the length that it
/// had then.
pub trait Snapshot: ReadAt + Send + Sync {
    /// Whether it is unchanged. Called after all of it has been read.
    ///
    /// # Errors
    /// If this cannot be found out.
    fn is_unchanged(&self) -> io::Result<bool>;
}

/// A regular file. The file's cursor is not used, but it moves on Windows.
impl ReadAt for File {
    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<usize> {
        #[cfg(unix)]
        let read = FileExt::read_at(self, buf, offset);
        #[cfg(windows)]
        let read = self.seek_read(buf, offset);
        read
    }

    fn size(&self) -> io::Result<u64> {
        Ok(self.metadata()?.len())
    }
}

impl ReadAt for [u8] {
    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<usize> {
        let rest = usize::try_from(offset).ok().and_then(|offset| self.get(offset..)).unwrap_or_default();
        let len = rest.len().min(buf.len());
        buf[..len].copy_from_slice(&rest[..len]);
        Ok(len)
    }

    fn size(&self) -> io::Result<u64> {
        Ok(self.len() as u64)
    }
}

impl ReadAt for Vec<u8> {
    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<usize> {
        self.as_slice().read_at(buf, offset)
    }

    fn size(&self) -> io::Result<u64> {
        self.as_slice().size()
    }
}

impl<T: ReadAt + ?Sized> ReadAt for &T {
    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<usize> {
        (**self).read_at(buf, offset)
    }

    fn read_vectored_at(&self, parts: &mut [IoSliceMut<'_>], offset: u64) -> io::Result<usize> {
        (**self).read_vectored_at(parts, offset)
    }

    fn size(&self) -> io::Result<u64> {
        (**self).size()
    }
}

impl<T: ReadAt + ?Sized> ReadAt for Arc<T> {
    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<usize> {
        (**self).read_at(buf, offset)
    }

    fn read_vectored_at(&self, parts: &mut [IoSliceMut<'_>], offset: u64) -> io::Result<usize> {
        (**self).read_vectored_at(parts, offset)
    }

    fn size(&self) -> io::Result<u64> {
        (**self).size()
    }
}

impl<T: ReadAt + ?Sized> ReadAt for Box<T> {
    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<usize> {
        (**self).read_at(buf, offset)
    }

    fn read_vectored_at(&self, parts: &mut [IoSliceMut<'_>], offset: u64) -> io::Result<usize> {
        (**self).read_vectored_at(parts, offset)
    }

    fn size(&self) -> io::Result<u64> {
        (**self).size()
    }
}

/// Bytes in memory cannot change while they are borrowed.
impl Snapshot for [u8] {
    fn is_unchanged(&self) -> io::Result<bool> {
        Ok(true)
    }
}

impl<T: Snapshot + ?Sized> Snapshot for &T {
    fn is_unchanged(&self) -> io::Result<bool> {
        (**self).is_unchanged()
    }
}

impl<T: Snapshot + ?Sized> Snapshot for Arc<T> {
    fn is_unchanged(&self) -> io::Result<bool> {
        (**self).is_unchanged()
    }
}

impl<T: Snapshot + ?Sized> Snapshot for Box<T> {
    fn is_unchanged(&self) -> io::Result<bool> {
        (**self).is_unchanged()
    }
}

/// Fills `buf` from `offset` on. If the source ends before that, it has changed since its length was read.
pub(crate) fn read_full_at(source: &(impl ReadAt + ?Sized), buf: &mut [u8], offset: u64) -> Result<()> {
    let mut done = 0;
    while done < buf.len() {
        match source.read_at(&mut buf[done..], offset + done as u64) {
            Ok(0) => return Err(Error::Changed),
            Ok(more) if more > buf.len() - done => return Err(Error::Read(too_much())),
            Ok(more) => done += more,
            Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
            Err(e) => return Err(Error::Read(e)),
        }
    }
    Ok(())
}

/// Fills all parts from `offset` on, and returns the offset after them. If the source ends before that, it has changed.
pub(crate) fn read_parts(source: &dyn Snapshot, mut parts: &mut [IoSliceMut], mut offset: u64) -> Result<u64> {
    let mut left: usize = parts.iter().map(|part| part.len()).sum();
    while left > 0 {
        match source.read_vectored_at(parts, offset) {
            Ok(0) => return Err(Error::Changed),
            Ok(more) if more > left => return Err(Error::Read(too_much())),
            Ok(more) => {
                offset += more as u64;
                left -= more;
                IoSliceMut::advance_slices(&mut parts, more);
            }
            Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
            Err(e) => return Err(Error::Read(e)),
        }
    }
    Ok(offset)
}

fn too_much() -> io::Error {
    io::Error::other("the source says that it read more than it was asked for")
}

/// Reads a source in order, from its beginning.
pub(crate) struct FromStart<'a, S: ?Sized> {
    source: &'a S,
    offset: u64,
}

impl<'a, S: ReadAt + ?Sized> FromStart<'a, S> {
    pub fn new(source: &'a S) -> Self {
        Self { source, offset: 0 }
    }
}

impl<S: ReadAt + ?Sized> Read for FromStart<'_, S> {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        let len = self.source.read_at(buf, self.offset)?;
        if len > buf.len() {
            return Err(too_much());
        }
        self.offset += len as u64;
        Ok(len)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A source that claims to have read more than there was room for.
    struct Boasts;

    impl ReadAt for Boasts {
        fn read_at(&self, buf: &mut [u8], _: u64) -> io::Result<usize> {
            Ok(buf.len() + 1)
        }

        fn size(&self) -> io::Result<u64> {
            Ok(100)
        }
    }

    #[test]
    fn reads_of_memory_stop_at_its_end() {
        let bytes = b"0123456789";
        let mut buf = [0; 4];
        for (offset, expected) in [(0, 4), (7, 3), (10, 0), (11, 0), (u64::MAX, 0)] {
            assert_eq!(bytes[..].read_at(&mut buf, offset).unwrap(), expected);
            assert_eq!(Arc::new(bytes.to_vec()).read_at(&mut buf, offset).unwrap(), expected);
        }
        assert!(matches!(read_full_at(&&bytes[..], &mut buf, 7), Err(Error::Changed)));
        read_full_at(&&bytes[..], &mut buf, 6).unwrap();
        assert_eq!(&buf, b"6789");
    }

    #[test]
    fn a_source_that_counts_wrongly_is_an_error() {
        assert!(matches!(read_full_at(&Boasts, &mut [0; 4], 0), Err(Error::Read(_))));
        assert!(FromStart::new(&Boasts).read(&mut [0; 4]).is_err());
    }
}
