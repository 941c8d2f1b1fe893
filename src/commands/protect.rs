//! `phalanx protect`

use crate::args::ProtectPlan;
use crate::transfer;
use phalanx_host::Error;
use phalanx_host::age;
use phalanx_host::failure::{Failure, Outcome, worse};
use phalanx_host::key_files::KeyFiles;
use phalanx_host::lines::{complain_with, shown};
use phalanx_host::mirror::MANIFEST;
use phalanx_host::mirror::excludes::Excludes;
use phalanx_host::mirror::manifests::Manifests;
use phalanx_host::mirror::renewal::Renewal;
use phalanx_host::mirror::scan::Scan;
use phalanx_host::paths;
use phalanx_host::report::{self, Status};
use phalanx_host::secrets::Recipients;
use phalanx_host::transfer::action::Transfer;
use phalanx_host::transfer::protect::Protect;
use phalanx_host::transfer::tally::Tally;
use phalanx_host::verbosity::Verbosity;
use std::collections::HashMap;
use std::fs::File;
use std::path::Path;
use std::sync::Arc;

pub fn run(plan: ProtectPlan, verbosity: Verbosity) -> Outcome {
    paths::refuse_terminal(&plan.destination, &plan.paths)?;
    if plan.destination.recursive && plan.keys.recipients_files.is_empty() && !verbosity.quiet {
        for path in plan.paths.iter().filter(|path| age::is_public(path)) {
            let path = shown(path);
            let hint = format!("--recipients-file {path} protects for them; -R takes folders");
            complain_with(format!("{path} holds public keys"), Some(&hint));
        }
    }
    if plan.json {
        report::begin(Status::Protected);
    }
    report::end(protect(plan, verbosity))
}

fn protect(plan: ProtectPlan, verbosity: Verbosity) -> Outcome {
    let mut keys = KeyFiles::new(&plan.keys.keys, &[]);
    if !plan.keys.recipients.is_empty() || !plan.keys.recipients_files.is_empty() {
        keys = keys.sparing_identities();
    }
    let recipients = Arc::new(Recipients::new(plan.keys, plan.destination.resume || plan.destination.recursive));
    let action = Protect { recipients, suite: plan.suite, chunk_size: plan.chunk_size };
    let transfer = Transfer::new(action, plan.destination, keys, &plan.engine, verbosity)?;
    transfer::run(&transfer, &plan.paths, |input, output| folder(&transfer, input, output))
}

/// Protects all that is in a folder, and writes a manifest of it.
fn folder(transfer: &Transfer<Protect>, input: &Path, output: &Path) -> Outcome {
    let at_input = |e| Failure::at(input, e);
    let mirror = if transfer.destination.force { File::open(output).ok() } else { None };
    if mirror.is_some() && output.join(MANIFEST).exists() {
        transfer.prepare()?;
    }
    let excludes = Excludes::none();
    let sealing = transfer.sealing();
    let manifests = Manifests::new(&sealing, output, excludes.text());
    // All files are written again, so a manifest that cannot be used is replaced like them.
    let there = mirror.as_ref().and_then(|mirror| mirror.try_clone().ok()).map(Arc::new);
    let (before, old) = manifests.before(there).unwrap_or_default();
    let source = File::open(input).map_err(|e| at_input(Error::read(e)))?;
    let scan = Scan {
        source: source.try_clone().map_err(|e| at_input(Error::read(e)))?,
        source_path: input,
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
    let plan = scan.run(old).map_err(|ended| manifests.failure(input, ended))?;
    let mut renewal = Renewal::new(plan.listing, HashMap::new(), transfer.destination.carry);
    renewal.takes_others = true;
    let renewal = Arc::new(renewal);
    let written = transfer::tree(transfer, input, Some(output), Some(renewal.clone()))?;
    let Some(mirror) = renewal.mirror() else { return written.outcome() };
    let listed = renewal.with_listing(|listing| manifests.write(mirror, &source, listing, &before, false));
    worse(written.outcome(), listed.map(drop))
}
