//! The manifest of a mirror, for the commands that open one: reading it, its age, and what of the mirror is not as it lists.

use super::check::{Check, Depth, Finding};
use super::listing::Listing;
use super::rewritten::Rewritten;
use super::root::Root;
use super::state::{Seen, Trees};
use super::store::{Stored, invalid, is_unusable};
use super::{MANIFEST, is_mirror};
use crate::failure::{Code, Failure, Outcome};
use crate::file::{Url, is_url, stores};
use crate::folders::FOLDER;
use crate::lines::{complain, complain_with, shown};
use crate::{Error, Result};
use phalanx_core::tree::{Digest, Head, SignedText, TreeId};
use phalanx_core::{Error as CoreError, KeySource, Opener, Progress, Roster};
use phalanx_system::files::locked_folder;
use phalanx_system::fs::{self, Mode, OFlags};
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

/// A mirror's manifest, opened and read.
pub struct Listed {
    /// Its head.
    pub head: Head,
    /// Its digest.
    pub digest: Digest,
    /// What it lists.
    pub listing: Listing,
    /// What a signature of it is made of. `None` if it is in suite 4, which nobody writes.
    pub signed: Option<SignedText>,
}

/// A mirror that a folder is in.
pub struct Above {
    /// Its manifest.
    pub listed: Listed,
    /// The path of its root.
    pub root: PathBuf,
    /// The path of the folder from there on.
    pub within: PathBuf,
}

/// Which manifest decides about a folder, if several list what is in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum First {
    /// The one in the folder itself, and then the nearest above.
    Own,
    /// The outermost that lists the folder, and at last the one in it. Otherwise a signed folder below the root of a mirror could be
    /// replaced by another signed tree, which has a manifest of its own.
    Above,
}

/// What the user demands of a manifest's age.
#[derive(Clone, Debug, Default)]
pub struct Pins {
    /// It is this one.
    pub digest: Option<Digest>,
    /// It has at least this generation.
    pub generation: Option<u64>,
    /// An older one than was seen before is taken.
    pub accept: bool,
}

impl Pins {
    /// Whether the user demands that there is a manifest.
    pub fn names_one(&self) -> bool {
        self.digest.is_some() || self.generation.is_some()
    }
}

impl Listed {
    /// Reads the manifest of a mirror. `None` if there is none.
    pub fn read(mirror: &Path, opener: &Opener<impl KeySource>, roster: Arc<Roster>) -> Outcome<Option<Self>> {
        let without = "move it away to go on without it: then nothing is known of what is missing or older";
        Self::find(&root(mirror)?, opener, roster).map_err(|e| match &e {
            // Its own hint says which key is missing.
            Error::Core(CoreError::NoKey { .. } | CoreError::WrongKey) => Failure::at(&mirror.join(MANIFEST), e),
            _ if !is_unusable(&e) => Failure::at(&mirror.join(MANIFEST), e),
            _ => Failure::at(&mirror.join(MANIFEST), e).hint(without),
        })
    }

    /// Reads the manifest of a mirror. `None` if there is none, or no key at hand opens it, which is reported.
    pub fn read_if_opened(
        mirror: &Path,
        opener: &Opener<impl KeySource>,
        roster: Arc<Roster>,
    ) -> Outcome<Option<Self>> {
        let path = mirror.join(MANIFEST);
        match Self::find(&root(mirror)?, opener, roster) {
            Err(Error::Core(CoreError::NoKey { .. } | CoreError::WrongKey)) => {
                let line = "no key at hand opens it, so nothing is known of what is missing or older";
                complain(format!("warning: {}: {line}", shown(&path)));
                Ok(None)
            }
            Ok(None) if !Trees::of_user().at(mirror).is_empty() => {
                let line = "its manifest is gone, so nothing is known of what is missing or older";
                complain(format!("warning: {}: {line}", shown(mirror)));
                Ok(None)
            }
            found => found.map_err(|e| Failure::at(&path, e)),
        }
    }

    /// Reads the manifest of the mirror that a folder is in: the nearest, or with [`First::Above`] the outermost. `None` if it is in none that is known, or the manifest cannot be read,
    /// which is reported: it may be a file that somebody has put into a folder above. In a store each folder above takes a request.
    ///
    /// # Errors
    /// If this machine has seen a manifest in a folder above that is gone now or cannot be read, unless `lost` says otherwise. If a
    /// store fails.
    pub fn read_above(
        folder: &Path,
        opener: &Opener<impl KeySource>,
        roster: Arc<Roster>,
        lost: Lost<'_>,
        first: First,
    ) -> Outcome<Option<Above>> {
        let trees = Trees::of_user();
        let mut roots = roots_above(folder, &trees);
        if first == First::Above {
            roots.reverse();
        }
        for (root, within) in roots {
            let is_known = !trees.at(&root).is_empty();
            let found = match lost {
                Lost::Refused(_) if is_known => Self::read(&root, opener, roster.clone())?,
                _ => Self::read_or_warn(&root, opener, roster.clone(), lost)?,
            };
            let Some(listed) = found else {
                refuse_lost(&root, &trees, lost)?;
                continue;
            };
            if listed.listing.folder_at(&within).is_some() {
                return Ok(Some(Above { listed, root: as_named(folder, root, &within), within }));
            }
            if matches!(lost, Lost::Told) {
                let root = as_named(folder, root.clone(), &within);
                complain(format!("warning: {}: the manifest of {} does not list it", shown(folder), shown(&root)));
            }
            if is_known {
                listed.check_age_with(&root, &Pins::default(), &trees)?;
            }
        }
        Ok(None)
    }

    /// Reads the manifest that decides about a folder: its own, or that of the mirror that it is in, in the order that `first` says.
    pub fn read_at_or_above(
        folder: &Path,
        opener: &Opener<impl KeySource>,
        roster: Arc<Roster>,
        lost: Lost<'_>,
        first: First,
    ) -> Outcome<Option<Above>> {
        let above = |roster| Self::read_above(folder, opener, roster, lost, first);
        if first == First::Above
            && let Some(above) = above(roster.clone())?
        {
            return Ok(Some(above));
        }
        match Self::read(folder, opener, roster.clone())? {
            Some(listed) => Ok(Some(Above { listed, root: folder.to_owned(), within: PathBuf::new() })),
            None if first == First::Above => Ok(None),
            None => above(roster),
        }
    }

    /// Reads the manifest of a mirror. If it cannot be read, that is reported.
    ///
    /// # Errors
    /// If a store fails. One that denies access may do that because there is nothing.
    fn read_or_warn(
        mirror: &Path,
        opener: &Opener<impl KeySource>,
        roster: Arc<Roster>,
        lost: Lost<'_>,
    ) -> Outcome<Option<Self>> {
        Self::read_if_opened(mirror, opener, roster).or_else(|failure| match failure.error() {
            Some(Error::Core(CoreError::Read(e))) if is_url(mirror) && e.kind() != io::ErrorKind::PermissionDenied => {
                Err(failure)
            }
            _ => {
                complain(format!("warning: {}", failure.line().unwrap_or_default()));
                // One that nobody can use is as good as gone.
                if matches!(lost, Lost::Forgotten) && failure.error().is_some_and(is_unusable) {
                    Trees::of_user().forget(mirror);
                }
                Ok(None)
            }
        })
    }

    fn find(mirror: &Root, opener: &Opener<impl KeySource>, roster: Arc<Roster>) -> Result<Option<Self>> {
        let Some(stored) = Stored::find(mirror)? else { return Ok(None) };
        let (head, manifest) = stored.open(opener, roster)?;
        let listing = Listing::read(manifest).map_err(invalid)?;
        let signed = stored.signed_text()?;
        Ok(Some(Self { head, digest: stored.digest()?, listing, signed }))
    }

    /// Compares its age with what the user demands, and with the last one that was seen on this machine.
    pub fn check_age(&self, mirror: &Path, pins: &Pins) -> Outcome {
        self.check_age_with(mirror, pins, &Trees::of_user())
    }

    /// Compares its age with what the user demands, and with what is remembered.
    pub fn check_age_with(&self, mirror: &Path, pins: &Pins, trees: &Trees) -> Outcome {
        let at = |line: String| Err(Failure::new(Code::NotAuthentic, format!("{}: {line}", shown(mirror))).on(mirror));
        if let Some(expected) = pins.digest.filter(|expected| *expected != self.digest) {
            return at(format!("its manifest has the digest {}, not {expected}", self.digest));
        }
        let generation = self.head.generation;
        if let Some(least) = pins.generation.filter(|least| *least > generation) {
            return at(format!("its manifest has generation {generation}, which is before {least}"));
        }
        let tree = self.head.tree;
        let now = Seen { generation, digest: self.digest };
        let seen = trees.seen(tree);
        let is_older = seen.is_some_and(|seen| seen.is_set_back_by(&now));
        if is_older && !pins.accept {
            warn_of_age(mirror, generation, seen.map_or(0, |seen| seen.generation));
            return Ok(());
        }
        if !pins.accept && warn_of_other(mirror, tree, trees) {
            return Ok(());
        }
        let noted = match pins.accept {
            true => trees.accept(tree, now),
            false if seen == Some(now) => Ok(()),
            false => trees.note(tree, now),
        };
        if let Err(e) = noted.and_then(|()| trees.note_at(mirror, tree)) {
            complain_with(format!("warning: the generation of {} could not be remembered: {e}", shown(mirror)), None);
        }
        Ok(())
    }

    /// Compares the mirror with it, without reading content, and reports what is wrong. Returns the listing, in which that is
    /// dropped, and how many entries are wrong.
    pub fn check(self, mirror: &Path) -> Outcome<(Listing, u64, Outcome)> {
        self.check_within(mirror, Path::new(""), Depth::Names)
    }

    /// As [`Listed::check`], of a folder in the mirror.
    pub fn check_within(self, mirror: &Path, folder: &Path, depth: Depth) -> Outcome<(Listing, u64, Outcome)> {
        let (listing, mut findings) = self.findings_at(mirror, folder, depth, &())?;
        findings.retain(|finding| finding.path.starts_with(folder));
        let mut worst = None;
        for finding in &findings {
            let path = mirror.join(&finding.path);
            let code = if finding.wrong.is_of_reading() { Code::InputOutput } else { Code::NotAuthentic };
            let line = format!("{}: {}", shown(&path), finding.wrong.text(mirror));
            Failure::new(code, line).on(&path).report();
            worst = worst.max(Some(code));
        }
        let outcome = worst.map_or(Ok(()), |code| Err(Failure::written(code)));
        Ok((listing, findings.len() as u64, outcome))
    }

    /// Compares the mirror with it, without reading content. Returns the listing, in which what is wrong is dropped, and what is
    /// wrong. `depth` counts if the mirror lies in a store.
    pub fn findings(self, mirror: &Path, depth: Depth, progress: &dyn Progress) -> Outcome<(Listing, Vec<Finding>)> {
        self.findings_at(mirror, Path::new(""), depth, progress)
    }

    /// As [`Listed::findings`]. If the mirror lies in a store, `depth` counts, and only objects in the folder are read.
    fn findings_at(
        self,
        mirror: &Path,
        folder: &Path,
        depth: Depth,
        progress: &dyn Progress,
    ) -> Outcome<(Listing, Vec<Finding>)> {
        let compared = match root(mirror)? {
            Root::Folder(root) => {
                let root = root.try_clone().map_err(Error::read);
                root.and_then(|root| Check::run(root, self.listing, progress))
            }
            Root::Objects(objects) => Check::run_on_objects(&*objects, self.listing, (folder, depth), progress),
        };
        compared.map_err(|e| Failure::at(mirror, e))
    }
}

/// How a mirror is taken that is not the one that was seen last.
const ACCEPT: &str = "verify --accept takes it from now on";

/// What is done if this machine has seen a manifest that is gone or cannot be read.
#[derive(Clone, Copy, Debug)]
pub enum Lost<'a> {
    /// It is an error. This hint says how to go on.
    Refused(&'a str),
    /// What was seen is forgotten, if no manifest is there.
    Forgotten,
    /// A warning says so.
    Told,
}

/// Refuses a folder that has no manifest, and had one when this machine saw it last.
pub fn refuse_lost(mirror: &Path, trees: &Trees, lost: Lost<'_>) -> Outcome {
    if trees.at(mirror).is_empty() {
        return Ok(());
    }
    let hint = match lost {
        Lost::Refused(hint) => hint,
        // One that is there and cannot be read is not gone: a later loss of it is still to be noticed.
        Lost::Forgotten => {
            if root(mirror).is_ok_and(|root| matches!(Stored::find(&root), Ok(None))) {
                trees.forget(mirror);
            }
            return Ok(());
        }
        // A warning was given when the manifest was looked for.
        Lost::Told => return Ok(()),
    };
    let line = format!("{}: its manifest is gone, which was there when it was seen last", shown(mirror));
    Err(Failure::new(Code::NotAuthentic, line).on(mirror).hint(hint))
}

/// The folders above this one that may be roots of mirrors, each with the path of this one from there on. The nearest is the first.
fn roots_above(folder: &Path, trees: &Trees) -> Vec<(PathBuf, PathBuf)> {
    if let Some(url) = Url::of(folder) {
        return url.folders_above().into_iter().map(|(root, within)| (root.path().to_owned(), within)).collect();
    }
    let Ok(whole) = folder.canonicalize() else { return Vec::new() };
    let roots = whole.ancestors().skip(1).filter(|above| is_mirror(above) || !trees.at(above).is_empty());
    roots.map(|root| (root.to_owned(), whole.strip_prefix(root).unwrap_or(Path::new("")).to_owned())).collect()
}

/// A mirror's root as the user names it, if its name is part of what the user wrote.
fn as_named(folder: &Path, root: PathBuf, within: &Path) -> PathBuf {
    if is_url(folder) {
        return root;
    }
    let named = folder.ancestors().nth(within.iter().count()).filter(|named| !named.as_os_str().is_empty());
    let named = named.filter(|named| folder.ends_with(within) && named.canonicalize().is_ok_and(|path| path == root));
    named.map_or(root, Path::to_owned)
}

/// Warns that a mirror is older than the last one that was seen of its tree.
pub fn warn_of_age(mirror: &Path, generation: u64, seen: u64) {
    let line = "the mirror may have been set back";
    complain_with(
        format!("warning: {}: generation {generation}, and generation {seen} was seen before: {line}", shown(mirror)),
        Some(ACCEPT),
    );
}

/// Warns if a mirror is another one than those that were seen at its path. Returns whether it is.
pub fn warn_of_other(mirror: &Path, tree: TreeId, trees: &Trees) -> bool {
    let is_other = is_other(mirror, tree, trees);
    if is_other {
        let line = "it is another mirror than the one that was seen there before";
        complain_with(format!("warning: {}: {line}", shown(mirror)), Some(ACCEPT));
    }
    is_other
}

/// Whether a mirror is another one than those that were seen at its path.
#[must_use]
pub fn is_other(mirror: &Path, tree: TreeId, trees: &Trees) -> bool {
    let here = trees.at(mirror);
    !here.is_empty() && !here.contains(&tree)
}

/// Tells the user if an interrupted `rekey --fresh` explains what is wrong with a mirror.
pub fn explain(mirror: &Path, tree: TreeId) {
    if Rewritten::find(&Trees::of_user(), tree).is_some() {
        let line = "a rekey --fresh was interrupted, and the manifest does not list what it has written";
        complain_with(
            format!("{}: {line}", shown(mirror)),
            Some("the same rekey again, with the added keys at hand, mends it, and so does mirror"),
        );
    }
}

/// Opens a mirror's root, so that no other run writes to it meanwhile.
pub fn lock(mirror: &Path) -> Outcome<File> {
    locked(open(mirror)?, mirror)
}

/// Locks a mirror's root.
pub fn locked(root: File, mirror: &Path) -> Outcome<File> {
    locked_folder(root, Duration::ZERO).ok_or_else(|| {
        let line = format!("{}: another run writes to it", shown(mirror));
        Failure::new(Code::InputOutput, line + OR_CURRENT)
    })
}

/// Windows locks no folder that is the current one of a program.
pub const OR_CURRENT: &str = if cfg!(windows) { ", or it is the current folder of a program" } else { "" };

/// Opens a mirror's root, or the folder of objects that a URL names.
pub fn root(mirror: &Path) -> Outcome<Root> {
    match Url::of(mirror) {
        Some(url) => {
            let folder = stores().and_then(|stores| stores.folder(&url).map_err(Error::read));
            folder.map(Root::Objects).map_err(|e| Failure::at(url.path(), e))
        }
        None => open(mirror).map(|folder| Root::Folder(Arc::new(folder))),
    }
}

fn open(mirror: &Path) -> Outcome<File> {
    let opened = fs::open(mirror, FOLDER.difference(OFlags::NOFOLLOW), Mode::empty());
    opened.map(File::from).map_err(|e| Failure::at(mirror, Error::read(e)))
}
