//! Which entries of a tree are worked on, and what becomes of them.

use super::listing::NodeId;
use crate::Result;
use crate::file::ObjectFolder;
use crate::transfer::folder::Emptied;
use crate::transfer::tally::Tally;
use phalanx_core::tree::{Contents, Entry, Time};
use phalanx_system::fs::{FileType, Stat};
use std::collections::HashMap;
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// A file of a tree, and where its output goes.
pub struct Place<'a> {
    /// The open folder that it is in.
    pub input: &'a File,
    /// Its name there.
    pub name: &'a OsStr,
    /// Where its output goes.
    pub output: Target<'a>,
}

/// Where an output goes.
#[derive(Clone, Copy)]
pub enum Target<'a> {
    /// To a name in an open folder.
    Entry(&'a File, &'a OsStr),
    /// To an object of a folder in a store.
    Object(&'a dyn ObjectFolder, &'a str),
}

/// An entry that is worked on.
#[derive(Clone, Debug)]
pub enum Key {
    /// It is part of the selection.
    Node(NodeId),
    /// It is not: its path from the root on.
    Path(PathBuf),
}

/// The entries of a tree that are worked on. It is called from several threads.
pub trait Selection: Send + Sync {
    /// Called with the root of the mirror, once it is open.
    fn begin(&self, mirror: &Arc<File>) {
        let _ = mirror;
    }

    /// The entry of the folder whose tree is walked.
    fn root(&self) -> NodeId {
        NodeId::ROOT
    }

    /// The entries of a folder that are worked on, by their names in the tree that is walked.
    fn children(&self, folder: NodeId) -> HashMap<OsString, NodeId>;

    /// Called when the walk has read the list of what is in a folder.
    fn listed(&self, folder: NodeId) {
        let _ = folder;
    }

    /// Whether other entries are worked on too, without being part of it.
    fn takes_others(&self) -> bool {
        false
    }

    /// Whether the caller sums up the run itself.
    fn is_summed_up(&self) -> bool {
        false
    }

    /// The permissions and the time of last modification that an entry is known to have had.
    fn metadata(&self, id: NodeId) -> Option<(u32, Time)> {
        let _ = id;
        None
    }

    /// What the stored file of an entry must hold, if that is known before it is opened.
    fn contents(&self, id: NodeId) -> Option<Contents> {
        let _ = id;
        None
    }

    /// How many files there are to work on, and how many bytes of plaintext they have, if that is known.
    fn expected(&self) -> Option<(u64, u64)> {
        None
    }

    /// Called when the walk finds an entry in its place, of whatever kind.
    fn meet(&self, id: NodeId) {
        let _ = id;
    }

    /// Where a link is known to lead.
    fn target(&self, id: NodeId) -> Option<OsString> {
        let _ = id;
        None
    }

    /// Called at the end of a walk through this tree that was not cancelled. What was not met goes to the tally.
    fn end(&self, tree: &Path, tally: &Tally) {
        let _ = (tree, tally);
    }

    /// Whether an entry should be of this kind in the tree that is walked.
    fn is_kind(&self, id: NodeId, kind: FileType) -> bool;

    /// Does what is to be done with a file whose content need not be moved. Returns false if it must be.
    ///
    /// # Errors
    /// If something failed. The file is then not worked on.
    fn settle(&self, id: NodeId, place: &Place<'_>) -> Result<bool> {
        let _ = (id, place);
        Ok(false)
    }

    /// Called with each file that is opened to be worked on, also if it is not part of the selection, and with the folder that it is in. A
    /// change of it from then on is noticed.
    ///
    /// # Errors
    /// If it must not be worked on.
    fn vet(&self, folder: &File, file: &File) -> Result<()> {
        let _ = (folder, file);
        Ok(())
    }

    /// Called with what a stored file holds, after it was opened and before its output has its name.
    ///
    /// # Errors
    /// If it does not belong to this entry.
    fn admit(&self, id: NodeId, contents: &Contents) -> Result<()> {
        let _ = (id, contents);
        Ok(())
    }

    /// Called before an output replaces what has its name.
    ///
    /// # Errors
    /// If that must not be replaced.
    fn replace(&self, id: NodeId, place: &File, output_name: &OsStr) -> Result<()> {
        let _ = (id, place, output_name);
        Ok(())
    }

    /// Called after that, for one output or for several, and before any of them has its name.
    ///
    /// # Errors
    /// If what they replace is not safe on the disk.
    fn replaced(&self) -> io::Result<()> {
        Ok(())
    }

    /// Called when a file's output, or a link, has its name, and with a folder that is not part of the selection.
    fn written(&self, key: &Key, entry: &Entry) {
        let _ = (key, entry);
    }

    /// Called before entries are deleted in the tree that is walked, whose outputs are on the disk.
    ///
    /// # Errors
    /// If they must not be deleted.
    fn removes(&self, keys: &[&Key]) -> io::Result<()> {
        let _ = keys;
        Ok(())
    }

    /// Takes the root of the tree that is walked, which is empty, to delete it later. Gives it back if it is to be deleted at once.
    fn keep_root(&self, root: Emptied) -> Option<Emptied> {
        Some(root)
    }

    /// Whether all that is listed was found in its place. Otherwise the list is still needed.
    fn is_whole(&self) -> bool {
        true
    }

    /// Called when nothing more is written to a folder and it has its times. `stat` is that of the folder that is walked.
    fn folder_done(&self, id: NodeId, stat: &Stat) {
        let _ = (id, stat);
    }
}
