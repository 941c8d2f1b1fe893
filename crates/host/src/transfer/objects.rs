//! The protected files of a folder in a store: all that a manifest or the store lists is restored or checked.
//!
//! Each thread takes one object after another. Most of the time it waits for the store, so there are more of them than
//! cores. A large object gets all engines, and requests of its own at the same time.

mod output;
mod walk;

use super::action::{Action, Transfer};
use super::budget::Budget;
use super::ends::blame;
use super::listed::Metadata;
use super::meter::Meter;
use super::tally::Tally;
use super::tree::{GROUP_BYTES, GROUP_FILES, LARGE, MEMORY, SENDERS, quarter_of_open_files};
use super::walk::is_too_many;
use crate::engines::Engines;
use crate::failure::{Code, Failure, Outcome};
use crate::file::{Carry, Ends, Input, ObjectFolder, Output, OutputPlace, OutputRules, Sync, Target, carry, umask};
use crate::lines::shown;
use crate::lock::lock;
use crate::mirror::check::{Wrong, admit};
use crate::mirror::listing::{Listing, NodeId, State};
use crate::outage::Outage;
use crate::report;
use crate::{Error, Result};
use phalanx_core::tree::{Contents, LastChunk, Recorder};
use phalanx_core::{Error as CoreError, Progress};
use std::collections::HashMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, OnceLock, PoisonError};
use std::thread;
use walk::{Task, Walk};

/// The bytes of a large object that are on their way.
const WINDOW: u64 = 16 << 20;

/// A folder of objects to work on.
pub struct Job<'a> {
    /// Its URL, for messages.
    pub input: &'a Path,
    /// Its objects.
    pub objects: &'a dyn ObjectFolder,
    /// Its entries.
    pub listing: &'a Listing,
    /// The folder that is worked on: all in it that is not dropped.
    pub root: NodeId,
    /// Whether a manifest lists it. If not, only the names are known.
    pub is_listed: bool,
    /// The folder on a disk that is written, if one is.
    pub output: Option<&'a Path>,
    /// Watches the work.
    pub meter: &'a dyn Meter,
    /// Counts the results.
    pub tally: &'a Tally,
}

impl Job<'_> {
    /// The URL of an entry's object, for messages.
    fn path(&self, id: NodeId) -> PathBuf {
        self.input.join(self.listing.stored_path(id))
    }

    /// The path that an entry is restored to, for messages; that of its object if nothing is written.
    fn output_path(&self, id: NodeId) -> PathBuf {
        let Some(output) = self.output else { return self.path(id) };
        let (path, root) = (self.listing.path(id), self.listing.path(self.root));
        output.join(path.strip_prefix(root).unwrap_or(&path))
    }

    /// How many files are worked on, and how many bytes of plaintext they have.
    fn totals(&self) -> (u64, u64) {
        let entries = self.listing.within(self.root).filter(|id| self.listing.state(*id) != State::Dropped);
        let files = entries.filter_map(|id| self.listing.file(id));
        files.fold((0, 0), |(files, bytes), file| (files + 1, bytes + file.len))
    }

    /// The name of an entry's object. What is listed and no text has none.
    fn name(&self, id: NodeId) -> Result<String> {
        let no_object = |_| Error::read(io::ErrorKind::NotFound);
        self.listing.stored_path(id).into_os_string().into_string().map_err(no_object)
    }

    /// What a restored file gets, if the manifest says it. It is authenticated, so nothing of it is held back if the user wants
    /// everything restored.
    fn metadata(&self, id: NodeId, carry: Carry) -> Option<Metadata> {
        let entry = self.is_listed.then(|| self.listing.entry(id))?;
        let umask = if let Carry::New { umask } = carry { umask } else { 0 };
        Some(Metadata { mode: entry.mode & !umask, modified: Some(entry.modified) })
    }
}

/// Works on all objects of a folder that are listed.
///
/// # Errors
/// If the output cannot be begun, or what the action needs is not given. The failures of single objects go to the tally.
pub fn run<A: Action>(transfer: &Transfer<A>, job: &Job<'_>) -> Outcome {
    let output = job.output.map(|path| output::Folders::begin(transfer, job, path)).transpose()?;
    transfer.prepare()?;
    let (files, bytes) = job.totals();
    job.meter.expect(files, bytes);
    job.meter.expected_all();
    let quarter = quarter_of_open_files();
    let most = transfer.engines.threads.max(SENDERS).min(quarter);
    let threads = usize::try_from(files).unwrap_or(most).clamp(1, most);
    let workers = Workers {
        transfer,
        job,
        small: transfer.engines.small(),
        group_files: (quarter / threads).clamp(1, GROUP_FILES),
        walk: Mutex::new(Walk::new(job, output)),
        large: Mutex::new(()),
        budget: Budget::new(MEMORY),
        outage: Outage::default(),
        owners: OnceLock::new(),
    };
    thread::scope(|scope| {
        let others: Vec<_> =
            (1..threads).map_while(|_| thread::Builder::new().spawn_scoped(scope, || workers.work()).ok()).collect();
        workers.work();
        others.into_iter().for_each(|other| other.join().unwrap_or_else(|cause| std::panic::resume_unwind(cause)));
    });
    workers.end();
    Ok(())
}

struct Workers<'a, A> {
    transfer: &'a Transfer<A>,
    job: &'a Job<'a>,
    /// The engines for objects that are not large.
    small: Engines,
    group_files: usize,
    walk: Mutex<Walk<'a, A>>,
    /// Held while a large object is worked on.
    large: Mutex<()>,
    /// The bytes of objects that are on their way.
    budget: Budget,
    outage: Outage,
    /// Which entry has a last chunk; made when it is first needed.
    owners: OnceLock<HashMap<LastChunk, NodeId>>,
}

/// Files with all their bytes written, which are synced together.
#[derive(Default)]
struct Group {
    files: Vec<(Output, NodeId, u64)>,
    bytes: u64,
}

impl<A: Action> Workers<'_, A> {
    /// The work of each thread: one object after another, until none is left.
    fn work(&self) {
        let mut group = Group::default();
        let sync = self.transfer.destination.sync;
        while !self.job.meter.is_cancelled() && !self.outage.is_there() {
            let Some(task) = lock(&self.walk).next() else { break };
            let done = self.object(&task, &mut group);
            self.outage.note(done.as_ref().err().and_then(Failure::error));
            if let Err(failure) = done {
                self.job.tally.fail(&failure);
            }
            if !sync || group.files.len() >= self.group_files || group.bytes >= GROUP_BYTES {
                self.commit(&mut group);
            }
        }
        self.commit(&mut group);
    }

    /// Works on an object. Its output, if there is one, joins the group.
    fn object(&self, task: &Task, group: &mut Group) -> Outcome {
        let (job, id) = (self.job, task.id);
        let path = job.path(id);
        let at = |e| blame(&path, &job.output_path(id), e);
        let mut ends = self.begin(task, group).map_err(|e| self.gone(&path, &e).unwrap_or_else(|| at(e)))?;
        let recorder = job.is_listed.then(|| Recorder::new(job.meter));
        let progress: &dyn Progress = recorder.as_ref().map_or(job.meter, |recorder| recorder);
        let bytes = self.transfer_all(&path, &mut ends, group, progress).map_err(at)?;
        if let Some(recorder) = recorder {
            self.admit(id, &path, recorder.contents())?;
        }
        let Target::File(output, _) = ends.target else {
            self.count(id, bytes);
            return self.transfer.action.checked(&path, bytes);
        };
        let rules = self.transfer.rules();
        match job.metadata(id, rules.carry) {
            Some(metadata) => metadata.give(output.file(), false),
            None => carry(&ends.input, &output, &OutputRules { carry: Carry::New { umask: umask() }, ..rules }),
        }
        .map_err(at)?;
        group.bytes += bytes;
        group.files.push((output, id, bytes));
        Ok(())
    }

    /// Opens an object, and begins its output.
    fn begin(&self, task: &Task, group: &mut Group) -> Result<Ends> {
        let object = self.job.objects.open(&self.job.name(task.id)?).map_err(Error::read)?;
        let rules = OutputRules { resume: false, ..self.transfer.rules() };
        let begin = || {
            let input = Input::Object(object.clone());
            let Some(folder) = &task.folder else { return Ok(Ends::only(input)) };
            Ends::begin(input, OutputPlace::Entry(folder.clone(), self.job.listing.name(task.id)), &rules)
        };
        match begin() {
            Err(e) if is_too_many(&e) && !group.files.is_empty() => {
                self.commit(group);
                begin()
            }
            begun => begun,
        }
    }

    /// The failure of an object that is not there, although the manifest and the store have listed it.
    fn gone(&self, path: &Path, error: &Error) -> Option<Failure> {
        let Error::Core(CoreError::Read(e)) = error else { return None };
        let line = || format!("{}: missing: it was there when the run began", shown(path));
        let is_gone = self.job.is_listed && e.kind() == io::ErrorKind::NotFound;
        is_gone.then(|| Failure::new(Code::NotAuthentic, line()).on(path))
    }

    /// Moves all bytes of an object. Returns how many there are.
    fn transfer_all(&self, path: &Path, ends: &mut Ends, group: &mut Group, progress: &dyn Progress) -> Result<u64> {
        let (action, meter) = (&self.transfer.action, self.job.meter);
        let len = ends.input.len().unwrap_or(LARGE);
        let done = if len >= LARGE {
            // This takes a while.
            self.commit(group);
            let _alone = lock(&self.large);
            let _share = self.budget.take(WINDOW);
            action.transfer(&self.transfer.engines, ends, meter, progress)
        } else {
            let _share = self.budget.take(len);
            action.transfer(&self.small, ends, meter, progress)
        };
        if done.is_err() {
            action.failed(path);
        }
        let moved = done?;
        if let Some(by) = &moved.by {
            action.opened(|| path.to_owned(), by);
        }
        Ok(moved.bytes)
    }

    /// Refuses an object that does not hold what the manifest lists in its place.
    fn admit(&self, id: NodeId, path: &Path, found: Option<Contents>) -> Outcome {
        let listing = self.job.listing;
        let listed = listing.file(id).map(|file| file.contents);
        let Some(Err(error)) = listed.zip(found).map(|(listed, found)| admit(&listed, &found)) else {
            // Not all of its chunks were opened in this run: nothing proves what it is.
            let unproven = || Failure::at(path, Error::NotListed("it was not read as a whole"));
            return if found.is_some() { Ok(()) } else { Err(unproven()) };
        };
        let owners = self
            .owners
            .get_or_init(|| listing.all().filter_map(|id| Some((listing.file(id)?.contents.last, id))).collect());
        let owner = found.and_then(|found| owners.get(&found.last)).filter(|owner| **owner != id);
        let wrong = owner.map_or(Wrong::Unlisted, |owner| Wrong::Other(listing.stored_path(*owner)));
        let line = format!("{}: {}", shown(path), wrong.text(self.job.input));
        Err(Failure::new(Code::NotAuthentic, line).on(path).because_of(error))
    }

    /// Gives the files of a group their names.
    fn commit(&self, group: &mut Group) {
        let Group { files, .. } = std::mem::take(group);
        let (outputs, entries): (Vec<_>, Vec<_>) =
            files.into_iter().map(|(output, id, bytes)| (output, (id, bytes))).unzip();
        let destination = &self.transfer.destination;
        let sync = if destination.sync { Sync::Yes } else { Sync::No };
        let committed = Output::commit_all(outputs, destination.existing(&self.transfer.made), sync);
        for ((id, bytes), committed) in entries.into_iter().zip(committed) {
            match committed {
                Ok(_) => self.count(id, bytes),
                Err(e) => self.job.tally.fail(&Failure::at(&self.job.output_path(id), e)),
            }
        }
    }

    /// Counts an object that is done.
    fn count(&self, id: NodeId, bytes: u64) {
        self.job.tally.succeed(bytes);
        self.job.meter.file_done();
        if report::is_on() {
            let output = self.job.output.map(|_| self.job.output_path(id));
            report::done(&self.job.path(id), output.as_deref(), bytes);
        }
    }

    /// Finishes the folders, and says what was done.
    fn end(self) {
        let (job, tally) = (self.job, self.job.tally);
        self.walk.into_inner().unwrap_or_else(PoisonError::into_inner).finish();
        job.meter.finish();
        if self.outage.is_there() {
            tally.fail(&Failure::at(job.input, self.outage.error()));
        }
        report::without_input(tally.strays().number);
        if let Some(output) = job.output
            && !self.transfer.verbosity.quiet
        {
            tally.tell(job.input, output, job.meter);
        }
    }
}
