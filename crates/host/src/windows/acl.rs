//! Access control lists of files of secrets: `private.rs` looks at all of them.

use std::fs::{File, Metadata};

/// Whether a list lets nobody access an opened file but root and this process's user, although its mode looks as if others might.
/// Here no mode does.
pub fn is_for_user_alone(_file: &File, _meta: &Metadata) -> bool {
    false
}
