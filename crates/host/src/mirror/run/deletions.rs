//! What a run deletes in the mirror, and what it refuses to delete.

use super::{Change, Done, Run};
use crate::failure::{Code, Failure, Outcome};
use crate::file::{is_temporary, remove_if_left, unprotected_name};
use crate::folders::open_within;
use crate::lines::{complain, shown};
use crate::mirror::deletion::Deletion;
use crate::mirror::gone::Remover;
use crate::mirror::listing::{Listing, NodeId, State};
use crate::mirror::manifests::Before;
use crate::mirror::renewal::Renewal;
use crate::mirror::root::Root;
use crate::mirror::scan::Plan;
use crate::mirror::spellings::Spellings;
use crate::mirror::stray::Stray;
use crate::mirror::there::There;
use crate::strays::Strays;
use crate::words::count;
use phalanx_system::fs::FileType;
use std::collections::{BTreeSet, HashSet};
use std::path::{Path, PathBuf};

/// A run that would delete more files than this, and more than half of them, is refused.
const MANY: u64 = 100;

impl Run<'_> {
    fn remover<'r>(&'r self, renewal: &'r Renewal<'_>, sync: bool) -> Remover<'r> {
        match self.mirror() {
            Root::Objects(folder) => Remover::Objects(&**folder),
            Root::Folder(mirror) => Remover::Folder(Deletion { mirror, backup: renewal.backup.as_ref(), sync }),
        }
    }

    /// Finds what `--delete` deletes of these entries, which no manifest lists. What cannot be looked at is a failure, so nothing is
    /// deleted then. If there is no manifest, the next run deletes them, and they are only counted.
    pub fn find_strays(
        &self,
        listing: &Listing,
        mut paths: Vec<PathBuf>,
        there: &There,
        has_manifest: bool,
    ) -> Vec<Stray> {
        let mirror = self.mirror.as_ref().and_then(Root::folder).map(|folder| &**folder);
        if let Some(mirror) = mirror {
            let mut spellings = Spellings::default();
            paths.retain(|path| !spellings.are_at(mirror, listing, path));
        }
        if !self.options.delete {
            return paths.into_iter().map(Stray::that_stays).collect();
        }
        let takes = |path: &Path, kind| self.takes(path, kind);
        let find = |path: PathBuf| {
            Stray::find(mirror, there, path.clone(), &takes).unwrap_or_else(|e| {
                let failure = Failure::at_output(&self.options.mirror.join(&path), e);
                match has_manifest {
                    true => self.mirroring.tally.fail(&failure),
                    false => complain(format!("warning: {}", failure.line().unwrap_or_default())),
                }
                Stray::that_stays(path)
            })
        };
        paths.into_iter().map(find).collect()
    }

    /// Refuses a run that would delete suspiciously much.
    pub fn refuse_deletions(&self, plan: &Plan, strays: &[Stray], before: &Before) -> Outcome {
        let listing = &plan.listing;
        let files = || listing.all().filter(|id| !listing.is_folder(*id));
        // A source whose disk is not mounted may have other files. What is left out and gone stays, and says nothing.
        let is_found = plan.is_found || !plan.moved_from.is_empty();
        let source = shown(&self.options.source);
        let deletes = self.options.delete;
        let listed = match deletes {
            true => files().filter(|id| listing.state(*id) == State::Gone).count() - plan.moved_from.len(),
            false => replaced(plan).len(),
        } as u64;
        let unlisted = if deletes && before.is_there() { strays.iter().map(Stray::count).sum() } else { 0 };
        let all = listed + unlisted;
        let line = match self.options.max_delete {
            Some(most) if all > most => format!("{all} files would be deleted, and --max-delete allows {most}"),
            None if all > 0 && !is_found => {
                format!("it has none of the mirror's files, and all {all} would be deleted")
            }
            None if all > MANY && all * 2 > plan.files_before => {
                let more =
                    if unlisted > 0 { format!(", and {unlisted} that no manifest lists") } else { String::new() };
                format!("{listed} of the mirror's {} files would be deleted{more}", plan.files_before)
            }
            None if !deletes && plan.files_before > 0 && !is_found => {
                let number = count(plan.files_before, "file");
                complain(format!("warning: {source}: it has none of the mirror's {number}"));
                return Ok(());
            }
            _ => return Ok(()),
        };
        Err(Failure::new(Code::InputOutput, format!("{source}: {line}: nothing was done"))
            .hint(format!("--max-delete {all} insists")))
    }

    /// Leaves out of the plan what takes the place of an entry that stays: of one that is left out, and of one that is gone, unless it
    /// is deleted. That has to be done before its place is taken, so before all files are known to be written. A file or link of the
    /// same name is replaced, as if it had changed.
    pub fn refuse_places(&self, plan: &mut Plan) {
        let Plan { listing, conflicts, .. } = plan;
        let refuse = |listing: &mut Listing, (gone, next): (NodeId, NodeId), why: &str, hint: &str| {
            let path = self.options.mirror.join(listing.stored_path(gone));
            let line = format!("{}: {why}", shown(&path));
            self.mirroring.tally.fail(&Failure::new(Code::InputOutput, line).hint(hint));
            for id in std::iter::once(next).chain(listing.within(next)) {
                listing.set_state(id, State::Dropped);
            }
        };
        conflicts.retain(|(gone, next)| {
            let is_kept = |id| listing.state(id) == State::Unchanged;
            let stays = std::iter::once(*gone).chain(listing.within(*gone)).any(is_kept);
            if stays {
                let why = "something of it is left out, and another entry takes its place";
                refuse(listing, (*gone, *next), why, "--delete --delete-excluded removes it");
            }
            !stays
        });
        let deletes = self.options.delete && self.mirroring.tally.failed() == 0;
        conflicts.retain(|(gone, next)| {
            let is_folder = listing.is_folder(*gone);
            let stays = !deletes && (is_folder || listing.name(*gone) != listing.name(*next));
            if stays {
                let why = match is_folder {
                    true => "it was a folder, and is none at the source any more",
                    false => "it is gone at the source, and another entry takes its place",
                };
                refuse(listing, (*gone, *next), why, "--delete removes it, if nothing else fails");
            }
            !stays
        });
        // What is not written needs no place, and what has it stays.
        conflicts.retain(|(_, next)| listing.state(*next) != State::Dropped);
    }

    /// Deletes what has the name of an entry of another kind, and what no manifest lists in it. Keeps the other strays.
    pub fn make_way(
        &self,
        renewal: &Renewal<'_>,
        conflicts: &[(NodeId, NodeId)],
        strays: &mut Vec<Stray>,
        done: &mut Done,
    ) {
        let deletion = self.remover(renewal, self.mirroring.sealing.sync);
        renewal.with_listing(|listing| {
            for (gone, next) in conflicts.iter().copied() {
                if listing.is_folder(gone) {
                    let folder = listing.stored_path(gone);
                    strays.retain(|stray| !stray.path.starts_with(&folder) || self.stays(&deletion, stray, done));
                }
                let mut is_free = true;
                let all: Vec<_> = std::iter::once(gone).chain(listing.within(gone)).collect();
                let deleted = |listing: &Listing, id: NodeId| {
                    done.deleted += u64::from(!listing.is_folder(id));
                    done.is_shorter = true;
                    (renewal.witness)(listing, id, State::Gone);
                };
                deletion.gone(listing, &mut all.into_iter(), deleted, |path, e| {
                    is_free = false;
                    self.mirroring.tally.fail(&Failure::at_output(&self.options.mirror.join(path), e));
                });
                if !is_free {
                    listing.set_state(next, State::Dropped);
                }
            }
        });
    }

    /// Removes the temporary files that killed runs left in the mirror. If one cannot be removed, it only takes space.
    pub fn remove_left(&self, renewal: &Renewal<'_>, temporaries: &[PathBuf]) {
        let Root::Folder(mirror) = self.mirror() else { return };
        let mut touched = BTreeSet::new();
        for path in temporaries {
            let (folder, name) = (path.parent().unwrap_or(Path::new("")), path.file_name().unwrap_or_default());
            if open_within(mirror, folder).is_ok_and(|dir| remove_if_left(&dir, name).unwrap_or(false)) {
                touched.insert(folder.to_owned());
            }
        }
        self.restore_times(&touched, renewal);
    }

    /// Deletes what is gone at the source.
    pub fn delete(&self, renewal: &Renewal<'_>, strays: &[Stray], done: &mut Done) {
        let deletion = self.remover(renewal, false);
        let mut touched = BTreeSet::new();
        // These first: they may lie in folders that are gone.
        let left: Vec<_> = strays.iter().filter(|stray| self.stays(&deletion, stray, done)).collect();
        touched.extend(strays.iter().map(|stray| stray.path.parent().unwrap_or(Path::new("")).to_owned()));
        let failed =
            |path: &Path, e| self.mirroring.tally.fail(&Failure::at_output(&self.options.mirror.join(path), e));
        renewal.with_listing(|listing| {
            let all: Vec<_> = listing.all().filter(|id| listing.state(*id) == State::Gone).collect();
            deletion.gone(
                listing,
                &mut all.into_iter(),
                |listing, id| {
                    let parent = Some(listing.parent(id)).filter(|parent| listing.state(*parent) != State::Gone);
                    touched.extend(parent.map(|parent| listing.path(parent)));
                    done.deleted += u64::from(!listing.is_folder(id));
                    done.is_shorter = true;
                    (renewal.witness)(listing, id, State::Gone);
                },
                failed,
            );
        });
        // What is no stored file, link or folder of such stays.
        self.name_strays(left);
        self.restore_times(&touched, renewal);
    }

    /// Whether what no manifest lists is deleted, or looked into if it is a folder: a stored file, a link or a folder, unless the rules leave
    /// out what it would be unprotected to. A link that a killed run has left would be nothing.
    fn takes(&self, path: &Path, kind: FileType) -> bool {
        let name = path.file_name().unwrap_or_default();
        let path = match kind {
            FileType::RegularFile => unprotected_name(name).map(|name| path.with_file_name(name)),
            FileType::Symlink if is_temporary(name) => return true,
            FileType::Symlink | FileType::Directory => Some(path.to_owned()),
            _ => None,
        };
        let is_left_out = |path: &Path| {
            !self.options.delete_excluded && self.options.excludes.excludes(path, kind == FileType::Directory)
        };
        path.is_some_and(|path| !is_left_out(&path))
    }

    /// Deletes what no manifest lists. Returns whether something of it stays.
    fn stays(&self, deletion: &Remover<'_>, stray: &Stray, done: &mut Done) -> bool {
        let mut deleted = |path: &Path, is_folder: bool| {
            done.deleted += u64::from(!is_folder);
            if let Some(on_change) = &self.mirroring.on_change {
                let _ = on_change(Change { path: path.to_owned(), what: "deleted", from: None });
            }
        };
        deletion.stray(&self.options.mirror, stray, &mut deleted).unwrap_or_else(|e| {
            self.mirroring.tally.fail(&Failure::at_output(&self.options.mirror.join(&stray.path), e));
            true
        })
    }

    /// Says what the next run deletes of what lay in the mirror before it had a manifest.
    pub fn warn_of_strays(&self, strays: &[Stray]) {
        let number = strays.iter().map(Stray::count).sum();
        if number > 0 {
            let (mirror, number) = (shown(&self.options.mirror), count(number, "file"));
            complain(format!("warning: {mirror}: the next run with --delete deletes {number} that no manifest lists"));
        }
    }

    pub fn name_strays<'p>(&self, strays: impl IntoIterator<Item = &'p Stray>) {
        if self.mirroring.quiet {
            return;
        }
        let mut found = Strays::default();
        strays.into_iter().for_each(|stray| found.add(self.options.mirror.join(&stray.path)));
        found.line(&self.options.mirror).into_iter().for_each(complain);
    }
}

/// The files and links of the manifest whose content goes without `--delete` too: something of another kind has their name.
pub fn replaced(plan: &Plan) -> HashSet<NodeId> {
    let Plan { listing, conflicts, moved_from, .. } = plan;
    let moved: HashSet<&NodeId> = moved_from.values().collect();
    let is_replaced = |(gone, next): &&(NodeId, NodeId)| {
        let is_same_name = listing.name(*gone) == listing.name(*next) && listing.state(*gone) == State::Gone;
        is_same_name && !listing.is_folder(*gone) && !moved.contains(gone)
    };
    conflicts.iter().filter(is_replaced).map(|(gone, _)| *gone).collect()
}
