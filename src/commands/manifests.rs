//! The manifest of a mirror that is written: the one of the last run, and the new one.

use super::manifest::warn_of_age;
use crate::transfer::{Protect, Transfer};
use phalanx_core::tree::{Digest, Head, TreeId};
use phalanx_core::{Error as CoreError, NewFile, Roster, Suite};
use phalanx_host::Error;
use phalanx_host::failure::{Code, Failure, Outcome};
use phalanx_host::lines::{complain, shown};
use phalanx_host::mirror::MANIFEST;
use phalanx_host::mirror::deletion::restore_times;
use phalanx_host::mirror::listing::Listing;
use phalanx_host::mirror::rewritten::Rewritten;
use phalanx_host::mirror::scan::{Ended, OldManifest};
use phalanx_host::mirror::state::{Seen, Trees};
use phalanx_host::mirror::store::{self, Stored, invalid};
use rustix::fs;
use std::collections::BTreeSet;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// How a mirror is written whose manifest cannot be used.
const AGAIN: &str = "move it away to write all files again";

/// The manifests of a mirror: the one that is there, and the one that is written.
pub struct Manifests<'a> {
    transfer: &'a Transfer<Protect>,
    mirror: &'a Path,
    rules: String,
    pub trees: Trees,
}

/// What is known of the manifest before this run.
#[derive(Default)]
pub struct Before {
    head: Option<Head>,
    /// The digest of the manifest that is in the mirror.
    digest: Option<Digest>,
    /// What an interrupted `rekey --fresh` has left, if there is anything.
    pub rewritten: Option<Rewritten>,
    /// Whether a later manifest was seen on this machine.
    is_set_back: bool,
}

impl Before {
    /// Whether the mirror has a manifest, so that what it does not list is no part of the mirror.
    pub fn is_there(&self) -> bool {
        self.digest.is_some()
    }
}

impl<'a> Manifests<'a> {
    /// Those of the mirror at a path, with these rules.
    pub fn new(transfer: &'a Transfer<Protect>, mirror: &'a Path, rules: String) -> Self {
        Self { transfer, mirror, rules, trees: Trees::of_user() }
    }

    /// Finds the manifest of the last run in a mirror.
    pub fn before(&self, mirror: Option<Arc<File>>) -> Outcome<(Before, Option<OldManifest<'static>>)> {
        let at = |e| Failure::at(&self.path(), e).hint(AGAIN);
        let Some(mirror) = mirror else { return Ok((Before::default(), None)) };
        let Some(stored) = Stored::find(mirror).map_err(at)? else { return Ok((Before::default(), None)) };
        let opened = match stored.open(self.transfer.action.recipients.opener(), self.roster()) {
            Err(Error::Core(CoreError::NoKey { .. })) => stored.open_copy(&self.trees),
            opened => Some(opened.map_err(at)?),
        };
        let digest = Some(stored.digest);
        let Some((head, manifest)) = opened else {
            let line = "the keys at hand do not open it, and it is not the one that this machine wrote last";
            let failure = Failure::new(Code::NotAuthentic, format!("{}: {line}", shown(&self.path())));
            return Err(failure.on(&self.path()).hint(AGAIN));
        };
        let found = Seen { generation: head.generation, digest: stored.digest };
        let later = self.trees.seen(head.tree).filter(|seen| seen.is_set_back_by(&found));
        if let Some(seen) = &later {
            warn_of_age(self.mirror, head.generation, seen.generation);
        }
        let rewritten = Rewritten::find(&self.trees, head.tree);
        Ok((Before { head: Some(head), digest, rewritten, is_set_back: later.is_some() }, Some(manifest)))
    }

    /// Why a source could not be compared with the manifest of the last run.
    pub fn failure(&self, source: &Path, ended: Ended) -> Failure {
        match ended {
            Ended::Source(e) => Failure::at(source, e),
            Ended::Manifest(e) => Failure::at(&self.path(), invalid(e)),
        }
    }

    /// Writes the manifest, unless nothing has changed and the old one has the same rules. If the mirror was set back, it gets a
    /// generation after all that were seen.
    pub fn write(
        &self,
        mirror: &Arc<File>,
        source: &File,
        listing: &Listing,
        before: &Before,
        is_same: bool,
    ) -> Outcome<Seen> {
        let at = |e| Failure::at_output(&self.path(), e);
        if let (Some(head), Some(digest)) = (&before.head, before.digest)
            && is_same
            && before.rewritten.is_none()
            && !before.is_set_back
            && head.rules == self.rules
        {
            return Ok(self.remember(head.tree, Seen { generation: head.generation, digest }));
        }
        let head =
            self.trees.next_head(before.head.as_ref(), before.digest, self.rules.clone()).map_err(|e| at(e.into()))?;
        // Tags of suite 4 do not commit to what they authenticate, so no manifest uses it.
        let suite = Some(self.transfer.action.suite).filter(|suite| *suite != Suite::Aes256Gcm).unwrap_or_default();
        let recipients = &self.transfer.action.recipients;
        let new = NewFile::new(suite, recipients.found()).map_err(|e| at(e.into()))?;
        let mode = fs::fstat(source).map_or(0o600, |stat| stat.st_mode & 0o666);
        let permissions = (mode, self.transfer.destination.sync);
        let written = store::write(mirror.clone(), listing, &head, new, &self.roster(), permissions);
        let digest = written.map_err(at)?;
        before.rewritten.iter().for_each(Rewritten::end);
        restore_times(mirror, source, &BTreeSet::from([PathBuf::new()]), self.transfer.destination.carry);
        if recipients.opens_nothing() {
            // No key at hand opens it in the next run.
            let kept = listing.manifest(&head).map_err(Error::write);
            if let Err(e) = kept.and_then(|manifest| self.trees.keep_copy(head.tree, manifest)) {
                complain(format!("warning: the manifest could not be kept for the next run: {e}"));
            }
        }
        Ok(self.remember(head.tree, Seen { generation: head.generation, digest }))
    }

    fn remember(&self, tree: TreeId, seen: Seen) -> Seen {
        if self.trees.seen(tree) != Some(seen)
            && let Err(e) = self.trees.note(tree, seen)
        {
            complain(format!("warning: the generation of the mirror could not be remembered: {e}"));
        }
        seen
    }

    fn path(&self) -> PathBuf {
        self.mirror.join(MANIFEST)
    }

    /// A manifest is small beside its tree, so one core does the work.
    fn roster(&self) -> Arc<Roster> {
        Arc::new(self.transfer.engines.small_crew().roster)
    }
}
