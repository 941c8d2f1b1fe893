//! A run that makes or renews a mirror: it compares the source with the manifest and the mirror, writes what is new or changed,
//! deletes what is gone, and writes the manifest.

mod deletions;

use super::MANIFEST;
use super::backup::Backup;
use super::deletion::restore_times;
use super::excludes::Excludes;
use super::journal::Journal;
use super::listing::{NodeId, State};
use super::manifests::{Before, Manifests, Sealing};
use super::renewal::{Compare, Comparison, Renewal};
use super::rewritten::Rewritten;
use super::root::Root;
use super::roots::{
    open_mirror, open_source, refuse_around, refuse_lost, refuse_missing, refuse_within, refuse_within_other,
};
use super::scan::{Ended, OldManifest, Plan, Scan};
use super::state::Seen;
use super::stray::Stray;
use super::there::There;
use super::unread;
use crate::failure::{Code, Failure, Outcome, worse};
use crate::file::{Carry, InputFile, is_url};
use crate::lines::{complain, shown};
use crate::transfer::tally::Tally;
use crate::words::{arrow, count, others, summary_of};
use crate::{Error, Result};
use phalanx_core::format::Header;
use phalanx_core::tree::{Contents, Recorder};
use phalanx_core::{Class, Error as CoreError, Progress, ProtectedFile, Sink, Source};
use phalanx_system::fs;
use std::collections::{BTreeSet, HashSet};
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

/// A mirror in a store is compared so often, if other runs write manifests meanwhile.
const TIMES: usize = 4;

/// What a mirror is made from, and how.
#[derive(Debug)]
pub struct Options {
    /// The path of the folder that is mirrored.
    pub source: PathBuf,
    /// The path of the mirror.
    pub mirror: PathBuf,
    /// What is left out.
    pub excludes: Excludes,
    /// Whether what is gone at the source is deleted in the mirror.
    pub delete: bool,
    /// Nothing is done if more files would be deleted.
    pub max_delete: Option<u64>,
    /// Whether what is left out is deleted too.
    pub delete_excluded: bool,
    /// Where what is replaced or deleted is kept.
    pub backup_dir: Option<PathBuf>,
    /// Whether files of the same length and time are compared by content.
    pub checksum: bool,
    /// Whether a new mirror is made where there was one.
    pub new: bool,
    /// Whether nothing is written.
    pub dry_run: bool,
    /// Which metadata stored files take over.
    pub carry: Carry,
}

impl Options {
    /// Mirrors one folder to another, and leaves out and deletes nothing.
    #[must_use]
    pub fn new(source: PathBuf, mirror: PathBuf) -> Self {
        Self {
            source,
            mirror,
            excludes: Excludes::none(),
            delete: false,
            max_delete: None,
            delete_excluded: false,
            backup_dir: None,
            checksum: false,
            new: false,
            dry_run: false,
            carry: Carry::All,
        }
    }
}

/// What is done with an entry, in a run or by a dry run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
    /// Its path in the source.
    pub path: PathBuf,
    /// A word for what is done: new, changed, compared, permissions, moved or deleted.
    pub what: &'static str,
    /// Where it was, if a dry run finds that it is moved.
    pub from: Option<PathBuf>,
}

impl Change {
    /// The line that names it.
    #[must_use]
    pub fn line(&self) -> String {
        let from = self.from.as_ref().map_or(String::new(), |from| format!(" (was {})", shown(from)));
        format!("{} {}{from}", self.what, shown(&self.path))
    }
}

/// Called with each change. A failure of a call in a dry run ends it.
pub type OnChange = dyn Fn(Change) -> Outcome + Send + Sync;

/// What a run did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Summary {
    /// Files and links that are new in the mirror.
    pub new: u64,
    /// Files and links that were written again.
    pub changed: u64,
    /// Files that were renamed in the mirror.
    pub moved: u64,
    /// Files that got other permissions or times only.
    pub metadata: u64,
    /// Files and links that were deleted.
    pub deleted: u64,
    /// Files and links that needed nothing.
    pub unchanged: u64,
    /// Bytes of plaintext that were protected.
    pub bytes: u64,
    /// The manifest that the mirror has now.
    pub manifest: Seen,
}

impl Summary {
    /// A line that sums up the run, which took this long.
    #[must_use]
    pub fn line(&self, options: &Options, tally: &Tally, took: Duration) -> String {
        let Self { new, changed, moved, metadata, deleted, unchanged, bytes, .. } = *self;
        let parts = [(changed, "changed"), (moved, "moved"), (metadata, "with new permissions"), (deleted, "deleted")];
        let parts: String = parts.iter().filter(|(n, _)| *n > 0).map(|(n, what)| format!(", {n} {what}")).collect();
        let (from, to) = (shown(&options.source), shown(&options.mirror));
        let line = format!("{from} {} {to}: {} new{parts}, {unchanged} unchanged", arrow(), count(new, "file"));
        let line = line + &format!("; {}", summary_of(bytes, took));
        line + &others([(tally.left_out(), "left out"), (tally.failed(), "failed")])
    }
}

/// A run that makes or renews a mirror.
pub struct Mirroring<'a> {
    /// What is mirrored, and how.
    pub options: &'a Options,
    /// How manifests are opened and written.
    pub sealing: Sealing<'a>,
    /// Counts failures and what is left out.
    pub tally: &'a Tally,
    /// Whether nothing is said of files that have no input.
    pub quiet: bool,
    /// Called with each change.
    pub on_change: Option<Arc<OnChange>>,
    /// Says whether the run is to end. It then deletes nothing more and leaves the old manifest, and the next run goes on.
    pub progress: Arc<dyn Progress + Send + Sync>,
    /// Works on the entries of a selection, which are entries of the source, and counts them in the tally. A failure means that
    /// it could not begin.
    pub walk: &'a dyn Fn(Arc<Renewal<'static>>) -> Outcome,
}

impl Mirroring<'_> {
    /// Makes or renews the mirror. Returns what was done, unless it is a dry run.
    ///
    /// # Errors
    /// If the mirror could not be begun, the manifest could not be written, or the run is cancelled. The failures of single files
    /// are in the tally.
    pub fn run(&self) -> Outcome<Option<Summary>> {
        let options = self.options;
        let source = open_source(&options.source)?;
        let manifest = || Header::read(&mut InputFile::open(&options.source.join(MANIFEST)).ok()?.file()).ok();
        if super::is_mirror(&options.source) && manifest().is_some() {
            // Somebody who wants to restore a mirror, and names it first.
            let line = format!("{}: it is a mirror itself", shown(&options.source));
            let failure = Failure::new(Code::InputOutput, line).on(&options.source);
            return Err(
                failure.hint("unprotect --recursive restores it; as a part of a source it is protected once more")
            );
        }
        let is_object = is_url(&options.mirror);
        if !is_object {
            refuse_within(&source, &options.source, &options.mirror, "the mirror")?;
            // What the source has is no part of the mirror, so it would be deleted.
            refuse_around(&source, &options.source, &options.mirror, "the mirror")?;
        }
        if let Some(backup) = &options.backup_dir {
            refuse_within(&source, &options.source, backup, "the folder for backups")?;
            refuse_around(&source, &options.source, backup, "the folder for backups")?;
        }
        if !options.new && !is_object {
            refuse_lost(&options.mirror, &self.sealing.trees)?;
        }
        self.sealing.recipients.find()?;
        let mirror = open_mirror(&options.mirror, options.dry_run)?;
        let manifests = Manifests::new(&self.sealing, &options.mirror, options.excludes.text());
        Run { options, mirroring: self, manifests, source, mirror, is_beaten: AtomicBool::new(false) }.go()
    }
}

/// A run whose ends are open.
struct Run<'a> {
    options: &'a Options,
    mirroring: &'a Mirroring<'a>,
    manifests: Manifests<'a>,
    source: File,
    /// `None` for a dry run without a mirror.
    mirror: Option<Root>,
    /// Whether another run was the first to write a manifest.
    is_beaten: AtomicBool,
}

/// What is counted beside the files that are written.
#[derive(Default)]
struct Done {
    deleted: u64,
    /// Whether the old manifest lists something, such as an empty folder, that was deleted.
    is_shorter: bool,
    unchanged: u64,
    /// What the rules leave out or could not be read, and is listed as before.
    kept: u64,
}

impl Run<'_> {
    /// Makes or renews the mirror. If another run in a store was the first to write a manifest, what both have written is compared
    /// once more.
    fn go(self) -> Outcome<Option<Summary>> {
        for _ in 1..TIMES {
            let done = self.once();
            if !self.is_beaten.swap(false, Ordering::Relaxed) {
                return done;
            }
            let mirror = shown(&self.options.mirror);
            complain(format!("{mirror}: another run has written its manifest meanwhile: it is compared again"));
        }
        self.once()
    }

    fn once(&self) -> Outcome<Option<Summary>> {
        let manifests = &self.manifests;
        let (before, old) = manifests.before(self.mirror.as_ref(), self.options.checksum)?;
        if is_url(&self.options.mirror) && !self.options.new && !before.is_there() {
            refuse_missing(&self.options.mirror, &manifests.trees)?;
        }
        let journal = match self.options.dry_run {
            true => None,
            false => self.journal(),
        };
        let scanned = self.scan(old, journal.as_ref(), before.rewritten.as_ref());
        let (mut plan, there) = scanned.map_err(|ended| manifests.failure(&self.options.source, ended))?;
        if !before.is_there() && !self.options.new && !journal.as_ref().is_some_and(Journal::has_records) {
            self.refuse_objects_of_others(&there)?;
        }
        unread::refuse(&plan, &before, manifests, self.options.delete)?;
        let mut strays = self.find_strays(&plan.listing, std::mem::take(&mut plan.strays), &there, before.is_there());
        drop(there);
        if self.options.dry_run {
            self.refuse_places(&mut plan);
            let printed = self.print(&plan, &strays, &before);
            return worse(printed, self.refuse_deletions(&plan, &strays, &before)).map(|()| None);
        }
        self.refuse_deletions(&plan, &strays, &before)?;
        self.refuse_places(&mut plan);
        let mut renewal = Renewal::new(plan.listing, plan.moved_from, self.options.carry);
        renewal.begin_at(self.mirror());
        renewal.journal = journal;
        renewal.doubtful = plan.doubtful;
        renewal.copies = manifests.trees.copies();
        self.prepare(&mut renewal)?;
        let mut done = Done { kept: plan.kept, is_shorter: plan.has_lost, ..Done::default() };
        self.remove_left(&renewal, &plan.temporaries);
        self.make_way(&renewal, &plan.conflicts, &mut strays, &mut done);
        let renewal = self.walk(renewal, &mut done)?;
        if self.mirroring.progress.is_cancelled() {
            return Err(Failure::at(&self.options.mirror, CoreError::Cancelled));
        }
        self.finish(renewal, &strays, before, done).map(Some)
    }

    /// The journal of the run. Without one, nothing is known of interrupted runs.
    fn journal(&self) -> Option<Journal> {
        Journal::open(&self.manifests.trees, &self.options.mirror).unwrap_or_else(|e| {
            complain(format!("warning: the journal of the mirror could not be opened: {e}"));
            None
        })
    }

    /// Adds what the options ask for.
    fn prepare(&self, renewal: &mut Renewal<'static>) -> Outcome {
        if let (Some(path), Root::Folder(mirror)) = (&self.options.backup_dir, self.mirror()) {
            let at = |e: Error| match &e {
                Error::Core(CoreError::Write(why)) if why.kind() == io::ErrorKind::NotFound => {
                    Failure::at_output(path, e).hint("the folder above it must exist")
                }
                _ => Failure::at_output(path, e),
            };
            renewal.backup = Some(Backup::new(path, mirror, self.mirroring.sealing.sync).map_err(at)?);
        }
        renewal.compare = self.options.checksum.then(|| self.comparing());
        if let Some(on_change) = self.mirroring.on_change.clone() {
            renewal.witness = Box::new(move |listing, id, state| {
                if let Some(what) = word(state) {
                    // The end of the run reports a standard output that is closed.
                    let _ = on_change(Change { path: listing.path(id), what, from: None });
                }
            });
        }
        Ok(())
    }

    /// Works on what is new or changed.
    fn walk(&self, renewal: Renewal<'static>, done: &mut Done) -> Outcome<Renewal<'static>> {
        let unchanged = renewal.with_listing(|listing| {
            let files = listing.all().filter(|id| !listing.is_folder(*id));
            files.filter(|id| listing.state(*id) == State::Unchanged).count()
        });
        done.unchanged = unchanged as u64;
        let renewal = Arc::new(renewal);
        if !renewal.is_idle() {
            (self.mirroring.walk)(renewal.clone())?;
        }
        let renewal = Arc::into_inner(renewal).expect("the walk is over");
        self.restore_times(&renewal.left(), &renewal);
        Ok(renewal)
    }

    /// Deletes what is gone, and writes the manifest.
    fn finish(&self, renewal: Renewal<'_>, strays: &[Stray], mut before: Before, mut done: Done) -> Outcome<Summary> {
        let tally = self.mirroring.tally;
        if self.options.delete && tally.failed() == 0 {
            self.delete(&renewal, if before.is_there() { strays } else { &[] }, &mut done);
        } else if self.options.delete {
            complain("warning: something failed, so nothing more is deleted in the mirror");
        }
        if !self.options.delete || !before.is_there() {
            self.name_strays(strays);
        }
        if self.options.delete && !before.is_there() {
            self.warn_of_strays(strays);
        }
        let compares = self.options.checksum && self.manifests.signs();
        if compares && done.kept + renewal.with_listing(|listing| unread::unread(listing)) == 0 {
            before = before.compared();
        }
        if let Some(backup) = &renewal.backup {
            let path = self.options.backup_dir.as_ref().unwrap_or(&self.options.mirror);
            backup.kept().map_err(|e| Failure::at_output(path, Error::write(e)))?;
        }
        // What a killed run has written is listed, and not by the old manifest.
        let is_listed = !renewal.journal.as_ref().is_some_and(Journal::has_records);
        let is_same = renewal.is_same() && !done.is_shorter && is_listed;
        let write = |listing: &mut _| self.manifests.write(self.mirror(), &self.source, listing, &before, is_same);
        let manifest = renewal.with_listing(write).inspect_err(|_| {
            let is_beaten = renewal.journal.is_some() && before.is_replaced(self.mirror());
            self.is_beaten.store(is_beaten, Ordering::Relaxed);
        })?;
        let number = |number: &AtomicU64| number.load(Ordering::Relaxed);
        let counts = &renewal.counts;
        let summary = Summary {
            new: number(&counts.new),
            changed: number(&counts.changed),
            moved: number(&counts.moved),
            metadata: number(&counts.metadata),
            deleted: done.deleted,
            unchanged: done.unchanged + number(&counts.same),
            bytes: tally.bytes(),
            manifest,
        };
        if let Some(journal) = renewal.journal {
            journal.end();
        }
        Ok(summary)
    }

    /// The mirror's root.
    fn mirror(&self) -> &Root {
        self.mirror.as_ref().expect("only a dry run has no mirror")
    }

    /// Gives folders of the mirror the times of their originals again. In a store they have none.
    fn restore_times(&self, folders: &BTreeSet<PathBuf>, renewal: &Renewal<'_>) {
        if let Root::Folder(mirror) = self.mirror() {
            restore_times(mirror, &self.source, folders, renewal.carry);
        }
    }

    /// Makes sure that a path leads to something in the source. A scan does not follow links.
    fn find(&self, path: &Path) -> io::Result<()> {
        let source = &self.options.source;
        for folder in path.ancestors().skip(1).filter(|folder| !folder.as_os_str().is_empty()) {
            if source.join(folder).symlink_metadata()?.is_symlink() {
                return Err(io::Error::other(format!("{} is a link", shown(&source.join(folder)))));
            }
        }
        source.join(path).symlink_metadata().map(drop)
    }

    fn scan(
        &self,
        old: Option<OldManifest<'_>>,
        journal: Option<&Journal>,
        rewritten: Option<&Rewritten>,
    ) -> Result<(Plan, There), Ended> {
        let at_source = |e: std::io::Error| Ended::Source(Error::read(e));
        for path in self.options.excludes.only().into_iter().flatten() {
            if let Err(e) = self.find(path) {
                self.mirroring.tally.fail(&Failure::at(&self.options.source.join(path), Error::read(e)));
            }
        }
        let scan = Scan {
            source: self.source.try_clone().map_err(at_source)?,
            source_path: &self.options.source,
            mirror: self.mirror.as_ref().map_or_else(|| There::folder(None), Root::there).map_err(Ended::Mirror)?,
            excludes: &self.options.excludes,
            delete_excluded: self.options.delete_excluded,
            owners: phalanx_system::process::geteuid().is_root(),
            checksum: self.options.checksum,
            all: false,
            tally: self.mirroring.tally,
            written_before: &|path, stat| journal.and_then(|journal| journal.written(path, stat)),
            rewritten,
            progress: &*self.mirroring.progress,
        };
        scan.run(old)
    }

    /// Refuses to make a mirror where a store has objects already, or within another mirror: they would be replaced.
    fn refuse_objects_of_others(&self, there: &There) -> Outcome {
        let path = &self.options.mirror;
        let There::Objects(_) = there else { return Ok(()) };
        refuse_within_other(path)?;
        if there.entries().map_err(|e| Failure::at(path, e))?.is_empty() {
            return Ok(());
        }
        let line = format!("{}: it has objects already, and no manifest", shown(path));
        Err(Failure::new(Code::InputOutput, line)
            .on(path)
            .hint("--new makes a mirror there, and replaces objects of the same names"))
    }

    /// Compares the content of files with that of stored files.
    fn comparing(&self) -> Box<Compare<'static>> {
        let recipients = self.mirroring.sealing.recipients.clone();
        let roster = self.mirroring.sealing.roster.clone();
        let progress = self.mirroring.progress.clone();
        Box::new(move |source: &File, stored: Source<'_>, expected: &Contents| -> Result<bool> {
            let recorder = Recorder::new(&*progress);
            let differs = AtomicBool::new(false);
            let opened = ProtectedFile::open(stored, recipients.opener()).map_err(Error::from);
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

    /// Calls `on_change` with what would be done.
    fn print(&self, plan: &Plan, strays: &[Stray], before: &Before) -> Outcome {
        let Some(on_change) = &self.mirroring.on_change else { return Ok(()) };
        let listing = &plan.listing;
        let moved_away: HashSet<&NodeId> = plan.moved_from.values().collect();
        let replaced = deletions::replaced(plan);
        let is_deleted = |id| match self.options.delete {
            true => !moved_away.contains(&id),
            false => replaced.contains(&id),
        };
        for id in listing.all() {
            let state = listing.state(id);
            if state == State::Gone && !is_deleted(id) {
                continue;
            }
            let is_folder_only = listing.is_folder(id) && state != State::New && state != State::Gone;
            if let (Some(what), false) = (word(state), is_folder_only) {
                let from = plan.moved_from.get(&id).map(|from| listing.path(*from));
                on_change(Change { path: listing.path(id), what, from })?;
            }
        }
        if self.options.delete && before.is_there() {
            let deleted = |path: &Path| on_change(Change { path: path.to_owned(), what: "deleted", from: None });
            strays.iter().try_for_each(|stray| stray.each(deleted))?;
        }
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
