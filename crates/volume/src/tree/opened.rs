//! Opening folders, each through the one above, and keeping them open.

use crate::error::Result;
use crate::tree::base::Tree;
use crate::tree::node::ROOT;
use crate::tree::stored::open_folder;
use phalanx_host::lock::lock;
use rustix::fd::OwnedFd;
use rustix::fs::fstat;
use std::sync::Arc;

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
            // This goes from the top down, so that the folders above are open when one is opened.
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
