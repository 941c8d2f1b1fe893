//! Files and folders of secrets. They are refused if users other than their owner and root could read or change them.

use crate::Refused;
use phalanx_system::os::fs::MetadataExt;
use std::fs::{File, Metadata};
use std::path::Path;

/// Refuses an opened file of secrets that other users can access, or that does not belong to the user. The check is on
/// the opened file, so that nobody can exchange it. `path` is for the text.
///
/// # Errors
/// A refusal, which says what is wrong and how to fix it.
pub fn check_file(what: &str, _file: &File, meta: &Metadata, path: &Path) -> Result<(), Refused> {
    check_owner(what, meta)?;
    if meta.mode() & 0o077 != 0 {
        return Err(Refused::new(what, "it is open to other users").mended_by(format!("chmod 600 {}", path.display())));
    }
    Ok(())
}

/// Refuses an opened folder if other users could exchange its files.
pub fn check_folder(what: &str, _file: &File, meta: &Metadata, path: &Path) -> Result<(), Refused> {
    check_owner(what, meta)?;
    if meta.mode() & 0o022 != 0 {
        return Err(
            Refused::new(what, "other users may write to it").mended_by(format!("chmod 700 {}", path.display()))
        );
    }
    Ok(())
}

/// Refuses an opened file that other users could change. They may read it.
pub fn check_unwritable(what: &str, _file: &File, meta: &Metadata, path: &Path) -> Result<(), Refused> {
    check_owner(what, meta)?;
    if meta.mode() & 0o022 != 0 {
        return Err(
            Refused::new(what, "other users may write to it").mended_by(format!("chmod go-w {}", path.display()))
        );
    }
    Ok(())
}

fn check_owner(what: &str, meta: &Metadata) -> Result<(), Refused> {
    let (owner, user) = (meta.uid(), phalanx_system::process::geteuid().as_raw());
    if owner != user && owner != 0 {
        return Err(Refused::new(what, format!("it belongs to another user (uid {owner}, not {user})")));
    }
    Ok(())
}
