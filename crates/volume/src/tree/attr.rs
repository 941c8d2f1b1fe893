//! The attributes of entries: read, and changed.

use crate::error::{Result, VolumeError};
use crate::folder::{FOLDER, SAFELY, kind_of};
use crate::names::target_len;
use crate::tree::base::{Failed, Tree};
use crate::tree::kind::Kind;
use crate::tree::node::ROOT;
use crate::tree::stored::{change_mode, through_proc};
use rustix::fs::{
    AtFlags, CWD, FileType, Gid, Mode, OFlags, Stat, StatVfs, Timespec, Timestamps, Uid, chownat, fdatasync, fstat,
    fstatvfs, fsync, openat, readlinkat, statat, utimensat,
};
use rustix::io::Errno;
use std::fs::File;
use std::sync::atomic::Ordering;

/// The attributes of an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Attr {
    /// The number of its node.
    pub number: u64,
    /// What it is.
    pub kind: Kind,
    /// The length of a regular file or of a link's target in plaintext, in bytes; 0 if the stored length is impossible.
    pub size: u64,
    /// How many blocks of 512 bytes are stored.
    pub blocks: u64,
    /// Access time: seconds, and nanoseconds.
    pub atime: (i64, u32),
    /// Modification time: seconds, and nanoseconds.
    pub mtime: (i64, u32),
    /// Change time: seconds, and nanoseconds.
    pub ctime: (i64, u32),
    /// The permission bits, with those for set-user-ID, set-group-ID and sticky.
    pub mode: u32,
    /// How many names it has.
    pub links: u32,
    /// The owner.
    pub uid: u32,
    /// The group.
    pub gid: u32,
    /// The device that a device node stands for.
    pub device: u64,
    /// The preferred size of a request, in bytes.
    pub block_size: u32,
}

/// Which attributes to change, and to what.
#[derive(Clone, Debug, Default)]
pub struct SetAttr {
    /// The permission bits, with those for set-user-ID, set-group-ID and sticky.
    pub mode: Option<u32>,
    /// The owner.
    pub uid: Option<u32>,
    /// The group.
    pub gid: Option<u32>,
    /// Access time and modification time, with `UTIME_NOW` and `UTIME_OMIT` as in `utimensat`.
    pub times: Option<Timestamps>,
}

impl SetAttr {
    /// Whether nothing is to be changed.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.mode.is_none() && self.uid.is_none() && self.gid.is_none() && self.times.is_none()
    }

    /// Times for [`SetAttr::times`], each as seconds and nanoseconds; `None` leaves one as it is.
    #[must_use]
    pub fn times(atime: Option<(i64, u32)>, mtime: Option<(i64, u32)>) -> Timestamps {
        let omit = Timespec { tv_sec: 0, tv_nsec: rustix::fs::UTIME_OMIT };
        let time = |time: Option<(i64, u32)>| {
            time.map_or(omit, |(seconds, nanos)| Timespec { tv_sec: seconds, tv_nsec: nanos.into() })
        };
        Timestamps { last_access: time(atime), last_modification: time(mtime) }
    }
}

impl Tree {
    /// The attributes of a node.
    ///
    /// # Errors
    /// `ESTALE` if its entry has been replaced from outside.
    pub fn getattr(&self, number: u64) -> Result<Attr> {
        if number == ROOT {
            return Ok(self.attr(ROOT, Kind::Folder, &fstat(&self.root)?));
        }
        self.at(number, |fd, place| {
            let stat = match &place.pin {
                Some(pin) => fstat(pin)?,
                None => statat(fd, &*place.stored, AtFlags::SYMLINK_NOFOLLOW)?,
            };
            self.is_its(place, &stat)?;
            Ok(self.attr(number, place.kind, &stat))
        })
    }

    /// Changes the owner, the permissions and the times of a node, in this order, since a new owner clears the bits for
    /// set-user-ID and set-group-ID.
    ///
    /// # Errors
    /// As `chown`, `chmod` and `utimensat` have them; `EROFS` in a tree that is only read.
    pub fn set_attr(&self, number: u64, change: &SetAttr) -> Result<Attr> {
        self.check_writable()?;
        let handle = self.handle(number)?;
        if change.uid.is_some() || change.gid.is_some() {
            let (uid, gid) = (change.uid.map(Uid::from_raw), change.gid.map(Gid::from_raw));
            chownat(&handle, "", uid, gid, AtFlags::EMPTY_PATH)?;
        }
        if let Some(mode) = change.mode {
            change_mode(&handle, mode)?;
        }
        if let Some(times) = &change.times {
            utimensat(&handle, "", times, AtFlags::EMPTY_PATH)?;
        }
        let stat = fstat(&handle)?;
        Ok(self.attr(number, self.kind(&stat)?, &stat))
    }

    /// Clears set-user-ID and set-group-ID, because a process with this group changes the content. Returns whether one
    /// of them was cleared. On a file that its group may not execute, set-group-ID stays if the process has the file's
    /// group. (Linux looks at all groups of a process, but they are not known here.)
    ///
    /// # Errors
    /// Those of [`Tree::set_attr`].
    pub fn take_set_ids(&self, number: u64, gid: u32) -> Result<bool> {
        const SET_USER_ID: u32 = 0o4000;
        const SET_GROUP_ID: u32 = 0o2000;
        const GROUP_EXECUTE: u32 = 0o0010;
        let attr = self.getattr(number)?;
        let is_mark = attr.mode & GROUP_EXECUTE == 0 && attr.gid == gid;
        let left = attr.mode & !(SET_USER_ID | if is_mark { 0 } else { SET_GROUP_ID });
        if left == attr.mode {
            return Ok(false);
        }
        self.set_attr(number, &SetAttr { mode: Some(left), ..SetAttr::default() })?;
        Ok(true)
    }

    /// The target of a symbolic link.
    ///
    /// # Errors
    /// `EINVAL` if the node is no link, [`VolumeError::Damaged`] if its target was not made for its place.
    pub fn readlink(&self, number: u64) -> Result<Vec<u8>> {
        let place = self.nodes().place(number)?;
        if place.kind != Kind::Link {
            return Err(Errno::INVAL.into());
        }
        let parent = self.dir(place.parent)?;
        self.at(number, |fd, now| {
            let target = match &now.pin {
                Some(pin) => readlinkat(pin, "", Vec::new())?,
                None => readlinkat(fd, &*now.stored, Vec::new())?,
            };
            let id = if now.parent == place.parent { Some(parent.id) } else { self.known_id(now.parent) };
            id.and_then(|id| self.names.open_link(&id, &now.stored, target.as_bytes())).ok_or_else(|| {
                Failed::Stale(VolumeError::Damaged(format!("{}: not its target", String::from_utf8_lossy(&now.stored))))
            })
        })
        .inspect_err(|error| self.report(error))
    }

    /// The id of a folder, if it has been read.
    fn known_id(&self, number: u64) -> Option<crate::names::FolderId> {
        self.nodes().known_folder(number)?.id.get().copied()
    }

    /// Opens the stored file of a node.
    ///
    /// # Errors
    /// As `open` has them; `EISDIR` or `EINVAL` if it is no regular file.
    pub fn open_file(&self, number: u64, write: bool) -> Result<File> {
        if write {
            self.check_writable()?;
        }
        let how = if write { OFlags::RDWR } else { OFlags::RDONLY } | OFlags::CLOEXEC | OFlags::NONBLOCK;
        self.at(number, |fd, place| {
            match place.kind {
                Kind::File => {}
                Kind::Folder => return Err(Failed::Now(Errno::ISDIR.into())),
                _ => return Err(Failed::Now(Errno::INVAL.into())),
            }
            let open = |how| match &place.pin {
                Some(pin) => openat(CWD, through_proc(pin), how, Mode::empty()),
                None => openat(fd, &*place.stored, how | SAFELY, Mode::empty()),
            };
            // The volume's own reads must not change the access time. Only the owner of a file may ask for that.
            let file = match open(how | OFlags::NOATIME) {
                Err(Errno::PERM) => open(how)?,
                opened => opened?,
            };
            self.is_its(place, &fstat(&file)?)?;
            self.limits.check_file(&file)?;
            Ok(File::from(file))
        })
    }

    /// Syncs a folder: its entries, and what is needed to read it.
    ///
    /// # Errors
    /// If the system cannot.
    pub fn sync_folder(&self, number: u64) -> Result<()> {
        self.sync_above(number)?;
        // A new folder in it could not be read without its id.
        let inner = self.nodes().folders_in(number);
        inner.into_iter().try_for_each(|folder| self.sync_above(folder))?;
        let fd = self.descriptor(number)?;
        let synced = match fsync(&fd) {
            // The descriptor is good only for going through the folder, not for a sync.
            Err(Errno::BADF) => fsync(openat(&fd, ".", OFlags::RDONLY | SAFELY, Mode::empty())?),
            synced => synced,
        };
        self.check_synced(synced)
    }

    /// Checks the result of a sync of a folder. If the system has lost writes, all further syncs fail.
    pub(super) fn check_synced(&self, synced: Result<(), Errno>) -> Result<()> {
        if let Err(errno @ (Errno::IO | Errno::NOSPC | Errno::DQUOT)) = synced
            && !self.is_lost.swap(true, Ordering::AcqRel)
        {
            let errno = std::io::Error::from(errno);
            (self.options.on_damage)(&format!(
                "a folder could not be synced, and no sync succeeds from now on: {errno}"
            ));
        }
        if self.is_lost.load(Ordering::Acquire) { Err(Errno::IO.into()) } else { Ok(synced?) }
    }

    /// Syncs what is needed to read the folders above a file. Call it when the file is synced: otherwise the file could
    /// not be found after a power cut.
    ///
    /// # Errors
    /// If the system cannot.
    pub fn sync_place(&self, number: u64) -> Result<()> {
        let parent = self.nodes().place(number)?.parent;
        self.sync_above(parent)
    }

    /// Makes sure that the ids of a folder and of all above it are on the disk.
    pub(super) fn sync_above(&self, number: u64) -> Result<()> {
        if self.options.read_only {
            return Ok(());
        }
        self.check_synced(Ok(()))?;
        let above: Vec<_> = {
            let nodes = self.nodes();
            let unsynced = |number| nodes.known_folder(number).filter(|known| !known.is_synced.load(Ordering::Acquire));
            nodes.ancestors(number).filter_map(unsynced).collect()
        };
        for folder in above {
            // Another thread may be moving it, so this tries again. If it stays stale, it was removed.
            let opened = (0..3).map(|_| self.descriptor(folder.number)).find(|opened| !is_stale(opened));
            let Some(fd) = opened else { continue };
            let fd = fd?;
            match openat(&fd, FOLDER, OFlags::RDONLY | SAFELY, Mode::empty()) {
                Ok(file) if kind_of(&fstat(&file)?) == FileType::RegularFile => {
                    self.check_synced(fdatasync(&file))?;
                }
                // A folder that was removed or altered from outside. Nothing in it has to be found again.
                Ok(_) | Err(Errno::NOENT | Errno::LOOP | Errno::NXIO) => continue,
                Err(errno) => return Err(errno.into()),
            }
            folder.is_synced.store(true, Ordering::Release);
        }
        Ok(())
    }

    /// The state of the backing file system, with the longest name in a volume.
    ///
    /// # Errors
    /// If the system cannot say.
    pub fn statfs(&self) -> Result<StatVfs> {
        let mut state = fstatvfs(&self.root)?;
        state.f_namemax = crate::names::MAX_NAME as u64;
        Ok(state)
    }

    /// What users see of a stored entry.
    pub(super) fn attr(&self, number: u64, kind: Kind, stat: &Stat) -> Attr {
        let stored = u64::try_from(stat.st_size).unwrap_or(0);
        let size = match kind {
            // A file of an impossible length is shown, so that it can be removed.
            Kind::File => (self.options.plain_len)(stored).unwrap_or(0),
            Kind::Link => target_len(stored).unwrap_or(0),
            _ => stored,
        };
        // The types of these fields depend on the architecture.
        #[allow(clippy::useless_conversion, clippy::cast_possible_truncation, clippy::unnecessary_cast)]
        Attr {
            number,
            kind,
            size,
            blocks: u64::try_from(stat.st_blocks).unwrap_or(0),
            atime: (stat.st_atime as i64, stat.st_atime_nsec as u32),
            mtime: (stat.st_mtime as i64, stat.st_mtime_nsec as u32),
            ctime: (stat.st_ctime as i64, stat.st_ctime_nsec as u32),
            mode: stat.st_mode & 0o7777,
            links: u32::try_from(stat.st_nlink).unwrap_or(u32::MAX),
            uid: stat.st_uid,
            gid: stat.st_gid,
            device: stat.st_rdev,
            block_size: u32::try_from(stat.st_blksize).unwrap_or(4096),
        }
    }
}

fn is_stale<T>(opened: &Result<T>) -> bool {
    matches!(opened, Err(VolumeError::Refused(Errno::STALE)))
}
