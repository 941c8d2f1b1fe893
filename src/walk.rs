//! Walking a tree, and making the folders and links of its mirror, for `--recursive`.

use crate::failure::Failure;
use crate::folder::{Folder, Handles};
use phalanx_core::{Error, Result, output};
use rustix::fs::{self, AtFlags, Dir, FileType};
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::os::unix::ffi::OsStringExt;
use std::sync::Arc;
use std::vec;

/// As many folders, from the current one up, stay open.
const NEAR: usize = 32;

/// A file to work on.
pub struct Task {
    pub folder: Arc<Folder>,
    pub handles: Arc<Handles>,
    pub name: OsString,
    pub output_name: OsString,
}

/// A folder, and what of it has not been met yet.
type Level = (Arc<Folder>, vec::IntoIter<(OsString, FileType)>);

/// All files of a tree, one after another, folders within their folder.
pub struct Walk {
    levels: Vec<Level>,
}

impl Walk {
    pub fn new(root: Arc<Folder>) -> Self {
        let mut walk = Self { levels: Vec::new() };
        match entries(&root.handles().expect("the root has just been opened").input) {
            Ok(entries) => walk.levels.push((root, entries.into_iter())),
            Err(e) => fail(&root, OsStr::new(""), e),
        }
        walk
    }

    /// The next file. What cannot be taken along is told and counted. An error says that too many files are open to go
    /// on: nothing is lost by it.
    pub fn next(&mut self, output_name: impl Fn(&OsStr) -> Option<OsString>) -> Result<Option<Task>> {
        loop {
            let Some((folder, entries)) = self.levels.last_mut() else { return Ok(None) };
            let Some((name, kind)) = entries.as_slice().first().cloned() else {
                self.leave();
                continue;
            };
            let Some(handles) = folder.handles() else {
                // It could not be opened again, which has been told.
                self.levels.pop();
                continue;
            };
            let (folder, level) = (folder.clone(), self.levels.len() - 1);
            let met = match kind {
                FileType::RegularFile if !output::is_temporary(&name) => match output_name(&name) {
                    Some(output_name) => {
                        self.pass(level);
                        return Ok(Some(Task { folder, handles, name, output_name }));
                    }
                    None => {
                        folder.pass_over(&name);
                        Ok(())
                    }
                },
                FileType::Directory => self.enter(&folder, &handles, &name),
                FileType::Symlink => folder.link(&handles, &name),
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

    /// Gives up what is next, for good.
    pub fn skip(&mut self, why: Error) {
        if let Some((folder, entries)) = self.levels.last_mut()
            && let Some((name, _)) = entries.next()
        {
            fail(folder, &name, why);
        }
    }

    /// Passes what was next.
    fn pass(&mut self, level: usize) {
        self.levels[level].1.next();
    }

    fn enter(&mut self, folder: &Arc<Folder>, handles: &Handles, name: &OsStr) -> Result<()> {
        let input = folder.open(handles, name)?;
        let entries = entries(&input)?;
        self.levels.push((folder.child(handles, name, input)?, entries.into_iter()));
        if let Some(far) = self.levels.len().checked_sub(NEAR) {
            self.levels[far].0.park();
        }
        Ok(())
    }

    /// Goes up, where the folder above may have been closed.
    fn leave(&mut self) {
        let left = self.levels.pop();
        if let (Some((child, _)), Some((folder, _))) = (left, self.levels.last())
            && let Some(handles) = child.handles()
            && let Err(e) = folder.reopen(&handles)
        {
            fail(folder, OsStr::new(""), e);
        }
    }
}

/// Whether there are too many open files, in this process or on the system.
pub fn is_too_many(error: &Error) -> bool {
    const ENFILE: i32 = 23;
    const EMFILE: i32 = 24;
    match error {
        Error::Read(e) | Error::Write(e) => matches!(e.raw_os_error(), Some(ENFILE | EMFILE)),
        _ => false,
    }
}

fn fail(folder: &Arc<Folder>, name: &OsStr, error: Error) {
    folder.stays();
    let path = match error {
        Error::Write(_) | Error::Exists | Error::OwnOutput => folder.mirrored(name),
        _ => folder.path(name),
    };
    folder.tree().tally.fail(&Failure::at(&path, error));
}

/// All that is in a folder, in order of name.
fn entries(folder: &File) -> Result<Vec<(OsString, FileType)>> {
    let failed = |e: rustix::io::Errno| Error::Read(e.into());
    let mut entries = Vec::new();
    for entry in Dir::read_from(folder).map_err(failed)? {
        let entry = entry.map_err(failed)?;
        let name = OsString::from_vec(entry.file_name().to_bytes().to_vec());
        if name == "." || name == ".." {
            continue;
        }
        let kind = match entry.file_type() {
            FileType::Unknown => {
                let stat = fs::statat(folder, &name, AtFlags::SYMLINK_NOFOLLOW).map_err(failed)?;
                FileType::from_raw_mode(stat.st_mode)
            }
            kind => kind,
        };
        entries.push((name, kind));
    }
    entries.sort_by(|a, b| a.0.cmp(&b.0));
    Ok(entries)
}

fn kind_name(kind: FileType) -> &'static str {
    match kind {
        FileType::RegularFile => "a temporary file of a run that was killed",
        FileType::Fifo => "a pipe",
        FileType::Socket => "a socket",
        FileType::CharacterDevice | FileType::BlockDevice => "a device",
        _ => "not a file, folder or link",
    }
}
