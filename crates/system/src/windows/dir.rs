//! Listing folders.

use super::fs::{OFlags, openat};
use super::io::Result;
use super::nt;
use super::stat::FileType;
use std::ffi::OsString;
use std::os::windows::ffi::OsStringExt;
use std::os::windows::io::{AsHandle, OwnedHandle};

/// The length of the buffer for entries, in words of 8 bytes.
const WORDS: usize = 4096;

/// The entries of a folder, in the order of its file system.
pub struct Dir {
    folder: OwnedHandle,
    words: Vec<u64>,
    /// Where the next entry begins in the buffer, in bytes. `None` if it has to be filled.
    next: Option<usize>,
    is_begun: bool,
    is_over: bool,
}

impl Dir {
    /// Begins to list an open folder. What was listed by others makes no difference.
    ///
    /// # Errors
    /// If it cannot be opened once more to list it.
    pub fn read_from(folder: impl AsHandle) -> Result<Self> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY;
        let folder = openat(folder, ".", flags, super::fs::Mode::empty())?;
        Ok(Self { folder, words: vec![0; WORDS], next: None, is_begun: false, is_over: false })
    }

    fn read(&mut self) -> Result<Option<DirEntry>> {
        if self.is_over {
            return Ok(None);
        }
        let at = match self.next {
            Some(at) => at,
            None => {
                let from_start = !std::mem::replace(&mut self.is_begun, true);
                if !nt::list(self.folder.as_handle(), &mut self.words, from_start)? {
                    self.is_over = true;
                    return Ok(None);
                }
                0
            }
        };
        let (entry, further) = parse(&self.words, at);
        self.next = (further != 0).then_some(at + further);
        Ok(Some(entry))
    }
}

impl Iterator for Dir {
    type Item = Result<DirEntry>;

    fn next(&mut self) -> Option<Self::Item> {
        let read = self.read();
        self.is_over |= read.is_err();
        read.transpose()
    }
}

/// Where the fields of `FILE_DIRECTORY_INFORMATION` lie, in bytes.
const ATTRIBUTES: usize = 56;
const NAME_LEN: usize = 60;
const NAME: usize = 64;

/// The entry at a place in the buffer, and how many bytes further the next one begins; 0 if there is none.
fn parse(words: &[u64], at: usize) -> (DirEntry, usize) {
    let half = |byte: usize| (words[byte / 8] >> (byte % 8 * 8)) as u32;
    let unit = |byte: usize| (words[byte / 8] >> (byte % 8 * 8)) as u16;
    let name_len = half(at + NAME_LEN) as usize;
    let name: Vec<u16> = (0..name_len / 2).map(|n| unit(at + NAME + 2 * n)).collect();
    let name = OsString::from_wide(&name).into_encoded_bytes();
    (DirEntry { name: EntryName(name), attributes: half(at + ATTRIBUTES) }, half(at) as usize)
}

/// An entry of a folder.
pub struct DirEntry {
    name: EntryName,
    attributes: u32,
}

/// The name of an entry.
pub struct EntryName(Vec<u8>);

impl EntryName {
    /// Its bytes: UTF-8, if it is Unicode.
    #[must_use]
    pub fn to_bytes(&self) -> &[u8] {
        &self.0
    }
}

impl DirEntry {
    /// The name.
    #[must_use]
    pub fn file_name(&self) -> &EntryName {
        &self.name
    }

    /// What it is. Unknown for a reparse point, whose tag is not listed.
    #[must_use]
    pub fn file_type(&self) -> FileType {
        use windows_sys::Win32::Storage::FileSystem::FILE_ATTRIBUTE_REPARSE_POINT;
        if self.attributes & FILE_ATTRIBUTE_REPARSE_POINT == 0 {
            FileType::of(self.attributes, 0)
        } else {
            FileType::Unknown
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::mem::offset_of;
    use windows_sys::Wdk::Storage::FileSystem::FILE_DIRECTORY_INFORMATION;

    #[test]
    fn fields_lie_where_they_are_read() {
        assert_eq!(offset_of!(FILE_DIRECTORY_INFORMATION, FileAttributes), ATTRIBUTES);
        assert_eq!(offset_of!(FILE_DIRECTORY_INFORMATION, FileNameLength), NAME_LEN);
        assert_eq!(offset_of!(FILE_DIRECTORY_INFORMATION, FileName), NAME);
    }
}
