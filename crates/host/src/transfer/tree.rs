//! `--recursive`: all files of a tree, in parallel.
//!
//! Each thread takes one file after another, so no file passes from thread to thread. A large file gets all engines and
//! threads.

use super::action::{Action, Transfer};
use super::budget::Budget;
use super::count;
use super::listed;
use super::meter::Meter;
use crate::engines::Engines;
use crate::failure::{Failure, Outcome};
use crate::file::{
    self, Committed, Ends, Input, ObjectFolder, Output, OutputPlace, OutputRules, Removal, Sync, Target, carry, is_url,
};
use crate::lines::complain_with;
use crate::lock::lock;
use crate::mirror::entry::{entry, number_of_open};
use crate::mirror::manifest::root;
use crate::mirror::root::Root;
use crate::mirror::selection::{self, Key, Place, Selection};
use crate::outage::Outage;
use crate::report;
use crate::signatures;
use crate::transfer::ends::{blame, delete, not_deleted};
use crate::transfer::folder::{Folder, Tree};
use crate::transfer::tally::Tally;
use crate::transfer::walk::{Next, Task, Walk, is_of_process, is_too_many};
use crate::warnings::{self, KEEP_COPY, warn_of_resource_fork, warn_of_special_bits};
use crate::{Error, Result};
use phalanx_core::tree::{Entry, FileEntry, Kind, Recorder};
use phalanx_core::{Progress, ReadAt};
use phalanx_system::fs::{self, AtFlags};
use phalanx_system::process::most_open_files;
use std::io;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock};
use std::thread;
use std::time::Duration;

/// Files of at least this length are worked on by all engines and threads, one file at a time. Smaller files are worked
/// on by one thread each.
pub(super) const LARGE: u64 = 16 << 20;
/// So many threads send objects to a store.
pub(super) const SENDERS: usize = 16;
/// The most bytes of files that are on their way to a store.
pub(super) const MEMORY: u64 = 24 << 20;
/// How often a file that changes meanwhile is read.
const TIMES_READ: u32 = 3;
/// The most files, and the most bytes, that are synced together.
pub(super) const GROUP_FILES: usize = 256;
pub(super) const GROUP_BYTES: u64 = 256 << 20;

/// A tree to work on.
pub struct Job<'a> {
    /// The folder.
    pub input: &'a Path,
    /// The path that becomes its mirror, if there is to be one.
    pub output: Option<&'a Path>,
    /// What of it is worked on. `None` for all of it.
    pub selection: Option<Arc<dyn Selection>>,
    /// Watches the work.
    pub meter: &'a dyn Meter,
    /// Counts the results.
    pub tally: Arc<Tally>,
}

/// Works on all files of a tree, or those of a selection.
///
/// # Errors
/// If the folder cannot be opened, or what the action needs is not given. The failures of single files go to the tally.
pub fn run<A: Action>(transfer: &Transfer<A>, job: Job<'_>) -> Outcome {
    let Job { input, output, selection, meter, tally } = job;
    let destination = &transfer.destination;
    let tree = Arc::new(Tree {
        input: input.to_owned(),
        input_id: OnceLock::new(),
        output: output.map(Path::to_owned),
        objects: output.map_or(Ok(None), objects_at)?,
        force: destination.force,
        remove: destination.remove,
        opens: transfer.action.opens(),
        sync: destination.sync,
        carry: destination.carry,
        tally,
        made: transfer.made.clone(),
        keys: transfer.keys.clone(),
        key_inside: OnceLock::new(),
        open: Arc::default(),
        selection,
    });
    let root = Folder::root(tree.clone())?;
    transfer.prepare()?;
    let expected = tree.selection.as_ref().and_then(|selection| selection.expected());
    let is_counted = expected.is_some();
    if let Some((files, bytes)) = expected {
        meter.expect(files, bytes);
        meter.expected_all();
    }
    let scanned = root.handles().expect("the root has just been opened").input.clone();
    let quarter = quarter_of_open_files();
    let workers = Workers {
        transfer,
        small: transfer.engines.small(),
        group_files: (quarter / transfer.engines.threads).clamp(1, GROUP_FILES),
        walk: Mutex::new(Walk::new(root, quarter, |name| transfer.action.output_name(name))),
        tree,
        large: Mutex::new(()),
        budget: Budget::new(MEMORY),
        outage: Outage::default(),
        meter,
        working: AtomicUsize::new(0),
        waiting: AtomicUsize::new(0),
    };
    let over = AtomicBool::new(false);
    thread::scope(|scope| {
        let counts = || {
            let _working = More::of(&workers.working);
            count::run(&scanned, &|name| transfer.action.output_name(name).is_some(), workers.meter, &over);
        };
        let _uncounted = (transfer.verbosity.shows_progress() && !is_counted)
            .then(|| thread::Builder::new().spawn_scoped(scope, counts));
        let others: Vec<_> = (1..workers.threads())
            // If the system gives no more threads, the existing ones do the work.
            .map_while(|_| thread::Builder::new().spawn_scoped(scope, || workers.work()).ok())
            .collect();
        workers.work();
        others.into_iter().for_each(|other| other.join().unwrap_or_else(|cause| std::panic::resume_unwind(cause)));
        over.store(true, Ordering::Relaxed);
    });
    workers.meter.finish();
    if let (Some(output), true) = (output, workers.outage.is_there()) {
        workers.tree.tally.fail(&Failure::at(output, workers.outage.error()));
    }
    if let (Some(selection), false) = (&workers.tree.selection, workers.meter.is_cancelled()) {
        selection.end(&workers.tree.input, &workers.tree.tally);
    }
    workers.report();
    Ok(())
}

/// The folder of objects that an output is, if it is one.
fn objects_at(output: &Path) -> Outcome<Option<Arc<dyn ObjectFolder>>> {
    if !is_url(output) {
        return Ok(None);
    }
    root(output).map(|root| if let Root::Objects(objects) = root { Some(objects) } else { None })
}

/// A quarter of the files that may be open, not counting those for other purposes. This many outputs may wait to be
/// synced together, and this many folders may be open with their mirrors. The rest is for the work itself.
#[must_use]
pub fn quarter_of_open_files() -> usize {
    const OTHERS: u64 = 48;
    let open = most_open_files().unwrap_or(u64::MAX);
    usize::try_from(open.saturating_sub(OTHERS) / 4).unwrap_or(usize::MAX).max(4)
}

struct Workers<'a, A> {
    transfer: &'a Transfer<A>,
    /// The engines for files that are not large.
    small: Engines,
    group_files: usize,
    walk: Mutex<Walk>,
    tree: Arc<Tree>,
    /// Held while a large file is worked on.
    large: Mutex<()>,
    /// The bytes of files that are on their way to a store.
    budget: Budget,
    /// Whether the store is given up.
    outage: Outage,
    meter: &'a dyn Meter,
    /// The number of threads that may have files open, and how many of these wait for others to close some.
    working: AtomicUsize,
    waiting: AtomicUsize,
}

impl<A: Action> Workers<'_, A> {
    /// How many threads work. Those that send objects wait for the store most of the time.
    fn threads(&self) -> usize {
        let threads = self.transfer.engines.threads;
        if self.tree.objects.is_some() { threads.max(SENDERS) } else { threads }
    }

    /// The work of each thread: one file after another, until none is left.
    fn work(&self) {
        let _working = More::of(&self.working);
        let mut group = Vec::new();
        let mut bytes = 0;
        while !self.meter.is_cancelled() && !self.outage.is_there() {
            let next = || lock(&self.walk).next(|name| self.transfer.action.output_name(name));
            let task = match self.patiently(&mut group, next) {
                Ok(Next::File(task)) => task,
                Ok(Next::Pause) => {
                    self.let_go(&mut group);
                    continue;
                }
                Ok(Next::End) => break,
                Err(e) => {
                    lock(&self.walk).skip(e);
                    continue;
                }
            };
            let done = self.file_again(&task, &mut group);
            let error = done.as_ref().err().and_then(Failure::error);
            if self.tree.objects.is_some() && error.is_none_or(Error::is_of_output) {
                self.outage.note(error);
            }
            match done {
                Ok(Some(Done { output, bytes: more, removal, listed })) => {
                    bytes += more;
                    group.push(Written { output, origin: Origin { task, bytes: more, removal, listed } });
                    if !self.tree.sync || group.len() >= self.group_files || bytes >= GROUP_BYTES {
                        self.commit(&mut group);
                        bytes = 0;
                    }
                }
                Ok(None) => {}
                Err(failure) => {
                    task.folder.stays();
                    self.tree.tally.fail(&failure);
                }
            }
        }
        self.commit(&mut group);
    }

    /// Works on a file. If it is to be mirrored and changes while it is read, begins again.
    fn file_again(&self, task: &Task, group: &mut Vec<Written>) -> Outcome<Option<Done>> {
        let is_mirrored = !self.tree.opens && task.node.is_some();
        let mut times = if is_mirrored { TIMES_READ } else { 1 };
        loop {
            times -= 1;
            match self.file(task, group) {
                Err(failure) if is_mirrored && failure.is_of_vanished_input() => {
                    task.folder.leave_out(&task.name, "it was deleted during the run");
                    return Ok(None);
                }
                Err(failure) if times > 0 && failure.is_of_changed_input() => {}
                done => return done,
            }
        }
    }

    /// Calls `act`. If too many files are open, closes those that wait in this thread, then waits for other threads to
    /// close theirs, and tries again. Gives up when all threads wait, because none of them would close any.
    fn patiently<T>(&self, group: &mut Vec<Written>, act: impl Fn() -> Result<T>) -> Result<T> {
        const TIMES: u32 = 500;
        let mut waiting = None;
        for _ in 0..TIMES {
            match act() {
                Err(e) if is_too_many(&e) => {
                    if group.is_empty() && waiting.is_none() {
                        waiting = Some(More::of(&self.waiting));
                    }
                    let all = self.waiting.load(Ordering::SeqCst) >= self.working.load(Ordering::SeqCst);
                    if waiting.is_some() && all && is_of_process(&e) {
                        return act();
                    }
                    self.let_go(group);
                }
                done => return done,
            }
        }
        act()
    }

    /// Closes the files that wait in this thread. If there are none, waits a while for other threads to do so.
    fn let_go(&self, group: &mut Vec<Written>) {
        if group.is_empty() {
            thread::sleep(Duration::from_millis(10));
        } else {
            self.commit(group);
        }
    }

    /// Works on a file. Returns what is left to be done, if anything.
    fn file(&self, task: &Task, group: &mut Vec<Written>) -> Outcome<Option<Done>> {
        let Task { folder, handles, name, output_name, node, .. } = task;
        let (tree, action, node) = (&self.tree, &self.transfer.action, *node);
        let at = |e| blame(&folder.path(name), &folder.mirrored(output_name), e);
        let rules = OutputRules { resume: false, ..self.transfer.rules() };
        let object_name = tree.objects.as_ref().map(|_| folder.object_name(output_name)).transpose().map_err(at)?;
        let object = tree.objects.as_deref().zip(object_name.as_deref());
        let begin = || {
            let input = Input::open_in(handles.input.clone(), name)?;
            if let Some((objects, name)) = object {
                return Ends::begin(input, OutputPlace::ObjectIn(objects, name), &rules);
            }
            let Some(dir) = &handles.output else { return Ok(Ends::only(input)) };
            folder.check_kind(handles, name, true)?;
            Ends::begin(input, OutputPlace::Entry(dir.clone(), output_name), &rules)
        };
        let selected = tree.selection.as_deref().zip(node);
        let entry_of = |output| selection::Target::Entry(output, output_name);
        let output = handles
            .output
            .as_deref()
            .map(entry_of)
            .or(object.map(|(objects, name)| selection::Target::Object(objects, name)));
        // What is sent, or fetched to be compared, lies in memory.
        let len = object.map(|_| fs::statat(&handles.input, name, AtFlags::SYMLINK_NOFOLLOW));
        let len = len.map(|stat| stat.map_or(0, |stat| stat.st_size as u64));
        let _share = len.map(|len| self.budget.take(len));
        if let (Some((selection, node)), Some(output)) = (selected, output) {
            let place = Place { input: &handles.input, name, output };
            let _alone = len.filter(|len| *len >= LARGE).map(|_| lock(&self.large));
            if self.patiently(group, || selection.settle(node, &place)).map_err(at)? {
                self.meter.file_done();
                return Ok(None);
            }
        }
        let mut ends = self.patiently(group, begin).map_err(at)?;
        // From here on a change of the input is detected.
        let key = folder.key_of(name, node);
        let stat = key.as_ref().map(|_| fs::fstat(ends.input.file())).transpose();
        let stat = stat.map_err(|e| at(Error::read(e)))?;
        if let Some(selection) = &tree.selection {
            selection.vet(&handles.input, ends.input.file()).map_err(at)?;
        }
        let recorder = key.as_ref().map(|_| Recorder::new(self.meter));
        let progress: &dyn Progress = recorder.as_ref().map_or(self.meter, |recorder| recorder);
        let done = if ends.input.len().is_some_and(|len| len >= LARGE) {
            // This takes a while, and no other thread should wait for what this thread holds.
            self.commit(group);
            let _alone = lock(&self.large);
            action.transfer(&self.transfer.engines, &mut ends, self.meter, progress)
        } else {
            action.transfer(&self.small, &mut ends, self.meter, progress)
        };
        if done.is_err() {
            action.failed(&folder.path(name));
        }
        let moved = done.map_err(at)?;
        if let Some(by) = &moved.by {
            action.opened(|| folder.path(name), by);
        }
        let bytes = moved.bytes;
        let contents = recorder.and_then(Recorder::contents);
        if let (Some((selection, node)), Some(contents)) = (selected, &contents) {
            selection.admit(node, contents).map_err(at)?;
        }
        let Ends { input, target } = ends;
        let listed = |stored_len| {
            let (key, stat, contents) = (key.clone()?, stat?, contents?);
            let inode = number_of_open(input.file());
            let file = FileEntry { len: bytes, stored_len, device: stat.st_dev, inode, contents };
            Some((key, entry(name, &stat, Kind::File(file))))
        };
        if let Target::Object(object, _) = target {
            let stored_len = object.written();
            object.commit().map_err(|e| at(file::object_error(e)))?;
            self.list(listed(stored_len).as_ref());
            self.count(task, bytes);
            return Ok(None);
        }
        let Target::File(output, _) = target else {
            tree.tally.succeed(bytes);
            self.meter.file_done();
            report::done(&folder.path(name), None, bytes);
            action.checked(&folder.path(name), bytes)?;
            folder.rival(handles, name, output_name).unwrap_or_else(|failure| tree.tally.fail(&failure));
            return Ok(None);
        };
        warn_of_special_bits(&folder.path(name), input.file(), rules.carry);
        warn_of_resource_fork(&folder.path(name), input.file());
        carry(&input, &output, &rules).map_err(at)?;
        if let Some((selection, node)) = selected {
            listed::restore(selection, node, rules.carry, input.file(), output.file()).map_err(at)?;
        }
        let removal = match folder.deletes(&input, name) {
            true if action.opens() => signatures::removal(&input),
            true => input.removal(),
            false => None,
        };
        let listed = listed(output.file().size().map_err(|e| at(Error::write(e)))?);
        Ok(Some(Done { output, bytes, removal, listed }))
    }

    /// Gives the files of a group their names, and then deletes their inputs if that was requested.
    fn commit(&self, group: &mut Vec<Written>) {
        let destination = &self.transfer.destination;
        let sync = match (destination.sync, destination.remove) {
            (false, _) => Sync::No,
            (true, false) => Sync::Yes,
            (true, true) => Sync::Each,
        };
        let ready = group.drain(..).filter_map(|Written { output, origin }| {
            if let (Some(selection), Some((Key::Node(node), _))) = (&self.tree.selection, &origin.listed)
                && let Err(e) = selection.replace(*node, output.folder(), &origin.task.output_name)
            {
                origin.task.folder.stays();
                self.tree.tally.fail(&Failure::at(&origin.task.output(), e));
                return None;
            }
            Some((output, origin))
        });
        let (outputs, origins): (Vec<_>, Vec<Origin>) = ready.unzip();
        if let Some(selection) = &self.tree.selection
            && let Err(e) = selection.replaced()
        {
            let again = || e.raw_os_error().map_or_else(|| e.kind().into(), io::Error::from_raw_os_error);
            for origin in origins {
                origin.task.folder.stays();
                self.tree.tally.fail(&Failure::at(&origin.task.output(), Error::write(again())));
            }
            return;
        }
        let committed = Output::commit_all(outputs, destination.existing(&self.tree.made), sync);
        let fail = |origin: &Origin, failure: &Failure| {
            origin.task.folder.stays();
            self.tree.tally.fail(failure);
        };
        let mut done = Vec::new();
        for (origin, result) in origins.into_iter().zip(committed) {
            match origin.secure(result) {
                Ok(committed) => {
                    self.list(origin.listed.as_ref());
                    done.push((origin, committed));
                }
                Err(failure) => fail(&origin, &failure),
            }
        }
        let removed = done.iter().filter(|(origin, _)| origin.removal.is_some());
        let removed: Vec<&Key> = removed.filter_map(|(origin, _)| Some(&origin.listed.as_ref()?.0)).collect();
        let noted = match &self.tree.selection {
            Some(selection) if !removed.is_empty() => selection.removes(&removed),
            _ => Ok(()),
        };
        for (mut origin, committed) in done {
            match origin.finish(&committed, &noted) {
                Ok(()) => self.count(&origin.task, origin.bytes),
                Err(failure) => fail(&origin, &failure),
            }
        }
    }

    /// Lists a file whose output has its name.
    fn list(&self, listed: Option<&(Key, Entry)>) {
        if let (Some(selection), Some((key, entry))) = (&self.tree.selection, listed) {
            selection.written(key, entry);
        }
    }

    /// Counts a file that is done.
    fn count(&self, task: &Task, bytes: u64) {
        self.tree.tally.succeed(bytes);
        self.meter.file_done();
        if report::is_on() {
            report::done(&task.input(), Some(&task.output()), bytes);
        }
    }

    fn report(&self) {
        if self.tree.selection.as_ref().is_some_and(|selection| selection.is_summed_up()) {
            return;
        }
        let (tree, tally) = (&self.tree, &self.tree.tally);
        report::without_input(tally.strays().number);
        if let Some(output) = &tree.output
            && !self.transfer.verbosity.quiet
        {
            tally.tell(&tree.input, output, self.meter);
        }
        if let (Some(key), true) = (tree.key_inside.get(), self.transfer.action.warns_of_keys()) {
            complain_with(warnings::key_inside(&tree.input, key), Some(KEEP_COPY));
        }
    }
}

/// Counts one more as long as it lives.
struct More<'a>(&'a AtomicUsize);

impl<'a> More<'a> {
    fn of(number: &'a AtomicUsize) -> Self {
        number.fetch_add(1, Ordering::SeqCst);
        Self(number)
    }
}

impl Drop for More<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

/// What was done with a file whose bytes are all written.
struct Done {
    output: Output,
    bytes: u64,
    removal: Option<Removal>,
    listed: Option<(Key, Entry)>,
}

/// A file with all its bytes written.
struct Written {
    output: Output,
    origin: Origin,
}

/// Where a written file came from.
struct Origin {
    task: Task,
    bytes: u64,
    /// The removal of the input, if that was requested.
    removal: Option<Removal>,
    /// Its entry, as it was written, if a manifest lists it.
    listed: Option<(Key, Entry)>,
}

impl Origin {
    /// Makes sure that the output is on the disk, if the input is to be deleted.
    fn secure(&self, committed: Result<Committed>) -> Outcome<Committed> {
        let task = &self.task;
        let at_output = |e| Failure::at(&task.output(), e);
        let committed = committed.map_err(at_output)?;
        if self.removal.is_some() {
            task.folder.make_durable(&task.handles).map_err(at_output)?;
        }
        Ok(committed)
    }

    /// Deletes the input if that was requested and could be noted.
    fn finish(&mut self, committed: &Committed, noted: &io::Result<()>) -> Outcome {
        let Some(removal) = self.removal.take() else { return Ok(()) };
        let input = self.task.input();
        if let (Err(e), true) = (noted, self.listed.is_some()) {
            return Err(not_deleted(&input, Error::write(io::Error::new(e.kind(), e.to_string()))));
        }
        delete(removal, &input, committed, &self.task.output())
    }
}
