//! `phalanx mirror`

use super::manifest::locked;
use super::manifests::{Before, Manifests};
use crate::args::MirrorPlan;
use crate::transfer::{Protect, Transfer, tree};
use phalanx_core::tree::{Contents, Recorder};
use phalanx_core::{Class, ProtectedFile, Sink};
use phalanx_host::failure::{Code, Failure, Outcome, worse};
use phalanx_host::file::{regular, unprotected_name};
use phalanx_host::folders::{FOLDER, id, is_within, open_parent};
use phalanx_host::key_files::KeyFiles;
use phalanx_host::lines::{complain, shown};
use phalanx_host::mirror::backup::Backup;
use phalanx_host::mirror::deletion::{Deletion, restore_times};
use phalanx_host::mirror::journal::Journal;
use phalanx_host::mirror::listing::{Listing, NodeId, State};
use phalanx_host::mirror::renewal::{Compare, Comparison, Counts, Renewal};
use phalanx_host::mirror::rewritten::Rewritten;
use phalanx_host::mirror::scan::{Ended, OldManifest, Plan, Scan};
use phalanx_host::mirror::selection::Selection;
use phalanx_host::mirror::state::Seen;
use phalanx_host::report::{self, Status};
use phalanx_host::say::say;
use phalanx_host::secrets::Recipients;
use phalanx_host::strays::Strays;
use phalanx_host::transfer::tally::Tally;
use phalanx_host::verbosity::Verbosity;
use phalanx_host::words::{arrow, count, others, summary_of};
use phalanx_host::{Error, Result};
use rustix::fs::{self, Mode, OFlags};
use rustix::io::Errno;
use std::collections::{BTreeSet, HashSet};
use std::ffi::OsStr;
use std::fs::File;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Instant;

/// A run that would delete more files than this, and more than half of them, is refused.
const MANY: u64 = 100;

pub fn run(plan: MirrorPlan, verbosity: Verbosity) -> Outcome {
    if plan.json {
        report::begin_brief(Status::Protected);
    }
    report::end(mirror(plan, verbosity))
}

fn mirror(mut plan: MirrorPlan, verbosity: Verbosity) -> Outcome {
    let started = Instant::now();
    let source = open_source(&plan.source)?;
    refuse_within(&source, &plan.source, &plan.mirror)?;
    let mut keys = KeyFiles::new(&plan.keys.keys, &[]);
    if !plan.keys.recipients.is_empty() || !plan.keys.recipients_files.is_empty() {
        keys = keys.sparing_identities();
    }
    let recipients = Arc::new(Recipients::new(std::mem::take(&mut plan.keys), true));
    let action = Protect { recipients: recipients.clone(), suite: plan.suite, chunk_size: plan.chunk_size };
    let transfer = Transfer::new(action, plan.destination.clone(), keys, &plan.engine, verbosity)?;
    transfer.prepare()?;
    let mirror = open_mirror(&plan)?;
    let tally = Tally::default();
    let run = Run { plan: &plan, transfer: &transfer, recipients, source, mirror, tally, verbosity, started };
    run.go()
}

/// A run of the command, whose ends are open.
struct Run<'a> {
    plan: &'a MirrorPlan,
    transfer: &'a Transfer<Protect>,
    recipients: Arc<Recipients>,
    source: File,
    /// `None` for a dry run without a mirror.
    mirror: Option<Arc<File>>,
    tally: Tally,
    verbosity: Verbosity,
    started: Instant,
}

/// What a run did.
#[derive(Default)]
struct Done {
    deleted: u64,
    /// Whether the old manifest lists something, such as an empty folder, that was deleted.
    is_shorter: bool,
    bytes: u64,
    unchanged: u64,
}

impl Run<'_> {
    fn go(self) -> Outcome {
        let manifests = Manifests::new(self.transfer, &self.plan.mirror, self.plan.excludes.text());
        let (before, old) = manifests.before(self.mirror.clone())?;
        let journal = match self.plan.dry_run {
            true => None,
            false => Journal::open(&manifests.trees, &self.plan.mirror).unwrap_or_default(),
        };
        let scanned = self.scan(old, journal.as_ref(), before.rewritten.as_ref());
        let plan = scanned.map_err(|ended| manifests.failure(&self.plan.source, ended))?;
        if self.plan.dry_run {
            let printed = worse(self.print(&plan, &before), self.refuse_deletions(&plan, &before));
            return worse(printed, self.tally.outcome());
        }
        self.refuse_deletions(&plan, &before)?;
        let Plan { listing, moved_from, conflicts, strays, .. } = plan;
        let mut renewal = Renewal::new(listing, moved_from, self.plan.destination.carry);
        renewal.begin(self.mirror());
        renewal.journal = journal;
        self.complete(renewal, &conflicts, &strays, &manifests, &before)
    }

    /// Does what was planned, and writes the manifest.
    fn complete(
        &self,
        mut renewal: Renewal<'static>,
        conflicts: &[(NodeId, NodeId)],
        strays: &[PathBuf],
        manifests: &Manifests<'_>,
        before: &Before,
    ) -> Outcome {
        if let Some(path) = &self.plan.backup_dir {
            let at = |e| Failure::at_output(path, e).hint("the folder above it must exist");
            renewal.backup = Some(Backup::new(path, self.mirror()).map_err(at)?);
        }
        renewal.compare = self.plan.checksum.then(|| self.comparing());
        let (json, verbose) = (report::is_on(), self.verbosity.verbose);
        renewal.witness = Box::new(move |listing, id, state| {
            if verbose {
                announce(listing, id, state, json);
            }
        });
        let mut done = Done::default();
        self.make_way(&renewal, conflicts, &mut done);
        let unchanged = renewal.with_listing(|listing| {
            let files = listing.all().filter(|id| !listing.is_folder(*id));
            files.filter(|id| listing.state(*id) == State::Unchanged).count()
        });
        done.unchanged = unchanged as u64;
        let renewal = Arc::new(renewal);
        let mut outcome = Ok(());
        if !renewal.is_idle() {
            let selection: Arc<dyn Selection> = renewal.clone();
            let written = tree::run(self.transfer, &self.plan.source, Some(&self.plan.mirror), Some(selection))?;
            done.bytes = written.bytes();
            outcome = written.outcome();
        }
        let renewal = Arc::into_inner(renewal).expect("the walk is over");
        outcome = worse(outcome, self.tally.outcome());
        restore_times(self.mirror(), &self.source, &renewal.left(), renewal.carry);
        if self.plan.delete && outcome.is_ok() {
            let strays = if before.is_there() { strays } else { &[] };
            self.delete(&renewal, strays, &mut done);
            outcome = self.tally.outcome();
        } else if self.plan.delete {
            complain("warning: something failed, so nothing is deleted in the mirror");
        }
        let stay = !self.plan.delete || !before.is_there();
        if stay && !self.verbosity.quiet {
            self.name_strays(strays);
        }
        done.unchanged += renewal.counts.same.load(Ordering::Relaxed);
        let is_same = renewal.is_same() && !done.is_shorter;
        let written =
            renewal.with_listing(|listing| manifests.write(self.mirror(), &self.source, listing, before, is_same));
        let seen = written?;
        self.report(&renewal.counts, &done, seen)?;
        if let Some(journal) = renewal.journal {
            journal.end();
        }
        outcome
    }

    /// The mirror's root.
    fn mirror(&self) -> &Arc<File> {
        self.mirror.as_ref().expect("only a dry run has no mirror")
    }

    fn scan(
        &self,
        old: Option<OldManifest<'_>>,
        journal: Option<&Journal>,
        rewritten: Option<&Rewritten>,
    ) -> Result<Plan, Ended> {
        let at_source = |e: std::io::Error| Ended::Source(Error::read(e));
        for path in self.plan.excludes.only().into_iter().flatten() {
            if let Err(e) = self.plan.source.join(path).symlink_metadata() {
                self.tally.fail(&Failure::at(&self.plan.source.join(path), Error::read(e)));
            }
        }
        let scan = Scan {
            source: self.source.try_clone().map_err(at_source)?,
            source_path: &self.plan.source,
            mirror: self.mirror.as_ref().map(|mirror| mirror.try_clone()).transpose().map_err(at_source)?,
            excludes: &self.plan.excludes,
            delete_excluded: self.plan.delete_excluded,
            owners: rustix::process::geteuid().is_root(),
            checksum: self.plan.checksum,
            all: false,
            tally: &self.tally,
            written_before: &|path, stat| journal.and_then(|journal| journal.written(path, stat)),
            rewritten,
        };
        scan.run(old)
    }

    /// Refuses a run that would delete suspiciously much.
    fn refuse_deletions(&self, plan: &Plan, before: &Before) -> Outcome {
        let listing = &plan.listing;
        let files = || listing.all().filter(|id| !listing.is_folder(*id));
        if !self.plan.delete {
            if plan.files_before > 0 && files().all(|id| listing.state(id) == State::Gone) {
                let number = count(plan.files_before, "file");
                complain(format!("warning: {}: it is empty, and the mirror has {number}", shown(&self.plan.source)));
            }
            return Ok(());
        }
        let gone = files().filter(|id| listing.state(*id) == State::Gone).count() - plan.moved_from.len();
        let strays = if before.is_there() { plan.strays.len() } else { 0 };
        let gone = (gone + strays) as u64;
        let is_left = files().any(|id| listing.state(id) != State::Gone);
        let line = match self.plan.max_delete {
            Some(most) if gone > most => format!("{gone} files would be deleted, and --max-delete allows {most}"),
            None if gone > 0 && !is_left => format!("it is empty, and all {gone} files of the mirror would be deleted"),
            None if gone > MANY && gone * 2 > plan.files_before => {
                format!("{gone} of the mirror's {} files would be deleted", plan.files_before)
            }
            _ => return Ok(()),
        };
        let line = format!("{}: {line}: nothing was done", shown(&self.plan.source));
        Err(Failure::new(Code::InputOutput, line).hint(format!("--max-delete {gone} insists")))
    }

    /// Deletes what has the name of an entry of another kind.
    fn make_way(&self, renewal: &Renewal<'_>, conflicts: &[(NodeId, NodeId)], done: &mut Done) {
        let deletion = Deletion { mirror: self.mirror(), backup: renewal.backup.as_ref() };
        renewal.with_listing(|listing| {
            for (gone, next) in conflicts.iter().copied() {
                let mut is_free = self.plan.delete || !listing.is_folder(gone);
                let path = self.plan.mirror.join(listing.stored_path(gone));
                if is_free {
                    let all: Vec<_> = std::iter::once(gone).chain(listing.within(gone)).collect();
                    let deleted = |listing: &Listing, id: NodeId| {
                        done.deleted += u64::from(!listing.is_folder(id));
                        done.is_shorter = true;
                    };
                    deletion.gone(listing, &mut all.into_iter(), deleted, |path, e| {
                        is_free = false;
                        self.tally.fail(&Failure::at_output(&self.plan.mirror.join(path), e));
                    });
                } else {
                    let line = format!("{}: it was a folder, and is none at the source any more", shown(&path));
                    self.tally.fail(&Failure::new(Code::InputOutput, line).hint("--delete removes it"));
                }
                if !is_free {
                    listing.set_state(next, State::Dropped);
                }
            }
        });
    }

    /// Deletes what is gone at the source.
    fn delete(&self, renewal: &Renewal<'_>, strays: &[PathBuf], done: &mut Done) {
        let deletion = Deletion { mirror: self.mirror(), backup: renewal.backup.as_ref() };
        let mut touched = BTreeSet::new();
        let failed = |path: &Path, e| self.tally.fail(&Failure::at_output(&self.plan.mirror.join(path), e));
        renewal.with_listing(|listing| {
            let all: Vec<_> = listing.all().filter(|id| listing.state(*id) == State::Gone).collect();
            deletion.gone(
                listing,
                &mut all.into_iter(),
                |listing, id| {
                    touched.insert(listing.path(listing.parent(id)));
                    done.deleted += u64::from(!listing.is_folder(id));
                    done.is_shorter = true;
                    (renewal.witness)(listing, id, State::Gone);
                },
                failed,
            );
        });
        let is_ours = |name: &OsStr| unprotected_name(name).is_some();
        for path in strays {
            match deletion.stray(path, &is_ours) {
                Ok(deleted) => done.deleted += deleted,
                Err(e) => failed(path, e),
            }
            touched.insert(path.parent().unwrap_or(Path::new("")).to_owned());
        }
        if !self.verbosity.quiet {
            // What is no stored file, link or folder of such stays.
            let stay = strays.iter().filter(|path| self.plan.mirror.join(path).symlink_metadata().is_ok());
            self.name_strays(stay);
        }
        restore_times(self.mirror(), &self.source, &touched, renewal.carry);
    }

    fn name_strays<'p>(&self, strays: impl IntoIterator<Item = &'p PathBuf>) {
        let mut found = Strays::default();
        strays.into_iter().for_each(|path| found.add(self.plan.mirror.join(path)));
        found.line(&self.plan.mirror).into_iter().for_each(complain);
    }

    /// Compares the content of files with that of stored files.
    fn comparing(&self) -> Box<Compare<'static>> {
        let recipients = self.recipients.clone();
        let roster = self.transfer.engines.small_crew().roster;
        Box::new(move |source: &File, stored: &File, expected: &Contents| -> Result<bool> {
            let recorder = Recorder::new(&());
            let differs = AtomicBool::new(false);
            let opened = ProtectedFile::open(regular(stored)?, recipients.opener()).map_err(Error::from);
            let compared = opened.and_then(|opened| {
                let sink = Sink::stream(Comparison::new(source, &differs));
                Ok(opened.unprotect(&roster, sink, &recorder)?)
            });
            match compared {
                Ok(len) => {
                    let same_len = fs::fstat(source).is_ok_and(|stat| stat.st_size as u64 == len);
                    Ok(same_len && recorder.contents() == Some(*expected))
                }
                Err(_) if differs.load(Ordering::Relaxed) => Ok(false),
                Err(e) if e.class() == Class::NotAuthentic => Ok(false),
                Err(e) => Err(e),
            }
        })
    }

    /// Prints what would be done.
    fn print(&self, plan: &Plan, before: &Before) -> Outcome {
        let listing = &plan.listing;
        let moved_away: HashSet<&NodeId> = plan.moved_from.values().collect();
        for id in listing.all() {
            let state = listing.state(id);
            if state == State::Gone && (!self.plan.delete || moved_away.contains(&id)) {
                continue;
            }
            let is_folder_only = listing.is_folder(id) && state != State::New && state != State::Gone;
            if let (Some(word), false) = (word(state), is_folder_only) {
                let from = plan.moved_from.get(&id).map(|from| shown(&listing.path(*from)));
                let from = from.map_or(String::new(), |from| format!(" (was {from})"));
                say(format!("{word} {}{from}", shown(&listing.path(id))))?;
            }
        }
        if self.plan.delete && before.is_there() {
            plan.strays.iter().try_for_each(|path| say(format!("deleted {}", shown(path))))?;
        }
        Ok(())
    }

    fn report(&self, counts: &Counts, done: &Done, seen: Seen) -> Outcome {
        let number = |number: &AtomicU64| number.load(Ordering::Relaxed);
        let (new, changed) = (number(&counts.new), number(&counts.changed));
        let (moved, metadata) = (number(&counts.moved), number(&counts.metadata));
        report::add(serde_json::json!({
            "new": new, "changed": changed, "moved": moved, "metadata": metadata, "deleted": done.deleted,
            "unchanged": done.unchanged, "generation": seen.generation, "digest": seen.digest.to_string(),
        }));
        if self.verbosity.quiet {
            return Ok(());
        }
        let parts =
            [(changed, "changed"), (moved, "moved"), (metadata, "with new permissions"), (done.deleted, "deleted")];
        let parts: String = parts.iter().filter(|(n, _)| *n > 0).map(|(n, what)| format!(", {n} {what}")).collect();
        let (from, to) = (shown(&self.plan.source), shown(&self.plan.mirror));
        let mut line =
            format!("{from} {} {to}: {} new{parts}, {} unchanged", arrow(), count(new, "file"), done.unchanged);
        line += &format!("; {}", summary_of(done.bytes, self.started.elapsed()));
        line += &others([(self.tally.left_out(), "left out"), (self.tally.failed(), "failed")]);
        complain(line);
        Ok(())
    }
}

/// The word for what is done with an entry.
fn word(state: State) -> Option<&'static str> {
    match state {
        State::New => Some("new"),
        State::Changed => Some("changed"),
        State::Compared => Some("compared"),
        State::Metadata => Some("permissions"),
        State::Moved => Some("moved"),
        State::Gone => Some("deleted"),
        State::Unchanged | State::Dropped => None,
    }
}

/// Names an entry that is done.
fn announce(listing: &Listing, id: NodeId, state: State, json: bool) {
    let Some(word) = word(state) else { return };
    let path = listing.path(id);
    // The end of the run reports a standard output that is closed.
    let _ = match json {
        true => report::entry(&path, word),
        false => say(format!("{word} {}", shown(&path))),
    };
}

fn open_source(path: &Path) -> Outcome<File> {
    let opened = fs::open(path, FOLDER.difference(OFlags::NOFOLLOW), Mode::empty());
    opened.map(File::from).map_err(|e| match e {
        Errno::NOTDIR => {
            Failure::new(Code::InputOutput, format!("{}: not a folder", shown(path))).hint("protect takes files")
        }
        e => Failure::at(path, Error::read(e.into())),
    })
}

/// Refuses a mirror within its source.
fn refuse_within(source: &File, source_path: &Path, mirror: &Path) -> Outcome {
    let source = id(source).map_err(|e| Failure::at(source_path, Error::read(e.into())))?;
    let (parent, name) = open_parent(mirror).map_err(|e| Failure::at(mirror, Error::write(e.into())))?;
    let is_there =
        fs::statat(&parent, &name, fs::AtFlags::empty()).is_ok_and(|stat| (stat.st_dev, stat.st_ino) == source);
    match is_within(&parent, source) {
        Ok(false) if !is_there => Ok(()),
        Ok(_) => Err(Failure::usage(format!("{}: the mirror is within the source", shown(mirror)))),
        Err(e) => Err(Failure::at(mirror, Error::write(e.into()))),
    }
}

/// Opens the mirror, and makes it if it is not there. Nobody else writes to it meanwhile.
fn open_mirror(plan: &MirrorPlan) -> Outcome<Option<Arc<File>>> {
    let path = &plan.mirror;
    let at = |e: std::io::Error| Failure::at_output(path, Error::write(e));
    let open = || fs::open(path, FOLDER.difference(OFlags::NOFOLLOW), Mode::empty()).map(File::from);
    let mirror = match open() {
        Err(Errno::NOENT) if plan.dry_run => return Ok(None),
        Err(Errno::NOENT) => {
            std::fs::DirBuilder::new().mode(0o700).create(path).map_err(at)?;
            open().map_err(|e| at(e.into()))?
        }
        Err(Errno::NOTDIR) => {
            return Err(Failure::new(Code::InputOutput, format!("{}: not a folder", shown(path))));
        }
        opened => opened.map_err(|e| at(e.into()))?,
    };
    // A dry run reads only.
    let mirror = if plan.dry_run { mirror } else { locked(mirror, path)? };
    Ok(Some(Arc::new(mirror)))
}
