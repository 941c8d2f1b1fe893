//! The roots of a source and its mirror.

use super::MANIFEST;
use super::manifest::{locked, root};
use super::root::Root;
use super::state::Trees;
use crate::Error;
use crate::failure::{Code, Failure, Outcome};
use crate::file::{Url, is_url};
use crate::folders::{FOLDER, id, is_within, open_parent};
use crate::lines::shown;
use phalanx_system::files::create_private_folder;
use phalanx_system::fs::{self, Mode, OFlags};
use phalanx_system::io::Errno;
use std::fs::File;
use std::path::Path;
use std::sync::Arc;

/// Opens the root of a source.
pub(super) fn open_source(path: &Path) -> Outcome<File> {
    let opened = fs::open(path, FOLDER.difference(OFlags::NOFOLLOW), Mode::empty());
    opened.map(File::from).map_err(|e| match e {
        Errno::NOTDIR => no_folder(path).hint("protect takes files"),
        e => Failure::at(path, Error::read(e)),
    })
}

fn no_folder(path: &Path) -> Failure {
    let failure = Failure::new(Code::InputOutput, format!("{}: not a folder", shown(path)));
    failure.on(path).because_of(Error::read(Errno::NOTDIR))
}

/// Refuses the path of a folder that would be within the source. `what` says what it is.
pub(super) fn refuse_within(source: &File, source_path: &Path, path: &Path, what: &str) -> Outcome {
    let source = id(source).map_err(|e| Failure::at(source_path, Error::read(e)))?;
    let (parent, name) = open_parent(path).map_err(|e| Failure::at(path, Error::write(e)))?;
    let is_there =
        fs::statat(&parent, &name, fs::AtFlags::empty()).is_ok_and(|stat| (stat.st_dev, stat.st_ino) == source);
    match is_within(&parent, source) {
        Ok(false) if !is_there => Ok(()),
        Ok(_) => Err(Failure::usage(format!("{}: {what} is within the source", shown(path)))),
        Err(e) => Err(Failure::at(path, Error::write(e))),
    }
}

/// Refuses a folder that the source is within. `what` says what it is. One that is not there has nothing in it, and whoever needs one that
/// cannot be opened says so.
pub(super) fn refuse_around(source: &File, source_path: &Path, path: &Path, what: &str) -> Outcome {
    let Ok(outer) = fs::open(path, FOLDER.difference(OFlags::NOFOLLOW), Mode::empty()) else { return Ok(()) };
    let is_around = id(&outer).and_then(|outer| is_within(source, outer));
    match is_around.map_err(|e| Failure::at(source_path, Error::read(e)))? {
        false => Ok(()),
        true => Err(Failure::usage(format!("{}: the source is within {what}", shown(path)))),
    }
}

/// Refuses the path of a mirror that had a manifest when this machine saw it last, and has none now.
pub(super) fn refuse_lost(mirror: &Path, trees: &Trees) -> Outcome {
    if mirror.join(MANIFEST).symlink_metadata().is_ok() { Ok(()) } else { refuse_missing(mirror, trees) }
}

/// Refuses the URL of a folder in another mirror: its manifest would not list what is written.
pub(super) fn refuse_within_other(mirror: &Path) -> Outcome {
    let Some(url) = Url::of(mirror) else { return Ok(()) };
    for (above, _) in url.folders_above() {
        let Ok(Root::Objects(objects)) = root(above.path()) else { continue };
        if objects.open(MANIFEST).is_ok() {
            let line = format!("{}: it lies in the mirror {}", shown(mirror), shown(above.path()));
            return Err(Failure::new(Code::InputOutput, line).on(mirror));
        }
    }
    Ok(())
}

/// Refuses the path of a mirror without a manifest, if it had one when this machine saw it last.
pub(super) fn refuse_missing(mirror: &Path, trees: &Trees) -> Outcome {
    if trees.read_at(mirror).map_err(|e| Failure::at(mirror, e))?.is_empty() {
        return Ok(());
    }
    let line = "the mirror that was there is gone, or its manifest is";
    Err(Failure::new(Code::InputOutput, format!("{}: {line}", shown(mirror)))
        .on(mirror)
        .hint("mount its disk, or make a new mirror with --new"))
}

/// Opens the mirror, and makes it if it is not there. Nobody else writes to it meanwhile.
pub(super) fn open_mirror(path: &Path, dry_run: bool) -> Outcome<Option<Root>> {
    if is_url(path) {
        return root(path).map(Some);
    }
    let at = |e: std::io::Error| Failure::at_output(path, Error::write(e));
    let open = || fs::open(path, FOLDER.difference(OFlags::NOFOLLOW), Mode::empty()).map(File::from);
    let mirror = match open() {
        Err(Errno::NOENT) if dry_run => return Ok(None),
        Err(Errno::NOENT) => {
            create_private_folder(path, false).map_err(at)?;
            open().map_err(|e| at(e.into()))?
        }
        Err(Errno::NOTDIR) => return Err(no_folder(path)),
        opened => opened.map_err(|e| at(e.into()))?,
    };
    // A dry run reads only.
    let mirror = if dry_run { mirror } else { locked(mirror, path)? };
    Ok(Some(Root::Folder(Arc::new(mirror))))
}
