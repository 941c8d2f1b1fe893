//! The entries of a mirror that are as its manifest lists them, for those who work on them.

use crate::failure::{Code, Failure};
use crate::lines::shown;
use crate::mirror::listing::{Listing, NodeId, State};
use crate::mirror::selection::Selection;
use crate::transfer::tally::Tally;
use crate::{Error, Result};
use phalanx_core::tree::{Contents, Time};
use phalanx_system::fs::FileType;
use std::collections::HashMap;
use std::ffi::{OsStr, OsString};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

/// The entries of a mirror that are what its manifest lists. Their content is still to be checked.
pub struct Checked {
    listing: Listing,
    root: NodeId,
    /// Whether the walk has found each entry in its place, and for folders, whether it has read the list of what is in them.
    met: Vec<[AtomicBool; 2]>,
}

impl Checked {
    /// Works on what is not dropped.
    #[must_use]
    pub fn new(listing: Listing) -> Self {
        Self::below(listing, NodeId::ROOT)
    }

    /// Works on what is in a folder of the mirror and is not dropped.
    #[must_use]
    pub fn below(listing: Listing, root: NodeId) -> Self {
        let met = listing.all().map(|_| Default::default()).collect();
        Self { listing, root, met }
    }

    /// The listing, in which what was wrong is dropped.
    #[must_use]
    pub fn into_listing(self) -> Listing {
        self.listing
    }
}

impl Selection for Checked {
    fn children(&self, folder: NodeId) -> HashMap<OsString, NodeId> {
        let listing = &self.listing;
        let children = listing.children(folder).filter(|id| listing.state(*id) != State::Dropped);
        children.map(|id| (listing.stored_name(id), id)).collect()
    }

    fn listed(&self, folder: NodeId) {
        self.met[folder.index()][1].store(true, Ordering::Relaxed);
    }

    fn metadata(&self, id: NodeId) -> Option<(u32, Time)> {
        let entry = self.listing.entry(id);
        Some((entry.mode, entry.modified))
    }

    fn root(&self) -> NodeId {
        self.root
    }

    fn meet(&self, id: NodeId) {
        self.met[id.index()][0].store(true, Ordering::Relaxed);
    }

    fn target(&self, id: NodeId) -> Option<OsString> {
        self.listing.target(id).map(OsStr::to_owned)
    }

    fn end(&self, tree: &Path, tally: &Tally) {
        let listing = &self.listing;
        let is_set = |id: NodeId, which: usize| self.met[id.index()][which].load(Ordering::Relaxed);
        let root = listing.stored_path(self.root);
        for id in listing.within(self.root).filter(|id| listing.state(*id) != State::Dropped) {
            // Of a folder that could not be opened or listed, that was said.
            if !is_set(id, 0) && is_set(listing.parent(id), 1) {
                let path = listing.stored_path(id);
                let path = tree.join(path.strip_prefix(&root).unwrap_or(&path));
                let line = format!("{}: missing: it was there when the run began", shown(&path));
                tally.fail(&Failure::new(Code::NotAuthentic, line).on(&path));
            }
        }
    }

    fn is_whole(&self) -> bool {
        let is_right = |id: NodeId| {
            self.listing.state(id) != State::Dropped
                && (id == self.root || self.met[id.index()][0].load(Ordering::Relaxed))
        };
        self.listing.within(self.root).all(is_right)
    }

    fn contents(&self, id: NodeId) -> Option<Contents> {
        self.listing.file(id).map(|file| file.contents)
    }

    fn expected(&self) -> Option<(u64, u64)> {
        let files = self.listing.within(self.root).filter(|id| self.listing.state(*id) != State::Dropped);
        let files = files.filter_map(|id| self.listing.file(id));
        Some(files.fold((0, 0), |(files, bytes), file| (files + 1, bytes + file.len)))
    }

    fn is_kind(&self, id: NodeId, kind: FileType) -> bool {
        self.listing.is_kind(id, kind)
    }

    fn admit(&self, id: NodeId, contents: &Contents) -> Result<()> {
        match self.contents(id) {
            Some(listed) => admit(&listed, contents),
            None => Err(Error::NotListed(OTHER)),
        }
    }
}

/// Why a file is not the one that is listed.
const OTHER: &str = "it is older, newer or foreign";

/// Refuses a file that does not hold what is listed.
///
/// # Errors
/// If it does not.
pub fn admit(listed: &Contents, found: &Contents) -> Result<()> {
    if listed == found { Ok(()) } else { Err(Error::NotListed(OTHER)) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use phalanx_core::tree::LastChunk;
    use std::path::PathBuf;

    /// The folder f with the file a in it, and the link l to `target`.
    fn listing() -> Listing {
        use phalanx_core::tree::{Entry, FileEntry, Kind};
        let mut listing = Listing::default();
        let push = |listing: &mut Listing, name: &str, kind: Kind| {
            let (name, modified) = (name.as_bytes().to_vec(), Time { seconds: 0, nanoseconds: 0 });
            listing.push(&Entry { name, mode: 0o700, modified, kind }, State::Unchanged);
        };
        let contents = Contents { last: LastChunk([0; 48]), root: [0; 32] };
        push(&mut listing, "", Kind::Folder);
        push(&mut listing, "f", Kind::Folder);
        push(&mut listing, "a", Kind::File(FileEntry { len: 0, stored_len: 0, device: 0, inode: 0, contents }));
        listing.end_folder();
        push(&mut listing, "l", Kind::Link(b"target".to_vec()));
        listing.end_folder();
        listing
    }

    #[test]
    fn what_the_walk_does_not_find_is_missing() {
        let missing = |walk: &dyn Fn(&Checked)| {
            let (checked, tally) = (Checked::new(listing()), Tally::keeping());
            walk(&checked);
            checked.end(Path::new("m"), &tally);
            tally.take().failures.iter().map(|failure| failure.path().unwrap().to_owned()).collect::<Vec<_>>()
        };
        let folder = |checked: &Checked, path: &str| {
            let id = checked.listing.folder_at(Path::new(path)).unwrap();
            checked.listed(id);
            checked.children(id).into_values().for_each(|child| checked.meet(child));
        };
        assert_eq!(missing(&|_| {}), Vec::<PathBuf>::new(), "the root could not be opened, which was said");
        let unlisted = missing(&|checked| drop(checked.children(NodeId::ROOT)));
        assert_eq!(unlisted, Vec::<PathBuf>::new(), "the root could not be listed, which was said");
        assert_eq!(missing(&|checked| checked.listed(NodeId::ROOT)), [Path::new("m/f"), Path::new("m/l")]);
        let without_folder = |checked: &Checked| {
            folder(checked, "");
            checked.listed(checked.listing.folder_at(Path::new("f")).unwrap());
        };
        assert_eq!(missing(&without_folder), [Path::new("m/f/a.phx")]);
        let all = |checked: &Checked| {
            folder(checked, "");
            folder(checked, "f");
        };
        assert_eq!(missing(&all), Vec::<PathBuf>::new());
        let is_whole = |walk: &dyn Fn(&Checked), listing: Listing| {
            let checked = Checked::new(listing);
            walk(&checked);
            checked.is_whole()
        };
        assert!(is_whole(&all, listing()) && !is_whole(&without_folder, listing()));
        let mut lacking = listing();
        let a = lacking.all().find(|id| lacking.file(*id).is_some()).unwrap();
        lacking.set_state(a, State::Dropped);
        assert!(!is_whole(&all, lacking));
        let checked = Checked::new(listing());
        let link = checked.children(NodeId::ROOT)[OsStr::new("l")];
        assert_eq!(checked.target(link), Some("target".into()));
    }
}
