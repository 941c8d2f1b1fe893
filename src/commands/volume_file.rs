//! `phalanx unprotect --volume`: one stored file of a volume, which may be anywhere.

use super::volume_content::{Failed, write};
use crate::args::UnprotectPlan;
use crate::progress::Bar;
use crate::volume_engines;
use crate::volume_failures;
use phalanx_core::Opener;
use phalanx_host::Error;
use phalanx_host::failure::{Failure, Outcome};
use phalanx_host::key_files::KeyFiles;
use phalanx_host::lines::{complain, shown};
use phalanx_host::paths::Route;
use phalanx_host::secrets::AtHand;
use phalanx_host::transfer::meter::Meter;
use phalanx_host::verbosity::{Verbosity, is_terminal};
use phalanx_host::words::{arrow, count};
use phalanx_volume::{Store, StoreOptions, Volume};
use std::path::Path;
use std::sync::Arc;

pub fn run(
    plan: &UnprotectPlan,
    dir: &Path,
    opener: &Opener<AtHand>,
    keys: &KeyFiles,
    verbosity: Verbosity,
) -> Outcome {
    let at_volume = |e| volume_failures::of_volume(dir, e);
    let volume = Volume::open(dir, opener, true).map_err(at_volume)?;
    let options = volume_engines::for_volume(&plan.engine, volume.config.suite(), verbosity)?;
    // The user names the stored file, perhaps one of a backup.
    let options = StoreOptions { read_only: true, any_version: true, ..options };
    let store = Store::open(&volume.root, volume.config.clone(), options).map_err(at_volume)?;
    let (routes, named) = plan.destination.routes(&plan.paths, |name| Some(name.to_owned()))?;
    named?;
    routes.iter().try_for_each(|route| one(plan, &store, keys, route, verbosity))
}

fn one(plan: &UnprotectPlan, store: &Arc<Store>, keys: &KeyFiles, route: &Route, verbosity: Verbosity) -> Outcome {
    let at_input = |e| volume_failures::of_volume(route.input.path(), e);
    let input = route.input.open()?;
    let file = input.file().try_clone().map_err(|e| Failure::at(route.input.path(), Error::read(e)))?;
    let backing = store.open_file(file).map_err(at_input)?;
    let made = keys.made();
    let rules = plan.destination.rules(&made);
    let ends = route.begin(input, &rules, &made)?;
    let meter = Bar::file(shown(route.input.path()), Some(backing.len()), verbosity);
    meter.begin();
    let output = ends.target.file().expect("a stored file has an output");
    let done = write(&backing, output, &meter);
    meter.finish();
    match done {
        Ok(()) => {}
        Err(Failed::Volume(error)) => return Err(at_input(error)),
        Err(Failed::Output(error)) => return Err(route.blame(error)),
    }
    route.commit(ends, &rules, None)?;
    if !verbosity.quiet && is_terminal() && !route.output.is_standard() {
        let (from, to) = (shown(route.input.path()), shown(route.output.path()));
        complain(format!("{from} {} {to}: {}", arrow(), count(backing.len(), "byte")));
    }
    Ok(())
}
