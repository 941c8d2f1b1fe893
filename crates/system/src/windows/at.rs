//! Reading and writing at offsets. The calls of Windows also move the place where the next read or write in order begins, so
//! nothing reads a file both ways.

use super::io::{Errno, Result};
use std::fs::File;
use std::io::{self, ErrorKind, IoSliceMut};
use std::os::windows::fs::FileExt as _;

/// What std has for files on Unix.
pub trait FileExt {
    /// Reads some bytes at an offset.
    ///
    /// # Errors
    /// If the system cannot read.
    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<usize>;

    /// Writes some bytes at an offset.
    ///
    /// # Errors
    /// If the system cannot write.
    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<usize>;

    /// Fills a buffer from an offset on.
    ///
    /// # Errors
    /// If the file ends before that, or the system cannot read.
    fn read_exact_at(&self, mut buf: &mut [u8], mut offset: u64) -> io::Result<()> {
        while !buf.is_empty() {
            match self.read_at(buf, offset) {
                Ok(0) => return Err(ErrorKind::UnexpectedEof.into()),
                Ok(len) => {
                    buf = &mut buf[len..];
                    offset += len as u64;
                }
                Err(e) if e.kind() == ErrorKind::Interrupted => {}
                Err(e) => return Err(e),
            }
        }
        Ok(())
    }

    /// Writes all bytes from an offset on.
    ///
    /// # Errors
    /// If the system cannot write.
    fn write_all_at(&self, mut bytes: &[u8], mut offset: u64) -> io::Result<()> {
        while !bytes.is_empty() {
            match self.write_at(bytes, offset) {
                Ok(0) => return Err(ErrorKind::WriteZero.into()),
                Ok(len) => {
                    bytes = &bytes[len..];
                    offset += len as u64;
                }
                Err(e) if e.kind() == ErrorKind::Interrupted => {}
                Err(e) => return Err(e),
            }
        }
        Ok(())
    }
}

impl FileExt for File {
    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<usize> {
        self.seek_read(buf, offset)
    }

    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<usize> {
        self.seek_write(bytes, offset)
    }
}

/// Fills several buffers, one after the other, from an offset on. The last read may be short.
///
/// # Errors
/// If the system cannot read.
pub fn preadv(file: &File, parts: &mut [IoSliceMut<'_>], offset: u64) -> Result<usize> {
    let mut done = 0;
    for part in parts {
        match file.seek_read(part, offset + done as u64) {
            Ok(len) => {
                done += len;
                if len < part.len() {
                    break;
                }
            }
            // The next call says it.
            Err(_) if done > 0 => break,
            Err(e) => return Err(Errno::of_std(&e)),
        }
    }
    Ok(done)
}
