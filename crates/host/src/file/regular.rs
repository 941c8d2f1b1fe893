//! Opened files as sources.

use crate::file::input::Stamp;
use crate::{Error, Result};
use phalanx_core::file::Draft;
use phalanx_core::{ReadAt, Snapshot, Source};
use phalanx_system::fs::{self, FileType, SeekFrom, seek};
use phalanx_system::io::{Errno, preadv};
use std::fs::File;
use std::io::{self, IoSliceMut};
use std::ops::Range;

/// An opened file of any kind as a source. A file without a known length (a pipe, a device, many files under /proc) is
/// a stream.
///
/// # Errors
/// [`Error::Read`](phalanx_core::Error::Read) if the file cannot be looked at.
pub fn source(file: &File) -> Result<Source<'_>> {
    let stat = fs::fstat(file).map_err(Error::read)?;
    let regular = Regular { file, stamp: Stamp::new(&stat) };
    match FileType::from_raw_mode(stat.st_mode) {
        FileType::RegularFile if !regular.stamp.is_empty() => Ok(Source::ranged(regular)),
        FileType::RegularFile => Ok(Source::stream_of(file, regular)),
        _ => Ok(Source::stream(file)),
    }
}

/// A regular file as a source that is read by range. It may be empty.
///
/// # Errors
/// [`Error::Read`](phalanx_core::Error::Read) if the file cannot be looked at.
pub fn regular(file: &File) -> Result<Source<'_>> {
    Ok(Source::ranged(Regular::new(file)?))
}

/// A regular file, as it was when its protection began.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Regular<'a> {
    pub file: &'a File,
    pub stamp: Stamp,
}

impl<'a> Regular<'a> {
    /// The file as it is now.
    pub fn new(file: &'a File) -> Result<Self> {
        Ok(Self { file, stamp: Stamp::of(file).map_err(Error::read)? })
    }
}

impl ReadAt for Regular<'_> {
    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<usize> {
        ReadAt::read_at(self.file, buf, offset)
    }

    fn read_vectored_at(&self, parts: &mut [IoSliceMut<'_>], offset: u64) -> io::Result<usize> {
        Ok(preadv(self.file, parts, offset)?)
    }

    fn size(&self) -> io::Result<u64> {
        Ok(self.stamp.len())
    }
}

impl Snapshot for Regular<'_> {
    fn is_unchanged(&self) -> io::Result<bool> {
        Ok(self.stamp.has_same_content(&Stamp::of(self.file)?))
    }
}

/// A file that an interrupted run may have left.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Leftover<'a>(pub &'a File);

impl ReadAt for Leftover<'_> {
    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<usize> {
        ReadAt::read_at(self.0, buf, offset)
    }

    fn size(&self) -> io::Result<u64> {
        self.0.size()
    }
}

impl Draft for Leftover<'_> {
    fn written_from(&self, from: u64) -> io::Result<Option<Range<u64>>> {
        let len = self.size()?;
        Ok(match seek(self.0, SeekFrom::Data(from)) {
            Ok(start) => Some(start..seek(self.0, SeekFrom::Hole(start)).unwrap_or(len)),
            // The rest is a hole.
            Err(Errno::NXIO) => None,
            // The file system cannot tell.
            Err(_) => Some(from..len),
        })
    }
}
