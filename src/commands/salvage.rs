//! `phalanx unprotect --salvage`: saves the intact parts of damaged files, and lists the lost ranges.

use crate::args::UnprotectPlan;
use crate::progress::Bar;
use crate::transfer::{may_delete, tell, tell_deleted};
use phalanx_core::file::Salvage;
use phalanx_core::{Opener, ProtectedFile};
use phalanx_host::args::{EngineArgs, EngineName};
use phalanx_host::engines;
use phalanx_host::failure::{self, Code, Failure, Outcome};
use phalanx_host::file::{self, Made, Removal, unprotected_name};
use phalanx_host::key_files::KeyFiles;
use phalanx_host::lines::shown;
use phalanx_host::paths::Route;
use phalanx_host::say::say;
use phalanx_host::secrets::AtHand;
use phalanx_host::signatures;
use phalanx_host::transfer::meter::Meter;
use phalanx_host::verbosity::Verbosity;
use phalanx_host::words::count;
use std::ops::Range;

pub fn run(plan: &UnprotectPlan, opener: &Opener<AtHand>, keys: &KeyFiles, verbosity: Verbosity) -> Outcome {
    let (routes, named) = plan.destination.routes(&plan.paths, unprotected_name)?;
    if routes.iter().any(|route| route.input.is_standard() || route.output.is_standard()) {
        return Err(Failure::usage("--salvage needs files at both ends, not -"));
    }
    let made = keys.made();
    let done = failure::each(&routes, |route| {
        let found = one(plan, opener, route, (keys, &made), verbosity)?;
        // B is exclusive, as in every range of the command.
        let line = |lost: &Range<u64>| format!("{}: lost {}-{}", shown(route.input.path()), lost.start, lost.end);
        let said = found.lost.iter().try_for_each(|lost| say(line(lost)));
        let judged = if found.is_intact() { Ok(()) } else { Err(report(route, &found)) };
        failure::worse(said, judged)
    });
    failure::worse(named, done)
}

fn one(
    plan: &UnprotectPlan,
    opener: &Opener<AtHand>,
    route: &Route,
    (keys, made): (&KeyFiles, &Made),
    verbosity: Verbosity,
) -> Outcome<Salvage> {
    let input = route.input.open()?;
    let at = |e| route.blame(e);
    let rules = plan.destination.rules(made);
    let ends = route.begin(input, &rules, made)?;
    let protected = ends.source().and_then(|source| Ok(ProtectedFile::open(source, opener)?));
    let protected = protected.map_err(|e| at(ends.input.interrupted(e)))?;
    let at_hand = opener.source();
    let opened = at_hand.describe(protected.opened_slot(), protected.opened_by());
    let by = protected.opened_by().clone();
    let meter = Bar::file(shown(route.input.path()), ends.input.len(), verbosity);
    let sink = file::Disk::new(ends.target.file().expect("salvage has an output"));
    let engine = engines::cpu(&EngineArgs { engine: EngineName::Serial, ..plan.engine })?;
    let description = format!("engine {} ({})", engine.info().name, engine.info().detail);
    let found = protected.salvage(&*engine, &sink, &meter);
    meter.finish();
    let found = found.map_err(|e| at(e.into()))?;
    at_hand.tell_sender(|| route.input.path().to_owned(), &by);
    // A damaged input is never removed, because another attempt may save more of it.
    let deletes = plan.destination.remove && found.is_intact() && may_delete(keys, route, &ends.input);
    let removal = if deletes { signatures::removal(&ends.input) } else { None };
    let unsigned = removal.as_ref().is_some_and(Removal::has_signature) && !verbosity.quiet;
    route.commit(ends, &rules, removal)?;
    if unsigned {
        tell_deleted(route);
    }
    if verbosity.verbose {
        tell(route, &meter, found.saved, &format!("{description}, opened by {opened}"), verbosity);
    }
    Ok(found)
}

fn report(route: &Route, found: &Salvage) -> Failure {
    let lost: u64 = found.lost.iter().map(|range| range.end - range.start).sum();
    let end = if found.whole_length { "" } else { ", and it was cut off or extended: what followed is not known" };
    let (from, to) = (shown(route.input.path()), shown(route.output.path()));
    let (saved, lost) = (count(found.saved, "byte"), count(lost, "byte"));
    let unread = match found.unread {
        0 => String::new(),
        unread => format!(", of which {} could not be read", count(unread, "byte")),
    };
    let line = format!("{from}: damaged: {saved} saved to {to}, {lost} lost{unread}{end}");
    Failure::new(Code::NotAuthentic, line)
}
