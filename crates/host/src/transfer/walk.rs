//! Walking a tree, and making the folders and links of its mirror, for `--recursive`.

use super::folder::{Choice, Folder, Handles};
use crate::failure::Failure;
use crate::file;
use crate::folders::{self, entries, kind_name};
use crate::mirror::listing::NodeId;
use crate::strays;
use crate::{Error, Result};
use phalanx_core::Error as CoreError;
use phalanx_system::fs::{CWD, FileType};
use std::cell::LazyCell;
use std::collections::HashSet;
use std::ffi::{OsStr, OsString};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::vec;

/// The most folders, from the current one up, that stay open.
const NEAR: usize = 32;
/// The errors for too many open files, in this process and on the system.
#[cfg(unix)]
const EMFILE: i32 = 24;
#[cfg(unix)]
const ENFILE: i32 = 23;
/// On Windows there is one for both.
#[cfg(windows)]
const EMFILE: i32 = 4;
#[cfg(windows)]
const ENFILE: i32 = EMFILE;

/// A file to work on.
pub struct Task {
    /// The folder that it is in.
    pub folder: Arc<Folder>,
    /// That folder and its mirror, open.
    pub handles: Arc<Handles>,
    /// Its name.
    pub name: OsString,
    /// The name of its output.
    pub output_name: OsString,
    /// Its entry in the selection, if there is one.
    pub node: Option<NodeId>,
    /// Keeps its folders open.
    pub held: Held,
}

impl Task {
    /// The path of the file, for messages.
    pub fn input(&self) -> PathBuf {
        self.folder.path(&self.name)
    }

    /// The path of its output.
    pub fn output(&self) -> PathBuf {
        self.folder.mirrored(&self.output_name)
    }
}

/// A file that is worked on, or waits to be synced. Its folders stay open.
pub struct Held(Arc<AtomicUsize>);

impl Drop for Held {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// What comes next.
pub enum Next {
    /// This file.
    File(Task),
    /// Some of the files that are being worked on must be finished first, because too many folders are open for them.
    Pause,
    /// There are no more.
    End,
}

/// A folder, and its entries that have not been visited yet.
type Level = (Arc<Folder>, vec::IntoIter<(OsString, FileType)>);

/// All files of a tree, one after another, each folder after its parent.
pub struct Walk {
    levels: Vec<Level>,
    /// The number of folders that should be open at most.
    most_open: usize,
    held: Arc<AtomicUsize>,
}

impl Walk {
    /// Begins at the root. At most `most_open` folders should be open, including those of files in work.
    pub fn new(root: Arc<Folder>, most_open: usize, output_name: impl Fn(&OsStr) -> Option<OsString>) -> Self {
        let mut walk = Self { levels: Vec::new(), most_open, held: Arc::default() };
        match entries(&root.handles().expect("the root has just been opened").input) {
            Ok(entries) => {
                root.listed();
                count_strays(&root, &entries, &output_name);
                walk.levels.push((root, entries.into_iter()));
            }
            Err(e) => fail(&root, OsStr::new(""), e),
        }
        walk
    }

    /// The next file. What cannot be worked on is reported and counted. An error means that nothing more can be opened;
    /// the entry is then tried again by the next call.
    pub fn next(&mut self, output_name: impl Fn(&OsStr) -> Option<OsString>) -> Result<Next> {
        loop {
            let Some((folder, entries)) = self.levels.last_mut() else { return Ok(Next::End) };
            let held = self.held.load(Ordering::Relaxed);
            if held > 0 && folder.tree().open.load(Ordering::Relaxed) > self.most_open {
                return Ok(Next::Pause);
            }
            let Some((name, kind)) = entries.as_slice().first().cloned() else {
                self.leave()?;
                continue;
            };
            let Some(handles) = folder.handles() else {
                fail(
                    folder,
                    OsStr::new(""),
                    Error::read(io::Error::other("it could not be opened again: the rest is left out")),
                );
                self.levels.pop();
                continue;
            };
            let (folder, level) = (folder.clone(), self.levels.len() - 1);
            let node = match folder.choice(&name, kind) {
                Choice::Work(node) => node,
                Choice::Pass => {
                    folder.pass_by(&name);
                    self.pass(level);
                    continue;
                }
                Choice::Changed => {
                    fail(&folder, &name, CoreError::Changed.into());
                    self.pass(level);
                    continue;
                }
            };
            let met = match kind {
                FileType::RegularFile if !file::is_temporary(&name) => match output_name(&name) {
                    Some(output_name) if handles.output.is_some() && file::is_temporary(&output_name) => {
                        folder.refuse(&name);
                        Ok(())
                    }
                    Some(output_name) => {
                        self.pass(level);
                        self.held.fetch_add(1, Ordering::Relaxed);
                        let held = Held(self.held.clone());
                        return Ok(Next::File(Task { folder, handles, name, output_name, node, held }));
                    }
                    None => {
                        folder.pass_over(&name);
                        Ok(())
                    }
                },
                FileType::Directory => self.enter(&folder, &handles, &name, node, &output_name),
                FileType::Symlink if !file::is_temporary(&name) => folder.link(&handles, &name, node),
                kind => {
                    folder.leave_out(&name, kind_name(kind));
                    Ok(())
                }
            };
            match met {
                Err(e) if is_too_many(&e) => return Err(e),
                Err(e) => fail(&folder, &name, e),
                Ok(()) => {}
            }
            self.pass(level);
        }
    }

    /// Gives up the next entry.
    pub fn skip(&mut self, why: Error) {
        let Some((folder, entries)) = self.levels.last_mut() else { return };
        match entries.next() {
            Some((name, _)) => fail(folder, &name, why),
            // Going up failed.
            None => {
                fail(folder, OsStr::new(""), why);
                self.levels.pop();
            }
        }
    }

    /// Passes over the next entry.
    fn pass(&mut self, level: usize) {
        self.levels[level].1.next();
    }

    fn enter(
        &mut self,
        folder: &Arc<Folder>,
        handles: &Handles,
        name: &OsStr,
        node: Option<NodeId>,
        output_name: &impl Fn(&OsStr) -> Option<OsString>,
    ) -> Result<()> {
        let input = folder.open(handles, name)?;
        let tree = folder.tree();
        // What a manifest lists as a folder is one, whatever somebody has put into it.
        if tree.opens && node.is_none() && folders::is_volume(&input, Path::new("")) {
            if tree.output.is_some() {
                folder.leave_out(name, "a volume");
                return Ok(());
            }
            // A volume in the tree is worked on separately, if its path leads to it.
            if folders::is_volume(CWD, &folder.path(name)) {
                return Ok(());
            }
        }
        let entries = entries(&input)?;
        let child = folder.child(handles, name, input, node)?;
        child.listed();
        count_strays(&child, &entries, output_name);
        self.levels.push((child, entries.into_iter()));
        if let Some(far) = self.levels.len().checked_sub(NEAR.min(self.most_open / 2).max(2)) {
            self.levels[far].0.park();
        }
        Ok(())
    }

    /// Goes up. The folder above may have been closed.
    fn leave(&mut self) -> Result<()> {
        if let [.., (folder, _), (child, _)] = &*self.levels
            && let Some(handles) = child.handles()
            && let Err(e) = folder.reopen(&handles)
        {
            if is_too_many(&e) {
                return Err(e);
            }
            fail(folder, OsStr::new(""), e);
        }
        self.levels.pop();
        Ok(())
    }
}

/// Whether there are too many open files, in this process or on the system.
pub fn is_too_many(error: &Error) -> bool {
    match error {
        Error::Core(CoreError::Read(e) | CoreError::Write(e)) => [ENFILE, EMFILE].map(Some).contains(&e.raw_os_error()),
        _ => false,
    }
}

/// Whether there are too many open files in this process.
pub fn is_of_process(error: &Error) -> bool {
    matches!(error, Error::Core(CoreError::Read(e) | CoreError::Write(e)) if e.raw_os_error() == Some(EMFILE))
}

fn fail(folder: &Arc<Folder>, name: &OsStr, error: Error) {
    folder.stays();
    let path = match error {
        Error::Core(CoreError::Write(_)) | Error::Exists | Error::OwnOutput => folder.mirrored(name),
        _ => folder.path(name),
    };
    folder.tree().tally.fail(&Failure::at(&path, error));
}

/// Counts the existing entries of a folder's mirror that have no input in the folder.
fn count_strays(folder: &Folder, inputs: &[(OsString, FileType)], output_name: &impl Fn(&OsStr) -> Option<OsString>) {
    let tree = folder.tree();
    let Some(output) =
        folder.handles().and_then(|handles| handles.output.clone()).filter(|_| tree.force && !tree.is_partial())
    else {
        return;
    };
    let outputs = || {
        let outputs = inputs.iter().filter_map(|(name, kind)| match kind {
            FileType::RegularFile => output_name(name),
            FileType::Directory | FileType::Symlink => Some(name.clone()),
            _ => None,
        });
        outputs.collect::<HashSet<OsString>>()
    };
    // Most mirrors are empty.
    let outputs = LazyCell::new(outputs);
    strays::find(&output, |name| outputs.contains(name), |name| tree.tally.stray(folder.mirrored(name)));
}
