//! What `rekey --fresh` has written to a mirror whose manifest does not list it yet.
//!
//! Such a run replaces the files of a mirror one by one, and the manifest at the end. In between, the manifest lists what some
//! files held before. So each run notes in the user's state folder, before it replaces a file, what the file holds and what the
//! new one holds. A later run finds there that a file that is not listed was made from one that is, and lists it. Others cannot
//! write to the state folder, so nobody can make a foreign file belong to a mirror this way. It holds no secrets.

use super::chain::Beside;
use super::listing::{Listing, NodeId, State};
use super::log::Log;
use super::state::{Trees, open_records};
use super::there::open_stored;
use crate::lock::lock;
use crate::{Error, Result};
use phalanx_core::ReadAt;
use phalanx_core::tree::{Contents, Entry, FileEntry, Kind, LastChunk, TreeId};
use std::collections::HashMap;
use std::fs::{self, File};
use std::io;
use std::path::PathBuf;
use std::sync::Mutex;

/// What a file held, and what the file that replaced it holds.
const RECORD: usize = 2 * CONTENTS;
const CONTENTS: usize = 48 + 32;

/// The files of a mirror that were written again.
#[derive(Debug)]
pub struct Rewritten {
    /// `None` if there is no home. A run that is killed then leaves nothing that a later one could use.
    path: Option<PathBuf>,
    notes: Mutex<Notes>,
}

#[derive(Debug)]
struct Notes {
    log: Option<Log>,
    /// For the last chunk of each new file: the root of its hash tree, and what it replaced.
    origins: HashMap<LastChunk, ([u8; 32], Contents)>,
}

impl Rewritten {
    /// What an interrupted run has left of a tree. `None` if there is nothing.
    #[must_use]
    pub fn find(trees: &Trees, tree: TreeId) -> Option<Self> {
        let path = trees.rewritten(tree).filter(|path| path.exists())?;
        Self::open(Some(path)).ok().filter(|found| !found.is_empty())
    }

    /// Begins or continues the notes about a tree.
    ///
    /// # Errors
    /// If they cannot be opened.
    pub fn begin(trees: &Trees, tree: TreeId) -> Result<Self> {
        Self::open(trees.rewritten(tree)).map_err(Error::write)
    }

    fn open(path: Option<PathBuf>) -> io::Result<Self> {
        let opened = path.as_ref().map(|path| open_records(path, RECORD)).transpose()?;
        let (log, bytes) = opened.map_or((None, Vec::new()), |(log, bytes)| (Some(log), bytes));
        let origins = bytes.chunks_exact(RECORD).map(|record| {
            let (old, new) = record.split_at(CONTENTS);
            let new = parse(new);
            (new.last, (new.root, parse(old)))
        });
        let origins = origins.collect();
        Ok(Self { path, notes: Mutex::new(Notes { log, origins }) })
    }

    /// Whether nothing was written.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        lock(&self.notes).origins.is_empty()
    }

    /// Notes that a file which holds `old` is replaced by one which holds `new`. The note is on the disk before that happens.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn note(&self, old: &Contents, new: &Contents) -> Result<()> {
        let mut record = Vec::with_capacity(RECORD);
        for contents in [old, new] {
            record.extend(contents.last.0);
            record.extend(contents.root);
        }
        let mut notes = lock(&self.notes);
        if let Some(log) = &mut notes.log {
            log.append_synced(&record).map_err(Error::write)?;
        }
        notes.origins.insert(new.last, (new.root, *old));
        Ok(())
    }

    /// The entry of a stored file that was made from the one that is listed; `None` if it was not.
    #[must_use]
    pub fn entry(&self, listed: &FileEntry, stored: &File) -> Option<FileEntry> {
        let (last, len) = LastChunk::read(stored).ok()?;
        let is_noted = lock(&self.notes).origins.contains_key(&last);
        if last == listed.contents.last || len != listed.len || !is_noted {
            return None;
        }
        let contents = Contents::read(stored).ok()?;
        if !self.is_made_from(contents, &listed.contents) {
            return None;
        }
        Some(FileEntry { stored_len: stored.size().ok()?, contents, ..*listed })
    }

    /// Whether a file that holds this was made, by one run or several, from one that held `listed`. Somebody may have altered a file
    /// between two runs, so it is followed by all that it holds, and not by its last chunk alone.
    fn is_made_from(&self, mut made: Contents, listed: &Contents) -> bool {
        let notes = lock(&self.notes);
        // No chain of notes is longer than all of them.
        for _ in 0..notes.origins.len() {
            match notes.origins.get(&made.last) {
                Some((root, old)) if *root == made.root => made = *old,
                _ => return false,
            }
            if made == *listed {
                return true;
            }
        }
        false
    }

    /// Lists all files of a mirror that were written again and are in their places.
    ///
    /// # Errors
    /// If a folder cannot be left.
    pub fn adopt(&self, mirror: File, listing: &mut Listing) -> Result<()> {
        let mut chain = Beside::new(Some(mirror))?;
        let mut folders = vec![NodeId::ROOT];
        for id in listing.all().skip(1) {
            while folders.last() != Some(&listing.parent(id)) {
                chain.leave()?;
                folders.pop();
            }
            let name = listing.stored_name(id);
            if listing.is_folder(id) {
                chain.enter(&name);
                folders.push(id);
            } else if listing.state(id) != State::Dropped
                && let (Some(file), Some(folder)) = (listing.file(id), chain.current())
                && let Ok(stored) = open_stored(folder, &name)
                && let Some(file) = self.entry(file, &stored)
            {
                let entry = Entry { kind: Kind::File(file), ..listing.entry(id) };
                listing.update(id, &entry);
            }
        }
        Ok(())
    }

    /// Removes the notes: a manifest lists everything now.
    pub fn end(&self) {
        if let Some(path) = &self.path {
            let _ = fs::remove_file(path);
        }
    }
}

fn parse(contents: &[u8]) -> Contents {
    let (mut last, mut root) = ([0; 48], [0; 32]);
    last.copy_from_slice(&contents[..48]);
    root.copy_from_slice(&contents[48..CONTENTS]);
    Contents { last: LastChunk(last), root }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::OpenOptions;
    use std::io::Write;

    fn contents(seed: u8) -> Contents {
        Contents { last: LastChunk([seed; 48]), root: [seed; 32] }
    }

    #[test]
    fn a_file_is_traced_through_several_runs() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("notes");
        let open = || Rewritten::open(Some(path.clone())).unwrap();
        open().note(&contents(1), &contents(2)).unwrap();
        // A run was killed while it wrote a record.
        let mut file = OpenOptions::new().append(true).open(&path).unwrap();
        file.write_all(&[7; RECORD - 1]).unwrap();
        open().note(&contents(2), &contents(3)).unwrap();
        let notes = open();
        for (last, listed, expected) in [(2, 1, true), (3, 1, true), (3, 2, true), (1, 1, false), (2, 3, false)] {
            assert_eq!(notes.is_made_from(contents(last), &contents(listed)), expected, "{last} from {listed}");
        }
        // Somebody has altered a chunk before the last of 3 before the next run.
        let altered = Contents { root: [9; 32], ..contents(3) };
        notes.note(&altered, &contents(4)).unwrap();
        assert!(notes.is_made_from(contents(4), &altered) && !notes.is_made_from(altered, &contents(1)));
        assert!(!notes.is_made_from(contents(4), &contents(3)) && !notes.is_made_from(contents(4), &contents(1)));
        notes.end();
        assert!(!path.exists());
    }

    #[test]
    fn a_note_that_the_disk_has_no_room_for_spoils_no_later_one() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("notes");
        let notes = Rewritten::open(Some(path.clone())).unwrap();
        notes.note(&contents(1), &contents(2)).unwrap();
        lock(&notes.notes).log.as_mut().unwrap().room = Some(RECORD / 2);
        notes.note(&contents(3), &contents(4)).unwrap_err();
        notes.note(&contents(5), &contents(6)).unwrap();
        let notes = Rewritten::open(Some(path)).unwrap();
        for (last, listed, expected) in [(2, 1, true), (4, 3, false), (6, 5, true)] {
            assert_eq!(notes.is_made_from(contents(last), &contents(listed)), expected, "{last} from {listed}");
        }
    }
}
