//! Serving each of the kernel's requests.

use crate::error::VolumeError;
use crate::front::convert::{TTL, errno, file_attr, file_type, kind, owner, sized};
use crate::front::{BUFFER, DOTS, Front, done};
use crate::mount::tune;
use crate::tree::{Kind, RenameMode, SetAttr, SetMode};
use fuser::{
    AccessFlags, BsdFileFlags, Errno, FileHandle, FileType, Filesystem, FopenFlags, Generation, INodeNo, KernelConfig,
    LockOwner, OpenAccMode, OpenFlags, RenameFlags, ReplyAttr, ReplyCreate, ReplyData, ReplyDirectory,
    ReplyDirectoryPlus, ReplyEmpty, ReplyEntry, ReplyLseek, ReplyOpen, ReplyStatfs, ReplyWrite, ReplyXattr, Request,
    TimeOrNow, WriteFlags,
};
use rustix::fs::{FallocateFlags, OFlags};
use std::ffi::OsStr;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::Arc;
use std::time::SystemTime;
use zeroize::Zeroizing;

impl Filesystem for Front {
    fn init(&mut self, _: &Request, config: &mut KernelConfig) -> io::Result<()> {
        tune(config, !self.read_only);
        Ok(())
    }

    fn destroy(&mut self) {
        self.files.clear();
        let closed = self.store.close();
        *self.ended.lock().unwrap_or_else(|poisoned| poisoned.into_inner()) = Some(closed);
    }

    fn lookup(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        let _turn = self.kernel.turn();
        self.entry(self.tree.lookup(parent.0, name.as_bytes()), reply);
    }

    fn forget(&self, _: &Request, number: INodeNo, times: u64) {
        self.tree.forget(number.0, times);
    }

    fn getattr(&self, _: &Request, number: INodeNo, _: Option<FileHandle>, reply: ReplyAttr) {
        let _turn = self.kernel.turn();
        match self.tree.getattr(number.0) {
            Ok(attr) => reply.attr(&TTL, &file_attr(&self.now(attr))),
            Err(error) => reply.error(errno(&error)),
        }
    }

    fn setattr(
        &self,
        request: &Request,
        number: INodeNo,
        mode: Option<u32>,
        uid: Option<u32>,
        gid: Option<u32>,
        size: Option<u64>,
        atime: Option<TimeOrNow>,
        mtime: Option<TimeOrNow>,
        _: Option<SystemTime>,
        handle: Option<FileHandle>,
        _: Option<SystemTime>,
        _: Option<SystemTime>,
        _: Option<SystemTime>,
        _: Option<BsdFileFlags>,
        reply: ReplyAttr,
    ) {
        let _turn = self.kernel.turn();
        let change = || {
            if self.read_only {
                return Err(VolumeError::Refused(rustix::io::Errno::ROFS));
            }
            if let Some(size) = size {
                self.take_set_ids_of_users(request, number)?;
                self.set_size(number.0, size, handle)?;
            }
            let change = SetAttr { mode, uid, gid, ..self.set_times(number.0, atime, mtime)? };
            let attr =
                if change.is_empty() { self.tree.getattr(number.0)? } else { self.tree.set_attr(number.0, &change)? };
            self.changed(number.0);
            Ok(attr)
        };
        match change() {
            Ok(attr) => reply.attr(&TTL, &file_attr(&self.now(attr))),
            Err(error) => reply.error(errno(&error)),
        }
    }

    fn readlink(&self, _: &Request, number: INodeNo, reply: ReplyData) {
        match self.tree.readlink(number.0) {
            Ok(target) => reply.data(&target),
            Err(error) => reply.error(errno(&error)),
        }
    }

    fn mknod(
        &self,
        request: &Request,
        parent: INodeNo,
        name: &OsStr,
        mode: u32,
        _: u32,
        device: u32,
        reply: ReplyEntry,
    ) {
        let name = name.as_bytes();
        let made = match kind(rustix::fs::FileType::from_raw_mode(mode)) {
            Some(Kind::File) => {
                let made =
                    self.tree.create(parent.0, name, mode & 0o7777, owner(request), |file| self.store.create(file));
                made.map(|(attr, _)| attr)
            }
            Some(kind) => self.tree.mknod(parent.0, name, kind, mode & 0o7777, device.into(), owner(request)),
            None => Err(VolumeError::Refused(rustix::io::Errno::INVAL)),
        };
        self.entry(made, reply);
    }

    fn mkdir(&self, request: &Request, parent: INodeNo, name: &OsStr, mode: u32, _: u32, reply: ReplyEntry) {
        let _turn = self.kernel.turn();
        self.entry(self.tree.mkdir(parent.0, name.as_bytes(), mode & 0o7777, owner(request)), reply);
    }

    fn unlink(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        let _turn = self.kernel.turn();
        done(self.tree.unlink(parent.0, name.as_bytes()), reply);
    }

    fn rmdir(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        let _turn = self.kernel.turn();
        done(self.tree.rmdir(parent.0, name.as_bytes()), reply);
    }

    fn symlink(&self, request: &Request, parent: INodeNo, name: &OsStr, target: &Path, reply: ReplyEntry) {
        let target = target.as_os_str().as_bytes();
        self.entry(self.tree.symlink(parent.0, name.as_bytes(), target, owner(request)), reply);
    }

    fn rename(
        &self,
        _: &Request,
        parent: INodeNo,
        name: &OsStr,
        to: INodeNo,
        new_name: &OsStr,
        flags: RenameFlags,
        reply: ReplyEmpty,
    ) {
        let _turn = self.kernel.turn();
        let mode = match flags {
            _ if flags.is_empty() => RenameMode::Replace,
            RenameFlags::RENAME_NOREPLACE => RenameMode::NoReplace,
            RenameFlags::RENAME_EXCHANGE => RenameMode::Exchange,
            _ => return reply.error(Errno::EINVAL),
        };
        let renamed = self.tree.rename(parent.0, name.as_bytes(), to.0, new_name.as_bytes(), mode);
        if renamed.is_ok()
            && let Ok(attr) = self.tree.lookup(to.0, new_name.as_bytes())
        {
            self.changed(attr.number);
            self.tree.forget(attr.number, 1);
        }
        done(renamed, reply);
    }

    fn link(&self, _: &Request, number: INodeNo, parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        let linked = self.tree.link(number.0, parent.0, name.as_bytes());
        self.changed(number.0);
        self.entry(linked, reply);
    }

    fn open(&self, request: &Request, number: INodeNo, flags: OpenFlags, reply: ReplyOpen) {
        let _turn = self.kernel.turn();
        let writes = flags.acc_mode() != OpenAccMode::O_RDONLY;
        let truncates = writes && flags.0 & OFlags::TRUNC.bits() as i32 != 0;
        let open = || {
            let to_write = writes && !self.read_only;
            let backing = if to_write { self.backing_to_write(number.0)? } else { self.backing(number.0)? };
            if truncates {
                self.take_set_ids_of_users(request, number)?;
                backing.set_len(0)?;
            }
            Ok(backing)
        };
        match open() {
            // Nobody else changes the volume, so the kernel's cache stays valid.
            Ok(backing) => reply.opened(self.open_handle(backing, writes), FopenFlags::FOPEN_KEEP_CACHE),
            Err(error) => reply.error(errno(&error)),
        }
    }

    fn create(&self, request: &Request, parent: INodeNo, name: &OsStr, mode: u32, _: u32, _: i32, reply: ReplyCreate) {
        let _turn = self.kernel.turn();
        let make = |file| self.store.create(file);
        match self.tree.create(parent.0, name.as_bytes(), mode & 0o7777, owner(request), make) {
            Ok((attr, backing)) => {
                let handle = self.open_handle(backing, true);
                reply.created(&TTL, &file_attr(&attr), Generation(0), handle, FopenFlags::FOPEN_KEEP_CACHE);
            }
            Err(error) => reply.error(errno(&error)),
        }
    }

    fn read(
        &self,
        _: &Request,
        _: INodeNo,
        handle: FileHandle,
        offset: u64,
        size: u32,
        _: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyData,
    ) {
        let Some(open) = self.files.get(handle.0) else { return reply.error(Errno::EBADF) };
        let backing = &open.backing;
        BUFFER.with_borrow_mut(|buffer| {
            if buffer.len() < size as usize {
                *buffer = Zeroizing::new(vec![0; (size as usize).next_power_of_two()]);
            }
            match backing.read_into(offset, &mut buffer[..size as usize]) {
                Ok(len) => reply.data(&buffer[..len]),
                Err(error) => reply.error(errno(&error)),
            }
        });
    }

    fn write(
        &self,
        request: &Request,
        number: INodeNo,
        handle: FileHandle,
        offset: u64,
        data: &[u8],
        flags: WriteFlags,
        _: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyWrite,
    ) {
        let Some(open) = self.files.get(handle.0) else { return reply.error(Errno::EBADF) };
        let backing = &open.backing;
        let takes_ids = flags.contains(WriteFlags::FUSE_WRITE_KILL_SUIDGID);
        let taken = if takes_ids { self.take_set_ids(request, number) } else { Ok(()) };
        match taken.and_then(|()| backing.write_at(offset, data)) {
            Ok(()) => {
                // For changes in its cache, the kernel sets the time itself.
                if !flags.contains(WriteFlags::FUSE_WRITE_CACHE) {
                    backing.touch();
                }
                reply.written(data.len() as u32);
            }
            Err(error) => reply.error(errno(&error)),
        }
    }

    fn flush(&self, _: &Request, _: INodeNo, handle: FileHandle, _: LockOwner, reply: ReplyEmpty) {
        let _turn = self.kernel.turn();
        let Some(open) = self.files.get(handle.0) else { return reply.error(Errno::EBADF) };
        let backing = &open.backing;
        if open.writes && !self.read_only {
            return done(backing.commit(&open.witness), reply);
        }
        // A reader gets no error for the changes of others.
        backing.commit_quietly();
        reply.ok();
    }

    fn release(
        &self,
        _: &Request,
        _: INodeNo,
        handle: FileHandle,
        _: OpenFlags,
        _: Option<LockOwner>,
        _: bool,
        reply: ReplyEmpty,
    ) {
        let _turn = self.kernel.turn();
        // Commits what was written through a mapping after the last close. The next user who opens the file gets the
        // error.
        if let Some(open) = self.files.remove(handle.0).filter(|_| !self.read_only) {
            open.backing.commit_quietly();
        }
        reply.ok();
    }

    fn fsync(&self, _: &Request, number: INodeNo, handle: FileHandle, data_only: bool, reply: ReplyEmpty) {
        let Some(open) = self.files.get(handle.0) else { return reply.error(Errno::EBADF) };
        let backing = &open.backing;
        if self.read_only {
            return reply.ok();
        }
        done(backing.sync(&open.witness, data_only).and_then(|()| self.tree.sync_place(number.0)), reply);
    }

    fn opendir(&self, _: &Request, number: INodeNo, _: OpenFlags, reply: ReplyOpen) {
        let _turn = self.kernel.turn();
        match self.tree.check_folder(number.0) {
            Ok(()) => reply.opened(FileHandle(self.folders.add(Arc::default())), FopenFlags::empty()),
            Err(error) => reply.error(errno(&error)),
        }
    }

    fn readdir(&self, _: &Request, number: INodeNo, handle: FileHandle, offset: u64, mut reply: ReplyDirectory) {
        let _turn = self.kernel.turn();
        let listing = match self.listing(number.0, handle, offset) {
            Ok(listing) => listing,
            Err(error) => return reply.error(errno(&error)),
        };
        for at in offset as usize..listing.len() + DOTS.len() {
            let is_full = match DOTS.get(at) {
                // The kernel finds the folder above by itself.
                Some(dots) => reply.add(number, at as u64 + 1, FileType::Directory, dots),
                // A name that does not decrypt has been reported.
                None => self.tree.entry(&listing, at - DOTS.len()).is_some_and(|entry| {
                    let name = OsStr::from_bytes(&entry.name);
                    reply.add(INodeNo(entry.number), at as u64 + 1, file_type(entry.kind), name)
                }),
            };
            if is_full {
                break;
            }
        }
        reply.ok();
    }

    fn readdirplus(
        &self,
        _: &Request,
        number: INodeNo,
        handle: FileHandle,
        offset: u64,
        mut reply: ReplyDirectoryPlus,
    ) {
        let _turn = self.kernel.turn();
        let listing = match self.listing(number.0, handle, offset) {
            Ok(listing) => listing,
            Err(error) => return reply.error(errno(&error)),
        };
        for at in offset as usize..listing.len() + DOTS.len() {
            let next = at as u64 + 1;
            let is_full = match DOTS.get(at) {
                Some(dots) => match self.tree.getattr(number.0) {
                    Ok(attr) => reply.add(number, next, dots, &TTL, &file_attr(&attr), Generation(0)),
                    Err(error) => return reply.error(errno(&error)),
                },
                None => {
                    let index = at - DOTS.len();
                    let Some(entry) = self.tree.entry(&listing, index) else { continue };
                    let Ok(attr) = self.tree.lookup_entry(&listing, index) else { continue };
                    let name = OsStr::from_bytes(&entry.name);
                    let attr = self.now(attr);
                    let is_full = reply.add(INodeNo(attr.number), next, name, &TTL, &file_attr(&attr), Generation(0));
                    if is_full {
                        self.tree.forget(attr.number, 1);
                    }
                    is_full
                }
            };
            if is_full {
                break;
            }
        }
        reply.ok();
    }

    fn releasedir(&self, _: &Request, _: INodeNo, handle: FileHandle, _: OpenFlags, reply: ReplyEmpty) {
        let _turn = self.kernel.turn();
        self.folders.remove(handle.0);
        reply.ok();
    }

    fn fsyncdir(&self, _: &Request, number: INodeNo, _: FileHandle, _: bool, reply: ReplyEmpty) {
        done(if self.read_only { Ok(()) } else { self.tree.sync_folder(number.0) }, reply);
    }

    fn statfs(&self, _: &Request, _: INodeNo, reply: ReplyStatfs) {
        match self.tree.statfs() {
            Ok(stat) => reply.statfs(
                stat.f_blocks,
                stat.f_bfree,
                stat.f_bavail,
                stat.f_files,
                stat.f_ffree,
                stat.f_bsize as u32,
                stat.f_namemax as u32,
                stat.f_frsize as u32,
            ),
            Err(error) => reply.error(errno(&error)),
        }
    }

    fn setxattr(
        &self,
        _: &Request,
        number: INodeNo,
        name: &OsStr,
        value: &[u8],
        flags: i32,
        _: u32,
        reply: ReplyEmpty,
    ) {
        let mode = match flags {
            0 => SetMode::Any,
            1 => SetMode::Create,
            2 => SetMode::Replace,
            _ => return reply.error(Errno::EINVAL),
        };
        let set = self.tree.set_xattr(number.0, name.as_bytes(), value, mode, || self.id(number.0));
        self.changed(number.0);
        done(set, reply);
    }

    fn getxattr(&self, _: &Request, number: INodeNo, name: &OsStr, size: u32, reply: ReplyXattr) {
        let _turn = self.kernel.turn();
        match self.tree.get_xattr(number.0, name.as_bytes(), || self.id(number.0)) {
            Ok(value) => sized(&value, size, reply),
            Err(error) => reply.error(errno(&error)),
        }
    }

    fn listxattr(&self, _: &Request, number: INodeNo, size: u32, reply: ReplyXattr) {
        match self.tree.list_xattrs(number.0, || self.id(number.0)) {
            Ok(names) => {
                let list: Vec<u8> = names.iter().flat_map(|name| name.iter().copied().chain([0])).collect();
                sized(&list, size, reply);
            }
            Err(error) => reply.error(errno(&error)),
        }
    }

    fn removexattr(&self, _: &Request, number: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        let removed = self.tree.remove_xattr(number.0, name.as_bytes(), || self.id(number.0));
        self.changed(number.0);
        done(removed, reply);
    }

    /// The kernel checks permissions by itself.
    fn access(&self, _: &Request, _: INodeNo, _: AccessFlags, reply: ReplyEmpty) {
        reply.error(Errno::ENOSYS);
    }

    /// Holes are punched. Space is not reserved: `posix_fallocate` then writes zeros.
    fn fallocate(
        &self,
        request: &Request,
        number: INodeNo,
        handle: FileHandle,
        offset: u64,
        len: u64,
        mode: i32,
        reply: ReplyEmpty,
    ) {
        let Some(open) = self.files.get(handle.0) else { return reply.error(Errno::EBADF) };
        let backing = &open.backing;
        let mode = FallocateFlags::from_bits_retain(mode as u32);
        let end = offset.saturating_add(len);
        if self.read_only {
            return reply.error(Errno::EROFS);
        }
        if let Err(error) = self.take_set_ids_of_users(request, number) {
            return reply.error(errno(&error));
        }
        let punched = match mode {
            mode if mode == FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE => backing.punch(offset..end),
            mode if mode == FallocateFlags::ZERO_RANGE | FallocateFlags::KEEP_SIZE => backing.punch(offset..end),
            FallocateFlags::ZERO_RANGE => backing
                .punch(offset..end)
                .and_then(|()| if backing.len() < end { backing.set_len(end) } else { Ok(()) }),
            _ => return reply.error(Errno::EOPNOTSUPP),
        };
        done(punched, reply);
    }

    fn lseek(&self, _: &Request, _: INodeNo, handle: FileHandle, offset: i64, whence: i32, reply: ReplyLseek) {
        const DATA: i32 = 3;
        const HOLE: i32 = 4;
        if !self.read_only {
            // The kernel sends this before it has passed on what was written to its cache. The answer would leave that
            // out, and so would programs that copy files. Without an answer, the kernel treats the whole file as data.
            return reply.error(Errno::ENOSYS);
        }
        let Some(open) = self.files.get(handle.0) else { return reply.error(Errno::EBADF) };
        let backing = &open.backing;
        let Ok(offset) = u64::try_from(offset) else { return reply.error(Errno::ENXIO) };
        let found = match whence {
            DATA => backing.seek_data(offset),
            HOLE => backing.seek_hole(offset),
            _ => return reply.error(Errno::EINVAL),
        };
        match found {
            Ok(offset) => reply.offset(offset as i64),
            Err(error) => reply.error(errno(&error)),
        }
    }
}
