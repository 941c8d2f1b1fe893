//! The extended attributes of regular files and folders whose names begin with `user.`.

use crate::error::{Result, VolumeError};
use crate::names::{ATTRIBUTE, MAX_VALUE};
use crate::tree::base::Tree;
use crate::tree::kind::Kind;
use crate::tree::stored::through_proc;
use rustix::fs::{XattrFlags, getxattr, listxattr, removexattr, setxattr};
use rustix::io::Errno;

/// The longest list of names that the system gives, in bytes, and the longest value.
const MAX_LEN: usize = 65536;

/// Whether setting an extended attribute may make it, replace it, or both.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SetMode {
    /// It is made or replaced.
    #[default]
    Any,
    /// It is made: `EEXIST` if it exists.
    Create,
    /// It is replaced: `ENODATA` if it does not exist.
    Replace,
}

impl Tree {
    /// The value of an extended attribute. `file` gives the id of the stored file if the node is a regular file.
    ///
    /// # Errors
    /// `ENODATA` if it does not exist, `EOPNOTSUPP` in a namespace that a volume does not have;
    /// [`VolumeError::Damaged`] if the value was not made for it.
    pub fn get_xattr(&self, number: u64, name: &[u8], file: impl FnOnce() -> Result<[u8; 16]>) -> Result<Vec<u8>> {
        // The kernel and `ls` ask for these all the time.
        if name.starts_with(b"security.") || name.starts_with(b"system.") {
            return Err(Errno::NODATA.into());
        }
        let name = user(name)?;
        if !self.has_xattrs(number)? {
            return Err(Errno::NODATA.into());
        }
        let handle = self.handle(number)?;
        let owner = self.owner(number, file)?;
        let stored = self.names.seal_attribute(&owner, name)?;
        let mut value = Vec::with_capacity(256);
        let path = through_proc(&handle);
        loop {
            match getxattr(&path, &*stored, rustix::buffer::spare_capacity(&mut value)) {
                Ok(_) => break,
                Err(Errno::RANGE) if value.capacity() < MAX_LEN => value.reserve_exact(MAX_LEN),
                Err(errno) => return Err(errno.into()),
            }
        }
        self.names.open_value(&owner, name, &value).ok_or_else(|| self.damaged_node(number, "an extended attribute"))
    }

    /// The names of all extended attributes, with `user.`. Those that were not made for this file or folder are left
    /// out, and reported.
    ///
    /// # Errors
    /// If they cannot be read.
    pub fn list_xattrs(&self, number: u64, file: impl FnOnce() -> Result<[u8; 16]>) -> Result<Vec<Vec<u8>>> {
        if !self.has_xattrs(number)? {
            return Ok(Vec::new());
        }
        let handle = self.handle(number)?;
        let mut list = Vec::with_capacity(1024);
        let path = through_proc(&handle);
        loop {
            match listxattr(&path, rustix::buffer::spare_capacity(&mut list)) {
                Ok(_) => break,
                Err(Errno::RANGE) if list.capacity() < MAX_LEN => list.reserve_exact(MAX_LEN),
                Err(Errno::OPNOTSUPP) => return Ok(Vec::new()),
                Err(errno) => return Err(errno.into()),
            }
        }
        let mut stored = list.split(|byte| *byte == 0).filter(|name| name.starts_with(ATTRIBUTE.as_bytes())).peekable();
        if stored.peek().is_none() {
            return Ok(Vec::new());
        }
        let owner = self.owner(number, file)?;
        let mut names = Vec::new();
        for stored in stored {
            match self.names.open_attribute(&owner, stored) {
                Some(name) => names.push([b"user.", &*name].concat()),
                None => drop(self.damaged_node(number, "the name of an extended attribute")),
            }
        }
        Ok(names)
    }

    /// Sets an extended attribute.
    ///
    /// # Errors
    /// As `setxattr` has them: `EEXIST` and `ENODATA` as the mode says, `EOPNOTSUPP` in a namespace that a volume does
    /// not have, `EPERM` for what is neither a file nor a folder, `E2BIG` for too long a value.
    pub fn set_xattr(
        &self,
        number: u64,
        name: &[u8],
        value: &[u8],
        mode: SetMode,
        file: impl FnOnce() -> Result<[u8; 16]>,
    ) -> Result<()> {
        self.check_writable()?;
        let name = user(name)?;
        if !self.has_xattrs(number)? {
            return Err(Errno::PERM.into());
        }
        if value.len() > MAX_VALUE {
            return Err(Errno::TOOBIG.into());
        }
        let handle = self.handle(number)?;
        let owner = self.owner(number, file)?;
        let stored = self.names.seal_attribute(&owner, name)?;
        let flags = match mode {
            SetMode::Any => XattrFlags::empty(),
            SetMode::Create => XattrFlags::CREATE,
            SetMode::Replace => XattrFlags::REPLACE,
        };
        Ok(setxattr(through_proc(&handle), &*stored, &self.names.seal_value(&owner, name, value), flags)?)
    }

    /// Removes an extended attribute.
    ///
    /// # Errors
    /// `ENODATA` if there is none, and as [`Tree::set_xattr`].
    pub fn remove_xattr(&self, number: u64, name: &[u8], file: impl FnOnce() -> Result<[u8; 16]>) -> Result<()> {
        self.check_writable()?;
        let name = user(name)?;
        if !self.has_xattrs(number)? {
            return Err(Errno::PERM.into());
        }
        let handle = self.handle(number)?;
        let owner = self.owner(number, file)?;
        Ok(removexattr(through_proc(&handle), &*self.names.seal_attribute(&owner, name)?)?)
    }

    /// The id that the attributes of a node are bound to.
    fn owner(&self, number: u64, file: impl FnOnce() -> Result<[u8; 16]>) -> Result<[u8; 16]> {
        let place = self.nodes().place(number)?;
        if place.kind == Kind::Folder { Ok(self.dir(number)?.id) } else { file() }
    }

    fn has_xattrs(&self, number: u64) -> Result<bool> {
        Ok(matches!(self.nodes().place(number)?.kind, Kind::File | Kind::Folder))
    }

    fn damaged_node(&self, number: u64, what: &str) -> VolumeError {
        let place = self.nodes().place(number);
        let what = format!("{what} that was not made for it");
        match place {
            Ok(place) => self.damaged(place.parent, &place.stored, &what),
            Err(error) => error,
        }
    }
}

/// The name without `user.`.
fn user(name: &[u8]) -> Result<&[u8], Errno> {
    name.strip_prefix(b"user.").ok_or(Errno::OPNOTSUPP)
}
