//! What a run has written to a mirror so far, so that the next run goes on after it was killed.
//!
//! It lies in the user's state folder, which others cannot write to. It lists names of files by digest, and what their stored
//! files hold, which is no secret.

use super::listing::UNKNOWN;
use super::log::Log;
use super::state::{Trees, open_records};
use crate::file::sync_folder;
use crate::lock::lock;
use phalanx_core::tree::{Contents, FileEntry, LastChunk, Time};
use phalanx_kernels::keccak::sha3_256;
use phalanx_system::files::{open_folder, open_unfollowed};
use phalanx_system::fs::{FlockOperation, Stat, flock, sync_data};
use phalanx_system::io::Errno;
use phalanx_system::os::ffi::OsStrExt;
use std::collections::HashMap;
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Mutex;

/// A key, the stored file's length, and its contents.
const RECORD: usize = 32 + 8 + 48 + 32;

/// What is noted of a stored file that may be any: no file has this length.
const DOUBT: (u64, Contents) = (u64::MAX, UNKNOWN);

/// The journal of a run.
#[derive(Debug)]
pub struct Journal {
    log: Mutex<Log>,
    /// Its file, and those of killed runs that it has read. No other run uses them meanwhile.
    files: Vec<(PathBuf, File)>,
    /// What this run and killed runs have written, by key.
    written: Mutex<HashMap<[u8; 32], (u64, Contents)>>,
    doubts: Mutex<Doubts>,
}

/// Whether all doubts that were noted are on the disk.
#[derive(Debug, Default)]
struct Doubts {
    /// Whether one may not be there yet.
    are_new: bool,
    /// Why one is not there. A file system says so only once.
    failed: Option<(io::ErrorKind, String)>,
}

impl Journal {
    /// Opens the journal of a mirror, and reads those that killed runs have left. `None` if there is no home.
    ///
    /// # Errors
    /// If it cannot be opened.
    pub fn open(trees: &Trees, mirror: &Path) -> io::Result<Option<Self>> {
        let paths = trees.notes(mirror, "journal");
        let Some(path) = paths.first() else { return Ok(None) };
        let own = path.with_extension(format!("{}.journal", std::process::id()));
        let (mut files, mut written, mut log) = (Vec::new(), HashMap::new(), None);
        for path in left_beside(&paths, "journal").into_iter().filter(|left| *left != own).chain([own.clone()]) {
            if path == own {
                open_records(&path, RECORD)?;
            }
            let Some(lock) = locked(&path)? else { continue };
            let (opened, bytes) = open_records(&path, RECORD)?;
            merge(&mut written, &bytes);
            files.push((path, lock));
            log = Some(opened);
        }
        // Its own file was the last one.
        let Some(log) = log.map(Mutex::new) else { return Ok(None) };
        Ok(Some(Self { log, files, written: Mutex::new(written), doubts: Mutex::default() }))
    }

    /// Whether this run or a killed one has written something.
    #[must_use]
    pub fn has_records(&self) -> bool {
        !lock(&self.written).is_empty()
    }

    /// What this run or a killed one wrote for a file that is still as it was then.
    #[must_use]
    pub fn written(&self, path: &Path, stat: &Stat) -> Option<FileEntry> {
        let written = lock(&self.written);
        if written.is_empty() {
            return None;
        }
        let len = stat.st_size as u64;
        let (stored_len, contents) = *written.get(&key(path, super::entry::modified(stat), len))?;
        // Its number becomes known when it gets its permissions.
        Some(FileEntry { len, stored_len, device: stat.st_dev, inode: 0, contents })
    }

    /// Notes that a stored file has its name.
    pub fn note(&self, path: &Path, modified: Time, file: &FileEntry) {
        // Without it the file is written again after a kill, and nothing else happens.
        let _ = self.append(key(path, modified, file.len), file.stored_len, file.contents);
    }

    /// Notes that a stored file may be another one than the manifest lists, although its original has not changed: it is about
    /// to be replaced. The next run would not notice that after a kill.
    ///
    /// # Errors
    /// Those of the system. The file must not be replaced then.
    pub fn doubt(&self, path: &Path, modified: Time, len: u64) -> io::Result<()> {
        self.append(key(path, modified, len), DOUBT.0, DOUBT.1)?;
        lock(&self.doubts).are_new = true;
        Ok(())
    }

    /// Called before what was doubted is replaced. The doubts are on the disk afterwards. Another thread waits until the first one is done.
    /// If that fails, so does each later call.
    ///
    /// # Errors
    /// If the system reports that something was not written.
    pub fn doubted(&self) -> io::Result<()> {
        let mut doubts = lock(&self.doubts);
        if std::mem::take(&mut doubts.are_new)
            && let Err(e) = self.sync()
        {
            doubts.failed = Some((e.kind(), e.to_string()));
        }
        doubts.failed.as_ref().map_or(Ok(()), |(kind, text)| Err(io::Error::new(*kind, text.clone())))
    }

    fn sync(&self) -> io::Result<()> {
        sync_data(lock(&self.log).file())?;
        match self.files.last().and_then(|(path, _)| path.parent()) {
            Some(folder) => Ok(sync_folder(&open_folder(folder)?)?),
            None => Ok(()),
        }
    }

    fn append(&self, key: [u8; 32], stored_len: u64, contents: Contents) -> io::Result<()> {
        lock(&self.written).insert(key, (stored_len, contents));
        lock(&self.log).append(&record(key, stored_len, contents))
    }

    /// Removes it: the manifest lists everything now.
    pub fn end(self) {
        for (path, _) in &self.files {
            let _ = fs::remove_file(path);
        }
    }
}

/// The files that lie beside one of these paths, with its name, a number, and this ending.
pub(super) fn left_beside(paths: &[PathBuf], ending: &str) -> Vec<PathBuf> {
    paths.iter().flat_map(|path| beside(path, ending)).collect()
}

fn beside(path: &Path, ending: &str) -> Vec<PathBuf> {
    let (Some(folder), Some(name)) = (path.parent(), path.file_stem().and_then(|name| name.to_str())) else {
        return Vec::new();
    };
    let is_one = |found: &PathBuf| {
        let found = found.file_name().and_then(|found| found.to_str());
        found
            .and_then(|found| found.strip_prefix(name))
            .is_some_and(|end| end.starts_with('.') && end.ends_with(&format!(".{ending}")))
    };
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    entries.map(|entry| entry.path()).filter(is_one).collect()
}

/// Opens a journal that no run uses, and keeps others from using it. `None` if a run uses it.
pub(super) fn locked(path: &Path) -> io::Result<Option<File>> {
    let Ok(file) = open_unfollowed(path) else { return Ok(None) };
    match flock(&file, FlockOperation::NonBlockingLockExclusive) {
        Err(Errno::WOULDBLOCK) => Ok(None),
        // Some file systems have no locks.
        _ => Ok(Some(file)),
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

/// Adds what one more run has written. Nothing tells which of two runs was the later one: a file of which they note different contents
/// is in doubt.
fn merge(written: &mut HashMap<[u8; 32], (u64, Contents)>, bytes: &[u8]) {
    // Within a file, the last record counts.
    let run: HashMap<_, _> = bytes.chunks_exact(RECORD).map(parse).collect();
    for (key, new) in run {
        let known = written.entry(key).or_insert(new);
        if *known != new {
            *known = DOUBT;
        }
    }
}

fn record(key: [u8; 32], stored_len: u64, contents: Contents) -> Vec<u8> {
    let mut record = Vec::with_capacity(RECORD);
    record.extend(key);
    record.extend(stored_len.to_le_bytes());
    record.extend(contents.last.0);
    record.extend(contents.root);
    record
}

fn parse(record: &[u8]) -> ([u8; 32], (u64, Contents)) {
    fn array<const N: usize>(bytes: &[u8]) -> [u8; N] {
        bytes.try_into().expect("a part of a record")
    }
    let contents = Contents { last: LastChunk(array(&record[40..88])), root: array(&record[88..]) };
    (array(&record[..32]), (u64::from_le_bytes(array(&record[32..40])), contents))
}

#[cfg(test)]
mod tests {
    use super::*;
    use phalanx_system::fs::fstat;

    #[test]
    fn what_two_killed_runs_note_differently_is_in_doubt() {
        let folder = tempfile::tempdir().unwrap();
        let trees = Trees::in_folder(folder.path().join("trees"));
        let (mirror, file) = (folder.path().join("m"), folder.path().join("f"));
        fs::write(&file, "content").unwrap();
        let stat = fstat(File::open(&file).unwrap()).unwrap();
        let known = Contents { last: LastChunk([1; 48]), root: [2; 32] };
        let key = key(Path::new("f"), crate::mirror::entry::modified(&stat), 7);
        let (written, doubt) = (record(key, 70, known), record(key, DOUBT.0, DOUBT.1));
        // The journals of two runs, the file's name by the first and the second, and what is known of the file then.
        let later = [doubt.clone(), written.clone()].concat();
        let own = std::process::id().to_string();
        for [first, second] in [["1", "2"], ["2", "1"], ["1", &own], [&own, "1"]] {
            for (one, other, expected) in [
                (&written, &doubt, UNKNOWN),
                (&later, &doubt, UNKNOWN),
                (&written, &record(key, 70, Contents { root: [3; 32], ..known }), UNKNOWN),
                (&written, &later, known),
            ] {
                fs::create_dir_all(folder.path().join("trees")).unwrap();
                for (name, bytes) in [(first, one), (second, other)] {
                    let path = trees.journal(&mirror).unwrap().with_extension(format!("{name}.journal"));
                    fs::write(path, bytes).unwrap();
                }
                let journal = Journal::open(&trees, &mirror).unwrap().unwrap();
                let found = journal.written(Path::new("f"), &stat).unwrap();
                assert_eq!(found.contents, expected, "{first} {second}");
                journal.end();
            }
        }
    }

    #[test]
    fn a_journal_is_found_by_every_path_of_the_mirror() {
        let folder = tempfile::tempdir().unwrap();
        let trees = Trees::in_folder(folder.path().join("trees"));
        let (mirror, link) = (folder.path().join("m"), folder.path().join("link"));
        let file = folder.path().join("f");
        fs::create_dir(&mirror).unwrap();
        fs::write(&file, "content").unwrap();
        phalanx_system::os::fs::symlink(".", &link).unwrap();
        let stat = fstat(File::open(&file).unwrap()).unwrap();
        let known = Contents { last: LastChunk([1; 48]), root: [2; 32] };
        let key = key(Path::new("f"), crate::mirror::entry::modified(&stat), 7);
        fs::create_dir(folder.path().join("trees")).unwrap();
        let finds = |left: &Path, mirror: &Path| {
            fs::write(left.with_extension("1.journal"), record(key, 70, known)).unwrap();
            let journal = Journal::open(&trees, mirror).unwrap().unwrap();
            let found = journal.written(Path::new("f"), &stat);
            journal.end();
            assert_eq!(found.map(|file| file.contents), Some(known), "{}", mirror.display());
        };
        finds(&trees.journal(&mirror).unwrap(), &link.join("m"));
        finds(&trees.journal(&link.join("m")).unwrap(), &mirror.join("../m"));
        // An earlier version named it after the path as it was given.
        let given = trees.notes(&link.join("m"), "journal");
        assert_eq!(given.len(), 2);
        finds(&given[1], &link.join("m"));
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn a_doubt_that_could_not_be_synced_is_not_on_the_disk_for_later_calls_either() {
        let folder = tempfile::tempdir().unwrap();
        let trees = Trees::in_folder(folder.path().join("trees"));
        let journal = Journal::open(&trees, &folder.path().join("m")).unwrap().unwrap();
        let doubt = || journal.doubt(Path::new("f"), Time { seconds: 1, nanoseconds: 0 }, 7).unwrap();
        doubt();
        journal.doubted().unwrap();
        doubt();
        // What is only searched cannot be synced.
        let searched = phalanx_system::fs::openat(
            File::open(folder.path()).unwrap(),
            ".",
            crate::folders::SEARCHED,
            phalanx_system::fs::Mode::empty(),
        );
        *lock(&journal.log) = Log::new(searched.unwrap().into());
        assert!(journal.doubted().is_err() && journal.doubted().is_err());
    }

    #[test]
    fn a_note_that_the_disk_has_no_room_for_hides_no_later_doubt() {
        let folder = tempfile::tempdir().unwrap();
        let trees = Trees::in_folder(folder.path().join("trees"));
        let (mirror, file) = (folder.path().join("m"), folder.path().join("f"));
        fs::write(&file, "content").unwrap();
        let stat = fstat(File::open(&file).unwrap()).unwrap();
        let modified = crate::mirror::entry::modified(&stat);
        let known = Contents { last: LastChunk([1; 48]), root: [2; 32] };
        let entry = FileEntry { len: 7, stored_len: 70, device: 0, inode: 0, contents: known };
        let journal = Journal::open(&trees, &mirror).unwrap().unwrap();
        journal.note(Path::new("first"), modified, &entry);
        lock(&journal.log).room = Some(RECORD / 2);
        journal.note(Path::new("second"), modified, &entry);
        journal.doubt(Path::new("third"), modified, 7).unwrap();
        // As after a kill.
        drop(journal);
        let journal = Journal::open(&trees, &mirror).unwrap().unwrap();
        let contents = |name: &str| journal.written(Path::new(name), &stat).map(|entry| entry.contents);
        assert_eq!(["first", "second", "third"].map(contents), [Some(known), None, Some(UNKNOWN)]);
    }
}
