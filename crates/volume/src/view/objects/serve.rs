//! The requests of the kernel.

use super::super::{answer, only_reads};
use super::ObjectView;
use crate::fuse::{Answer, Caching, Entries, Filesystem, Opened, Space};
use crate::tree::{Attr, Kind};
use phalanx_core::KeySource;
use phalanx_host::lock::lock;
use rustix::io::Errno;
use std::ffi::OsStr;
use std::io;
use std::os::unix::ffi::OsStrExt;

impl<K: KeySource + Send + Sync + 'static> ObjectView<K> {
    fn list(&self, ino: u64, offset: u64, entries: &mut Entries<'_>) -> io::Result<()> {
        let children = self.listed.children(self.node(ino)?);
        let from = usize::try_from(offset).unwrap_or(usize::MAX);
        for (place, name) in [&b"."[..], b".."].into_iter().enumerate().skip(from) {
            if entries.add(ino, place as u64 + 1, Kind::Folder, name) {
                return Ok(());
            }
        }
        let from = from.saturating_sub(2).min(children.len());
        for (place, id) in (from..).zip(&children[from..]) {
            let name = self.listing().name(*id);
            if entries.add(self.ino_of(*id), place as u64 + 3, self.kind(*id), name.as_bytes()) {
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
    fn caching(&self) -> Caching {
        Caching::default()
    }

    fn destroy(&self) {
        lock(&self.handles).clear();
        self.files.clear();
    }

    fn lookup(&self, parent: u64, name: &[u8]) -> Answer<Attr> {
        let child = |folder| self.listed.child(folder, OsStr::from_bytes(name)).ok_or(Errno::NOENT.into());
        answer(self.node(parent).and_then(child).and_then(|id| self.attributes(id)))
    }

    fn getattr(&self, number: u64) -> Answer<Attr> {
        answer(self.node(number).and_then(|id| self.attributes(id)))
    }

    fn readlink(&self, number: u64) -> Answer<Vec<u8>> {
        answer(self.target(number).map(|target| target.as_bytes().to_vec()))
    }

    fn open(&self, number: u64, flags: i32) -> Answer<Opened> {
        if !only_reads(flags) {
            return Err(Errno::ROFS);
        }
        let opened = self.node(number).and_then(|id| self.open_handle(id));
        answer(opened).map(|(handle, keeps)| Opened { handle, keeps })
    }

    fn read(&self, handle: u64, offset: u64, out: &mut [u8]) -> Answer<usize> {
        answer(self.read_at(handle, offset, out))
    }

    /// Closing may wait for requests that are under way.
    fn release(&self, handle: u64) {
        self.close_handle(handle);
    }

    fn opendir(&self, _: u64) -> Answer<Opened> {
        // What a folder has does not change.
        Ok(Opened { handle: 0, keeps: true })
    }

    fn readdir(&self, number: u64, _: u64, offset: u64, entries: &mut Entries<'_>) -> Answer<()> {
        answer(self.list(number, offset, entries))
    }

    fn statfs(&self) -> Answer<Space> {
        // A store does not say how much room it has.
        Ok(Space { block: 4096, longest_name: 255, fragment: 4096, ..Space::default() })
    }
}
