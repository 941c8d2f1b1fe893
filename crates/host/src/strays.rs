//! Entries of a mirror that have no input. They stay as they are, and are reported.

use crate::file::is_temporary;
use crate::lines::shown;
use crate::mirror::is_of_manifest;
use crate::words::count;
use phalanx_system::fs::Dir;
use phalanx_system::os::ffi::OsStrExt;
use std::ffi::OsStr;
use std::fs::File;
use std::path::{Path, PathBuf};

/// How many paths are named.
const NAMED: usize = 3;

/// The entries that were found.
#[derive(Clone, Debug, Default)]
pub struct Strays {
    /// How many there are.
    pub number: u64,
    /// The first few paths: the least deep ones, in the order of their names.
    pub first: Vec<PathBuf>,
}

impl Strays {
    /// Adds one.
    pub fn add(&mut self, path: PathBuf) {
        self.join(Self { number: 1, first: vec![path] });
    }

    /// Adds those that were found elsewhere.
    pub fn join(&mut self, other: Self) {
        self.number += other.number;
        self.first.extend(other.first);
        let depth = |path: &PathBuf| path.components().count();
        self.first.sort_by(|a, b| depth(a).cmp(&depth(b)).then_with(|| a.cmp(b)));
        self.first.truncate(NAMED);
    }

    /// The line that reports them. `None` if there are none.
    pub fn line(&self, mirror: &Path) -> Option<String> {
        let Self { number, first } = self;
        let more = match number - first.len() as u64 {
            0 => String::new(),
            more => format!(" and {more} more"),
        };
        let first: Vec<String> = first.iter().map(|path| shown(path)).collect();
        let stay = if *number == 1 { "has no input and stays as it is" } else { "have no input and stay as they are" };
        let line = || format!("{}: {} {stay}: {}{more}", shown(mirror), count(*number, "entry"), first.join(", "));
        (*number > 0).then(line)
    }
}

/// Calls `found` with the name of each entry of a mirror for which `has_input` is false. A mirror that cannot be listed
/// has no entries.
pub fn find(mirror: &File, has_input: impl Fn(&OsStr) -> bool, mut found: impl FnMut(&OsStr)) {
    for entry in Dir::read_from(mirror).into_iter().flatten().flatten() {
        let name = OsStr::from_bytes(entry.file_name().to_bytes());
        if name != "." && name != ".." && !is_of_manifest(name) && !is_temporary(name) && !has_input(name) {
            found(name);
        }
    }
}
