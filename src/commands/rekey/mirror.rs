//! `rekey --fresh` of a mirror that has a manifest.
//!
//! Every file gets new chunks, so the manifest is written again, at the end. Only what is as it lists is worked on. What is not
//! stays listed as it was, so that `verify` goes on naming it.
//!
//! Until the new manifest is written, the old one does not list the files that are done. [`Rewritten`] keeps account of these. If
//! a run is killed, the same command finds them there, takes them for what the manifest lists, and does all files again, since
//! its keys may be others. The keys that the first run added must be at hand then, as for every slot that stays. `mirror` finds them there too.

use super::report::Report;
use phalanx_core::tree::{Digest, Head};
use phalanx_core::{KeySource, NewFile, Opener, Recipient, Roster, Suite, Ways};
use phalanx_host::failure::{Failure, Outcome};
use phalanx_host::file::{InPlace, InputFile, regular};
use phalanx_host::lines::complain;
use phalanx_host::mirror::MANIFEST;
use phalanx_host::mirror::check::Checked;
use phalanx_host::mirror::listing::{Listing, State};
use phalanx_host::mirror::manifest::{Listed, Pins, lock};
use phalanx_host::mirror::rewritten::Rewritten;
use phalanx_host::mirror::state::{Seen, Trees};
use phalanx_host::mirror::store::{self, Written};
use phalanx_host::{Error, Result};
use phalanx_system::files::mode_of_open;
use std::ffi::OsStr;
use std::fs::File;
use std::path::Path;
use std::sync::Arc;

/// A mirror that is about to get new files.
pub struct FreshMirror {
    /// It is locked.
    root: Arc<File>,
    /// So is its manifest.
    manifest: InPlace,
    suite: Suite,
    recipients: Vec<Recipient>,
    head: Head,
    digest: Digest,
    trees: Trees,
    /// What is written to it.
    pub rewritten: Arc<Rewritten>,
    /// What is done to the manifest.
    pub report: Report,
}

/// What of a mirror is as its manifest lists it, and what is not.
pub struct Compared {
    pub right: Arc<Checked>,
    pub wrong: u64,
    /// The findings, which have been reported.
    pub outcome: Outcome,
}

impl FreshMirror {
    /// Opens the manifest, and compares the mirror with it. Nothing is changed yet, so whatever cannot be done later fails now.
    /// `apply` changes the ways into the manifest, and returns what was to be removed but has no slot.
    pub fn begin(
        path: &Path,
        opener: &Opener<impl KeySource>,
        roster: Arc<Roster>,
        apply: impl FnOnce(&mut Ways) -> Result<Vec<String>>,
    ) -> Outcome<(Self, Compared)> {
        let at = |e| Failure::at(&path.join(MANIFEST), e);
        let root = Arc::new(lock(path)?);
        let input = InputFile::open_in(root.clone(), OsStr::new(MANIFEST)).map_err(at)?;
        let mut manifest = InPlace::open(&input).map_err(at)?;
        let (mut ways, unfinished) = manifest.ways(opener).map_err(at)?;
        let mut report = Report::new(ways.header(), ways.opened_slot(), unfinished);
        report.missing = apply(&mut ways).map_err(at)?;
        let recipients = ways.recipients(opener).map_err(|e| at(e.into()))?;
        let Some(mut listed) = Listed::read(path, opener, roster)? else {
            return Err(at(phalanx_core::Error::Changed.into()));
        };
        listed.check_age(path, &Pins::default())?;
        let (head, digest, trees) = (listed.head.clone(), listed.digest, Trees::of_user());
        let rewritten = Arc::new(Rewritten::begin(&trees, head.tree).map_err(at)?);
        adopt(&rewritten, &root, &mut listed.listing).map_err(|e| Failure::at(path, e))?;
        let (listing, wrong, outcome) = listed.check(path)?;
        let compared = Compared { right: Arc::new(Checked::new(listing)), wrong, outcome };
        let suite = ways.header().suite();
        Ok((Self { root, manifest, suite, recipients, head, digest, trees, rewritten, report }, compared))
    }

    /// Writes the manifest of what is in the mirror now. Returns what was done to it.
    pub fn finish(mut self, path: &Path, right: Arc<Checked>, roster: &Roster) -> Outcome<Report> {
        let at = |e| {
            let hint = "it does not list the files that are done: the same rekey again, with the added keys at \
                        hand, mends it, and so does mirror";
            Failure::at_output(&path.join(MANIFEST), e).hint(hint)
        };
        let mut listing = Arc::into_inner(right).expect("the walk is over").into_listing();
        adopt(&self.rewritten, &self.root, &mut listing).map_err(at)?;
        for id in listing.all().filter(|id| listing.state(*id) == State::Dropped).collect::<Vec<_>>() {
            listing.set_state(id, State::Unchanged);
        }
        self.write(&listing, roster).map_err(at)?;
        self.rewritten.end();
        self.report.fresh = true;
        Ok(self.report)
    }

    fn write(&mut self, listing: &Listing, roster: &Roster) -> Result<()> {
        self.manifest.check_unchanged()?;
        let (tree, before) = (self.head.tree, (&self.head, self.digest));
        let head = self.trees.next_head(Some(tree), Some(before), self.head.rules.clone())?;
        // Tags of suite 4 do not commit to what they authenticate, so no manifest uses it.
        let suite = Some(self.suite).filter(|suite| *suite != Suite::Aes256Gcm).unwrap_or_default();
        let new = NewFile::new(suite, &self.recipients)?;
        let file = self.manifest.file();
        let mode = file.metadata().and_then(|meta| mode_of_open(file, &meta)).map_err(Error::read)? & 0o777;
        // It lists the same as before, so it is as much this machine's own as that was. One that was set back is not, although it
        // was: the new one has the newest generation.
        let found = Seen { generation: self.head.generation, digest: self.digest };
        let seen = self.trees.read_seen(head.tree);
        let is_latest = seen.is_ok_and(|seen| seen.is_none_or(|seen| !seen.is_set_back_by(&found)));
        let is_own = is_latest && self.trees.is_own(head.tree, self.digest).unwrap_or(false);
        let note = |written: &Written| {
            if is_own && let Err(e) = self.trees.note_own(head.tree, written.digest, Some(self.digest)) {
                complain(format!("warning: the manifest could not be remembered for the next run: {e}"));
            }
            Ok(())
        };
        let Written { digest, .. } =
            store::write(self.root.clone(), listing, &head, new, (roster, &note), (mode, true))?;
        let written = InputFile::open_in(self.root.clone(), OsStr::new(MANIFEST))?;
        self.report.after = Some(regular(written.file())?.header()?);
        self.remember(listing, &head, digest);
        Ok(())
    }

    /// Remembers the new manifest on this machine: its generation, and its text if that of the old one was kept.
    fn remember(&self, listing: &Listing, head: &Head, digest: Digest) {
        let noted = self.trees.note(head.tree, Seen { generation: head.generation, digest });
        let kept = match self.trees.copy(head.tree) {
            Some(_) => {
                listing.manifest(head).map_err(Error::write).and_then(|new| self.trees.keep_copy(head.tree, new))
            }
            None => Ok(()),
        };
        if let Err(e) = noted.and(kept) {
            complain(format!("warning: the manifest could not be remembered for the next run: {e}"));
        }
    }
}

/// Lists what this machine has written to the mirror.
fn adopt(rewritten: &Rewritten, root: &File, listing: &mut Listing) -> Result<()> {
    if rewritten.is_empty() {
        return Ok(());
    }
    rewritten.adopt(root.try_clone().map_err(Error::read)?, listing)
}
