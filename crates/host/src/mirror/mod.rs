//! A mirror of a folder: its manifest, and what is done to renew, check and restore it.

pub mod backup;
pub mod chain;
pub mod check;
pub mod deletion;
mod entries;
pub mod entry;
pub mod excludes;
mod gone;
pub mod journal;
pub mod listing;
mod log;
pub mod manifest;
pub mod manifests;
mod removals;
pub mod renewal;
pub mod rewritten;
pub mod root;
mod roots;
pub mod run;
pub mod scan;
pub mod selection;
mod spellings;
pub mod state;
mod steady;
pub mod store;
pub mod stray;
pub mod there;
pub mod unlisted;
mod unread;
pub mod verdict;
pub mod whole;

use std::ffi::OsStr;
use std::io::ErrorKind;
use std::path::Path;

/// The name of the manifest in the root of a mirror.
pub const MANIFEST: &str = "phalanx.tree";

/// The name of the manifest's signature, beside it.
pub const SIGNATURE: &str = "phalanx.tree.sig";

/// Whether a name in the root of a mirror is that of the manifest or of its signature, which belong to no entry.
#[must_use]
pub fn is_of_manifest(name: &OsStr) -> bool {
    name == MANIFEST || name == SIGNATURE
}

/// Whether a folder has a manifest. Nothing has been checked. One that cannot be looked at is not taken for none: what it lists would
/// not be checked, and its keys would not be changed.
#[must_use]
pub fn has_manifest(folder: &Path) -> bool {
    match folder.join(MANIFEST).symlink_metadata() {
        Ok(meta) => meta.is_file(),
        Err(e) => !matches!(e.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory),
    }
}

/// Whether a folder above another one surely has a manifest.
fn is_mirror(above: &Path) -> bool {
    above.join(MANIFEST).symlink_metadata().is_ok_and(|meta| meta.is_file())
}

/// Whether a folder above this one has a manifest.
#[must_use]
pub fn is_in_mirror(folder: &Path) -> bool {
    folder.canonicalize().is_ok_and(|whole| whole.ancestors().skip(1).any(is_mirror))
}
