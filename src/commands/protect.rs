//! `phalanx protect`

use crate::args::ProtectPlan;
use crate::transfer;
use phalanx_host::Error;
use phalanx_host::age;
use phalanx_host::failure::{Failure, Outcome};
use phalanx_host::file::stores;
use phalanx_host::key_files::KeyFiles;
use phalanx_host::lines::{complain, complain_with, shown};
use phalanx_host::mirror::whole::Protecting;
use phalanx_host::paths::{self, End, Outputs};
use phalanx_host::report::{self, Status};
use phalanx_host::secrets::Recipients;
use phalanx_host::transfer::action::Transfer;
use phalanx_host::transfer::protect::Protect;
use phalanx_host::verbosity::Verbosity;
use phalanx_host::words::count;
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
    if plan.destination.recursive {
        paths::no_url_folders("protect", plan.paths.iter().map(|path| &**path))?;
    }
    if plan.abort {
        return abort(&plan, verbosity);
    }
    if plan.json {
        report::begin(Status::Protected);
    }
    report::end(protect(plan, verbosity))
}

/// Deletes what interrupted runs have sent for an object that has not appeared, or for those of a folder.
fn abort(plan: &ProtectPlan, verbosity: Verbosity) -> Outcome {
    let Outputs::At(End::Object(url)) = &plan.destination.outputs else {
        return Err(Failure::usage("--abort needs the URL of an object as --output"));
    };
    let aborted = stores().and_then(|stores| stores.abort(url, plan.destination.recursive).map_err(Error::write));
    let aborted = aborted.map_err(|e| Failure::at(url.path(), e))?;
    if !verbosity.quiet {
        complain(format!("{}: {} aborted", shown(url.path()), count(aborted, "unfinished upload")));
    }
    Ok(())
}

fn protect(plan: ProtectPlan, verbosity: Verbosity) -> Outcome {
    let mut keys = KeyFiles::new(&plan.keys.keys, plan.sign.files());
    if !plan.keys.recipients.is_empty() || !plan.keys.recipients_files.is_empty() {
        keys = keys.sparing_identities();
    }
    if plan.keys.generate_password {
        keys = keys.sparing_output();
    }
    let recipients = Arc::new(Recipients::new(plan.keys, plan.destination.resume || plan.destination.recursive));
    let action = Protect { recipients, suite: plan.suite, chunk_size: plan.chunk_size };
    let signing = plan.sign.signing()?;
    let transfer = Transfer::new(action, plan.destination, keys, &plan.engine, verbosity)?.signing(signing);
    transfer::run(&transfer, &plan.paths, |route| folder(&transfer, route.input.path(), route.output.path()))
}

/// Protects all that is in a folder, and writes a manifest of it.
fn folder(transfer: &Transfer<Protect>, input: &Path, output: &Path) -> Outcome {
    let protecting = Protecting {
        input,
        output,
        sealing: transfer.sealing(),
        replaces: transfer.destination.force,
        prepare: &|| transfer.prepare(),
        walk: &|renewal| transfer::tree(transfer, input, Some(output), Some(renewal)),
    };
    protecting.run()
}
