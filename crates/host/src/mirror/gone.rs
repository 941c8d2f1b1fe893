//! Deleting in a mirror, wherever it lies, what is gone at the source.

use super::MANIFEST;
use super::deletion::{Deletion, Takes};
use super::listing::{Listing, NodeId, State};
use super::there::Objects;
use crate::file::ObjectFolder;
use crate::{Error, Result};
use phalanx_core::volume::CONFIG;
use phalanx_system::fs::FileType;
use std::collections::HashSet;
use std::io;
use std::path::Path;

/// So many objects are named that could not be deleted.
const NAMED: usize = 32;

/// A mirror in which entries are deleted.
pub enum Remover<'a> {
    /// It lies on a disk.
    Folder(Deletion<'a>),
    /// It lies in a store.
    Objects {
        /// Its objects.
        folder: &'a dyn ObjectFolder,
        /// The names that they had when the run began.
        names: &'a Objects,
    },
}

impl Remover<'_> {
    /// Deletes the entries of a listing that are gone, each after all in it. `failed` receives what could not be deleted, and
    /// `done` the entries that were. These are not listed any more.
    pub fn gone(
        &self,
        listing: &mut Listing,
        ids: &mut dyn DoubleEndedIterator<Item = NodeId>,
        mut done: impl FnMut(&Listing, NodeId),
        mut failed: impl FnMut(&Path, Error),
    ) {
        let folder = match self {
            Remover::Folder(deletion) => return deletion.gone(listing, ids, done, failed),
            Remover::Objects { folder, .. } => folder,
        };
        let ids: Vec<NodeId> =
            ids.rev().filter(|id| listing.state(*id) == State::Gone && *id != NodeId::ROOT).collect();
        let names = ids.iter().filter(|id| listing.file(**id).is_some()).map(|id| name_of(&listing.stored_path(*id)));
        let left = folder.delete(&names.collect::<Vec<_>>());
        let stay: HashSet<&str> = left.iter().map(|(name, _)| &**name).collect();
        for id in ids {
            let path = listing.stored_path(id);
            // What is not empty is not gone.
            let stays = || listing.children(id).any(|child| listing.state(child) == State::Gone);
            if listing.file(id).is_some() && stay.contains(&*name_of(&path)) || listing.is_folder(id) && stays() {
                continue;
            }
            listing.set_state(id, State::Dropped);
            done(listing, id);
        }
        let more = left.len().saturating_sub(NAMED);
        for (name, error) in left.into_iter().take(NAMED) {
            failed(Path::new(&name), Error::write(error));
        }
        if more > 0 {
            failed(Path::new(""), Error::write(io::Error::other(format!("{more} more objects could not be deleted"))));
        }
    }

    /// Deletes what no manifest lists: stored files, links, and folders that then are empty. Returns how many files and links
    /// were deleted, and whether something stays.
    ///
    /// # Errors
    /// If something cannot be deleted.
    pub fn stray(&self, root: &Path, path: &Path, takes: &Takes<'_>) -> Result<(u64, bool)> {
        match self {
            Remover::Folder(deletion) => {
                let deleted = deletion.stray(path, takes)?;
                Ok((deleted, root.join(path).symlink_metadata().is_ok()))
            }
            Remover::Objects { folder, names } => {
                let (ours, others) = strays_at(names, path, takes);
                let ours: Vec<String> = ours.into_iter().map(str::to_owned).collect();
                match folder.delete(&ours).into_iter().next() {
                    Some((_, error)) => Err(Error::write(error)),
                    None => Ok((ours.len() as u64, others > 0)),
                }
            }
        }
    }
}

/// The objects at a path and below it that are protected files and of no other mirror, and how many others there are.
pub fn strays_at<'n>(names: &'n Objects, path: &Path, takes: &Takes<'_>) -> (Vec<&'n str>, usize) {
    let name = name_of(path);
    // Another mirror or a volume belongs to somebody else.
    let roots = [MANIFEST, CONFIG];
    let is_root = |folder: &Path| roots.iter().any(|root| names.has(&name_of(&folder.join(root))));
    let above = path.ancestors().skip(1).filter(|folder| !folder.as_os_str().is_empty());
    let is_within_other = above.into_iter().any(is_root);
    let of_root = |name: &'n str| roots.iter().find_map(|root| name.strip_suffix(root));
    let others = names.at_and_below(&name).filter_map(of_root);
    let others: Vec<&str> = others.filter(|folder| folder.ends_with('/')).collect();
    let is_stray = |name: &&str| {
        let is_other = is_within_other || others.iter().any(|folder| name.starts_with(folder));
        let folders = Path::new(name).ancestors().skip(1).take_while(|folder| folder.starts_with(path));
        let is_looked_at = || folders.into_iter().all(|folder| takes(folder, FileType::Directory));
        !is_other && takes(Path::new(name), FileType::RegularFile) && is_looked_at()
    };
    let all = names.at_and_below(&name).count();
    let ours: Vec<&str> = names.at_and_below(&name).filter(is_stray).collect();
    let left = all - ours.len();
    (ours, left)
}

/// The name of an object that has a path in the mirror. All paths in a store are text.
fn name_of(path: &Path) -> String {
    path.to_string_lossy().into_owned()
}
