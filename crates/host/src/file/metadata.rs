//! The metadata that a file takes over from another one.

use crate::file::acl;
use crate::{Error, Result};
use phalanx_system::fs::{self, Gid, Mode, Timestamps, Uid, XattrFlags};
use phalanx_system::io::Errno;
use phalanx_system::process::file_mask;
use std::fs::File;

/// How much metadata a file or folder takes over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Carry {
    /// Times, permissions (without set-user-ID and the like), extended attributes with ACLs, and owner and group if the
    /// process may set them. Permissions of a group that cannot be set are dropped. Attributes that the target does not
    /// take, and those of the `security` and `trusted` kinds, are left out.
    All,
    /// Times, and the permissions of a new file under this umask, without those that the other file lacks.
    New {
        /// The process's file mode creation mask.
        umask: u32,
    },
}

const STICKY: u32 = 0o1000;

impl Carry {
    /// Takes over a file's metadata.
    ///
    /// # Errors
    /// [`Error::Read`](phalanx_core::Error::Read) if `from` cannot be looked at,
    /// [`Error::Write`](phalanx_core::Error::Write) if permissions or times cannot be set. What the file system of `to`
    /// does not have is left out, and so are an owner or attributes that it refuses.
    pub fn file(self, from: &File, to: &File) -> Result<()> {
        self.run(from, to, None, false)
    }

    /// [`Carry::file`], if the owner of `to` is known: user and group.
    pub(crate) fn file_of(self, from: &File, to: &File, owner: (u32, u32)) -> Result<()> {
        self.run(from, to, Some(owner), false)
    }

    /// Takes over a folder's metadata.
    ///
    /// # Errors
    /// [`Error::Read`](phalanx_core::Error::Read) if `from` cannot be looked at,
    /// [`Error::Write`](phalanx_core::Error::Write) if permissions or times cannot be set. What the file system of `to`
    /// does not have is left out, and so are an owner or attributes that it refuses.
    pub fn folder(self, from: &File, to: &File) -> Result<()> {
        self.run(from, to, None, true)
    }

    /// Takes over metadata that does not come from a file of this system. It has no access control lists.
    ///
    /// # Errors
    /// [`Error::Write`](phalanx_core::Error::Write), as for [`Carry::file`].
    pub fn attributes(self, from: &Attributes, to: &File, is_folder: bool) -> Result<()> {
        self.set(from, from.mode, to, None, is_folder, || remove_acls(to, is_folder, &[]))
    }

    /// `owner` is that of `to`, if it is known.
    fn run(self, from: &File, to: &File, owner: Option<(u32, u32)>, is_folder: bool) -> Result<()> {
        let stat = fs::fstat(from).map_err(Error::read)?;
        let attributes = Attributes {
            mode: stat.st_mode,
            owner: stat.st_uid,
            group: stat.st_gid,
            accessed: (stat.st_atime, stat.st_atime_nsec as _),
            modified: (stat.st_mtime, stat.st_mtime_nsec as _),
        };
        let without_list = acl::without_list(from, stat.st_mode)?;
        self.set(&attributes, without_list, to, owner, is_folder, || copy_xattrs(from, to, is_folder))
    }

    /// `copy_xattrs` is called if everything is taken over. `without_list` are the permissions if the access control list is not.
    fn set(
        self,
        from: &Attributes,
        without_list: u32,
        to: &File,
        owner: Option<(u32, u32)>,
        is_folder: bool,
        copy_xattrs: impl FnOnce(),
    ) -> Result<()> {
        let mode = match self {
            Carry::All => {
                let allowed = copy_owner(from, to, owner);
                copy_xattrs();
                let mode = if without_list == from.mode || acl::has_list(to) { from.mode } else { without_list };
                // Without the sticky bit of a folder, others could delete what they may not delete in the original.
                mode & if is_folder { allowed | STICKY } else { allowed }
            }
            Carry::New { umask } => {
                remove_acls(to, is_folder, &[]);
                let new = if is_folder { 0o777 } else { 0o666 };
                without_list & new & !umask
            }
        };
        set_mode(to, mode)?;
        let time = |(seconds, nanos): (i64, u32)| fs::Timespec { tv_sec: seconds, tv_nsec: nanos as _ };
        let times = Timestamps { last_access: time(from.accessed), last_modification: time(from.modified) };
        tolerate(fs::futimens(to, &times))
    }
}

/// The process's file mode creation mask. If it cannot be read, nobody else gets permissions.
#[must_use]
pub fn umask() -> u32 {
    file_mask()
}

/// The metadata that is taken over from a file or folder, without its extended attributes.
#[derive(Clone, Copy, Debug)]
pub struct Attributes {
    /// The permissions. Other bits of the mode are ignored.
    pub mode: u32,
    /// The owner.
    pub owner: u32,
    /// The group.
    pub group: u32,
    /// The last access: seconds, and nanoseconds.
    pub accessed: (i64, u32),
    /// The last change of the content, in the same form.
    pub modified: (i64, u32),
}

/// Sets permissions if the file system has any.
pub(crate) fn set_mode(file: &File, mode: u32) -> Result<()> {
    tolerate(fs::fchmod(file, Mode::from_raw_mode(mode)))
}

/// Ignores the error of a file system without permissions or times. The file then keeps the narrower permissions that
/// it was made with.
pub(crate) fn tolerate(done: phalanx_system::io::Result<()>) -> Result<()> {
    match done {
        Err(Errno::PERM | Errno::NOSYS | Errno::NOTSUP) => Ok(()),
        done => done.map_err(Error::write),
    }
}

/// Sets the file's owner and group. Returns which permissions may then be taken over.
fn copy_owner(from: &Attributes, to: &File, own: Option<(u32, u32)>) -> u32 {
    const ALL: u32 = 0o777;
    const NOT_OF_GROUP: u32 = 0o707;
    let look = || fs::fstat(to).ok().map(|stat| (stat.st_uid, stat.st_gid));
    let Some(own) = own.or_else(look) else { return NOT_OF_GROUP };
    let group = Gid::from_raw(from.group);
    let as_was = own == (from.owner, from.group);
    let given = as_was
        || fs::fchown(to, Some(Uid::from_raw(from.owner)), Some(group)).is_ok()
        || own.1 == from.group
        || fs::fchown(to, None, Some(group)).is_ok();
    if given { ALL } else { NOT_OF_GROUP }
}

/// Access control lists: that of a file or folder, and the default list that a folder gives to new entries.
const ACLS: [&str; 2] = ["system.posix_acl_access", "system.posix_acl_default"];

/// Removes the lists that a file got from its folder, except those that it takes over. They would give access to users
/// whom the original keeps out. Only folders have a default list.
pub(crate) fn remove_acls(file: &File, is_folder: bool, except: &[u8]) {
    #[cfg(target_os = "macos")]
    let _ = fs::remove_access_list(file);
    let acls = if is_folder { &ACLS[..] } else { &ACLS[..1] };
    for acl in acls.iter().filter(|acl| !names(except).any(|name| name == acl.as_bytes())) {
        if fs::fgetxattr_query(file, *acl).is_ok() {
            let _ = fs::fremovexattr(file, *acl);
        }
    }
}

/// The second content that a file may have on macOS, which shows it as an attribute.
const RESOURCE_FORK: &[u8] = b"com.apple.ResourceFork";

/// Whether a file has a second content, which is neither protected nor copied. Only macOS has such files.
pub(crate) fn has_resource_fork(file: &File) -> bool {
    cfg!(target_os = "macos") && fs::fgetxattr_query(file, RESOURCE_FORK).is_ok_and(|len| len > 0)
}

/// Whether an attribute is copied. Those of some kinds say what programs may do, and one is content and not metadata.
fn is_copied(name: &[u8]) -> bool {
    !name.starts_with(b"security.") && !name.starts_with(b"trusted.") && name != RESOURCE_FORK
}

/// Copies all attributes that can be copied.
fn copy_xattrs(from: &File, to: &File, is_folder: bool) {
    let list = || {
        let mut list = vec![0; fs::flistxattr_query(from)?];
        if list.is_empty() {
            return Ok(list);
        }
        let len = fs::flistxattr(from, &mut list[..])?;
        list.truncate(len);
        Ok::<_, Errno>(list)
    };
    let list = list().unwrap_or_default();
    remove_acls(to, is_folder, &list);
    for name in names(&list).filter(|name| is_copied(name)) {
        let copy = || {
            let mut value = vec![0; fs::fgetxattr_query(from, name)?];
            let len = fs::fgetxattr(from, name, &mut value[..])?;
            fs::fsetxattr(to, name, &value[..len], XattrFlags::empty())
        };
        let _ = copy();
    }
}

/// The names in a list of extended attributes, in which each ends with a zero byte.
fn names(list: &[u8]) -> impl Iterator<Item = &[u8]> {
    list.split(|b| *b == 0).filter(|name| !name.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn content_and_rights_are_not_copied_as_attributes() {
        for name in ["com.apple.ResourceFork", "security.capability", "trusted.overlay.opaque"] {
            assert!(!is_copied(name.as_bytes()), "{name}");
        }
        for name in ["com.apple.FinderInfo", "user.com.apple.ResourceFork", "user.note", "system.posix_acl_access"] {
            assert!(is_copied(name.as_bytes()), "{name}");
        }
    }
}
