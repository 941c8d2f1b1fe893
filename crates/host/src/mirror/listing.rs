//! The entries of a tree in memory: what a manifest lists, and what is to be done with each entry.
//!
//! A million entries take about 200 MB, so nodes are small, and refer to names and files by number.

use crate::file::protected_name;
use phalanx_core::tree::{Contents, Entry, FileEntry, Head, Invalid, Kind, LastChunk, Manifest, ManifestWriter, Time};
use phalanx_system::fs::FileType;
use phalanx_system::os::ffi::{OsStrExt, stored_name};
use std::ffi::{OsStr, OsString};
use std::io::{self, Read};
use std::path::{Path, PathBuf};

/// The number of an entry. The root is 0. A folder's entries follow it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct NodeId(u32);

impl NodeId {
    /// The root of each tree.
    pub const ROOT: Self = Self(0);

    /// Its number in the order of the listing.
    pub(super) fn index(self) -> usize {
        self.0 as usize
    }

    /// Its number in the order of the listing.
    #[must_use]
    pub fn number(self) -> u32 {
        self.0
    }
}

/// What is to be done with an entry, or was done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// Nothing: it is listed as it is.
    Unchanged,
    /// It is written for the first time. It is listed when that is done.
    New,
    /// It is written again. Until that is done, it is listed as it was.
    Changed,
    /// Its content is compared with that of the source, and written again if it differs. It is listed as it was.
    Compared,
    /// Its content is the same, and its permissions or times are brought up to date.
    Metadata,
    /// Its stored file has another name in the mirror, and is renamed.
    Moved,
    /// It is gone at the source, and is deleted in the mirror. Until that is done, it is listed as it was.
    Gone,
    /// It is not listed any more: it was deleted or renamed, or could not be written.
    Dropped,
}

/// What an entry is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Body {
    /// The number of the first node after its entries.
    Folder { end: u32 },
    /// The number of its file.
    File(u32),
    /// Where its target lies in the text.
    Link { start: u64, len: u16 },
}

struct Node {
    name_start: u64,
    name_len: u16,
    mode: u16,
    parent: u32,
    state: State,
    body: Body,
    modified: Time,
}

/// The entries of a tree.
#[derive(Default)]
pub struct Listing {
    nodes: Vec<Node>,
    files: Vec<FileEntry>,
    /// The names and the targets of links, one after another.
    text: Vec<u8>,
    /// The folders that have not ended yet.
    open: Vec<u32>,
}

/// What a file has before it is written.
pub const UNKNOWN: Contents = Contents { last: LastChunk([0; 48]), root: [0; 32] };

impl Listing {
    /// Reads all entries of a manifest, whose head has been read.
    ///
    /// # Errors
    /// Those of [`Manifest::next`].
    pub fn read(mut manifest: Manifest<impl Read>) -> Result<Self, Invalid> {
        let mut listing = Self::default();
        while !manifest.is_at_end() {
            match manifest.next()? {
                Some(entry) => drop(listing.push(&entry, State::Unchanged)),
                None => listing.end_folder(),
            }
        }
        Ok(listing)
    }

    /// Adds an entry to the current folder. A folder becomes the current one.
    ///
    /// # Panics
    /// If there are 2^32 entries.
    pub fn push(&mut self, entry: &Entry, state: State) -> NodeId {
        let number = u32::try_from(self.nodes.len()).expect("fewer than 2^32 entries");
        let name_start = self.append(&entry.name);
        let body = match &entry.kind {
            Kind::Folder => Body::Folder { end: number },
            Kind::File(file) => {
                self.files.push(*file);
                Body::File(self.files.len() as u32 - 1)
            }
            Kind::Link(target) => Body::Link { start: self.append(target), len: target.len() as u16 },
        };
        self.nodes.push(Node {
            name_start,
            name_len: entry.name.len() as u16,
            mode: entry.mode as u16,
            parent: self.open.last().copied().unwrap_or(number),
            state,
            body,
            modified: entry.modified,
        });
        if let Kind::Folder = entry.kind {
            self.open.push(number);
        }
        NodeId(number)
    }

    /// The number of the next entry that is added.
    #[must_use]
    pub fn next_id(&self) -> NodeId {
        NodeId(self.nodes.len() as u32)
    }

    /// Ends the current folder.
    ///
    /// # Panics
    /// If there is none.
    pub fn end_folder(&mut self) {
        let folder = self.open.pop().expect("a folder is open");
        self.nodes[folder as usize].body = Body::Folder { end: self.nodes.len() as u32 };
    }

    /// The entry with a number, if there is one.
    #[must_use]
    pub fn numbered(&self, number: u32) -> Option<NodeId> {
        (number < self.next_id().0).then_some(NodeId(number))
    }

    fn append(&mut self, text: &[u8]) -> u64 {
        let start = self.text.len() as u64;
        self.text.extend_from_slice(text);
        start
    }

    fn node(&self, id: NodeId) -> &Node {
        &self.nodes[id.0 as usize]
    }

    /// All entries, the root first.
    pub fn all(&self) -> impl Iterator<Item = NodeId> + use<> {
        (0..self.nodes.len() as u32).map(NodeId)
    }

    /// The entries of a folder.
    pub fn children(&self, folder: NodeId) -> impl Iterator<Item = NodeId> + '_ {
        let end = self.end(folder);
        let mut next = folder.0 + 1;
        std::iter::from_fn(move || {
            let id = (next < end).then_some(NodeId(next))?;
            next = self.end(id);
            Some(id)
        })
    }

    /// The folder at a path in the mirror.
    #[must_use]
    pub fn folder_at(&self, path: &Path) -> Option<NodeId> {
        path.iter().try_fold(NodeId::ROOT, |folder, name| {
            self.children(folder).find(|id| self.is_folder(*id) && self.name(*id) == name)
        })
    }

    /// The entries in a folder, and in all folders in it.
    pub fn within(&self, folder: NodeId) -> impl Iterator<Item = NodeId> + use<> {
        (folder.0 + 1..self.end(folder)).map(NodeId)
    }

    fn end(&self, id: NodeId) -> u32 {
        match self.node(id).body {
            Body::Folder { end } => end.max(id.0 + 1),
            _ => id.0 + 1,
        }
    }

    /// The folder that an entry is in; the root for the root.
    #[must_use]
    pub fn parent(&self, id: NodeId) -> NodeId {
        NodeId(self.node(id).parent)
    }

    /// An entry's name at the source.
    #[must_use]
    pub fn name(&self, id: NodeId) -> &OsStr {
        let node = self.node(id);
        stored_name(&self.text[node.name_start as usize..][..usize::from(node.name_len)])
    }

    /// An entry's name in the mirror.
    #[must_use]
    pub fn stored_name(&self, id: NodeId) -> OsString {
        let name = self.name(id);
        if self.file(id).is_some() { protected_name(name) } else { name.to_owned() }
    }

    /// The path of an entry in the source, from its root on.
    #[must_use]
    pub fn path(&self, id: NodeId) -> PathBuf {
        self.join(id, |id| self.name(id).to_owned())
    }

    /// The path of an entry in the mirror, from its root on.
    #[must_use]
    pub fn stored_path(&self, id: NodeId) -> PathBuf {
        self.join(id, |id| self.stored_name(id))
    }

    fn join(&self, mut id: NodeId, name: impl Fn(NodeId) -> OsString) -> PathBuf {
        let mut names = Vec::new();
        while id != NodeId::ROOT {
            names.push(name(id));
            id = self.parent(id);
        }
        names.iter().rev().collect()
    }

    /// The state of an entry.
    #[must_use]
    pub fn state(&self, id: NodeId) -> State {
        self.node(id).state
    }

    /// Changes the state of an entry.
    pub fn set_state(&mut self, id: NodeId, state: State) {
        self.nodes[id.0 as usize].state = state;
    }

    /// Whether it is a folder.
    #[must_use]
    pub fn is_folder(&self, id: NodeId) -> bool {
        matches!(self.node(id).body, Body::Folder { .. })
    }

    /// Whether it is of this kind.
    #[must_use]
    pub fn is_kind(&self, id: NodeId, kind: FileType) -> bool {
        self.kind(id) == kind
    }

    /// The kind that it is of.
    #[must_use]
    pub fn kind(&self, id: NodeId) -> FileType {
        match self.node(id).body {
            Body::Folder { .. } => FileType::Directory,
            Body::File(_) => FileType::RegularFile,
            Body::Link { .. } => FileType::Symlink,
        }
    }

    /// What it is, if it is a file.
    #[must_use]
    pub fn file(&self, id: NodeId) -> Option<&FileEntry> {
        if let Body::File(number) = self.node(id).body { Some(&self.files[number as usize]) } else { None }
    }

    /// How many files are in such a state, and how many bytes of plaintext they have.
    pub fn totals(&self, is_in: impl Fn(State) -> bool) -> (u64, u64) {
        let files = self.all().filter(|id| is_in(self.state(*id))).filter_map(|id| self.file(id));
        files.fold((0, 0), |(files, bytes), file| (files + 1, bytes + file.len))
    }

    /// Where it leads, if it is a link.
    #[must_use]
    pub fn target(&self, id: NodeId) -> Option<&OsStr> {
        match self.node(id).body {
            Body::Link { start, len } => Some(OsStr::from_bytes(&self.text[start as usize..][..usize::from(len)])),
            _ => None,
        }
    }

    /// Its permissions.
    #[must_use]
    pub fn mode(&self, id: NodeId) -> u16 {
        self.node(id).mode
    }

    /// When it was modified.
    #[must_use]
    pub fn modified(&self, id: NodeId) -> Time {
        self.node(id).modified
    }

    /// Lists what was written for an entry, instead of what was listed before.
    ///
    /// # Panics
    /// If the entry and `entry` are of different kinds.
    pub fn update(&mut self, id: NodeId, entry: &Entry) {
        let target = if let Kind::Link(target) = &entry.kind { self.append(target) } else { 0 };
        let node = &mut self.nodes[id.0 as usize];
        (node.mode, node.modified, node.state) = (entry.mode as u16, entry.modified, State::Unchanged);
        match (&mut node.body, &entry.kind) {
            (Body::Folder { .. }, Kind::Folder) => {}
            (Body::File(number), Kind::File(file)) => self.files[*number as usize] = *file,
            (Body::Link { start, len }, Kind::Link(new)) => (*start, *len) = (target, new.len() as u16),
            _ => panic!("an entry keeps its kind"),
        }
    }

    /// The entry as a manifest lists it.
    #[must_use]
    pub fn entry(&self, id: NodeId) -> Entry {
        let node = self.node(id);
        let kind = match node.body {
            Body::Folder { .. } => Kind::Folder,
            Body::File(number) => Kind::File(self.files[number as usize]),
            Body::Link { start, len } => Kind::Link(self.text[start as usize..][..usize::from(len)].to_vec()),
        };
        // As it was listed, whatever this system makes of it.
        let name = self.text[node.name_start as usize..][..usize::from(node.name_len)].to_vec();
        Entry { name, mode: u32::from(node.mode), modified: node.modified, kind }
    }

    /// Whether the manifest lists it as it is now.
    #[must_use]
    pub fn is_listed(&self, id: NodeId) -> bool {
        !matches!(self.state(id), State::New | State::Moved | State::Dropped)
    }

    /// Lists the root, and each new folder in which something is listed.
    pub fn list_folders(&mut self) {
        for number in
            (1..self.nodes.len() as u32).rev().map(NodeId).filter(|id| self.is_listed(*id)).collect::<Vec<_>>()
        {
            let parent = self.parent(number);
            if self.state(parent) == State::New {
                self.set_state(parent, State::Unchanged);
            }
        }
        self.set_state(NodeId::ROOT, State::Unchanged);
    }

    /// A stream of the manifest's plaintext: the head, and all entries that are listed.
    ///
    /// # Errors
    /// Those of [`ManifestWriter::new`].
    pub fn manifest(&self, head: &Head) -> io::Result<ManifestStream<'_>> {
        Ok(ManifestStream {
            listing: self,
            next: 0,
            ends: Vec::new(),
            writer: ManifestWriter::new(Vec::new(), head)?,
            read: 0,
        })
    }
}

/// A stream of a manifest's plaintext.
pub struct ManifestStream<'a> {
    listing: &'a Listing,
    next: u32,
    /// For each open folder, the number of the first node after its entries.
    ends: Vec<u32>,
    writer: ManifestWriter<Vec<u8>>,
    /// How many of the writer's bytes have been read.
    read: usize,
}

impl ManifestStream<'_> {
    /// Encodes the next entry or end of a folder. Returns whether there was one.
    fn step(&mut self) -> io::Result<bool> {
        if self.ends.last() == Some(&self.next) {
            self.ends.pop();
            self.writer.end_folder()?;
            return Ok(true);
        }
        if self.next as usize == self.listing.nodes.len() {
            return Ok(false);
        }
        let id = NodeId(self.next);
        let end = self.listing.end(id);
        if !self.listing.is_listed(id) {
            self.next = end;
            return Ok(true);
        }
        self.writer.entry(&self.listing.entry(id))?;
        self.next += 1;
        if self.listing.is_folder(id) {
            self.ends.push(end);
        }
        Ok(true)
    }
}

impl Read for ManifestStream<'_> {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        while self.writer.output().len() == self.read {
            self.writer.output_mut().clear();
            self.read = 0;
            if !self.step()? {
                return Ok(0);
            }
        }
        let waiting = &self.writer.output()[self.read..];
        let len = waiting.len().min(buf.len());
        buf[..len].copy_from_slice(&waiting[..len]);
        self.read += len;
        Ok(len)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use phalanx_core::tree::{Digest, TreeId};

    fn entry(name: &str, kind: Kind) -> Entry {
        Entry { name: name.into(), mode: 0o750, modified: Time { seconds: 3, nanoseconds: 4 }, kind }
    }

    fn file() -> Kind {
        Kind::File(FileEntry { len: 1, stored_len: 2, device: 3, inode: 4, contents: UNKNOWN })
    }

    fn head() -> Head {
        Head { tree: TreeId([1; 16]), generation: 1, written: 2, previous: Digest([0; 32]), rules: String::new() }
    }

    fn listing() -> Listing {
        let mut listing = Listing::default();
        listing.push(&entry("", Kind::Folder), State::Unchanged);
        listing.push(&entry("a", Kind::Folder), State::Unchanged);
        listing.push(&entry("b", file()), State::Unchanged);
        listing.push(&entry("c", Kind::Folder), State::Unchanged);
        listing.end_folder();
        listing.end_folder();
        listing.push(&entry("d", Kind::Link(b"a/b".to_vec())), State::Unchanged);
        listing.end_folder();
        listing
    }

    fn written(listing: &Listing) -> Vec<u8> {
        let mut bytes = Vec::new();
        listing.manifest(&head()).unwrap().read_to_end(&mut bytes).unwrap();
        bytes
    }

    fn names(bytes: &[u8]) -> Vec<PathBuf> {
        let listing = Listing::read(Manifest::open(bytes).unwrap().1).unwrap();
        listing.all().map(|id| listing.stored_path(id)).collect()
    }

    #[test]
    fn a_manifest_is_read_as_it_was_written() {
        let bytes = written(&listing());
        let (read_head, manifest) = Manifest::open(&bytes[..]).unwrap();
        assert_eq!(read_head, head());
        assert_eq!(written(&Listing::read(manifest).unwrap()), bytes);
        assert_eq!(names(&bytes), ["", "a", "a/b.phx", "a/c", "d"].map(PathBuf::from));
    }

    #[test]
    fn only_what_is_in_the_mirror_is_listed() {
        let mut listing = listing();
        let [_, a, b, c, d] = listing.all().collect::<Vec<_>>()[..] else { panic!("five entries") };
        listing.set_state(b, State::New);
        listing.set_state(d, State::Gone);
        assert_eq!(names(&written(&listing)), ["", "a", "a/c", "d"].map(PathBuf::from));
        listing.update(b, &entry("b", file()));
        listing.set_state(c, State::Changed);
        assert_eq!(names(&written(&listing)), ["", "a", "a/b.phx", "a/c", "d"].map(PathBuf::from));
        listing.set_state(a, State::Dropped);
        assert_eq!(names(&written(&listing)), ["", "d"].map(PathBuf::from));
    }

    #[test]
    fn the_children_of_a_folder_are_those_directly_in_it() {
        let listing = listing();
        let names = |folder| listing.children(folder).map(|id| listing.name(id).to_owned()).collect::<Vec<_>>();
        let all: Vec<_> = listing.all().collect();
        assert_eq!(names(NodeId::ROOT), ["a", "d"]);
        assert_eq!(names(all[1]), ["b", "c"]);
        assert!(names(all[3]).is_empty());
        assert_eq!(listing.within(NodeId::ROOT).count(), 4);
    }
}
