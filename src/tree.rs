//! `--recursive`: a folder mirrored file by file, in parallel.
//!
//! Each thread takes one file after another, so none is handed over between threads; a large file gets all lanes.

use crate::failure::{Failure, Outcome, complain, shown};
use crate::lanes::Lanes;
use crate::paths::{Input, Place, Target, blame};
use crate::progress::{Meter, arrow, count};
use crate::tally::Tally;
use crate::transfer::{Action, Transfer};
use crate::walk::{Folder, Options, Task, Walk};
use phalanx_core::output::Output;
use phalanx_core::{Error, input};
use rustix::fs::{self, AtFlags};
use std::ffi::OsString;
use std::sync::{Arc, Mutex, MutexGuard};
use std::thread;

/// Files from this length on are worked on by all lanes, one file at a time; smaller ones by one lane each.
const LARGE: u64 = 16 << 20;
/// As many files, or as many bytes, as are synced together.
const GROUP_FILES: usize = 256;
const GROUP_BYTES: u64 = 256 << 20;

/// Mirrors the folder of a place.
pub fn run<A: Action>(transfer: &Transfer<A>, place: &Place) -> Outcome {
    let tally = Arc::new(Tally::default());
    let destination = &transfer.destination;
    let options = Options { force: destination.force, remove: destination.remove, sync: destination.sync };
    let root = Folder::root(place, options, tally.clone())?;
    let mirror = Mirror {
        transfer,
        small: transfer.lanes.small(),
        walk: Mutex::new(Walk::new(root, tally.clone())),
        tally,
        large: Mutex::new(()),
        meter: Meter::tree(shown(&place.input), transfer.verbosity),
    };
    thread::scope(|scope| {
        for _ in 1..transfer.lanes.threads {
            // Where the system gives no more threads, those that there are do the work.
            if thread::Builder::new().spawn_scoped(scope, || mirror.work()).is_err() {
                break;
            }
        }
        mirror.work();
    });
    mirror.meter.finish();
    mirror.report(place)
}

struct Mirror<'a, A> {
    transfer: &'a Transfer<A>,
    /// For files that are not large.
    small: Lanes,
    walk: Mutex<Walk>,
    tally: Arc<Tally>,
    /// Held by the one large file that is being worked on.
    large: Mutex<()>,
    meter: Meter,
}

impl<A: Action> Mirror<'_, A> {
    /// What each thread does: one file after another, until none is left.
    fn work(&self) {
        let mut group = Group::default();
        loop {
            let next = lock(&self.walk).next(|name| self.transfer.action.output_name(name));
            let Some(task) = next else { break };
            match self.file(&task) {
                Ok((output, written)) => {
                    group.bytes += written.bytes;
                    group.outputs.push(output);
                    group.written.push(written);
                    if !self.transfer.destination.sync || group.is_full() {
                        self.commit(&mut group);
                    }
                }
                Err(failure) => self.tally.fail(&failure),
            }
        }
        self.commit(&mut group);
    }

    fn file(&self, task: &Task) -> Outcome<(Output, Written)> {
        let folder = &task.folder;
        let place = Place { input: folder.path.join(&task.name), output: folder.mirrored.join(&task.output_name) };
        let input = Input::open_in(&folder.input, &task.name, place.input.clone())?;
        let existing = self.transfer.destination.existing();
        let output = Output::create_in(folder.output.clone(), &task.output_name, existing, 0o600);
        let sync = self.transfer.destination.sync;
        let target = Target::File(output.map_err(|e| Failure::at(&place.output, e))?, sync);
        let done = if input.len().is_some_and(|len| len >= LARGE) {
            let _alone = lock(&self.large);
            self.transfer.action.transfer(&self.transfer.lanes, &input, &target, &self.meter)
        } else {
            self.transfer.action.transfer(&self.small, &input, &target, &self.meter)
        };
        let (bytes, _) = done.map_err(|e| blame(&place, e))?;
        let Target::File(output, _) = target else { unreachable!("it was made of a file above") };
        output.copy_metadata(input.file()).map_err(|e| Failure::at(&place.output, e))?;
        Ok((output, Written { place, bytes, folder: folder.clone(), name: task.name.clone(), read: input }))
    }

    /// Gives the files of a group their names, and then deletes their inputs where that is wished.
    fn commit(&self, group: &mut Group) {
        let destination = &self.transfer.destination;
        let Group { outputs, written, .. } = std::mem::take(group);
        let committed = Output::commit_all(&outputs, destination.existing(), destination.sync);
        for (written, result) in written.into_iter().zip(committed) {
            let result = result.map_err(|e| Failure::at(&written.place.output, e));
            match result.and_then(|()| if destination.remove { written.remove() } else { Ok(()) }) {
                Ok(()) => self.tally.succeed(written.bytes),
                Err(failure) => self.tally.fail(&failure),
            }
        }
    }

    fn report(&self, place: &Place) -> Outcome {
        let (from, to) = (shown(&place.input), shown(&place.output));
        if !self.transfer.verbosity.quiet {
            let (files, failed) = (count(self.tally.files(), "file"), self.tally.failed());
            let failures = if failed > 0 { format!("; {failed} failed") } else { String::new() };
            complain(format!("{from} {} {to}: {files}, {}{failures}", arrow(), self.meter.summary(self.tally.bytes())));
        }
        self.tally.outcome()
    }
}

/// Files that wait for their names.
#[derive(Default)]
struct Group {
    outputs: Vec<Output>,
    /// What else is known of each.
    written: Vec<Written>,
    bytes: u64,
}

impl Group {
    fn is_full(&self) -> bool {
        self.outputs.len() >= GROUP_FILES || self.bytes >= GROUP_BYTES
    }
}

/// A file whose bytes are written.
struct Written {
    place: Place,
    bytes: u64,
    folder: Arc<Folder>,
    name: OsString,
    read: Input,
}

impl Written {
    /// Deletes the input, if its name still stands for what was read.
    fn remove(&self) -> Outcome {
        let now = input::open_in(&self.folder.input, &self.name).map_err(|e| Failure::at(&self.place.input, e))?;
        if !self.read.is_unchanged(&now.1) {
            return Err(Failure::at(&self.place.input, Error::Changed));
        }
        let removed = fs::unlinkat(&self.folder.input, &self.name, AtFlags::empty());
        removed.map_err(|e| Failure::at(&self.place.input, Error::Write(e.into())))
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
}
