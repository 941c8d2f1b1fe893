//! Deleting in a mirror, wherever it lies, what is gone at the source.

use super::deletion::Deletion;
use super::listing::{Listing, NodeId, State};
use super::stray::{Deleted, Stray};
use crate::file::ObjectFolder;
use crate::{Error, Result};
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
    Objects(&'a dyn ObjectFolder),
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
            Remover::Objects(folder) => folder,
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

    /// Deletes what was found of something that no manifest lists. Returns whether something of it stays.
    ///
    /// # Errors
    /// If something cannot be deleted.
    pub fn stray(&self, root: &Path, stray: &Stray, deleted: &mut Deleted<'_>) -> Result<bool> {
        match self {
            Remover::Folder(deletion) => {
                stray.delete(deletion, deleted)?;
                Ok(root.join(&stray.path).symlink_metadata().is_ok())
            }
            Remover::Objects(folder) => stray.delete_objects(*folder, deleted),
        }
    }
}

/// The name of an object that has a path in the mirror. All paths in a store are text.
fn name_of(path: &Path) -> String {
    path.to_string_lossy().into_owned()
}
