//! Checking mirrors. `phalanx/_trees.py` has the public function.

use crate::engines::{Stop, engines, interruptible_apart};
use crate::error;
use crate::key::KeyOrName;
use crate::mirror::QUIET;
use crate::place::Place;
use crate::signing;
use crate::stores::{self, StorageOptions};
use crate::ways::{self, Keys, Secret};
use phalanx_core::tree::{Digest, TreeId};
use phalanx_core::{Opener, Progress};
use phalanx_host::engines::Engines;
use phalanx_host::failure::{Code, Failure, Outcome};
use phalanx_host::file::{Ends, unprotected_name};
use phalanx_host::hand::Hand;
use phalanx_host::key_files::KeyFiles;
use phalanx_host::lines::shown;
use phalanx_host::mirror::check::{Checked, Depth, Finding};
use phalanx_host::mirror::listing::{NodeId, State};
use phalanx_host::mirror::manifest::{Listed, Pins, explain, root};
use phalanx_host::mirror::root::Root;
use phalanx_host::mirror::state::{Trees, unhex};
use phalanx_host::paths::Destination;
use phalanx_host::signatures::Signers;
use phalanx_host::transfer::action::{Action, Moved, Transfer};
use phalanx_host::transfer::meter::Meter;
use phalanx_host::transfer::objects;
use phalanx_host::transfer::tally::Tally;
use phalanx_host::transfer::tree::{self, Job};
use phalanx_host::transfer::unprotect;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// How many files are right and how many bytes of plaintext they have; the generation, the digest and the signer of the manifest; what is
/// wrong: path, kind, and the rest of the line; and a line for all of that, if there is any.
type Found = (u64, u64, u64, String, Option<String>, Vec<(PathBuf, &'static str, String)>, Option<String>);

/// Checks a mirror against its manifest.
#[pyfunction]
#[pyo3(signature = (path, *, key, keys, password, identities, kms, quick, expect, at_least, accept, threads, engine, storage_options, signers,
    revoked))]
#[expect(clippy::too_many_arguments, reason = "Python has them by name")]
pub fn verify_tree(
    py: Python<'_>,
    path: Place,
    key: Option<KeyOrName>,
    keys: Vec<KeyOrName>,
    password: Option<Secret>,
    identities: Vec<PathBuf>,
    kms: Vec<String>,
    quick: bool,
    expect: Option<&str>,
    at_least: Option<u64>,
    accept: bool,
    threads: Option<usize>,
    engine: &str,
    storage_options: Option<StorageOptions>,
    signers: Option<PathBuf>,
    revoked: Option<PathBuf>,
) -> PyResult<Found> {
    let stores = stores::of_call(py, storage_options, path.is_url())?;
    let path = path.path().to_owned();
    let wrong = || PyValueError::new_err("expect is the digest of a manifest: 64 hexadecimal digits");
    let digest = expect.map(|digits| unhex(digits).map(Digest).ok_or_else(wrong)).transpose()?;
    let pins = Pins { digest, generation: at_least, accept };
    let engines = engines(py, engine, threads)?;
    let opener = ways::opener(py, Keys { key, keys, password, kms }, &identities)?;
    let signing = signing::checked(py, signers, revoked)?;
    let transfer = Transfer::with(Open { opener }, Destination::nowhere(true), KeyFiles::of_process(), engines, QUIET)
        .signing(signing);
    // The environment is read attached to the interpreter, because other threads could change it otherwise.
    let check = Check { path: &path, transfer: &transfer, pins: &pins, trees: Trees::of_user(), quick };
    let checked = interruptible_apart(py, |stop| stores::during(stores.as_ref(), stop, || check.run(stop)))?;
    let checked = checked.map_err(|failure| error::of_tree(py, failure))?;
    let Report { files, bytes, generation, digest, signer, tree, findings } = checked;
    if !findings.is_empty() {
        explain(&path, tree);
        error::warn(py);
    }
    let line = findings.first().map(|first| {
        let line = format!("{}: {}", shown(&path.join(&first.path)), first.wrong.text(&path));
        if findings.len() == 1 { line } else { format!("{} findings, the first is {line}", findings.len()) }
    });
    let finding = |Finding { path: place, wrong }| (place, wrong.kind(), wrong.text(&path));
    let findings = findings.into_iter().map(finding).collect();
    Ok((files, bytes, generation, digest.to_string(), signer, findings, line))
}

/// A check of a mirror.
struct Check<'a> {
    path: &'a Path,
    transfer: &'a Transfer<Open>,
    pins: &'a Pins,
    trees: Trees,
    quick: bool,
}

/// What was found.
struct Report {
    files: u64,
    bytes: u64,
    generation: u64,
    digest: Digest,
    /// Who has signed the manifest, if somebody must have.
    signer: Option<String>,
    tree: TreeId,
    findings: Vec<Finding>,
}

impl Check<'_> {
    /// Compares the mirror with its manifest, and opens what is in its place.
    fn run(&self, stop: &Arc<Stop>) -> Outcome<Report> {
        let (path, transfer) = (self.path, self.transfer);
        let roster = Arc::new(transfer.engines.small_crew().roster);
        let without = || Failure::new(Code::NotAuthentic, format!("{}: it has no manifest", shown(path)));
        let listed = Listed::read(path, &transfer.action.opener, roster)?.ok_or_else(without)?;
        listed.check_age_with(path, self.pins, &self.trees)?;
        let check = |signers: &Signers| signers.check_tree(path, listed.signed, &listed.listing);
        let signer = transfer.signing.signers().map(check).transpose()?;
        let (generation, digest, tree) = (listed.head.generation, listed.digest, listed.head.tree);
        let (listing, mut findings) =
            listed.findings(path, if self.quick { Depth::Chunks } else { Depth::Names }, &**stop)?;
        if self.quick {
            let (files, bytes) = listing.totals(|state| state != State::Dropped);
            return Ok(Report { files, bytes, generation, digest, signer, tree, findings });
        }
        let tally = Arc::new(Tally::keeping());
        let meter: &dyn Meter = &**stop;
        match root(path)? {
            Root::Folder(_) => {
                let selection = Some(Arc::new(Checked::new(listing)) as _);
                tree::run(transfer, Job { input: path, output: None, selection, meter, tally: tally.clone() })?;
            }
            Root::Objects(folder) => {
                let (objects, listing, root) = (&*folder, &listing, NodeId::ROOT);
                let (is_listed, output, tally) = (true, None, &*tally);
                let job = objects::Job { input: path, objects, listing, root, is_listed, output, meter, tally };
                objects::run(transfer, &job)?;
            }
        }
        findings.extend(tally.take().failures.into_iter().map(|failure| Finding::of_failure(path, failure)));
        findings.sort_by(|a, b| a.path.cmp(&b.path));
        Ok(Report { files: tally.files(), bytes: tally.bytes(), generation, digest, signer, tree, findings })
    }
}

/// Opens files.
struct Open {
    opener: Opener<Hand>,
}

impl Action for Open {
    fn output_name(&self, name: &OsStr) -> Option<OsString> {
        unprotected_name(name)
    }

    fn transfer<'l>(
        &self,
        engines: &'l Engines,
        ends: &mut Ends,
        meter: &dyn Meter,
        progress: &dyn Progress,
    ) -> phalanx_host::Result<Moved<'l>> {
        unprotect::open(&self.opener, |_, _| None, engines, ends, meter, progress)
    }

    fn opens(&self) -> bool {
        true
    }
}
