//! What rank 0 does beside leading: it compares trees with their manifests, makes the folders and links of mirrors,
//! does what needs no content to be moved, and finds the files that the processes have to work on. It writes manifests.

use crate::args::{Plan, What};
use crate::feed::{Feed, Returned};
use crate::keys::Keys;
use crate::message::Written;
use crate::prepare::{Checking, Prepared, prepare};
use crate::worker::key_files;
use phalanx_core::Roster;
use phalanx_core::tree::{Contents, Entry, FileEntry, Kind, Time};
use phalanx_host::failure::{Code, Failure, Outcome, worse};
use phalanx_host::file::Made;
use phalanx_host::folders::read_error;
use phalanx_host::key_files::KeyFiles;
use phalanx_host::mirror::check::Checked;
use phalanx_host::mirror::selection::{Place, Selection};
use phalanx_host::mirror::verdict::Compared;
use phalanx_host::say::say;
use phalanx_host::transfer::ends::blame;
use phalanx_host::transfer::folder::{Folder, Tree};
use phalanx_host::transfer::tally::Tally;
use phalanx_host::transfer::tree::quarter_of_open_files;
use phalanx_host::transfer::walk::{self, Next, Walk};
use rustix::fs::{self, AtFlags};
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::atomic::AtomicUsize;
use std::sync::mpsc::{Receiver, SyncSender, channel, sync_channel};
use std::sync::{Arc, OnceLock};

/// The most files that wait for the leader.
const WAITING: usize = 256;

/// A file to work on.
pub struct Found {
    pub task: walk::Task,
    /// The number of its tree.
    pub tree: u32,
    /// The input's length in bytes, and its modification time in seconds and nanoseconds.
    pub len: u64,
    pub mtime: (i64, i64),
    /// What it must hold, if it is opened.
    pub contents: Option<Contents>,
    /// The permissions that it had when its mirror was written.
    pub mode: Option<u32>,
}

impl Found {
    /// The path of its folder, from the root of the tree on.
    pub fn folder(&self) -> Vec<u8> {
        let path = self.task.folder.path(OsStr::new(""));
        let below = path.strip_prefix(&self.task.folder.tree().input).unwrap_or(Path::new(""));
        below.as_os_str().as_bytes().to_vec()
    }
}

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
    /// Counts the failures of all processes.
    pub tally: Arc<Tally>,
}

/// The files that were found go to the leader, and come back.
struct Leader {
    found: SyncSender<Found>,
    back: Receiver<Returned>,
}

/// A tree that is walked through.
struct Walked<'a> {
    /// Its number.
    number: u32,
    input: &'a Path,
    output: Option<&'a Path>,
    selection: Arc<dyn Selection>,
}

impl Driver<'_> {
    /// Prepares the work, lets the leader begin, and does its own part.
    pub fn run(&self, begin: SyncSender<Begun>) -> Outcome {
        let mut prepared = prepare(self.plan, self.keys, &self.roster, &self.tally)?;
        let failed = std::mem::replace(&mut prepared.failed, Ok(()));
        let checking = std::mem::take(&mut prepared.checking);
        let (leader, feed) = connect();
        let begun = begin.send(Begun { prepared, feed });
        drop(begin);
        let checked = begun.map_err(|_| ended()).and_then(|()| self.check_all(checking, &leader));
        worse(failed, checked)
    }

    /// Checks or unprotects trees that were compared with their manifests.
    fn check_all(&self, trees: Vec<Checking>, leader: &Leader) -> Outcome {
        let mut worst = Ok(());
        for Checking { number, input, output, compared } in trees {
            let quiet = self.plan.verbosity.quiet || !self.is_verifying();
            if let What::Verify { quick: true, .. } = self.plan.what {
                let said = if quiet { Ok(()) } else { say(compared.quick_line(&input)) };
                worst = worse(worse(worst, said), compared.outcome);
                continue;
            }
            let line = compared.line(&input);
            let Compared { listing, outcome, .. } = compared;
            let selection = Arc::new(Checked::new(listing));
            let walked = Walked { number, input: &input, output: output.as_deref(), selection };
            let checked = self.walk(walked, leader);
            let said = if quiet { Ok(()) } else { say(line) };
            worst = worse(worse(worst, outcome), worse(checked, said));
        }
        worst
    }

    /// Walks through a tree, and waits until all files that were found are done.
    fn walk(&self, Walked { number, input, output, selection }: Walked<'_>, leader: &Leader) -> Outcome {
        let key_files = Arc::new(key_files(self.plan));
        let tree = Arc::new(self.tree(input, output, selection.clone(), key_files));
        let root = Folder::root(tree.clone())?;
        let name = |of: &OsStr| self.plan.output_name(of);
        let mut walk = Walk::new(root, quarter_of_open_files(), name);
        let mut given = 0;
        loop {
            leader.back.try_iter().for_each(|returned| {
                given -= 1;
                self.done(returned, &*selection);
            });
            match walk.next(name) {
                Ok(Next::File(task)) => given += u32::from(self.meet(number, task, &*selection, leader)?),
                Ok(Next::End) => break,
                Err(e) if given == 0 => walk.skip(e),
                // Some files must be done first, because too many folders are open.
                Ok(Next::Pause) | Err(_) => {
                    self.done(leader.back.recv().map_err(|_| ended())?, &*selection);
                    given -= 1;
                }
            }
        }
        for _ in 0..given {
            self.done(leader.back.recv().map_err(|_| ended())?, &*selection);
        }
        Ok(())
    }

    fn tree(
        &self,
        input: &Path,
        output: Option<&Path>,
        selection: Arc<dyn Selection>,
        keys: Arc<KeyFiles>,
    ) -> Tree {
        let destination = &self.plan.destination;
        Tree {
            input: input.to_owned(),
            input_id: OnceLock::new(),
            output: output.map(Path::to_owned),
            // The root has just been made, or may be used.
            force: true,
            remove: false,
            opens: !self.is_protecting(),
            sync: destination.sync,
            carry: destination.carry,
            tally: self.tally.clone(),
            made: Arc::new(Made::default()),
            keys,
            key_inside: OnceLock::new(),
            open: Arc::new(AtomicUsize::new(0)),
            selection: Some(selection),
        }
    }

    /// Does what is to be done with a file, or gives it to the leader. Returns whether it did the latter.
    fn meet(&self, tree: u32, task: walk::Task, selection: &dyn Selection, leader: &Leader) -> Outcome<bool> {
        let settled = self.settle(&task, selection);
        let walk::Task { folder, handles, name, output_name, node, .. } = &task;
        let stat = match settled {
            Ok(true) => return Ok(false),
            Ok(false) => fs::statat(&handles.input, name, AtFlags::SYMLINK_NOFOLLOW).map_err(read_error),
            Err(e) => Err(e),
        };
        match stat {
            Ok(stat) => {
                let contents = node.and_then(|node| selection.contents(node));
                let mode = node.and_then(|node| selection.mode(node));
                let (len, mtime) = (stat.st_size as u64, (stat.st_mtime, stat.st_mtime_nsec as i64));
                let found = Found { task, tree, len, mtime, contents, mode };
                leader.found.send(found).map_err(|_| ended())?;
                Ok(true)
            }
            Err(e) => {
                self.tally.fail(&blame(&folder.path(name), &folder.mirrored(output_name), e));
                Ok(false)
            }
        }
    }

    /// Does what is to be done with a file whose content need not be moved. Returns false if it must be.
    fn settle(&self, task: &walk::Task, selection: &dyn Selection) -> phalanx_host::Result<bool> {
        let walk::Task { folder, handles, name, output_name, node, .. } = task;
        let Some(output) = &handles.output else { return Ok(false) };
        folder.check_kind(handles, name, true)?;
        let Some(node) = *node else { return Ok(false) };
        selection.settle(node, &Place { input: &handles.input, name, output, output_name })
    }

    /// Lists a file that has been written.
    fn done(&self, Returned { found, written }: Returned, selection: &dyn Selection) {
        let walk::Task { folder, handles, name, output_name, node, .. } = &found.task;
        let Some(written) = written else { return };
        self.tally.succeed(written.len);
        if self.is_verifying() {
            folder.rival(handles, name, output_name).unwrap_or_else(|failure| self.tally.fail(&failure));
        }
        if let (Some(node), true) = (node, self.is_protecting()) {
            selection.written(*node, &entry(name, &written));
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

/// A file that has been written, as a manifest lists it.
fn entry(name: &OsStr, written: &Written) -> Entry {
    let Written { len, stored_len, device, inode, mode, mtime, holds, .. } = *written;
    let file = FileEntry { len, stored_len, device, inode, contents: holds.into() };
    let modified = Time { seconds: mtime.0, nanoseconds: mtime.1 };
    Entry { name: name.as_bytes().to_vec(), mode, modified, kind: Kind::File(file) }
}
