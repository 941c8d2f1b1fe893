//! The folders of trees: each is listed by one process, which makes its mirror.
//!
//! A folder is opened from the root of its tree, name by name, and links are never followed. So whoever may change the tree
//! leads nobody elsewhere.

use crate::message::{Entry, Reply, Report, Request, Spot, Task, Told, Welcome};
use crate::worker::{Worker, lock, name};
use phalanx::failure::{Code, Failure, Outcome, shown};
use phalanx::folders::{self, FOLDER, is_within, kind_name, open_parent, read_error};
use phalanx::paths::unprotected_name;
use phalanx_core::file::{Existing, Made, is_temporary, sync_folder};
use phalanx_core::{Error, Result};
use rustix::fs::{self, AtFlags, Dir, FileType, Mode, OFlags};
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

/// Files of at least this length, in bytes, are divided among all processes.
pub const DIVIDED: u64 = 256 << 20;
/// The most files of a batch, and the most bytes.
const BATCH_FILES: usize = 512;
const BATCH_BYTES: u64 = 256 << 20;
/// Folders that nobody else takes are listed within their parents' listing, down to this depth.
const DEEPEST: usize = 64;

/// The roots of the trees and of their mirrors.
pub struct Roots {
    paths: Vec<(PathBuf, Option<PathBuf>)>,
    /// The folder that was opened last: often the next task is in it too.
    last: Mutex<Option<(u32, Vec<u8>, Dirs)>>,
}

/// A folder and its mirror.
#[derive(Clone)]
pub struct Dirs {
    pub input: Arc<File>,
    pub output: Option<Arc<File>>,
}

impl Roots {
    pub fn new(welcome: &Welcome) -> Self {
        let path = |bytes: &Vec<u8>| PathBuf::from(name(bytes));
        let paths = welcome.trees.iter().map(|(input, output)| (path(input), output.as_ref().map(path))).collect();
        Self { paths, last: Mutex::default() }
    }

    /// The path of something in a tree, for messages.
    pub fn path(&self, tree: Option<u32>, folder: &[u8], of: &[u8]) -> PathBuf {
        let root = tree.map_or_else(PathBuf::new, |tree| self.paths[tree as usize].0.clone());
        joined(root, folder, of)
    }

    /// The path of something in a mirror, for messages.
    pub fn mirrored(&self, tree: Option<u32>, folder: &[u8], of: &[u8]) -> PathBuf {
        let root = tree.and_then(|tree| self.paths[tree as usize].1.clone()).unwrap_or_default();
        joined(root, folder, of)
    }

    /// Opens a folder and its mirror.
    pub fn open(&self, tree: u32, folder: &[u8]) -> Result<Dirs> {
        if let Some((its, path, dirs)) = &*lock(&self.last)
            && (*its, path.as_slice()) == (tree, folder)
        {
            return Ok(dirs.clone());
        }
        let (input, output) = &self.paths[tree as usize];
        let dirs = Dirs {
            input: Arc::new(descend(input, folder)?),
            output: output.as_ref().map(|output| descend(output, folder).map_err(as_write)).transpose()?.map(Arc::new),
        };
        *lock(&self.last) = Some((tree, folder.to_vec(), dirs.clone()));
        Ok(dirs)
    }
}

fn joined(mut path: PathBuf, folder: &[u8], of: &[u8]) -> PathBuf {
    [folder, of].into_iter().filter(|part| !part.is_empty()).for_each(|part| path.push(name(part)));
    path
}

fn descend(root: &Path, folder: &[u8]) -> Result<File> {
    // Named on the command line, the root may be a link.
    let mut at = fs::open(root, FOLDER.difference(OFlags::NOFOLLOW), Mode::empty()).map_err(read_error)?;
    for part in folder.split(|byte| *byte == b'/').filter(|part| !part.is_empty()) {
        at = fs::openat(&at, part, FOLDER, Mode::empty()).map_err(read_error)?;
    }
    Ok(at.into())
}

pub fn as_write(error: Error) -> Error {
    if let Error::Read(e) = error { Error::Write(e) } else { error }
}

/// Makes the root of a mirror.
pub fn make_root(input: &Path, output: &Path, existing: Existing<'_>) -> Outcome {
    let at_output = |e: rustix::io::Errno| Failure::at(output, Error::Write(e.into()));
    let opened = fs::open(input, FOLDER.difference(OFlags::NOFOLLOW), Mode::empty());
    let opened = opened.map_err(|e| Failure::at(input, read_error(e)))?;
    let id = folders::id(&opened).map_err(|e| Failure::at(input, read_error(e)))?;
    let (parent, of) = open_parent(output).map_err(at_output)?;
    let is_there = fs::statat(&parent, &of, AtFlags::empty()).is_ok_and(|stat| (stat.st_dev, stat.st_ino) == id);
    if is_within(&parent, id).map_err(at_output)? || is_there {
        return Err(Failure::usage(format!("{}: the output is within the input", shown(output))));
    }
    folders::make(&parent, &of, existing).map_err(|e| Failure::at(output, e))?;
    sync_folder(&parent).map_err(at_output)
}

/// Tasks that were found and not yet offered.
#[derive(Default)]
struct Found {
    entries: Vec<Entry>,
    others: Vec<Task>,
    files: u64,
    bytes: u64,
    of_batch: u64,
}

impl Worker<'_> {
    /// The name of the output of a file. `None` if it is not to be worked on.
    pub fn output_name(&self, of: &OsStr) -> Option<OsString> {
        if !self.is_protecting() {
            return unprotected_name(of);
        }
        let mut of = of.to_owned();
        of.push(".phx");
        Some(of)
    }

    /// Lists a folder, makes the folders and links of its mirror, and offers its files and folders to all processes.
    pub fn list(&self, tree: u32, folder: &[u8], report: &mut Report) {
        let mut left = Vec::new();
        self.list_at(tree, folder, 0, &mut left, report);
        while let Some(folder) = left.pop() {
            self.list_at(tree, &folder, 0, &mut left, report);
        }
    }

    fn list_at(&self, tree: u32, folder: &[u8], depth: usize, left: &mut Vec<Vec<u8>>, report: &mut Report) {
        let path = |of: &OsStr| self.roots.path(Some(tree), folder, of.as_bytes());
        let at = |of: &OsStr, e: &Error| match e {
            Error::Write(_) | Error::Exists | Error::OwnOutput => {
                Told::at(&self.roots.mirrored(Some(tree), folder, of.as_bytes()), e)
            }
            e => Told::at(&path(of), e),
        };
        let nameless = OsStr::new("");
        let opened = self.roots.open(tree, folder);
        let listed = opened.and_then(|dirs| Ok((Dir::read_from(&dirs.input).map_err(read_error)?, dirs)));
        let (entries, dirs) = match listed {
            Ok(listed) => listed,
            Err(e) => return report.failures.push(at(nameless, &e)),
        };
        let mut found = Found::default();
        for entry in entries {
            let entry = match entry {
                Ok(entry) => entry,
                Err(e) => {
                    report.failures.push(at(nameless, &read_error(e)));
                    break;
                }
            };
            let of = OsString::from_vec(entry.file_name().to_bytes().to_vec());
            if of == "." || of == ".." {
                continue;
            }
            if let Err(e) = self.meet(tree, folder, &dirs, &of, entry.file_type(), &mut found, report) {
                report.failures.push(at(&of, &e));
            }
            self.flush(report);
            if found.entries.len() >= BATCH_FILES || found.of_batch >= BATCH_BYTES || found.others.len() >= BATCH_FILES
            {
                self.offer(tree, folder, depth, std::mem::take(&mut found), left, report);
            }
        }
        self.offer(tree, folder, depth, found, left, report);
    }

    #[allow(clippy::too_many_arguments, reason = "the entry, where it is, and what comes of it")]
    fn meet(
        &self,
        tree: u32,
        folder: &[u8],
        dirs: &Dirs,
        of: &OsStr,
        kind: FileType,
        found: &mut Found,
        report: &mut Report,
    ) -> Result<()> {
        let stat = || fs::statat(&dirs.input, of, AtFlags::SYMLINK_NOFOLLOW).map_err(read_error);
        let kind = if kind == FileType::Unknown { FileType::from_raw_mode(stat()?.st_mode) } else { kind };
        match kind {
            FileType::RegularFile if !is_temporary(of) => {
                let Some(output) = self.output_name(of) else {
                    if dirs.output.is_some() {
                        let path = shown(&self.roots.path(Some(tree), folder, of.as_bytes()));
                        let line = format!("{path}: the name does not end in .phx: left out");
                        report.failures.push(Told { code: Code::NotAuthentic.number(), line });
                    }
                    return Ok(());
                };
                let len = stat()?.st_size as u64;
                let output = dirs.output.as_ref().map(|_| output.into_vec());
                found.files += 1;
                found.bytes += len;
                let of = of.as_bytes().to_vec();
                if len >= DIVIDED {
                    let spot = Spot { tree: Some(tree), folder: folder.to_vec(), name: of, output };
                    found.others.push(Task::Begin { file: 0, spot });
                } else {
                    found.of_batch += len;
                    found.entries.push(Entry { name: of, output, len });
                }
            }
            FileType::Directory => {
                if let Some(output) = &dirs.output {
                    self.make_mirror(output, of)?;
                }
                let mut path = folder.to_vec();
                if !path.is_empty() {
                    path.push(b'/');
                }
                path.extend_from_slice(of.as_bytes());
                found.others.push(Task::Folder { tree, folder: path });
            }
            FileType::Symlink if !is_temporary(of) => self.link(dirs, of)?,
            kind => {
                let path = shown(&self.roots.path(Some(tree), folder, of.as_bytes()));
                report.left_out.push(format!("{path}: {}: left out", kind_name(kind)));
            }
        }
        Ok(())
    }

    fn make_mirror(&self, output: &File, of: &OsStr) -> Result<()> {
        if self.plan.run.dryrun {
            return Ok(());
        }
        // An interrupted run has made some of them.
        let taken = Made::default();
        let existing = if self.plan.destination.resume { Existing::Replace(&taken) } else { self.existing() };
        let made = folders::make(output, of, existing)?;
        self.made.insert(folders::id(&made).map_err(read_error)?);
        self.made.is_alias(output, of).map(drop)
    }

    /// Makes the same symbolic link in the mirror, wherever it leads.
    fn link(&self, dirs: &Dirs, of: &OsStr) -> Result<()> {
        let Some(output) = dirs.output.as_ref().filter(|_| !self.plan.run.dryrun) else { return Ok(()) };
        let target = |dir: &File| fs::readlinkat(dir, of, Vec::new()).map_err(read_error);
        let wanted = target(&dirs.input)?;
        match self.made.symlink(&wanted, output, of, self.plan.destination.force) {
            Err(Error::Exists) if self.plan.destination.resume && target(output).is_ok_and(|there| there == wanted) => {
                Ok(())
            }
            made => made.map(drop),
        }
    }

    /// Offers what was found to all processes. What rank 0 has no room for is done here and now.
    fn offer(
        &self,
        tree: u32,
        folder: &[u8],
        depth: usize,
        found: Found,
        left: &mut Vec<Vec<u8>>,
        report: &mut Report,
    ) {
        let Found { entries, mut others, files, bytes, .. } = found;
        if !entries.is_empty() {
            others.push(Task::Files { tree: Some(tree), folder: folder.to_vec(), files: entries });
        }
        if self.plan.run.dryrun {
            if self.plan.verbosity.verbose {
                let path = |of: &[u8]| shown(&self.roots.path(Some(tree), folder, of));
                report.lines.extend(others.iter().flat_map(|task| match task {
                    Task::Files { files, .. } => files.iter().map(|file| path(&file.name)).collect(),
                    Task::Begin { spot, .. } => vec![path(&spot.name)],
                    _ => Vec::new(),
                }));
            }
            others.retain(|task| matches!(task, Task::Folder { .. }));
        }
        if others.is_empty() && files == 0 {
            return;
        }
        let offered = self.desk.ask(Request::Offer { tasks: others.clone(), files, bytes });
        if matches!(offered, Reply::Taken(true)) {
            return;
        }
        for task in others {
            let failed = match task {
                Task::Folder { tree, folder } if depth < DEEPEST => {
                    self.list_at(tree, &folder, depth + 1, left, report);
                    Ok(())
                }
                Task::Folder { folder, .. } => {
                    left.push(folder);
                    Ok(())
                }
                Task::Begin { spot, .. } => {
                    let entry = Entry { name: spot.name, output: spot.output, len: DIVIDED };
                    self.files(spot.tree, &spot.folder, &[entry], report)
                }
                Task::Files { tree, folder, files } => self.files(tree, &folder, &files, report),
                _ => unreachable!("nothing else is found in folders"),
            };
            report.failures.extend(failed.err());
        }
    }

    /// Gives the mirror of a folder, and of all folders in it, their permissions and times.
    pub fn finish(&self, tree: u32, folder: &[u8], report: &mut Report) {
        let mut left = vec![folder.to_vec()];
        while let Some(folder) = left.pop() {
            // What could not be opened before was reported then.
            let Ok(Dirs { input, output: Some(output) }) = self.roots.open(tree, &folder) else { continue };
            for entry in Dir::read_from(&input).into_iter().flatten().flatten() {
                let of = entry.file_name().to_bytes();
                if entry.file_type() != FileType::Directory || of == b"." || of == b".." {
                    continue;
                }
                let path = [&folder[..], of].join(&b"/"[..]);
                let task = Task::Finish { tree, folder: path.clone() };
                let offered = self.desk.ask(Request::Offer { tasks: vec![task], files: 0, bytes: 0 });
                if !matches!(offered, Reply::Taken(true)) {
                    left.push(path);
                }
            }
            let done = self.carry.folder(&input, &output).and_then(|()| match self.plan.destination.sync {
                true => sync_folder(&output).map_err(|e| Error::Write(e.into())),
                false => Ok(()),
            });
            if let Err(e) = done {
                report.failures.push(Told::at(&self.roots.mirrored(Some(tree), &folder, b""), &e));
            }
            self.flush(report);
        }
    }
}
