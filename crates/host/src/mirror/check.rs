//! Comparing a mirror with its manifest, without reading content: what is missing, additional, exchanged, renamed or another
//! version.

mod checked;
mod objects;

pub use checked::{Checked, admit};
pub use objects::Depth;

use super::chain::Beside;
use super::is_of_manifest;
use super::listing::{Listing, NodeId, State};
use crate::failure::Failure;
use crate::file::{is_temporary, unprotected_name};
use crate::folders::{entries, kind_of};
use crate::lines::shown;
use crate::{Error, Result};
use phalanx_core::tree::LastChunk;
use phalanx_core::{Class, Error as CoreError, Progress, ReadAt};
use phalanx_system::fs::{self, FileType, Mode, OFlags};
use phalanx_system::io::Errno;
use phalanx_system::os::ffi::OsStrExt;
use std::collections::{HashMap, HashSet};
use std::ffi::OsStr;
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};

/// Something in a mirror that is not what its manifest lists.
#[derive(Debug)]
pub struct Finding {
    /// Its path in the mirror, from the root on.
    pub path: PathBuf,
    /// What is wrong.
    pub wrong: Wrong,
}

impl Finding {
    /// What a failure says of an entry of the mirror at this path.
    #[must_use]
    pub fn of_failure(mirror: &Path, failure: Failure) -> Self {
        let path = failure.path().unwrap_or(mirror);
        let path = path.strip_prefix(mirror).unwrap_or(path).to_owned();
        let line = failure.line().unwrap_or_default().to_owned();
        let error = failure.into_error().unwrap_or_else(|| Error::read(io::Error::other(line)));
        let wrong = match error.class() {
            Class::NotAuthentic => Wrong::Damaged(error),
            _ => Wrong::Unreadable(error),
        };
        Self { path, wrong }
    }
}

/// What can be wrong with an entry of a mirror.
#[derive(Debug)]
pub enum Wrong {
    /// It is listed and not there.
    Missing,
    /// It is listed, not there, and its content is here.
    Renamed(PathBuf),
    /// It is there and not listed.
    Additional,
    /// It is there and not listed, and has the content of this entry.
    Copy(PathBuf),
    /// It has the content of this entry, which has its content.
    Exchanged(PathBuf),
    /// It has the content of this entry.
    Other(PathBuf),
    /// It has content that the manifest does not list: an older or newer version, or another file.
    Unlisted,
    /// It is listed as something else: a file, a folder or a link.
    Kind,
    /// It is a link that leads elsewhere.
    Target,
    /// It is no whole, authentic file for the keys at hand, or its content is another one.
    Damaged(Error),
    /// It cannot be read.
    Unreadable(Error),
}

impl Wrong {
    /// What is said of it, after the path. The paths in it are below `mirror`.
    #[must_use]
    pub fn text(&self, mirror: &Path) -> String {
        let at = |path: &PathBuf| shown(&mirror.join(path));
        match self {
            Wrong::Missing => "missing: the manifest lists it".into(),
            Wrong::Renamed(to) => format!("missing: it was renamed to {}", at(to)),
            Wrong::Additional => "additional: the manifest does not list it".into(),
            Wrong::Copy(of) => format!("additional: it has the content of {}", at(of)),
            Wrong::Exchanged(with) => format!("exchanged with {}", at(with)),
            Wrong::Other(of) => format!("exchanged: it has the content of {}", at(of)),
            Wrong::Unlisted => {
                "another version: the manifest lists other content, so it is older, newer or foreign".into()
            }
            Wrong::Kind => "replaced: the manifest lists another kind of entry".into(),
            Wrong::Target => "another version: the manifest lists another target of the link".into(),
            Wrong::Damaged(e) | Wrong::Unreadable(e) => e.to_string(),
        }
    }

    /// A word or two for the kind of it.
    #[must_use]
    pub fn kind(&self) -> &'static str {
        match self {
            Wrong::Missing => "missing",
            Wrong::Renamed(_) => "renamed",
            Wrong::Additional => "additional",
            Wrong::Copy(_) => "copy",
            Wrong::Exchanged(_) | Wrong::Other(_) => "exchanged",
            Wrong::Unlisted | Wrong::Target | Wrong::Damaged(Error::NotListed(_)) => "other version",
            Wrong::Kind => "replaced",
            Wrong::Damaged(Error::Core(
                CoreError::NoKey { .. } | CoreError::KeysRefused { .. } | CoreError::WrongKey,
            )) => "wrong key",
            Wrong::Damaged(_) => "damaged",
            Wrong::Unreadable(_) => "unreadable",
        }
    }

    /// Whether it says nothing about the mirror but that it could not be read.
    #[must_use]
    pub fn is_of_reading(&self) -> bool {
        matches!(self, Wrong::Unreadable(_))
    }
}

/// A mirror that is compared with its manifest.
pub struct Check {
    /// What the manifest lists.
    listing: Listing,
    findings: Vec<Finding>,
    /// Stored files that hold what is not listed in their place, with that.
    strange: Vec<(Place, LastChunk)>,
    missing: Vec<NodeId>,
}

/// Where a stored file lies.
#[derive(Clone)]
enum Place {
    /// Where an entry belongs.
    Of(NodeId),
    /// Where nothing is listed.
    At(PathBuf),
}

impl Check {
    /// Compares the names, links and last chunks of a mirror with its manifest. Returns the listing, in which what is wrong is
    /// dropped, and the findings in the order of their paths.
    ///
    /// # Errors
    /// If the mirror's root cannot be read, or the work is cancelled.
    pub fn run(mirror: File, listing: Listing, progress: &dyn Progress) -> Result<(Listing, Vec<Finding>)> {
        let mut check = Self::new(listing);
        let mut chain = Beside::new(Some(mirror))?;
        // The folders that are open, with their entries that are still to be looked at.
        let mut levels = vec![check.folder(NodeId::ROOT, &chain)];
        while let Some(level) = levels.last_mut() {
            if progress.is_cancelled() {
                return Err(CoreError::Cancelled.into());
            }
            let Some(folder) = level.pop() else {
                levels.pop();
                if !levels.is_empty() {
                    chain.leave()?;
                }
                continue;
            };
            chain.enter(&check.listing.stored_name(folder));
            levels.push(check.folder(folder, &chain));
        }
        Ok(check.finish())
    }

    fn new(listing: Listing) -> Self {
        Self { listing, findings: Vec::new(), strange: Vec::new(), missing: Vec::new() }
    }

    fn finish(mut self) -> (Listing, Vec<Finding>) {
        self.name_strange();
        self.findings.sort_by(|a, b| a.path.cmp(&b.path));
        (self.listing, self.findings)
    }

    /// Compares the entries of a folder. Returns those of its folders that are there.
    fn folder(&mut self, folder: NodeId, chain: &Beside) -> Vec<NodeId> {
        let path = self.listing.stored_path(folder);
        let found = chain.current().ok_or_else(|| Error::read(Errno::NOENT)).and_then(entries);
        let (Some(dir), Ok(found)) = (chain.current(), &found) else {
            self.drop_all(folder);
            let unreadable = found.err().unwrap_or_else(|| Error::read(Errno::NOENT));
            self.findings.push(Finding { path, wrong: Wrong::Unreadable(unreadable) });
            return Vec::new();
        };
        let mut kinds: HashMap<&OsStr, FileType> = found.iter().map(|(name, kind)| (name.as_os_str(), *kind)).collect();
        let mut folders = Vec::new();
        let children: Vec<NodeId> = self.listing.children(folder).collect();
        for id in children {
            let stored_name = self.listing.stored_name(id);
            match kinds.remove(stored_name.as_os_str()) {
                Some(FileType::Directory) if self.listing.is_folder(id) => folders.push(id),
                kind => match self.entry(id, kind, dir, &stored_name) {
                    Ok(true) => {}
                    Ok(false) => self.drop_all(id),
                    Err(wrong) => {
                        self.drop_all(id);
                        self.findings.push(Finding { path: path.join(stored_name), wrong });
                    }
                },
            }
        }
        let is_root = folder == NodeId::ROOT;
        let mut additional: Vec<_> = kinds.into_keys().map(OsStr::to_owned).collect();
        additional.sort();
        for name in additional {
            let is_unfinished = is_temporary(&name) && is_regular(dir, &name);
            if !(is_unfinished || is_root && is_of_manifest(&name)) {
                self.additional(dir, &name, &path);
            }
        }
        folders.reverse();
        folders
    }

    /// Whether an entry is what is listed. What is to be said of one that is not may depend on the others.
    fn entry(&mut self, id: NodeId, kind: Option<FileType>, dir: &File, name: &OsStr) -> Result<bool, Wrong> {
        match kind {
            None => {
                self.missing.push(id);
                Ok(false)
            }
            Some(kind) if !self.listing.is_kind(id, kind) => Err(Wrong::Kind),
            Some(FileType::Symlink) => self.link(id, dir, name),
            Some(_) => self.file(id, dir, name),
        }
    }

    fn link(&self, id: NodeId, dir: &File, name: &OsStr) -> Result<bool, Wrong> {
        let target = fs::readlinkat(dir, name, Vec::new()).map_err(|e| Wrong::Unreadable(Error::read(e)))?;
        let is_right = self.listing.target(id).is_some_and(|listed| listed.as_bytes() == target.as_bytes());
        if is_right { Ok(true) } else { Err(Wrong::Target) }
    }

    /// Whether a stored file has the last chunk that is listed. One that another entry may have is noted.
    fn file(&mut self, id: NodeId, dir: &File, name: &OsStr) -> Result<bool, Wrong> {
        let (last, len) = last_chunk(dir, name)?;
        if self.holds(id, last, len) {
            return Ok(true);
        }
        self.strange.push((Place::Of(id), last));
        Ok(false)
    }

    /// Whether a file is listed with this last chunk, and this length of its plaintext.
    fn holds(&self, id: NodeId, last: LastChunk, len: u64) -> bool {
        self.listing.file(id).is_some_and(|listed| listed.contents.last == last && listed.len == len)
    }

    /// Notes an entry that is not listed. It may hold what another entry should hold.
    fn additional(&mut self, dir: &File, name: &OsStr, folder: &Path) {
        let path = folder.join(name);
        let is_stored = unprotected_name(name).is_some() && matches!(kind_of(dir, name), Ok(FileType::RegularFile));
        match last_chunk(dir, name) {
            Ok((last, _)) if is_stored => self.strange.push((Place::At(path), last)),
            _ => self.findings.push(Finding { path, wrong: Wrong::Additional }),
        }
    }

    /// Finds what stored files hold that are not in their places.
    fn name_strange(&mut self) {
        if self.strange.is_empty() {
            let missing = std::mem::take(&mut self.missing);
            missing.into_iter().for_each(|id| self.find(id, Wrong::Missing));
            return;
        }
        let listing = &self.listing;
        let owners: HashMap<LastChunk, NodeId> =
            listing.all().filter_map(|id| Some((listing.file(id)?.contents.last, id))).collect();
        let strange = std::mem::take(&mut self.strange);
        let holds: HashMap<NodeId, LastChunk> = strange
            .iter()
            .filter_map(|(place, last)| if let Place::Of(id) = place { Some((*id, *last)) } else { None })
            .collect();
        let missing: HashSet<NodeId> = self.missing.iter().copied().collect();
        let mut renamed: HashMap<NodeId, PathBuf> = HashMap::new();
        for (place, last) in strange {
            let owner = owners.get(&last).copied();
            let (path, wrong) = match (place, owner) {
                (Place::Of(id), None) => (self.listing.stored_path(id), Wrong::Unlisted),
                // Its last chunk is right, and its length is not.
                (Place::Of(id), Some(owner)) if owner == id => {
                    (self.listing.stored_path(id), Wrong::Damaged(CoreError::Extended("its length is another").into()))
                }
                (Place::Of(id), Some(owner)) => {
                    let own = self.listing.file(id).expect("it is a file").contents.last;
                    let is_exchanged = holds.get(&owner) == Some(&own);
                    let other = self.listing.stored_path(owner);
                    (
                        self.listing.stored_path(id),
                        if is_exchanged { Wrong::Exchanged(other) } else { Wrong::Other(other) },
                    )
                }
                (Place::At(path), Some(owner)) if missing.contains(&owner) && !renamed.contains_key(&owner) => {
                    renamed.insert(owner, path.clone());
                    (path, Wrong::Copy(self.listing.stored_path(owner)))
                }
                (Place::At(path), Some(owner)) => (path, Wrong::Copy(self.listing.stored_path(owner))),
                (Place::At(path), None) => (path, Wrong::Additional),
            };
            self.findings.push(Finding { path, wrong });
        }
        for id in std::mem::take(&mut self.missing) {
            let wrong = renamed.remove(&id).map_or(Wrong::Missing, Wrong::Renamed);
            self.find(id, wrong);
        }
    }

    fn find(&mut self, id: NodeId, wrong: Wrong) {
        self.findings.push(Finding { path: self.listing.stored_path(id), wrong });
    }

    /// Takes an entry, and all in it, out of what is worked on.
    fn drop_all(&mut self, id: NodeId) {
        let all: Vec<_> = std::iter::once(id).chain(self.listing.within(id)).collect();
        all.into_iter().for_each(|id| self.listing.set_state(id, State::Dropped));
    }
}

fn is_regular(dir: &File, name: &OsStr) -> bool {
    kind_of(dir, name).is_ok_and(|kind| kind == FileType::RegularFile)
}

/// The last chunk of a stored file, and the length of its plaintext.
fn last_chunk(dir: &File, name: &OsStr) -> Result<(LastChunk, u64), Wrong> {
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC | OFlags::NOCTTY;
    let opened = fs::openat(dir, name, flags, Mode::empty());
    last_chunk_of(&File::from(opened.map_err(|e| Wrong::Unreadable(Error::read(e)))?))
}

/// The last chunk of an opened stored file, and the length of its plaintext.
fn last_chunk_of(stored: &impl ReadAt) -> Result<(LastChunk, u64), Wrong> {
    LastChunk::read(stored).map_err(|e| match e.class() {
        Class::NotAuthentic => Wrong::Damaged(e.into()),
        _ => Wrong::Unreadable(e.into()),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::failure::Code;
    use phalanx_core::tree::Time;

    #[test]
    fn failures_of_the_full_check_are_findings() {
        let mirror = Path::new("some/mirror");
        let of = |error: Error| Finding::of_failure(mirror, Failure::at(&mirror.join("a/b.phx"), error));
        let kind = |error: Error| of(error).wrong.kind();
        assert_eq!(of(CoreError::Truncated("it ends").into()).path, Path::new("a/b.phx"));
        assert_eq!(kind(CoreError::Truncated("it ends").into()), "damaged");
        assert_eq!(kind(CoreError::WrongKey.into()), "wrong key");
        assert_eq!(kind(Error::NotListed("it is foreign")), "other version");
        assert_eq!(kind(Error::read(Errno::IO)), "unreadable");
        let line = Finding::of_failure(mirror, Failure::new(Code::InputOutput, "a line"));
        assert_eq!((line.path.as_path(), line.wrong.kind()), (Path::new(""), "unreadable"));
        assert!(line.wrong.text(mirror).contains("a line"));
    }

    #[test]
    fn a_check_that_is_cancelled_is_no_check() {
        struct Cancelled;
        impl Progress for Cancelled {
            fn advance(&self, _: u64) {}
            fn is_cancelled(&self) -> bool {
                true
            }
        }
        let folder = tempfile::tempdir().unwrap();
        let mirror = File::open(folder.path()).unwrap();
        let mut listing = Listing::default();
        let kind = phalanx_core::tree::Kind::Folder;
        let modified = Time { seconds: 0, nanoseconds: 0 };
        listing.push(&phalanx_core::tree::Entry { name: Vec::new(), mode: 0o700, modified, kind }, State::Unchanged);
        listing.end_folder();
        let checked = Check::run(mirror, listing, &Cancelled).map(drop);
        assert!(matches!(checked, Err(Error::Core(CoreError::Cancelled))));
    }
}
