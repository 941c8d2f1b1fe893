//! Outputs that are written at offsets.

use std::io;
use std::ops::Range;

use crate::file::read_at::ReadAt;

/// A new, empty output, written by several threads at once, each at its own offsets.
pub trait WriteAt: Send + Sync {
    /// Called once, before the first byte: the length in bytes, if it is known, and how the output will be filled. An
    /// output that has no room for it fails here.
    ///
    /// # Errors
    /// If there is no room for it.
    fn expect(&self, len: Option<u64>, filling: Filling) -> io::Result<()> {
        let _ = (len, filling);
        Ok(())
    }

    /// Writes all of the bytes from `offset` on. No other call writes there.
    ///
    /// # Errors
    /// Errors of the output.
    fn write_all_at(&self, bytes: &[u8], offset: u64) -> io::Result<()>;

    /// Writes the bytes as [`WriteAt::write_all_at`] does. An output that can have holes leaves out blocks of zeros,
    /// since omitted bytes read as zeros.
    ///
    /// # Errors
    /// Errors of the output.
    fn write_sparse_at(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        self.write_all_at(bytes, offset)
    }

    /// Ends the output at this length. What was not written before it reads as zeros.
    ///
    /// # Errors
    /// Errors of the output.
    fn set_len(&self, len: u64) -> io::Result<()>;

    /// Ends all waiting calls with an error: the work has failed elsewhere. Called at most once, from any thread. An
    /// output whose calls wait for each other overrides it.
    fn abort(&self) {}
}

impl<T: WriteAt + ?Sized> WriteAt for &T {
    fn expect(&self, len: Option<u64>, filling: Filling) -> io::Result<()> {
        (**self).expect(len, filling)
    }

    fn write_all_at(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        (**self).write_all_at(bytes, offset)
    }

    fn write_sparse_at(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        (**self).write_sparse_at(bytes, offset)
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        (**self).set_len(len)
    }

    fn abort(&self) {
        (**self).abort();
    }
}

/// How an output is filled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Filling {
    /// Every byte is written.
    Full,
    /// Zeros may be left out.
    Sparse,
}

/// What an interrupted run has left of an output.
pub trait Draft: ReadAt + Send + Sync {
    /// The first run of bytes at or after `from` that may have been written, `None` if there is none. All other bytes
    /// are in holes.
    ///
    /// # Errors
    /// If this cannot be found out.
    fn written_from(&self, from: u64) -> io::Result<Option<Range<u64>>> {
        let len = self.size()?;
        Ok((from < len).then_some(from..len))
    }
}
