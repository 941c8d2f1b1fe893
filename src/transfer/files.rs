//! An action on all of a command's paths, one after another.

use super::action::{Action, Transfer};
use super::tree;
use crate::progress::Meter;
use phalanx_host::failure::{self, Failure, Outcome};
use phalanx_host::file::Input;
use phalanx_host::lines::{complain, shown};
use phalanx_host::paths::{self, End, Place};
use phalanx_host::report;
use phalanx_host::verbosity::is_terminal;
use phalanx_host::words::arrow;
use std::path::PathBuf;

/// Runs the action on each path. A failure does not stop the others.
pub fn run<A: Action>(transfer: &Transfer<A>, paths: &[PathBuf]) -> Outcome {
    let (places, named) = transfer.destination.places(paths, |name| transfer.action.output_name(name))?;
    transfer.engines.expect(places.iter().filter_map(|place| paths::file_len(place.input.path())).sum());
    let done = failure::each(&places, |place| match (&place.input, &place.output) {
        (End::Path(input), output) if input.is_dir() => {
            if !transfer.destination.recursive {
                return Err(Failure::folder(input));
            }
            tree::run(transfer, input, Some(output.path()))?.outcome()
        }
        _ => file(transfer, place),
    });
    failure::worse(named, done)
}

fn file<A: Action>(transfer: &Transfer<A>, place: &Place) -> Outcome {
    let input = place.input.open()?;
    transfer.action.accept(place.input.path(), &input).map_err(|e| place.blame(e))?;
    if let End::Path(output) = &place.output {
        transfer.keys.check_output(output)?;
    }
    let rules = transfer.rules();
    let mut ends = place.begin(input, &rules, &transfer.made)?;
    transfer.prepare()?;
    let meter = Meter::file(shown(place.input.path()), ends.input.len(), transfer.verbosity);
    let done = transfer.action.transfer(&transfer.engines, &mut ends, &meter);
    meter.finish();
    let moved = done.map_err(|e| place.blame(e))?;
    if let Some(by) = &moved.by {
        transfer.action.opened(|| place.input.path().to_owned(), by);
    }
    let removal = if deletes(transfer, place, &ends.input) { ends.input.removal() } else { None };
    place.commit(ends, &rules, removal)?;
    report::done(place.input.path(), Some(place.output.path()), moved.bytes);
    let (from, to) = (shown(place.input.path()), shown(place.output.path()));
    if transfer.verbosity.verbose {
        complain(format!("{from} {} {to}: {}, {}", arrow(), meter.summary(moved.bytes), moved.description()));
    } else if !transfer.verbosity.quiet && is_terminal() && !place.output.is_standard() {
        complain(format!("{from} {} {to}: {}", arrow(), meter.brief(moved.bytes)));
    }
    Ok(())
}

/// Whether the input is to be deleted. A key that protects it is not.
fn deletes<A: Action>(transfer: &Transfer<A>, place: &Place, input: &Input) -> bool {
    let Some(stamp) = input.stamp() else { return false };
    let remove = transfer.destination.remove;
    let spared = if remove { transfer.keys.spares(input.file(), stamp) } else { None };
    let path = shown(place.input.path());
    if let Some(why) = spared {
        complain(format!("warning: {path}: not deleted, because {why}"));
    }
    if transfer.keys.holds(stamp.id()) && transfer.action.warns_of_keys() {
        complain(format!("warning: {path} is protected with itself: keep a copy of it elsewhere"));
    }
    remove && spared.is_none()
}
