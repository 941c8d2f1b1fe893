//! Unmounting one mount, and no other.
//!
//! A path does not identify a mount: somebody may unmount it and mount another at the same place, mount something over
//! it, or rename the mountpoint. Nor does a mount number, which the kernel gives to another mount once it is free. But
//! until the kernel has ended a session, its file system exists, and nothing else has its device number.

use super::table::{self, Entry, Table};
use super::{MountError, Mountpoint, place};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{Mode, OFlags, fstatfs};
use rustix::io::Errno;
use rustix::mount::UnmountFlags;
use std::fs::{self, File};
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, IntoRawFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::{Arc, mpsc};
use std::thread;
use std::time::Duration;

/// Unmounts one mount, and never another one that is in the same place later.
#[derive(Clone, Debug)]
pub struct Stopper(Arc<Mount>);

/// How an unmount ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stopped {
    /// Nothing is mounted any more, and the session ends.
    Unmounted,
    /// The mount was in use. Its name is gone, and the session ends when the last file in it is closed.
    Busy,
}

#[derive(Debug)]
struct Mount {
    /// It shows when the session is over.
    device: OwnedFd,
    mountpoint: Mountpoint,
    /// `None` if the kernel did not show the mount.
    id: Option<Id>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Id {
    /// The number of the mount.
    number: u64,
    /// The device number of its file system.
    device: (u64, u64),
}

impl Id {
    fn of(entry: &Entry) -> Self {
        Self { number: entry.number, device: entry.device }
    }
}

/// The path of the mount, and its topmost folder.
struct MountFolder {
    path: PathBuf,
    folder: OwnedFd,
}

impl MountFolder {
    /// Detaches the mount from the file tree.
    fn detach(&self, flags: UnmountFlags) -> Result<(), MountError> {
        match detach(self.folder.as_fd(), flags) {
            Err(Errno::PERM) => detach_as_user(&self.path),
            done => done.map_err(MountError::io("unmounting")),
        }
    }
}

/// A mount without a name, which lasts until this is dropped or its last file is closed.
struct Nameless(Option<OwnedFd>);

impl Stopper {
    /// A stopper for what has just been mounted with this device.
    pub(super) fn new(device: OwnedFd, mountpoint: &Mountpoint) -> Self {
        let table = Table::read();
        let entry = table.as_ref().and_then(|table| match table::served_by(&device) {
            Some(device) => table.of_device(device),
            None => table.at(mountpoint.path()).filter(|entry| entry.is_fuse),
        });
        Self(Arc::new(Mount { id: entry.map(Id::of), device, mountpoint: mountpoint.clone() }))
    }

    /// Where it was mounted.
    #[must_use]
    pub fn mountpoint(&self) -> &Path {
        self.0.mountpoint.path()
    }

    /// Whether the kernel has ended the session. It does that when the file system is mounted nowhere and not in use.
    #[must_use]
    pub fn is_over(&self) -> bool {
        const NOW: Timespec = Timespec { tv_sec: 0, tv_nsec: 0 };
        let mut device = [PollFd::new(&self.0.device, PollFlags::empty())];
        let seen = rustix::io::retry_on_intr(|| poll(&mut device, Some(&NOW)));
        seen.is_ok() && device[0].revents().contains(PollFlags::ERR)
    }

    /// Unmounts. The kernel first writes what it has cached, so this may take a while.
    ///
    /// # Errors
    /// [`MountError::Covered`] if something else is mounted on top, or on a folder in it. Otherwise if the system
    /// refuses, or does not show which mount is the session's own.
    pub fn stop(&self) -> Result<Stopped, MountError> {
        drop(self.take_name(UnmountFlags::empty())?);
        Ok(if self.is_over() { Stopped::Unmounted } else { Stopped::Busy })
    }

    /// Unmounts as [`Self::stop`] does. If something else is mounted on top, calls `wait` once, and waits until that is
    /// gone.
    ///
    /// # Errors
    /// If the system refuses, or does not show which mount is the session's own.
    pub fn stop_when_uncovered(&self, wait: impl FnOnce()) -> Result<Stopped, MountError> {
        let table = File::open(table::PATH).map_err(|_| MountError::NotSeen)?;
        let mut wait = Some(wait);
        loop {
            match self.stop() {
                Err(MountError::Covered) => {}
                done => return done,
            }
            if let Some(wait) = wait.take() {
                wait();
            }
            // The kernel reports when mounts have changed since the table was opened or last polled.
            let mut either = [PollFd::new(&table, PollFlags::PRI), PollFd::new(&self.0.device, PollFlags::empty())];
            rustix::io::retry_on_intr(|| poll(&mut either, None))
                .map_err(MountError::io("waiting for other mounts"))?;
        }
    }

    /// Unmounts, but only if nobody has a file, folder or working directory open in it, and nothing is mounted on it.
    /// Returns whether the mount is gone.
    ///
    /// An open folder would keep the mount in use, so none can identify it here. But the kernel unmounts an expired
    /// mount (`MNT_EXPIRE`) only if it was marked before and nobody has accessed it since. The list of mounts shows
    /// which one was marked, and a later mount at the same place has no mark.
    ///
    /// # Errors
    /// If the system refuses, or does not show which mount is the session's own.
    pub fn stop_if_unused(&self) -> Result<bool, MountError> {
        let before = Table::read();
        let path = match self.find() {
            Ok(Some(MountFolder { path, folder })) => {
                drop(folder);
                path
            }
            Ok(None) => return Ok(true),
            Err(MountError::Covered) => return Ok(false),
            Err(e) => return Err(e),
        };
        match expire(&path) {
            Err(Errno::AGAIN) => {}
            Err(Errno::PERM) => return unmount_as_user(&path),
            done => return is_gone(done),
        }
        // If the mounts have not changed, the path led to this one.
        let after = Table::read();
        if self.is_over() {
            return Ok(true);
        }
        if before != after {
            return Ok(false);
        }
        is_gone(expire(&path))
    }

    /// Unmounts a mount that is no longer served. The kernel must not write to it: it would wait for ever. Where it can,
    /// the session is over afterwards.
    pub(super) fn abandon(&self) {
        // Root ends the session by force. The others who may do that have a file for it, which is not everywhere.
        let Ok(Nameless(folder)) = self.take_name(UnmountFlags::FORCE) else { return };
        if let Some(id) = self.0.id.filter(|_| !self.is_over()) {
            let _ = fs::write(format!("/sys/fs/fuse/connections/{}/abort", id.device.1), "1");
        }
        if !self.is_over() {
            // It stays open until the process ends, and so the device is closed.
            let _ = folder.map(IntoRawFd::into_raw_fd);
        }
    }

    /// Unmounts what is left of a session that is over although nobody has unmounted it: root ends sessions by `umount -f`,
    /// and whoever has mounted them by the file `abort`. Returns whether there was such a mount. One that is covered stays.
    pub(super) fn unmount_dead(&self) -> bool {
        // By now another mount may have its number and its device number, but hardly in the same place without a program.
        match self.find_listed() {
            Ok(Some(mount)) if mount.path == self.0.mountpoint.place() && is_dead(&mount.folder) => {
                // If it stays, it does no more than before.
                let _ = mount.detach(UnmountFlags::empty());
                true
            }
            // Whether it has a program cannot be seen through what lies on top of it.
            Err(MountError::Covered) => self.is_in_place(),
            _ => false,
        }
    }

    /// Whether the kernel lists a mount with this session's numbers where its mountpoint is.
    fn is_in_place(&self) -> bool {
        let (Some(id), Some(table)) = (self.0.id, Table::read()) else { return false };
        let place = self.0.mountpoint.place();
        table.numbered(id.number).is_some_and(|entry| Id::of(entry) == id && entry.path == place)
    }

    fn take_name(&self, flags: UnmountFlags) -> Result<Nameless, MountError> {
        let Some(mount) = self.find()? else { return Ok(Nameless(None)) };
        mount.detach(flags)?;
        Ok(Nameless(Some(mount.folder)))
    }

    /// `None` if the mount is gone.
    fn find(&self) -> Result<Option<MountFolder>, MountError> {
        if self.is_over() {
            return Ok(None);
        }
        let found = self.find_listed();
        // What was found may be another mount, if the session has ended meanwhile.
        if self.is_over() { Ok(None) } else { found }
    }

    /// The mount that the kernel lists with this session's numbers.
    fn find_listed(&self) -> Result<Option<MountFolder>, MountError> {
        let id = self.0.id.ok_or(MountError::NotSeen)?;
        let find = || {
            let table = Table::read().ok_or(MountError::NotSeen)?;
            let entry = table.numbered(id.number).filter(|entry| Id::of(entry) == id);
            Ok(entry.map(|entry| (entry.path.clone(), table.is_covered(entry))))
        };
        // The mount may have another path by now, if its folder or one above it was renamed.
        let Some((path, _)) = find()? else { return Ok(None) };
        let wanted = OFlags::PATH | OFlags::NOFOLLOW | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let folder = match rustix::fs::open(&path, wanted, Mode::empty()) {
            Ok(folder) => folder,
            Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP) => return Err(MountError::Covered),
            Err(e) => return Err(MountError::io("looking for the mount")(e)),
        };
        // If the opened folder lies on this mount now, it stays there.
        let number = table::mount_of(&folder);
        match find()? {
            Some((_, is_covered)) if is_covered || number != Some(id.number) => Err(MountError::Covered),
            Some(_) => Ok(Some(MountFolder { path, folder })),
            None => Ok(None),
        }
    }
}

/// Whether the file system of an opened folder has lost its program. One that does not answer soon has not: it may be
/// stopped.
fn is_dead(folder: &OwnedFd) -> bool {
    const SOON: Duration = Duration::from_secs(2);
    let Ok(folder) = folder.try_clone() else { return false };
    let (says, said) = mpsc::channel();
    // The kernel asks the program, unless there is none.
    let ask = move || says.send(fstatfs(&folder).err() == Some(Errno::NOTCONN));
    let asks = thread::Builder::new().name("dead".into()).spawn(ask).is_ok();
    asks && said.recv_timeout(SOON) == Ok(true)
}

/// Detaches the mount of an opened folder from the file tree.
fn detach(folder: BorrowedFd<'_>, flags: UnmountFlags) -> rustix::io::Result<()> {
    rustix::mount::unmount(format!("/proc/self/fd/{}", folder.as_raw_fd()), UnmountFlags::DETACH | flags)
}

/// Unmounts what is at a path if it is marked and unused; otherwise marks it (`AGAIN`).
fn expire(path: &Path) -> rustix::io::Result<()> {
    rustix::mount::unmount(path, UnmountFlags::EXPIRE | UnmountFlags::NOFOLLOW)
}

/// Whether a mount is gone, from the result of unmounting it.
fn is_gone(unmounted: rustix::io::Result<()>) -> Result<bool, MountError> {
    match unmounted {
        Ok(()) => Ok(true),
        // It is in use, was accessed, or is already gone; the next try will show that.
        Err(Errno::BUSY | Errno::AGAIN | Errno::INVAL | Errno::NOENT) => Ok(false),
        Err(e) => Err(MountError::io("unmounting")(e)),
    }
}

/// Detaches a mount for users other than root, with a program that accepts only a path.
fn detach_as_user(path: &Path) -> Result<(), MountError> {
    let output = fusermount(&["-u", "-z", "--"], path)?;
    if output.status.success() { Ok(()) } else { Err(refused()) }
}

/// Unmounts for users other than root, but leaves a mount that is in use. Returns whether it is gone.
fn unmount_as_user(path: &Path) -> Result<bool, MountError> {
    let output = fusermount(&["-u", "--"], path)?;
    match output.status.success() {
        true => Ok(true),
        false if String::from_utf8_lossy(&output.stderr).contains(BUSY) => Ok(false),
        false => Err(refused()),
    }
}

/// The C library's text for `EBUSY`. fusermount3 has no other language.
const BUSY: &str = "Device or resource busy";

fn fusermount(options: &[&str], path: &Path) -> Result<Output, MountError> {
    let program = place::fusermount().ok_or(MountError::NoFusermount)?;
    let mut command = Command::new(program);
    command.args(options).arg(path).stdin(Stdio::null());
    command.output().map_err(|source| MountError::Io { doing: "running fusermount3", source })
}

fn refused() -> MountError {
    MountError::Io { doing: "unmounting", source: io::Error::other("fusermount3 refused") }
}
