//! `phalanx mirror`

use crate::args::Mirrored;
use crate::progress::Bar;
use phalanx_host::args::MirrorPlan;
use phalanx_host::failure::{Outcome, worse};
use phalanx_host::key_files::KeyFiles;
use phalanx_host::lines::{complain, shown};
use phalanx_host::mirror::manifests::Sealing;
use phalanx_host::mirror::run::{Change, Mirroring, OnChange, Options, Summary};
use phalanx_host::report::{self, Status};
use phalanx_host::say::say;
use phalanx_host::secrets::Recipients;
use phalanx_host::transfer::action::Transfer;
use phalanx_host::transfer::protect::Protect;
use phalanx_host::transfer::tally::Tally;
use phalanx_host::transfer::tree::{self, Job};
use phalanx_host::verbosity::Verbosity;
use std::sync::Arc;
use std::time::Instant;

pub fn run(mirrored: Mirrored, verbosity: Verbosity) -> Outcome {
    if mirrored.json {
        report::begin_brief(Status::Protected);
    }
    report::end(mirror(mirrored, verbosity))
}

fn mirror(mirrored: Mirrored, verbosity: Verbosity) -> Outcome {
    let started = Instant::now();
    let Mirrored { plan, engine, sign, .. } = mirrored;
    let MirrorPlan { options, destination, keys, suite, chunk_size } = plan;
    let mut key_files = KeyFiles::new(&keys.keys, sign.files());
    if !keys.recipients.is_empty() || !keys.recipients_files.is_empty() {
        key_files = key_files.sparing_identities();
    }
    let action = Protect { recipients: Arc::new(Recipients::new(keys, true)), suite, chunk_size };
    let transfer = Transfer::new(action, destination, key_files, &engine, verbosity)?.signing(sign.signing()?);
    let tally = Arc::new(Tally::default());
    let mirroring = Mirroring {
        options: &options,
        sealing: Sealing { signers: sign.signers()?, ..transfer.sealing() },
        tally: &tally,
        quiet: verbosity.quiet,
        on_change: (verbosity.verbose || options.dry_run).then(|| Arc::new(name_change) as Arc<OnChange>),
        progress: Arc::new(()),
        walk: &|renewal| {
            let meter = Bar::tree(shown(&options.source), verbosity);
            let (input, output) = (&*options.source, Some(&*options.mirror));
            tree::run(&transfer, Job { input, output, selection: Some(renewal), meter: &meter, tally: tally.clone() })
        },
    };
    let done = mirroring.run().map(|summary| {
        if let Some(summary) = &summary {
            sum_up(&options, summary, &tally, started, verbosity);
        }
    });
    worse(tally.outcome(), done)
}

/// Names an entry that is done, or would be.
fn name_change(change: Change) -> Outcome {
    match report::is_on() {
        true => report::entry(&change.path, change.what, change.from.as_deref()),
        false => say(change.line()),
    }
}

/// Says what was done.
fn sum_up(options: &Options, summary: &Summary, tally: &Tally, started: Instant, verbosity: Verbosity) {
    let Summary { new, changed, moved, metadata, deleted, unchanged, manifest, .. } = *summary;
    report::add(serde_json::json!({
        "new": new, "changed": changed, "moved": moved, "metadata": metadata, "deleted": deleted,
        "unchanged": unchanged, "generation": manifest.generation, "digest": manifest.digest.to_string(),
    }));
    if !verbosity.quiet {
        complain(summary.line(options, tally, started.elapsed()));
    }
}
