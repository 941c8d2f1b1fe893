//! `rekey` of whole folders.

use super::mirror::FreshMirror;
use super::{Rekey, one};
use crate::commands::volumes;
use crate::transfer;
use phalanx_host::failure::{self, Failure, Outcome};
use phalanx_host::file::Unfinished;
use phalanx_host::lock::lock;
use phalanx_host::mirror::manifest::lock as lock_mirror;
use phalanx_host::mirror::{MANIFEST, has_manifest};
use phalanx_host::transfer::action::Transfer;
use phalanx_host::transfer::tally::Tally;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// What a run has come across.
#[derive(Default)]
pub struct Found {
    pub files: u64,
    pub left_out: u64,
    pub failed: u64,
    pub has_volume: bool,
}

impl Found {
    pub fn count(&mut self, done: Outcome) -> Outcome {
        *if done.is_ok() { &mut self.files } else { &mut self.failed } += 1;
        done
    }

    fn add(&mut self, walked: &Tally) {
        self.files += walked.files();
        self.left_out += walked.left_out();
        self.failed += walked.failed();
    }
}

/// Changes all protected files in a folder. If it is a mirror, its manifest follows.
pub fn folder(transfer: &Transfer<Rekey>, path: &Path, found: &mut Found) -> Outcome {
    let manifest = path.join(MANIFEST);
    let is_mirror = has_manifest(path);
    let mut locked = None;
    if is_mirror {
        transfer.prepare()?;
        if transfer.action.fresh {
            return fresh_mirror(transfer, path, found);
        }
        if !transfer.action.is_listing() {
            locked = Some(lock_mirror(path)?);
        }
    }
    let walked = transfer::tree(transfer, path, None, None)?;
    let volumes = volumes::within(path)?;
    if walked.seen() == 0 && volumes.is_empty() && !is_mirror {
        return Err(Failure::nothing_protected(path));
    }
    found.has_volume |= !volumes.is_empty();
    found.add(&walked);
    let of_volumes = failure::each(&volumes, |volume: &PathBuf| found.count(one(transfer, volume)));
    // What the manifest lists of a file survives a change of its header. So does the manifest's own digest.
    let of_manifest = if is_mirror { found.count(one(transfer, &manifest)) } else { Ok(()) };
    drop(locked);
    failure::worse(failure::worse(walked.outcome(), of_volumes), of_manifest)
}

/// Protects all files of a mirror again, and writes its manifest.
fn fresh_mirror(transfer: &Transfer<Rekey>, path: &Path, found: &mut Found) -> Outcome {
    let action = &transfer.action;
    let roster = Arc::new(transfer.engines.small_crew().roster);
    let (fresh, compared) = FreshMirror::begin(path, &action.opener, roster.clone(), |ways| action.apply(ways))?;
    if fresh.report.unfinished == Unfinished::Finished {
        action.finished.store(true, Ordering::Relaxed);
    }
    found.failed += compared.wrong;
    *lock(&action.rewritten) = Some(fresh.rewritten.clone());
    let walked = transfer::tree(transfer, path, None, Some(compared.right.clone()));
    *lock(&action.rewritten) = None;
    let walked = walked?;
    found.add(&walked);
    let written = fresh.finish(path, compared.right, &roster).and_then(|report| {
        action.changed.fetch_add(1, Ordering::Relaxed);
        action.reporter.tell(&path.join(MANIFEST), &report)
    });
    failure::worse(failure::worse(compared.outcome, walked.outcome()), found.count(written))
}
