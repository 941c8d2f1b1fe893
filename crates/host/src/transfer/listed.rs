//! What a manifest says of the metadata of files and folders that are restored.

use crate::file::{Carry, remove_acls, set_mode, tolerate, without_list};
use crate::mirror::listing::NodeId;
use crate::mirror::selection::Selection;
use crate::{Error, Result};
use phalanx_core::tree::Time;
use phalanx_system::fs::{self, Timespec, Timestamps, UTIME_OMIT};
use std::fs::File;

/// Gives a restored file or folder the time and the permissions that the manifest lists, which nobody else can have changed. It
/// gets no permission that its stored file or folder lacks.
pub(super) fn restore(
    selection: &dyn Selection,
    node: NodeId,
    carry: Carry,
    stored: &File,
    restored: &File,
) -> Result<()> {
    restore_as(selection.metadata(node), carry, stored, restored)
}

/// Gives a restored file or folder the permissions and the time that the manifest lists, if they are known.
///
/// # Errors
/// If `stored` cannot be looked at, or `restored` cannot be changed.
pub fn restore_as(listed: Option<(u32, Time)>, carry: Carry, stored: &File, restored: &File) -> Result<()> {
    let (Carry::New { umask }, Some((mode, modified))) = (carry, listed) else { return Ok(()) };
    let stat = fs::fstat(stored).map_err(Error::read)?;
    set_mode(restored, mode & without_list(stored, stat.st_mode)? & 0o777 & !umask)?;
    set_time(restored, modified)
}

/// What a file or folder gets that is restored from an object, which has no metadata of its own.
#[derive(Clone, Copy)]
pub(super) struct Metadata {
    /// The permissions.
    pub mode: u32,
    /// When it was modified, if that is known.
    pub modified: Option<Time>,
}

impl Metadata {
    /// Gives it to a file or folder.
    ///
    /// # Errors
    /// If that cannot be changed.
    pub(super) fn give(self, restored: &File, is_folder: bool) -> Result<()> {
        remove_acls(restored, is_folder, &[]);
        set_mode(restored, self.mode & 0o777)?;
        self.modified.map_or(Ok(()), |modified| set_time(restored, modified))
    }
}

fn set_time(restored: &File, modified: Time) -> Result<()> {
    let times = Timestamps {
        last_access: Timespec { tv_sec: 0, tv_nsec: UTIME_OMIT },
        last_modification: Timespec { tv_sec: modified.seconds, tv_nsec: modified.nanoseconds.into() },
    };
    tolerate(fs::futimens(restored, &times))
}
