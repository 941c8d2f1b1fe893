//! The files that belong to a folder itself: `phalanx.folder`, which holds its id, and the files beside long names
//! (`docs/format-volumes.md`, section 10.4).

use crate::error::{Result, VolumeError};
use crate::names::{FolderId, Names, RECORD_LEN, full_name};
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::fs::{
    AtFlags, FileType, Gid, Mode, OFlags, Stat, Uid, fchown, fdatasync, fstat, openat, renameat, statat, unlinkat,
};
use rustix::io::{Errno, retry_on_intr};
use rustix::process::geteuid;
use std::sync::atomic::{AtomicU64, Ordering};

pub use phalanx_host::volumes::FOLDER;

/// The prefix of the names of entries that are being made.
pub const NEW: &str = "phalanx.new.";
/// The prefix of the names of entries that are being removed.
pub const GONE: &str = "phalanx.gone.";

/// The flags of every open: no links are followed, no FIFO is waited for, no other program inherits the descriptor.
pub(crate) const SAFELY: OFlags = OFlags::NOFOLLOW.union(OFlags::CLOEXEC).union(OFlags::NONBLOCK).union(OFlags::NOCTTY);

/// Names for what is being made or removed. They are unique, also across runs.
pub(crate) struct Fresh {
    run: u64,
    count: AtomicU64,
}

impl Fresh {
    pub(crate) fn new() -> Result<Self> {
        let run = getrandom::u64().map_err(phalanx_core::Error::Random)?;
        Ok(Self { run, count: AtomicU64::new(0) })
    }

    /// Whether a name was made in this run.
    pub(crate) fn is_own(&self, name: &[u8]) -> bool {
        let rest = name.strip_prefix(NEW.as_bytes()).or_else(|| name.strip_prefix(GONE.as_bytes()));
        rest.is_some_and(|rest| rest.starts_with(format!("{:016x}", self.run).as_bytes()))
    }

    /// Makes an entry under a name that begins with the prefix, and returns the name too. Tries other names if another
    /// program has taken some.
    pub(crate) fn make<T>(&self, prefix: &str, mut make: impl FnMut(&str) -> Result<T, Errno>) -> Result<(String, T)> {
        for _ in 0..16 {
            let count = self.count.fetch_add(1, Ordering::Relaxed);
            let name = format!("{prefix}{:016x}{count:08x}", self.run);
            match make(&name) {
                Err(Errno::EXIST) => {}
                made => return Ok((name, made?)),
            }
        }
        Err(VolumeError::Damaged("the names of new entries are all taken".into()))
    }
}

/// What `phalanx.folder` holds: one record, or two while the folder is being renamed.
pub(crate) struct Records(Vec<[u8; RECORD_LEN]>);

impl Records {
    /// Reads them; `None` if the file is missing or not in the format.
    pub(crate) fn read(folder: BorrowedFd<'_>) -> Result<Option<Self>> {
        let Some(bytes) = read_small(folder, FOLDER.as_bytes(), 2 * RECORD_LEN)? else { return Ok(None) };
        let records: Vec<_> = bytes.chunks(RECORD_LEN).filter_map(|record| record.try_into().ok()).collect();
        Ok((bytes.len() == RECORD_LEN * records.len() && !records.is_empty()).then_some(Self(records)))
    }

    /// The id in the first record that decrypts in this place. Also that record, if the file holds another one too.
    pub(crate) fn open(
        &self,
        names: &Names,
        parent: &FolderId,
        stored: &[u8],
    ) -> Option<(FolderId, Option<[u8; RECORD_LEN]>)> {
        let mut opened = self.0.iter().filter_map(|record| Some((names.open_folder(parent, stored, record)?, *record)));
        opened.next().map(|(id, record)| (id, (self.0.len() > 1).then_some(record)))
    }
}

/// Writes `phalanx.folder` into a new folder.
pub(crate) fn write_new(folder: BorrowedFd<'_>, record: &[u8; RECORD_LEN]) -> Result<OwnedFd, Errno> {
    let file = create(folder, FOLDER)?;
    write_all(&file, record)?;
    Ok(file)
}

/// Replaces `phalanx.folder`. The new file is on the disk before it replaces the old one, so there is always a whole
/// one.
pub(crate) fn replace(folder: BorrowedFd<'_>, fresh: &Fresh, records: &[[u8; RECORD_LEN]]) -> Result<()> {
    write_and_rename(folder, fresh, FOLDER.as_bytes(), &records.concat())
}

/// Writes the file beside an entry with a long name.
pub(crate) fn write_full(folder: BorrowedFd<'_>, fresh: &Fresh, stored: &[u8], sealed: &[u8]) -> Result<()> {
    write_and_rename(folder, fresh, &full_name(stored), sealed)
}

/// Reads the file beside an entry with a long name; `None` if it is missing or cannot be such a file.
pub(crate) fn read_full(folder: BorrowedFd<'_>, stored: &[u8]) -> Result<Option<Vec<u8>>> {
    read_small(folder, &full_name(stored), 512)
}

fn write_and_rename(folder: BorrowedFd<'_>, fresh: &Fresh, name: &[u8], content: &[u8]) -> Result<()> {
    let (new, file) = fresh.make(NEW, |new| create(folder, new))?;
    let write = || {
        give_to_owner(&file, folder)?;
        write_all(&file, content)?;
        fdatasync(&file)?;
        renameat(folder, &*new, folder, name)
    };
    Ok(write().inspect_err(|_| {
        let _ = unlinkat(folder, &*new, AtFlags::empty());
    })?)
}

/// Gives a new file to the owner of the folder, who can then use it without the superuser.
pub(crate) fn give_to_owner(file: impl AsFd, folder: impl AsFd) -> Result<(), Errno> {
    let owner = fstat(folder)?;
    if geteuid().is_root() && owner.st_uid != 0 {
        fchown(file, Some(Uid::from_raw(owner.st_uid)), Some(Gid::from_raw(owner.st_gid)))?;
    }
    Ok(())
}

fn create(folder: BorrowedFd<'_>, name: &str) -> Result<OwnedFd, Errno> {
    openat(folder, name, OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | SAFELY, Mode::RUSR | Mode::WUSR)
}

fn write_all(file: &OwnedFd, mut bytes: &[u8]) -> Result<(), Errno> {
    while !bytes.is_empty() {
        match retry_on_intr(|| rustix::io::write(file, bytes))? {
            0 => return Err(Errno::IO),
            written => bytes = &bytes[written..],
        }
    }
    Ok(())
}

/// Reads a regular file of at most `limit` bytes; `None` if it is missing, longer, or not a regular file.
fn read_small(folder: BorrowedFd<'_>, name: &[u8], limit: usize) -> Result<Option<Vec<u8>>> {
    let file = match openat(folder, name, OFlags::RDONLY | SAFELY, Mode::empty()) {
        Ok(file) => file,
        // Nothing, a link, a socket or a device without a driver.
        Err(Errno::NOENT | Errno::LOOP | Errno::NXIO | Errno::NODEV) => return Ok(None),
        Err(errno) => return Err(errno.into()),
    };
    if kind_of(&fstat(&file)?) != FileType::RegularFile {
        return Ok(None);
    }
    let mut bytes = vec![0; limit + 1];
    let mut len = 0;
    while len < bytes.len() {
        match retry_on_intr(|| rustix::io::read(&file, &mut bytes[len..]))? {
            0 => break,
            read => len += read,
        }
    }
    bytes.truncate(len);
    Ok((len <= limit).then_some(bytes))
}

/// Writes the `phalanx.folder` of the root of a new volume, and syncs it.
///
/// # Errors
/// If it exists, or cannot be written.
pub fn init(root: impl AsFd, names: &Names) -> Result<()> {
    let mut id = [0; 16];
    getrandom::fill(&mut id).map_err(phalanx_core::Error::Random)?;
    let root = root.as_fd();
    let record = names.seal_folder(&[0; 16], b"", &id);
    match statat(root, FOLDER, AtFlags::SYMLINK_NOFOLLOW) {
        Err(Errno::NOENT) => replace(root, &Fresh::new()?, &[record]),
        Ok(_) => Err(Errno::EXIST.into()),
        Err(errno) => Err(VolumeError::io("cannot look into the root folder", errno)),
    }
}

pub(crate) fn kind_of(stat: &Stat) -> FileType {
    FileType::from_raw_mode(stat.st_mode)
}
