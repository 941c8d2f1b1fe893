//! `phalanx verify`

use super::{unprotect, verify_volume, volumes};
use crate::args::Verify;
use crate::progress::Bar;
use crate::transfer;
use phalanx_core::{OpenedBy, Opener, Progress};
use phalanx_host::Result;
use phalanx_host::engines::Engines;
use phalanx_host::failure::{self, Code, Failure, Outcome};
use phalanx_host::file::{Ends, Existing, is_url, unprotected_name};
use phalanx_host::key_files::KeyFiles;
use phalanx_host::lines::{complain, shown};
use phalanx_host::mirror::check::Checked;
use phalanx_host::mirror::listing::{Listing, NodeId};
use phalanx_host::mirror::manifest::{Above, Listed, Lost, refuse_lost};
use phalanx_host::mirror::state::Trees;
use phalanx_host::mirror::verdict::Compared;
use phalanx_host::mirror::{has_manifest, is_in_mirror};
use phalanx_host::paths::{Destination, End, file_len};
use phalanx_host::report::{self, Status};
use phalanx_host::say::say;
use phalanx_host::secrets::{self, AtHand};
use phalanx_host::signatures::{Signers, Signing, Single, Watch};
use phalanx_host::transfer::action::{Action, Moved, Transfer};
use phalanx_host::transfer::meter::Meter;
use phalanx_host::transfer::tally::Tally;
use phalanx_host::verbosity::Verbosity;
use phalanx_host::volumes::is_volume;
use phalanx_host::words::{count, others};
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::sync::Arc;

const ACCEPT: &str = "--accept is for volumes, and for mirrors with --recursive";

pub fn run(args: Verify, verbosity: Verbosity) -> Outcome {
    if args.json.json {
        report::begin(Status::Whole);
    }
    report::end(verify(args, verbosity))
}

fn verify(args: Verify, verbosity: Verbosity) -> Outcome {
    let action = Check { opener: secrets::opener(&args.keys, verbosity)?, verbosity };
    let nowhere = Destination::nowhere(args.recursive);
    let keys = KeyFiles::new(&args.keys.keys, &args.keys.identities);
    let transfer = Transfer::new(action, nowhere, keys, &args.engine, verbosity)?.signing(args.signers.signing()?);
    transfer.engines.expect(args.paths.iter().filter_map(|path| file_len(path)).sum());
    let mut totals = Totals::default();
    let done = failure::each(&args.paths, |path| {
        if is_url(path) && args.recursive {
            return objects(&transfer, End::from(path.clone()).path(), &args, &mut totals);
        }
        if is_url(path) && args.manifest.accept {
            return Err(Failure::usage(ACCEPT));
        }
        if is_url(path) {
            return totals.count(one(&transfer, path));
        }
        let is_mirror = args.recursive && has_manifest(path);
        let is_within = || args.recursive && path.is_dir() && is_in_mirror(path);
        let is_checked = transfer.signing.signers().is_some();
        let demands_manifest =
            args.manifest.quick || args.pins().names_one() || is_checked && args.recursive && path.is_dir();
        if !is_mirror && is_checked && is_volume(path) {
            return Err(unsigned_volume(path));
        }
        if demands_manifest && !is_mirror && !is_within() {
            return Err(no_manifest(path));
        }
        if !is_mirror && !demands_manifest && is_volume(path) {
            let check = if args.manifest.accept { verify_volume::accept } else { verify_volume::run };
            return check(path, &transfer.action.opener, &args.engine, verbosity);
        }
        if args.manifest.accept && (!args.recursive || path.is_file()) {
            return Err(Failure::usage(ACCEPT));
        }
        if !is_mirror {
            volumes::check(path)?;
        }
        if args.recursive && path.is_dir() {
            let roster = Arc::new(transfer.engines.small_crew().roster);
            let check =
                |listing, root| transfer::tree(&transfer, path, None, Some(Arc::new(Checked::below(listing, root))));
            let (lost, first) = (lost(&args), transfer.signing.first());
            if let Some(Above { listed, root, within }) =
                Listed::read_at_or_above(path, &transfer.action.opener, roster, lost, first)?
            {
                let name = check_signature(&transfer.signing, &root, &listed)?;
                let compared = listed.compare_within(&root, &args.pins(), &within)?;
                return mirror(&transfer, path, (compared, name), (&args, &mut totals), check);
            }
            if demands_manifest {
                return Err(no_manifest(path));
            }
            refuse_lost(path, &Trees::of_user(), lost)?;
            let found = transfer::tree(&transfer, path, None, None)?;
            let volumes = volumes::within(path)?;
            if found.seen() == 0 && volumes.is_empty() {
                return Err(Failure::nothing_protected(path));
            }
            totals.add_unlisted(path, &found, verbosity);
            let of_volumes = failure::each(&volumes, |volume: &PathBuf| {
                verify_volume::run(volume, &transfer.action.opener, &args.engine, verbosity)
            });
            return failure::worse(found.outcome(), of_volumes);
        }
        totals.count(one(&transfer, path))
    });
    let Totals { files, bytes, left_out, failed, .. } = totals;
    if verbosity.quiet
        || report::is_on()
        || args.manifest.quick
        || files == 0 && failed + left_out <= 1
        || !args.recursive && args.paths.len() < 2
    {
        return done;
    }
    let line = format!("{}, {}: whole and authentic", count(files, "file"), count(bytes, "byte"));
    let others = others([(left_out, "left out"), (failed, "failed")]);
    failure::worse(done, say(line + &others))
}

/// Checks the signature of a manifest, if somebody must have signed it. Returns who has.
pub fn check_signature(signing: &Signing, mirror: &Path, listed: &Listed) -> Outcome<Option<String>> {
    let check = |signers: &Signers| signers.check_tree(mirror, listed.signed, &listed.listing);
    signing.signers().map(check).transpose()
}

pub fn no_manifest(path: &Path) -> Failure {
    Failure::new(Code::NotAuthentic, format!("{}: it has no manifest", shown(path))).on(path)
}

/// Why a volume cannot be checked for a signature.
pub fn unsigned_volume(path: &Path) -> Failure {
    Failure::new(Code::NotAuthentic, format!("{}: it is a volume, and volumes are not signed", shown(path))).on(path)
}

/// What is done if a manifest is gone that this machine has seen.
fn lost(args: &Verify) -> Lost<'static> {
    if args.pins().accept { Lost::Forgotten } else { Lost::Refused("verify --accept goes on without it") }
}

/// What was checked so far.
#[derive(Default)]
struct Totals {
    files: u64,
    bytes: u64,
    left_out: u64,
    failed: u64,
}

impl Totals {
    /// Counts a file, and how many bytes of plaintext it has.
    fn count(&mut self, checked: Outcome<u64>) -> Outcome {
        match checked {
            Ok(len) => {
                self.files += 1;
                self.bytes += len;
            }
            Err(_) => self.failed += 1,
        }
        checked.map(drop)
    }

    /// Adds what was found in a folder without a manifest.
    fn add_unlisted(&mut self, path: &Path, found: &Tally, verbosity: Verbosity) {
        report::add(serde_json::json!({ "manifest": false }));
        if found.seen() > 0 && !verbosity.quiet {
            complain(format!("{}: no manifest, so nothing is known of what is missing or older", shown(path)));
        }
        self.add(found);
    }

    fn add(&mut self, found: &Tally) {
        self.files += found.files();
        self.bytes += found.bytes();
        self.left_out += found.left_out();
        self.failed += found.failed();
    }
}

/// Reports a comparison of a mirror with its manifest. Unless it ends there, `check` reads what is right so far.
fn mirror(
    transfer: &Transfer<Check>,
    path: &Path,
    (compared, name): (Compared, Option<String>),
    (args, totals): (&Verify, &mut Totals),
    check: impl FnOnce(Listing, NodeId) -> Outcome<Arc<Tally>>,
) -> Outcome {
    let (generation, digest) = (compared.seen.generation, compared.seen.digest.to_string());
    let mut fields = serde_json::json!({ "generation": generation, "digest": digest });
    if let Some(name) = &name {
        fields["signer"] = name.clone().into();
    }
    totals.failed += compared.wrong;
    let signed = name.map_or(String::new(), |name| format!(", signed by {name}"));
    let said = |line: String| if transfer.verbosity.quiet || report::is_on() { Ok(()) } else { say(line) };
    if args.manifest.quick {
        fields["files_in_place"] = compared.files_in_place().into();
        report::add(fields);
        return failure::worse(said(compared.quick_line(path) + &signed), compared.outcome);
    }
    report::add(fields);
    let line = compared.line(path) + &signed;
    let Compared { listing, root, outcome: checked, .. } = compared;
    let found = check(listing, root)?;
    totals.add(&found);
    failure::worse(failure::worse(checked, found.outcome()), said(line))
}

/// Checks a protected folder in a store, or a single object.
fn objects(transfer: &Transfer<Check>, path: &Path, args: &Verify, totals: &mut Totals) -> Outcome {
    let (opener, roster) = (&transfer.action.opener, Arc::new(transfer.engines.small_crew().roster));
    let lost = lost(args);
    if let Some(Above { listed, root, within }) =
        Listed::read_at_or_above(path, opener, roster, lost, transfer.signing.first())?
    {
        let name = check_signature(&transfer.signing, &root, &listed)?;
        let compared = match args.manifest.quick {
            true => listed.compare_closely(&root, &args.pins(), &within)?,
            false => listed.compare_within(&root, &args.pins(), &within)?,
        };
        let check =
            |listing, folder| transfer::objects(transfer, (&root, None), (&listing, folder), Arc::default(), true);
        return mirror(transfer, path, (compared, name), (args, totals), check);
    }
    if args.manifest.quick || args.pins().names_one() {
        return Err(no_manifest(path));
    }
    refuse_lost(path, &Trees::of_user(), lost)?;
    let tally = Arc::new(Tally::default());
    let Some(listing) = transfer::unlisted(path, &tally)? else { return totals.count(one(transfer, path)) };
    if transfer.signing.signers().is_some() {
        return Err(no_manifest(path));
    }
    let found = transfer::objects(transfer, (path, None), (&listing, NodeId::ROOT), tally, false)?;
    if found.seen() == 0 {
        return Err(Failure::nothing_protected(path));
    }
    totals.add_unlisted(path, &found, transfer.verbosity);
    found.outcome()
}

fn one(transfer: &Transfer<Check>, path: &Path) -> Outcome<u64> {
    if path.is_dir() {
        return Err(Failure::folder(path));
    }
    let end = End::from(path.to_owned());
    let (mut ends, path) = (Ends::only(end.open()?), end.path());
    let signature = Single::begin(&transfer.signing, path, None, Existing::Keep)?;
    let meter = Bar::file(shown(path), ends.input.len(), transfer.verbosity);
    let watch = signature.watch(&meter);
    let progress: &dyn Progress = watch.as_ref().map_or(&meter, |watch| watch);
    let done = transfer.action.transfer(&transfer.engines, &mut ends, &meter, progress);
    meter.finish();
    let contents = watch.and_then(Watch::contents);
    let moved = done.map_err(|e| Failure::at(path, e))?;
    signature.settle((path, path), &ends, &moved, contents, &transfer.rules())?;
    if let (Some(by), None) = (&moved.by, signature.name()) {
        transfer.action.opened(|| path.to_owned(), by);
    }
    report::done_by(path, None, moved.bytes, signature.name());
    if !transfer.verbosity.quiet && !report::is_on() {
        let signed = signature.name().map_or(String::new(), |name| format!(", signed by {name}"));
        say(format!("{}: {}: whole and authentic{signed}", shown(path), count(moved.bytes, "byte")))?;
    }
    if transfer.verbosity.verbose {
        complain(format!("{}: {}, {}", shown(path), meter.summary(moved.bytes), moved.description()));
    }
    Ok(moved.bytes)
}

struct Check {
    opener: Opener<AtHand>,
    verbosity: Verbosity,
}

impl Action for Check {
    fn output_name(&self, name: &OsStr) -> Option<OsString> {
        unprotected_name(name)
    }

    fn transfer<'l>(
        &self,
        engines: &'l Engines,
        ends: &mut Ends,
        meter: &dyn Meter,
        progress: &dyn Progress,
    ) -> Result<Moved<'l>> {
        unprotect::open(&self.opener, engines, ends, meter, progress)
    }

    fn opens(&self) -> bool {
        true
    }

    fn opened(&self, path: impl FnOnce() -> PathBuf, by: &OpenedBy) {
        self.opener.source().tell_sender(path, by);
    }

    fn checked(&self, path: &Path, bytes: u64) -> Outcome {
        if self.verbosity.verbose && !report::is_on() {
            say(format!("{}: {}: whole and authentic", shown(path), count(bytes, "byte")))?;
        }
        Ok(())
    }
}
