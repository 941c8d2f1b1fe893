//! What a disk may hold after a power cut: made from the operations of a run and from what it synced.
//!
//! Names change by units: an entry that was added, removed or renamed, each of which happens whole or not at all. A journal keeps
//! them in their order: those after some moment are lost, and a sync of anything keeps all before it, as on ext4 and xfs. The
//! strict disk promises no more than POSIX: a sync of a folder keeps its own entries, one of a file only its content, and of all
//! others any may be lost. Content that was not synced may be missing, zero, or there in any of its blocks of 512 bytes. So may
//! what a sync has failed for, whatever is synced later: Linux counts it as written. For a folder there is no such thing, since a
//! journal that cannot be written makes the file system read-only.
//! Permissions and times are never lost here.

use crate::faults::call;
use crate::random::Random;
use crate::tree::{Entry, Node, Tree};
use crate::world::Op;
use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};

const BLOCK: u64 = 512;
const EXCHANGE: u32 = 2;
const KEEP_SIZE: u32 = 1;
const EINTR: i64 = 4;
const PUNCH: u32 = 2;

type Names = HashMap<u64, BTreeMap<Vec<u8>, u64>>;

#[derive(Clone)]
enum Change {
    Write(u64, Vec<u8>),
    Len(u64),
    Zero(u64, u64),
}

#[derive(Clone)]
struct Inode {
    node: Node,
    /// The content on the disk, and the changes since, of which the first are on the disk too.
    changes: Vec<Change>,
    synced: usize,
    /// Those that a sync has failed for.
    doubtful: BTreeSet<usize>,
}

#[derive(Clone)]
enum Step {
    Set(u64, Vec<u8>, u64),
    Remove(u64, Vec<u8>),
    Rename(u64, Vec<u8>, u64, Vec<u8>),
    Exchange(u64, Vec<u8>, u64, Vec<u8>),
}

#[derive(Clone)]
struct Unit {
    step: Step,
    /// The folders that are not synced since, and that keep it by that. Of a rename it is the one with the new name.
    waits: Vec<u64>,
}

/// A disk, with what was not synced.
pub struct Disk {
    root: u64,
    path: PathBuf,
    base: Names,
    now: Names,
    inodes: HashMap<u64, Inode>,
    units: Vec<Unit>,
    /// How many units the journal keeps.
    journaled: usize,
    new_folders: Vec<u64>,
    /// Whether it surely has a journal. Volumes rely on one: a sync of a file keeps its name too, on ext4, xfs and btrfs.
    is_journaled: bool,
}

/// How much a disk promises.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Manner {
    Journal,
    Strict,
}

impl Disk {
    /// A disk on which everything is as in this tree, whose root has this inode and path.
    pub fn new(root: u64, path: &Path, tree: &Tree, is_journaled: bool) -> Self {
        let mut base = Names::from([(root, BTreeMap::new())]);
        let mut inodes = HashMap::new();
        for (path, node) in tree {
            let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty());
            let parent = parent.map_or(root, |parent| tree[parent].ino);
            let name = path.file_name().expect("a name").as_encoded_bytes().to_vec();
            base.entry(parent).or_default().insert(name, node.ino);
            if node.kind == Entry::Folder {
                base.entry(node.ino).or_default();
            }
            inodes.insert(
                node.ino,
                Inode { node: node.clone(), changes: Vec::new(), synced: 0, doubtful: BTreeSet::new() },
            );
        }
        let (now, path) = (base.clone(), path.to_owned());
        Self { root, path, base, now, inodes, units: Vec::new(), journaled: 0, new_folders: Vec::new(), is_journaled }
    }

    /// Where a path of an operation leads: the folder, and the name in it.
    fn place(&self, dir: u64, name: &[u8]) -> Option<(u64, Vec<u8>)> {
        let mut at = dir;
        let mut rest = name;
        if dir == 0 {
            rest = name.strip_prefix(self.path.as_os_str().as_encoded_bytes())?;
            at = self.root;
        }
        let mut parts: Vec<&[u8]> =
            rest.split(|byte| *byte == b'/').filter(|part| !part.is_empty() && *part != b".").collect();
        let last = parts.pop()?;
        for part in parts {
            at = *self.now.get(&at)?.get(part)?;
        }
        Some((at, last.to_vec()))
    }

    fn step(&mut self, step: Step) {
        apply(&mut self.now, &step);
        let waits = match &step {
            Step::Set(dir, ..) | Step::Remove(dir, _) | Step::Rename(_, _, dir, _) => vec![*dir],
            Step::Exchange(dir, _, dir2, _) => vec![*dir, *dir2],
        };
        self.units.push(Unit { step, waits });
    }

    fn change(&mut self, ino: u64, change: Change) {
        if let Some(inode) = self.inodes.get_mut(&ino) {
            inode.changes.push(change);
        }
    }

    fn add(&mut self, ino: u64, mode: u32, kind: Entry) {
        let node = Node { ino, mode, time: (1_600_000_000, 0), kind };
        self.inodes.insert(ino, Inode { node, changes: Vec::new(), synced: 0, doubtful: BTreeSet::new() });
    }

    /// Does what an operation has done.
    pub fn follow(&mut self, op: &Op) {
        if op.ret < 0 {
            // One that was interrupted has not failed.
            match &*call(op.nr) {
                _ if op.ret == -EINTR => {}
                "fsync" | "fdatasync" => self.inodes.get_mut(&op.ino).into_iter().for_each(Self::sync_failed),
                "syncfs" | "sync" => self.inodes.values_mut().for_each(Self::sync_failed),
                _ => {}
            }
            return;
        }
        let place = self.place(op.dir, &op.name);
        match &*call(op.nr) {
            "open" | "openat" | "creat" | "openat2" => {
                if let (true, Some((dir, name))) = (op.created, place) {
                    self.add(op.ino, op.mode & 0o7777, Entry::File(Vec::new()));
                    self.step(Step::Set(dir, name, op.ino));
                } else if op.truncated {
                    self.change(op.ino, Change::Len(0));
                }
            }
            "write" | "pwrite64" | "writev" | "pwritev" => {
                self.change(op.ino, Change::Write(op.offset as u64, op.data.clone()));
            }
            "ftruncate" => self.change(op.ino, Change::Len(op.offset as u64)),
            "fallocate" => self.allocate(op),
            "mkdir" | "mkdirat" => {
                if let Some((dir, name)) = place {
                    self.add(op.ino, 0o700, Entry::Folder);
                    self.now.insert(op.ino, BTreeMap::new());
                    self.new_folders.push(op.ino);
                    self.step(Step::Set(dir, name, op.ino));
                }
            }
            "symlink" | "symlinkat" => {
                if let Some((dir, name)) = place {
                    self.add(op.ino, 0o777, Entry::Link(op.name2.clone()));
                    self.step(Step::Set(dir, name, op.ino));
                }
            }
            "link" | "linkat" => {
                if let Some((dir, name)) = self.place(op.dir2, &op.name2) {
                    self.step(Step::Set(dir, name, op.ino));
                }
            }
            "unlink" | "unlinkat" | "rmdir" => {
                if let Some((dir, name)) = place {
                    self.step(Step::Remove(dir, name));
                }
            }
            "rename" | "renameat" | "renameat2" => {
                if let (Some((dir, name)), Some((dir2, name2))) = (place, self.place(op.dir2, &op.name2)) {
                    let is_exchange = op.mode & EXCHANGE != 0 && call(op.nr) == "renameat2";
                    self.step(match is_exchange {
                        true => Step::Exchange(dir, name, dir2, name2),
                        false => Step::Rename(dir, name, dir2, name2),
                    });
                }
            }
            "fchmod" => {
                if let Some(inode) = self.inodes.get_mut(&op.ino) {
                    inode.node.mode = op.mode & 0o7777;
                }
            }
            "chmod" | "fchmodat" => {
                let found = place.and_then(|(dir, name)| self.now.get(&dir)?.get(&name).copied());
                if let Some(inode) = found.and_then(|ino| self.inodes.get_mut(&ino)) {
                    inode.node.mode = op.mode & 0o7777;
                }
            }
            "fsync" | "fdatasync" => self.sync(op.ino),
            "syncfs" | "sync" => self.sync_all(),
            _ => {}
        }
    }

    fn allocate(&mut self, op: &Op) {
        let (offset, len) = (op.offset as u64, u64::from(op.len));
        if op.mode & PUNCH != 0 {
            self.change(op.ino, Change::Zero(offset, len));
        } else if op.mode & KEEP_SIZE == 0 {
            let now = self.inodes.get(&op.ino).map_or(0, |inode| content(inode, inode.changes.len()).len() as u64);
            if offset + len > now {
                self.change(op.ino, Change::Len(offset + len));
            }
        }
    }

    fn sync(&mut self, ino: u64) {
        self.journaled = self.units.len();
        if let Some(inode) = self.inodes.get_mut(&ino) {
            inode.synced = inode.changes.len();
        }
        for unit in &mut self.units {
            unit.waits.retain(|dir| *dir != ino);
        }
    }

    /// What is not on the disk yet may not come there by a later sync either.
    fn sync_failed(inode: &mut Inode) {
        inode.doubtful.extend(inode.synced..inode.changes.len());
    }

    fn sync_all(&mut self) {
        self.journaled = self.units.len();
        self.units.iter_mut().for_each(|unit| unit.waits.clear());
        self.inodes.values_mut().for_each(|inode| inode.synced = inode.changes.len());
    }

    /// The same for either manner.
    pub fn cut_at_random(&self, random: &mut Random) -> Tree {
        let manner = if self.is_journaled || random.chance(2) { Manner::Journal } else { Manner::Strict };
        self.cut(manner, random)
    }

    /// One of the states that the disk may be in after a power cut now.
    fn cut(&self, manner: Manner, random: &mut Random) -> Tree {
        let mut names = self.base.clone();
        for folder in &self.new_folders {
            names.insert(*folder, BTreeMap::new());
        }
        // Often everything that was not synced is lost, or nothing of the names.
        let (kept, extreme) = (random.below(self.units.len() - self.journaled + 1), random.below(4));
        for (number, unit) in self.units.iter().enumerate() {
            let is_kept = match (manner, extreme) {
                (Manner::Journal, 0) => number < self.journaled,
                (Manner::Journal, 1) => true,
                (Manner::Journal, _) => number < self.journaled + kept,
                (Manner::Strict, 0) => unit.waits.is_empty(),
                (Manner::Strict, 1) => true,
                (Manner::Strict, _) => unit.waits.is_empty() || random.chance(2),
            };
            if is_kept {
                apply(&mut names, &unit.step);
            }
        }
        let data = random.below(4);
        let mut tree = Tree::new();
        self.collect(&names, self.root, Path::new(""), data, random, &mut tree);
        tree
    }

    fn collect(&self, names: &Names, dir: u64, under: &Path, data: usize, random: &mut Random, tree: &mut Tree) {
        let Some(entries) = names.get(&dir) else { return };
        for (name, ino) in entries {
            let Some(inode) = self.inodes.get(ino) else { continue };
            let path = under.join(OsString::from_vec(name.clone()));
            let mut node = inode.node.clone();
            if let Entry::File(bytes) = &mut node.kind {
                let kept = without_some(inode, random);
                *bytes = match data {
                    0 => content(&kept, kept.synced),
                    1 => content(&kept, kept.changes.len()),
                    _ => torn(&kept, random),
                };
            }
            let is_folder = node.kind == Entry::Folder;
            // Two orders of renames may let a folder hang below itself.
            if tree.len() > 10_000 || path.iter().count() > 40 {
                return;
            }
            tree.insert(path.clone(), node);
            if is_folder {
                self.collect(names, *ino, &path, data, random, tree);
            }
        }
    }
}

fn apply(names: &mut Names, step: &Step) {
    match step {
        Step::Set(dir, name, ino) => {
            names.entry(*dir).or_default().insert(name.clone(), *ino);
        }
        Step::Remove(dir, name) => {
            // No folder goes before what is in it.
            let ino = names.get(dir).and_then(|entries| entries.get(name));
            if ino.and_then(|ino| names.get(ino)).is_none_or(BTreeMap::is_empty) {
                names.entry(*dir).or_default().remove(name);
            }
        }
        Step::Rename(dir, name, dir2, name2) => {
            if let Some(ino) = names.entry(*dir).or_default().remove(name) {
                names.entry(*dir2).or_default().insert(name2.clone(), ino);
            }
        }
        Step::Exchange(dir, name, dir2, name2) => {
            let first = names.entry(*dir).or_default().get(name).copied();
            let second = names.entry(*dir2).or_default().get(name2).copied();
            if let (Some(first), Some(second)) = (first, second) {
                names.entry(*dir).or_default().insert(name.clone(), second);
                names.entry(*dir2).or_default().insert(name2.clone(), first);
            }
        }
    }
}

fn base(inode: &Inode) -> Vec<u8> {
    match &inode.node.kind {
        Entry::File(bytes) => bytes.clone(),
        _ => Vec::new(),
    }
}

fn write(bytes: &mut Vec<u8>, offset: u64, data: &[u8]) {
    let (start, end) = (offset as usize, offset as usize + data.len());
    if bytes.len() < end {
        bytes.resize(end, 0);
    }
    bytes[start..end].copy_from_slice(data);
}

fn change(bytes: &mut Vec<u8>, change: &Change) {
    match change {
        Change::Write(offset, data) => write(bytes, *offset, data),
        Change::Len(len) => bytes.resize(*len as usize, 0),
        Change::Zero(offset, len) => {
            let end = (*offset + *len).min(bytes.len() as u64) as usize;
            let start = (*offset as usize).min(end);
            bytes[start..end].fill(0);
        }
    }
}

/// The content after so many changes.
fn content(inode: &Inode, changes: usize) -> Vec<u8> {
    let mut bytes = base(inode);
    inode.changes[..changes].iter().for_each(|one| change(&mut bytes, one));
    bytes
}

/// A file without some of the changes that a sync has failed for: mostly all of them, or each by chance.
fn without_some<'a>(inode: &'a Inode, random: &mut Random) -> Cow<'a, Inode> {
    if inode.doubtful.is_empty() {
        return Cow::Borrowed(inode);
    }
    let is_each = random.chance(3);
    let lost: Vec<usize> = inode.doubtful.iter().copied().filter(|_| !is_each || random.chance(2)).collect();
    let mut kept = inode.clone();
    kept.synced -= lost.iter().filter(|at| **at < inode.synced).count();
    let changes = inode.changes.iter().enumerate().filter(|(at, _)| !lost.contains(at));
    kept.changes = changes.map(|(_, change)| change.clone()).collect();
    Cow::Owned(kept)
}

/// The content of which a part of what was not synced is on the disk.
fn torn(inode: &Inode, random: &mut Random) -> Vec<u8> {
    let mut bytes = content(inode, inode.synced);
    let manner = random.below(3);
    for one in &inode.changes[inode.synced..] {
        match one {
            Change::Write(offset, data) => tear(&mut bytes, *offset, data, manner, random),
            other if random.chance(2) => change(&mut bytes, other),
            _ => {}
        }
    }
    // The length may be there before the content.
    if random.chance(2) {
        bytes.resize(content(inode, inode.changes.len()).len(), 0);
    }
    bytes
}

/// Writes some of the blocks: those before a border, those after it, or any.
fn tear(bytes: &mut Vec<u8>, offset: u64, data: &[u8], manner: usize, random: &mut Random) {
    let end = offset + data.len() as u64;
    let blocks = end.div_ceil(BLOCK) - offset / BLOCK;
    let border = offset / BLOCK + random.below(blocks as usize + 1) as u64;
    let mut at = offset;
    while at < end {
        let next = ((at / BLOCK + 1) * BLOCK).min(end);
        let is_kept = match manner {
            0 => at / BLOCK < border,
            1 => at / BLOCK >= border,
            _ => random.chance(2),
        };
        if is_kept {
            write(bytes, at, &data[(at - offset) as usize..(next - offset) as usize]);
        }
        at = next;
    }
}
