//! The manifest of a mirror that is written: the one of the last run, and the new one.

use super::MANIFEST;
use super::SIGNATURE;
use super::deletion::restore_times;
use super::listing::Listing;
use super::manifest::{warn_of_age, warn_of_other};
use super::rewritten::Rewritten;
use super::root::Root;
use super::scan::{Ended, OldManifest};
use super::state::{Seen, Trees, or_warned};
use super::store::{self, Stored, Written, invalid, is_unusable};
use crate::Error;
use crate::failure::{Code, Failure, Outcome};
use crate::file::{Carry, Existing, Made, NewObject, ObjectFolder, Output, OutputObject};
use crate::lines::{complain, shown};
use crate::secrets::Recipients;
use crate::signatures::{Signer, Signers, armored_in, refuse_gcm};
use phalanx_core::tree::{Digest, Head, SignedText, TreeId};
use phalanx_core::{Error as CoreError, NewFile, Roster, Suite};
use phalanx_system::fs::{self, AtFlags};
use phalanx_system::io::Errno;
use std::cell::Cell;
use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// How a mirror is written whose manifest cannot be used.
const AGAIN: &str = "move it away, and --new writes all files again";
/// How a mirror is signed that is not the one that this machine saw last.
const COMPARE_OR_ACCEPT: &str = "--checksum compares it with the source, verify --accept takes it";
/// How a mirror is signed that somebody else may have written.
const COMPARE: &str = "--checksum compares it with the source, --signers trusts who has signed it";

/// No true manifest has a greater generation: they begin with the seconds since 1970, and each run adds one.
const MOST: u64 = u64::MAX >> 1;

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
    /// Whether files may be listed that an interrupted run has left. Others may have altered those, so the manifest is then none that
    /// a later run signs.
    pub resumes: bool,
    /// Who signs them, if somebody does.
    pub signer: Option<Arc<Signer>>,
    /// Those who sign them too. What they have signed is as good as what this run writes.
    pub signers: Option<Arc<Signers>>,
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
    /// Whether it is that of another mirror than was seen at this path.
    is_other: bool,
    /// Whether somebody else may have written it. What is taken from it unread is then not signed.
    is_foreign: bool,
    /// Whether this run signs it, because all that it lists was compared with the source. It may list more than was found, so it
    /// does not stay.
    is_compared: bool,
    /// What a signature of it is made of.
    signed: Option<SignedText>,
    /// The version of the manifest, if it is an object.
    version: Option<String>,
}

impl Before {
    /// Whether the mirror has a manifest, so that what it does not list is no part of the mirror.
    pub fn is_there(&self) -> bool {
        self.digest.is_some()
    }

    /// Whether somebody else may have written the manifest.
    pub fn is_foreign(&self) -> bool {
        self.is_foreign
    }

    /// Says that this run has written, or compared with the source, all that the next manifest lists, and signs it.
    pub fn compared(self) -> Self {
        Self { is_compared: self.is_foreign, is_foreign: false, ..self }
    }

    /// Whether another run has replaced the manifest of a mirror in a store meanwhile.
    pub fn is_replaced(&self, mirror: &Root) -> bool {
        match mirror {
            Root::Folder(_) => false,
            Root::Objects(objects) => objects.open(MANIFEST).is_ok_and(|now| Some(now.version()) != self.version),
        }
    }
}

/// The signature of a manifest, before it has its name.
enum NewSignature {
    File(Output),
    Object(Box<dyn OutputObject>),
}

impl<'a> Manifests<'a> {
    /// Those of the mirror at a path, with these rules.
    #[must_use]
    pub fn new(sealing: &'a Sealing<'a>, mirror: &'a Path, rules: String) -> Self {
        Self { sealing, mirror, rules, trees: sealing.trees.clone() }
    }

    /// Finds the manifest of the last run in a mirror. A run that `compares` everything may go on with one that somebody else
    /// may have written, and sign.
    pub fn before(&self, mirror: Option<&Root>, compares: bool) -> Outcome<(Before, Option<OldManifest<'static>>)> {
        // A disk, store or key service that fails for the moment says nothing of the manifest.
        let at = |e: Error| match is_unusable(&e) {
            true => Failure::at(&self.path(), e).hint(AGAIN),
            false => Failure::at(&self.path(), e),
        };
        let Some(mirror) = mirror else { return Ok((Before::default(), None)) };
        let Some(stored) = Stored::find(mirror).map_err(at)? else {
            return Ok((Before::default(), None));
        };
        let opened = match stored.open(self.sealing.recipients.opener(), self.sealing.roster.clone()) {
            Err(e @ Error::Core(CoreError::NoKey { .. })) => {
                let opens_nothing = self.sealing.recipients.opens_nothing();
                let copy = stored.open_copy(&self.trees).ok_or_else(|| {
                    // The own hint of the error says how to look for the key.
                    if !opens_nothing {
                        return Failure::at(&self.path(), e);
                    }
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
        let (digest, signed) = (stored.digest().map_err(at)?, stored.signed_text().map_err(at)?);
        let found = Seen { generation: head.generation, digest };
        let seen = self.trees.read_seen(head.tree);
        let is_signed_unread = self.sealing.signer.is_some() && !compares;
        let seen = if is_signed_unread { seen.map_err(|e| Failure::at(self.mirror, e))? } else { or_warned(seen) };
        let later = seen.filter(|seen| seen.is_set_back_by(&found));
        let vouched = self.vouched(mirror, &head, (found, later), signed.as_ref());
        let is_foreign = vouched.is_err();
        if is_signed_unread {
            vouched?;
        }
        let is_other = warn_of_other(self.mirror, head.tree, &self.trees);
        if let Some(seen) = &later {
            warn_of_age(self.mirror, head.generation, seen.generation);
        }
        let rewritten = Rewritten::find(&self.trees, head.tree);
        let is_set_back = later.is_some();
        let (head, digest, version) = (Some(head), Some(digest), stored.version);
        let is_compared = false;
        let before =
            Before { head, digest, rewritten, is_set_back, is_other, is_foreign, is_compared, signed, version };
        Ok((before, Some(manifest)))
    }

    /// Makes sure that what a manifest lists may be signed unread: this machine has seen no later one, and it has written it, the key
    /// has signed it, or one of the signers has. That it was seen here is not enough, since whoever can open the files can write one.
    fn vouched(
        &self,
        mirror: &Root,
        head: &Head,
        (found, later): (Seen, Option<Seen>),
        text: Option<&SignedText>,
    ) -> Outcome {
        let here = self.trees.read_at(self.mirror).map_err(|e| Failure::at(self.mirror, e))?;
        if !here.is_empty() && !here.contains(&head.tree) {
            // Its files may have the lengths and times of this mirror's, and none of their content.
            let line = "it is that of another mirror than was seen there before, so nothing that it lists is signed";
            return Err(self.unsigned(line).hint(COMPARE_OR_ACCEPT));
        }
        if later.is_some() {
            // The newest signature would stand for old content, and for what somebody has signed whom nobody trusts any more.
            let line = "this machine has seen a later one, so nothing that it lists is signed";
            return Err(self.unsigned(line).hint(COMPARE_OR_ACCEPT));
        }
        let is_own = self.trees.is_own(head.tree, found.digest);
        if matches!(is_own, Ok(true)) || self.has_signed(mirror, text) {
            return Ok(());
        }
        let Some(signers) = &self.sealing.signers else {
            is_own.map_err(|e| Failure::at(self.mirror, e))?;
            let line =
                "this machine has not written it, and the key has not signed it, so nothing that it lists is signed";
            return Err(self.unsigned(line).hint(COMPARE));
        };
        let claim = signers.claim_in(mirror, self.mirror).and_then(|claim| claim.check(text.copied()));
        claim.map_err(|failure| failure.hint(COMPARE))
    }

    /// Whether the key that signs has signed the manifest in the mirror already.
    fn has_signed(&self, mirror: &Root, text: Option<&SignedText>) -> bool {
        let (Some(signer), Some(text)) = (&self.sealing.signer, text) else { return false };
        armored_in(mirror).is_ok_and(|found| signer.has_signed(&found, text))
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
            && !before.is_compared
            && head.rules == self.rules
        {
            let signature = self.begin_signature(mirror, source, listing, before, before.signed)?;
            signature.map_or(Ok(()), |signature| self.end_signature(signature))?;
            return Ok(self.remember(head.tree, Seen { generation: head.generation, digest }, before));
        }
        let last = before.head.as_ref().zip(before.digest);
        let tree = last.and_then(|(head, _)| self.tree(head, before.is_compared));
        let head = self.trees.next_head(tree, last, self.rules.clone()).map_err(|e| at(e.into()))?;
        // Tags of suite 4 do not commit to what they authenticate, so no manifest uses it.
        let suite = Some(self.sealing.suite).filter(|suite| *suite != Suite::Aes256Gcm).unwrap_or_default();
        let recipients = self.sealing.recipients;
        let new = NewFile::new(suite, recipients.found()).map_err(|e| at(e.into()))?;
        let (roster, version) = (&self.sealing.roster, before.version.as_deref());
        let signature = Cell::new(Ok(None));
        let note = |written: &Written| {
            let is_noted = self.note_own(&head, written, before);
            let begun = self.begin_signature(mirror, source, listing, before, written.signed);
            // The next run that signs does not go on with what is neither remembered nor signed.
            let is_refused = begun.is_err() && !is_noted;
            signature.set(begun);
            if is_refused { Err(CoreError::Cancelled.into()) } else { Ok(()) }
        };
        let written = match mirror {
            Root::Folder(folder) => {
                let mode = fs::fstat(source).map_or(0o600, |stat| stat.st_mode & 0o644);
                store::write(folder.clone(), listing, &head, new, (roster, &note), (mode, self.sealing.sync))
            }
            Root::Objects(objects) => store::write_object(&**objects, listing, &head, new, (roster, &note), version),
        };
        let (digest, signature) = match (written, signature.into_inner()) {
            (Err(Error::Core(CoreError::Cancelled)), Err(failure)) => return Err(failure),
            (written, signature) => (written.map_err(at)?.digest, signature),
        };
        before.rewritten.iter().for_each(Rewritten::end);
        let signed = self.unsign(mirror).and(signature);
        let signed = signed.and_then(|signature| signature.map_or(Ok(()), |signature| self.end_signature(signature)));
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
        let seen = self.remember(head.tree, Seen { generation: head.generation, digest }, before);
        signed.map(|()| seen)
    }

    /// The tree that the next manifest is one of; `None` if it is a new one. A manifest that was compared may be somebody else's, so
    /// what it says is not believed: it may name another mirror of the user, or have a generation that none can be greater than.
    /// What counts is what was seen at the path.
    fn tree(&self, before: &Head, is_compared: bool) -> Option<TreeId> {
        if !is_compared {
            return Some(before.tree);
        }
        let generation = |tree| {
            let own = if tree == before.tree { before.generation } else { 0 };
            self.trees.seen(tree).map_or(0, |seen| seen.generation).max(own)
        };
        let here = self.trees.at(self.mirror);
        let tree = match here[..] {
            _ if here.contains(&before.tree) => before.tree,
            [only] => only,
            // Nothing was seen, or the disks of several mirrors in turn.
            _ => return None,
        };
        (generation(tree) <= MOST).then_some(tree)
    }

    /// Remembers what is about to be written, unless something in it comes from somebody else. False if that failed.
    fn note_own(&self, head: &Head, written: &Written, before: &Before) -> bool {
        if before.is_foreign || self.sealing.resumes {
            return true;
        }
        let noted = self.trees.note_own(head.tree, written.digest, before.digest);
        if let Err(e) = &noted {
            complain(format!("warning: the generation of the mirror could not be remembered: {e}"));
        }
        noted.is_ok()
    }

    /// Removes the signature of the manifest that was replaced, if this run signs. Not earlier: that manifest may be vouched for by
    /// nothing else, and the run may be killed before the new one has its name. In a store the new signature replaces it.
    fn unsign(&self, mirror: &Root) -> Outcome {
        let (Root::Folder(folder), true) = (mirror, self.signs()) else { return Ok(()) };
        match fs::unlinkat(folder, SIGNATURE, AtFlags::empty()) {
            Ok(()) | Err(Errno::NOENT) => Ok(()),
            Err(e) => Err(Failure::at(&self.mirror.join(SIGNATURE), Error::write(e))),
        }
    }

    /// Signs a manifest that is about to get its name, or the one that was opened and stays, if somebody signs and has not done so
    /// yet. It may have been exchanged in the mirror meanwhile, so it is not read again. The signature has no name yet.
    fn begin_signature(
        &self,
        mirror: &Root,
        source: &File,
        listing: &Listing,
        before: &Before,
        text: Option<SignedText>,
    ) -> Outcome<Option<NewSignature>> {
        let Some(signer) = &self.sealing.signer else { return Ok(None) };
        if before.is_foreign {
            let line = "not all that it lists could be compared with the source, so it is not signed";
            return Err(self.unsigned(line).hint("the next run with --checksum goes on"));
        }
        refuse_gcm(self.mirror, listing)?;
        if self.has_signed(mirror, text.as_ref()) {
            return Ok(None);
        }
        let armored = signer.sign(&self.path(), text)?.armored();
        let armored = armored.as_bytes();
        let in_folder = |folder: &Arc<File>| {
            let output = Output::create_in(folder.clone(), OsStr::new(SIGNATURE), Existing::Replace(&Made::default()))?;
            output.file().write_all(armored).map_err(Error::write)?;
            output.set_mode(fs::fstat(source).map_or(0o600, |stat| stat.st_mode & 0o644))?;
            Ok(NewSignature::File(output))
        };
        let in_store = |objects: &dyn ObjectFolder| -> io::Result<NewSignature> {
            let new = NewObject { replaces: true, len: Some(armored.len() as u64), resume: false };
            let object = objects.create(SIGNATURE, new)?;
            object.write_all_at(armored, 0)?;
            Ok(NewSignature::Object(object))
        };
        let begun = match mirror {
            Root::Folder(folder) => in_folder(folder),
            Root::Objects(objects) => in_store(&**objects).map_err(Error::write),
        };
        begun.map(Some).map_err(|e| self.at_signature(e))
    }

    /// Gives a signature its name.
    fn end_signature(&self, signature: NewSignature) -> Outcome {
        let ended = match signature {
            NewSignature::File(output) => {
                output.commit(Existing::Replace(&Made::default()), self.sealing.sync).map(drop)
            }
            NewSignature::Object(object) => object.commit().map_err(Error::write),
        };
        ended.map_err(|e| self.at_signature(e))
    }

    fn at_signature(&self, e: Error) -> Failure {
        Failure::at_output(&self.mirror.join(SIGNATURE), e)
    }

    /// Whether manifests are signed.
    pub fn signs(&self) -> bool {
        self.sealing.signer.is_some()
    }

    /// The refusal to sign what others may have written, and this run has not read.
    pub fn unsigned(&self, line: &str) -> Failure {
        Failure::new(Code::NotAuthentic, format!("{}: {line}", shown(&self.path()))).on(&self.path())
    }

    /// Remembers a manifest. The user alone says that a mirror belongs where another one was. One that was compared has an id that
    /// was seen there, or a new one.
    fn remember(&self, tree: TreeId, seen: Seen, before: &Before) -> Seen {
        let is_known = self.trees.seen(tree) == Some(seen);
        let noted = if is_known { Ok(()) } else { self.trees.note(tree, seen) };
        let belongs = !before.is_other || before.is_compared;
        let note_at = || if belongs { self.trees.note_at(self.mirror, tree) } else { Ok(()) };
        if let Err(e) = noted.and_then(|()| note_at()) {
            complain(format!("warning: the generation of the mirror could not be remembered: {e}"));
        }
        seen
    }

    fn path(&self) -> PathBuf {
        self.mirror.join(MANIFEST)
    }
}
