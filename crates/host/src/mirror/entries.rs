//! Entries of a tree that come in any order, and make a manifest.

use super::listing::{Listing, NodeId};
use phalanx_core::tree::{Digest, Entry, Head, Invalid, Kind, Manifest, ManifestWriter, TreeId};
use phalanx_system::os::ffi::stored_name;
use std::collections::BTreeMap;
use std::io::{self, Read};
use std::ops::Bound;
use std::path::{Path, PathBuf};

/// Entries by their paths from the root on, whose own is empty. A folder comes before what is in it.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Entries(BTreeMap<PathBuf, Entry>);

impl Entries {
    /// These, and the folders that they are in.
    #[must_use]
    pub fn of(listing: &Listing, ids: impl Iterator<Item = NodeId>) -> Self {
        let mut all = Self::default();
        for mut id in ids {
            while all.0.insert(listing.path(id), listing.entry(id)).is_none() && id != NodeId::ROOT {
                id = listing.parent(id);
            }
        }
        all
    }

    /// All that a manifest lists.
    ///
    /// # Errors
    /// Those of [`Manifest::next`].
    pub fn read(mut manifest: Manifest<impl Read>) -> Result<Self, Invalid> {
        let (mut all, mut path) = (Self::default(), PathBuf::new());
        let mut depth = 0;
        while !manifest.is_at_end() {
            let Some(entry) = manifest.next()? else {
                depth -= 1;
                path.pop();
                continue;
            };
            let is_folder = matches!(entry.kind, Kind::Folder);
            if depth > 0 {
                path.push(stored_name(&entry.name));
            }
            all.0.insert(path.clone(), entry);
            depth += usize::from(is_folder);
            if !is_folder {
                path.pop();
            }
        }
        Ok(all)
    }

    /// A manifest of them.
    ///
    /// # Errors
    /// If a folder is missing in which one of them is.
    pub fn written(&self) -> io::Result<Vec<u8>> {
        let mut writer = ManifestWriter::new(Vec::new(), &nameless())?;
        let mut open: Vec<&Path> = Vec::new();
        for (path, entry) in &self.0 {
            while open.last().is_some_and(|folder| !path.starts_with(folder)) {
                writer.end_folder()?;
                open.pop();
            }
            if path.parent() != open.last().copied() {
                return Err(io::ErrorKind::InvalidInput.into());
            }
            writer.entry(entry)?;
            if matches!(entry.kind, Kind::Folder) {
                open.push(path);
            }
        }
        for _ in open {
            writer.end_folder()?;
        }
        Ok(writer.into_output())
    }

    /// Adds them to what a listing lists.
    ///
    /// # Errors
    /// As for [`Entries::written`].
    pub fn add_to(self, listing: &mut Listing) -> Result<(), Invalid> {
        let mut all = Self::read(Manifest::open(listing.manifest(&nameless()).map_err(Invalid::Io)?)?.1)?;
        all.put_all(self);
        *listing = Listing::read(Manifest::open(&*all.written().map_err(Invalid::Io)?)?.1)?;
        Ok(())
    }

    /// Puts an entry in the place of what has its path.
    pub fn put(&mut self, path: PathBuf, entry: Entry) {
        if !matches!(entry.kind, Kind::Folder) {
            let after = self.0.range::<Path, _>((Bound::Excluded(&*path), Bound::Unbounded)).map(|(other, _)| other);
            let within: Vec<_> = after.take_while(|other| other.starts_with(&path)).cloned().collect();
            within.iter().for_each(|other| drop(self.0.remove(other)));
        }
        self.0.insert(path, entry);
    }

    /// Puts all of them in the places of what has their paths.
    pub fn put_all(&mut self, others: Self) {
        others.0.into_iter().for_each(|(path, entry)| self.put(path, entry));
    }

    /// Keeps those for which this is true.
    pub fn retain(&mut self, is_kept: impl Fn(&Path, &Entry) -> bool) {
        self.0.retain(|path, entry| is_kept(path, entry));
    }

    /// The entry of a path.
    #[must_use]
    pub fn get(&self, path: &Path) -> Option<&Entry> {
        self.0.get(path)
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The paths.
    #[cfg(test)]
    pub fn paths(&self) -> impl Iterator<Item = &Path> {
        self.0.keys().map(|path| &**path)
    }
}

/// The head of a manifest of which only the entries matter.
fn nameless() -> Head {
    Head { tree: TreeId([0; 16]), generation: 0, written: 0, previous: Digest([0; 32]), rules: String::new() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mirror::listing::UNKNOWN;
    use phalanx_core::tree::{FileEntry, Time};

    fn entry(path: &str, kind: Kind) -> (PathBuf, Entry) {
        let name = path.rsplit('/').next().unwrap_or_default().into();
        (path.into(), Entry { name, mode: 0o640, modified: Time { seconds: 3, nanoseconds: 4 }, kind })
    }

    fn file() -> Kind {
        Kind::File(FileEntry { len: 1, stored_len: 2, device: 3, inode: 4, contents: UNKNOWN })
    }

    fn all() -> Entries {
        let folders = ["", "a"].map(|path| entry(path, Kind::Folder));
        let files = ["a.b", "a/f"].map(|path| entry(path, file()));
        Entries(files.into_iter().chain(folders).chain([entry("l", Kind::Link(b"f".to_vec()))]).collect())
    }

    fn read(bytes: &[u8]) -> Entries {
        Entries::read(Manifest::open(bytes).unwrap().1).unwrap()
    }

    #[test]
    fn a_manifest_of_entries_lists_them_in_order() {
        assert_eq!(read(&all().written().unwrap()), all());
        assert_eq!(all().paths().collect::<Vec<_>>(), ["", "a", "a/f", "a.b", "l"].map(Path::new));
        let mut orphan = Entries::default();
        let ((root, folder), (path, inner)) = (entry("", Kind::Folder), entry("b/f", file()));
        orphan.put(root, folder);
        orphan.put(path, inner);
        assert!(orphan.written().is_err());
    }

    #[test]
    fn a_file_in_the_place_of_a_folder_has_nothing_in_it() {
        let mut entries = all();
        let (path, new) = entry("a", file());
        entries.put(path, new);
        let read = read(&entries.written().unwrap());
        assert_eq!(read.paths().collect::<Vec<_>>(), ["", "a", "a.b", "l"].map(Path::new));
    }

    #[test]
    fn entries_are_added_to_a_listing() {
        let mut listing = Listing::read(Manifest::open(&*all().written().unwrap()).unwrap().1).unwrap();
        let mut more = Entries::default();
        for (path, new) in [entry("n", Kind::Folder), entry("n/f", file()), entry("l", file())] {
            more.put(path, new);
        }
        more.add_to(&mut listing).unwrap();
        let paths: Vec<_> = listing.all().map(|id| listing.stored_path(id)).collect();
        assert_eq!(paths, ["", "a", "a/f.phx", "a.b.phx", "l.phx", "n", "n/f.phx"].map(PathBuf::from));
    }
}
