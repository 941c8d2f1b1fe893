//! Comparing a source with the manifest and the mirror of the last run: what is to be done with each entry.
//!
//! The source and the manifest are read side by side, in the order of the manifest, so nothing of the old manifest is kept in
//! memory but what is listed again. Of the mirror's files, only names and lengths are looked at.

mod old;
mod pairs;
mod taken;

use super::chain::Chain;
use super::entry::{entry, mode, modified, number};
use super::excludes::Excludes;
use super::is_of_manifest;
use super::listing::{Listing, NodeId, State, UNKNOWN};
use super::rewritten::Rewritten;
use super::spellings::Respelled;
use super::there::{StoredFile, StoredLink, There, open_stored};
use crate::failure::Failure;
use crate::file::{is_temporary, protected_name, unprotected_name};
use crate::folders::{RESERVED_NAME, entries, kind_name};
use crate::transfer::tally::Tally;
use crate::{Error, Result};
use old::Old;
use phalanx_core::tree::{Entry, FileEntry, Invalid, Kind, MAX_DEPTH, Manifest};
use phalanx_core::{Error as CoreError, Progress};
use phalanx_system::fs::{self, AtFlags, FileType, Stat};
use phalanx_system::io::Errno;
use phalanx_system::os::ffi::OsStrExt;
use std::collections::{HashMap, HashSet};
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::vec;
use taken::Taken;

/// The manifest of the last run.
pub type OldManifest<'a> = Manifest<Box<dyn Read + 'a>>;

/// Why a folder is left out that no manifest can list.
const TOO_DEEP: &str = "too many folders lie within each other: left out";

/// What is compared, and how.
pub struct Scan<'a> {
    /// The source's root.
    pub source: File,
    /// Its path, for messages.
    pub source_path: &'a Path,
    /// What lies in the mirror, from its root on.
    pub mirror: There,
    /// What is left out.
    pub excludes: &'a Excludes,
    /// Whether what is left out is deleted in the mirror.
    pub delete_excluded: bool,
    /// Whether stored files are to have the owners of their sources.
    pub owners: bool,
    /// Whether files of the same length and time are compared by content.
    pub checksum: bool,
    /// Whether all files are written again.
    pub all: bool,
    /// Receives failures, and what is left out.
    pub tally: &'a Tally,
    /// Files that an interrupted run wrote: by path, source and listed time.
    pub written_before: &'a dyn Fn(&Path, &Stat) -> Option<FileEntry>,
    /// What an interrupted `rekey --fresh` wrote.
    pub rewritten: Option<&'a Rewritten>,
    /// Says whether the scan is to end.
    pub progress: &'a dyn Progress,
}

/// What is to be done.
pub struct Plan {
    /// The entries of the source, and those of the mirror that are gone at the source.
    pub listing: Listing,
    /// For each entry that is moved, where it was.
    pub moved_from: HashMap<NodeId, NodeId>,
    /// Entries that are gone, and whose names in the mirror belong to others by now, with these.
    pub conflicts: Vec<(NodeId, NodeId)>,
    /// The paths in the mirror of what no manifest lists.
    pub strays: Vec<PathBuf>,
    /// The paths in the mirror of the temporary files of other runs, which may have been killed.
    pub temporaries: Vec<PathBuf>,
    /// Files that are as the old manifest says, and may be written again all the same.
    pub doubtful: HashSet<NodeId>,
    /// Whether something is gone in the mirror too, so that it is not listed any more.
    pub has_lost: bool,
    /// The number of files that the old manifest lists.
    pub files_before: u64,
    /// Whether the source has something that the old manifest lists, other than a folder.
    pub is_found: bool,
    /// How many entries of the old manifest are listed again as they are, because the rules leave them out or they cannot be read
    /// at the source.
    pub kept: u64,
}

/// Why a scan ended early.
#[derive(Debug)]
pub enum Ended {
    /// The source cannot be read.
    Source(Error),
    /// The mirror cannot be read.
    Mirror(Error),
    /// The old manifest cannot be read.
    Manifest(Invalid),
}

impl From<Invalid> for Ended {
    fn from(error: Invalid) -> Self {
        Ended::Manifest(error)
    }
}

/// A folder of the source that is being compared.
struct Level {
    node: NodeId,
    entries: vec::IntoIter<(OsString, FileType)>,
    taken: Taken,
    /// Whether the old manifest is in the same folder.
    is_old: bool,
    /// The names in its mirror that belong to it; `None` if it has no mirror.
    stored: Option<HashSet<OsString>>,
    /// Whether its mirror is gone, with all that was in it.
    is_lost: bool,
    /// The length of its path.
    path_len: usize,
    device: u64,
}

/// The state of a scan.
struct Run<'a, 'o> {
    scan: &'a Scan<'a>,
    source: Chain,
    mirror: There,
    old: Old<'o>,
    levels: Vec<Level>,
    /// The path of the current folder, from the root on.
    path: PathBuf,
    plan: Plan,
}

impl Scan<'_> {
    /// Compares all entries. Returns also the mirror, at its root.
    ///
    /// # Errors
    /// If the source's root or the old manifest cannot be read, or the scan is cancelled. Other failures go to the tally, and what cannot be read stays in
    /// the mirror as it is.
    pub fn run(mut self, old: Option<OldManifest<'_>>) -> Result<(Plan, There), Ended> {
        let source = self.source.try_clone().map_err(|e| Ended::Source(Error::read(e)))?;
        let nothing = There::folder(None).map_err(Ended::Source)?;
        let mirror = std::mem::replace(&mut self.mirror, nothing);
        let mut run = Run {
            scan: &self,
            source: Chain::new(source).map_err(Ended::Source)?,
            mirror,
            old: Old { manifest: old, next: None },
            levels: Vec::new(),
            path: PathBuf::new(),
            plan: Plan {
                listing: Listing::default(),
                moved_from: HashMap::new(),
                conflicts: Vec::new(),
                strays: Vec::new(),
                temporaries: Vec::new(),
                doubtful: HashSet::new(),
                has_lost: false,
                files_before: 0,
                is_found: false,
                kept: 0,
            },
        };
        run.old.advance()?;
        let old_root = run.old.advance()?;
        let stat = fs::fstat(run.source.current()).map_err(|e| Ended::Source(Error::read(e)))?;
        let listed = entries(run.source.current()).map_err(Ended::Source)?;
        let is_there = run.mirror.is_there();
        let mut state = folder_state(old_root.as_ref(), &stat, is_there);
        if state == State::New {
            // A mirror always has its root.
            state = State::Metadata;
        }
        run.open(OsStr::new(""), &stat, state, (listed, Taken::All), (old_root.is_some(), false));
        while !run.levels.is_empty() {
            if self.progress.is_cancelled() {
                return Err(Ended::Source(CoreError::Cancelled.into()));
            }
            run.step()?;
        }
        run.plan.find_rivals();
        if !self.checksum {
            run.plan.find_moves();
        }
        Ok((run.plan, run.mirror))
    }
}

impl<'a> Run<'a, '_> {
    /// Begins a folder, whose entries are `listed`, as far as they are `taken`.
    fn open(
        &mut self,
        name: &OsStr,
        stat: &Stat,
        state: State,
        (listed, taken): (Vec<(OsString, FileType)>, Taken),
        (is_old, is_lost): (bool, bool),
    ) {
        let node = self.plan.listing.push(&entry(name, stat, Kind::Folder), state);
        let stored = self.mirror.is_there().then(HashSet::new);
        let path_len = self.path.as_os_str().len();
        let (entries, device) = (listed.into_iter(), stat.st_dev);
        self.levels.push(Level { node, entries, taken, is_old, stored, is_lost, path_len, device });
    }

    /// Compares the next entry of the current folder, or ends it.
    fn step(&mut self) -> Result<(), Ended> {
        let level = self.levels.last_mut().expect("a folder is open");
        let Some((name, kind)) = level.entries.next() else { return self.close() };
        if level.is_old {
            while self.old.next.as_ref().is_some_and(|old| *old.name < *name.as_bytes()) {
                self.gone()?;
            }
        }
        let is_old = self.levels.last().is_some_and(|level| level.is_old);
        let matches = is_old && self.old.next.as_ref().is_some_and(|old| *old.name == *name.as_bytes());
        self.path.push(&name);
        let done = self.compare(&name, kind, matches);
        self.path.pop();
        match done {
            // It was entered, so its path is the current one.
            Ok(true) => {
                self.path.push(&name);
                Ok(())
            }
            Ok(false) => Ok(()),
            Err(ended) => Err(ended),
        }
    }

    /// Ends the current folder: what is left of it in the old manifest is gone.
    fn close(&mut self) -> Result<(), Ended> {
        if self.levels.last().is_some_and(|level| level.is_old) {
            while self.old.next.is_some() {
                self.gone()?;
            }
            // The end of the folder. The root's is the end of all.
            self.old.advance()?;
        }
        let level = self.levels.pop().expect("a folder is open");
        if let Some(stored) = &level.stored {
            self.find_strays(level.node, stored, &level.taken);
        }
        self.plan.listing.end_folder();
        if !self.levels.is_empty() {
            self.path.pop();
            self.source.leave().map_err(Ended::Source)?;
            self.mirror.leave().map_err(Ended::Source)?;
        }
        Ok(())
    }

    /// Compares an entry of the source, which `matches` the next entry of the old manifest or is not in it. Returns whether it is
    /// a folder that was entered.
    fn compare(&mut self, name: &OsStr, kind: FileType, matches: bool) -> Result<bool, Ended> {
        let excluded = self.scan.excludes.excludes(&self.path, kind == FileType::Directory);
        if excluded {
            if matches {
                self.plan.is_found |= kind != FileType::Directory;
                self.gone()?;
            }
            return Ok(false);
        }
        let looked_at = match kind {
            FileType::Directory => fs::statat(self.source.current(), name, AtFlags::SYMLINK_NOFOLLOW),
            FileType::RegularFile | FileType::Symlink if !is_temporary(name) => {
                fs::statat(self.source.current(), name, AtFlags::SYMLINK_NOFOLLOW)
            }
            kind => {
                self.scan.tally.leave_out(&self.full_path(), kind_name(kind));
                return self.keep(matches).map(|()| false);
            }
        };
        let stat = match looked_at {
            Ok(stat) => stat,
            // It was deleted just now.
            Err(Errno::NOENT) => return if matches { self.gone().map(|_| false) } else { Ok(false) },
            Err(e) => return self.fail(Error::read(e), matches),
        };
        match FileType::from_raw_mode(stat.st_mode) {
            FileType::RegularFile => self.file(name, &stat, matches).map(|()| false),
            FileType::Symlink => self.link(name, &stat, matches).map(|()| false),
            FileType::Directory => self.folder(name, &stat, matches),
            kind => {
                self.scan.tally.leave_out(&self.full_path(), kind_name(kind));
                self.keep(matches).map(|()| false)
            }
        }
    }

    fn file(&mut self, name: &OsStr, stat: &Stat, matches: bool) -> Result<(), Ended> {
        let stored_name = protected_name(name);
        if is_temporary(&stored_name) {
            return self.fail(Error::read(std::io::Error::other(RESERVED_NAME)), matches).map(drop);
        }
        let old = self.take_same_kind(matches, |old| matches!(old, Kind::File(_)))?;
        let old = old.map(|old| self.as_rewritten(old, &stored_name));
        let looks_same = old.as_ref().is_some_and(|old| looks_same(old, stat));
        let stored = self.mirror.file(&stored_name);
        let written = (self.scan.written_before)(&self.path, stat);
        // A run that did not come to its manifest may have written other content of the same length.
        let is_other = |old: &Entry| match (&old.kind, &written) {
            (Kind::File(file), Some(written)) => file.contents != written.contents,
            _ => false,
        };
        let (mut listed, state) = match (old, &stored) {
            (Some(old), Some(stored)) if looks_same && is_in_place(&old, stored) && !is_other(&old) => {
                let state = match self.scan.checksum {
                    _ if self.scan.all => State::Changed,
                    true if !self.has_other_owner(stat, stored) => State::Compared,
                    // It may be somebody else's file, which that user could get back.
                    _ if self.has_other_owner(stat, stored) => State::Changed,
                    false if old.mode != mode(stat) => match self.is_another(name, stat, &old) {
                        true => State::Changed,
                        false => State::Metadata,
                    },
                    _ => State::Unchanged,
                };
                (old, state)
            }
            (old, _) => match written {
                Some(written) if stored.is_some_and(|stored| stored.len == written.stored_len) => {
                    // The run that was killed may have had another source.
                    let state = if self.scan.checksum { State::Compared } else { State::Metadata };
                    (entry(name, stat, Kind::File(written)), state)
                }
                _ => match old.filter(|_| stored.is_some()) {
                    Some(old) => (old, State::Changed),
                    None => (entry(name, stat, Kind::File(unwritten(stat))), State::New),
                },
            },
        };
        if let (State::New, Kind::File(file), true) = (state, &mut listed.kind, self.old.manifest.is_some()) {
            file.inode = number(self.source.current(), name);
        }
        if looks_same && state != State::Unchanged {
            self.plan.doubtful.insert(self.plan.listing.next_id());
        }
        self.add(&listed, state, stored_name);
        Ok(())
    }

    /// The entry of a file as an interrupted `rekey --fresh` has left it.
    fn as_rewritten(&self, old: Entry, stored_name: &OsStr) -> Entry {
        let (Some(rewritten), Some(mirror), Kind::File(file)) = (self.scan.rewritten, self.mirror.opened(), &old.kind)
        else {
            return old;
        };
        match open_stored(mirror, stored_name).ok().and_then(|stored| rewritten.entry(file, &stored)) {
            Some(file) => Entry { kind: Kind::File(file), ..old },
            None => old,
        }
    }

    /// Whether another file has the name by now, as far as its file system tells.
    fn is_another(&self, name: &OsStr, stat: &Stat, old: &Entry) -> bool {
        let Kind::File(file) = &old.kind else { return true };
        let number = number(self.source.current(), name);
        file.device == stat.st_dev && file.inode != 0 && number != 0 && file.inode != number
    }

    fn has_other_owner(&self, stat: &Stat, stored: &StoredFile) -> bool {
        self.scan.owners && stored.owner.is_some_and(|owner| owner != (stat.st_uid, stat.st_gid))
    }

    fn link(&mut self, name: &OsStr, stat: &Stat, matches: bool) -> Result<(), Ended> {
        if self.is_in_the_way(name) {
            return self.refuse_name(matches).map(drop);
        }
        let target = match fs::readlinkat(self.source.current(), name, Vec::new()) {
            Ok(target) => target.into_bytes(),
            Err(e) => return self.fail(Error::read(e), matches).map(drop),
        };
        let old = self.take_same_kind(matches, |old| matches!(old, Kind::Link(_)))?;
        let stored = self.mirror.link(name, &target);
        let is_listed = old.as_ref().is_some_and(|old| old.kind == Kind::Link(target.clone()));
        let (listed, state) = match old {
            Some(_) if is_listed && stored == StoredLink::Same && self.scan.checksum => {
                (entry(name, stat, Kind::Link(target)), State::Unchanged)
            }
            Some(old) if is_listed && stored == StoredLink::Same => (old, State::Unchanged),
            Some(old) if stored != StoredLink::Missing => (old, State::Changed),
            _ => (entry(name, stat, Kind::Link(target)), State::New),
        };
        self.add(&listed, state, name.to_owned());
        Ok(())
    }

    fn folder(&mut self, name: &OsStr, stat: &Stat, matches: bool) -> Result<bool, Ended> {
        if self.is_in_the_way(name) {
            return self.refuse_name(matches);
        }
        if self.levels.len() == MAX_DEPTH {
            return self.fail(Error::read(std::io::Error::other(TOO_DEEP)), matches);
        }
        if let Err(e) = self.source.enter(name) {
            return self.fail(Error::read(e), matches);
        }
        let listed = match self.listed(stat) {
            Ok(listed) => listed,
            Err(e) => {
                self.source.leave().map_err(Ended::Source)?;
                return self.fail(e, matches);
            }
        };
        let old = self.take_same_kind(matches, |old| matches!(old, Kind::Folder))?;
        let above = self.levels.last().is_some_and(|level| level.is_lost);
        let is_lost = above || self.mirror.lacks(name, false);
        let is_there = self.mirror.enter(name);
        let state = folder_state(old.as_ref(), stat, is_there);
        self.note_stored(name.to_owned());
        self.open(name, stat, state, listed, (old.is_some(), is_lost));
        Ok(true)
    }

    /// The entries of the folder that was just entered, without those that its tag file or the boundary of its file system
    /// leaves out.
    fn listed(&self, stat: &Stat) -> Result<(Vec<(OsString, FileType)>, Taken)> {
        let above = self.levels.last().expect("a folder is open").device;
        if self.scan.excludes.one_file_system() && stat.st_dev != above {
            return Ok((Vec::new(), Taken::Nothing));
        }
        let folder = self.source.current();
        let mut listed = entries(folder)?;
        let taken = self.scan.excludes.keeps_only(folder).map_or(Taken::All, |tag| Taken::Only(tag.to_owned()));
        listed.retain(|(name, _)| !taken.leaves_out(name));
        Ok((listed, taken))
    }

    fn add(&mut self, entry: &Entry, state: State, stored_name: OsString) {
        self.note_stored(stored_name);
        self.plan.listing.push(entry, state);
    }

    fn note_stored(&mut self, name: OsString) {
        if let Some(stored) = &mut self.levels.last_mut().expect("a folder is open").stored {
            stored.insert(name);
        }
    }

    fn full_path(&self) -> PathBuf {
        self.scan.source_path.join(&self.path)
    }

    /// Reports a failure. What the mirror has stays as it is.
    fn fail(&mut self, error: Error, matches: bool) -> Result<bool, Ended> {
        self.scan.tally.fail(&Failure::at(&self.full_path(), error));
        self.keep(matches).map(|()| false)
    }

    /// Whether a folder or link has the name of the stored file of another entry.
    fn is_in_the_way(&self, name: &OsStr) -> bool {
        let is_root = self.levels.len() == 1;
        is_root && is_of_manifest(name)
            || unprotected_name(name).is_some_and(|name| {
                fs::statat(self.source.current(), &name, AtFlags::SYMLINK_NOFOLLOW)
                    .is_ok_and(|stat| FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile)
            })
    }

    fn refuse_name(&mut self, matches: bool) -> Result<bool, Ended> {
        let why = "its name in the mirror would be that of another entry: left out";
        self.fail(Error::read(std::io::Error::other(why)), matches)
    }

    /// Notes what lies in the mirror of a folder, which is the current one, and belongs to no entry. `stored` are the names that do.
    fn find_strays(&mut self, folder: NodeId, stored: &HashSet<OsString>, taken: &Taken) {
        let is_root = folder == NodeId::ROOT;
        let Ok(found) = self.mirror.entries() else { return };
        let is_known = |name: &OsStr| is_root && is_of_manifest(name) || stored.contains(name);
        let unknown: Vec<_> = found.iter().filter(|(name, _)| !is_known(name)).cloned().collect();
        let dir = self.mirror.opened().filter(|_| !unknown.is_empty());
        // A rename over an entry may leave it its old spelling.
        let respelled = dir.map_or_else(Respelled::default, |dir| Respelled::find(dir, stored, &found));
        for (name, kind) in unknown {
            // A link that a killed run left has a name that no other run chooses. Nobody else writes to the mirror now.
            if is_temporary(&name) && kind != FileType::Symlink {
                self.plan.temporaries.push(self.plan.listing.stored_path(folder).join(name));
                continue;
            }
            let is_respelled = dir.is_some_and(|dir| respelled.has(dir, &name));
            if is_respelled || self.is_kept((folder, taken), &name, kind) {
                continue;
            }
            self.plan.strays.push(self.plan.listing.stored_path(folder).join(name));
        }
    }

    /// Whether what a stray would be unprotected to is left out.
    fn is_kept(&self, (folder, taken): (NodeId, &Taken), name: &OsStr, kind: FileType) -> bool {
        let is_folder = kind == FileType::Directory;
        let is_link = kind == FileType::Symlink && !is_temporary(name);
        let name = if is_folder || is_link { Some(name.to_owned()) } else { unprotected_name(name) };
        let Some(name) = name.filter(|_| !self.scan.delete_excluded) else { return false };
        taken.leaves_out(&name) || self.scan.excludes.excludes(&self.plan.listing.path(folder).join(name), is_folder)
    }
}

/// What is to be done with a folder itself.
fn folder_state(old: Option<&Entry>, stat: &Stat, is_there: bool) -> State {
    match old {
        _ if !is_there => State::New,
        Some(old) if old.mode == mode(stat) && old.modified == modified(stat) => State::Unchanged,
        _ => State::Metadata,
    }
}

/// Whether a file has the length and the time that are listed.
fn looks_same(old: &Entry, stat: &Stat) -> bool {
    matches!(&old.kind, Kind::File(file) if file.len == stat.st_size as u64 && old.modified == modified(stat))
}

/// Whether a stored file has the length that is listed.
fn is_in_place(old: &Entry, stored: &StoredFile) -> bool {
    matches!(&old.kind, Kind::File(file) if file.stored_len == stored.len)
}

/// A file of the source that has not been written yet.
fn unwritten(stat: &Stat) -> FileEntry {
    let len = stat.st_size as u64;
    FileEntry { len, stored_len: 0, device: stat.st_dev, inode: 0, contents: UNKNOWN }
}
