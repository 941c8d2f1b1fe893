//! Protecting a whole folder, and listing it in a manifest.

use super::MANIFEST;
use super::excludes::Excludes;
use super::manifest::root;
use super::manifests::{Manifests, Sealing};
use super::removals::Removals;
use super::renewal::Renewal;
use super::root::Root;
use super::roots::refuse_within_other;
use super::scan::{Ended, Scan};
use super::store::is_of_content;
use super::there::There;
use crate::Error;
use crate::failure::{Code, Failure, Outcome, worse};
use crate::file::{Obstacle, is_url};
use crate::lines::complain;
use crate::transfer::tally::Tally;
use phalanx_system::files::open_folder;
use std::collections::HashMap;
use std::io::ErrorKind;
use std::path::Path;
use std::sync::Arc;

/// A folder that is protected as a whole, file by file.
pub struct Protecting<'a> {
    /// Its path.
    pub input: &'a Path,
    /// The path of its mirror.
    pub output: &'a Path,
    /// How the manifest is written.
    pub sealing: Sealing<'a>,
    /// Whether there may be a mirror already, whose files are replaced.
    pub replaces: bool,
    /// Asks the user for everything that is needed.
    pub prepare: &'a dyn Fn() -> Outcome,
    /// Works on the entries of a selection, and on all others. Returns the results. A failure means that it could not begin.
    pub walk: &'a dyn Fn(Arc<Renewal<'static>>) -> Outcome<Arc<Tally>>,
}

impl Protecting<'_> {
    /// Protects all that is in the folder, and writes the manifest.
    ///
    /// # Errors
    /// If it could not be begun, a file failed, or the manifest could not be written.
    pub fn run(&self) -> Outcome {
        let at_output = |e| Failure::at_output(self.output, e);
        let at_input = |e| Failure::at(self.input, Error::read(e));
        let is_object = is_url(self.output);
        let mirror = self.mirror()?;
        if is_object || mirror.is_some() && self.output.join(MANIFEST).exists() {
            (self.prepare)()?;
        }
        let excludes = Excludes::none();
        let manifests = Manifests::new(&self.sealing, self.output, excludes.text());
        // All files are written again, so a manifest that cannot be used is replaced like them.
        let found = manifests.before(mirror.as_ref(), false);
        let is_unusable = found.is_err();
        let (before, old) = match found {
            // A disk, store or key service that fails is not a manifest that cannot be used.
            Err(failure)
                if !failure.error().is_none_or(is_of_content) || is_object && failure.code() == Code::InputOutput =>
            {
                return Err(failure);
            }
            Err(failure) => {
                let line = failure.line().unwrap_or_default();
                complain(format!("warning: {line}: a new manifest takes its place"));
                Default::default()
            }
            Ok(found) => found,
        };
        let source = open_folder(self.input).map_err(at_input)?;
        let scan = Scan {
            source: source.try_clone().map_err(at_input)?,
            source_path: self.input,
            mirror: mirror.as_ref().map_or_else(|| There::folder(None), Root::there).map_err(at_output)?,
            excludes: &excludes,
            delete_excluded: false,
            owners: false,
            checksum: false,
            all: true,
            // The walk reports what it meets.
            tally: &Tally::silent(),
            written_before: &|_, _| None,
            rewritten: before.rewritten.as_ref(),
            progress: &(),
        };
        // What killed runs have deleted at the source.
        let removals = if is_object { None } else { Removals::find(&manifests.trees, self.output) };
        let old = match (&removals, &mirror) {
            (Some(removals), Some(Root::Folder(folder))) => removals.added_to(old, folder),
            _ => Ok(old),
        };
        let planned = old.map_err(Ended::Manifest).and_then(|old| scan.run(old));
        let (plan, there) = planned.map_err(|ended| manifests.failure(self.input, ended))?;
        let mut renewal = Renewal::new(plan.listing, HashMap::new(), self.sealing.carry);
        renewal.takes_others = true;
        renewal.removals = removals;
        renewal.copies = manifests.trees.copies();
        if let (Some(root), true) = (&mirror, is_object) {
            if !self.replaces && !there.entries().map_err(at_output)?.is_empty() {
                return Err(at_output(Error::write(Obstacle::FolderExists)));
            }
            renewal.begin_at(root);
            if !before.is_there() {
                refuse_within_other(self.output)?;
            }
        }
        let renewal = Arc::new(renewal);
        let written = (self.walk)(renewal.clone())?;
        let Some(mirror) = renewal.mirror() else { return written.outcome() };
        if let (Root::Objects(objects), true) = (mirror, is_unusable) {
            let left = objects.delete(&[MANIFEST.to_owned()]).into_iter().next();
            left.map_or(Ok(()), |(_, e)| Err(at_output(Error::write(e))))?;
        }
        let listed = renewal.list_all().map_err(|e| manifests.failure(self.input, Ended::Manifest(e)));
        let listed = listed
            .and_then(|()| renewal.with_listing(|listing| manifests.write(mirror, &source, listing, &before, false)));
        if listed.is_ok() {
            renewal.removals.iter().for_each(Removals::end);
            if let Some(root) = renewal.take_root() {
                root.remove().unwrap_or_else(|failure| written.fail(&failure));
            }
        }
        worse(written.outcome(), listed.map(drop))
    }

    /// What is there already, if it is replaced; in a store, where nothing has to be made, in any case.
    fn mirror(&self) -> Outcome<Option<Root>> {
        if is_url(self.output) {
            return root(self.output).map(Some);
        }
        if !self.replaces {
            return Ok(None);
        }
        match open_folder(self.output) {
            Ok(folder) => Ok(Some(Root::Folder(Arc::new(folder)))),
            Err(e) if [ErrorKind::NotFound, ErrorKind::NotADirectory].contains(&e.kind()) => Ok(None),
            Err(e) => Err(Failure::at_output(self.output, Error::write(e))),
        }
    }
}
