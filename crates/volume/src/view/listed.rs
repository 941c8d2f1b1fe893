//! What the manifest of a mirror lists, for a view that shows the mirror.

use phalanx_core::tree::LastChunk;
use phalanx_host::lock::lock;
use phalanx_host::mirror::check::Wrong;
use phalanx_host::mirror::listing::{Listing, NodeId};
use std::collections::HashMap;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::sync::{Arc, Mutex};

/// The entries that a manifest lists, from a folder on. A folder is given by the names from there to it.
pub struct Listed {
    listing: Listing,
    top: NodeId,
    /// The entries of the folders that were looked at, in the order of their names.
    children: Mutex<HashMap<NodeId, Arc<[NodeId]>>>,
}

impl Listed {
    /// What is listed in the folder `top`.
    pub fn new(listing: Listing, top: NodeId) -> Self {
        Self { listing, top, children: Mutex::default() }
    }

    /// All that is listed, also outside of the folder.
    pub fn listing(&self) -> &Listing {
        &self.listing
    }

    /// Checks that a file with this last chunk and length belongs here.
    pub fn check_file(&self, folder: &[OsString], name: &OsStr, last: LastChunk, len: u64) -> Result<(), Wrong> {
        let id = self.find(folder, name).ok_or(Wrong::Additional)?;
        match self.listing.file(id) {
            None => Err(Wrong::Kind),
            Some(listed) if listed.contents.last == last && listed.len == len => Ok(()),
            Some(_) => Err(Wrong::Unlisted),
        }
    }

    /// Checks that a link with this target belongs here.
    pub fn check_link(&self, folder: &[OsString], name: &OsStr, target: &[u8]) -> Result<(), Wrong> {
        let id = self.find(folder, name).ok_or(Wrong::Additional)?;
        match self.listing.target(id) {
            None => Err(Wrong::Kind),
            Some(listed) if listed.as_bytes() == target => Ok(()),
            Some(_) => Err(Wrong::Target),
        }
    }

    /// Whether an entry is listed.
    pub fn has(&self, folder: &[OsString], name: &OsStr) -> bool {
        self.find(folder, name).is_some()
    }

    /// The names of a folder's entries in the mirror.
    pub fn stored_names(&self, folder: &[OsString]) -> Vec<OsString> {
        let children = self.folder(folder).map(|folder| self.children(folder));
        children.iter().flat_map(|ids| ids.iter()).map(|id| self.listing.stored_name(*id)).collect()
    }

    fn folder(&self, names: &[OsString]) -> Option<NodeId> {
        names.iter().try_fold(self.top, |folder, name| self.child(folder, name))
    }

    fn find(&self, folder: &[OsString], name: &OsStr) -> Option<NodeId> {
        self.child(self.folder(folder)?, name)
    }

    /// The entry of a folder with this name.
    pub fn child(&self, folder: NodeId, name: &OsStr) -> Option<NodeId> {
        if !self.listing.is_folder(folder) {
            return None;
        }
        let ids = self.children(folder);
        let at = ids.binary_search_by(|id| self.listing.name(*id).cmp(name)).ok()?;
        Some(ids[at])
    }

    /// The entries of a folder, in the order of their names.
    pub fn children(&self, folder: NodeId) -> Arc<[NodeId]> {
        let ids = || self.listing.children(folder).collect();
        lock(&self.children).entry(folder).or_insert_with(ids).clone()
    }
}
