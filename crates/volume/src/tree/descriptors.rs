//! The folders that are open: the ones used last, a bounded number.

use super::node::ROOT;
use super::{Tree, lock};
use crate::error::Result;
use crate::folder::SAFELY;
use rustix::fd::{AsFd, OwnedFd};
use rustix::fs::{Mode, OFlags, fstat, openat};
use rustix::io::Errno;
use std::collections::HashMap;
use std::sync::Arc;

/// How many folders are kept open.
const MAX_OPEN: usize = 512;

/// Descriptors of folders by number, each with the time of its last use.
#[derive(Default)]
pub(super) struct Descriptors {
    open: HashMap<u64, (Arc<OwnedFd>, u64)>,
    clock: u64,
}

impl Descriptors {
    fn get(&mut self, number: u64) -> Option<Arc<OwnedFd>> {
        self.clock += 1;
        let (fd, used) = self.open.get_mut(&number)?;
        *used = self.clock;
        Some(fd.clone())
    }

    /// Keeps one. Returns those that are to be closed now, once the lock is released.
    fn put(&mut self, number: u64, fd: Arc<OwnedFd>) -> Vec<Arc<OwnedFd>> {
        self.clock += 1;
        let mut closed: Vec<_> = self.open.insert(number, (fd, self.clock)).map(|(fd, _)| fd).into_iter().collect();
        if self.open.len() > MAX_OPEN {
            // A quarter at a time, so that this is rare.
            let mut times: Vec<_> = self.open.values().map(|(_, used)| *used).collect();
            times.sort_unstable();
            let oldest = times[MAX_OPEN / 4];
            closed.extend(self.open.extract_if(|_, (_, used)| *used <= oldest).map(|(_, (fd, _))| fd));
        }
        closed
    }

    pub fn remove(&mut self, number: u64) -> Option<Arc<OwnedFd>> {
        self.open.remove(&number).map(|(fd, _)| fd)
    }
}

impl Tree {
    /// A folder's descriptor. No lock of a folder may be held.
    pub(super) fn descriptor(&self, number: u64) -> Result<Arc<OwnedFd>> {
        if number == ROOT {
            return Ok(self.root.clone());
        }
        loop {
            if let Some(fd) = lock(&self.open).get(number) {
                return Ok(fd);
            }
            // From the top, so that those above are open when one is opened.
            let above: Vec<_> = self.nodes().ancestors(number).filter(|number| *number != ROOT).collect();
            let is_closed = |number: &&u64| lock(&self.open).get(**number).is_none();
            let closed: Vec<_> = above.iter().take_while(is_closed).collect();
            let mut fd = None;
            for number in closed.into_iter().rev() {
                fd = Some(self.open_folder(*number)?);
            }
            // If there was none to open, another thread has opened it meanwhile.
            if let Some(fd) = fd {
                return Ok(fd);
            }
        }
    }

    fn open_folder(&self, number: u64) -> Result<Arc<OwnedFd>> {
        let fd = self.at(number, |parent, place| {
            // A folder that has been removed can be used through its inode.
            let (from, name) = match &place.pin {
                Some(pin) => (&**pin, &b"."[..]),
                None => (parent, &*place.stored),
            };
            let fd = open_folder(from, name)?;
            self.is_its(place, &fstat(&fd)?)?;
            Ok(fd)
        })?;
        let fd = Arc::new(fd);
        self.keep_open(number, fd.clone());
        Ok(fd)
    }

    /// Keeps a folder's descriptor for the next use.
    pub(super) fn keep_open(&self, number: u64, fd: Arc<OwnedFd>) {
        let closed = lock(&self.open).put(number, fd);
        drop(closed);
    }
}

/// Opens a folder. One that may be passed but not be read is good for all but lists.
pub(super) fn open_folder(parent: impl AsFd, name: &[u8]) -> Result<OwnedFd, Errno> {
    let open = |how| openat(&parent, name, how | OFlags::DIRECTORY | SAFELY, Mode::empty());
    match open(OFlags::RDONLY) {
        Err(Errno::ACCESS) => open(OFlags::PATH),
        opened => opened,
    }
}
