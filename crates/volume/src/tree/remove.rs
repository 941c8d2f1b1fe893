//! Removing names, folders, and what killed runs have left.

use crate::error::Result;
use crate::folder::{FOLDER, GONE, SAFELY};
use crate::names::{FULL, is_long};
use crate::tree::base::{Dir, Tree};
use crate::tree::kind::Kind;
use crate::tree::node::{write, write_all};
use crate::tree::stored::{
    MAX_REMOVED, OWNER_ALL, change_mode, each_entry, if_undone, is_free, is_left, open_folder, remove_full, rename_new,
    with_access,
};
use rustix::fd::OwnedFd;
use rustix::fs::{AtFlags, FileType, Mode, OFlags, fstat, openat, statat, unlinkat};
use rustix::io::Errno;
use std::sync::Arc;

/// How deep leftovers of a killed run are searched: a folder that was being made or removed, and what was left in it.
const MAX_LEFT: usize = 8;

impl Tree {
    /// Removes a name of anything but a folder.
    ///
    /// # Errors
    /// As `unlink` has them: `EISDIR` for a folder.
    pub fn unlink(&self, parent: u64, name: &[u8]) -> Result<()> {
        let dir = self.dir_for_change(parent)?;
        let stored = self.names.seal(&dir.id, name)?;
        let guard = write(&dir.folder.lock);
        let (pin, inode) = self.pin(&dir, &stored.entry)?;
        self.unname(&pin, &dir, false, || {
            if_undone(unlinkat(&dir.fd, &*stored.entry, AtFlags::empty()), || is_free(&dir.fd, &stored.entry))
        })?;
        remove_full(&dir.fd, &stored);
        self.gone(&dir, &stored.entry, inode, pin);
        drop(guard);
        self.settle(inode);
        Ok(())
    }

    /// Opens the inode of an entry that is to be removed and is no folder. The inode keeps its number while it is open.
    pub(super) fn pin(&self, dir: &Dir, stored: &[u8]) -> Result<(OwnedFd, u64)> {
        let pin = openat(&dir.fd, stored, OFlags::PATH | SAFELY, Mode::empty())?;
        self.limits.check_pin(&pin)?;
        let stat = fstat(&pin)?;
        if self.kind(&stat)? == Kind::Folder {
            return Err(Errno::ISDIR.into());
        }
        Ok((pin, stat.st_ino))
    }

    /// Removes an empty folder.
    ///
    /// # Errors
    /// As `rmdir` has them: `ENOTEMPTY` if it contains anything, be it an entry of the volume or another program's.
    pub fn rmdir(&self, parent: u64, name: &[u8]) -> Result<()> {
        let dir = self.dir_for_change(parent)?;
        let stored = self.names.seal(&dir.id, name)?;
        loop {
            let inode = self.inode_of_folder(&dir, &stored.entry)?;
            let known = || {
                let nodes = self.nodes();
                nodes.known_folder(nodes.number(inode))
            };
            let folder = known();
            let guards = write_all(&[Some(&dir.folder), folder.as_ref()].into_iter().flatten().collect::<Vec<_>>());
            let is_same = known().as_ref().map(Arc::as_ptr) == folder.as_ref().map(Arc::as_ptr);
            if !is_same || self.inode_of_folder(&dir, &stored.entry)? != inode {
                continue;
            }
            let fd = self.open_empty(&dir, &stored.entry)?;
            let (gone, pin) = self.take_away(&dir, &stored.entry)?;
            self.gone(&dir, &stored.entry, inode, pin);
            remove_full(&dir.fd, &stored);
            drop(guards);
            finish(&dir, &gone, &fd);
            return Ok(());
        }
    }

    fn inode_of_folder(&self, dir: &Dir, stored: &[u8]) -> Result<u64> {
        let stat = statat(&dir.fd, stored, AtFlags::SYMLINK_NOFOLLOW)?;
        if self.kind(&stat)? == Kind::Folder { Ok(stat.st_ino) } else { Err(Errno::NOTDIR.into()) }
    }

    /// Opens a folder that is about to be removed, and checks that it holds only its own files and leftovers.
    pub(super) fn open_empty(&self, dir: &Dir, stored: &[u8]) -> Result<OwnedFd> {
        let fd = open_folder(&dir.fd, stored)?;
        if with_access(&fd, || Ok(is_empty(&fd)?))? { Ok(fd) } else { Err(Errno::NOTEMPTY.into()) }
    }

    /// Moves a folder to a name that is no name of the volume. Returns that name, and the inode.
    pub(super) fn take_away(&self, dir: &Dir, stored: &[u8]) -> Result<(String, OwnedFd)> {
        let pin = openat(&dir.fd, stored, OFlags::PATH | SAFELY, Mode::empty())?;
        self.limits.check_pin(&pin)?;
        let (gone, ()) = self.fresh.make(GONE, |gone| rename_new(&dir.fd, stored, &dir.fd, gone.as_bytes()))?;
        Ok((gone, pin))
    }

    /// Records that a name has gone. The folder's lock is held.
    pub(super) fn gone(&self, dir: &Dir, stored: &[u8], inode: u64, pin: OwnedFd) {
        let dropped = self.nodes().gone(inode, dir.folder.number, stored, pin);
        self.drop_all(dropped);
    }

    /// If the name of a node has just gone, and the inode still has an earlier one that the kernel may know, the node gets that
    /// one and holds no descriptor. No folder's lock is held. If the name goes meanwhile, [`Nodes`](super::node::Nodes) knows.
    pub(super) fn settle(&self, inode: u64) {
        loop {
            let Some(place) = self.nodes().earlier(inode) else { return };
            let is_there = || -> Result<bool> {
                let folder = self.descriptor(place.parent)?;
                let stat = statat(&folder, &*place.stored, AtFlags::SYMLINK_NOFOLLOW)?;
                Ok(self.is_its(&place, &stat).is_ok())
            };
            let is_there = is_there().unwrap_or(false);
            let dropped = self.nodes().settle(&place, is_there);
            self.drop_all(dropped);
        }
    }

    /// Checks that a folder has not been removed, so that nothing new is made in it. The folder's lock is held.
    pub(super) fn check_present(&self, dir: &Dir) -> Result<()> {
        match self.nodes().place(dir.folder.number)?.pin {
            None => Ok(()),
            Some(_) => Err(Errno::NOENT.into()),
        }
    }

    /// Tells that a file that was being made does not become one of the volume.
    fn forget_left(&self, fd: &OwnedFd, name: &[u8]) {
        let Some(removals) = self.removals.get() else { return };
        let Ok(pin) = openat(fd, name, OFlags::PATH | SAFELY, Mode::empty()) else { return };
        // One with another name is not only being made.
        let is_only = fstat(&pin).is_ok_and(|stat| stat.st_nlink == 1);
        let (folder, stat) = (fd.try_clone().map(Arc::new), fstat(fd));
        if let (true, Ok(Some(file)), Ok(stat), Ok(folder)) = (is_only, self.identify(&pin), stat, folder) {
            // It is removed just after this. If that fails, it is no entry of the volume either.
            let _ = removals.remove(file, &|| 0, (stat.st_ino, &folder), false, &mut || Ok(()));
        }
    }

    /// Removes what a killed run has left in a folder, but at most [`MAX_REMOVED`] entries. What cannot be removed
    /// stays, and does no harm.
    pub(super) fn remove_left(&self, fd: &OwnedFd, names: &[Vec<u8>]) {
        if self.check_writable().is_err() {
            return;
        }
        let mut budget = MAX_REMOVED;
        for name in names.iter().filter(|name| !self.fresh.is_own(name)) {
            self.forget_left(fd, name);
            remove_deep(fd, name, MAX_LEFT, &mut budget);
        }
    }
}

fn is_empty(fd: &OwnedFd) -> Result<bool, Errno> {
    let mut is_empty = true;
    each_entry(fd, |name, _, _| {
        let belongs = name == FOLDER.as_bytes() || is_left(name) || name.strip_suffix(FULL).is_some_and(is_long);
        is_empty &= belongs;
        is_empty
    })?;
    Ok(is_empty)
}

/// Removes a folder that was moved away, and its own files. If that fails, it stays.
pub(super) fn finish(dir: &Dir, gone: &str, fd: &OwnedFd) {
    /// How often this tries. Another thread that was making an entry in the folder finds that it has gone, and removes
    /// what it began.
    const TRIES: usize = 20;
    for _ in 0..TRIES {
        // No limit: the folder has to be removed.
        let mut budget = usize::MAX;
        let removed = empty_out(fd, MAX_LEFT, &mut budget);
        if removed == Err(Errno::ACCESS) && change_mode(fd, OWNER_ALL).is_ok() {
            let _ = empty_out(fd, MAX_LEFT, &mut budget);
        }
        if unlinkat(&dir.fd, gone, AtFlags::REMOVEDIR) != Err(Errno::NOTEMPTY) {
            return;
        }
        std::thread::sleep(std::time::Duration::from_millis(1));
    }
}

/// Removes a folder's own files and leftovers, but no entry of the volume, and at most as many as the budget allows.
fn empty_out(fd: &OwnedFd, depth: usize, budget: &mut usize) -> Result<(), Errno> {
    let mut names = Vec::new();
    each_entry(fd, |name, _, _| {
        if name.contains(&b'.') && !is_long(name) {
            names.push(name.to_vec());
        }
        names.len() < *budget
    })?;
    let mut result = Ok(());
    for name in names {
        if is_left(&name) {
            remove_deep(fd, &name, depth, budget);
        } else if (name == FOLDER.as_bytes() || name.ends_with(FULL)) && take_one(budget) {
            result = result.and(unlinkat(fd, &*name, AtFlags::empty()));
        }
    }
    result
}

/// Takes one entry from the budget. Returns whether it was allowed.
fn take_one(budget: &mut usize) -> bool {
    let left = budget.checked_sub(1);
    *budget = left.unwrap_or(0);
    left.is_some()
}

fn remove_deep(fd: &OwnedFd, name: &[u8], depth: usize, budget: &mut usize) {
    if !take_one(budget) {
        return;
    }
    let is_folder = statat(fd, name, AtFlags::SYMLINK_NOFOLLOW)
        .is_ok_and(|stat| FileType::from_raw_mode(stat.st_mode) == FileType::Directory);
    if !is_folder {
        let _ = unlinkat(fd, name, AtFlags::empty());
        return;
    }
    if let (Some(depth), Ok(inner)) = (depth.checked_sub(1), open_folder(fd, name)) {
        let _ = empty_out(&inner, depth, budget);
    }
    let _ = unlinkat(fd, name, AtFlags::REMOVEDIR);
}
