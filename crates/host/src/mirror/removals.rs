//! What runs of `protect --recursive --remove` have deleted at the source, and no manifest lists yet.
//!
//! Such a run deletes each input as soon as its output is on the disk, so that there need not be room for the whole tree twice.
//! The manifest comes at the end. So each run notes in the user's state folder, before it deletes something, how the manifest will
//! list it. If it was killed, the next run finds there what is gone at the source, and lists what is still in its place. Others
//! cannot write to the state folder, so nobody can make a foreign file belong to a mirror this way.
//!
//! The notes are manifests of parts of the tree, not protected: names and lengths, and what stored files hold, which is no secret.

use super::entries::Entries;
use super::journal::{left_beside, locked};
use super::log::Log;
use super::scan::OldManifest;
use super::state::Trees;
use super::there::open_stored;
use crate::file::{protected_name, sync_folder};
use crate::folders::{kind_of, make_private, open_within, parent};
use crate::lines::shown;
use crate::lock::lock;
use phalanx_core::tree::{Entry, Invalid, Kind, LastChunk, Manifest};
use phalanx_kernels::keccak::sha3_256;
use phalanx_system::files::{cut_log, open_folder, open_private_log};
use phalanx_system::fs::{FileType, FlockOperation, flock, readlinkat};
use std::fs::{self, File};
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::Mutex;

/// The ending of the files.
const END: &str = "removals";
/// What precedes each note: its length and its digest. One that a kill or a power cut has spoilt ends the file.
const PREFIX: usize = 8 + 32;

/// What is about to be deleted at the source of a mirror, and what killed runs have deleted.
#[derive(Debug)]
pub struct Removals {
    path: PathBuf,
    /// This run's file, once something is noted; none if there can be none.
    own: Mutex<Option<Option<Log>>>,
    /// The files that killed runs have left. No other run uses them meanwhile.
    left: Vec<(PathBuf, File)>,
}

impl Removals {
    /// Those of a mirror. `None` if there is no home.
    #[must_use]
    pub fn find(trees: &Trees, mirror: &Path) -> Option<Self> {
        let paths = trees.notes(mirror, END);
        let path = paths.first()?.clone();
        let left = left_beside(&paths, END).into_iter();
        let left = left.filter_map(|path| locked(&path).ok().flatten().map(|file| (path, file))).collect();
        Some(Self { path, own: Mutex::default(), left })
    }

    /// What the next manifest goes on from: the old one, and all that killed runs have deleted at the source and that is in its
    /// place in the mirror.
    ///
    /// # Errors
    /// If the old manifest cannot be read.
    pub fn added_to(
        &self,
        old: Option<OldManifest<'static>>,
        mirror: &File,
    ) -> Result<Option<OldManifest<'static>>, Invalid> {
        let mut noted = Entries::default();
        for (_, file) in &self.left {
            let mut bytes = Vec::new();
            if (&mut &*file).read_to_end(&mut bytes).is_ok() {
                for (_, mut entries) in notes(&bytes) {
                    // First of all: nothing tells which of two runs was the later one, but what is in its place is of one only.
                    entries.retain(|path, entry| is_in_place(mirror, path, entry));
                    noted.put_all(entries);
                }
            }
        }
        if noted.is_empty() {
            return Ok(old);
        }
        let mut all = old.map_or(Ok(Entries::default()), Entries::read)?;
        all.put_all(noted);
        let boxed: Box<dyn Read> = Box::new(io::Cursor::new(all.written().map_err(Invalid::Io)?));
        Ok(Some(Manifest::open(boxed)?.1))
    }

    /// Notes entries and the folders that they are in, whose outputs are on the disk, before they are deleted at the source. The note
    /// is then on the disk too.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn note(&self, entries: &Entries) -> io::Result<()> {
        let at = |e: io::Error| io::Error::new(e.kind(), format!("{}: {e}", shown(&self.path)));
        entries.written().and_then(|body| self.append(&body)).map_err(at)
    }

    fn append(&self, body: &[u8]) -> io::Result<()> {
        let mut note = (body.len() as u64).to_le_bytes().to_vec();
        note.extend(sha3_256(body));
        note.extend(body);
        let mut own = lock(&self.own);
        if own.is_none() {
            *own = Some(self.begin()?);
        }
        let Some(Some(log)) = &mut *own else { return Ok(()) };
        log.append_synced(&note)
    }

    /// Makes this run's file. `None` if the user has no state folder that can be written to, as if there were no home.
    fn begin(&self) -> io::Result<Option<Log>> {
        use io::ErrorKind::{NotADirectory, NotFound, PermissionDenied, ReadOnlyFilesystem};
        match self.make() {
            Err(e) if matches!(e.kind(), NotADirectory | NotFound | PermissionDenied | ReadOnlyFilesystem) => Ok(None),
            made => made.map(Some),
        }
    }

    /// Makes this run's file, whose name is then on the disk, or goes on with one that a killed run of the same number has left.
    fn make(&self) -> io::Result<Log> {
        let folder = parent(&self.path);
        make_private(folder)?;
        let path = self.path.with_extension(format!("{}.{END}", std::process::id()));
        let mut file = open_private_log(&path)?;
        let mut bytes = Vec::new();
        file.read_to_end(&mut bytes)?;
        cut_log(&file, notes(&bytes).map(|(len, _)| len as u64).sum())?;
        // Some file systems have no locks.
        let _ = flock(&file, FlockOperation::NonBlockingLockExclusive);
        sync_folder(&open_folder(folder)?)?;
        Ok(Log::new(file))
    }

    /// Removes the notes: a manifest lists everything now.
    pub fn end(&self) {
        let own = self.path.with_extension(format!("{}.{END}", std::process::id()));
        let own = matches!(&*lock(&self.own), Some(Some(_))).then_some(&own);
        for path in self.left.iter().map(|(path, _)| path).chain(own) {
            let _ = fs::remove_file(path);
        }
    }
}

/// The notes of a file that are whole, with their lengths.
fn notes(mut bytes: &[u8]) -> impl Iterator<Item = (usize, Entries)> {
    std::iter::from_fn(move || {
        let (prefix, rest) = bytes.split_at_checked(PREFIX)?;
        let (len, digest) = prefix.split_first_chunk::<8>()?;
        let body = rest.get(..usize::try_from(u64::from_le_bytes(*len)).ok()?)?;
        if sha3_256(body) != *digest {
            return None;
        }
        let entries = Manifest::open(body).and_then(|(_, manifest)| Entries::read(manifest)).ok()?;
        bytes = &rest[body.len()..];
        Some((PREFIX + body.len(), entries))
    })
}

/// Whether the mirror has an entry as it was written.
fn is_in_place(mirror: &File, path: &Path, entry: &Entry) -> bool {
    let (Some(folder), Some(name)) = (path.parent(), path.file_name()) else { return true };
    let Ok(folder) = open_within(mirror, folder) else { return false };
    match &entry.kind {
        Kind::Folder => kind_of(&folder, name) == Ok(FileType::Directory),
        Kind::Link(target) => readlinkat(&folder, name, Vec::new()).is_ok_and(|now| now.as_bytes() == target),
        Kind::File(file) => open_stored(&folder, &protected_name(name))
            .is_ok_and(|stored| LastChunk::read(&stored).is_ok_and(|(last, ..)| last == file.contents.last)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mirror::listing::{Listing, UNKNOWN};
    use phalanx_core::tree::{FileEntry, Time};

    fn entries(all: &[(&str, Kind)]) -> Entries {
        let mut entries = Entries::default();
        for (path, kind) in [("", Kind::Folder), ("a", Kind::Folder)].iter().chain(all) {
            let name = path.rsplit('/').next().unwrap_or_default().into();
            let modified = Time { seconds: 3, nanoseconds: 4 };
            entries.put(path.into(), Entry { name, mode: 0o640, modified, kind: kind.clone() });
        }
        entries
    }

    fn file() -> Kind {
        Kind::File(FileEntry { len: 1, stored_len: 2, device: 3, inode: 4, contents: UNKNOWN })
    }

    fn removals(folder: &Path, left: &[&Path]) -> Removals {
        let left = left.iter().map(|path| (path.to_path_buf(), File::open(path).unwrap())).collect();
        Removals { path: folder.join("state/trees/x.removals"), own: Mutex::default(), left }
    }

    fn names(removals: &Removals, mirror: &Path) -> Vec<PathBuf> {
        let manifest = removals.added_to(None, &File::open(mirror).unwrap()).unwrap();
        let listing = Listing::read(manifest.expect("something is listed")).unwrap();
        listing.all().skip(1).map(|id| listing.path(id)).collect()
    }

    #[test]
    fn what_was_noted_and_is_in_its_place_is_listed() {
        let folder = tempfile::tempdir().unwrap();
        let mirror = folder.path().join("m");
        fs::create_dir_all(mirror.join("a")).unwrap();
        phalanx_system::os::fs::symlink("f", mirror.join("l")).unwrap();
        let first = removals(folder.path(), &[]);
        first.note(&entries(&[("a/f", file())])).unwrap();
        first.note(&entries(&[("a.b", file()), ("l", Kind::Link(b"f".to_vec()))])).unwrap();
        let path = folder.path().join(format!("state/trees/x.{}.removals", std::process::id()));
        let whole = fs::read(&path).unwrap();
        assert_eq!(notes(&whole).count(), 2);
        // No stored file is there.
        assert_eq!(names(&removals(folder.path(), &[&path]), &mirror), ["a", "l"].map(PathBuf::from));
        // A link that leads elsewhere is another one.
        fs::remove_file(mirror.join("l")).unwrap();
        phalanx_system::os::fs::symlink("g", mirror.join("l")).unwrap();
        assert_eq!(names(&removals(folder.path(), &[&path]), &mirror), [PathBuf::from("a")]);
        // A note that was cut short ends the file, and the next one takes its place.
        fs::write(&path, &whole[..whole.len() - 1]).unwrap();
        let third = removals(folder.path(), &[&path]);
        third.note(&entries(&[("b", file())])).unwrap();
        let bytes = fs::read(&path).unwrap();
        let paths: Vec<_> =
            notes(&bytes).flat_map(|(_, entries)| entries.paths().map(Path::to_owned).collect::<Vec<_>>()).collect();
        assert_eq!(paths, ["", "a", "a/f", "", "a", "b"].map(PathBuf::from));
        third.end();
        assert!(!path.exists());
    }

    #[test]
    fn what_is_in_its_place_is_listed_whatever_other_runs_have_noted() {
        let folder = tempfile::tempdir().unwrap();
        let mirror = folder.path().join("m");
        fs::create_dir_all(&mirror).unwrap();
        phalanx_system::os::fs::symlink("f", mirror.join("l")).unwrap();
        let own = folder.path().join(format!("state/trees/x.{}.removals", std::process::id()));
        let [first, second] = ["f", "g"].map(|target| {
            removals(folder.path(), &[]).note(&entries(&[("l", Kind::Link(target.into()))])).unwrap();
            let left = folder.path().join(target);
            fs::rename(&own, &left).unwrap();
            left
        });
        for left in [[&*first, &*second], [&*second, &*first]] {
            assert_eq!(names(&removals(folder.path(), &left), &mirror), [PathBuf::from("l")]);
        }
    }
}
