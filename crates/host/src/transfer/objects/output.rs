//! The folders that objects are restored to. Each is opened in the one above it, and links are never followed.

use super::Job;
use crate::failure::{Failure, Outcome};
use crate::file::{Carry, sync_folder, umask};
use crate::folders::{self, id, open_parent};
use crate::mirror::chain::Chain;
use crate::mirror::listing::NodeId;
use crate::strays;
use crate::transfer::action::{Action, Transfer};
use crate::transfer::listed::Metadata;
use crate::{Error, Result};
use phalanx_system::os::ffi::OsStrExt;
use std::collections::HashSet;
use std::ffi::{CString, OsStr};
use std::fs::File;
use std::io;
use std::path::Path;
use std::sync::Arc;

/// A folder that is written to.
#[derive(Clone, Copy)]
struct Folder {
    node: NodeId,
    /// Its device and inode.
    inode: (u64, u64),
    /// Whether this run has made it.
    is_new: bool,
}

/// The folders from the root of the output to the current one, and all that have been made.
pub(super) struct Folders<'a, A> {
    transfer: &'a Transfer<A>,
    job: &'a Job<'a>,
    chain: Chain,
    /// The current folder.
    current: Arc<File>,
    open: Vec<Folder>,
    /// All of them, each after the one that it is in.
    made: Vec<Folder>,
}

impl<'a, A: Action> Folders<'a, A> {
    /// Makes the root, or takes the one that is there.
    pub(super) fn begin(transfer: &'a Transfer<A>, job: &'a Job<'a>, path: &Path) -> Outcome<Self> {
        let at = |e| Failure::at(path, e);
        let (parent, name) = open_parent(path).map_err(|e| at(Error::write(e)))?;
        let (file, folder) = make(transfer, &parent, &name, job.root).map_err(at)?;
        let current = Arc::new(file.try_clone().map_err(|e| at(Error::write(e)))?);
        let chain = Chain::new(file).map_err(at)?;
        let folders = Self { transfer, job, chain, current, open: vec![folder], made: vec![folder] };
        folders.count_strays(folder);
        Ok(folders)
    }

    /// The current folder.
    pub(super) fn current(&self) -> Arc<File> {
        self.current.clone()
    }

    /// Goes back to a folder above. Returns whether it was entered; if not, nothing is left.
    pub(super) fn go_to(&mut self, node: NodeId) -> Result<bool> {
        // The nodes of folders within each other ascend.
        if self.open.binary_search_by_key(&node, |folder| folder.node).is_err() {
            return Ok(false);
        }
        while self.open.last().is_some_and(|folder| folder.node != node) {
            self.leave()?;
        }
        Ok(true)
    }

    fn leave(&mut self) -> Result<()> {
        self.chain.leave()?;
        self.open.pop();
        self.current = Arc::new(self.chain.current().try_clone().map_err(Error::write)?);
        Ok(())
    }

    /// Makes a folder in the current one, and enters it.
    pub(super) fn enter(&mut self, node: NodeId) -> Result<()> {
        let (file, folder) = make(self.transfer, &self.current, self.job.listing.name(node), node)?;
        let current = Arc::new(file.try_clone().map_err(Error::write)?);
        self.chain.push(file).map_err(Error::write)?;
        self.current = current;
        self.open.push(folder);
        self.made.push(folder);
        self.count_strays(folder);
        Ok(())
    }

    /// Makes a link in the current folder.
    pub(super) fn link(&self, node: NodeId) -> Result<()> {
        let target = self.job.listing.target(node).unwrap_or_default();
        let target = CString::new(target.as_bytes()).map_err(|e| Error::write(io::Error::other(e)))?;
        let force = self.transfer.destination.force;
        self.transfer.made.symlink(&target, &self.current, self.job.listing.name(node), force).map(drop)
    }

    /// Counts what lies in an existing folder and is nowhere in the store. A manifest lists a part, and then it is not counted.
    fn count_strays(&self, folder: Folder) {
        if folder.is_new || self.job.is_listed {
            return;
        }
        let listing = self.job.listing;
        let names: HashSet<&OsStr> = listing.children(folder.node).map(|id| listing.name(id)).collect();
        let path = self.job.output_path(folder.node);
        strays::find(&self.current, |name| names.contains(name), |name| self.job.tally.stray(path.join(name)));
    }

    /// Gives all folders their permissions and times, each after all that is in it. Nothing is written to them any more.
    pub(super) fn finish(mut self) {
        if let Err(e) = self.go_to(self.job.root) {
            return self.fail(self.job.root, e);
        }
        for folder in std::mem::take(&mut self.made).into_iter().skip(1) {
            let parent = self.job.listing.parent(folder.node);
            if self.open.binary_search_by_key(&parent, |folder| folder.node).is_err() {
                continue;
            }
            while self.open.last().is_some_and(|folder| folder.node != parent) {
                if let Err(e) = self.close() {
                    return self.fail(folder.node, e);
                }
            }
            match self.open_again(folder) {
                Ok(()) => self.open.push(folder),
                Err(e) => self.fail(folder.node, e),
            }
        }
        while !self.open.is_empty() {
            if let Err(e) = self.close() {
                return self.fail(self.job.root, e);
            }
        }
    }

    fn open_again(&mut self, folder: Folder) -> Result<()> {
        let name = self.job.listing.name(folder.node);
        self.chain.enter(name).map_err(Error::write)?;
        if id(self.chain.current()).map_err(Error::write)? != folder.inode {
            self.chain.leave()?;
            return Err(Error::write(io::Error::other("another folder has its name by now")));
        }
        Ok(())
    }

    /// Gives the current folder what it gets, and leaves it. An error means that it cannot be left.
    fn close(&mut self) -> Result<()> {
        let Some(folder) = self.open.pop() else { return Ok(()) };
        let current = self.chain.current();
        let given = self.metadata(folder).map_or(Ok(()), |metadata| metadata.give(current, true));
        let done = given.and_then(|()| match self.transfer.destination.sync {
            true => sync_folder(current).map_err(Error::write),
            false => Ok(()),
        });
        if let Err(e) = done {
            self.fail(folder.node, e);
        }
        if self.open.is_empty() { Ok(()) } else { self.chain.leave() }
    }

    /// What a folder gets: what the manifest lists, or the permissions of a new folder.
    fn metadata(&self, folder: Folder) -> Option<Metadata> {
        let new = || Metadata { mode: 0o777 & !umask(), modified: None };
        self.job.metadata(folder.node, self.transfer.destination.carry).or_else(|| folder.is_new.then(new))
    }

    fn fail(&self, node: NodeId, error: Error) {
        self.job.tally.fail(&Failure::at(&self.job.output_path(node), error));
    }
}

/// Makes a folder, or takes an existing one if outputs may be replaced. None is taken that this run has made.
fn make<A: Action>(transfer: &Transfer<A>, parent: &File, name: &OsStr, node: NodeId) -> Result<(File, Folder)> {
    let existing = transfer.destination.existing(&transfer.made);
    // There is no folder whose owner could be taken over.
    let carry = Carry::New { umask: 0 };
    let (file, is_new) = folders::make_or_open(parent, name, existing, parent, carry)?;
    let inode = id(&file).map_err(Error::write)?;
    transfer.made.is_alias(parent, name)?;
    if !transfer.made.insert(inode) {
        return Err(Error::OwnOutput);
    }
    Ok((file, Folder { node, inode, is_new }))
}
