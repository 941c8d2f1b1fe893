//! `phalanx unprotect --recursive` for a volume: everything in it, as plain files in a folder, without a mount.
//!
//! Only the current folder is open, and `..` leads up from it. So the depth of folders is not limited.

use super::volume_content::{Failed, piece, write_sparse};
use super::volumes::{self, Shared};
use crate::progress::Bar;
use crate::volume_engines;
use crate::volume_failures;
use phalanx_host::Error;
use phalanx_host::failure::{Code, Failure, Outcome};
use phalanx_host::file::{Attributes, Output, Sync, sync_folder};
use phalanx_host::folders::{self, FOLDER, id, is_within, open_parent};
use phalanx_host::lines::{complain, shown};
use phalanx_host::paths::Destination;
use phalanx_host::report;
use phalanx_host::transfer::meter::Meter;
use phalanx_host::verbosity::Verbosity;
use phalanx_host::words::{arrow, count, others};
use phalanx_volume::tree::{Attr, Kind, ROOT, Tree};
use phalanx_volume::{Store, StoreOptions, Volume};
use rustix::fs::{self, AtFlags, Mode, XattrFlags};
use std::ffi::{CString, OsStr, OsString};
use std::fs::File;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use zeroize::Zeroizing;

/// How many outputs are committed together.
const GROUP: usize = 64;

/// Writes everything in the volume `dir` to the folder `output`.
pub fn run(shared: &Shared<'_>, dir: &Path, output: &Path) -> Outcome {
    let at_volume = |e| volume_failures::of_volume(dir, e);
    volumes::check(dir)?;
    let volume = Volume::open(dir, shared.opener, true).map_err(|e| super::verify_volume::not_opened(dir, e))?;
    let options = volume_engines::for_volume(shared.engine, volume.config.suite(), shared.verbosity)?;
    // The store itself reports no damage: it is reported here, with the path.
    let options = StoreOptions { read_only: true, ..options };
    let store = Store::open(&volume.root, volume.config.clone(), options).map_err(at_volume)?;
    let on_damage = {
        let dir = shown(dir);
        move |line: &str| complain(format!("{dir}: {line}"))
    };
    let tree = store.tree(on_damage).map_err(at_volume)?;
    let input = File::from(volume.root.try_clone().map_err(|e| Failure::at(dir, Error::read(e)))?);
    let (parent, here) = make_root(shared, &input, output)?;
    let mut restore = Restore {
        shared,
        tree,
        store,
        input,
        dir,
        output,
        here: Arc::new(here),
        path: Vec::new(),
        waiting: Vec::new(),
        meter: Bar::file(shown(dir), None, shared.verbosity),
        counts: Counts::default(),
        piece: piece(),
    };
    restore.meter.begin();
    let ended = restore.all();
    restore.meter.finish();
    ended?;
    if shared.destination.sync {
        sync_folder(&parent).map_err(|e| Failure::at(output, Error::Unsynced(e.into())))?;
    }
    restore.counts.end(dir, output, shared.verbosity)
}

/// Makes the output folder. Also returns the one that it lies in.
fn make_root(shared: &Shared<'_>, input: &File, path: &Path) -> Outcome<(File, File)> {
    let at_output = |e| Failure::at(path, e);
    let (parent, name) = open_parent(path).map_err(|e| at_output(Error::write(e)))?;
    let input_id = id(input).map_err(|e| at_output(Error::read(e)))?;
    let is_input =
        fs::statat(&parent, &name, AtFlags::empty()).is_ok_and(|stat| (stat.st_dev, stat.st_ino) == input_id);
    if is_input || is_within(&parent, input_id).map_err(|e| at_output(Error::write(e)))? {
        return Err(Failure::usage(format!("{}: the output is within the input", shown(path))));
    }
    let made = make(shared, &parent, &name, input).map_err(at_output)?;
    Ok((parent, made))
}

/// Makes a folder, or takes the one that is there unless this run has made it.
fn make(shared: &Shared<'_>, parent: &File, name: &OsStr, original: &File) -> phalanx_host::Result<File> {
    let destination = shared.destination;
    let folder = folders::make(parent, name, destination.existing(shared.made), original, destination.carry)?;
    let made = id(&folder).map_err(Error::write)?;
    shared.made.is_alias(parent, name)?;
    if shared.made.insert(made) { Ok(folder) } else { Err(Error::OwnOutput) }
}

/// What was done.
#[derive(Default)]
struct Counts {
    files: u64,
    bytes: u64,
    left_out: u64,
    failed: u64,
    worst: Option<Code>,
    /// Whether the warning about extended attributes was given.
    warned: bool,
}

impl Counts {
    /// Says what was done.
    fn end(self, dir: &Path, output: &Path, verbosity: Verbosity) -> Outcome {
        if !verbosity.quiet {
            let (files, bytes) = (count(self.files, "file"), count(self.bytes, "byte"));
            let line = format!("{} {} {}: {files}, {bytes}", shown(dir), arrow(), shown(output));
            complain(line + &others([(self.left_out, "left out"), (self.failed, "failed")]));
        }
        self.worst.map_or(Ok(()), |code| Err(Failure::written(code)))
    }
}

/// A folder that is being worked on.
struct Level {
    number: u64,
    name: OsString,
    /// Device and inode of its output.
    id: (u64, u64),
    /// The folders in it that are still to be done.
    left: Vec<(u64, OsString)>,
}

/// A file with all its bytes, which has no name yet.
struct Written {
    output: Output,
    /// Its path in the volume.
    stored: PathBuf,
    path: PathBuf,
    bytes: u64,
}

struct Restore<'a> {
    shared: &'a Shared<'a>,
    tree: Tree,
    store: Arc<Store>,
    /// The root folder of the volume.
    input: File,
    dir: &'a Path,
    output: &'a Path,
    /// The current output folder.
    here: Arc<File>,
    path: Vec<Level>,
    waiting: Vec<Written>,
    meter: Bar,
    counts: Counts,
    piece: Zeroizing<Vec<u8>>,
}

impl Restore<'_> {
    /// Restores all folders, each after those in it. An error here ends the work.
    fn all(&mut self) -> Outcome {
        let root = id(&*self.here).map_err(|e| Failure::at(self.output, Error::write(e)))?;
        self.enter(Level { number: ROOT, name: OsString::new(), id: root, left: Vec::new() });
        while let Some(level) = self.path.last_mut() {
            match level.left.pop() {
                Some((number, name)) => self.go_down(number, name),
                None => self.go_up()?,
            }
        }
        Ok(())
    }

    fn go_down(&mut self, number: u64, name: OsString) {
        let made = make(self.shared, &self.here, &name, &self.input)
            .and_then(|made| Ok((id(&made).map_err(Error::write)?, made)));
        match made {
            Ok((id, made)) => {
                self.here = Arc::new(made);
                self.enter(Level { number, name, id, left: Vec::new() });
            }
            Err(e) => {
                let failure = Failure::at(&self.plain(&name), e);
                self.fail(&failure);
                self.tree.forget(number, 1);
            }
        }
    }

    /// Writes what lies in a folder, and notes the folders.
    fn enter(&mut self, level: Level) {
        let number = level.number;
        self.path.push(level);
        let listing = match self.tree.list(number) {
            Ok(listing) => listing,
            Err(e) => return self.fail(&volume_failures::of_volume(&self.stored(OsStr::new("")), e)),
        };
        let mut left = Vec::new();
        for index in 0..listing.len() {
            let entry = match self.tree.entry(&listing, index) {
                Ok(Some(entry)) => entry,
                // A name that does not decrypt has been reported.
                Ok(None) => {
                    self.fail(&Failure::written(Code::NotAuthentic));
                    continue;
                }
                Err(e) => {
                    self.fail(&volume_failures::of_volume(&self.stored(OsStr::new("")), e));
                    continue;
                }
            };
            let name = OsString::from_vec(entry.name);
            let attr = match self.tree.lookup_entry(&listing, index) {
                Ok(attr) => attr,
                Err(e) => {
                    self.fail(&volume_failures::of_volume(&self.stored(&name), e));
                    continue;
                }
            };
            if attr.kind == Kind::Folder {
                left.push((attr.number, name));
                continue;
            }
            let done = match attr.kind {
                Kind::File => self.file(&attr, &name),
                Kind::Link => self.link(attr.number, &name),
                kind => {
                    let what = match kind {
                        Kind::Fifo => "a pipe",
                        Kind::Socket => "a socket",
                        _ => "a device",
                    };
                    report::left_out(&self.stored(&name), what);
                    self.counts.left_out += 1;
                    Ok(())
                }
            };
            if let Err(failure) = done {
                self.fail(&failure);
            }
            self.tree.forget(attr.number, 1);
        }
        if let Some(level) = self.path.last_mut() {
            level.left = left;
        }
    }

    /// Finishes a folder: commits its files, sets its attributes, and goes to the folder above it.
    fn go_up(&mut self) -> Outcome {
        self.commit();
        if let Err(failure) = self.finish_folder() {
            self.fail(&failure);
        }
        let Some(level) = self.path.pop() else { return Ok(()) };
        if level.number != ROOT {
            self.tree.forget(level.number, 1);
        }
        let Some(above) = self.path.last() else { return Ok(()) };
        let wanted = above.id;
        let opened = fs::openat(&*self.here, "..", FOLDER, Mode::empty()).map_err(Error::write).and_then(|folder| {
            if id(&folder).map_err(Error::write)? != wanted {
                return Err(Error::write(std::io::Error::other("the folder was moved meanwhile")));
            }
            Ok(folder)
        });
        self.here = Arc::new(opened.map_err(|e| Failure::at(&self.plain(&level.name), e))?.into());
        Ok(())
    }

    fn finish_folder(&mut self) -> Outcome {
        let Some(level) = self.path.last() else { return Ok(()) };
        let (number, none) = (level.number, OsStr::new(""));
        let attr = self.tree.getattr(number).map_err(|e| volume_failures::of_volume(&self.stored(none), e))?;
        let here = self.here.clone();
        self.attributes(number, [0; 16], &here, none)?;
        let at_output = |e| Failure::at(&self.plain(none), e);
        self.shared.destination.carry.attributes(&of(&attr), &here, true).map_err(at_output)?;
        if self.shared.destination.sync {
            sync_folder(&here).map_err(|e| at_output(Error::Unsynced(e.into())))?;
        }
        Ok(())
    }

    /// Writes a file. It gets its name later, together with others.
    fn file(&mut self, attr: &Attr, name: &OsStr) -> Outcome {
        let stored = self.stored(name);
        let at_input = |e| volume_failures::of_volume(&stored, e);
        let path = self.plain(name);
        let at_output = |e| Failure::at(&path, e);
        let file = self.tree.open_file(attr.number, false).map_err(at_input)?;
        let backing = self.store.open_file(file).map_err(at_input)?;
        let existing = self.shared.destination.existing(self.shared.made);
        let output = Output::create_in(self.here.clone(), name, existing).map_err(at_output)?;
        match write_sparse(&backing, output.file(), &mut self.piece, &self.meter) {
            Ok(()) => {}
            Err(Failed::Volume(error)) => return Err(at_input(error)),
            Err(Failed::Output(error)) => return Err(at_output(error)),
        }
        self.attributes(attr.number, backing.id(), output.file(), name)?;
        self.shared.destination.carry.attributes(&of(attr), output.file(), false).map_err(at_output)?;
        self.waiting.push(Written { output, stored, path, bytes: backing.len() });
        if self.waiting.len() >= GROUP {
            self.commit();
        }
        Ok(())
    }

    fn link(&mut self, number: u64, name: &OsStr) -> Outcome {
        let target = self.tree.readlink(number).map_err(|e| volume_failures::of_volume(&self.stored(name), e))?;
        let at_output = |e| Failure::at(&self.plain(name), e);
        let target = CString::new(target).map_err(|e| at_output(Error::write(e)))?;
        let Destination { force, .. } = self.shared.destination;
        self.shared.made.symlink(&target, &self.here, name, *force).map(drop).map_err(at_output)
    }

    /// Sets the extended attributes of a file or folder. The volume has authenticated them.
    fn attributes(&mut self, number: u64, file: [u8; 16], to: &File, name: &OsStr) -> Outcome {
        let stored = self.stored(name);
        let at_input = |e| volume_failures::of_volume(&stored, e);
        for attribute in self.tree.list_xattrs(number, || Ok(file)).map_err(at_input)? {
            let value = self.tree.get_xattr(number, &attribute, || Ok(file)).map_err(at_input)?;
            let set = fs::fsetxattr(to, &*attribute, &value, XattrFlags::empty());
            if let Err(e) = set
                && !std::mem::replace(&mut self.counts.warned, true)
            {
                let path = shown(&self.plain(name));
                complain(format!("warning: {path}: extended attributes are left out, because they cannot be set: {e}"));
            }
        }
        Ok(())
    }

    /// Gives the waiting files their names.
    fn commit(&mut self) {
        let destination = self.shared.destination;
        let sync = if destination.sync { Sync::Yes } else { Sync::No };
        let (outputs, origins): (Vec<_>, Vec<_>) = self
            .waiting
            .drain(..)
            .map(|Written { output, stored, path, bytes }| (output, (stored, path, bytes)))
            .unzip();
        let committed = Output::commit_all(outputs, destination.existing(self.shared.made), sync);
        for ((stored, path, bytes), done) in origins.into_iter().zip(committed) {
            match done {
                Ok(_) => {
                    (self.counts.files, self.counts.bytes) = (self.counts.files + 1, self.counts.bytes + bytes);
                    report::done(&stored, Some(&path), bytes);
                }
                Err(e) => self.fail(&Failure::at(&path, e)),
            }
        }
    }

    fn fail(&mut self, failure: &Failure) {
        failure.report();
        self.counts.failed += 1;
        self.counts.worst = self.counts.worst.max(Some(failure.code()));
    }

    /// The path in the volume of `name` in the current folder.
    fn stored(&self, name: &OsStr) -> PathBuf {
        self.join(self.dir, name)
    }

    /// The path in the output of `name` in the current folder.
    fn plain(&self, name: &OsStr) -> PathBuf {
        self.join(self.output, name)
    }

    fn join(&self, root: &Path, name: &OsStr) -> PathBuf {
        let mut path = root.to_owned();
        path.extend(
            self.path.iter().map(|level| &*level.name).chain([name]).filter(|name| !name.as_bytes().is_empty()),
        );
        path
    }
}

fn of(attr: &Attr) -> Attributes {
    Attributes { mode: attr.mode, owner: attr.uid, group: attr.gid, accessed: attr.atime, modified: attr.mtime }
}
