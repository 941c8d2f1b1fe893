//! Lists of folders.

use super::fs::FileType;
use rustix::fs;
use rustix::io::Result;
use std::ffi::CStr;
use std::os::fd::AsFd;

/// A folder that is read.
#[derive(Debug)]
pub struct Dir(fs::Dir);

impl Dir {
    /// Reads a folder from its start, by a descriptor of its own.
    ///
    /// # Errors
    /// If it cannot be opened again.
    pub fn read_from(folder: impl AsFd) -> Result<Self> {
        fs::Dir::read_from(folder).map(Self)
    }
}

impl Iterator for Dir {
    type Item = Result<DirEntry>;

    fn next(&mut self) -> Option<Self::Item> {
        self.0.next().map(|entry| entry.map(DirEntry))
    }
}

/// An entry of a folder.
#[derive(Debug)]
pub struct DirEntry(fs::DirEntry);

impl DirEntry {
    /// Its name.
    #[must_use]
    pub fn file_name(&self) -> &CStr {
        self.0.file_name()
    }

    /// What it is, if the file system tells it.
    #[must_use]
    pub fn file_type(&self) -> FileType {
        self.0.file_type().into()
    }
}
