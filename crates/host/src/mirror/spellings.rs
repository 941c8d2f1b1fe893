//! Entries of a mirror whose names are another spelling of the names of others, where a file system takes both for one: a change of
//! `A` to `a` at the source. What is gone by its name is then what has just been written.

use super::MANIFEST;
use super::listing::{Listing, NodeId, State};
use crate::file::{counterpart, is_listed, swap_case};
use crate::folders::open_within;
use phalanx_system::fs::{self, AtFlags, FileType};
use std::collections::{HashMap, HashSet};
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::path::{Path, PathBuf};

/// The entries that stay, once a folder was found whose file system takes several spellings for one.
#[derive(Default)]
pub struct Spellings {
    stay: Option<Stay>,
    /// Whether the mirror's root takes several spellings for one, once that was asked.
    of_root: Option<bool>,
}

#[derive(Default)]
struct Stay {
    by_spelling: HashMap<String, PathBuf>,
    /// Of spellings that differ in more than capitals, such as the forms of an accent, only the file tells.
    by_id: HashMap<(u64, u64), PathBuf>,
}

impl Spellings {
    /// Whether what a name leads to, of an entry that is gone, is an entry that stays. `dir` is the folder that it is in.
    pub fn stays(&mut self, mirror: &File, dir: &File, listing: &Listing, gone: NodeId) -> bool {
        let name = listing.stored_name(gone);
        let Some(stay) = self.stay(mirror, listing, || folds(dir, &name)) else { return false };
        let path = listing.stored_path(gone);
        let other = |found: Option<&PathBuf>| found.is_some_and(|found| *found != path);
        other(stay.by_spelling.get(&fold(&path))) || id(dir, &name).is_some_and(|id| other(stay.by_id.get(&id)))
    }

    /// Whether a path that belongs to no entry leads to one that stays, because a folder above it has a new spelling.
    pub fn are_at(&mut self, mirror: &File, listing: &Listing, path: &Path) -> bool {
        let mut names = path.ancestors().filter_map(|entry| Some((entry.parent()?, entry.file_name()?)));
        let folds_at = |(parent, name): (&Path, &OsStr)| open_within(mirror, parent).is_ok_and(|dir| folds(&dir, name));
        let Some(stay) = self.stay(mirror, listing, || names.any(folds_at)) else { return false };
        let (Some(parent), Some(name)) = (path.parent(), path.file_name()) else { return false };
        let other = |found: Option<&PathBuf>| found.is_some_and(|entry| entry != path);
        let found = open_within(mirror, parent).ok().and_then(|dir| id(&dir, name));
        other(stay.by_spelling.get(&fold(path))) || found.is_some_and(|id| other(stay.by_id.get(&id)))
    }

    /// The entries that stay, if a folder takes several spellings for one: the root, or another one that is asked then. Names such as
    /// `日記` have one spelling only, and show nothing. That of the manifest has two, and no mirror in which something is deleted lacks it.
    fn stay(&mut self, mirror: &File, listing: &Listing, folds_there: impl FnOnce() -> bool) -> Option<&Stay> {
        let of_root = *self.of_root.get_or_insert_with(|| folds(mirror, OsStr::new(MANIFEST)));
        if self.stay.is_none() && (of_root || folds_there()) {
            self.stay = Some(Stay::of(mirror, listing));
        }
        self.stay.as_ref()
    }
}

impl Stay {
    fn of(mirror: &File, listing: &Listing) -> Self {
        let mut stay = Self::default();
        for id_of in listing.all().filter(|id| !matches!(listing.state(*id), State::Gone | State::Dropped)) {
            let path = listing.stored_path(id_of);
            if let Some(id) = id(mirror, path.as_os_str()) {
                stay.by_id.insert(id, path.clone());
            }
            stay.by_spelling.insert(fold(&path), path);
        }
        stay
    }
}

/// The entries of a folder that belong to names which it lists in other spellings only.
#[derive(Default)]
pub struct Respelled {
    by_spelling: HashSet<String>,
    by_id: HashSet<(u64, u64)>,
}

impl Respelled {
    /// Those of an open folder. `known` are the names that belong to entries, and `listed` those that the folder lists.
    pub fn find(dir: &File, known: &HashSet<OsString>, listed: &[(OsString, FileType)]) -> Self {
        let listed: HashSet<&OsStr> = listed.iter().map(|(name, _)| &**name).collect();
        let mut all = Self::default();
        for name in known.iter().filter(|name| !listed.contains(&***name)) {
            if let Some(id) = id(dir, name) {
                all.by_id.insert(id);
                all.by_spelling.insert(fold(Path::new(name)));
            }
        }
        all
    }

    /// Whether a listed name is one of them.
    pub fn has(&self, dir: &File, name: &OsStr) -> bool {
        let has_spelling = || self.by_spelling.contains(&fold(Path::new(name)));
        !self.by_id.is_empty() && (has_spelling() || id(dir, name).is_some_and(|id| self.by_id.contains(&id)))
    }
}

/// Whether the file system of a folder takes another spelling of a name in it for the same: both are there, and not both are listed.
fn folds(dir: &File, name: &OsStr) -> bool {
    let is_hidden = |name: &OsStr| id(dir, name).is_some() && !is_listed(dir, name).unwrap_or(false);
    swap_case(name).is_some_and(|other| is_hidden(&other) || id(dir, &other).is_some() && is_hidden(name))
}

/// The same for all spellings of a path that differ in capitals, letter by letter: `ß` is not `ss`, nor `ı` an `i`. Where a file
/// system takes these for one, the file tells.
fn fold(path: &Path) -> String {
    let small = |letter| match letter {
        // Both have the capital `Σ`.
        'ς' => 'σ',
        _ if letter.is_uppercase() => counterpart(letter).unwrap_or(letter),
        _ => letter,
    };
    path.to_string_lossy().chars().map(small).collect()
}

fn id(dir: &File, name: &OsStr) -> Option<(u64, u64)> {
    fs::statat(dir, name, AtFlags::SYMLINK_NOFOLLOW).ok().map(|stat| (stat.st_dev, stat.st_ino))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_capitals_are_other_spellings() {
        let fold = |name: &str| fold(Path::new(name));
        for (one, other) in [("Photos", "pHOTOS"), ("Фото", "фОТО"), ("ΟΔΟΣ", "οδος"), ("Ö/日記", "ö/日記")]
        {
            assert_eq!(fold(one), fold(other));
        }
        for (one, other) in [("kızım", "kizim"), ("Straße", "Strasse"), ("ﬁ", "fi"), ("İ", "i"), ("a", "ä")] {
            assert_ne!(fold(one), fold(other));
        }
    }
}
