//! What no manifest lists in a mirror, and what of it `--delete` deletes. That is found before anything is deleted, so that all of
//! it can be counted and named. What appears later stays for the next run.

use super::MANIFEST;
use super::chain::Chain;
use super::deletion::Deletion;
use super::there::{Objects, There};
use crate::file::ObjectFolder;
use crate::folders::{kind_of, open_within};
use crate::{Error, Result};
use phalanx_core::volume::CONFIG;
use phalanx_system::fs::{self, AtFlags, Dir, FileType};
use phalanx_system::io::Errno;
use phalanx_system::os::ffi::OsStrExt;
use std::collections::HashSet;
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::path::{Path, PathBuf};

/// Whether an entry that no manifest lists is deleted, or looked into if it is a folder.
pub type Takes<'a> = dyn Fn(&Path, FileType) -> bool + 'a;

/// Called with the path in the mirror of what is deleted, and whether it is a folder.
pub type Deleted<'a> = dyn FnMut(&Path, bool) + 'a;

/// A file, a link or a folder in a mirror that no manifest lists.
#[derive(Debug)]
pub struct Stray {
    /// Its path in the mirror.
    pub path: PathBuf,
    found: Found,
}

/// What of a stray is deleted.
#[derive(Debug)]
enum Found {
    /// Entries on a disk.
    Steps(Steps),
    /// Objects, by their names.
    Objects { ours: Vec<String>, others: usize },
}

impl Stray {
    /// One of which everything stays.
    #[must_use]
    pub fn that_stays(path: PathBuf) -> Self {
        Self { path, found: Found::Steps(Steps::default()) }
    }

    /// One of which stored files, links, and folders that then are empty are deleted, as far as `takes` says so. All else stays, and so does
    /// what belongs to another mirror or a volume. `mirror` is the root, if it lies on a disk.
    ///
    /// # Errors
    /// If a folder cannot be listed.
    pub fn find(mirror: Option<&File>, there: &There, path: PathBuf, takes: &Takes<'_>) -> Result<Self> {
        let found = match (there, mirror) {
            (There::Objects(names), _) => {
                let (ours, others) = strays_at(names, &path, takes);
                Found::Objects { ours: ours.into_iter().map(str::to_owned).collect(), others }
            }
            (There::Folder(_), Some(mirror)) => Found::Steps(Steps::find(mirror, &path, takes)?),
            (There::Folder(_), None) => Found::Steps(Steps::default()),
        };
        Ok(Self { path, found })
    }

    /// How many files and links of it are deleted.
    #[must_use]
    pub fn count(&self) -> u64 {
        match &self.found {
            Found::Steps(steps) => steps.count(),
            Found::Objects { ours, .. } => ours.len() as u64,
        }
    }

    /// The paths of all that is deleted, a folder before what is in it.
    ///
    /// # Errors
    /// Those of `each`, which end it.
    pub fn each<E>(&self, mut each: impl FnMut(&Path) -> Result<(), E>) -> Result<(), E> {
        match &self.found {
            Found::Steps(steps) => steps.each(&self.path, each),
            Found::Objects { ours, .. } => ours.iter().try_for_each(|name| each(Path::new(name))),
        }
    }

    /// Deletes on a disk what was found, and is still there.
    ///
    /// # Errors
    /// If something cannot be deleted.
    pub fn delete(&self, deletion: &Deletion<'_>, deleted: &mut Deleted<'_>) -> Result<()> {
        match &self.found {
            Found::Steps(steps) => steps.delete(deletion, &self.path, deleted),
            Found::Objects { .. } => Ok(()),
        }
    }

    /// Deletes the objects that were found. Returns whether others are below its path.
    ///
    /// # Errors
    /// If one cannot be deleted.
    pub fn delete_objects(&self, folder: &dyn ObjectFolder, deleted: &mut Deleted<'_>) -> Result<bool> {
        let Found::Objects { ours, others } = &self.found else { return Ok(true) };
        let left = folder.delete(ours);
        let stay: HashSet<&str> = left.iter().map(|(name, _)| &**name).collect();
        ours.iter().filter(|name| !stay.contains(&***name)).for_each(|name| deleted(Path::new(name), false));
        match left.into_iter().next() {
            Some((_, error)) => Err(Error::write(error)),
            None => Ok(*others > 0),
        }
    }
}

/// What is done in a stray, in this order. There may be millions of entries, so their names lie in a row.
#[derive(Debug, Default)]
struct Steps {
    steps: Vec<Step>,
    /// The names for all steps but [`Step::Leave`], each with a zero at its end.
    names: Vec<u8>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    File,
    Link,
    /// A folder is entered, which is empty in the end or not.
    Enter {
        empties: bool,
    },
    /// It is left, and deleted if it is empty.
    Leave,
}

/// A folder that is looked through.
struct Open {
    /// The number of the step that enters it.
    entered: usize,
    /// The folders in it that are still to be entered.
    folders: Vec<OsString>,
    /// Whether something in it stays.
    stays: bool,
}

impl Steps {
    fn find(mirror: &File, path: &Path, takes: &Takes<'_>) -> Result<Self> {
        let mut steps = Self::default();
        let (Some(dir), Some(name)) = (open_parent_of(mirror, path)?, path.file_name()) else { return Ok(steps) };
        match kind_of(&dir, name) {
            Ok(FileType::Directory) => steps.find_in(dir, path, takes)?,
            Ok(kind) => drop(steps.take(path, name, kind, takes)),
            Err(_) => {}
        }
        Ok(steps)
    }

    /// Adds a file or link, if it is taken. Returns whether it is.
    fn take(&mut self, path: &Path, name: &OsStr, kind: FileType, takes: &Takes<'_>) -> bool {
        let step = match kind {
            FileType::RegularFile => Step::File,
            FileType::Symlink => Step::Link,
            _ => return false,
        };
        let is_taken = takes(path, kind);
        if is_taken {
            self.push(step, name);
        }
        is_taken
    }

    fn push(&mut self, step: Step, name: &OsStr) {
        self.steps.push(step);
        self.names.extend_from_slice(name.as_bytes());
        self.names.push(0);
    }

    /// Adds a folder, with what is taken of all in it. `dir` is the folder above.
    fn find_in(&mut self, dir: File, path: &Path, takes: &Takes<'_>) -> Result<()> {
        let mut chain = Chain::new(dir)?;
        let folders = path.file_name().map(OsStr::to_owned).into_iter().collect();
        let mut path = path.parent().unwrap_or(Path::new("")).to_owned();
        let mut open = vec![Open { entered: 0, folders, stays: false }];
        while let Some(folder) = open.last_mut() {
            if let Some(name) = folder.folders.pop() {
                path.push(&name);
                if !takes(&path, FileType::Directory) || chain.enter(&name).is_err() {
                    folder.stays = true;
                    path.pop();
                    continue;
                }
                let mut within = Open { entered: self.steps.len(), folders: Vec::new(), stays: false };
                self.push(Step::Enter { empties: false }, &name);
                self.look_into(chain.current(), &path, takes, &mut within)?;
                open.push(within);
                continue;
            }
            let done = open.pop().expect("a folder is open");
            if let Some(above) = open.last_mut() {
                above.stays |= done.stays;
                self.steps[done.entered] = Step::Enter { empties: !done.stays };
                self.steps.push(Step::Leave);
                chain.leave()?;
                path.pop();
            }
        }
        Ok(())
    }

    /// Adds the files and links of an open folder that are taken, and notes the folders in it.
    fn look_into(&mut self, dir: &File, path: &Path, takes: &Takes<'_>, open: &mut Open) -> Result<()> {
        if is_of_others(dir)? {
            open.stays = true;
            return Ok(());
        }
        for entry in Dir::read_from(dir).map_err(Error::write)? {
            let name = OsStr::from_bytes(entry.map_err(Error::write)?.file_name().to_bytes()).to_owned();
            if name == "." || name == ".." {
                continue;
            }
            match kind_of(dir, &name) {
                Ok(FileType::Directory) => open.folders.push(name),
                Ok(kind) => open.stays |= !self.take(&path.join(&name), &name, kind, takes),
                // It was deleted just now.
                Err(Errno::NOENT) => {}
                Err(e) => return Err(Error::write(e)),
            }
        }
        Ok(())
    }

    fn count(&self) -> u64 {
        self.steps.iter().filter(|step| matches!(step, Step::File | Step::Link)).count() as u64
    }

    /// The steps, with the names that they have.
    fn named(&self) -> impl Iterator<Item = (Step, &OsStr)> {
        let mut names = self.names.split(|byte| *byte == 0);
        let mut next = move || names.next().expect("each of these steps has a name");
        self.steps.iter().map(move |step| (*step, OsStr::from_bytes(if *step == Step::Leave { &[] } else { next() })))
    }

    fn each<E>(&self, path: &Path, mut each: impl FnMut(&Path) -> Result<(), E>) -> Result<(), E> {
        let mut path = path.parent().unwrap_or(Path::new("")).to_owned();
        for (step, name) in self.named() {
            if step == Step::Leave {
                path.pop();
                continue;
            }
            path.push(name);
            if step != (Step::Enter { empties: false }) {
                each(&path)?;
            }
            if matches!(step, Step::File | Step::Link) {
                path.pop();
            }
        }
        Ok(())
    }

    fn delete(&self, deletion: &Deletion<'_>, path: &Path, deleted: &mut Deleted<'_>) -> Result<()> {
        let Some(dir) = open_parent_of(deletion.mirror, path)? else { return Ok(()) };
        let mut chain = Chain::new(dir)?;
        let mut path = path.parent().unwrap_or(Path::new("")).to_owned();
        // How many folders have been entered from one on that is not there any more, or belongs to others by now.
        let mut missing = 0_usize;
        for (step, name) in self.named() {
            match step {
                Step::Enter { .. } => {
                    path.push(name);
                    missing += usize::from(missing > 0 || !enter(&mut chain, name)?);
                }
                Step::Leave => {
                    if missing == 0 {
                        chain.leave()?;
                        // One that is not empty stays.
                        let name = path.file_name().unwrap_or_default();
                        if fs::unlinkat(chain.current(), name, AtFlags::REMOVEDIR).is_ok() {
                            deleted(&path, true);
                        }
                    }
                    missing = missing.saturating_sub(1);
                    path.pop();
                }
                Step::File | Step::Link if missing == 0 => {
                    let kind = if step == Step::File { FileType::RegularFile } else { FileType::Symlink };
                    if kind_of(chain.current(), name) == Ok(kind) {
                        path.push(name);
                        deletion.entry(chain.current(), name, || path.clone(), kind)?;
                        deleted(&path, false);
                        path.pop();
                    }
                }
                Step::File | Step::Link => {}
            }
        }
        Ok(())
    }
}

/// Enters a folder, unless it is gone or belongs to others. Returns whether it is entered.
fn enter(chain: &mut Chain, name: &OsStr) -> Result<bool> {
    if chain.enter(name).is_err() {
        return Ok(false);
    }
    let is_ours = !is_of_others(chain.current())?;
    if !is_ours {
        chain.leave()?;
    }
    Ok(is_ours)
}

/// Whether a folder is another mirror or a volume, which belongs to somebody else. If that cannot be found out, nothing in it is
/// deleted.
fn is_of_others(dir: &File) -> Result<bool> {
    for name in [MANIFEST, CONFIG] {
        match kind_of(dir, OsStr::new(name)) {
            Ok(FileType::RegularFile) => return Ok(true),
            Ok(_) | Err(Errno::NOENT) => {}
            Err(e) => return Err(Error::read(e)),
        }
    }
    Ok(false)
}

/// The folder that an entry is in; `None` if it is not there any more.
fn open_parent_of(mirror: &File, path: &Path) -> Result<Option<File>> {
    match open_within(mirror, path.parent().unwrap_or(Path::new(""))) {
        Ok(dir) => Ok(Some(dir)),
        Err(Errno::NOENT) => Ok(None),
        Err(e) => Err(Error::write(e)),
    }
}

/// The objects at a path and below it that are protected files and of no other mirror, and how many others there are.
fn strays_at<'n>(names: &'n Objects, path: &Path, takes: &Takes<'_>) -> (Vec<&'n str>, usize) {
    let name = path.to_string_lossy();
    // Another mirror or a volume belongs to somebody else.
    let roots = [MANIFEST, CONFIG];
    let is_root = |folder: &Path| roots.iter().any(|root| names.has(&folder.join(root).to_string_lossy()));
    let above = path.ancestors().skip(1).filter(|folder| !folder.as_os_str().is_empty());
    let is_within_other = above.into_iter().any(is_root);
    let of_root = |name: &'n str| roots.iter().find_map(|root| name.strip_suffix(root));
    let others = names.at_and_below(&name).filter_map(of_root);
    let others: Vec<&str> = others.filter(|folder| folder.ends_with('/')).collect();
    let is_stray = |name: &&str| {
        let is_other = is_within_other || others.iter().any(|folder| name.starts_with(folder));
        let folders = Path::new(name).ancestors().skip(1).take_while(|folder| folder.starts_with(path));
        let is_looked_at = || folders.into_iter().all(|folder| takes(folder, FileType::Directory));
        !is_other && takes(Path::new(name), FileType::RegularFile) && is_looked_at()
    };
    let all = names.at_and_below(&name).count();
    let ours: Vec<&str> = names.at_and_below(&name).filter(is_stray).collect();
    let left = all - ours.len();
    (ours, left)
}
