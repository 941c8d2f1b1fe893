//! What is known about the nodes of a tree: all in memory, under one short lock. No function here makes a system call.

use crate::error::{Result, VolumeError};
use crate::names::FolderId;
use crate::tree::kind::Kind;
use crate::tree::listing::Listing;
use rustix::fd::OwnedFd;
use rustix::io::Errno;
use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard, Weak};

/// How many earlier names of a node are remembered.
const MAX_EARLIER: usize = 8;

/// The number of the root's node.
pub const ROOT: u64 = 1;

/// What all operations in a folder share.
pub(super) struct Folder {
    pub number: u64,
    /// Held for reading while an entry is looked up, for writing while entries change. Counts how often it was held for
    /// writing.
    pub lock: RwLock<u64>,
    pub id: OnceLock<FolderId>,
    /// Whether `phalanx.folder` is known to be on the disk.
    pub is_synced: AtomicBool,
    /// The last list of the entries, while it is in use.
    pub listing: Mutex<Weak<Listing>>,
}

/// Where a node's entry was seen last.
#[derive(Clone)]
pub(super) struct EntryPlace {
    pub kind: Kind,
    /// The inode that the entry must have.
    pub inode: u64,
    pub parent: u64,
    pub stored: Arc<[u8]>,
    /// A descriptor of the inode, if the name under which it was known has gone.
    pub pin: Option<Arc<OwnedFd>>,
}

struct Node {
    place: EntryPlace,
    /// Other names under which it was found before, and which may still be there, the newest last: their folders, and how
    /// they are stored. None for a folder.
    earlier: Vec<(u64, Arc<[u8]>)>,
    /// How many lookups the kernel has not forgotten yet.
    lookups: u64,
    /// How many nodes have their place in this folder.
    children: usize,
    /// Keeps the inode whose number the node has, after a link was replaced by one with another inode.
    _reserve: Option<Arc<OwnedFd>>,
    folder: Option<Arc<Folder>>,
}

impl Node {
    fn new(number: u64, place: EntryPlace) -> Self {
        let folder = (place.kind == Kind::Folder).then(|| new_folder(number));
        Self { place, earlier: Vec::new(), lookups: 0, children: 0, _reserve: None, folder }
    }

    /// Remembers its name, unless that is gone, before it gets another one.
    fn remember(&mut self, new: (u64, &[u8]), is_gone: bool) {
        let old = (self.place.parent, self.place.stored.clone());
        self.earlier.retain(|name| !is_name(name, new) && *name != old);
        if !is_gone && self.folder.is_none() {
            self.earlier.push(old);
        }
        if self.earlier.len() > MAX_EARLIER {
            self.earlier.remove(0);
        }
    }
}

fn new_folder(number: u64) -> Arc<Folder> {
    Arc::new(Folder {
        number,
        lock: RwLock::default(),
        id: OnceLock::new(),
        is_synced: AtomicBool::new(false),
        listing: Mutex::default(),
    })
}

/// All nodes that the kernel knows, and the folders that these lie in.
pub(super) struct Nodes {
    nodes: HashMap<u64, Node>,
    /// By inode, the numbers of the nodes whose number is not that of their inode.
    numbers: HashMap<u64, u64>,
}

/// What to drop when the lock is no longer held, since that closes descriptors.
#[must_use]
#[derive(Default)]
pub(super) struct Dropped {
    _nodes: Vec<Node>,
    _pin: Option<Arc<OwnedFd>>,
    /// The folders that are no longer known.
    pub folders: Vec<u64>,
}

impl Nodes {
    /// Only the root.
    pub fn new(inode: u64) -> Self {
        let place = EntryPlace { kind: Kind::Folder, inode, parent: ROOT, stored: Arc::from([]), pin: None };
        let mut root = Node::new(ROOT, place);
        root.lookups = 1;
        Self { nodes: [(ROOT, root)].into(), numbers: [(inode, ROOT)].into() }
    }

    /// The number of the node with this inode, whether it is known or not.
    pub fn number(&self, inode: u64) -> u64 {
        match self.numbers.get(&inode) {
            Some(number) => *number,
            None if inode == ROOT => u64::MAX,
            None => inode,
        }
    }

    pub fn len(&self) -> usize {
        self.nodes.len()
    }

    pub fn place(&self, number: u64) -> Result<EntryPlace> {
        Ok(self.get(number)?.place.clone())
    }

    pub fn folder(&self, number: u64) -> Result<Arc<Folder>> {
        self.get(number)?.folder.clone().ok_or(VolumeError::Refused(Errno::NOTDIR))
    }

    /// The folder, if it is known.
    pub fn known_folder(&self, number: u64) -> Option<Arc<Folder>> {
        self.nodes.get(&number)?.folder.clone()
    }

    /// The known folders that lie in a folder and whose ids may not be on the disk yet.
    pub fn folders_in(&self, parent: u64) -> Vec<u64> {
        let is_new = |node: &&Node| {
            node.place.parent == parent
                && node.folder.as_ref().is_some_and(|folder| !folder.is_synced.load(Ordering::Acquire))
        };
        self.nodes.iter().filter(|(number, node)| **number != ROOT && is_new(node)).map(|(number, _)| *number).collect()
    }

    /// Whether a folder is another one, or lies in it at any depth.
    pub fn is_within(&self, folder: u64, other: u64) -> bool {
        self.ancestors(folder).any(|number| number == other)
    }

    /// A folder and all folders above it, up to the root.
    pub fn ancestors(&self, folder: u64) -> impl Iterator<Item = u64> + '_ {
        let above = std::iter::successors(Some(folder), |number| {
            (*number != ROOT).then(|| self.nodes.get(number).map(|node| node.place.parent))?
        });
        // The bound ends the walk if folders moved in the backing folder seem to form a circle.
        above.take(self.nodes.len() + 1)
    }

    /// Records a lookup of an entry, which the kernel will forget again.
    pub fn looked_up(&mut self, kind: Kind, inode: u64, parent: u64, stored: &[u8]) -> Result<(u64, Dropped)> {
        let number = self.number(inode);
        if !self.nodes.contains_key(&parent) || number == ROOT {
            return Err(VolumeError::Refused(Errno::STALE));
        }
        let mut dropped = Dropped::default();
        let known = self.nodes.get_mut(&number);
        if known.as_ref().is_none_or(|node| node.place.kind != kind) {
            // Another kind under the same number: replaced from outside. The kernel drops its own node as well.
            let mut node = Node::new(number, EntryPlace { kind, inode, parent, stored: stored.into(), pin: None });
            node.lookups = 1;
            if let Some(old) = known {
                node.lookups += old.lookups;
                node.children = old.children;
                let old = std::mem::replace(old, node);
                dropped.folders.extend(old.folder.is_some().then_some(number));
                self.adopt(parent);
                dropped._nodes.push(old);
                let old_parent = dropped._nodes[0].place.parent;
                self.disown(old_parent, &mut dropped);
            } else {
                self.nodes.insert(number, node);
                self.adopt(parent);
            }
            return Ok((number, dropped));
        }
        let Some(node) = known else { return Err(VolumeError::Refused(Errno::STALE)) };
        dropped._pin = node.place.pin.take();
        node.lookups += 1;
        if node.place.parent != parent || *node.place.stored != *stored {
            if kind == Kind::Folder && self.is_within(parent, number) {
                self.forget_into(number, 1, &mut dropped);
                return Err(VolumeError::Damaged("a folder was moved into itself from outside".into()));
            }
            let is_gone = dropped._pin.is_some();
            if let Some(node) = self.nodes.get_mut(&number) {
                node.remember((parent, stored), is_gone);
            }
            self.put(number, parent, stored, &mut dropped);
            self.unbind(number, &mut dropped);
        }
        Ok((number, dropped))
    }

    /// Handles a folder that another program has moved or put in the place of another: its id has to be read where it
    /// is now. The ids of the folders in it are bound to its id, not to its place.
    fn unbind(&mut self, number: u64, dropped: &mut Dropped) {
        if let Some(folder) = self.nodes.get_mut(&number).and_then(|node| node.folder.as_mut()) {
            *folder = new_folder(number);
            dropped.folders.push(number);
        }
    }

    /// Records that the kernel has forgotten this many lookups of a node.
    pub fn forget(&mut self, number: u64, times: u64) -> Dropped {
        let mut dropped = Dropped::default();
        if number != ROOT {
            self.forget_into(number, times, &mut dropped);
        }
        dropped
    }

    /// Records that a name of an inode has gone. The inode is pinned if it was known under this name.
    pub fn gone(&mut self, inode: u64, parent: u64, stored: &[u8], pin: OwnedFd) -> Dropped {
        let (number, mut dropped) = (self.number(inode), Dropped::default());
        match self.nodes.get_mut(&number) {
            Some(node) if node.place.is(inode, parent, stored) => node.place.pin = Some(Arc::new(pin)),
            node => {
                if let Some(node) = node {
                    node.earlier.retain(|name| !is_name(name, (parent, stored)));
                }
                dropped._pin = Some(Arc::new(pin));
            }
        }
        dropped
    }

    /// The newest of a pinned node's earlier names, as a place.
    pub fn earlier(&self, inode: u64) -> Option<EntryPlace> {
        let node = self.nodes.get(&self.number(inode)).filter(|node| node.place.pin.is_some())?;
        let (parent, stored) = node.earlier.last()?.clone();
        Some(EntryPlace { parent, stored, pin: None, ..node.place })
    }

    /// Takes an earlier name from a node. If the node is pinned, and the inode still has that name, the name is the node's
    /// place again, without a pin.
    pub fn settle(&mut self, earlier: &EntryPlace, is_there: bool) -> Dropped {
        let mut dropped = Dropped::default();
        let number = self.number(earlier.inode);
        let has_parent = self.nodes.contains_key(&earlier.parent);
        let Some(node) = self.nodes.get_mut(&number) else { return dropped };
        // A name that has gone meanwhile is no longer among them.
        let Some(at) = node.earlier.iter().position(|name| is_name(name, earlier.name())) else { return dropped };
        node.earlier.remove(at);
        if is_there && has_parent && node.place.pin.is_some() {
            dropped._pin = node.place.pin.take();
            self.put(number, earlier.parent, &earlier.stored, &mut dropped);
        }
        dropped
    }

    /// Records that an inode has a new name in place of an old one.
    pub fn moved(&mut self, inode: u64, from: (u64, &[u8]), to: (u64, &[u8])) -> Dropped {
        let mut dropped = Dropped::default();
        let number = self.number(inode);
        let Some(node) = self.nodes.get_mut(&number) else { return dropped };
        if node.place.is(inode, from.0, from.1) {
            self.put(number, to.0, to.1, &mut dropped);
        } else if let Some(name) = node.earlier.iter_mut().find(|name| is_name(name, from)) {
            *name = (to.0, to.1.into());
        }
        dropped
    }

    /// Records that a link was made again with another inode. `inode` is the old one and its descriptor, `new` the new
    /// one.
    pub fn remade(&mut self, inode: (u64, OwnedFd), new: u64, from: (u64, &[u8]), to: (u64, &[u8])) -> Dropped {
        let mut dropped = Dropped::default();
        let (old, pin) = inode;
        let number = self.number(old);
        let Some(node) = self.nodes.get_mut(&number).filter(|node| node.place.is(old, from.0, from.1)) else {
            dropped._pin = Some(Arc::new(pin));
            return dropped;
        };
        node.place.inode = new;
        let is_named_after = node._reserve.is_none();
        *(if is_named_after { &mut node._reserve } else { &mut dropped._pin }) = Some(Arc::new(pin));
        self.numbers.remove(&old);
        self.numbers.insert(new, number);
        self.put(number, to.0, to.1, &mut dropped);
        dropped
    }

    fn get(&self, number: u64) -> Result<&Node> {
        self.nodes.get(&number).ok_or(VolumeError::Refused(Errno::STALE))
    }

    fn put(&mut self, number: u64, parent: u64, stored: &[u8], dropped: &mut Dropped) {
        let Some(node) = self.nodes.get_mut(&number) else { return };
        node.place.stored = stored.into();
        let old = std::mem::replace(&mut node.place.parent, parent);
        if old != parent {
            self.adopt(parent);
            self.disown(old, dropped);
        }
    }

    fn adopt(&mut self, parent: u64) {
        if let Some(parent) = self.nodes.get_mut(&parent) {
            parent.children += 1;
        }
    }

    fn disown(&mut self, parent: u64, dropped: &mut Dropped) {
        if let Some(node) = self.nodes.get_mut(&parent) {
            node.children = node.children.saturating_sub(1);
            self.forget_into(parent, 0, dropped);
        }
    }

    /// A folder stays as long as a node has its place in it.
    fn forget_into(&mut self, mut number: u64, mut times: u64, dropped: &mut Dropped) {
        while let Some(node) = self.nodes.get_mut(&number) {
            node.lookups = node.lookups.saturating_sub(times);
            if node.lookups > 0 || node.children > 0 || number == ROOT {
                return;
            }
            let Some(node) = self.nodes.remove(&number) else { return };
            if node.place.inode != number {
                self.numbers.remove(&node.place.inode);
            }
            dropped.folders.extend(node.folder.is_some().then_some(number));
            (number, times) = (node.place.parent, 0);
            dropped._nodes.push(node);
            if let Some(parent) = self.nodes.get_mut(&number) {
                parent.children = parent.children.saturating_sub(1);
            }
        }
    }
}

impl EntryPlace {
    fn is(&self, inode: u64, parent: u64, stored: &[u8]) -> bool {
        self.inode == inode && self.name() == (parent, stored) && self.pin.is_none()
    }

    fn name(&self) -> (u64, &[u8]) {
        (self.parent, &self.stored)
    }
}

fn is_name(name: &(u64, Arc<[u8]>), other: (u64, &[u8])) -> bool {
    (name.0, &*name.1) == other
}

// A poisoned lock can be used: no lock guards a change that takes several steps in memory and can panic in between.

pub(super) fn read(lock: &RwLock<u64>) -> RwLockReadGuard<'_, u64> {
    lock.read().unwrap_or_else(PoisonError::into_inner)
}

/// Locks a folder for a change, and counts it.
pub(super) fn write(lock: &RwLock<u64>) -> RwLockWriteGuard<'_, u64> {
    let mut changes = lock.write().unwrap_or_else(PoisonError::into_inner);
    *changes += 1;
    changes
}

/// Locks folders for a change, each once, in the order of their numbers.
pub(super) fn write_all<'a>(folders: &[&'a Arc<Folder>]) -> Vec<RwLockWriteGuard<'a, u64>> {
    let mut folders = folders.to_vec();
    folders.sort_by_key(|folder| folder.number);
    folders.dedup_by_key(|folder| folder.number);
    folders.into_iter().map(|folder| write(&folder.lock)).collect()
}
