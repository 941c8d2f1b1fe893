//! What a run has written to a mirror so far, so that the next run goes on after it was killed.
//!
//! It lies in the user's state folder, which others cannot write to. It lists names of files by digest, and what their stored
//! files hold, which is no secret.

use super::state::{Trees, open_records};
use crate::lock::lock;
use phalanx_core::tree::{Contents, FileEntry, LastChunk, Time};
use phalanx_kernels::keccak::sha3_256;
use rustix::fs::Stat;
use std::collections::HashMap;
use std::fs::{self, File};
use std::io::Write;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Mutex;

/// A key, the stored file's length, and its contents.
const RECORD: usize = 32 + 8 + 48 + 32;

/// The journal of a run.
#[derive(Debug)]
pub struct Journal {
    path: PathBuf,
    file: Mutex<File>,
    /// What earlier, killed runs have written, by key.
    before: HashMap<[u8; 32], (u64, Contents)>,
}

impl Journal {
    /// Opens the journal of a mirror. `None` if there is no home.
    ///
    /// # Errors
    /// If it cannot be opened.
    pub fn open(trees: &Trees, mirror: &Path) -> std::io::Result<Option<Self>> {
        let Some(path) = trees.journal(mirror) else { return Ok(None) };
        let (file, bytes) = open_records(&path, RECORD)?;
        let before = bytes.chunks_exact(RECORD).map(parse).collect();
        Ok(Some(Self { path, file: Mutex::new(file), before }))
    }

    /// What an earlier run wrote for a file that is still as it was then.
    #[must_use]
    pub fn written(&self, path: &Path, stat: &Stat) -> Option<FileEntry> {
        if self.before.is_empty() {
            return None;
        }
        let len = stat.st_size as u64;
        let (stored_len, contents) = *self.before.get(&key(path, super::entry::modified(stat), len))?;
        // Its number becomes known when it gets its permissions.
        Some(FileEntry { len, stored_len, device: stat.st_dev, inode: 0, contents })
    }

    /// Notes that a stored file has its name.
    pub fn note(&self, path: &Path, modified: Time, file: &FileEntry) {
        let mut record = Vec::with_capacity(RECORD);
        record.extend(key(path, modified, file.len));
        record.extend(file.stored_len.to_le_bytes());
        record.extend(file.contents.last.0);
        record.extend(file.contents.root);
        // Without it the file is written again after a kill, and nothing else happens.
        let _ = lock(&self.file).write_all(&record);
    }

    /// Removes it: the manifest lists everything now.
    pub fn end(self) {
        let _ = fs::remove_file(self.path);
    }
}

/// A file at a path, as it was when it was read.
fn key(path: &Path, modified: Time, len: u64) -> [u8; 32] {
    let mut text = len.to_le_bytes().to_vec();
    text.extend(modified.seconds.to_le_bytes());
    text.extend(modified.nanoseconds.to_le_bytes());
    text.extend(path.as_os_str().as_bytes());
    sha3_256(&text)
}

fn parse(record: &[u8]) -> ([u8; 32], (u64, Contents)) {
    fn array<const N: usize>(bytes: &[u8]) -> [u8; N] {
        bytes.try_into().expect("a part of a record")
    }
    let contents = Contents { last: LastChunk(array(&record[40..88])), root: array(&record[88..]) };
    (array(&record[..32]), (u64::from_le_bytes(array(&record[32..40])), contents))
}
