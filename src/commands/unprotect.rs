//! `phalanx unprotect`

use super::{volume_tree, volumes};
use crate::args::UnprotectPlan;
use crate::transfer;
use phalanx_core::{OpenedBy, Opener, Progress};
use phalanx_host::Result;
use phalanx_host::args::EngineArgs;
use phalanx_host::engines::Engines;
use phalanx_host::failure::{self, Code, Failure, Outcome};
use phalanx_host::file::{Ends, unprotected_name};
use phalanx_host::key_files::KeyFiles;
use phalanx_host::lines::{complain, shown};
use phalanx_host::mirror::check::Checked;
use phalanx_host::mirror::has_manifest;
use phalanx_host::mirror::manifest::{Above, refuse_lost};
use phalanx_host::mirror::manifest::{Listed, Pins};
use phalanx_host::mirror::state::Trees;
use phalanx_host::mirror::verdict::Compared;
use phalanx_host::paths::Outputs;
use phalanx_host::report::{self, Status};
use phalanx_host::secrets::{self, AtHand};
use phalanx_host::transfer::action::{Action, Moved, Transfer};
use phalanx_host::transfer::meter::Meter;
use phalanx_host::verbosity::Verbosity;
use phalanx_volume::{is_folder_of_volume, is_volume};
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::sync::Arc;

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
    let transfer = Transfer::new(action, plan.destination, keys, &plan.engine, verbosity)?;
    let mut paths = plan.paths;
    let volumes: Vec<PathBuf> =
        paths.extract_if(.., |path| !has_manifest(path) && (is_volume(path) || is_folder_of_volume(path))).collect();
    let restored = if volumes.is_empty() { Ok(()) } else { restore(&transfer, &plan.engine, &volumes) };
    failure::worse(restored, transfer::run(&transfer, &paths, |input, output| folder(&transfer, input, output)))
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
    let shared = volume_tree::Shared {
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
fn folder(transfer: &Transfer<Unprotect>, input: &Path, output: &Path) -> Outcome {
    let roster = Arc::new(transfer.engines.small_crew().roster);
    let listed = match transfer.action.ignores_manifest {
        true => None,
        false => Listed::read(input, &transfer.action.opener, roster.clone())?,
    };
    let Some(listed) = listed else {
        if !transfer.action.ignores_manifest
            && let Some(Above { listed, root, within }) = Listed::read_above(input, &transfer.action.opener, roster)?
        {
            return restored(transfer, (input, output), listed.compare_within(&root, &Pins::default(), &within)?);
        }
        if !transfer.action.ignores_manifest {
            refuse_lost(input, &Trees::of_user(), "--ignore-manifest restores what is there")?;
        }
        let restored = transfer::tree(transfer, input, Some(output), None)?;
        if restored.seen() > 0 && !transfer.verbosity.quiet {
            let line = "no manifest was compared, so nothing is known of what is missing or older";
            complain(format!("{}: {line}", shown(input)));
        }
        return restored.outcome();
    };
    restored(transfer, (input, output), listed.compare(input, &Pins::default())?)
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
