//! Files that appear under their name whole or not at all. They are written under a temporary name and then renamed.

use crate::file::made::{Made, named};
use crate::file::metadata::{Carry, remove_acls, set_mode};
use crate::file::names::rename_new;
use crate::file::obstacle::Obstacle;
use crate::file::temporary::{Temporary, create, is_named, is_own, record_name, step};
use crate::{Error, Result, stdio};
use phalanx_system::files::{is_as_made_for_user, open_folder};
use phalanx_system::fs::{self, AtFlags, FileType, Mode, OFlags, Stat};
use phalanx_system::io::Errno;
use phalanx_system::os::ffi::check_new;
use phalanx_system::os::fs::FileExt;
use phalanx_system::parent;
use phalanx_system::stdio::output_file;
use std::collections::{HashMap, HashSet};
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io;
use std::path::Path;
use std::sync::Arc;

/// The length of the record of an output that stays, in bytes.
pub(crate) const RECORD: usize = 1024;

/// An unfinished file, which only its owner can read. If it is dropped without [`Output::commit`], nothing of it is
/// left, unless it was begun by [`Output::resume`].
#[derive(Debug)]
pub struct Output {
    temporary: Temporary,
    name: OsString,
    kept: Option<Kept>,
}

/// The state of an output that stays if its run is interrupted.
#[derive(Debug)]
struct Kept {
    /// Whether an earlier run had begun it.
    is_begun: bool,
    /// Its record. It is kept open, because another program may give its name to another file.
    record: Option<File>,
}

/// How to treat an existing file of the same name.
#[derive(Clone, Copy, Debug)]
pub enum Existing<'a> {
    /// It stays, and the new file fails.
    Keep,
    /// The new file replaces it, unless it is an output of the same run.
    Replace(&'a Made),
}

/// How outputs are synced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sync {
    /// They are not synced: the system decides when to write them.
    No,
    /// They are synced, many at once if the file system then reports the errors of all of them.
    Yes,
    /// Each output is synced on its own.
    Each,
}

impl Output {
    /// Begins a file that will be named `path`.
    ///
    /// The folder is opened once. Changing its path afterwards does not move the output elsewhere.
    ///
    /// # Errors
    /// [`Error::Exists`] if the name is in use and may not be replaced, [`Error::Write`](phalanx_core::Error::Write) if
    /// no file can be created there.
    pub fn create(path: &Path, existing: Existing) -> Result<Self> {
        let (dir, name) = folder_and_name(path)?;
        Self::create_in(dir, name, existing)
    }

    /// Begins a file that will be named `path`, or goes on with what an interrupted run has left of it. Once something
    /// has been written to it, it stays for a later run if this one is interrupted or fails.
    ///
    /// # Errors
    /// As for [`Output::create`], and [`Error::NoLocks`] if the file system has no locks.
    pub fn resume(path: &Path, existing: Existing) -> Result<Self> {
        let (dir, name) = folder_and_name(path)?;
        Self::resume_in(dir, name, existing)
    }

    /// Begins a file that will be named `name` in an opened folder, or goes on with what an interrupted run has left of
    /// it: [`Output::resume`].
    ///
    /// # Errors
    /// As for [`Output::resume`].
    pub fn resume_in(dir: Arc<File>, name: &OsStr, existing: Existing) -> Result<Self> {
        Found::look(&dir, name)?.check(&dir, existing)?;
        Self::resume_checked(dir, name)
    }

    pub(crate) fn resume_checked(dir: Arc<File>, name: &OsStr) -> Result<Self> {
        check_new(name).map_err(Error::write)?;
        let (temporary, is_begun) = Temporary::resume(dir, name)?;
        let record = if is_begun { open_record(&temporary.dir, name) } else { None };
        Ok(Self { temporary, name: name.to_owned(), kept: Some(Kept { is_begun, record }) })
    }

    /// Whether the file stays if its run is interrupted.
    #[must_use]
    pub fn is_kept(&self) -> bool {
        self.kept.is_some()
    }

    /// Whether an earlier run had begun it.
    pub(crate) fn is_begun(&self) -> bool {
        self.kept.as_ref().is_some_and(|kept| kept.is_begun)
    }

    /// Begins a new file in place of one that an earlier run had begun and that is of no use. Another process may still
    /// have the old one open.
    pub(crate) fn start_over(&mut self) -> Result<()> {
        self.kept = Some(Kept { is_begun: false, record: None });
        self.temporary.start_over(&self.name)
    }

    /// Makes it stay for a later run.
    pub(crate) fn keep(&self) {
        self.temporary.forget();
    }

    /// Syncs an output that stays. If the system has lost writes, the output is discarded: the system reports that only
    /// once, and a later run would find in memory what is not on the disk.
    ///
    /// # Errors
    /// [`Error::Write`](phalanx_core::Error::Write) if the system reports that something was not written.
    pub fn sync_kept(&self) -> Result<()> {
        let synced = fs::sync_all(self.file()).map_err(Error::write).and_then(|()| check_close(self.file()));
        if synced.is_err() {
            self.discard();
        }
        synced
    }

    /// Removes an output that stays, and its record, so that a later run does not go on with it.
    pub fn discard(&self) {
        let _ = self.end_record();
        let dir = &self.temporary.dir;
        let _ = fs::unlinkat(dir, &*self.temporary.name, AtFlags::empty());
        let _ = fs::unlinkat(dir, record_name(&self.name), AtFlags::empty());
    }

    /// The record of an output that an earlier run had begun, if it exists and only the user can open it.
    pub(crate) fn record(&self) -> Option<[u8; RECORD]> {
        let mut bytes = [0; RECORD];
        self.opened_record()?.read_exact_at(&mut bytes, 0).ok()?;
        Some(bytes)
    }

    fn opened_record(&self) -> Option<&File> {
        self.kept.as_ref()?.record.as_ref()
    }

    /// Writes the record of a new file. Afterwards it is on the disk, and so is the name of the output.
    pub(crate) fn write_record(&mut self, bytes: &[u8]) -> Result<()> {
        let (dir, name) = (&self.temporary.dir, record_name(&self.name));
        match fs::unlinkat(dir, &*name, AtFlags::empty()) {
            Ok(()) | Err(Errno::NOENT) => {}
            Err(e) => return Err(Error::write(e)),
        }
        let file = create(dir, &name).map_err(Error::write)?;
        file.write_all_at(bytes, 0).and_then(|()| fs::sync_all(&file)).map_err(Error::write)?;
        sync_folder(dir).map_err(Error::write)?;
        self.kept = Some(Kept { is_begun: self.is_begun(), record: Some(file) });
        Ok(())
    }

    /// Writes a part of the record again, and syncs it.
    pub(crate) fn update_record(&self, bytes: &[u8], offset: u64) -> Result<()> {
        let Some(file) = self.opened_record() else { return Ok(()) };
        file.write_all_at(bytes, offset).and_then(|()| fs::sync_data(file)).map_err(Error::write)
    }

    /// Empties the record, even if its name has changed, so that no run goes on with this file.
    fn end_record(&self) -> Result<()> {
        self.opened_record().map_or(Ok(()), |file| file.set_len(0)).map_err(Error::write)
    }

    /// Begins a file that will be named `name` in an opened folder.
    ///
    /// # Errors
    /// As for [`Output::create`].
    pub fn create_in(dir: Arc<File>, name: &OsStr, existing: Existing) -> Result<Self> {
        Found::look(&dir, name)?.check(&dir, existing)?;
        Self::create_checked(dir, name)
    }

    pub(crate) fn create_checked(dir: Arc<File>, name: &OsStr) -> Result<Self> {
        check_new(name).map_err(Error::write)?;
        Ok(Self { temporary: Temporary::create(dir, name)?, name: name.to_owned(), kept: None })
    }

    /// The name that it has in its folder until it is finished.
    #[must_use]
    pub fn temporary_name(&self) -> &OsStr {
        OsStr::new(&self.temporary.name)
    }

    /// The folder that it is in.
    #[must_use]
    pub fn folder(&self) -> &File {
        &self.temporary.dir
    }

    /// The file, to write to.
    #[must_use]
    pub fn file(&self) -> &File {
        &self.temporary.file
    }

    /// Its device and inode.
    pub(crate) fn id(&self) -> phalanx_system::io::Result<(u64, u64)> {
        self.temporary.born().map(|born| born.id)
    }

    /// Takes over the metadata of another file.
    ///
    /// # Errors
    /// As for [`Carry::file`].
    pub fn carry(&self, from: &File, carry: Carry) -> Result<()> {
        // From here on, other users may be able to open the file.
        self.end_record()?;
        carry.file_of(from, self.file(), self.temporary.born().map_err(Error::write)?.owner)
    }

    /// Sets the permissions, and removes access control lists that the folder gave.
    ///
    /// # Errors
    /// If the file system has permissions and refuses these.
    pub fn set_mode(&self, mode: u32) -> Result<()> {
        self.end_record()?;
        remove_acls(self.file(), false, &[]);
        set_mode(self.file(), mode)
    }

    /// Removes the file that has its name, if that may be replaced: for a file that means something only beside another one, which
    /// gets its name in between.
    ///
    /// # Errors
    /// [`Error::Write`](phalanx_core::Error::Write) if it cannot be removed.
    pub fn clear_name(&self, existing: Existing) -> Result<()> {
        if let Existing::Keep = existing {
            return Ok(());
        }
        match fs::unlinkat(self.folder(), &*self.name, AtFlags::empty()) {
            Ok(()) | Err(Errno::NOENT) => Ok(()),
            Err(e) => Err(Error::write(e)),
        }
    }

    /// Gives the file its name. With `sync`, its content is on the disk before and its name after.
    ///
    /// # Errors
    /// [`Error::Exists`] or [`Error::OwnOutput`] if the name is in use by now and may not be replaced.
    /// [`Error::Unsynced`] if the file has its name, but may not be on the disk. After any other error the file does
    /// not have the name.
    pub fn commit(self, existing: Existing, sync: bool) -> Result<Committed> {
        let sync = if sync { Sync::Each } else { Sync::No };
        Self::commit_all(vec![self], existing, sync).pop().expect("as many as were given")
    }

    /// Gives many files their names, as [`Output::commit`] does for one. Returns the results in the same order.
    #[must_use]
    pub fn commit_all(outputs: Vec<Self>, existing: Existing, sync: Sync) -> Vec<Result<Committed>> {
        let bulk = if sync == Sync::No { Ok(HashSet::new()) } else { sync_file_systems(&outputs) };
        let each = |output: &Self| match (sync, &bulk) {
            (Sync::No, _) => check_close(output.file()),
            _ if output.is_kept() => output.sync_kept(),
            (_, Err(e)) => Err(Error::write(*e)),
            // These file systems report all lost writes by the sync, and none when a file is closed.
            (Sync::Yes, Ok(synced)) if synced.contains(&output.id().map_err(Error::write)?.0) => Ok(()),
            _ => fs::sync_all(output.file()).map_err(Error::write).and_then(|()| check_close(output.file())),
        };
        let done: Vec<_> =
            outputs.into_iter().map(|output| each(&output).and_then(|()| output.take_name(existing))).collect();
        if sync == Sync::No { done } else { sync_names(done, sync) }
    }

    fn take_name(self, existing: Existing) -> Result<Committed> {
        let Self { temporary, name, kept } = self;
        {
            let _step = step();
            if !temporary.is_named()? {
                let taken = io::Error::new(io::ErrorKind::ResourceBusy, "another run removed the temporary file");
                return Err(Error::write(taken));
            }
            let from = OsStr::new(&temporary.name);
            match existing {
                Existing::Replace(made) => {
                    let id = temporary.born().map_err(Error::write)?.id;
                    made.replace(id, &temporary.dir, from, &name)?;
                }
                Existing::Keep => rename_new(&temporary.dir, from, &name)
                    .map_err(|e| if e == Errno::EXIST { Error::Exists } else { Error::write(e) })?,
            }
            temporary.forget();
        }
        if kept.is_some() {
            // A record that stays does no harm: there is no output for it.
            let _ = fs::unlinkat(&temporary.dir, record_name(&name), AtFlags::empty());
        }
        Ok(Committed { temporary, name })
    }
}

/// A file that has its name.
#[derive(Debug)]
pub struct Committed {
    temporary: Temporary,
    name: OsString,
}

impl Committed {
    /// Whether the name still leads to this file.
    ///
    /// # Errors
    /// [`Error::Read`](phalanx_core::Error::Read) if the name cannot be looked up.
    pub fn is_in_place(&self) -> Result<bool> {
        let Temporary { dir, file, .. } = &self.temporary;
        // Wine tells the volume of an open file by its name when it was opened, which it has no more.
        Ok(is_named(file, dir, &self.name)? || cfg!(windows) && self.temporary.leads_here(&self.name)?)
    }
}

/// Syncs the outputs' file systems whose `syncfs` reports lost writes. Returns their devices.
fn sync_file_systems(outputs: &[Output]) -> phalanx_system::io::Result<HashSet<u64>> {
    let (mut seen, mut synced) = (HashSet::new(), HashSet::new());
    for output in outputs {
        let (device, _) = output.id()?;
        if seen.insert(device) && outputs.len() > 1 && fs::reports_lost_writes(output.file())? {
            fs::syncfs(output.file())?;
            synced.insert(device);
        }
    }
    Ok(synced)
}

/// Syncs the folders of new names. If that fails, the files still have their names, and the error says so.
fn sync_names(mut done: Vec<Result<Committed>>, sync: Sync) -> Vec<Result<Committed>> {
    let mut answers = HashMap::new();
    // Mostly one folder has many of the files.
    let mut last: Option<(Arc<File>, phalanx_system::io::Result<()>)> = None;
    for result in &mut done {
        let Ok(committed) = result else { continue };
        let dir = &committed.temporary.dir;
        let answer = match &last {
            Some((synced, answer)) if Arc::ptr_eq(synced, dir) => *answer,
            _ => sync_once(dir, sync, &mut answers),
        };
        last = Some((dir.clone(), answer));
        if let Err(e) = answer {
            *result = Err(Error::Unsynced(e.into()));
        }
    }
    done
}

/// Syncs a folder or its whole file system. If that was done before, returns the earlier result.
fn sync_once(
    dir: &File,
    sync: Sync,
    answers: &mut HashMap<(u64, Option<u64>), phalanx_system::io::Result<()>>,
) -> phalanx_system::io::Result<()> {
    let (stat, bulk) = (fs::fstat(dir)?, sync == Sync::Yes && fs::reports_lost_writes(dir)?);
    let key = (stat.st_dev, (!bulk).then_some(stat.st_ino));
    *answers.entry(key).or_insert_with(|| if bulk { fs::syncfs(dir) } else { sync_folder(dir) })
}

/// Syncs a folder, if its file system can do that.
///
/// # Errors
/// If the file system reports that something was not written.
pub fn sync_folder(dir: &File) -> phalanx_system::io::Result<()> {
    match fs::fsync(dir) {
        Err(Errno::INVAL | Errno::NOTSUP) => Ok(()),
        done => done,
    }
}

/// Makes sure that what was written to standard output is on the disk under its name, if that is a file.
///
/// # Errors
/// [`Error::Write`](phalanx_core::Error::Write) if the file system reports that something was not written.
pub fn keep_output() -> Result<()> {
    let Some(path) = output_file() else { return Ok(()) };
    let file = stdio::output().map_err(Error::write)?;
    fs::sync_all(&file).map_err(Error::write)?;
    // A folder that cannot be opened cannot be synced either, and whoever opened the file had it.
    if let Some(Ok(dir)) = path.parent().map(open_folder) {
        sync_folder(&dir).map_err(Error::write)?;
    }
    check_close(&file)
}

/// Closes a copy of the descriptor, because some file systems report lost writes only when a file is closed.
///
/// # Errors
/// [`Error::Write`](phalanx_core::Error::Write) if the file system reports that something was not written.
#[cfg(unix)]
pub fn check_close(file: &File) -> Result<()> {
    let copy = file.try_clone().map_err(Error::write)?;
    nix::unistd::close(copy).map_err(Error::write)
}

/// Windows reports lost writes when a file is flushed, and closing always succeeds.
///
/// # Errors
/// Never.
#[cfg(windows)]
pub fn check_close(_file: &File) -> Result<()> {
    Ok(())
}

/// What has a name before an output gets it.
pub(crate) struct Found {
    itself: Option<Stat>,
    /// Where it leads, if it is a link.
    target: Option<Stat>,
}

impl Found {
    /// Looks a name up.
    pub fn look(dir: &File, name: &OsStr) -> Result<Self> {
        let itself = named(dir, name)?;
        let is_link = itself.is_some_and(|stat| FileType::from_raw_mode(stat.st_mode) == FileType::Symlink);
        let target = is_link.then(|| fs::statat(dir, name, AtFlags::empty()).ok()).flatten();
        Ok(Self { itself, target })
    }

    /// Whether it is, or leads to, something with this device and inode.
    pub fn leads_to(&self, id: (u64, u64)) -> bool {
        self.target.or(self.itself).is_some_and(|stat| (stat.st_dev, stat.st_ino) == id)
    }

    /// Refuses targets that may not be replaced: all that exist, or only those that are not files (folders, devices,
    /// pipes).
    pub fn check(&self, dir: &File, existing: Existing) -> Result<()> {
        let Some(itself) = &self.itself else { return Ok(()) };
        let refuse = |why: Obstacle| Err(Error::write(why));
        match FileType::from_raw_mode(self.target.as_ref().unwrap_or(itself).st_mode) {
            FileType::Directory => refuse(Obstacle::Folder),
            // A link that leads nowhere can be replaced.
            FileType::RegularFile | FileType::Symlink => match existing {
                Existing::Keep => Err(Error::Exists),
                Existing::Replace(made) => made.check_named(dir, itself),
            },
            _ => refuse(Obstacle::NotRegular),
        }
    }
}

/// The folder that a path leads to, opened, and the name there.
pub(crate) fn folder_and_name(path: &Path) -> Result<(Arc<File>, &OsStr)> {
    let no_name = || Error::write(io::Error::new(io::ErrorKind::InvalidInput, "not a file's name"));
    let name = path.file_name().ok_or_else(no_name)?;
    let dir = fs::open(parent(path), OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty());
    Ok((Arc::new(File::from(dir.map_err(Error::write)?)), name))
}

/// Opens the record of an output, if only the user can open it.
fn open_record(dir: &File, name: &OsStr) -> Option<File> {
    let flags = OFlags::RDWR | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let file = File::from(fs::openat(dir, record_name(name), flags, Mode::empty()).ok()?);
    let stat = fs::fstat(&file).ok()?;
    (is_own(&stat) && is_as_made_for_user(&file, &stat) && stat.st_size == RECORD as i64).then_some(file)
}
