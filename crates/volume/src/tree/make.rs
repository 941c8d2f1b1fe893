//! New entries: files, folders, links, special files, and more names for existing files.

use crate::error::Result;
use crate::folder::{FOLDER, NEW, SAFELY, write_full, write_new};
use crate::names::Stored;
use crate::tree::attr::Attr;
use crate::tree::base::{Dir, Tree};
use crate::tree::kind::Kind;
use crate::tree::node::write;
use crate::tree::stored::{change_mode, if_undone, open_folder, remove_full, rename_new, through_proc};
use rustix::fd::OwnedFd;
use rustix::fs::{
    AtFlags, CWD, FileType, Gid, Mode, OFlags, Stat, Uid, chownat, fstat, linkat, mkdirat, mknodat, openat, statat,
    symlinkat, unlinkat,
};
use rustix::io::Errno;
use std::fs::File;
use std::sync::Arc;

/// The user who makes a new entry, and who will own it. Only a process of the superuser can give entries away;
/// otherwise they belong to the user of the process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Owner {
    /// The user.
    pub uid: u32,
    /// The group, unless the folder gives its own to new entries.
    pub gid: u32,
}

const SET_GROUP_ID: u32 = 0o2000;
const SET_IDS: u32 = 0o6000;
const OWNER_ONLY: Mode = Mode::RWXU;

impl Tree {
    /// Makes a file under a temporary name, lets the caller write it, and gives it its name when it is whole.
    ///
    /// # Errors
    /// `EEXIST` if the name is taken; those of `make`. There is no new file after an error.
    pub fn create<T>(
        &self,
        parent: u64,
        name: &[u8],
        mode: u32,
        owner: Owner,
        make: impl FnOnce(File) -> Result<T>,
    ) -> Result<(Attr, T)> {
        let dir = self.dir_for_change(parent)?;
        let stored = self.names.seal(&dir.id, name)?;
        let how = OFlags::RDWR | OFlags::CREATE | OFlags::EXCL | SAFELY;
        let (new, fd) = self.fresh.make(NEW, |new| openat(&dir.fd, new, how, Mode::from_raw_mode(mode & 0o777)))?;
        let whole = || {
            self.limits.check_file(&fd)?;
            self.give(&dir, &fd, owner, mode, Kind::File)?;
            let made = make(File::from(fd))?;
            if mode & SET_IDS != 0 {
                // Writing to a file clears set-user-ID and set-group-ID.
                let handle = openat(&dir.fd, &*new, OFlags::PATH | SAFELY, Mode::empty())?;
                self.give(&dir, &handle, owner, mode, Kind::File)?;
            }
            let _guard = write(&dir.folder.lock);
            self.name_new(&dir, &new, &stored)?;
            let named = || {
                let stat = statat(&dir.fd, &*stored.entry, AtFlags::SYMLINK_NOFOLLOW)?;
                self.known(&dir, &stored.entry, &stat)
            };
            // The caller then takes the file for one that was never made, and so must everybody who finds the name.
            let known = named().inspect_err(|_| {
                // Without the file beside it a long name cannot be read, so that goes only after it.
                if unlinkat(&dir.fd, &*stored.entry, AtFlags::empty()).is_ok() {
                    remove_full(&dir.fd, &stored);
                }
            });
            Ok((known?, made))
        };
        whole().inspect_err(|_| remove(&dir, &new, AtFlags::empty()))
    }

    /// Makes a folder.
    ///
    /// # Errors
    /// As `mkdir` has them.
    pub fn mkdir(&self, parent: u64, name: &[u8], mode: u32, owner: Owner) -> Result<Attr> {
        let dir = self.dir_for_change(parent)?;
        let stored = self.names.seal(&dir.id, name)?;
        let mut id = [0; 16];
        getrandom::fill(&mut id).map_err(phalanx_core::Error::Random)?;
        let (new, ()) = self.fresh.make(NEW, |new| mkdirat(&dir.fd, new, OWNER_ONLY))?;
        let whole = || {
            let fd = open_folder(&dir.fd, new.as_bytes())?;
            let file = write_new(rustix::fd::AsFd::as_fd(&fd), &self.record(&dir, &stored.entry, &id))?;
            if self.is_privileged {
                // The owner of the folder can then use it without the superuser.
                chownat(&file, "", Some(Uid::from_raw(owner.uid)), None, AtFlags::EMPTY_PATH)?;
            }
            self.give(&dir, &fd, owner, mode, Kind::Folder)?;
            let attr = {
                let _guard = write(&dir.folder.lock);
                self.name_new(&dir, &new, &stored)?;
                self.known(&dir, &stored.entry, &fstat(&fd)?)?
            };
            if let Ok(folder) = self.nodes().folder(attr.number) {
                let _ = folder.id.set(id);
            }
            self.keep_open(attr.number, Arc::new(fd));
            Ok(attr)
        };
        whole().inspect_err(|_| {
            if let Ok(fd) = open_folder(&dir.fd, new.as_bytes()) {
                let _ = unlinkat(&fd, FOLDER, AtFlags::empty());
            }
            remove(&dir, &new, AtFlags::REMOVEDIR);
        })
    }

    /// Makes a FIFO, a socket or a device. Files are made by [`Tree::create`].
    ///
    /// # Errors
    /// As `mknod` has them; `EINVAL` for any other kind.
    pub fn mknod(&self, parent: u64, name: &[u8], kind: Kind, mode: u32, device: u64, owner: Owner) -> Result<Attr> {
        let file_type = match kind {
            Kind::Fifo => FileType::Fifo,
            Kind::Socket => FileType::Socket,
            Kind::Char => FileType::CharacterDevice,
            Kind::Block => FileType::BlockDevice,
            Kind::File | Kind::Folder | Kind::Link => return Err(Errno::INVAL.into()),
        };
        let dir = self.dir_for_change(parent)?;
        let stored = self.names.seal(&dir.id, name)?;
        let mode_bits = Mode::RUSR | Mode::WUSR;
        let (new, ()) = self.fresh.make(NEW, |new| mknodat(&dir.fd, new, file_type, mode_bits, device))?;
        let whole = || {
            let handle = openat(&dir.fd, &*new, OFlags::PATH | SAFELY, Mode::empty())?;
            if self.kind(&fstat(&handle)?)? != kind {
                return Err(Errno::STALE.into());
            }
            self.give(&dir, &handle, owner, mode, kind)?;
            let _guard = write(&dir.folder.lock);
            self.name_new(&dir, &new, &stored)?;
            self.known(&dir, &stored.entry, &fstat(&handle)?)
        };
        whole().inspect_err(|_| remove(&dir, &new, AtFlags::empty()))
    }

    /// Makes a symbolic link.
    ///
    /// # Errors
    /// As `symlink` has them; `ENAMETOOLONG` for a target of more than 3000 bytes.
    pub fn symlink(&self, parent: u64, name: &[u8], target: &[u8], owner: Owner) -> Result<Attr> {
        let dir = self.dir_for_change(parent)?;
        let stored = self.names.seal(&dir.id, name)?;
        let sealed = self.names.seal_link(&dir.id, &stored.entry, target)?;
        let (new, ()) = self.fresh.make(NEW, |new| symlinkat(&*sealed, &dir.fd, new))?;
        let whole = || {
            if self.is_privileged {
                let (uid, gid) = (Uid::from_raw(owner.uid), self.group(&dir, owner)?.0);
                chownat(&dir.fd, &*new, Some(uid), Some(gid), AtFlags::SYMLINK_NOFOLLOW)?;
            }
            let _guard = write(&dir.folder.lock);
            self.name_new(&dir, &new, &stored)?;
            self.known(&dir, &stored.entry, &statat(&dir.fd, &*stored.entry, AtFlags::SYMLINK_NOFOLLOW)?)
        };
        whole().inspect_err(|_| remove(&dir, &new, AtFlags::empty()))
    }

    /// Gives a file or a special file one more name.
    ///
    /// # Errors
    /// As `link` has them; `EPERM` for folders, and for symbolic links, as their targets are bound to their only name.
    pub fn link(&self, number: u64, parent: u64, name: &[u8]) -> Result<Attr> {
        let place = self.nodes().place(number)?;
        let dir = self.dir_for_change(parent)?;
        if matches!(place.kind, Kind::Folder | Kind::Link) {
            return Err(Errno::PERM.into());
        }
        if place.parent != parent {
            // An old file may soon be reachable only through the id of this folder.
            self.sync_above(parent)?;
        }
        let stored = self.names.seal(&dir.id, name)?;
        let handle = self.handle(number)?;
        let _guard = write(&dir.folder.lock);
        self.check_present(&dir)?;
        if stored.full.is_some() {
            self.check_free(&dir, &stored.entry)?;
        }
        self.linking(&handle)?;
        let inode = fstat(&handle)?.st_ino;
        self.write_full(&dir, &stored)?;
        let linked = linkat(CWD, through_proc(&handle), &dir.fd, &*stored.entry, AtFlags::SYMLINK_FOLLOW);
        let is_linked =
            || statat(&dir.fd, &*stored.entry, AtFlags::SYMLINK_NOFOLLOW).is_ok_and(|stat| stat.st_ino == inode);
        if_undone(linked, is_linked).inspect_err(|_| remove_full(&dir.fd, &stored))?;
        self.known(&dir, &stored.entry, &fstat(&handle)?)
    }

    /// Gives its final name to a whole entry that was made under a temporary name. The folder's lock is held.
    pub(super) fn name_new(&self, dir: &Dir, new: &str, stored: &Stored) -> Result<()> {
        self.check_present(dir)?;
        if stored.full.is_some() {
            // The file beside a long name is made before the entry, so this first checks that the name is free.
            self.check_free(dir, &stored.entry)?;
            self.write_full(dir, stored)?;
        }
        let renamed = rename_new(&dir.fd, new.as_bytes(), &dir.fd, &stored.entry);
        Ok(renamed.inspect_err(|_| remove_full(&dir.fd, stored))?)
    }

    /// Writes the file beside a long name, if the name is long.
    pub(super) fn write_full(&self, dir: &Dir, stored: &Stored) -> Result<()> {
        let Some(sealed) = &stored.full else { return Ok(()) };
        write_full(rustix::fd::AsFd::as_fd(&dir.fd), &self.fresh, &stored.entry, sealed)
    }

    fn check_free(&self, dir: &Dir, stored: &[u8]) -> Result<()> {
        match statat(&dir.fd, stored, AtFlags::SYMLINK_NOFOLLOW) {
            Err(Errno::NOENT) => Ok(()),
            Ok(_) => Err(Errno::EXIST.into()),
            Err(errno) => Err(errno.into()),
        }
    }

    /// Sets the owner of a new entry and then its permissions, since a change of the owner may clear some. What is
    /// right already stays: reading costs less than writing.
    fn give(&self, dir: &Dir, handle: &OwnedFd, owner: Owner, mode: u32, kind: Kind) -> Result<()> {
        let (gid, is_inherited) = self.group(dir, owner)?;
        let mut stat = fstat(handle)?;
        if self.is_privileged && (stat.st_uid, stat.st_gid) != (owner.uid, gid.as_raw()) {
            chownat(handle, "", Some(Uid::from_raw(owner.uid)), Some(gid), AtFlags::EMPTY_PATH)?;
            stat = fstat(handle)?;
        }
        let inherited = if is_inherited && kind == Kind::Folder { SET_GROUP_ID } else { 0 };
        let mode = mode & 0o7777 | inherited;
        if stat.st_mode & 0o7777 != mode {
            change_mode(handle, mode)?;
        }
        Ok(())
    }

    /// The group of a new entry, and whether the folder passes its own group on to everything made in it.
    fn group(&self, dir: &Dir, owner: Owner) -> Result<(Gid, bool)> {
        let Stat { st_mode, st_gid, .. } = fstat(&dir.fd)?;
        let is_inherited = st_mode & SET_GROUP_ID != 0;
        Ok((Gid::from_raw(if is_inherited { st_gid } else { owner.gid }), is_inherited))
    }
}

/// Removes an unfinished entry. It stays if that fails: its name is no name of the volume.
fn remove(dir: &Dir, new: &str, flags: AtFlags) {
    let _ = unlinkat(&dir.fd, new, flags);
}
