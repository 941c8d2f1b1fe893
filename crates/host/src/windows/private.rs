//! Files and folders of secrets. They are refused if users other than their owner, administrators and the system could read or change
//! them.

use crate::Refused;
use phalanx_system::files::{Access, access, user_as_text};
use std::fs::{File, Metadata};
use std::path::Path;

/// Refuses an opened file of secrets that other users can access, or that does not belong to the user. `path` is for the text.
///
/// # Errors
/// A refusal, which says what is wrong and how to fix it.
pub fn check_file(what: &str, file: &File, _meta: &Metadata, path: &Path) -> Result<(), Refused> {
    let access = own(what, file)?;
    if access.read || access.write {
        return Err(Refused::new(what, "it is open to other users").mended_by(only_for_user(path, "F")));
    }
    Ok(())
}

/// Refuses an opened folder if other users could exchange its files.
pub fn check_folder(what: &str, file: &File, _meta: &Metadata, path: &Path) -> Result<(), Refused> {
    if own(what, file)?.write {
        let command = only_for_user(path, "(OI)(CI)F");
        return Err(Refused::new(what, "other users may write to it").mended_by(command));
    }
    Ok(())
}

/// Refuses an opened file that other users could change. They may read it.
pub fn check_unwritable(what: &str, file: &File, _meta: &Metadata, path: &Path) -> Result<(), Refused> {
    if own(what, file)?.write {
        return Err(Refused::new(what, "other users may write to it").mended_by(only_for_user(path, "F")));
    }
    Ok(())
}

fn own(what: &str, file: &File) -> Result<Access, Refused> {
    match access(file) {
        Ok(access) if access.is_own => Ok(access),
        Ok(_) => Err(Refused::new(what, "it belongs to another user")),
        Err(e) => Err(Refused::new(what, format!("Windows does not say who may open it: {e}"))),
    }
}

/// The commands that let only the user open a file or folder, for both of Windows' shells. The first one takes away what others were
/// given; after it, the folder above decides, until the second one.
fn only_for_user(path: &Path, rights: &str) -> String {
    let user = user_as_text().map_or_else(|_| "%USERNAME%".into(), |user| format!("*{user}"));
    let path = path.display();
    format!("icacls \"{path}\" /reset, and then icacls \"{path}\" /inheritance:r /grant:r \"{user}:{rights}\"")
}
