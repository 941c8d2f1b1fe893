//! Deleting in a mirror what is gone at the source.

use super::backup::Backup;
use super::listing::{Listing, NodeId, State};
use crate::file::Carry;
use crate::folders::{kind_of, open_within, write_error};
use crate::{Error, Result};
use rustix::fs::{self, AtFlags, Dir, FileType};
use rustix::io::Errno;
use std::collections::BTreeSet;
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// A mirror in which entries are deleted.
pub struct Deletion<'a> {
    /// The mirror's root.
    pub mirror: &'a File,
    /// Where deleted entries go, if they are kept.
    pub backup: Option<&'a Backup>,
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
        let mut open: Option<(NodeId, File)> = None;
        // Backwards: what is in a folder comes before it.
        for id in ids.rev() {
            if listing.state(id) != State::Gone || id == NodeId::ROOT {
                continue;
            }
            let path = listing.stored_path(id);
            let parent = listing.parent(id);
            let dir = match open.take().filter(|(node, _)| *node == parent) {
                Some((_, dir)) => Ok(Some(dir)),
                None => open_parent_of(self.mirror, &path),
            };
            let deleted = dir.and_then(|dir| {
                let Some(dir) = dir else { return Ok(()) };
                let deleted = self.entry(&dir, &listing.stored_name(id), &path, listing.is_folder(id));
                open = Some((parent, dir));
                deleted
            });
            match deleted {
                Ok(()) => {
                    listing.set_state(id, State::Dropped);
                    done(listing, id);
                }
                Err(e) => failed(&path, e),
            }
        }
    }

    /// Deletes a single entry. If it is not there, nothing is left to do.
    fn entry(&self, dir: &File, name: &OsStr, path: &Path, is_folder: bool) -> Result<()> {
        let deleted = if is_folder {
            fs::unlinkat(dir, name, AtFlags::REMOVEDIR)
        } else {
            match kind_of(dir, name) {
                Ok(FileType::RegularFile | FileType::Symlink) => match self.backup {
                    Some(backup) => return backup.take(dir, name, path),
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
            Err(e) => Err(write_error(e)),
        }
    }

    /// Deletes what no manifest lists: stored files, links, and folders that then are empty. Returns how many files and links
    /// were deleted. All else stays.
    ///
    /// # Errors
    /// If something cannot be deleted.
    pub fn stray(&self, path: &Path, is_ours: &dyn Fn(&OsStr) -> bool) -> Result<u64> {
        let Some(dir) = open_parent_of(self.mirror, path)? else { return Ok(0) };
        let Some(name) = path.file_name() else { return Ok(0) };
        match kind_of(&dir, name) {
            Ok(FileType::Directory) => {}
            Ok(FileType::RegularFile) if is_ours(name) => {
                return self.entry(&dir, name, path, false).map(|()| 1);
            }
            Ok(FileType::Symlink) => return self.entry(&dir, name, path, false).map(|()| 1),
            _ => return Ok(0),
        }
        let mut deleted = 0;
        let folders = self.all_folders(path)?;
        for folder in folders.iter().rev() {
            let Some(dir) = open_within(self.mirror, folder).ok() else { continue };
            for (name, kind) in names(&dir)? {
                let is_ours = kind == FileType::Symlink || kind == FileType::RegularFile && is_ours(&name);
                if is_ours {
                    self.entry(&dir, &name, &folder.join(&name), false)?;
                    deleted += 1;
                }
            }
            if let (Some(parent), Some(name)) = (open_parent_of(self.mirror, folder)?, folder.file_name()) {
                // One that is not empty stays.
                let _ = fs::unlinkat(&parent, name, AtFlags::REMOVEDIR);
            }
        }
        Ok(deleted)
    }

    /// A folder and all folders in it, each before those in it.
    fn all_folders(&self, root: &Path) -> Result<Vec<PathBuf>> {
        let mut folders = vec![root.to_owned()];
        let mut next = 0;
        while let Some(folder) = folders.get(next).cloned() {
            next += 1;
            let Ok(dir) = open_within(self.mirror, &folder) else { continue };
            let within = names(&dir)?.into_iter().filter(|(_, kind)| *kind == FileType::Directory);
            folders.extend(within.map(|(name, _)| folder.join(name)));
        }
        Ok(folders)
    }
}

/// Gives folders of a mirror the times of their originals again, after something in them was deleted.
pub fn restore_times(mirror: &File, source: &File, folders: &BTreeSet<PathBuf>, carry: Carry) {
    for path in folders {
        if let (Ok(from), Ok(to)) = (open_within(source, path), open_within(mirror, path)) {
            // The next run finds what is left to do.
            let _ = carry.folder(&from, &to);
        }
    }
}

/// The folder that an entry is in; `None` if it is not there any more.
fn open_parent_of(mirror: &File, path: &Path) -> Result<Option<File>> {
    match open_within(mirror, path.parent().unwrap_or(Path::new(""))) {
        Ok(dir) => Ok(Some(dir)),
        Err(Errno::NOENT) => Ok(None),
        Err(e) => Err(write_error(e)),
    }
}

fn names(dir: &File) -> Result<Vec<(OsString, FileType)>> {
    let mut names = Vec::new();
    for entry in Dir::read_from(dir).map_err(write_error)? {
        let name = OsStr::from_bytes(entry.map_err(write_error)?.file_name().to_bytes()).to_owned();
        if name != "." && name != ".." {
            let kind = kind_of(dir, &name).map_err(write_error)?;
            names.push((name, kind));
        }
    }
    Ok(names)
}
