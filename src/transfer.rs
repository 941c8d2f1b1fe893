//! An action on all of a command's paths, one after another, and on trees.

use crate::progress::Bar;
use phalanx_core::Progress;
use phalanx_host::Error;
use phalanx_host::failure::{self, Failure, Outcome};
use phalanx_host::file::{Input, ObjectFolder, Removal, Target};
use phalanx_host::key_files::KeyFiles;
use phalanx_host::lines::{complain, complain_with, shown};
use phalanx_host::mirror::listing::{Listing, NodeId};
use phalanx_host::mirror::manifest::root;
use phalanx_host::mirror::root::Root;
use phalanx_host::mirror::selection::Selection;
use phalanx_host::mirror::unlisted;
use phalanx_host::paths::{self, End, Route};
use phalanx_host::report;
use phalanx_host::signatures::{self, Single, Watch, beside};
use phalanx_host::transfer::action::{Action, Transfer};
use phalanx_host::transfer::meter::Meter;
use phalanx_host::transfer::objects;
use phalanx_host::transfer::tally::Tally;
use phalanx_host::transfer::tree::{self, Job};
use phalanx_host::verbosity::{Verbosity, is_terminal};
use phalanx_host::warnings::KEEP_COPY;
use phalanx_host::words::arrow;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Runs the action on each path, and `folder` on each folder and its output. With `--recursive` each URL may be that of a folder.
/// A failure does not stop the others.
pub fn run<A: Action>(transfer: &Transfer<A>, paths: &[PathBuf], folder: impl Fn(&Route) -> Outcome) -> Outcome {
    let (routes, named) = transfer.destination.routes(paths, |name| transfer.action.output_name(name))?;
    transfer.engines.expect(routes.iter().filter_map(|route| paths::file_len(route.input.path())).sum());
    let done = failure::each(&routes, |route| match &route.input {
        End::Path(input) if input.is_dir() => {
            if !transfer.destination.recursive {
                return Err(Failure::folder(input));
            }
            folder(route)
        }
        End::Object(_) if transfer.destination.recursive => folder(route),
        _ => file(transfer, route),
    });
    failure::worse(named, done)
}

/// Runs the action on all files of a folder, or those of a selection. If there is an `output` path, it becomes the mirror.
/// Returns the results.
pub fn tree<A: Action>(
    transfer: &Transfer<A>,
    input: &Path,
    output: Option<&Path>,
    selection: Option<Arc<dyn Selection>>,
) -> Outcome<Arc<Tally>> {
    let tally = Arc::new(Tally::default());
    let meter = Bar::tree(shown(input), transfer.verbosity);
    tree::run(transfer, Job { input, output, selection, meter: &meter, tally: tally.clone() })?;
    Ok(tally)
}

/// Runs the action on all objects in a folder of a listing that are not dropped. `mirror` is the URL of all that is listed: by its
/// manifest, or, if `is_listed` is false, only by names. If there is an `output` path, they are restored there. Returns the
/// results.
pub fn objects<A: Action>(
    transfer: &Transfer<A>,
    (mirror, output): (&Path, Option<&Path>),
    (listing, root): (&Listing, NodeId),
    tally: Arc<Tally>,
    is_listed: bool,
) -> Outcome<Arc<Tally>> {
    let objects = folder_of(mirror)?;
    let meter = Bar::tree(shown(mirror), transfer.verbosity);
    let job = objects::Job {
        input: mirror,
        objects: &*objects,
        listing,
        root,
        is_listed,
        output,
        meter: &meter,
        tally: &tally,
    };
    objects::run(transfer, &job)?;
    Ok(tally)
}

/// The folder of objects at a URL.
fn folder_of(url: &Path) -> Outcome<Arc<dyn ObjectFolder>> {
    match root(url)? {
        Root::Objects(objects) => Ok(objects),
        Root::Folder(_) => unreachable!("it is a URL"),
    }
}

/// The objects of a folder without a manifest that have the names of protected files. `None` if it has no objects at all. Objects
/// with other names go to the tally.
pub fn unlisted(url: &Path, tally: &Tally) -> Outcome<Option<Listing>> {
    let found = folder_of(url)?.list().map_err(|e| Failure::at(url, Error::read(e)))?;
    Ok((!found.is_empty()).then(|| unlisted::listing(&found, url, tally)))
}

/// Runs the action on a file or an object.
pub fn file<A: Action>(transfer: &Transfer<A>, route: &Route) -> Outcome {
    let input = route.input.open()?;
    transfer.action.accept(route.input.path(), &input).map_err(|e| route.blame(e))?;
    if let End::Path(output) = &route.output {
        transfer.keys.check_output(output)?;
    }
    let rules = transfer.rules();
    let signed = Some(&route.output).filter(|output| !output.is_standard());
    let mut signature = Single::begin(&transfer.signing, route.input.path(), signed, rules.existing)?;
    let mut ends = route.begin(input, &rules, &transfer.made)?;
    signature.check_early(route.input.path(), &ends)?;
    transfer.prepare()?;
    let meter = Bar::file(shown(route.input.path()), ends.input.len(), transfer.verbosity);
    let watch = signature.watch(&meter);
    let progress: &dyn Progress = watch.as_ref().map_or(&meter, |watch| watch);
    let done = transfer.action.transfer(&transfer.engines, &mut ends, &meter, progress);
    meter.finish();
    let is_other = watch.as_ref().is_some_and(Watch::is_other);
    let contents = watch.and_then(Watch::contents);
    let stays = matches!(ends.target, Target::Object(_, true));
    let done = done.map_err(|e| match stays && e.is_of_output() {
        true => route.blame(e).hint("the same line goes on with what was sent, and --abort deletes it"),
        false => route.blame(e),
    });
    let moved = done.map_err(|failure| signature.explain(failure, is_other))?;
    signature.settle((route.input.path(), route.output.path()), &ends, &moved, contents, &rules)?;
    let name = signature.name().map(str::to_owned);
    if let (Some(by), None) = (&moved.by, &name) {
        transfer.action.opened(|| route.input.path().to_owned(), by);
    }
    let removal = match deletes(transfer, route, &ends.input) {
        true if transfer.action.opens() => signatures::removal(&ends.input),
        true => ends.input.removal(),
        false => None,
    };
    let unsigned = removal.as_ref().is_some_and(Removal::has_signature) && !transfer.verbosity.quiet;
    route.commit_with(ends, &rules, removal, || signature.commit(&rules))?;
    if unsigned {
        tell_deleted(route);
    }
    report::done_by(route.input.path(), Some(route.output.path()), moved.bytes, name.as_deref());
    if let (Some(name), false) = (&name, transfer.verbosity.quiet) {
        complain(format!("{}: signed by {name}", shown(route.input.path())));
    }
    tell(route, &meter, moved.bytes, &moved.description(), transfer.verbosity);
    Ok(())
}

/// Says what was done with a file: with `--verbose` by what, and otherwise only on a terminal.
pub fn tell(route: &Route, meter: &Bar, bytes: u64, description: &str, verbosity: Verbosity) {
    let (from, to) = (shown(route.input.path()), shown(route.output.path()));
    if verbosity.verbose {
        complain(format!("{from} {} {to}: {}, {description}", arrow(), meter.summary(bytes)));
    } else if !verbosity.quiet && is_terminal() && !route.output.is_standard() {
        complain(format!("{from} {} {to}: {}", arrow(), meter.brief(bytes)));
    }
}

/// Whether the input is to be deleted. A key that protects it is not.
fn deletes<A: Action>(transfer: &Transfer<A>, route: &Route, input: &Input) -> bool {
    let Some(stamp) = input.stamp() else { return false };
    let may = transfer.destination.remove && may_delete(&transfer.keys, route, input);
    if transfer.keys.holds(stamp.id()) && transfer.action.warns_of_keys() {
        let path = shown(route.input.path());
        complain_with(format!("warning: {path} is protected with itself"), Some(KEEP_COPY));
    }
    may
}

/// Whether an input may be deleted. A warning says why not: it holds a key.
pub fn may_delete(keys: &KeyFiles, route: &Route, input: &Input) -> bool {
    let Some(stamp) = input.stamp() else { return false };
    let Some(why) = keys.spares(input.file(), stamp) else { return true };
    let path = shown(route.input.path());
    complain(format!("warning: {path}: not deleted, because {why}"));
    false
}

/// Tells that a signature was deleted with its file.
pub fn tell_deleted(route: &Route) {
    complain(format!("{}: deleted with its file", shown(&beside(route.input.path()))));
}
