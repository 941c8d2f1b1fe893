//! What of a folder is compared, whatever the patterns say.

use std::ffi::{OsStr, OsString};

/// Which entries of a folder of the source are taken.
pub enum Taken {
    /// All of them.
    All,
    /// Only the one of this name, which marks the folder.
    Only(OsString),
    /// None of them: the folder is on another file system.
    Nothing,
}

impl Taken {
    /// Whether an entry of this name is left out, if there is or was one.
    pub fn leaves_out(&self, name: &OsStr) -> bool {
        match self {
            Taken::All => false,
            Taken::Only(tag) => tag != name,
            Taken::Nothing => true,
        }
    }
}
