//! Making and renewing mirrors. `phalanx/_trees.py` has the public function.

use crate::engines::{Stop, chunk_size, engines, interruptible_apart, suite};
use crate::error;
use crate::key::KeyOrName;
use crate::place::{Place, no_url};
use crate::signing;
use crate::stores::{self, StorageOptions};
use crate::ways::{self, Keys, Secret};
use phalanx_host::args::{RuleArg, RuleArgs, rule_of};
use phalanx_host::failure::Outcome;
use phalanx_host::file::Carry;
use phalanx_host::key_files::KeyFiles;
use phalanx_host::mirror::excludes::{Choice, Excludes, Rule};
use phalanx_host::mirror::manifests::Sealing;
use phalanx_host::mirror::run::{Change, Mirroring, OnChange, Options, Summary};
use phalanx_host::paths::{Destination, End, Outputs, is_dash};
use phalanx_host::transfer::action::Transfer;
use phalanx_host::transfer::protect::Protect;
use phalanx_host::transfer::tally::{Kept, Tally};
use phalanx_host::transfer::tree::{self, Job};
use phalanx_host::verbosity::Verbosity;
use pyo3::exceptions::{PyBaseException, PyValueError};
use pyo3::prelude::*;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

/// Nothing is said. What is to be known is in what a call returns.
pub const QUIET: Verbosity = Verbosity { quiet: true, verbose: false };

/// The numbers of a run, and the generation and the digest of its manifest.
type Numbers = (u64, u64, u64, u64, u64, u64, u64, u64, String);

/// The numbers, unless it was a dry run; for a dry run what would be done: path, word, and where it was; what was left out, and
/// why; and the exceptions of what failed.
type Done =
    (Option<Numbers>, Vec<(PathBuf, &'static str, Option<PathBuf>)>, Vec<(PathBuf, String)>, Vec<Py<PyBaseException>>);

/// Makes or renews a mirror.
#[pyfunction]
#[pyo3(signature = (source, mirror, *, key, keys, password, recipients, kms, cipher, chunk_size, delete, max_delete, delete_excluded,
    backup_dir, checksum, new, dry_run, exclude, exclude_from, only, exclude_caches, exclude_if_present, one_file_system, sync, threads,
    engine, storage_options, sign))]
#[expect(clippy::too_many_arguments, reason = "Python has them by name")]
pub fn mirror(
    py: Python<'_>,
    source: PathBuf,
    mirror: Place,
    key: Option<KeyOrName>,
    keys: Vec<KeyOrName>,
    password: Option<Secret>,
    recipients: Vec<String>,
    kms: Vec<String>,
    cipher: &str,
    chunk_size: u64,
    delete: bool,
    max_delete: Option<u64>,
    delete_excluded: bool,
    backup_dir: Option<PathBuf>,
    checksum: bool,
    new: bool,
    dry_run: bool,
    exclude: Vec<OsString>,
    exclude_from: Vec<PathBuf>,
    only: Option<Vec<PathBuf>>,
    exclude_caches: bool,
    exclude_if_present: Vec<OsString>,
    one_file_system: bool,
    sync: bool,
    threads: Option<usize>,
    engine: &str,
    storage_options: Option<StorageOptions>,
    sign: Option<PathBuf>,
) -> PyResult<Done> {
    no_url(Some(&source), "only a folder on a disk can be mirrored")?;
    let stores = stores::of_call(py, storage_options, mirror.is_url())?;
    if stores.is_some() && backup_dir.is_some() {
        return Err(PyValueError::new_err("backup_dir works with mirrors on disks only"));
    }
    let mirror = mirror.path().to_owned();
    let (suite, chunk_size) = (suite(cipher)?, self::chunk_size(chunk_size)?);
    let engines = engines(py, engine, threads)?;
    let choice = Choice {
        only,
        caches: exclude_caches,
        if_present: exclude_if_present,
        one_file_system,
        rules: rules(exclude, exclude_from).map_err(|failure| error::of_tree(py, failure))?,
    };
    let excludes = Excludes::new(choice).map_err(|failure| error::of_tree(py, failure))?;
    let signing = signing::by(py, sign, suite, None)?;
    let mut key_files = KeyFiles::of_process();
    if !recipients.is_empty() {
        key_files = key_files.sparing_identities();
    }
    let recipients = Arc::new(ways::known(py, Keys { key, keys, password, kms }, &recipients)?);
    if checksum && recipients.opens_nothing() {
        return Err(PyValueError::new_err("checksum needs a key or a password: public keys cannot open the mirror"));
    }
    let destination = destination(Outputs::At(End::Path(mirror.clone())), sync);
    let options = Options {
        excludes,
        delete,
        max_delete,
        delete_excluded,
        backup_dir,
        checksum,
        new,
        dry_run,
        ..Options::new(source, mirror)
    };
    let action = Protect { recipients, suite, chunk_size };
    let transfer = Transfer::with(action, destination, key_files, engines, QUIET).signing(signing);
    // The environment is read here, because other threads could change it while this one is detached from the interpreter.
    let sealing = transfer.sealing();
    let (summary, changes, kept) = interruptible_apart(py, |stop| {
        stores::during(stores.as_ref(), stop, || run(&options, &transfer, sealing, stop))
    })?;
    let summary = summary.map_err(|failure| error::of_tree(py, failure))?;
    let changes = changes.into_iter().map(|Change { path, what, from }| (path, what, from)).collect();
    let within = |path: PathBuf| path.strip_prefix(&options.source).map(Path::to_owned).unwrap_or(path);
    let left_out = kept.left_out.into_iter().map(|(path, why)| (within(path), why)).collect();
    let failures = kept.failures.into_iter().map(|failure| error::of_tree(py, failure).into_value(py)).collect();
    Ok((summary.map(numbers), changes, left_out, failures))
}

/// How the files of a tree are written. All existing ones are replaced.
fn destination(outputs: Outputs, sync: bool) -> Destination {
    Destination { outputs, force: true, remove: false, sync, recursive: true, resume: false, carry: Carry::All }
}

/// The rules of patterns, and after them those of files with patterns.
fn rules(patterns: Vec<OsString>, files: Vec<PathBuf>) -> Outcome<Vec<Rule>> {
    // For the command, a dash is standard input.
    let named = |path: PathBuf| if is_dash(&path) { Path::new(".").join(path) } else { path };
    let patterns = patterns.iter().map(|pattern| rule_of(pattern).into());
    let files = files.into_iter().map(|path| RuleArg::From(named(path)));
    RuleArgs(patterns.chain(files).collect()).read()
}

/// Makes or renews the mirror, while the thread that called waits.
fn run(
    options: &Options,
    transfer: &Transfer<Protect>,
    sealing: Sealing<'_>,
    stop: &Arc<Stop>,
) -> (Outcome<Option<Summary>>, Vec<Change>, Kept) {
    let tally = Arc::new(Tally::keeping());
    let changes: Arc<Mutex<Vec<Change>>> = Arc::default();
    let noted = changes.clone();
    let note = move |change| {
        noted.lock().unwrap_or_else(PoisonError::into_inner).push(change);
        Ok(())
    };
    let mirroring = Mirroring {
        options,
        sealing,
        tally: &tally,
        quiet: true,
        on_change: options.dry_run.then(|| Arc::new(note) as Arc<OnChange>),
        progress: stop.clone(),
        walk: &|renewal| {
            let (input, output) = (&*options.source, Some(&*options.mirror));
            tree::run(transfer, Job { input, output, selection: Some(renewal), meter: &**stop, tally: tally.clone() })
        },
    };
    let done = mirroring.run();
    let changes = std::mem::take(&mut *changes.lock().unwrap_or_else(PoisonError::into_inner));
    (done, changes, tally.take())
}

fn numbers(summary: Summary) -> Numbers {
    let Summary { new, changed, moved, metadata, deleted, unchanged, bytes, manifest } = summary;
    (new, changed, moved, metadata, deleted, unchanged, bytes, manifest.generation, manifest.digest.to_string())
}
