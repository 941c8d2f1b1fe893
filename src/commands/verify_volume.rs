//! `phalanx verify` for a volume.

use super::{volume_age, volumes};
use crate::progress::Bar;
use crate::volume_engines;
use crate::volume_failures;
use phalanx_core::volume::CONFIG;
use phalanx_core::{Opener, Progress};
use phalanx_host::args::EngineArgs;
use phalanx_host::engines;
use phalanx_host::failure::{Code, Failure, Outcome, worse};
use phalanx_host::lines::{complain, shown};
use phalanx_host::paths::End;
use phalanx_host::report;
use phalanx_host::say::say;
use phalanx_host::secrets::AtHand;
use phalanx_host::transfer::meter::Meter;
use phalanx_host::verbosity::Verbosity;
use phalanx_host::words::{count, others};
use phalanx_volume::verify::{Findings, verify};
use phalanx_volume::{Store, StoreOptions, Volume, VolumeError, versions};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// Takes a volume as it is, and then checks it.
pub fn accept(dir: &Path, opener: &Opener<AtHand>, engine: &EngineArgs, verbosity: Verbosity) -> Outcome {
    let at_volume = |e| volume_failures::of_volume(dir, e);
    {
        let volume = Volume::open_to_accept(dir, opener).map_err(|e| not_opened(dir, e))?;
        if !volume.config.features().rollback_protection {
            return Err(Failure::usage(format!(
                "{}: it has no table of versions, so --accept changes nothing",
                shown(dir)
            )));
        }
        let options = volume_engines::for_volume(engine, volume.config.suite(), verbosity)?;
        let log = shown(dir);
        let options = StoreOptions { on_damage: Box::new(move |line| complain(format!("{log}: {line}"))), ..options };
        let seen = volume_age::seen(volume.config.keys().volume_id());
        let accepted = versions::accept(&volume.root, &volume.config, &options, seen).map_err(at_volume)?;
        volume_age::accept(dir, accepted.generation);
        if !verbosity.quiet {
            let files = count(accepted.files, "file");
            let others = others([(accepted.new, "new or changed"), (accepted.missing, "forgotten")]);
            complain(format!("{}: taken as it is: {files}{others}", shown(dir)));
        }
    }
    run(dir, opener, engine, verbosity)
}

pub fn run(dir: &Path, opener: &Opener<AtHand>, engine: &EngineArgs, verbosity: Verbosity) -> Outcome {
    let at_volume = |e| volume_failures::of_volume(dir, e);
    volumes::check(dir)?;
    let volume = Volume::open(dir, opener, true).map_err(|e| not_opened(dir, e))?;
    let options = volume_engines::for_volume(engine, volume.config.suite(), verbosity)?;
    // The store itself reports no damage: `Report` does, with the path.
    let options = StoreOptions { read_only: true, ..options };
    let store = Store::open(&volume.root, volume.config.clone(), options).map_err(at_volume)?;
    if let Some(generation) = store.generation() {
        volume_age::check(dir, generation);
    }
    let names = Arc::new(AtomicU64::new(0));
    let on_damage = {
        let (names, dir) = (names.clone(), dir.to_owned());
        move |line: &str| {
            names.fetch_add(1, Ordering::Relaxed);
            Failure::new(Code::NotAuthentic, format!("{}: {line}", shown(&dir))).on(&dir).report();
        }
    };
    let tree = store.tree(on_damage).map_err(at_volume)?;
    let report =
        Report { dir, verbosity, meter: Bar::file(shown(dir), None, verbosity), altered: AtomicBool::new(false) };
    report.meter.begin();
    let found = verify(&tree, &store, engines::threads(engine), &report);
    report.meter.finish();
    let (names, failed) = (names.load(Ordering::Relaxed), found.failed);
    if found.missing > 0 {
        let (files, are) = (count(found.missing, "file"), if found.missing == 1 { "is" } else { "are" });
        let line = format!("{}: {files} of its last state {are} not there", shown(dir));
        let hint = if failed + names > 0 {
            "some may be below what could not be read, which is named above"
        } else {
            "deleted from outside, or shortly before a power cut; verify --accept forgets them"
        };
        Failure::new(Code::NotAuthentic, line).hint(hint).on(dir).report();
    }
    let mut said = Ok(());
    if !verbosity.quiet && !report::is_on() {
        let (files, folders) = (count(found.files, "file"), count(found.folders, "folder"));
        let failures = if failed > 0 { format!("; {failed} failed") } else { String::new() };
        let missing = if found.missing > 0 { format!("; {} missing", found.missing) } else { String::new() };
        let unknown = if names > 0 { format!("; {names} reported above") } else { String::new() };
        let bytes = count(found.bytes, "byte");
        said = say(format!(
            "{}: {files} in {folders}, {bytes}: whole and authentic{failures}{missing}{unknown}",
            shown(dir)
        ));
    }
    let verified = match failed + names + found.missing {
        0 => Ok(()),
        _ if names + found.missing == 0 && !report.altered.load(Ordering::Relaxed) => {
            Err(Failure::written(Code::InputOutput))
        }
        _ => Err(Failure::written(Code::NotAuthentic)),
    };
    worse(verified, said)
}

/// Why a volume did not open: perhaps because a change of its keys was interrupted.
pub fn not_opened(dir: &Path, error: VolumeError) -> Failure {
    match (error, End::from(dir.join(CONFIG)).open()) {
        (VolumeError::Core(error), Ok(config)) => Failure::at(dir, config.interrupted(error)),
        (error, _) => volume_failures::of_volume(dir, error),
    }
}

struct Report<'a> {
    dir: &'a Path,
    verbosity: Verbosity,
    meter: Bar,
    /// Whether something was altered, rather than only unreadable.
    altered: AtomicBool,
}

impl Findings for Report<'_> {
    fn whole(&self, path: &Path, bytes: u64) {
        report::done(&self.dir.join(path), None, bytes);
        if self.verbosity.verbose {
            complain(format!("{}: {}: whole and authentic", shown(&self.dir.join(path)), count(bytes, "byte")));
        }
    }

    fn failed(&self, path: &Path, error: &VolumeError) {
        let is_altered =
            !matches!(error, VolumeError::Io { .. } | VolumeError::Refused(_) | VolumeError::Unlisted { .. });
        if is_altered {
            self.altered.store(true, Ordering::Relaxed);
        }
        let path = self.dir.join(path);
        let code = if is_altered { Code::NotAuthentic } else { Code::InputOutput };
        Failure::new(code, format!("{}: {error}", shown(&path))).on(&path).report();
    }

    fn advance(&self, bytes: u64) {
        self.meter.advance(bytes);
    }
}
