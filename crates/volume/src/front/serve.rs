//! Serving each of the kernel's requests.

use crate::error::{Result, VolumeError};
use crate::front::Front;
use crate::front::convert::{answer, kind};
use crate::front::list::Item;
use crate::fuse::{Answer, Caching, Change, Entries, Filesystem, Opened, Space, WriteFlags};
use crate::tree::{Attr, Kind, Owner, RenameMode, SetAttr, SetMode};
use rustix::fs::{FallocateFlags, FileType, OFlags, RenameFlags};
use rustix::io::Errno;
use std::sync::{Arc, PoisonError};

impl Filesystem for Front {
    fn caching(&self) -> Caching {
        // One mount writes to a volume, or several only read it.
        Caching { writes: !self.read_only, is_exclusive: true, lists_attributes: true }
    }

    fn destroy(&self) {
        self.files.clear();
        let closed = self.store.close();
        *self.ended.lock().unwrap_or_else(PoisonError::into_inner) = Some(closed);
    }

    fn lookup(&self, parent: u64, name: &[u8]) -> Answer<Attr> {
        self.answer(self.tree.lookup(parent, name))
    }

    fn forget(&self, number: u64, times: u64) {
        self.tree.forget(number, times);
    }

    fn getattr(&self, number: u64) -> Answer<Attr> {
        self.answer(self.tree.getattr(number))
    }

    fn setattr(&self, by: Owner, number: u64, change: &Change) -> Answer<Attr> {
        let set = || {
            if self.read_only {
                return Err(VolumeError::Refused(Errno::ROFS));
            }
            if let Some(size) = change.size {
                if change.takes_set_ids {
                    self.take_set_ids(by, number)?;
                }
                self.set_size(number, size, change.handle)?;
            }
            let Change { mode, uid, gid, atime, mtime, .. } = *change;
            let change = SetAttr { mode, uid, gid, ..self.set_times(number, atime, mtime)? };
            let attr =
                if change.is_empty() { self.tree.getattr(number)? } else { self.tree.set_attr(number, &change)? };
            self.changed(number);
            Ok(attr)
        };
        self.answer(set())
    }

    fn readlink(&self, number: u64) -> Answer<Vec<u8>> {
        answer(self.tree.readlink(number))
    }

    fn mknod(&self, by: Owner, parent: u64, name: &[u8], mode: u32, device: u32) -> Answer<Attr> {
        let may = mode & 0o7777;
        self.answer(match kind(FileType::from_raw_mode(mode)) {
            Some(Kind::File) => self.make_file(by, parent, name, may).map(|(attr, _)| attr),
            Some(kind) => self.tree.mknod(parent, name, kind, may, device.into(), by),
            None => Err(VolumeError::Refused(Errno::INVAL)),
        })
    }

    fn mkdir(&self, by: Owner, parent: u64, name: &[u8], mode: u32) -> Answer<Attr> {
        self.answer(self.tree.mkdir(parent, name, mode & 0o7777, by))
    }

    fn unlink(&self, parent: u64, name: &[u8]) -> Answer<()> {
        answer(self.tree.unlink(parent, name))
    }

    fn rmdir(&self, parent: u64, name: &[u8]) -> Answer<()> {
        answer(self.tree.rmdir(parent, name))
    }

    fn symlink(&self, by: Owner, parent: u64, name: &[u8], target: &[u8]) -> Answer<Attr> {
        self.answer(self.tree.symlink(parent, name, target, by))
    }

    fn rename(&self, parent: u64, name: &[u8], to: u64, new_name: &[u8], flags: u32) -> Answer<()> {
        let mode = match RenameFlags::from_bits_retain(flags) {
            flags if flags.is_empty() => RenameMode::Replace,
            RenameFlags::NOREPLACE => RenameMode::NoReplace,
            RenameFlags::EXCHANGE => RenameMode::Exchange,
            _ => return Err(Errno::INVAL),
        };
        answer(self.tree.rename(parent, name, to, new_name, mode))?;
        if let Ok(attr) = self.tree.lookup(to, new_name) {
            self.changed(attr.number);
            self.tree.forget(attr.number, 1);
        }
        Ok(())
    }

    fn link(&self, number: u64, parent: u64, name: &[u8]) -> Answer<Attr> {
        let linked = self.tree.link(number, parent, name);
        self.changed(number);
        self.answer(linked)
    }

    fn open(&self, number: u64, flags: i32) -> Answer<Opened> {
        let writes = OFlags::from_bits_retain(flags.cast_unsigned()).intersects(OFlags::WRONLY | OFlags::RDWR);
        let opened = if writes && !self.read_only { self.backing_to_write(number) } else { self.backing(number) };
        // Nobody else changes the volume, so the kernel's cache stays valid.
        answer(opened).map(|backing| Opened { handle: self.open_handle(backing, writes), keeps: true })
    }

    fn create(&self, by: Owner, parent: u64, name: &[u8], mode: u32) -> Answer<(Attr, Opened)> {
        let (attr, backing) = answer(self.make_file(by, parent, name, mode))?;
        Ok((attr, Opened { handle: self.open_handle(backing, true), keeps: true }))
    }

    fn read(&self, handle: u64, offset: u64, out: &mut [u8]) -> Answer<usize> {
        answer(self.opened(handle)?.backing.read_into(offset, out))
    }

    fn write(&self, by: Owner, number: u64, handle: u64, offset: u64, data: &[u8], flags: WriteFlags) -> Answer<()> {
        let open = self.opened(handle)?;
        if flags.takes_set_ids() {
            answer(self.take_set_ids(by, number))?;
        }
        let written = open.backing.write_at(offset, data);
        if let (true, Err(e)) = (flags.is_cached(), &written) {
            open.backing.lost(e);
        }
        answer(written)?;
        // For changes in its cache, the kernel sets the time itself.
        if !flags.is_cached() {
            open.backing.touch();
        }
        Ok(())
    }

    fn flush(&self, handle: u64) -> Answer<()> {
        let open = self.opened(handle)?;
        if open.writes && !self.read_only {
            return answer(open.backing.commit(&open.witness));
        }
        // A reader gets no error for the changes of others.
        open.backing.commit_quietly();
        Ok(())
    }

    fn release(&self, handle: u64) {
        // Commits what was written through a mapping after the last close. The next user who opens the file gets the
        // error.
        if let Some(open) = self.files.remove(handle).filter(|_| !self.read_only) {
            open.backing.commit_quietly();
        }
    }

    fn fsync(&self, number: u64, handle: u64, data_only: bool) -> Answer<()> {
        let open = self.opened(handle)?;
        if self.read_only {
            return Ok(());
        }
        answer(open.backing.sync(&open.witness, data_only).and_then(|()| self.tree.sync_place(number)))
    }

    fn opendir(&self, number: u64) -> Answer<Opened> {
        answer(self.tree.check_folder(number))?;
        Ok(Opened { handle: self.folders.add(Arc::default()), keeps: true })
    }

    fn readdir(&self, number: u64, handle: u64, offset: u64, entries: &mut Entries<'_>) -> Answer<()> {
        let listing = answer(self.listing(number, handle, offset))?;
        self.list(&listing, offset, entries, |entries, item, next| {
            Ok(match item {
                // The kernel finds the folder above by itself.
                Item::Dots(dots) => entries.add(number, next, Kind::Folder, dots),
                Item::Entry(_, entry) => entries.add(entry.number, next, entry.kind, &entry.name),
            })
        })
    }

    fn readdirplus(&self, number: u64, handle: u64, offset: u64, entries: &mut Entries<'_>) -> Answer<()> {
        let listing = answer(self.listing(number, handle, offset))?;
        self.list(&listing, offset, entries, |entries, item, next| {
            let (index, entry) = match item {
                Item::Dots(dots) => return Ok(entries.add_known(&answer(self.tree.getattr(number))?, next, dots)),
                Item::Entry(index, entry) => (index, entry),
            };
            Ok(match answer(self.tree.lookup_entry(&listing, index)) {
                Ok(attr) => {
                    let is_full = entries.add_known(&self.now(attr), next, &entry.name);
                    if is_full {
                        self.tree.forget(attr.number, 1);
                    }
                    is_full
                }
                // Removed since the list was read.
                Err(Errno::NOENT) => false,
                // The name is there, and who looks it up gets the error.
                Err(_) => entries.add_unknown(entry.number, next, entry.kind, &entry.name),
            })
        })
    }

    fn releasedir(&self, handle: u64) {
        self.folders.remove(handle);
    }

    fn fsyncdir(&self, number: u64) -> Answer<()> {
        if self.read_only {
            return Ok(());
        }
        answer(self.store.sync_records().and_then(|()| self.tree.sync_folder(number)))
    }

    fn statfs(&self) -> Answer<Space> {
        let stat = answer(self.tree.statfs())?;
        Ok(Space {
            blocks: stat.f_blocks,
            free: stat.f_bfree,
            available: stat.f_bavail,
            files: stat.f_files,
            free_files: stat.f_ffree,
            block: stat.f_bsize as u32,
            longest_name: stat.f_namemax as u32,
            fragment: stat.f_frsize as u32,
        })
    }

    fn setxattr(&self, number: u64, name: &[u8], value: &[u8], flags: u32) -> Answer<()> {
        let mode = match flags {
            0 => SetMode::Any,
            1 => SetMode::Create,
            2 => SetMode::Replace,
            _ => return Err(Errno::INVAL),
        };
        let set = self.tree.set_xattr(number, name, value, mode, || self.id(number));
        self.changed(number);
        answer(set)
    }

    fn getxattr(&self, number: u64, name: &[u8]) -> Answer<Vec<u8>> {
        answer(self.tree.get_xattr(number, name, || self.id(number)))
    }

    fn listxattr(&self, number: u64) -> Answer<Vec<u8>> {
        let names = answer(self.tree.list_xattrs(number, || self.id(number)))?;
        Ok(names.iter().flat_map(|name| name.iter().copied().chain([0])).collect())
    }

    fn removexattr(&self, number: u64, name: &[u8]) -> Answer<()> {
        let removed = self.tree.remove_xattr(number, name, || self.id(number));
        self.changed(number);
        answer(removed)
    }

    /// Holes are punched. Space is not reserved: `posix_fallocate` then writes zeros.
    fn fallocate(&self, by: Owner, number: u64, handle: u64, offset: u64, len: u64, mode: u32) -> Answer<()> {
        const KEEP: FallocateFlags = FallocateFlags::KEEP_SIZE;
        let open = self.opened(handle)?;
        if self.read_only {
            return Err(Errno::ROFS);
        }
        answer(self.take_set_ids_of_users(by, number))?;
        let (backing, end) = (&open.backing, offset.saturating_add(len));
        let lengthened = || if backing.len() < end { backing.set_len(end) } else { Ok(()) };
        let punched: Result<()> = match FallocateFlags::from_bits_retain(mode) {
            mode if mode == FallocateFlags::PUNCH_HOLE | KEEP => backing.punch(offset..end),
            mode if mode == FallocateFlags::ZERO_RANGE | KEEP => backing.punch(offset..end),
            FallocateFlags::ZERO_RANGE => backing.punch(offset..end).and_then(|()| lengthened()),
            _ => return Err(Errno::OPNOTSUPP),
        };
        answer(punched)
    }

    fn lseek(&self, handle: u64, offset: i64, whence: u32) -> Answer<u64> {
        const DATA: u32 = 3;
        const HOLE: u32 = 4;
        if !self.read_only {
            // The kernel sends this before it has passed on what was written to its cache. The answer would leave that
            // out, and so would programs that copy files. Without an answer, the kernel treats the whole file as data.
            return Err(Errno::NOSYS);
        }
        let open = self.opened(handle)?;
        let offset = u64::try_from(offset).map_err(|_| Errno::NXIO)?;
        answer(match whence {
            DATA => open.backing.seek_data(offset),
            HOLE => open.backing.seek_hole(offset),
            _ => return Err(Errno::INVAL),
        })
    }
}
