//! The manifest of a mirror that is written: the one of the last run, and the new one.

use super::MANIFEST;
use super::deletion::restore_times;
use super::listing::Listing;
use super::manifest::{warn_of_age, warn_of_other};
use super::rewritten::Rewritten;
use super::root::Root;
use super::scan::{Ended, OldManifest};
use super::state::{Seen, Trees};
use super::store::{self, Stored, invalid};
use crate::Error;
use crate::failure::{Code, Failure, Outcome};
use crate::file::Carry;
use crate::lines::{complain, shown};
use crate::secrets::Recipients;
use phalanx_core::tree::{Digest, Head, TreeId};
use phalanx_core::{Error as CoreError, NewFile, Roster, Suite};
use rustix::fs;
use std::collections::BTreeSet;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// How a mirror is written whose manifest cannot be used.
const AGAIN: &str = "move it away, and --new writes all files again";

/// How manifests are opened and written.
#[derive(Clone)]
pub struct Sealing<'a> {
    /// Who can open them. They have been found before one is opened.
    pub recipients: &'a Arc<Recipients>,
    /// The suite of the mirror's files.
    pub suite: Suite,
    /// The engines. A manifest is small beside its tree, so one core is enough.
    pub roster: Arc<Roster>,
    /// Whether they are to be on the disk when they have their names.
    pub sync: bool,
    /// Which metadata stored files and folders take over.
    pub carry: Carry,
    /// What this machine remembers of trees.
    pub trees: Trees,
}

/// The manifests of a mirror: the one that is there, and the one that is written.
pub struct Manifests<'a> {
    sealing: &'a Sealing<'a>,
    mirror: &'a Path,
    rules: String,
    /// What this machine remembers of trees.
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
    /// The version of the manifest, if it is an object.
    version: Option<String>,
}

impl Before {
    /// Whether the mirror has a manifest, so that what it does not list is no part of the mirror.
    pub fn is_there(&self) -> bool {
        self.digest.is_some()
    }

    /// Whether another run has replaced the manifest of a mirror in a store meanwhile.
    pub fn is_replaced(&self, mirror: &Root) -> bool {
        match mirror {
            Root::Folder(_) => false,
            Root::Objects(objects) => objects.open(MANIFEST).is_ok_and(|now| Some(now.version()) != self.version),
        }
    }
}

impl<'a> Manifests<'a> {
    /// Those of the mirror at a path, with these rules.
    #[must_use]
    pub fn new(sealing: &'a Sealing<'a>, mirror: &'a Path, rules: String) -> Self {
        Self { sealing, mirror, rules, trees: sealing.trees.clone() }
    }

    /// Finds the manifest of the last run in a mirror.
    pub fn before(&self, mirror: Option<&Root>) -> Outcome<(Before, Option<OldManifest<'static>>)> {
        let at = |e: Error| match e {
            // A disk or store that fails says nothing of the manifest.
            Error::Core(CoreError::Read(_)) => Failure::at(&self.path(), e),
            e => Failure::at(&self.path(), e).hint(AGAIN),
        };
        let Some(mirror) = mirror else { return Ok((Before::default(), None)) };
        let Some(stored) = Stored::find(mirror).map_err(at)? else {
            return Ok((Before::default(), None));
        };
        let opened = match stored.open(self.sealing.recipients.opener(), self.sealing.roster.clone()) {
            Err(e @ Error::Core(CoreError::NoKey { .. })) => {
                let copy = stored.open_copy(&self.trees).ok_or_else(|| {
                    let line = "the keys at hand do not open it, and it is not the one that this machine wrote last";
                    let failure = Failure::new(Code::NotAuthentic, format!("{}: {line}", shown(&self.path())));
                    failure.on(&self.path()).hint(AGAIN).because_of(e)
                })?;
                self.refuse_others(copy.0.tree)?;
                Ok(copy)
            }
            opened => opened.map_err(at),
        };
        let (head, manifest) = opened?;
        warn_of_other(self.mirror, head.tree, &self.trees);
        let digest = stored.digest().map_err(at)?;
        let found = Seen { generation: head.generation, digest };
        let later = self.trees.seen(head.tree).filter(|seen| seen.is_set_back_by(&found));
        if let Some(seen) = &later {
            warn_of_age(self.mirror, head.generation, seen.generation);
        }
        let rewritten = Rewritten::find(&self.trees, head.tree);
        let is_set_back = later.is_some();
        let (head, digest, version) = (Some(head), Some(digest), stored.version);
        Ok((Before { head, digest, rewritten, is_set_back, version }, Some(manifest)))
    }

    /// Refuses a run that lacks a recipient of the last one. Nobody could open all files of such a mirror.
    fn refuse_others(&self, tree: TreeId) -> Outcome {
        let named = self.sealing.recipients.fingerprints();
        if self.trees.recipients(tree).iter().all(|recipient| named.contains(recipient)) {
            return Ok(());
        }
        let line = "this run does not name all recipients of the mirror's files";
        let failure = Failure::new(Code::InputOutput, format!("{}: {line}", shown(self.mirror)));
        Err(failure.on(self.mirror).hint("name them too, or change them with rekey -R, which needs a key"))
    }

    /// Why a source could not be compared with the manifest of the last run.
    pub fn failure(&self, source: &Path, ended: Ended) -> Failure {
        match ended {
            Ended::Source(e) => Failure::at(source, e),
            Ended::Mirror(e) => Failure::at(self.mirror, e),
            Ended::Manifest(e) => Failure::at(&self.path(), invalid(e)),
        }
    }

    /// Writes the manifest, unless nothing has changed and the old one has the same rules. If the mirror was set back, it gets a
    /// generation after all that were seen.
    pub fn write(
        &self,
        mirror: &Root,
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
        let suite = Some(self.sealing.suite).filter(|suite| *suite != Suite::Aes256Gcm).unwrap_or_default();
        let recipients = self.sealing.recipients;
        let new = NewFile::new(suite, recipients.found()).map_err(|e| at(e.into()))?;
        let (roster, version) = (&self.sealing.roster, before.version.as_deref());
        let written = match mirror {
            Root::Folder(folder) => {
                let mode = fs::fstat(source).map_or(0o600, |stat| stat.st_mode & 0o644);
                store::write(folder.clone(), listing, &head, new, roster, (mode, self.sealing.sync))
            }
            Root::Objects(objects) => store::write_object(&**objects, listing, &head, new, roster, version),
        };
        let digest = written.map_err(at)?;
        before.rewritten.iter().for_each(Rewritten::end);
        if let Root::Folder(folder) = mirror {
            restore_times(folder, source, &BTreeSet::from([PathBuf::new()]), self.sealing.carry);
        }
        if recipients.opens_nothing() {
            // No key at hand opens it in the next run.
            let kept = listing.manifest(&head).map_err(Error::write);
            let kept = kept.and_then(|manifest| self.trees.keep_copy(head.tree, manifest));
            let kept = kept.and_then(|()| self.trees.keep_recipients(head.tree, &recipients.fingerprints()));
            if let Err(e) = kept {
                complain(format!("warning: the manifest could not be kept for the next run: {e}"));
            }
        }
        Ok(self.remember(head.tree, Seen { generation: head.generation, digest }))
    }

    fn remember(&self, tree: TreeId, seen: Seen) -> Seen {
        let is_known = self.trees.seen(tree) == Some(seen);
        let noted = if is_known { Ok(()) } else { self.trees.note(tree, seen) };
        if let Err(e) = noted.and_then(|()| self.trees.note_at(self.mirror, tree)) {
            complain(format!("warning: the generation of the mirror could not be remembered: {e}"));
        }
        seen
    }

    fn path(&self) -> PathBuf {
        self.mirror.join(MANIFEST)
    }
}
