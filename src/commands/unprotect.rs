//! `phalanx unprotect`

use super::verify::{check_signature, no_manifest, unsigned_volume};
use super::{volume_tree, volumes};
use crate::args::UnprotectPlan;
use crate::transfer;
use phalanx_core::{OpenedBy, Opener, Progress};
use phalanx_host::Result;
use phalanx_host::args::EngineArgs;
use phalanx_host::engines::Engines;
use phalanx_host::failure::{self, Code, Failure, Outcome};
use phalanx_host::file::{Ends, is_url, unprotected_name};
use phalanx_host::key_files::KeyFiles;
use phalanx_host::lines::{complain, shown};
use phalanx_host::mirror::check::Checked;
use phalanx_host::mirror::has_manifest;
use phalanx_host::mirror::listing::NodeId;
use phalanx_host::mirror::manifest::{Above, Listed, Lost, Pins, refuse_lost};
use phalanx_host::mirror::state::Trees;
use phalanx_host::mirror::verdict::Compared;
use phalanx_host::paths::{Destination, End, Outputs, Route};
use phalanx_host::report::{self, Status};
use phalanx_host::secrets::{self, AtHand};
use phalanx_host::transfer::action::{Action, Moved, Transfer};
use phalanx_host::transfer::meter::Meter;
use phalanx_host::transfer::tally::Tally;
use phalanx_host::verbosity::Verbosity;
use phalanx_host::volumes::{is_folder_of_volume, is_volume};
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// What is done if a manifest is gone that this machine has seen.
const LOST: Lost<'static> = Lost::Refused("--ignore-manifest restores what is there");

pub fn run(plan: UnprotectPlan, verbosity: Verbosity) -> Outcome {
    if plan.json {
        report::begin(Status::Unprotected);
    }
    report::end(unprotect(plan, verbosity))
}

fn unprotect(plan: UnprotectPlan, verbosity: Verbosity) -> Outcome {
    let opener = secrets::opener(&plan.keys, verbosity)?;
    let action = Unprotect { opener, ignores_manifest: plan.ignore_manifest };
    let keys = KeyFiles::new(&plan.keys.keys, &plan.keys.identities);
    if let Some(dir) = &plan.volume {
        volumes::check(dir)?;
        return super::volume_file::run(&plan, dir, &action.opener, &keys, verbosity);
    }
    if plan.salvage {
        return super::salvage::run(&plan, &action.opener, &keys, verbosity);
    }
    if let Some(range) = plan.range {
        return super::range::run(&plan, range, &action.opener, &keys, verbosity);
    }
    check_output(&plan.destination)?;
    let transfer =
        Transfer::new(action, plan.destination, keys, &plan.engine, verbosity)?.signing(plan.signers.signing()?);
    let mut paths = plan.paths;
    let volumes: Vec<PathBuf> =
        paths.extract_if(.., |path| !has_manifest(path) && (is_volume(path) || is_folder_of_volume(path))).collect();
    if let (Some(volume), Some(_)) = (volumes.first(), transfer.signing.signers()) {
        return Err(unsigned_volume(volume));
    }
    let restored = if volumes.is_empty() { Ok(()) } else { restore(&transfer, &plan.engine, &volumes) };
    failure::worse(restored, transfer::run(&transfer, &paths, |route| folder(&transfer, route)))
}

/// Refuses to write folders to a store, which has neither links nor permissions.
fn check_output(destination: &Destination) -> Outcome {
    let url = match &destination.outputs {
        Outputs::At(End::Object(url)) => Some(url.path()),
        Outputs::In(folder) if is_url(folder) => Some(&**folder),
        _ => None,
    };
    match url.filter(|_| destination.recursive) {
        Some(url) => Err(Failure::usage(format!("{}: unprotect --recursive writes to disks only", shown(url)))),
        None => Ok(()),
    }
}

/// Writes whole volumes into folders.
fn restore(transfer: &Transfer<Unprotect>, engine: &EngineArgs, volumes: &[PathBuf]) -> Outcome {
    let destination = &transfer.destination;
    let refuse = |volume: &PathBuf| -> Outcome {
        volumes::check(volume)?;
        let at = |line: &str| format!("{}: {line}", shown(volume));
        match () {
            () if !destination.recursive => {
                let ways = "mount it, take all of it with --recursive, or single files with --volume";
                Err(Failure::new(Code::InputOutput, at("it is a volume")).hint(ways))
            }
            () if destination.remove => Err(Failure::usage(at("it is a volume, which --remove does not delete"))),
            () if matches!(destination.outputs, Outputs::Beside) => {
                Err(Failure::usage(at("what is in a volume needs --output or --output-dir")))
            }
            () => Ok(()),
        }
    };
    failure::each(volumes, refuse)?;
    let (routes, named) = destination.routes(volumes, |name| Some(name.to_owned()))?;
    let shared = volumes::Shared {
        opener: &transfer.action.opener,
        engine,
        destination,
        made: &transfer.made,
        verbosity: transfer.verbosity,
    };
    let done = failure::each(&routes, |route| volume_tree::run(&shared, route.input.path(), route.output.path()));
    failure::worse(named, done)
}

/// Writes what is in a protected folder into another one: if there is a manifest, what it lists.
fn folder(transfer: &Transfer<Unprotect>, route: &Route) -> Outcome {
    let (input, output) = (route.input.path(), route.output.path());
    if is_url(input) {
        return objects(transfer, route);
    }
    let roster = Arc::new(transfer.engines.small_crew().roster);
    if !transfer.action.ignores_manifest {
        let (opener, first) = (&transfer.action.opener, transfer.signing.first());
        if let Some(Above { listed, root, within }) = Listed::read_at_or_above(input, opener, roster, LOST, first)? {
            say_signer(transfer, &root, &listed)?;
            return restored(transfer, (input, output), listed.compare_within(&root, &Pins::default(), &within)?);
        }
        refuse_lost(input, &Trees::of_user(), LOST)?;
    }
    if transfer.signing.signers().is_some() {
        return Err(no_manifest(input));
    }
    without_manifest(transfer, input, &*transfer::tree(transfer, input, Some(output), None)?)
}

/// Checks the signature of a manifest, if somebody must have signed it, and says who has.
fn say_signer(transfer: &Transfer<Unprotect>, mirror: &Path, listed: &Listed) -> Outcome {
    let Some(name) = check_signature(&transfer.signing, mirror, listed)? else { return Ok(()) };
    if !transfer.verbosity.quiet {
        complain(format!("{}: signed by {name}", shown(mirror)));
    }
    report::add(serde_json::json!({ "signer": name }));
    Ok(())
}

/// Says that nothing proves that all is there.
fn without_manifest(transfer: &Transfer<Unprotect>, input: &Path, restored: &Tally) -> Outcome {
    if restored.seen() > 0 && !transfer.verbosity.quiet {
        let line = "no manifest was compared, so nothing is known of what is missing or older";
        complain(format!("{}: {line}", shown(input)));
    }
    restored.outcome()
}

/// Writes what is in a protected folder in a store into one on a disk, or a single object.
fn objects(transfer: &Transfer<Unprotect>, route: &Route) -> Outcome {
    let (input, output) = (route.input.path(), Some(route.output.path()));
    let tally = Arc::new(Tally::default());
    if !transfer.action.ignores_manifest {
        let (opener, roster) = (&transfer.action.opener, Arc::new(transfer.engines.small_crew().roster));
        let first = transfer.signing.first();
        if let Some(Above { listed, root: mirror, within }) =
            Listed::read_at_or_above(input, opener, roster, LOST, first)?
        {
            say_signer(transfer, &mirror, &listed)?;
            let compared = listed.compare_within(&mirror, &Pins::default(), &within)?;
            let Compared { listing, root, outcome: checked, .. } = compared;
            let restored = transfer::objects(transfer, (&mirror, output), (&listing, root), tally, true)?;
            return failure::worse(checked, restored.outcome());
        }
        refuse_lost(input, &Trees::of_user(), LOST)?;
    }
    match transfer::unlisted(input, &tally)? {
        Some(_) if transfer.signing.signers().is_some() => Err(no_manifest(input)),
        Some(listing) => {
            let restored = transfer::objects(transfer, (input, output), (&listing, NodeId::ROOT), tally, false)?;
            without_manifest(transfer, input, &restored)
        }
        None => transfer::file(transfer, route),
    }
}

/// Writes what was compared with a manifest and is right.
fn restored(transfer: &Transfer<Unprotect>, (input, output): (&Path, &Path), compared: Compared) -> Outcome {
    let Compared { listing, root, outcome: checked, .. } = compared;
    let right = Arc::new(Checked::below(listing, root));
    let restored = transfer::tree(transfer, input, Some(output), Some(right))?;
    failure::worse(checked, restored.outcome())
}

struct Unprotect {
    opener: Opener<AtHand>,
    ignores_manifest: bool,
}

impl Action for Unprotect {
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
        open(&self.opener, engines, ends, meter, progress)
    }

    fn opens(&self) -> bool {
        true
    }

    fn opened(&self, path: impl FnOnce() -> PathBuf, by: &OpenedBy) {
        self.opener.source().tell_sender(path, by);
    }
}

/// Opens a protected file. The user may be asked for a password.
pub fn open<'l>(
    opener: &Opener<AtHand>,
    engines: &'l Engines,
    ends: &mut Ends,
    meter: &dyn Meter,
    progress: &dyn Progress,
) -> Result<Moved<'l>> {
    let describe = |slot, by: &OpenedBy| Some(opener.source().describe(slot, by));
    phalanx_host::transfer::unprotect::open(opener, describe, engines, ends, meter, progress)
}
