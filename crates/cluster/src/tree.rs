//! The folders of trees. One process lists each folder, and makes the mirrors of the folders and links in it.

use crate::message::{Entry, FolderStrays, Location, Reply, Report, ReportedFailure, Request, Task};
use crate::roots::Dirs;
use crate::worker::Worker;
use phalanx_host::failure::{Code, Failure, Outcome};
use phalanx_host::file::{Carry, Existing, Made, is_temporary, sync_folder};
use phalanx_host::folders::{self, FOLDER, RESERVED_NAME, RIVAL_HINT, SAME_NAME, is_within, kind_name, open_parent};
use phalanx_host::lines::shown;
use phalanx_host::mirror::is_of_manifest;
use phalanx_host::strays::{self, Strays};
use phalanx_host::{Error, Result};
use rustix::fs::{self, AtFlags, Dir, FileType, Mode, OFlags};
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

/// Files of at least this length, in bytes, are divided among all processes.
pub const DIVIDED: u64 = 256 << 20;
/// The most files and the most bytes of a batch.
pub const BATCH_FILES: usize = 256;
pub const BATCH_BYTES: u64 = 32 << 20;
/// The longest path below a root, in bytes.
const LONGEST: usize = 64 << 10;
/// If rank 0 has no room for a folder, the process lists it while it lists its parent, down to this depth.
const DEEPEST: usize = 64;

/// Makes the root of an input's mirror, and returns its inode. The mirror must not lie within any input.
pub fn make_root(
    inputs: &[PathBuf],
    input: &Path,
    output: &Path,
    existing: Existing<'_>,
    carry: Carry,
) -> Outcome<u64> {
    let at_output = |e: rustix::io::Errno| Failure::at(output, Error::write(e));
    let (parent, of) = open_parent(output).map_err(at_output)?;
    for input in inputs {
        let (id, _) = root(input)?;
        let is_there = fs::statat(&parent, &of, AtFlags::empty()).is_ok_and(|stat| (stat.st_dev, stat.st_ino) == id);
        if is_within(&parent, id).map_err(at_output)? || is_there {
            return Err(Failure::usage(format!("{}: the output is within the input", shown(output))));
        }
    }
    let made = folders::make(&parent, &of, existing, &root(input)?.1, carry).map_err(|e| Failure::at(output, e))?;
    sync_folder(&parent).map_err(at_output)?;
    Ok(folders::id(&made).map_err(at_output)?.1)
}

/// Opens the root of a tree, and returns its device and inode too.
pub fn root(input: &Path) -> Outcome<((u64, u64), File)> {
    let at_input = |e| Failure::at(input, Error::read(e));
    let opened = fs::open(input, FOLDER.difference(OFlags::NOFOLLOW), Mode::empty()).map_err(at_input)?;
    Ok((folders::id(&opened).map_err(at_input)?, opened.into()))
}

/// Tasks that were found and not yet offered.
#[derive(Default)]
struct Backlog {
    entries: Vec<Entry>,
    others: Vec<Task>,
    files: u64,
    bytes: u64,
    of_batch: u64,
}

impl Worker<'_> {
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
        let at = |of: &OsStr, e: &Error| match e.is_of_output() {
            true => ReportedFailure::at(&self.roots.mirrored(Some(tree), folder, of.as_bytes()), e),
            false => ReportedFailure::at(&path(of), e),
        };
        let nameless = OsStr::new("");
        let opened = self.roots.open(tree, folder);
        let listed = opened.and_then(|dirs| Ok((Dir::read_from(&dirs.input).map_err(Error::read)?, dirs)));
        let (entries, dirs) = match listed {
            Ok(listed) => listed,
            Err(e) => {
                self.note_filled(tree, report);
                return report.failures.push(at(nameless, &e));
            }
        };
        self.find_strays(tree, folder, &dirs, report);
        let (mut found, made) = (Backlog::default(), self.made());
        for entry in entries {
            let entry = match entry {
                Ok(entry) => entry,
                Err(e) => {
                    report.failures.push(at(nameless, &Error::read(e)));
                    break;
                }
            };
            let of = OsString::from_vec(entry.file_name().to_bytes().to_vec());
            if of == "." || of == ".." {
                continue;
            }
            if let Err(e) = self.meet(tree, folder, &dirs, &of, entry.file_type(), &made, &mut found, report) {
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
        made: &Made,
        found: &mut Backlog,
        report: &mut Report,
    ) -> Result<()> {
        let stat = || fs::statat(&dirs.input, of, AtFlags::SYMLINK_NOFOLLOW).map_err(Error::read);
        let kind = if kind == FileType::Unknown { FileType::from_raw_mode(stat()?.st_mode) } else { kind };
        match kind {
            FileType::RegularFile if !is_temporary(of) => {
                let Some(output) = self.plan.output_name(of) else {
                    if folder.is_empty() && is_of_manifest(of) {
                        return Ok(());
                    }
                    let path = shown(&self.roots.path(Some(tree), folder, of.as_bytes()));
                    report.left_out.push(format!("{path}: the name does not end in .phx: left out"));
                    return Ok(());
                };
                if dirs.output.is_some() && is_temporary(&output) {
                    let path = shown(&self.roots.path(Some(tree), folder, of.as_bytes()));
                    report.failures.push(ReportedFailure::new(Code::InputOutput, format!("{path}: {RESERVED_NAME}")));
                    return Ok(());
                }
                if let Err(failure) = self.check_kind(tree, folder, dirs, of, &output) {
                    report.failures.push(failure);
                    if !self.is_verifying() {
                        return Ok(());
                    }
                }
                self.note_filled(tree, report);
                let stat = stat()?;
                if dirs.output.is_some() {
                    let path = || self.roots.path(Some(tree), folder, of.as_bytes());
                    self.warn_of_key(tree, path, (stat.st_dev, stat.st_ino), report);
                }
                let (len, mtime) = (stat.st_size as u64, (stat.st_mtime, stat.st_mtime_nsec as i64));
                let output = dirs.output.as_ref().map(|_| output.into_vec());
                found.files += 1;
                found.bytes += len;
                let of = of.as_bytes().to_vec();
                if len >= DIVIDED {
                    let location =
                        Location { tree: Some(tree), folder: folder.to_vec(), name: of, output, listed: None };
                    found.others.push(Task::Begin { file: 0, location });
                } else {
                    found.of_batch += len;
                    found.entries.push(Entry { name: of, output, len, mtime, listed: None });
                }
            }
            FileType::Directory if !self.is_protecting() && is_volume(&dirs.input, of) => {
                self.note_filled(tree, report);
                let path = shown(&self.roots.path(Some(tree), folder, of.as_bytes()));
                if self.is_verifying() {
                    let line = format!("{path}: a volume, which is not checked here");
                    report
                        .failures
                        .push(ReportedFailure::new(Code::InputOutput, line).hint("phalanx verify checks it"));
                } else {
                    report.left_out.push(format!("{path}: a volume: left out"));
                }
            }
            FileType::Directory => {
                let path = below(folder, of.as_bytes())?;
                if let Some(output) = &dirs.output {
                    self.make_mirror(dirs, output, of, made)?;
                }
                found.others.push(Task::Folder { tree, folder: path });
            }
            FileType::Symlink if !is_temporary(of) => self.link(dirs, of, made)?,
            kind => {
                let path = shown(&self.roots.path(Some(tree), folder, of.as_bytes()));
                report.left_out.push(format!("{path}: {}: left out", kind_name(kind)));
            }
        }
        Ok(())
    }

    /// Refuses a file that had another kind when its mirror was written, and reports one that could not be unprotected.
    fn check_kind(
        &self,
        tree: u32,
        folder: &[u8],
        dirs: &Dirs,
        of: &OsStr,
        output: &OsStr,
    ) -> Result<(), ReportedFailure> {
        if self.is_verifying() {
            let Ok(Some(rival)) = folders::rival(&dirs.input, output, true) else { return Ok(()) };
            let path = |of: &OsStr| shown(&self.roots.path(Some(tree), folder, of.as_bytes()));
            let line = format!("{}: {} {SAME_NAME}", path(of), path(&rival));
            return Err(ReportedFailure::new(Code::InputOutput, line).hint(RIVAL_HINT));
        }
        let checked = self.takes_mirror(dirs).map_or(Ok(()), |mirror| folders::check_kind(mirror, of, true));
        checked.map_err(|e| ReportedFailure::at(&self.roots.mirrored(Some(tree), folder, output.as_bytes()), &e))
    }

    /// The mirror of a folder, if it may hold outputs of an earlier run.
    fn mirror_there<'d>(&self, dirs: &'d Dirs) -> Option<&'d File> {
        let takes = self.plan.destination.force || self.plan.destination.resume;
        dirs.output.as_deref().filter(|_| takes)
    }

    /// The mirror of a folder, if it may hold outputs of an earlier run and this one protects files.
    fn takes_mirror<'d>(&self, dirs: &'d Dirs) -> Option<&'d File> {
        self.mirror_there(dirs).filter(|_| self.is_protecting())
    }

    /// Reports what the mirror of a folder holds without having an input for it.
    fn find_strays(&self, tree: u32, folder: &[u8], dirs: &Dirs, report: &mut Report) {
        let Some(mirror) = self.mirror_there(dirs) else { return };
        let kind = |of: &OsStr| {
            let stat = fs::statat(&dirs.input, of, AtFlags::SYMLINK_NOFOLLOW);
            stat.map(|stat| FileType::from_raw_mode(stat.st_mode)).ok()
        };
        // No list of names is kept, because a folder may have millions.
        let has_input = |of: &OsStr| {
            self.plan.input_name(of).is_some_and(|of| kind(&of) == Some(FileType::RegularFile))
                || matches!(kind(of), Some(FileType::Directory | FileType::Symlink))
        };
        let mut strays = Strays::default();
        strays::find(mirror, has_input, |of| strays.add(self.roots.mirrored(Some(tree), folder, of.as_bytes())));
        if strays.number > 0 {
            let first = strays.first.into_iter().map(|path| path.into_os_string().into_vec()).collect();
            report.strays.push(FolderStrays { tree, number: strays.number, first });
        }
        self.flush(report);
    }

    fn make_mirror(&self, dirs: &Dirs, output: &File, of: &OsStr, made: &Made) -> Result<()> {
        let folder = File::from(fs::openat(&dirs.input, of, FOLDER, Mode::empty()).map_err(Error::read)?);
        if self.roots.is_root(&folder, true)? {
            let why = "it is an output of this run: the output is within the input";
            return Err(Error::read(std::io::Error::other(why)));
        }
        self.takes_mirror(dirs).map_or(Ok(()), |mirror| folders::check_kind(mirror, of, false))?;
        // An interrupted run may have made this mirror.
        let existing = if self.plan.destination.resume { Existing::Replace(made) } else { self.existing(made) };
        let mirror = folders::make(output, of, existing, &folder, self.carry)?;
        if self.roots.is_root(&mirror, false)? {
            let why = "it is the input itself: the input is within the output";
            return Err(Error::write(std::io::Error::other(why)));
        }
        made.insert(folders::id(&mirror).map_err(Error::read)?);
        made.is_alias(output, of).map(drop)
    }

    /// Makes a symbolic link with the same target in the mirror.
    fn link(&self, dirs: &Dirs, of: &OsStr, made: &Made) -> Result<()> {
        let Some(output) = &dirs.output else { return Ok(()) };
        // If a file's output has this name, another process may be writing it.
        let rival = self.plan.input_name(of);
        let is_file = |of: &OsString| {
            let stat = fs::statat(&dirs.input, of, AtFlags::SYMLINK_NOFOLLOW);
            stat.is_ok_and(|stat| FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile)
        };
        if rival.is_some_and(|rival| is_file(&rival)) {
            return Err(Error::OwnOutput);
        }
        self.takes_mirror(dirs).map_or(Ok(()), |mirror| folders::check_kind(mirror, of, false))?;
        let target = |dir: &File| fs::readlinkat(dir, of, Vec::new()).map_err(Error::read);
        let wanted = target(&dirs.input)?;
        match made.symlink(&wanted, output, of, self.plan.destination.force) {
            Err(Error::Exists) if self.plan.destination.resume && target(output).is_ok_and(|there| there == wanted) => {
                Ok(())
            }
            made => made.map(drop),
        }
    }

    /// Offers what was found to all processes. If rank 0 has no room for it, this process does it at once.
    fn offer(
        &self,
        tree: u32,
        folder: &[u8],
        depth: usize,
        found: Backlog,
        left: &mut Vec<Vec<u8>>,
        report: &mut Report,
    ) {
        let Backlog { entries, mut others, files, bytes, .. } = found;
        if !entries.is_empty() {
            others.push(Task::Files { tree: Some(tree), folder: folder.to_vec(), files: entries });
        }
        if self.plan.run.dry_run {
            if self.plan.verbosity.verbose {
                let path = |of: &[u8]| shown(&self.roots.path(Some(tree), folder, of));
                report.lines.extend(others.iter().flat_map(|task| match task {
                    Task::Files { files, .. } => files.iter().map(|file| path(&file.name)).collect(),
                    Task::Begin { location, .. } => vec![path(&location.name)],
                    _ => Vec::new(),
                }));
            }
            others.retain(|task| matches!(task, Task::Folder { .. }));
        }
        if others.is_empty() && files == 0 {
            return;
        }
        let offered = self.outbox.ask(Request::Offer { tasks: others.clone(), files, bytes });
        if matches!(offered, Reply::Taken(true)) {
            return;
        }
        for task in others {
            match task {
                Task::Folder { tree, folder } if depth < DEEPEST => {
                    self.list_at(tree, &folder, depth + 1, left, report);
                }
                Task::Folder { folder, .. } => left.push(folder),
                Task::Files { tree, folder, files } => self.files(tree, &folder, &files, report),
                // Large files have been taken.
                _ => {}
            }
        }
    }

    /// Gives the mirrors of all folders below this one their permissions and times. At the root, each folder directly
    /// in it is a task for any process.
    pub fn finish_below(&self, tree: u32, folder: &[u8], report: &mut Report) {
        let is_root = folder.is_empty();
        // Each folder is finished after all folders in it.
        let mut waiting: Vec<(Vec<u8>, bool)> = vec![(folder.to_vec(), false)];
        while let Some((path, is_entered)) = waiting.pop() {
            if is_entered {
                if !path.is_empty() {
                    self.finish(tree, &path, report);
                }
                continue;
            }
            waiting.push((path.clone(), true));
            // The failure to open it has been reported already.
            let Ok(inner) = self.folders_in(tree, &path) else { continue };
            if !is_root {
                waiting.extend(inner.into_iter().map(|path| (path, false)));
                continue;
            }
            for tasks in inner.chunks(BATCH_FILES) {
                let task = |folder: &Vec<u8>| Task::FinishBelow { tree, folder: folder.clone() };
                let tasks = tasks.iter().map(task).collect::<Vec<_>>();
                let offered = self.outbox.ask(Request::Offer { tasks, files: 0, bytes: 0 });
                if !matches!(offered, Reply::Taken(true)) {
                    waiting.extend(inner.iter().map(|path| (path.clone(), false)));
                    break;
                }
            }
        }
    }

    fn folders_in(&self, tree: u32, folder: &[u8]) -> Result<Vec<Vec<u8>>> {
        let dirs = self.roots.open(tree, folder)?;
        let mut inner = Vec::new();
        for entry in Dir::read_from(&dirs.input).map_err(Error::read)? {
            let entry = entry.map_err(Error::read)?;
            let of = entry.file_name().to_bytes();
            let is_folder = match entry.file_type() {
                FileType::Unknown => fs::statat(&dirs.input, of, AtFlags::SYMLINK_NOFOLLOW)
                    .is_ok_and(|stat| FileType::from_raw_mode(stat.st_mode) == FileType::Directory),
                kind => kind == FileType::Directory,
            };
            if is_folder && of != b"." && of != b".." {
                inner.push(below(folder, of)?);
            }
        }
        Ok(inner)
    }

    /// Gives the mirror of a folder its permissions and times.
    pub fn finish(&self, tree: u32, folder: &[u8], report: &mut Report) {
        let Ok(Dirs { input, output: Some(output) }) = self.roots.open(tree, folder) else { return };
        self.warn_of_special_bits(&self.roots.path(Some(tree), folder, b""), &input, report);
        let done = self.carry.folder(&input, &output).and_then(|()| match self.plan.destination.sync {
            true => sync_folder(&output).map_err(Error::write),
            false => Ok(()),
        });
        if let Err(e) = done {
            report.failures.push(ReportedFailure::at(&self.roots.mirrored(Some(tree), folder, b""), &e));
        }
        self.flush(report);
    }
}

/// The path of an entry of a folder, from the tree's root.
fn below(folder: &[u8], of: &[u8]) -> Result<Vec<u8>> {
    if folder.len() + of.len() >= LONGEST {
        return Err(Error::read(std::io::Error::other("its path is too long")));
    }
    Ok(if folder.is_empty() { of.to_vec() } else { [folder, of].join(&b"/"[..]) })
}

/// Whether a folder is a volume. Only `phalanx` works on volumes.
fn is_volume(dir: &File, of: &OsStr) -> bool {
    let folder = fs::openat(dir, of, FOLDER, Mode::empty());
    folder.is_ok_and(|folder| phalanx_host::folders::is_volume(folder, Path::new("")))
}
