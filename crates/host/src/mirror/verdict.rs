//! What a comparison of a mirror with its manifest has found.

use super::check::Depth;
use super::listing::{Listing, NodeId};
use super::manifest::{Listed, Pins, explain};
use super::state::Seen;
use crate::failure::Outcome;
use crate::lines::shown;
use crate::words::{count, others};
use std::path::Path;

/// A mirror that was compared with its manifest, without reading content.
pub struct Compared {
    /// The manifest.
    pub seen: Seen,
    /// What it lists. What is wrong is dropped in it.
    pub listing: Listing,
    /// The folder that was compared.
    pub root: NodeId,
    /// How many entries are wrong.
    pub wrong: u64,
    /// The worst of what is wrong.
    pub outcome: Outcome,
}

impl Listed {
    /// Compares its age with what is demanded, and the mirror with it, and reports what is wrong.
    ///
    /// # Errors
    /// If it is not the manifest that is demanded, or the mirror cannot be read.
    pub fn compare(self, mirror: &Path, pins: &Pins) -> Outcome<Compared> {
        self.compare_within(mirror, pins, Path::new(""))
    }

    /// As [`Listed::compare_within`], for a caller that does not read content afterwards: of objects in a store it also compares the
    /// last chunks. Those of files on a disk are compared in any case.
    ///
    /// # Errors
    /// As for [`Listed::compare`].
    pub fn compare_closely(self, mirror: &Path, pins: &Pins, folder: &Path) -> Outcome<Compared> {
        self.compare_at(mirror, pins, folder, Depth::Chunks)
    }

    /// As [`Listed::compare`], of a folder in the mirror, which it lists.
    ///
    /// # Errors
    /// As for [`Listed::compare`].
    pub fn compare_within(self, mirror: &Path, pins: &Pins, folder: &Path) -> Outcome<Compared> {
        self.compare_at(mirror, pins, folder, Depth::Names)
    }

    fn compare_at(self, mirror: &Path, pins: &Pins, folder: &Path, depth: Depth) -> Outcome<Compared> {
        self.check_age(mirror, pins)?;
        let seen = Seen { generation: self.head.generation, digest: self.digest };
        let tree = self.head.tree;
        let (listing, wrong, outcome) = self.check_within(mirror, folder, depth)?;
        if wrong > 0 {
            explain(mirror, tree);
        }
        let root = listing.folder_at(folder).unwrap_or(NodeId::ROOT);
        Ok(Compared { seen, listing, root, wrong, outcome })
    }
}

impl Compared {
    /// How many files are what the manifest lists, as far as that is known without reading them.
    #[must_use]
    pub fn files_in_place(&self) -> u64 {
        let listing = &self.listing;
        listing.within(self.root).filter(|id| listing.file(*id).is_some() && listing.is_listed(*id)).count() as u64
    }

    /// A line that names the manifest of this mirror.
    #[must_use]
    pub fn line(&self, mirror: &Path) -> String {
        let Seen { generation, digest } = self.seen;
        format!("{}: generation {generation}, digest {digest}", shown(mirror))
    }

    /// The line of a check that ends here.
    #[must_use]
    pub fn quick_line(&self, mirror: &Path) -> String {
        let line = format!("{}: {} in place", self.line(mirror), count(self.files_in_place(), "file"));
        line + &others([(self.wrong, "wrong")]) + "; content was not read"
    }
}
