//! The open folders: a bounded number of those used last. Also which descriptors may stay open, so that some are left.

use crate::error::Result;
use rustix::fd::{AsFd, AsRawFd, OwnedFd};
use rustix::io::Errno;
use rustix::process::{Resource, getrlimit};
use std::collections::HashMap;
use std::sync::Arc;

/// How many folders are kept open, where a process may open many files.
const MAX_OPEN: usize = 512;
/// How many descriptors are left for what needs some for a moment, such as a sync, where a process may open many files.
const MAX_SPARE: usize = 128;

/// Which descriptors may stay open. The system gives the lowest number that is free, so a high number shows that nearly
/// all are in use. Such a descriptor is not kept, so that files that are open can still be synced.
#[derive(Clone, Copy)]
pub(super) struct Limits {
    /// How many folders are kept open.
    folders: usize,
    /// From this number on, files that users open are refused.
    files: usize,
    /// From this number on, inodes without a name are not held any more.
    pins: usize,
}

impl Limits {
    /// The limits of this process.
    pub fn new() -> Self {
        let most = getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX);
        Self::of(usize::try_from(most).unwrap_or(usize::MAX))
    }

    /// The limits of a process that may open `most` files.
    fn of(most: usize) -> Self {
        let (folders, spare) = (MAX_OPEN.min(most / 4).max(4), MAX_SPARE.min(most / 8));
        let files = most.saturating_sub(folders + spare);
        Self { folders, files, pins: files + spare / 2 }
    }

    /// Refuses a file that a user opens, if too few descriptors would be left.
    pub fn check_file(&self, file: impl AsFd) -> Result<(), Errno> {
        check(file, self.files)
    }

    /// Refuses to hold an inode without a name, if too few descriptors would be left.
    pub fn check_pin(&self, pin: impl AsFd) -> Result<(), Errno> {
        check(pin, self.pins)
    }
}

fn check(fd: impl AsFd, end: usize) -> Result<(), Errno> {
    let is_low = usize::try_from(fd.as_fd().as_raw_fd()).is_ok_and(|number| number < end);
    if is_low { Ok(()) } else { Err(Errno::MFILE) }
}

/// Descriptors of folders by number, each with the time of its last use.
pub(super) struct Descriptors {
    open: HashMap<u64, (Arc<OwnedFd>, u64)>,
    clock: u64,
    most: usize,
}

impl Descriptors {
    pub fn new(limits: Limits) -> Self {
        Self { open: HashMap::new(), clock: 0, most: limits.folders }
    }

    pub fn get(&mut self, number: u64) -> Option<Arc<OwnedFd>> {
        self.clock += 1;
        let (fd, used) = self.open.get_mut(&number)?;
        *used = self.clock;
        Some(fd.clone())
    }

    /// Keeps a descriptor. Returns those to close once the lock is released.
    pub fn put(&mut self, number: u64, fd: Arc<OwnedFd>) -> Vec<Arc<OwnedFd>> {
        self.clock += 1;
        let mut closed: Vec<_> = self.open.insert(number, (fd, self.clock)).map(|(fd, _)| fd).into_iter().collect();
        if self.open.len() > self.most {
            // A quarter is closed at a time, so that this is rare.
            let mut times: Vec<_> = self.open.values().map(|(_, used)| *used).collect();
            times.sort_unstable();
            let oldest = times[self.most / 4];
            closed.extend(self.open.extract_if(|_, (_, used)| *used <= oldest).map(|(_, (fd, _))| fd));
        }
        closed
    }

    pub fn remove(&mut self, number: u64) -> Option<Arc<OwnedFd>> {
        self.open.remove(&number).map(|(fd, _)| fd)
    }
}
