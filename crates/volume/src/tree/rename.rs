//! Renaming and moving. What binds an entry to its place is written again: `phalanx.folder` in three steps, so that the
//! folder can be read whenever the run is killed, and a symbolic link as a whole.

use crate::error::{Result, VolumeError};
use crate::folder::{NEW, Records, SAFELY, replace};
use crate::names::{FolderId, RECORD_LEN, Stored};
use crate::tree::base::{Dir, Tree};
use crate::tree::kind::Kind;
use crate::tree::node::write_all;
use crate::tree::remove::finish;
use crate::tree::stored::{if_undone, open_folder, remove_full, rename_new, rename_over, with_access};
use phalanx_host::lock::lock;
use rustix::fd::{AsFd, OwnedFd};
use rustix::fs::{
    AtFlags, Mode, OFlags, RenameFlags, Stat, Timespec, Timestamps, chownat, fstat, fsync, openat, readlinkat,
    renameat_with, statat, symlinkat, unlinkat, utimensat,
};
use rustix::io::Errno;
use std::sync::Arc;

/// What happens to an entry that has the new name already.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum RenameMode {
    /// It is replaced.
    #[default]
    Replace,
    /// `EEXIST`.
    NoReplace,
    /// It gets the old name in exchange.
    Exchange,
}

/// A name in a folder.
#[derive(Clone, Copy)]
struct Name<'a> {
    dir: &'a Dir,
    stored: &'a Stored,
}

/// The kind and the inode of an entry.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Target {
    kind: Kind,
    inode: u64,
}

impl Name<'_> {
    fn entry(&self) -> &[u8] {
        &self.stored.entry
    }

    /// The parent's number and the stored name.
    fn place(&self) -> (u64, &[u8]) {
        (self.dir.folder.number, &self.stored.entry)
    }

    fn stat(&self) -> Result<Stat, Errno> {
        statat(&self.dir.fd, self.entry(), AtFlags::SYMLINK_NOFOLLOW)
    }
}

impl Tree {
    /// Renames an entry, or moves it to another folder.
    ///
    /// # Errors
    /// As `renameat2` has them. Also `EINVAL` for an exchange with a symbolic link: its target is bound to its name,
    /// and two entries cannot be replaced atomically.
    pub fn rename(&self, parent: u64, name: &[u8], new_parent: u64, new_name: &[u8], mode: RenameMode) -> Result<()> {
        let (from, to) = (self.dir_for_change(parent)?, self.dir_for_change(new_parent)?);
        if parent != new_parent {
            // An entry that is on the disk can then be found only through the id of its new folder.
            self.sync_above(new_parent)?;
            if mode == RenameMode::Exchange {
                self.sync_above(parent)?;
            }
        }
        let (old, new) = (self.names.seal(&from.id, name)?, self.names.seal(&to.id, new_name)?);
        let (from, to) = (Name { dir: &from, stored: &old }, Name { dir: &to, stored: &new });
        loop {
            // The entries decide which locks are needed. Once they are held, the entries are looked up again.
            let seen = (self.find(from)?, self.find(to)?);
            let known = |found: Option<Target>| {
                let nodes = self.nodes();
                nodes.known_folder(nodes.number(found?.inode))
            };
            let replaced = known(seen.1);
            let is_folder = |found: Option<Target>| found.is_some_and(|found| found.kind == Kind::Folder);
            let _moving = (is_folder(seen.0) || is_folder(seen.1)).then(|| lock(&self.moving));
            let folders = [Some(&from.dir.folder), Some(&to.dir.folder), replaced.as_ref()];
            let guards = write_all(&folders.into_iter().flatten().collect::<Vec<_>>());
            let is_same = known(seen.1).as_ref().map(Arc::as_ptr) == replaced.as_ref().map(Arc::as_ptr);
            if !is_same || seen != (self.find(from)?, self.find(to)?) {
                continue;
            }
            let replaced = self.rename_found(from, to, seen.0.ok_or(Errno::NOENT)?, seen.1, mode)?;
            drop(guards);
            if let Some(new) = seen.1 {
                self.settle(new.inode);
            }
            if let Some((gone, fd)) = replaced {
                finish(to.dir, &gone, &fd);
            }
            return Ok(());
        }
    }

    fn find(&self, name: Name<'_>) -> Result<Option<Target>> {
        match name.stat() {
            Ok(stat) => Ok(Some(Target { kind: self.kind(&stat)?, inode: stat.st_ino })),
            Err(Errno::NOENT) => Ok(None),
            Err(errno) => Err(errno.into()),
        }
    }

    /// Checks and renames. If a folder was replaced, returns its temporary name and its descriptor.
    fn rename_found(
        &self,
        from: Name<'_>,
        to: Name<'_>,
        old: Target,
        new: Option<Target>,
        mode: RenameMode,
    ) -> Result<Option<(String, OwnedFd)>> {
        match mode {
            RenameMode::NoReplace if new.is_some() => return Err(Errno::EXIST.into()),
            RenameMode::Exchange if new.is_none() => return Err(Errno::NOENT.into()),
            _ => {}
        }
        let is_within = |folder: Target, name: Name<'_>| {
            let nodes = self.nodes();
            folder.kind == Kind::Folder && nodes.is_within(name.dir.folder.number, nodes.number(folder.inode))
        };
        if is_within(old, to) {
            return Err(Errno::INVAL.into());
        }
        if new.is_some_and(|new| is_within(new, from)) {
            let errno = if mode == RenameMode::Exchange { Errno::INVAL } else { Errno::NOTEMPTY };
            return Err(errno.into());
        }
        let Some(new) = new else {
            match old.kind {
                Kind::Folder => self.move_folder(from, to, old, |tree| tree.rename_to_free(from, to))?,
                Kind::Link => self.move_link(from, to, old, None)?,
                _ => self.move_file(from, to, old, None)?,
            }
            return Ok(None);
        };
        match (old.kind, new.kind) {
            // Two names of the same inode: POSIX requires that nothing is done.
            _ if old.inode == new.inode => Ok(None),
            _ if mode == RenameMode::Exchange => self.exchange(from, to, old, new).map(|()| None),
            (Kind::Folder, Kind::Folder) => self.replace_folder(from, to, old, new).map(Some),
            (Kind::Folder, _) => Err(Errno::NOTDIR.into()),
            (_, Kind::Folder) => Err(Errno::ISDIR.into()),
            (Kind::Link, _) => self.move_link(from, to, old, Some(new)).map(|()| None),
            _ => self.move_file(from, to, old, Some(new)).map(|()| None),
        }
    }

    fn rename_to_free(&self, from: Name<'_>, to: Name<'_>) -> Result<()> {
        self.check_present(to.dir)?;
        self.write_full(to.dir, to.stored)?;
        let renamed = rename_new(&from.dir.fd, from.entry(), &to.dir.fd, to.entry());
        Ok(renamed.inspect_err(|_| remove_full(&to.dir.fd, to.stored))?)
    }

    /// Moves an entry that is bound to its id, not to its name.
    fn move_file(&self, from: Name<'_>, to: Name<'_>, old: Target, new: Option<Target>) -> Result<()> {
        match new {
            None => self.rename_to_free(from, to)?,
            Some(_) => {
                let (pin, inode) = self.pin(to.dir, to.entry())?;
                self.write_full(to.dir, to.stored)?;
                self.unname(&pin, to.dir, true, || rename_over(&from.dir.fd, from.entry(), &to.dir.fd, to.entry()))?;
                self.gone(to.dir, to.entry(), inode, pin);
            }
        }
        remove_full(&from.dir.fd, from.stored);
        let dropped = self.nodes().moved(old.inode, from.place(), to.place());
        self.drop_all(dropped);
        Ok(())
    }

    /// Moves a symbolic link: makes a new link, bound to its new name, in place of what is there, and then removes the
    /// old one. A run that is killed in between leaves both.
    fn move_link(&self, from: Name<'_>, to: Name<'_>, old: Target, new: Option<Target>) -> Result<()> {
        let stat = from.stat()?;
        let stored = readlinkat(&from.dir.fd, from.entry(), Vec::new())?;
        let target = self.names.open_link(&from.dir.id, from.entry(), stored.as_bytes());
        let target = target
            .ok_or_else(|| self.damaged(from.place().0, from.entry(), "a link whose target was not made for it"))?;
        let sealed = self.names.seal_link(&to.dir.id, to.entry(), &target)?;
        let before = openat(&from.dir.fd, from.entry(), OFlags::PATH | SAFELY, Mode::empty())?;
        self.limits.check_pin(&before)?;
        let (temporary, ()) = self.fresh.make(NEW, |name| symlinkat(&*sealed, &to.dir.fd, name))?;
        let put = || {
            self.keep_owner_and_times(&to.dir.fd, &temporary, &stat)?;
            let made = statat(&to.dir.fd, &*temporary, AtFlags::SYMLINK_NOFOLLOW)?.st_ino;
            match new {
                None => self.name_new(to.dir, &temporary, to.stored)?,
                Some(_) => {
                    let (pin, inode) = self.pin(to.dir, to.entry())?;
                    self.write_full(to.dir, to.stored)?;
                    self.unname(&pin, to.dir, true, || {
                        rename_over(&to.dir.fd, temporary.as_bytes(), &to.dir.fd, to.entry())
                    })?;
                    self.gone(to.dir, to.entry(), inode, pin);
                }
            }
            Ok(made)
        };
        let made = put().inspect_err(|_: &VolumeError| {
            let _ = unlinkat(&to.dir.fd, &*temporary, AtFlags::empty());
        })?;
        let removed = unlinkat(&from.dir.fd, from.entry(), AtFlags::empty());
        if removed.is_ok() {
            remove_full(&from.dir.fd, from.stored);
        }
        let dropped = self.nodes().remade((old.inode, before), made, from.place(), to.place());
        self.drop_all(dropped);
        Ok(removed?)
    }

    fn keep_owner_and_times(&self, fd: &OwnedFd, name: &str, stat: &Stat) -> Result<(), Errno> {
        if self.is_privileged {
            let (uid, gid) = (rustix::fs::Uid::from_raw(stat.st_uid), rustix::fs::Gid::from_raw(stat.st_gid));
            chownat(fd, name, Some(uid), Some(gid), AtFlags::SYMLINK_NOFOLLOW)?;
        }
        // The types of these fields differ from machine to machine.
        #[allow(clippy::unnecessary_cast)]
        let time = |seconds, nanos| Timespec { tv_sec: seconds as i64, tv_nsec: nanos as _ };
        let times = Timestamps {
            last_access: time(stat.st_atime, stat.st_atime_nsec),
            last_modification: time(stat.st_mtime, stat.st_mtime_nsec),
        };
        utimensat(fd, name, &times, AtFlags::SYMLINK_NOFOLLOW)
    }

    /// Replaces an empty folder. That one is moved away first, since a folder cannot be renamed over one that holds
    /// `phalanx.folder`.
    fn replace_folder(&self, from: Name<'_>, to: Name<'_>, old: Target, new: Target) -> Result<(String, OwnedFd)> {
        let empty = self.open_empty(to.dir, to.entry())?;
        let mut gone = None;
        self.move_folder(from, to, old, |tree| {
            let (taken, _) = gone.insert(tree.take_away(to.dir, to.entry())?);
            tree.rename_to_free(from, to).inspect_err(|_| {
                // Restores the old state if possible.
                let _ = tree.write_full(to.dir, to.stored);
                let _ = rename_new(&to.dir.fd, taken.as_bytes(), &to.dir.fd, to.entry());
            })
        })?;
        let (gone, pin) = gone.ok_or(Errno::STALE)?;
        self.gone(to.dir, to.entry(), new.inode, pin);
        Ok((gone, empty))
    }

    /// Moves a folder with the given function, in three steps that keep it readable.
    fn move_folder(
        &self,
        from: Name<'_>,
        to: Name<'_>,
        old: Target,
        rename: impl FnOnce(&Self) -> Result<()>,
    ) -> Result<()> {
        let folder = self.bound(from, old)?;
        let (before, after) = (self.binding(&folder, from), self.binding(&folder, to));
        self.rebind(&folder.fd, &[before, after])?;
        self.sync_records_of(&folder.fd)?;
        rename(self).inspect_err(|_| {
            let _ = self.rebind(&folder.fd, &[before]);
        })?;
        remove_full(&from.dir.fd, from.stored);
        let dropped = self.nodes().moved(old.inode, from.place(), to.place());
        self.drop_all(dropped);
        self.bind_only(&folder.fd, to, after);
        Ok(())
    }

    fn exchange(&self, from: Name<'_>, to: Name<'_>, old: Target, new: Target) -> Result<()> {
        if old.kind == Kind::Link || new.kind == Kind::Link {
            return Err(Errno::INVAL.into());
        }
        // Each folder, with its old and its new record and its new place.
        let mut folders = Vec::new();
        for (found, before, after) in [(old, from, to), (new, to, from)] {
            if found.kind == Kind::Folder {
                let folder = self.bound(before, found)?;
                let records = [self.binding(&folder, before), self.binding(&folder, after)];
                folders.push((folder, records, after));
            }
        }
        let bound = folders.iter().try_for_each(|(folder, records, _)| {
            self.rebind(&folder.fd, records)?;
            self.sync_records_of(&folder.fd)
        });
        let exchanged = bound.and_then(|()| {
            let exchange = RenameFlags::EXCHANGE;
            let exchanged = renameat_with(&from.dir.fd, from.entry(), &to.dir.fd, to.entry(), exchange);
            let is_done = || to.stat().is_ok_and(|stat| stat.st_ino == old.inode);
            Ok(if_undone(exchanged, is_done)?)
        });
        if let Err(error) = exchanged {
            for (folder, [before, _], _) in &folders {
                let _ = self.rebind(&folder.fd, &[*before]);
            }
            return Err(error);
        }
        let mut nodes = self.nodes();
        let dropped =
            (nodes.moved(old.inode, from.place(), to.place()), nodes.moved(new.inode, to.place(), from.place()));
        drop(nodes);
        self.drop_all(dropped.0);
        self.drop_all(dropped.1);
        for (folder, [_, after], place) in &folders {
            self.bind_only(&folder.fd, *place, *after);
        }
        Ok(())
    }

    /// Opens a folder that is to be moved, and reads its id.
    fn bound(&self, name: Name<'_>, found: Target) -> Result<Bound> {
        let fd = open_folder(&name.dir.fd, name.entry())?;
        if fstat(&fd)?.st_ino != found.inode {
            return Err(Errno::STALE.into());
        }
        let records = with_access(&fd, || Records::read(fd.as_fd()))?;
        let opened = records.and_then(|records| records.open(&self.names, &name.dir.id, name.entry()));
        let opened =
            opened.ok_or_else(|| self.damaged(name.place().0, name.entry(), "a folder that does not belong there"))?;
        Ok(Bound { fd, id: opened.0 })
    }

    fn binding(&self, folder: &Bound, name: Name<'_>) -> [u8; RECORD_LEN] {
        self.record(name.dir, name.entry(), &folder.id)
    }

    /// Makes sure that both records of a folder have their name on the disk before the folder has its new one.
    fn sync_records_of(&self, folder: &OwnedFd) -> Result<()> {
        let synced = with_access(folder, || Ok(fsync(openat(folder, ".", OFlags::RDONLY | SAFELY, Mode::empty())?)))?;
        self.check_synced(synced)
    }

    /// Replaces `phalanx.folder`.
    fn rebind(&self, folder: &OwnedFd, records: &[[u8; RECORD_LEN]]) -> Result<()> {
        with_access(folder, || replace(folder.as_fd(), &self.fresh, records))
    }

    /// Leaves only the record of the new place, once the folder's new name is on the disk. If this fails, both records
    /// stay, and the next use repairs that.
    fn bind_only(&self, folder: &OwnedFd, place: Name<'_>, record: [u8; RECORD_LEN]) {
        if self.check_synced(fsync(&place.dir.fd)).is_ok() {
            let _ = self.rebind(folder, &[record]);
        }
    }
}

/// A folder and its id.
struct Bound {
    fd: OwnedFd,
    id: FolderId,
}
