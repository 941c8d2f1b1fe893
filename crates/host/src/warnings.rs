//! Warnings of a run over files and folders.

use crate::file::{Carry, has_resource_fork};
use crate::lines::{complain, shown};
use phalanx_system::files::mode_of_open;
use std::fs::{File, Metadata};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

/// The warning that some permissions are not carried over: those of a protected file are not authenticated, and these
/// would let others act as its owner. `None` if the file or folder has none of them. The caller writes it once.
pub fn special_bits(path: &Path, file: &File, carry: Carry) -> Option<String> {
    // A folder keeps its sticky bit.
    let special = |meta: &Metadata| if meta.is_dir() { 0o6000 } else { 0o7000 };
    let is_special = || {
        let mode = |meta: Metadata| Some(mode_of_open(file, &meta).ok()? & special(&meta));
        file.metadata().ok().and_then(mode).is_some_and(|mode| mode != 0)
    };
    let path = (carry == Carry::All && is_special()).then(|| shown(path))?;
    Some(format!("warning: {path}: setuid, setgid and sticky bits are not kept"))
}

/// Warns once that some permissions are not carried over.
pub fn warn_of_special_bits(path: &Path, file: &File, carry: Carry) {
    special_bits(path, file, carry).into_iter().for_each(say_of_special_bits);
}

/// Writes the line of [`special_bits`], unless one has been written.
pub fn say_of_special_bits(line: String) {
    static SAID: AtomicBool = AtomicBool::new(false);
    if !SAID.swap(true, Ordering::Relaxed) {
        complain(line);
    }
}

/// Warns once that a file's second content stays where it is.
pub fn warn_of_resource_fork(path: &Path, file: &File) {
    static SAID: AtomicBool = AtomicBool::new(false);
    if has_resource_fork(file) && !SAID.swap(true, Ordering::Relaxed) {
        let path = shown(path);
        complain(format!("warning: {path}: its resource fork is neither protected nor copied"));
    }
}

/// The warning that a tree is protected by a key or password that lies in it. The caller writes it once for each tree.
pub fn key_inside(tree: &Path, key: &Path) -> String {
    let (key, tree) = (shown(key), shown(tree));
    format!("warning: {tree} holds its own key or password ({key})")
}

/// What to do about a key that is protected by itself.
pub const KEEP_COPY: &str = "keep a copy of it elsewhere";
