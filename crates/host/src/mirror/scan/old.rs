//! What the manifest of the last run lists, as the scan comes to it: what is at the source too, what is gone, and what stays.

use super::{Ended, OldManifest, Run, Taken};
use crate::file::protected_name;
use crate::mirror::listing::{NodeId, State};
use phalanx_core::tree::{Entry, Invalid, Kind};
use phalanx_system::os::ffi::{OsStrExt, stored_name};
use std::collections::HashSet;
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

/// The old manifest, and its next entry.
pub struct Old<'a> {
    pub manifest: Option<OldManifest<'a>>,
    pub next: Option<Entry>,
}

/// A folder of the old manifest that the source has not.
struct Folder {
    node: NodeId,
    /// The names in its mirror that the manifest lists.
    stored: HashSet<OsString>,
    /// Whether it is looked for what no manifest lists: it is gone, and nothing leaves it out.
    is_searched: bool,
}

impl Folder {
    fn new(node: NodeId, is_searched: bool) -> Self {
        Self { node, stored: HashSet::new(), is_searched }
    }
}

impl Old<'_> {
    /// Reads on. At the end of a folder there is no next entry.
    pub fn advance(&mut self) -> Result<Option<Entry>, Invalid> {
        let next = match &mut self.manifest {
            Some(manifest) if !manifest.is_at_end() => manifest.next()?,
            _ => None,
        };
        Ok(std::mem::replace(&mut self.next, next))
    }
}

impl Run<'_, '_> {
    /// Takes the next entry of the old manifest if it `matches` and is of the same kind. One of another kind is gone,
    /// or is left out.
    pub fn take_same_kind(&mut self, matches: bool, is_same: impl Fn(&Kind) -> bool) -> Result<Option<Entry>, Ended> {
        if !matches {
            return Ok(None);
        }
        if self.old.next.as_ref().is_some_and(|old| is_same(&old.kind)) {
            if let Some(Entry { kind: Kind::File(_), .. }) = self.old.next {
                self.plan.files_before += 1;
            }
            self.plan.is_found |= self.old.next.as_ref().is_some_and(|old| old.kind != Kind::Folder);
            return Ok(self.old.advance()?);
        }
        let gone = self.gone()?;
        // What is pushed next is the entry that took its name.
        let next = self.plan.listing.next_id();
        self.plan.conflicts.push((gone, next));
        Ok(None)
    }

    /// Adds what the old manifest lists next, with all in it, as gone. What is left out by now stays instead, unless it is to
    /// be deleted too.
    pub fn gone(&mut self) -> Result<NodeId, Ended> {
        let first = self.old.advance()?.expect("the old manifest has another entry");
        let path = self.path_of(&first);
        let is_folder = matches!(first.kind, Kind::Folder);
        let taken = &self.levels.last().expect("a folder is open").taken;
        let is_left_out = taken.leaves_out(stored_name(&first.name)) || self.scan.excludes.excludes(&path, is_folder);
        let stays = is_left_out && !self.scan.delete_excluded;
        let state = if stays { State::Unchanged } else { State::Gone };
        let id = self.add_old(first, state)?;
        if state == State::Gone {
            self.keep_left_out(id);
        }
        Ok(id)
    }

    /// Keeps what the rules leave out in a folder that is gone, with the folders that it is in.
    fn keep_left_out(&mut self, gone: NodeId) {
        let excludes = self.scan.excludes;
        if self.scan.delete_excluded || !excludes.has_rules() {
            return;
        }
        let listing = &mut self.plan.listing;
        let mut left_out = HashSet::new();
        for id in listing.within(gone) {
            if !left_out.contains(&listing.parent(id)) && !excludes.excludes(&listing.path(id), listing.is_folder(id)) {
                continue;
            }
            left_out.insert(id);
            let mut kept = id;
            while listing.state(kept) == State::Gone {
                listing.set_state(kept, State::Unchanged);
                kept = listing.parent(kept);
            }
        }
        self.plan.kept += u64::from(listing.state(gone) == State::Unchanged);
    }

    /// Adds what the old manifest lists next as it is, because nothing is known about it at the source.
    pub fn keep(&mut self, matches: bool) -> Result<(), Ended> {
        if matches {
            let first = self.old.advance()?.expect("the old manifest has another entry");
            self.plan.is_found = true;
            self.add_old(first, State::Unchanged)?;
        }
        Ok(())
    }

    /// Adds an entry of the old manifest, and all in it.
    fn add_old(&mut self, first: Entry, state: State) -> Result<NodeId, Ended> {
        let stored_name = match &first.kind {
            Kind::File(_) => protected_name(stored_name(&first.name)),
            _ => stored_name(&first.name).to_owned(),
        };
        self.note_stored(stored_name);
        // How many of the open folders have lost their mirrors.
        let mut lost = usize::from(self.levels.last().is_some_and(|level| level.is_lost));
        let id = self.push_old(&first, state, &mut lost);
        self.plan.kept += u64::from(self.plan.listing.state(id) == State::Unchanged);
        let mut open: Vec<Folder> = Vec::new();
        if matches!(first.kind, Kind::Folder) {
            open.push(Folder::new(id, state == State::Gone));
        }
        while let Some(folder) = open.last_mut() {
            match self.old.advance()? {
                Some(entry) => {
                    let id = self.push_old(&entry, state, &mut lost);
                    folder.stored.insert(self.plan.listing.stored_name(id));
                    if matches!(entry.kind, Kind::Folder) {
                        let is_searched = folder.is_searched && !self.is_left_out(id);
                        open.push(Folder::new(id, is_searched));
                    }
                }
                None => {
                    // What no manifest lists would keep a folder that is gone.
                    if let Some(folder) = open.pop().filter(|folder| folder.is_searched) {
                        self.find_strays(folder.node, &folder.stored, &Taken::All);
                    }
                    lost = lost.saturating_sub(1);
                    self.plan.listing.end_folder();
                    self.mirror.leave().map_err(Ended::Source)?;
                }
            }
        }
        Ok(id)
    }

    /// Whether the rules leave a folder out, which then stays.
    fn is_left_out(&self, folder: NodeId) -> bool {
        !self.scan.delete_excluded && self.scan.excludes.excludes(&self.plan.listing.path(folder), true)
    }

    /// Adds an entry of the old manifest, and enters it if it is a folder. One that the mirror does not have any more is not
    /// listed again.
    fn push_old(&mut self, entry: &Entry, state: State, lost: &mut usize) -> NodeId {
        self.plan.files_before += u64::from(matches!(entry.kind, Kind::File(_)));
        let id = self.plan.listing.push(entry, state);
        let name = self.plan.listing.stored_name(id);
        let is_lost = *lost > 0 || self.mirror.lacks(&name, matches!(entry.kind, Kind::File(_)));
        if is_lost {
            self.plan.has_lost = true;
            self.plan.listing.set_state(id, State::Dropped);
        }
        if matches!(entry.kind, Kind::Folder) {
            self.mirror.enter(&name);
            *lost += usize::from(is_lost);
        }
        id
    }

    fn path_of(&self, old: &Entry) -> PathBuf {
        // The current path may already end with its name.
        let level = self.levels.last().expect("a folder is open");
        let folder = OsStr::from_bytes(&self.path.as_os_str().as_bytes()[..level.path_len]);
        Path::new(folder).join(stored_name(&old.name))
    }
}
