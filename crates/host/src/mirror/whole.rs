//! Protecting a whole folder, and listing it in a manifest.

use super::MANIFEST;
use super::excludes::Excludes;
use super::manifests::{Manifests, Sealing};
use super::renewal::Renewal;
use super::scan::Scan;
use crate::Error;
use crate::failure::{Failure, Outcome, worse};
use crate::transfer::tally::Tally;
use std::collections::HashMap;
use std::fs::File;
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
        let at_input = |e| Failure::at(self.input, Error::read(e));
        let mirror = if self.replaces { File::open(self.output).ok() } else { None };
        if mirror.is_some() && self.output.join(MANIFEST).exists() {
            (self.prepare)()?;
        }
        let excludes = Excludes::none();
        let manifests = Manifests::new(&self.sealing, self.output, excludes.text());
        // All files are written again, so a manifest that cannot be used is replaced like them.
        let there = mirror.as_ref().and_then(|mirror| mirror.try_clone().ok()).map(Arc::new);
        let (before, old) = manifests.before(there).unwrap_or_default();
        let source = File::open(self.input).map_err(at_input)?;
        let scan = Scan {
            source: source.try_clone().map_err(at_input)?,
            source_path: self.input,
            mirror,
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
        let plan = scan.run(old).map_err(|ended| manifests.failure(self.input, ended))?;
        let mut renewal = Renewal::new(plan.listing, HashMap::new(), self.sealing.carry);
        renewal.takes_others = true;
        let renewal = Arc::new(renewal);
        let written = (self.walk)(renewal.clone())?;
        let Some(mirror) = renewal.mirror() else { return written.outcome() };
        let listed = renewal.with_listing(|listing| manifests.write(mirror, &source, listing, &before, false));
        worse(written.outcome(), listed.map(drop))
    }
}
