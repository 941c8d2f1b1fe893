//! Changing a file's header in place. At any time, the old or the new header is whole, in its place or in a side file.
//!
//! The new header is written first to a side file, `.phalanx-<hash of the name>.rekey`, and then to its place. Then the
//! side file is removed. The name is the one that the folder lists, so every spelling of it leads to the side file. Each step is on the disk before the next one begins. So if the header in place is whole, a
//! side file is not needed and is discarded. If it is torn, the side file holds the whole header. The side file is used
//! only if its file key is also that of the chunks, since anybody may have planted it.

use crate::file::input::{InputFile, Stamp};
use crate::file::metadata::tolerate;
use crate::file::output::{Existing, Output, sync_folder};
use crate::file::regular::{Regular, regular};
use crate::file::temporary::{Temporary, is_named, is_own, side_name, step};
use crate::{Error, Result};
use phalanx_core::format::Header;
use phalanx_core::{Class, Error as CoreError, KeySource, Opener, Source, Ways};
use phalanx_system::files::{is_as_made_for_user, spelling};
use phalanx_system::fs::{self, AtFlags, FileType, FlockOperation, Mode, OFlags, Timespec, Timestamps, UTIME_OMIT};
use phalanx_system::io::Errno;
use phalanx_system::os::fs::FileExt;
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io;
use std::sync::Arc;

/// A protected file, opened for writing and locked, whose header is to be changed in place.
#[derive(Debug)]
pub struct InPlace {
    /// Opened for reading, so that it can be synced.
    dir: Arc<File>,
    name: OsString,
    /// The name of its side file.
    side_name: String,
    file: File,
    stamp: Stamp,
    /// Whether no other run can change it meanwhile: the file system has locks.
    locked: bool,
}

/// What happened to a change of the header that an earlier run did not finish.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unfinished {
    /// There was none.
    None,
    /// The header in place was whole: the side file was removed.
    Discarded,
    /// The header in place was torn: the one in the side file took its place.
    Finished,
}

/// Whether a change of this file's header may have been interrupted: its side file exists. Anybody who can write to the
/// folder can make one.
#[must_use]
pub fn is_unfinished(input: &InputFile) -> bool {
    let is_there = |dir: &File, name: String| fs::statat(dir, name, AtFlags::SYMLINK_NOFOLLOW).is_ok();
    input.entry().is_some_and(|(dir, name)| is_there(dir, side_of(dir, name, input.stamp())))
}

/// The name of the side file of a file that was opened by this name.
fn side_of(dir: &File, name: &OsStr, stamp: Stamp) -> String {
    side_name(&spelling(dir, name, stamp.id().1))
}

impl InPlace {
    /// Opens a file for writing that has been opened for reading, and locks it. A link is not followed.
    ///
    /// If the file system has no locks, the file can be read, and replaced by a new one. Its header is not changed.
    ///
    /// # Errors
    /// [`Error::Write`](phalanx_core::Error::Write) if it may not be written, if its folder cannot be synced, or if
    /// another run has it locked. [`Error::Changed`](phalanx_core::Error::Changed) if its name leads to another file by
    /// now.
    pub fn open(input: &InputFile) -> Result<Self> {
        let refuse = |kind: io::ErrorKind, why: &str| Err(Error::write(io::Error::new(kind, why)));
        let Some((dir, name)) = input.entry() else {
            return refuse(io::ErrorKind::InvalidInput, "not a file's name");
        };
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let dir = Arc::new(File::from(fs::openat(dir, ".", flags, Mode::empty()).map_err(Error::write)?));
        let flags = OFlags::RDWR | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
        let file = match fs::openat(&dir, name, flags, Mode::empty()) {
            Err(Errno::LOOP) => return refuse(io::ErrorKind::InvalidInput, "it is a link"),
            opened => File::from(opened.map_err(Error::write)?),
        };
        let stamp = Stamp::of(&file).map_err(Error::read)?;
        if stamp.id() != input.stamp().id() {
            return Err(CoreError::Changed.into());
        }
        let locked = match fs::flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Err(Errno::WOULDBLOCK) => {
                return refuse(
                    io::ErrorKind::ResourceBusy,
                    "another run is changing its keys, or its volume is mounted",
                );
            }
            // Any other error: the file system has no locks.
            done => done.is_ok(),
        };
        let side_name = side_of(&dir, name, stamp);
        Ok(Self { dir, name: name.clone(), side_name, file, stamp, locked })
    }

    /// The file, to read from.
    #[must_use]
    pub fn file(&self) -> &File {
        &self.file
    }

    /// Opens the header with the keys at hand, after finishing or discarding what an earlier run has left.
    ///
    /// # Errors
    /// Those of [`Source::header`] and [`Opener::open`]. They are inside [`Error::Interrupted`] if a change of the
    /// header was interrupted and the keys at hand do not finish it. [`Error::Write`](phalanx_core::Error::Write) if
    /// what was left cannot be finished or removed. [`Error::NoLocks`] if it has to be finished and the file system has
    /// no locks. Without locks, a side file that is not needed stays. [`Error::Uncleared`] if it was finished, and the
    /// side file cannot be removed.
    pub fn ways(&mut self, opener: &Opener<impl KeySource>) -> Result<(Ways, Unfinished)> {
        let error = match self.header() {
            Ok(header) => match Ways::open(header, opener) {
                // Without a lock, another run may be using the side file now.
                Ok(ways) if !self.locked => return Ok((ways, Unfinished::None)),
                Ok(ways) => {
                    let unfinished = self.discard(ways.header())?;
                    return Ok((ways, unfinished));
                }
                Err(error) if error.class() != Class::NotAuthentic => return Err(error.into()),
                Err(error) => error.into(),
            },
            // A header that a power cut has torn may be unreadable.
            Err(error) => error,
        };
        self.finish(error, opener)
    }

    /// Writes the changed header to its place, whole or not at all, even if this run is killed. The file's time of
    /// modification stays, since it is that of the plaintext.
    ///
    /// # Errors
    /// Those of [`Ways::changed`]. [`Error::NoLocks`] if the file system has no locks.
    /// [`Error::Changed`](phalanx_core::Error::Changed) if the file is not what `ways` were opened from.
    /// [`Error::Write`](phalanx_core::Error::Write) if writing failed: the old header is then in its place.
    /// [`Error::Interrupted`] if even that failed. [`Error::Uncleared`] if the new header is in its place, and the side
    /// file cannot be removed.
    pub fn write(&mut self, ways: &Ways, opener: &Opener<impl KeySource>) -> Result<Header> {
        let (before, after) = (ways.header(), ways.changed(opener)?);
        if after.bytes() == before.bytes() {
            return Ok(after);
        }
        self.check_locked()?;
        let times = times(&self.file)?;
        let side = self.make_side(before)?;
        side.file.write_all_at(after.bytes(), 0).map_err(Error::write)?;
        // A run that finishes this change restores these times.
        tolerate(fs::futimens(&side.file, &times))?;
        fs::sync_all(&side.file).map_err(Error::write)?;
        sync_folder(&self.dir).map_err(Error::write)?;
        // A signal's clean-up would remove the side file while it is needed.
        let _step = step();
        self.check_unchanged()?;
        if self.header()?.bytes() != before.bytes() {
            return Err(CoreError::Changed.into());
        }
        // The order matters: a process that ends immediately removes every file that is not forgotten, without waiting
        // for any step.
        side.forget();
        match side.is_named() {
            Ok(true) => {}
            Ok(false) => return Err(CoreError::Changed.into()),
            Err(error) => return Err(self.remove_side().err().unwrap_or(error)),
        }
        if let Err(error) = self.overwrite(after.bytes(), &times) {
            return match self.overwrite(before.bytes(), &times).and_then(|()| self.remove_side()) {
                Ok(()) => Err(error),
                Err(_) => Err(Error::Interrupted(Box::new(error))),
            };
        }
        self.remove_side().map_err(uncleared)?;
        Ok(after)
    }

    /// Checks that the file is what it was when it was opened, and that its name still leads to it.
    ///
    /// # Errors
    /// [`Error::Changed`](phalanx_core::Error::Changed) if not, [`Error::Read`](phalanx_core::Error::Read) or
    /// [`Error::Write`](phalanx_core::Error::Write) if it cannot be looked at.
    pub fn check_unchanged(&self) -> Result<()> {
        let now = Stamp::of(&self.file).map_err(Error::read)?;
        let is_same = self.stamp.has_same_content(&now) && is_named(&self.file, &self.dir, &self.name)?;
        if is_same { Ok(()) } else { Err(CoreError::Changed.into()) }
    }

    /// Begins a whole new file that will replace this one. Call [`InPlace::check_unchanged`] before it is committed.
    ///
    /// # Errors
    /// As for [`Output::create_in`].
    pub fn successor(&self, existing: Existing) -> Result<Output> {
        Output::create_in(self.dir.clone(), &self.name, existing)
    }

    fn check_locked(&self) -> Result<()> {
        if self.locked { Ok(()) } else { Err(Error::NoLocks) }
    }

    fn header(&self) -> Result<Header> {
        Ok(Source::ranged(Regular { file: &self.file, stamp: self.stamp }).header()?)
    }

    /// Makes the side file. An existing one is discarded, since the header in place is whole.
    fn make_side(&mut self, header: &Header) -> Result<Temporary> {
        let name = self.side_name.clone();
        match Temporary::make(&self.dir, &name) {
            Err(Errno::EXIST) => {
                self.discard(header)?;
                Temporary::make(&self.dir, &name).map_err(Error::write)
            }
            made => made.map_err(Error::write),
        }
    }

    /// Removes whatever has the side file's name, because `header` is whole in its place.
    fn discard(&mut self, header: &Header) -> Result<Unfinished> {
        if !self.has_side()? {
            return Ok(Unfinished::None);
        }
        // If the name leads to another file by now, the side file may be that one's.
        self.check_unchanged()?;
        let times = match self.side() {
            Ok(Some((side, written))) if written.bytes() == header.bytes() => self.times_by(&side)?,
            _ => times(&self.file)?,
        };
        // The header may be whole only in memory. After a failed sync the system may treat it as written, so it is
        // written again.
        self.overwrite(header.bytes(), &times)?;
        self.remove_side()?;
        Ok(Unfinished::Discarded)
    }

    fn remove_side(&self) -> Result<()> {
        let name = &*self.side_name;
        match fs::unlinkat(&self.dir, name, AtFlags::empty()) {
            Ok(()) | Err(Errno::NOENT) => sync_folder(&self.dir).map_err(Error::write),
            Err(e) => Err(in_the_way(name, e)),
        }
    }

    /// Writes the header of the side file to its place, if the one in place is torn. `error` says why the torn one does
    /// not open.
    fn finish(&mut self, error: Error, opener: &Opener<impl KeySource>) -> Result<(Ways, Unfinished)> {
        let interrupted = |error| Error::Interrupted(Box::new(error));
        if !self.has_side()? {
            return Err(error);
        }
        let Some((side, header)) = self.side()? else { return Err(interrupted(error)) };
        let mut ways = match Ways::open(header, opener) {
            Ok(ways) => ways,
            Err(e) if e.class() == Class::NotAuthentic => return Err(interrupted(error)),
            Err(e) => return Err(e.into()),
        };
        // Anybody may have planted the side file.
        if !ways.open_content(&self.file)? {
            return Err(interrupted(error));
        }
        // The side file holds an old header, and the one in place is whole: the keys at hand are no longer a way in.
        if self.header().is_ok_and(|header| ways.vouch_for(&header)) {
            return Err(error);
        }
        self.check_locked()?;
        // The run that made the side file may have been killed before it synced it.
        fs::sync_all(&side).map_err(Error::write)?;
        sync_folder(&self.dir).map_err(Error::write)?;
        let _step = step();
        self.check_unchanged()?;
        self.overwrite(ways.header().bytes(), &self.times_by(&side)?).map_err(interrupted)?;
        self.remove_side().map_err(uncleared)?;
        ways.renumber();
        Ok((ways, Unfinished::Finished))
    }

    /// The time of modification before the change to which a side file belongs. The run that made it may have been killed before it
    /// restored that time. Others can plant a copy of the header, so the side file says it only if it is as a run of this user makes one.
    fn times_by(&self, side: &File) -> Result<Timestamps> {
        let stat = fs::fstat(side).map_err(Error::read)?;
        let is_ours = is_own(&stat) && is_as_made_for_user(side, &stat);
        times(if is_ours { side } else { &self.file })
    }

    /// Whether anything has the side file's name.
    fn has_side(&self) -> Result<bool> {
        let name = &*self.side_name;
        match fs::statat(&self.dir, name, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(_) => Ok(true),
            Err(Errno::NOENT) => Ok(false),
            Err(e) => Err(in_the_way(name, e)),
        }
    }

    /// The side file and the header that it holds, if it is a regular file that holds one and nothing else.
    fn side(&self) -> Result<Option<(File, Header)>> {
        let name = &*self.side_name;
        let unread = |e: io::Error| Error::read(io::Error::new(e.kind(), format!("{name}: {e}")));
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
        let file = match fs::openat(&self.dir, name, flags, Mode::empty()) {
            // A link, and a socket.
            Err(Errno::LOOP | Errno::NXIO) => return Ok(None),
            opened => File::from(opened.map_err(|e| unread(e.into()))?),
        };
        let stat = fs::fstat(&file).map_err(|e| unread(e.into()))?;
        if FileType::from_raw_mode(stat.st_mode) != FileType::RegularFile {
            return Ok(None);
        }
        match regular(&file).and_then(|mut source| Ok(source.header()?)) {
            Ok(header) => Ok((stat.st_size == header.bytes().len() as i64).then_some((file, header))),
            Err(Error::Core(CoreError::Read(e))) => Err(unread(e)),
            Err(error) if error.class() == Class::NotAuthentic => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Writes a header into its place and syncs it. It is one call, unless the system writes only a part.
    fn overwrite(&mut self, header: &[u8], times: &Timestamps) -> Result<()> {
        self.file.write_all_at(header, 0).map_err(Error::write)?;
        self.set_times(times)?;
        fs::sync_all(&self.file).map_err(Error::write)
    }

    /// Sets the time of modification, and records the file's new stamp.
    fn set_times(&mut self, times: &Timestamps) -> Result<()> {
        tolerate(fs::futimens(&self.file, times))?;
        self.stamp = Stamp::of(&self.file).map_err(Error::read)?;
        Ok(())
    }
}

/// The time of modification, to set it again. The time of the last access is not changed.
fn times(file: &File) -> Result<Timestamps> {
    let stat = fs::fstat(file).map_err(Error::read)?;
    Ok(Timestamps {
        last_access: Timespec { tv_sec: 0, tv_nsec: UTIME_OMIT },
        last_modification: Timespec { tv_sec: stat.st_mtime, tv_nsec: stat.st_mtime_nsec as _ },
    })
}

/// The error of a step after the new header was written to its place.
fn uncleared(error: Error) -> Error {
    Error::Uncleared(Box::new(error))
}

fn in_the_way(name: &str, e: Errno) -> Error {
    Error::write(io::Error::new(e.kind(), format!("{name} is in the way: {e}")))
}
