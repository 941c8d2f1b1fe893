//! Deleting in a mirror what is gone at the source.

use super::backup::Backup;
use super::chain::Chain;
use super::listing::{Listing, NodeId, State};
use super::spellings::Spellings;
use crate::file::{Carry, remove_if_left, sync_folder};
use crate::folders::{FOLDER, is_trusted, kind_of, open_within};
use crate::{Error, Result};
use phalanx_core::Error as CoreError;
use phalanx_system::fs::{self, AtFlags, Dir, FileType, Mode};
use phalanx_system::io::Errno;
use phalanx_system::os::ffi::OsStrExt;
use std::collections::BTreeSet;
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

/// A mirror in which entries are deleted.
pub struct Deletion<'a> {
    /// The mirror's root.
    pub mirror: &'a File,
    /// Where deleted entries go, if they are kept.
    pub backup: Option<&'a Backup>,
    /// Whether what was in a folder must be gone from the disk before the folder is. A power cut could bring both back otherwise,
    /// in the way of what takes their name.
    pub sync: bool,
}

impl Deletion<'_> {
    /// Deletes the entries of a listing that are gone, each after all in it. `failed` receives what could not be deleted, and
    /// `done` the entries that were. These are not listed any more.
    pub fn gone(
        &self,
        listing: &mut Listing,
        ids: &mut dyn DoubleEndedIterator<Item = NodeId>,
        mut done: impl FnMut(&Listing, NodeId),
        mut failed: impl FnMut(&Path, Error),
    ) {
        let mut folders = Folders { root: self.mirror, chain: None };
        let mut spellings = Spellings::default();
        // Backwards: what is in a folder comes before it.
        for id in ids.rev() {
            if listing.state(id) != State::Gone || id == NodeId::ROOT {
                continue;
            }
            let deleted = folders.open(listing, listing.parent(id)).and_then(|dir| {
                let Some(dir) = dir else { return Ok(()) };
                if spellings.stays(self.mirror, dir, listing, id) {
                    return Ok(());
                }
                self.entry(dir, &listing.stored_name(id), || listing.stored_path(id), listing.kind(id))
            });
            // What no manifest lists may stay in a folder. It is not listed any more all the same.
            let is_empty = |listing: &Listing| listing.children(id).all(|child| listing.state(child) == State::Dropped);
            match deleted {
                Err(e) if !is_not_empty(&e) || !is_empty(listing) => failed(&listing.stored_path(id), e),
                _ => {
                    listing.set_state(id, State::Dropped);
                    done(listing, id);
                }
            }
        }
    }

    /// Deletes a single entry of this kind. If it is not there, nothing is left to do: a file in the place of a link, or a link in that
    /// of a file, is another entry.
    pub(super) fn entry(&self, dir: &File, name: &OsStr, path: impl FnOnce() -> PathBuf, kind: FileType) -> Result<()> {
        let deleted = if kind == FileType::Directory {
            remove_left(dir, name);
            self.empty(dir, name).and_then(|()| fs::unlinkat(dir, name, AtFlags::REMOVEDIR))
        } else {
            match kind_of(dir, name) {
                Ok(found @ (FileType::RegularFile | FileType::Symlink)) if found != kind => Ok(()),
                Ok(FileType::RegularFile | FileType::Symlink) => match self.backup {
                    Some(backup) => return backup.take(dir, name, &path()),
                    None => fs::unlinkat(dir, name, AtFlags::empty()),
                },
                Ok(_) => {
                    return Err(Error::write(std::io::Error::other("something else is in its place: not deleted")));
                }
                Err(e) => Err(e),
            }
        };
        match deleted {
            Ok(()) | Err(Errno::NOENT) => Ok(()),
            Err(e) => Err(Error::write(e)),
        }
    }

    /// Makes sure that a folder is empty on the disk too.
    fn empty(&self, dir: &File, name: &OsStr) -> phalanx_system::io::Result<()> {
        if !self.sync {
            return Ok(());
        }
        sync_folder(&fs::openat(dir, name, FOLDER, Mode::empty())?.into())
    }
}

/// Whether a folder could not be deleted because something is in it.
fn is_not_empty(error: &Error) -> bool {
    matches!(error, Error::Core(CoreError::Write(e)) if e.kind() == ErrorKind::DirectoryNotEmpty)
}

/// The folders of a mirror that are opened one after another. Each is reached from the one before it.
struct Folders<'a> {
    root: &'a File,
    /// The folders from the root to the one that was opened last, and their numbers.
    chain: Option<(Chain, Vec<NodeId>)>,
}

impl Folders<'_> {
    /// Opens a folder; `None` if it is not there any more.
    fn open(&mut self, listing: &Listing, folder: NodeId) -> Result<Option<&File>> {
        let (mut chain, mut nodes) = match self.chain.take() {
            Some(open) => open,
            None => (Chain::new(self.root.try_clone().map_err(Error::write)?)?, vec![NodeId::ROOT]),
        };
        // The folders that are to be entered, the deepest one first. A folder has a greater number than those above it.
        let (mut next, mut below) = (folder, Vec::new());
        while let Some(last) = nodes.last().filter(|last| **last != next) {
            if *last > next {
                chain.leave()?;
                nodes.pop();
            } else {
                below.push(next);
                next = listing.parent(next);
            }
        }
        for node in below.into_iter().rev() {
            match chain.enter(&listing.stored_name(node)) {
                Ok(()) => nodes.push(node),
                Err(e) => {
                    self.chain = Some((chain, nodes));
                    return if e == Errno::NOENT { Ok(None) } else { Err(Error::write(e)) };
                }
            }
        }
        let (chain, _) = self.chain.insert((chain, nodes));
        Ok(Some(chain.current()))
    }
}

/// Removes in a folder the temporary files that killed runs left, so that it can be deleted.
fn remove_left(dir: &File, name: &OsStr) {
    let Ok(folder) = fs::openat(dir, name, FOLDER, Mode::empty()).map(File::from) else { return };
    for (name, _) in names(&folder).unwrap_or_default() {
        let _ = remove_if_left(&folder, &name);
    }
}

/// Gives folders of a mirror the times of their originals again, after something in them was deleted.
pub fn restore_times(mirror: &File, source: &File, folders: &BTreeSet<PathBuf>, carry: Carry) {
    for path in folders {
        if let Ok(Some((from, to))) = open_trusted(mirror, source, path, carry) {
            // The next run finds what is left to do.
            let _ = carry.folder(&from, &to);
        }
    }
}

/// Opens a folder of the source and its mirror. `None` if a run would not write to that, or to a folder above it.
fn open_trusted(
    mirror: &File,
    source: &File,
    path: &Path,
    carry: Carry,
) -> phalanx_system::io::Result<Option<(File, File)>> {
    let (mut from, mut to) = (open_within(source, Path::new(""))?, open_within(mirror, Path::new(""))?);
    for name in path {
        let above = to;
        from = fs::openat(&from, name, FOLDER, Mode::empty())?.into();
        to = fs::openat(&above, name, FOLDER, Mode::empty())?.into();
        if !is_trusted(&above, &to, &from, carry)? {
            return Ok(None);
        }
    }
    Ok(Some((from, to)))
}

fn names(dir: &File) -> Result<Vec<(OsString, FileType)>> {
    let mut names = Vec::new();
    for entry in Dir::read_from(dir).map_err(Error::write)? {
        let name = OsStr::from_bytes(entry.map_err(Error::write)?.file_name().to_bytes()).to_owned();
        if name != "." && name != ".." {
            let kind = kind_of(dir, &name).map_err(Error::write)?;
            names.push((name, kind));
        }
    }
    Ok(names)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mirror::listing::UNKNOWN;
    use phalanx_core::tree::{Entry, FileEntry, Kind, Time};
    use std::fs as std_fs;

    fn entry(name: &str, kind: Kind) -> Entry {
        Entry { name: name.into(), mode: 0o600, modified: Time { seconds: 1, nanoseconds: 0 }, kind }
    }

    /// Earlier versions could list a file `a` and a link `a.phx`, of which the mirror can have only one.
    #[test]
    fn what_is_of_another_kind_than_listed_is_another_entry() {
        let file = || Kind::File(FileEntry { len: 1, stored_len: 1, device: 0, inode: 0, contents: UNKNOWN });
        for gone in [Kind::Link(b"b".to_vec()), file()] {
            let folder = tempfile::tempdir().unwrap();
            let path = folder.path().join("a.phx");
            let mut listing = Listing::default();
            listing.push(&entry("", Kind::Folder), State::Unchanged);
            let id = match &gone {
                Kind::Link(_) => {
                    std_fs::write(&path, "x").unwrap();
                    listing.push(&entry("a.phx", gone), State::Gone)
                }
                _ => {
                    phalanx_system::os::fs::symlink("b", &path).unwrap();
                    listing.push(&entry("a", gone), State::Gone)
                }
            };
            listing.end_folder();
            let mirror = File::open(folder.path()).unwrap();
            let deletion = Deletion { mirror: &mirror, backup: None, sync: false };
            deletion.gone(&mut listing, &mut [id].into_iter(), |_, _| {}, |_, e| panic!("{e}"));
            assert!(path.symlink_metadata().is_ok());
            assert_eq!(listing.state(id), State::Dropped);
        }
    }
}
