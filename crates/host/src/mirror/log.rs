//! A file of notes in the state folder that a run appends to. A note is in it whole, or not at all.

use phalanx_system::files::cut_log;
use phalanx_system::fs::sync_data;
use std::fs::File;
use std::io::{self, Write};

/// Appends notes to a file that ends with a whole one.
#[derive(Debug)]
pub(super) struct Log {
    file: File,
    /// Whether a part of a note could not be removed. What followed it would not be found, or would be taken for something else.
    is_broken: bool,
    /// The disk takes only so much of the next note.
    #[cfg(test)]
    pub room: Option<usize>,
}

impl Log {
    pub fn new(file: File) -> Self {
        Self {
            file,
            is_broken: false,
            #[cfg(test)]
            room: None,
        }
    }

    pub fn file(&self) -> &File {
        &self.file
    }

    /// Appends a note. If that fails, nothing of it stays. If that fails too, so does each later call.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn append(&mut self, note: &[u8]) -> io::Result<()> {
        self.append_and(note, |_| Ok(()))
    }

    /// Appends a note as [`Log::append`] does. It is on the disk afterwards.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn append_synced(&mut self, note: &[u8]) -> io::Result<()> {
        self.append_and(note, sync_data)
    }

    fn append_and(&mut self, note: &[u8], end: impl FnOnce(&File) -> io::Result<()>) -> io::Result<()> {
        if self.is_broken {
            return Err(io::Error::other("an earlier note was written in part"));
        }
        let before = self.file.metadata()?.len();
        let written = self.write(note).and_then(|()| end(&self.file));
        if written.is_err() {
            self.is_broken = cut_log(&self.file, before).is_err();
        }
        written
    }

    fn write(&mut self, note: &[u8]) -> io::Result<()> {
        #[cfg(test)]
        if let Some(room) = self.room.take() {
            self.file.write_all(&note[..room])?;
            return Err(io::ErrorKind::StorageFull.into());
        }
        self.file.write_all(note)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use phalanx_system::files::open_private_log;
    use std::fs;

    #[test]
    fn of_a_note_that_was_cut_short_nothing_stays() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("notes");
        let mut log = Log::new(open_private_log(&path).unwrap());
        log.append(b"first,").unwrap();
        log.room = Some(3);
        assert_eq!(log.append_synced(b"second,").unwrap_err().kind(), io::ErrorKind::StorageFull);
        log.append_synced(b"third,").unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"first,third,");
    }

    #[test]
    fn behind_a_part_that_stays_nothing_is_noted() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("notes");
        fs::write(&path, "first,").unwrap();
        // What is only read can be neither written nor cut.
        let mut log = Log::new(File::open(&path).unwrap());
        log.append(b"second,").unwrap_err();
        log.file = open_private_log(&path).unwrap();
        log.append(b"third,").unwrap_err();
        assert_eq!(fs::read(&path).unwrap(), b"first,");
    }
}
