//! Access control lists of files of secrets: `private.rs` looks at all of them.

use crate::Result;
use std::fs::{File, Metadata};

/// Whether a list lets nobody access an opened file but root and this process's user, although its mode looks as if others might.
/// Here no mode does.
pub fn is_for_user_alone(_file: &File, _meta: &Metadata) -> bool {
    false
}

/// The permissions that a file or folder has without its list: of none is there a list of this kind.
pub(crate) fn without_list(_file: &File, mode: u32) -> Result<u32> {
    Ok(mode)
}

/// Whether a file or folder has a list.
pub(crate) fn has_list(_file: &File) -> bool {
    false
}
