//! Walking a folder and building its mirror, for `--recursive`.
//!
//! Folders are opened one within the other, and links are never followed: what happens to paths meanwhile leads nowhere else.

use crate::failure::{Code, Failure, Outcome, shown};
use crate::paths::Place;
use crate::tally::Tally;
use phalanx_core::Error;
use phalanx_core::output;
use rustix::fs::{self, AtFlags, Dir, FileType, Mode, OFlags};
use rustix::io::Errno;
use std::ffi::{OsStr, OsString};
use std::fs::{File, FileTimes, Permissions};
use std::io;
use std::os::unix::ffi::OsStringExt;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::vec;

const FOLDER: OFlags = OFlags::RDONLY.union(OFlags::DIRECTORY).union(OFlags::CLOEXEC);

/// How a tree is mirrored.
#[derive(Clone, Copy)]
pub struct Options {
    /// Whether what stands in the way is replaced.
    pub force: bool,
    /// Whether the input goes away.
    pub remove: bool,
    pub sync: bool,
}

/// A folder and its mirror, both open. When the last file in it is done, the mirror takes over permissions and times.
pub struct Folder {
    pub input: File,
    pub output: Arc<File>,
    /// For messages.
    pub path: PathBuf,
    /// The mirror's path, for messages.
    pub mirrored: PathBuf,
    /// The folder that this one is in, and its name there. It is done only after this one.
    parent: Option<(Arc<Folder>, OsString)>,
    links: Mutex<Vec<OsString>>,
    options: Options,
    tally: Arc<Tally>,
}

/// A file to work on.
pub struct Task {
    pub folder: Arc<Folder>,
    pub name: OsString,
    pub output_name: OsString,
}

impl Folder {
    /// Opens the folder of a place, and makes its mirror.
    pub fn root(place: &Place, options: Options, tally: Arc<Tally>) -> Outcome<Arc<Self>> {
        let at_input = |e: Errno| Failure::at(&place.input, Error::Read(e.into()));
        let at_output = |e: Errno| Failure::at(&place.output, Error::Write(e.into()));
        let input = fs::open(&place.input, FOLDER, Mode::empty()).map_err(at_input)?;
        match fs::mkdir(&place.output, Mode::RWXU) {
            Err(Errno::EXIST) if options.force => {}
            Err(Errno::EXIST) => return Err(Failure::at(&place.output, Error::Exists)),
            made => made.map_err(at_output)?,
        }
        let output = fs::open(&place.output, FOLDER, Mode::empty()).map_err(at_output)?;
        if is_within(&output, &input).map_err(at_output)? {
            let _ = fs::unlinkat(fs::CWD, &place.output, AtFlags::REMOVEDIR);
            return Err(Failure::usage(format!("{}: the output is within the input", shown(&place.output))));
        }
        Ok(Arc::new(Self {
            input: input.into(),
            output: Arc::new(output.into()),
            path: place.input.clone(),
            mirrored: place.output.clone(),
            parent: None,
            links: Mutex::default(),
            options,
            tally,
        }))
    }

    fn child(self: &Arc<Self>, name: &OsStr) -> Outcome<Arc<Self>> {
        let (path, mirrored) = (self.path.join(name), self.mirrored.join(name));
        let at_output = |e: Errno| Failure::at(&mirrored, Error::Write(e.into()));
        let input = fs::openat(&self.input, name, FOLDER | OFlags::NOFOLLOW, Mode::empty());
        let input = input.map_err(|e| Failure::at(&path, Error::Read(e.into())))?;
        match fs::mkdirat(&self.output, name, Mode::RWXU) {
            Err(Errno::EXIST) if self.options.force => {}
            made => made.map_err(at_output)?,
        }
        let output = fs::openat(&self.output, name, FOLDER | OFlags::NOFOLLOW, Mode::empty()).map_err(at_output)?;
        Ok(Arc::new(Self {
            input: input.into(),
            output: Arc::new(output.into()),
            path,
            mirrored,
            parent: Some((self.clone(), name.to_owned())),
            links: Mutex::default(),
            options: self.options,
            tally: self.tally.clone(),
        }))
    }

    /// All that is in the folder, in order of name.
    fn entries(&self) -> Outcome<Vec<(OsString, FileType)>> {
        let failed = |e: Errno| Failure::at(&self.path, Error::Read(e.into()));
        let mut entries = Vec::new();
        for entry in Dir::read_from(&self.input).map_err(failed)? {
            let entry = entry.map_err(failed)?;
            let name = OsString::from_vec(entry.file_name().to_bytes().to_vec());
            // What a killed run left behind is nobody's data.
            if name == "." || name == ".." || output::is_temporary(&name) {
                continue;
            }
            let kind = match entry.file_type() {
                FileType::Unknown => {
                    let stat = fs::statat(&self.input, &name, AtFlags::SYMLINK_NOFOLLOW).map_err(failed)?;
                    FileType::from_raw_mode(stat.st_mode)
                }
                kind => kind,
            };
            entries.push((name, kind));
        }
        entries.sort_by(|a, b| a.0.cmp(&b.0));
        Ok(entries)
    }

    /// Makes the same link in the mirror, wherever it leads.
    fn link(&self, name: &OsStr) -> Outcome {
        let path = self.mirrored.join(name);
        let target = fs::readlinkat(&self.input, name, Vec::new())
            .map_err(|e| Failure::at(&self.path.join(name), Error::Read(e.into())))?;
        let at_output = |e: Errno| Failure::at(&path, Error::Write(e.into()));
        if self.options.force {
            match fs::unlinkat(&self.output, name, AtFlags::empty()) {
                Err(Errno::NOENT) => {}
                removed => removed.map_err(at_output)?,
            }
        }
        fs::symlinkat(&target, &self.output, name).map_err(at_output)?;
        self.links.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).push(name.to_owned());
        Ok(())
    }

    /// Permissions and times of the mirror, once nothing is written to it any more.
    fn finish(&self) -> io::Result<()> {
        let meta = self.input.metadata()?;
        self.output.set_permissions(Permissions::from_mode(meta.permissions().mode() & 0o777))?;
        self.output.set_times(FileTimes::new().set_accessed(meta.accessed()?).set_modified(meta.modified()?))?;
        if self.options.sync {
            self.output.sync_all()?;
        }
        Ok(())
    }

    /// Deletes the links and, if nothing is left in it, the folder.
    fn remove(&self) {
        for name in self.links.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).drain(..) {
            let _ = fs::unlinkat(&self.input, &name, AtFlags::empty());
        }
        let _ = match &self.parent {
            Some((parent, name)) => fs::unlinkat(&parent.input, name, AtFlags::REMOVEDIR),
            None => fs::rmdir(&self.path),
        };
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        match self.finish() {
            Ok(()) if self.options.remove => self.remove(),
            Ok(()) => {}
            Err(e) => self.tally.fail(&Failure::at(&self.mirrored, Error::Write(e))),
        }
    }
}

/// Whether a folder is another one, or somewhere in it.
fn is_within(inner: &impl std::os::fd::AsFd, outer: &impl std::os::fd::AsFd) -> rustix::io::Result<bool> {
    let id = |stat: fs::Stat| (stat.st_dev, stat.st_ino);
    let outer = id(fs::fstat(outer)?);
    let mut folder = fs::openat(inner, ".", FOLDER, Mode::empty())?;
    loop {
        let here = id(fs::fstat(&folder)?);
        if here == outer {
            return Ok(true);
        }
        folder = fs::openat(&folder, "..", FOLDER, Mode::empty())?;
        if id(fs::fstat(&folder)?) == here {
            return Ok(false);
        }
    }
}

/// A folder, and what of it has not been met yet.
type Level = (Arc<Folder>, vec::IntoIter<(OsString, FileType)>);

/// All files of a tree, one after another, folders within their folder.
pub struct Walk {
    levels: Vec<Level>,
    tally: Arc<Tally>,
}

impl Walk {
    pub fn new(root: Arc<Folder>, tally: Arc<Tally>) -> Self {
        let mut walk = Self { levels: Vec::new(), tally };
        walk.enter(Ok(root));
        walk
    }

    /// The next file. What cannot be taken along is counted as failed.
    pub fn next(&mut self, output_name: impl Fn(&OsStr) -> Option<OsString>) -> Option<Task> {
        loop {
            let (folder, entries) = self.levels.last_mut()?;
            let Some((name, kind)) = entries.next() else {
                self.levels.pop();
                continue;
            };
            let path = || folder.path.join(&name);
            match kind {
                FileType::RegularFile => match output_name(&name) {
                    Some(output_name) => return Some(Task { folder: folder.clone(), name, output_name }),
                    None => {
                        let line = format!("{}: the name does not end in .phx: left out", shown(&path()));
                        self.tally.fail(&Failure::new(Code::NotAuthentic, line));
                    }
                },
                FileType::Directory => {
                    let child = folder.child(&name);
                    self.enter(child);
                }
                FileType::Symlink => {
                    if let Err(failure) = folder.link(&name) {
                        self.tally.fail(&failure);
                    }
                }
                _ => {
                    let line = format!("{}: not a file, folder or link: left out", shown(&path()));
                    self.tally.fail(&Failure::new(Code::InputOutput, line));
                }
            }
        }
    }

    fn enter(&mut self, folder: Outcome<Arc<Folder>>) {
        match folder.and_then(|folder| Ok((folder.entries()?.into_iter(), folder))) {
            Ok((entries, folder)) => self.levels.push((folder, entries)),
            Err(failure) => self.tally.fail(&failure),
        }
    }
}
