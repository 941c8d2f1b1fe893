//! The requests of the kernel.

use super::super::{GENERATION, TTL};
use super::{ObjectView, ino_of};
use crate::mount::tune;
use fuser::{
    FileHandle, FileType, Filesystem, FopenFlags, INodeNo, KernelConfig, LockOwner, OpenAccMode, OpenFlags, ReplyAttr,
    ReplyData, ReplyDirectory, ReplyEmpty, ReplyEntry, ReplyOpen, ReplyStatfs, Request,
};
use phalanx_core::KeySource;
use phalanx_host::lock::lock;
use rustix::io::Errno;
use std::ffi::OsStr;
use std::io;

impl<K: KeySource + Send + Sync + 'static> ObjectView<K> {
    fn list(&self, ino: u64, offset: u64, reply: &mut ReplyDirectory) -> io::Result<()> {
        let folder = self.node(ino)?;
        let entries = self.listed.children(folder);
        let from = usize::try_from(offset).unwrap_or(usize::MAX);
        for (place, name) in [".", ".."].into_iter().enumerate().skip(from) {
            if reply.add(INodeNo(ino), place as u64 + 1, FileType::Directory, name) {
                return Ok(());
            }
        }
        let from = from.saturating_sub(2).min(entries.len());
        for (place, id) in (from..).zip(&entries[from..]) {
            if reply.add(INodeNo(ino_of(*id)), place as u64 + 3, self.kind(*id), self.listing().name(*id)) {
                break;
            }
        }
        Ok(())
    }

    fn target(&self, ino: u64) -> io::Result<&OsStr> {
        self.listing().target(self.node(ino)?).ok_or(Errno::INVAL.into())
    }
}

impl<K: KeySource + Send + Sync + 'static> Filesystem for ObjectView<K> {
    fn init(&mut self, _: &Request, config: &mut KernelConfig) -> io::Result<()> {
        tune(config, false);
        Ok(())
    }

    fn destroy(&mut self) {
        lock(&self.handles).clear();
        self.files.clear();
    }

    fn lookup(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        let found = self.node(parent.0).and_then(|folder| self.listed.child(folder, name).ok_or(Errno::NOENT.into()));
        match found.and_then(|id| self.attributes(id)) {
            Ok(attr) => reply.entry(&TTL, &attr, GENERATION),
            Err(e) => reply.error(fuser::Errno::from(e)),
        }
    }

    fn getattr(&self, _: &Request, ino: INodeNo, _: Option<FileHandle>, reply: ReplyAttr) {
        match self.node(ino.0).and_then(|id| self.attributes(id)) {
            Ok(attr) => reply.attr(&TTL, &attr),
            Err(e) => reply.error(fuser::Errno::from(e)),
        }
    }

    fn readlink(&self, _: &Request, ino: INodeNo, reply: ReplyData) {
        let _turn = self.kernel.turn();
        match self.target(ino.0) {
            Ok(target) => reply.data(target.as_encoded_bytes()),
            Err(e) => reply.error(fuser::Errno::from(e)),
        }
    }

    fn open(&self, _: &Request, ino: INodeNo, flags: OpenFlags, reply: ReplyOpen) {
        if flags.acc_mode() != OpenAccMode::O_RDONLY {
            return reply.error(fuser::Errno::EROFS);
        }
        match self.node(ino.0).and_then(|id| self.open_handle(id)) {
            Ok((handle, is_same)) => {
                let flags = if is_same { FopenFlags::FOPEN_KEEP_CACHE } else { FopenFlags::empty() };
                reply.opened(FileHandle(handle), flags);
            }
            Err(e) => reply.error(fuser::Errno::from(e)),
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
        match self.read_at(handle.0, offset, size) {
            Ok(bytes) => reply.data(&bytes),
            Err(e) => reply.error(fuser::Errno::from(e)),
        }
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
        // Closing may wait for requests that are under way, and nobody needs to wait for that.
        reply.ok();
        self.close_handle(handle.0);
    }

    fn opendir(&self, _: &Request, _: INodeNo, _: OpenFlags, reply: ReplyOpen) {
        let _turn = self.kernel.turn();
        // What a folder has does not change.
        reply.opened(FileHandle(0), FopenFlags::FOPEN_CACHE_DIR | FopenFlags::FOPEN_KEEP_CACHE);
    }

    fn readdir(&self, _: &Request, ino: INodeNo, _: FileHandle, offset: u64, mut reply: ReplyDirectory) {
        let _turn = self.kernel.turn();
        match self.list(ino.0, offset, &mut reply) {
            Ok(()) => reply.ok(),
            Err(e) => reply.error(fuser::Errno::from(e)),
        }
    }

    fn statfs(&self, _: &Request, _: INodeNo, reply: ReplyStatfs) {
        // A store does not say how much room it has.
        reply.statfs(0, 0, 0, 0, 0, 4096, 255, 4096);
    }
}
