//! What rank 0 does beside leading: it compares trees with their manifests, makes the folders and links of mirrors,
//! does what needs no content to be moved, and finds the files that the processes have to work on. It writes manifests.

use crate::args::{Plan, What};
use crate::feed::{Feed, Found, Returned};
use crate::keys::Keys;
use crate::message::Written;
use crate::prepare::{Prepared, Walked, prepare, prepare_mirror};
use crate::tally::Failures;
use crate::worker::key_files;
use phalanx_core::tree::{Entry, FileEntry, Kind, Time};
use phalanx_core::{Error as CoreError, Roster};
use phalanx_host::Error;
use phalanx_host::failure::{Code, Failure, Outcome, worse};
use phalanx_host::file::InputFile;
use phalanx_host::lines::{complain, complain_with};
use phalanx_host::mirror::check::Checked;
use phalanx_host::mirror::manifests::Sealing;
use phalanx_host::mirror::run::{Change, Mirroring, OnChange, Options};
use phalanx_host::mirror::selection::{Place, Selection, Target};
use phalanx_host::mirror::state::Trees;
use phalanx_host::mirror::verdict::Compared;
use phalanx_host::mirror::whole::Protecting;
use phalanx_host::paths::Destination;
use phalanx_host::say::say;
use phalanx_host::transfer::ends::blame;
use phalanx_host::transfer::folder::{Folder, Tree};
use phalanx_host::transfer::tally::Tally;
use phalanx_host::transfer::tree::quarter_of_open_files;
use phalanx_host::transfer::walk::{self, Next, Walk};
use phalanx_host::warnings::{KEEP_COPY, key_inside};
use rustix::fs::{self, AtFlags};
use std::cell::Cell;
use std::ffi::OsStr;
use std::io::ErrorKind;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::atomic::AtomicUsize;
use std::sync::mpsc::{Receiver, SyncSender, channel, sync_channel};
use std::sync::{Arc, OnceLock};
use std::time::Instant;

/// The most files that wait for the leader.
const WAITING: usize = 256;

/// What the leader needs to begin.
pub struct Begun {
    pub prepared: Prepared,
    pub feed: Feed,
}

/// Rank 0's driver.
pub struct Driver<'a> {
    pub plan: &'a Plan,
    pub keys: Option<&'a Keys>,
    pub roster: Arc<Roster>,
    pub failures: Arc<Failures>,
}

/// The files that were found go to the leader, and come back.
struct Leader {
    found: SyncSender<Found>,
    back: Receiver<Returned>,
}

/// A walk through a tree.
struct Way<'a> {
    /// The number of the tree.
    number: u32,
    input: &'a Path,
    output: Option<&'a Path>,
    selection: Arc<dyn Selection>,
    tally: Arc<Tally>,
}

impl Driver<'_> {
    /// Prepares the work, lets the leader begin, and does its own part.
    pub fn run(&self, begin: SyncSender<Begun>) -> Outcome {
        if let Some(options) = &self.plan.mirror {
            return self.mirror(options, begin);
        }
        let mut prepared = prepare(self.plan, self.keys, &self.roster, &self.failures)?;
        let failed = std::mem::replace(&mut prepared.failed, Ok(()));
        let walked = std::mem::take(&mut prepared.walked);
        let (leader, feed) = connect();
        let begun = begin.send(Begun { prepared, feed });
        drop(begin);
        let mut worst = worse(failed, begun.map_err(|_| ended()));
        for Walked { number, input, output, compared } in walked {
            let output = output.as_deref();
            let done = match (compared, output) {
                (Some(compared), _) => self.check(number, &input, output, compared, &leader),
                (None, Some(output)) => self.protect(number, &input, output, &leader),
                (None, None) => Ok(()),
            };
            worst = worse(worst, done.map_err(reported));
        }
        worst
    }

    /// Makes or renews a mirror.
    fn mirror(&self, options: &Options, begin: SyncSender<Begun>) -> Outcome {
        let (started, verbosity) = (Instant::now(), self.plan.verbosity);
        let tally = &self.failures.of_all;
        let begin = Cell::new(Some(begin));
        let walk = |selection| {
            let (leader, feed) = connect();
            let prepared = prepare_mirror(&options.source, &options.mirror)?;
            if begin.take().is_some_and(|begin| begin.send(Begun { prepared, feed }).is_err()) {
                return Err(ended());
            }
            let (input, output) = (&*options.source, Some(&*options.mirror));
            self.walk(Way { number: 0, input, output, selection, tally: tally.clone() }, &leader)
        };
        let names = verbosity.verbose || options.dry_run;
        let mirroring = Mirroring {
            options,
            sealing: self.sealing(),
            tally,
            quiet: verbosity.quiet,
            on_change: names.then(|| Arc::new(|change: Change| say(change.line())) as Arc<OnChange>),
            progress: Arc::new(()),
            walk: &|renewal| walk(renewal),
        };
        let done = mirroring.run().map(|summary| {
            if let Some(summary) = summary.filter(|_| !verbosity.quiet) {
                complain(summary.line(options, tally, started.elapsed()));
            }
        });
        worse(done.map_err(reported), tally.outcome())
    }

    /// Protects a folder, and writes its manifest.
    fn protect(&self, number: u32, input: &Path, output: &Path, leader: &Leader) -> Outcome {
        let tally = self.failures.of_tree(output.to_owned());
        let destination = &self.plan.destination;
        let protecting = Protecting {
            input,
            output,
            sealing: self.sealing(),
            replaces: destination.force || destination.resume,
            prepare: &|| Ok(()),
            walk: &|selection| {
                let way = Way { number, input, output: Some(output), selection, tally: tally.clone() };
                self.walk(way, leader).map(|()| tally.clone())
            },
        };
        protecting.run()
    }

    /// Checks or unprotects a tree that was compared with its manifest.
    fn check(&self, number: u32, input: &Path, output: Option<&Path>, compared: Compared, leader: &Leader) -> Outcome {
        let is_named = self.is_verifying() && !self.plan.verbosity.quiet;
        let said = |line: String| if is_named { say(line) } else { Ok(()) };
        if let What::Verify { quick: true, .. } = self.plan.what {
            return worse(said(compared.quick_line(input)), compared.outcome);
        }
        let line = compared.line(input);
        let Compared { listing, root, outcome, .. } = compared;
        let (selection, tally) = (Arc::new(Checked::below(listing, root)), self.failures.of_all.clone());
        let checked = self.walk(Way { number, input, output, selection, tally }, leader).map_err(reported);
        worse(worse(checked, outcome), said(line))
    }

    /// Walks through a tree, and waits until all files that were found are done.
    fn walk(&self, way: Way<'_>, leader: &Leader) -> Outcome {
        let root = Folder::root(Arc::new(self.tree(&way)))?;
        let name = |of: &OsStr| self.plan.output_name(of);
        let mut walk = Walk::new(root, quarter_of_open_files(), name);
        let mut given = 0;
        loop {
            leader.back.try_iter().for_each(|returned| {
                given -= 1;
                self.done(returned, &way);
            });
            match walk.next(name) {
                Ok(Next::File(task)) => given += u32::from(self.meet(task, &way, leader)?),
                Ok(Next::End) => break,
                Err(e) if given == 0 => walk.skip(e),
                // Some files must be done first, because too many folders are open.
                Ok(Next::Pause) | Err(_) => {
                    self.done(leader.back.recv().map_err(|_| ended())?, &way);
                    given -= 1;
                }
            }
        }
        for _ in 0..given {
            self.done(leader.back.recv().map_err(|_| ended())?, &way);
        }
        way.selection.end(way.input, &way.tally);
        Ok(())
    }

    fn tree(&self, Way { input, output, selection, tally, .. }: &Way<'_>) -> Tree {
        let (destination, keys) = (&self.plan.destination, key_files(self.plan));
        Tree {
            input: (*input).to_owned(),
            input_id: OnceLock::new(),
            output: output.map(Path::to_owned),
            objects: None,
            // The root has just been made, or may be used.
            force: true,
            remove: false,
            opens: !self.is_protecting(),
            sync: destination.sync,
            carry: destination.carry,
            tally: tally.clone(),
            made: Arc::new(keys.made()),
            keys: Arc::new(keys),
            key_inside: OnceLock::new(),
            open: Arc::new(AtomicUsize::new(0)),
            selection: Some(selection.clone()),
        }
    }

    /// Does what is to be done with a file, or gives it to the leader. Returns whether it did the latter.
    fn meet(&self, task: walk::Task, way: &Way<'_>, leader: &Leader) -> Outcome<bool> {
        let (tree, selection) = (way.number, &way.selection);
        let settled = self.settle(&task, &**selection);
        let walk::Task { folder, handles, name, output_name, node, .. } = &task;
        let stat = match settled {
            Ok(true) => return Ok(false),
            Ok(false) => fs::statat(&handles.input, name, AtFlags::SYMLINK_NOFOLLOW).map_err(Error::read),
            Err(e) => Err(e),
        };
        match stat {
            Ok(stat) => {
                self.warn_of_key(folder, name, (stat.st_dev, stat.st_ino));
                let contents = node.and_then(|node| selection.contents(node));
                let metadata = node.and_then(|node| selection.metadata(node));
                let metadata = metadata.map(|(mode, time)| (mode, (time.seconds, time.nanoseconds)));
                let (len, mtime) = (stat.st_size as u64, (stat.st_mtime, stat.st_mtime_nsec as i64));
                let found = Found { task, tree, len, mtime, contents, metadata };
                leader.found.send(found).map_err(|_| ended())?;
                Ok(true)
            }
            // A mirrored file may be deleted at any time.
            Err(Error::Core(CoreError::Read(e)))
                if self.is_protecting() && node.is_some() && e.kind() == ErrorKind::NotFound =>
            {
                folder.leave_out(name, "it was deleted during the run");
                Ok(false)
            }
            Err(e) => {
                way.tally.fail(&blame(&folder.path(name), &folder.mirrored(output_name), e));
                Ok(false)
            }
        }
    }

    /// Does what is to be done with a file whose content need not be moved. Returns false if it must be.
    fn settle(&self, task: &walk::Task, selection: &dyn Selection) -> phalanx_host::Result<bool> {
        let walk::Task { folder, handles, name, output_name, node, .. } = task;
        let Some(output) = &handles.output else { return Ok(false) };
        folder.check_kind(handles, name, true)?;
        let place = Place { input: &handles.input, name, output: Target::Entry(output, output_name) };
        if let Some(node) = *node
            && selection.settle(node, &place)?
        {
            return Ok(true);
        }
        // A file that cannot be opened here is reported by whoever reads it.
        if self.is_protecting()
            && let Ok(input) = InputFile::open_in(handles.input.clone(), name)
        {
            selection.vet(&handles.input, input.file())?;
        }
        Ok(false)
    }

    /// Lists a file that has been written.
    fn done(&self, Returned { found, written }: Returned, way: &Way<'_>) {
        let walk::Task { folder, handles, name, output_name, node, .. } = &found.task;
        let Some(written) = written else { return };
        way.tally.succeed(written.len);
        if self.is_verifying() {
            folder.rival(handles, name, output_name).unwrap_or_else(|failure| way.tally.fail(&failure));
        }
        if let (Some(key), true) = (folder.key_of(name, *node), self.is_protecting()) {
            way.selection.written(&key, &entry(name, &written));
        }
    }

    /// Warns once if a file of a tree holds a key that protects it.
    fn warn_of_key(&self, folder: &Folder, name: &OsStr, id: (u64, u64)) {
        let tree = folder.tree();
        let path = || folder.path(name);
        if self.is_protecting()
            && self.plan.mirror.is_none()
            && tree.keys.is_in_use(id)
            && tree.key_inside.set(path()).is_ok()
        {
            complain_with(key_inside(&tree.input, &path()), Some(KEEP_COPY));
        }
    }

    /// How manifests are written.
    fn sealing(&self) -> Sealing<'_> {
        let Some(Keys::Protect { recipients, suite, .. }) = self.keys else { panic!("it protects files") };
        let Destination { sync, carry, .. } = self.plan.destination;
        Sealing {
            recipients,
            suite: *suite,
            roster: self.roster.clone(),
            sync,
            carry,
            trees: Trees::of_user(),
            resumes: self.plan.destination.resume,
            signer: None,
            signers: None,
        }
    }

    fn is_verifying(&self) -> bool {
        matches!(self.plan.what, What::Verify { .. })
    }

    fn is_protecting(&self) -> bool {
        matches!(self.plan.what, What::Protect { .. })
    }
}

fn connect() -> (Leader, Feed) {
    let (found, to_leader) = sync_channel(WAITING);
    let (from_leader, back) = channel();
    (Leader { found, back }, Feed::new(to_leader, from_leader))
}

/// The leader has stopped early, and has reported why.
fn ended() -> Failure {
    Failure::written(Code::InputOutput)
}

/// Reports a failure.
pub fn reported(failure: Failure) -> Failure {
    failure.report();
    Failure::written(failure.code())
}

/// A file that has been written, as a manifest lists it.
fn entry(name: &OsStr, written: &Written) -> Entry {
    let Written { len, stored_len, device, inode, mode, mtime, holds, .. } = *written;
    let file = FileEntry { len, stored_len, device, inode, contents: holds.into() };
    let modified = Time { seconds: mtime.0, nanoseconds: mtime.1 };
    Entry { name: name.as_bytes().to_vec(), mode, modified, kind: Kind::File(file) }
}
