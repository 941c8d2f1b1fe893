//! What the kernel knows of the tree: a number for each folder, file and link, and where it was found.

use rustix::fs::{FileType, Stat};
use rustix::io::Errno;
use std::collections::HashMap;
use std::ffi::{OsStr, OsString};
use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;

/// The number of the root.
pub const ROOT: u64 = 1;
/// Numbers from here on are for entries that cannot have their own: on other devices, or with the number of the root.
const MADE_UP: u64 = 1 << 63;
/// The most folders that stay open, besides the root.
const MOST_OPEN: usize = 256;

/// Device and inode.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Id {
    device: u64,
    inode: u64,
}

impl Id {
    pub fn of(stat: &Stat) -> Self {
        Self { device: stat.st_dev, inode: stat.st_ino }
    }
}

/// What shows that a file has changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Stamp {
    len: i64,
    modified: (i64, u64),
    changed: (i64, u64),
}

impl Stamp {
    pub fn of(stat: &Stat) -> Self {
        Self {
            len: stat.st_size,
            modified: (stat.st_mtime, stat.st_mtime_nsec),
            changed: (stat.st_ctime, stat.st_ctime_nsec),
        }
    }
}

/// The length of a file's plaintext, as long as the file has this stamp.
#[derive(Clone, Copy, Debug)]
pub struct Plain {
    pub stamp: Stamp,
    pub len: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Folder,
    File,
    Link,
}

impl Kind {
    pub fn of(stat: &Stat) -> Option<Self> {
        match FileType::from_raw_mode(stat.st_mode) {
            FileType::Directory => Some(Self::Folder),
            FileType::RegularFile => Some(Self::File),
            FileType::Symlink => Some(Self::Link),
            _ => None,
        }
    }
}

/// Something in a folder.
pub struct FolderEntry {
    pub stored: OsString,
    pub kind: Kind,
    pub stat: Stat,
    pub plain: Option<Plain>,
}

impl FolderEntry {
    pub fn new(stored: &OsStr, kind: Kind, stat: Stat) -> Self {
        Self { stored: stored.to_owned(), kind, stat, plain: None }
    }
}

struct Node {
    id: Id,
    parent: u64,
    stored: OsString,
    kind: Kind,
    /// How many lookups the kernel has not forgotten yet.
    lookups: u64,
    /// How many nodes have it as their parent.
    children: usize,
    plain: Option<Plain>,
    /// The file as it was when it was opened last.
    opened: Option<Stamp>,
}

/// The nodes that the kernel knows, and the folders above them.
pub struct Nodes {
    root: Id,
    root_folder: Arc<OwnedFd>,
    table: HashMap<u64, Node>,
    numbers: HashMap<Id, u64>,
    next: u64,
    /// Open folders, and when each was used last.
    open: HashMap<u64, (Arc<OwnedFd>, u64)>,
    now: u64,
}

/// A step from a folder to one in it.
type Step = (u64, OsString, Id);

impl Nodes {
    pub fn new(root: Id, root_folder: Arc<OwnedFd>) -> Self {
        let (table, numbers, open) = (HashMap::new(), HashMap::new(), HashMap::new());
        Self { root, root_folder, table, numbers, next: MADE_UP, open, now: 0 }
    }

    fn get(&self, ino: u64) -> io::Result<&Node> {
        self.table.get(&ino).ok_or(Errno::STALE.into())
    }

    /// Records that the kernel gets an entry of a folder, and returns its number.
    pub fn remember(&mut self, parent: u64, found: &FolderEntry) -> io::Result<u64> {
        let id = Id::of(&found.stat);
        if parent != ROOT && !self.table.contains_key(&parent) {
            return Err(Errno::STALE.into());
        }
        let ino = match self.numbers.get(&id) {
            Some(ino) => *ino,
            None => self.new_number(id),
        };
        // The new place is held before the old one is released.
        self.hold(parent);
        let node = self.table.entry(ino).or_insert_with(|| Node {
            id,
            parent: 0,
            stored: OsString::new(),
            kind: found.kind,
            lookups: 0,
            children: 0,
            plain: None,
            opened: None,
        });
        // An inode number may be reused for something else.
        (node.kind, node.lookups) = (found.kind, node.lookups + 1);
        node.plain = found.plain.or(node.plain);
        node.stored.clone_from(&found.stored);
        let old = std::mem::replace(&mut node.parent, parent);
        self.numbers.insert(id, ino);
        self.let_go(old);
        Ok(ino)
    }

    /// The inode's own number, unless something else may have it here.
    fn new_number(&mut self, id: Id) -> u64 {
        if id.device == self.root.device && id.inode > ROOT && id.inode < MADE_UP {
            return id.inode;
        }
        self.next += 1;
        self.next
    }

    fn hold(&mut self, parent: u64) {
        if let Some(node) = self.table.get_mut(&parent) {
            node.children += 1;
        }
    }

    /// Takes a child from a node, and removes the node if nothing needs it any more. The nodes above it may follow.
    fn let_go(&mut self, mut ino: u64) {
        while let Some(node) = self.table.get_mut(&ino) {
            node.children -= 1;
            let parent = node.parent;
            if !self.remove_if_unused(ino) {
                break;
            }
            ino = parent;
        }
    }

    fn remove_if_unused(&mut self, ino: u64) -> bool {
        let Some(node) = self.table.get(&ino).filter(|node| node.lookups == 0 && node.children == 0) else {
            return false;
        };
        self.numbers.remove(&node.id);
        self.table.remove(&ino);
        self.open.remove(&ino);
        true
    }

    /// The kernel forgets a node.
    pub fn forget(&mut self, ino: u64, times: u64) {
        let Some(node) = self.table.get_mut(&ino) else { return };
        node.lookups = node.lookups.saturating_sub(times);
        let parent = node.parent;
        if self.remove_if_unused(ino) {
            self.let_go(parent);
        }
    }

    /// Where a node was found, and as what: its parent, its stored name, its id and its kind.
    pub fn place(&self, ino: u64) -> io::Result<(u64, OsString, Id, Kind)> {
        let node = self.get(ino)?;
        Ok((node.parent, node.stored.clone(), node.id, node.kind))
    }

    /// The names from the root to a folder.
    pub fn names(&self, mut ino: u64) -> Vec<OsString> {
        let mut names = Vec::new();
        while let Some(node) = self.table.get(&ino).filter(|_| names.len() < self.table.len()) {
            names.push(node.stored.clone());
            ino = node.parent;
        }
        names.reverse();
        names
    }

    /// The nearest open folder at or above this one, and the steps down from there.
    pub fn way_to(&mut self, mut ino: u64) -> io::Result<(Arc<OwnedFd>, Vec<Step>)> {
        self.now += 1;
        let mut steps = Vec::new();
        let folder = loop {
            if ino == ROOT {
                break self.root_folder.clone();
            }
            if let Some((folder, used)) = self.open.get_mut(&ino) {
                *used = self.now;
                break folder.clone();
            }
            let node = self.get(ino)?;
            // Folders that are moved from outside may seem to contain themselves.
            if node.kind != Kind::Folder || steps.len() > self.table.len() {
                return Err(if node.kind == Kind::Folder { Errno::STALE } else { Errno::NOTDIR }.into());
            }
            steps.push((ino, node.stored.clone(), node.id));
            ino = node.parent;
        };
        steps.reverse();
        Ok((folder, steps))
    }

    /// Keeps a folder open. Returns one to close instead, if there are too many.
    pub fn keep_open(&mut self, ino: u64, folder: Arc<OwnedFd>) -> Option<Arc<OwnedFd>> {
        if !self.table.contains_key(&ino) {
            return None;
        }
        let mut closed = None;
        if self.open.len() >= MOST_OPEN
            && let Some(oldest) = self.open.iter().min_by_key(|(_, (_, used))| *used).map(|(ino, _)| *ino)
        {
            closed = self.open.remove(&oldest).map(|(folder, _)| folder);
        }
        self.open.insert(ino, (folder, self.now));
        closed
    }

    /// The length of a file's plaintext, if it is known and the file has not changed.
    pub fn plain(&self, id: Id, stamp: Stamp) -> Option<Plain> {
        self.table.get(self.numbers.get(&id)?)?.plain.filter(|plain| plain.stamp == stamp)
    }

    /// Records the length of a file's plaintext.
    pub fn learn(&mut self, ino: u64, plain: Plain) {
        if let Some(node) = self.table.get_mut(&ino) {
            node.plain = Some(plain);
        }
    }

    /// Records that a file was opened. Returns whether it has not changed since the last time.
    pub fn opened(&mut self, ino: u64, stamp: Stamp) -> bool {
        self.table.get_mut(&ino).is_some_and(|node| node.opened.replace(stamp) == Some(stamp))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::fs::{Mode, OFlags};

    fn nodes() -> (tempfile::TempDir, Nodes, Stat) {
        let folder = tempfile::tempdir().unwrap();
        let fd = rustix::fs::open(folder.path(), OFlags::PATH, Mode::empty()).unwrap();
        let stat = rustix::fs::fstat(&fd).unwrap();
        (folder, Nodes::new(Id::of(&stat), Arc::new(fd)), stat)
    }

    fn found(name: &str, kind: Kind, stat: &Stat, device: u64, inode: u64) -> FolderEntry {
        let mut stat = *stat;
        (stat.st_dev, stat.st_ino) = (stat.st_dev + device, inode);
        FolderEntry::new(OsStr::new(name), kind, stat)
    }

    #[test]
    fn numbers_are_those_of_inodes_and_never_shared() {
        let (_folder, mut nodes, stat) = nodes();
        let mut number = |device, inode| nodes.remember(ROOT, &found("x", Kind::File, &stat, device, inode)).unwrap();
        assert_eq!(number(0, 77), 77);
        let others = [number(1, 77), number(0, ROOT), number(0, 0), number(0, u64::MAX)];
        assert!(others.iter().all(|other| *other > MADE_UP), "{others:?}");
        assert_eq!(number(1, 77), others[0]);
    }

    #[test]
    fn folders_stay_while_something_in_them_is_known() {
        let (_folder, mut nodes, stat) = nodes();
        let mut parent = ROOT;
        // Too deep for recursion.
        for inode in 10..50_000 {
            parent = nodes.remember(parent, &found("f", Kind::Folder, &stat, 0, inode)).unwrap();
        }
        for inode in 10..49_999 {
            nodes.forget(inode, 1);
        }
        assert_eq!((nodes.table.len(), nodes.names(parent).len()), (49_990, 49_990));
        nodes.forget(parent, 1);
        assert!(nodes.table.is_empty() && nodes.numbers.is_empty());
        assert!(nodes.remember(parent, &found("f", Kind::File, &stat, 0, 5)).is_err(), "its folder is forgotten");
    }

    #[test]
    fn a_moved_node_releases_its_old_folder() {
        let (_folder, mut nodes, stat) = nodes();
        let a = nodes.remember(ROOT, &found("a", Kind::Folder, &stat, 0, 10)).unwrap();
        let b = nodes.remember(ROOT, &found("b", Kind::Folder, &stat, 0, 11)).unwrap();
        let file = nodes.remember(a, &found("f.phx", Kind::File, &stat, 0, 12)).unwrap();
        assert_eq!(nodes.remember(b, &found("g.phx", Kind::File, &stat, 0, 12)).unwrap(), file);
        assert_eq!(nodes.names(file), ["b", "g.phx"]);
        nodes.forget(a, 1);
        assert!(nodes.place(a).is_err());
        nodes.forget(b, 1);
        assert!(nodes.place(b).is_ok());
        nodes.forget(file, 1);
        assert!(nodes.place(file).is_ok(), "it was found twice");
        nodes.forget(file, 1);
        assert!(nodes.table.is_empty());
    }

    #[test]
    fn folders_that_seem_to_contain_each_other_cause_no_endless_loop() {
        let (_folder, mut nodes, stat) = nodes();
        let a = nodes.remember(ROOT, &found("a", Kind::Folder, &stat, 0, 10)).unwrap();
        let b = nodes.remember(a, &found("b", Kind::Folder, &stat, 0, 11)).unwrap();
        nodes.remember(b, &found("a", Kind::Folder, &stat, 0, 10)).unwrap();
        assert!(nodes.way_to(b).is_err() && nodes.names(b).len() <= 2);
        nodes.forget(b, 1);
        nodes.forget(a, 2);
    }
}
