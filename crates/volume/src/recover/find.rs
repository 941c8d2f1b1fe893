//! Finding the files that the journal names: by their inodes, or by looking at all files that have names of a volume. Never by
//! one name.

use crate::error::{Result, VolumeError};
use crate::journal::{Record, Transaction};
use crate::names::is_entry;
use crate::recover::{Target, header, open_header};
use phalanx_core::volume::{Chunks, Config, HEADER_LEN};
use rustix::fs::{Dir, FileType, Mode, OFlags, chmod, fchmod, fstat, open, openat};
use rustix::io::Errno;
use std::collections::{HashMap, HashSet};
use std::ffi::CStr;
use std::fs::File;
use std::ops::{ControlFlow, Range};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::fs::FileExt;

type Id = [u8; 16];

/// How deep folders may lie in each other. Each that is being walked takes a descriptor.
const DEPTH: usize = 400;

/// What the journal says of a file.
#[derive(Default)]
struct Claim<'t> {
    /// Where the last record says that it is.
    inode: u64,
    /// Its headers, each with its number among all records.
    headers: Vec<(usize, &'t [u8; HEADER_LEN])>,
}

/// The files that the transactions name and that still exist.
///
/// # Errors
/// If a folder cannot be walked, or a file cannot be opened that a killed run was changing.
pub(super) fn targets(root: &OwnedFd, transactions: &[Transaction], config: &Config) -> Result<HashMap<Id, Target>> {
    let mut claims: HashMap<Id, Claim> = HashMap::new();
    for (number, (owner, record)) in transactions.iter().flatten().enumerate() {
        let claim = claims.entry(owner.id).or_default();
        claim.inode = owner.inode;
        if let Record::Header(bytes) = record {
            claim.headers.push((number, bytes));
        }
    }
    let hints: HashSet<u64> = claims.values().map(|claim| claim.inode).collect();
    let (mut found, mut torn): (HashMap<Id, Target>, HashMap<u64, (File, KeySlot)>) = Default::default();
    walk(root, &mut |dir, name, inode| {
        if hints.contains(&inode)
            && let Some((file, inode)) = open_regular(dir, name)?
        {
            match target(file, inode, config)? {
                Ok((id, target)) if claims.get(&id).is_some_and(|claim| claim.inode == inode) => {
                    found.insert(id, target);
                }
                Ok(_) => {}
                Err(file) => {
                    if let Some(slot) = key_slot(&file)? {
                        torn.insert(inode, (file, slot));
                    }
                }
            }
        }
        Ok(if found.len() == claims.len() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) })
    })?;
    let mut skipped = None;
    if found.len() < claims.len() {
        // They are gone, or the volume has been copied, or a killed run has left their headers half written.
        let mut unreadable = None;
        skipped = walk(root, &mut |dir, name, _| {
            // Copies that other programs have made beside the file have names that no volume makes.
            if !is_entry(name.to_bytes()) {
                return Ok(ControlFlow::Continue(()));
            }
            let opened = open_regular(dir, name).and_then(|opened| match opened {
                Some((file, inode)) => target(file, inode, config).map(Result::ok),
                None => Ok(None),
            });
            match opened {
                Ok(Some((id, target))) if claims.contains_key(&id) => {
                    found.entry(id).or_insert(target);
                }
                Ok(_) => {}
                // It may not be one of them.
                Err(e) => unreadable = Some(e.errno()),
            }
            Ok(if found.len() == claims.len() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) })
        })?
        .or(unreadable);
    }
    // Headers that are half written: the journal has them whole. The inode may have been another file's before: then that
    // one's records are the earlier ones.
    for (inode, (file, slot)) in torn {
        let its = claims.iter().filter(|(id, claim)| !found.contains_key(*id) && claim.inode == inode);
        let whole = its.filter_map(|(id, claim)| {
            claim.headers.iter().rev().filter(|(_, bytes)| bytes[KEY_SLOT] == slot).find_map(|(number, bytes)| {
                let (header, keys, holes) = open_header(bytes, config).ok()?;
                (keys.volume_file_id() == *id).then_some((*number, *id, header, keys, holes))
            })
        });
        if let Some((_, id, header, keys, holes)) = whole.max_by_key(|(number, ..)| *number) {
            let chunks = Chunks::new(&header, &keys);
            found.insert(id, Target { file, header, holes, chunks, inode });
        }
    }
    match skipped {
        // Perhaps a file is there that the journal names.
        Some(errno) if found.len() < claims.len() => {
            Err(VolumeError::io("cannot look at everything that an interrupted run may have changed", errno))
        }
        _ => Ok(found),
    }
}

/// Where the key slot lies in a header: all headers of a file have it there, so that not even a torn one has another.
const KEY_SLOT: Range<usize> = 18..77;
type KeySlot = [u8; KEY_SLOT.end - KEY_SLOT.start];

/// The bytes where the key slot of a stored file lies; `None` if the file is too short for a header.
fn key_slot(file: &File) -> Result<Option<KeySlot>> {
    let failed = |e| VolumeError::io("cannot read a stored file", e);
    if file.metadata().map_err(failed)?.len() < HEADER_LEN as u64 {
        return Ok(None);
    }
    let mut slot = [0; KEY_SLOT.end - KEY_SLOT.start];
    file.read_exact_at(&mut slot, KEY_SLOT.start as u64).map_err(failed)?;
    Ok(Some(slot))
}

/// A file with its id, or the file alone if its header is not one of this volume.
fn target(file: File, inode: u64, config: &Config) -> Result<Result<(Id, Target), File>> {
    match header(&file, config) {
        Ok((header, keys, holes)) => {
            let chunks = Chunks::new(&header, &keys);
            Ok(Ok((keys.volume_file_id(), Target { file, header, holes, chunks, inode })))
        }
        Err(VolumeError::Core(_)) => Ok(Err(file)),
        Err(e) => Err(e),
    }
}

/// Opens a regular file for reading and writing, also where its permissions forbid that to its owner.
fn open_regular(dir: &OwnedFd, name: &CStr) -> Result<Option<(File, u64)>> {
    let failed = |e| VolumeError::io("cannot open a stored file that a killed run was changing", e);
    let flags = OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let path = match openat(dir, name, flags | OFlags::PATH, Mode::empty()) {
        Ok(path) => path,
        Err(Errno::NOENT) => return Ok(None),
        Err(e) => return Err(failed(e)),
    };
    let stat = fstat(&path).map_err(failed)?;
    if FileType::from_raw_mode(stat.st_mode) != FileType::RegularFile {
        return Ok(None);
    }
    // The same file, whatever has the name by now.
    let again = format!("/proc/self/fd/{}", path.as_raw_fd());
    let file = match open(&*again, OFlags::RDWR | OFlags::CLOEXEC, Mode::empty()) {
        Err(Errno::ACCESS) => {
            let mode = Mode::from_raw_mode(stat.st_mode);
            chmod(&*again, mode | Mode::RUSR | Mode::WUSR).map_err(failed)?;
            let opened = open(&*again, OFlags::RDWR | OFlags::CLOEXEC, Mode::empty());
            match &opened {
                Ok(file) => fchmod(file, mode).map_err(failed)?,
                Err(_) => chmod(&*again, mode).map_err(failed)?,
            }
            opened
        }
        opened => opened,
    };
    Ok(Some((File::from(file.map_err(failed)?), stat.st_ino)))
}

/// Opens a folder, also where its permissions forbid that to its owner: then it has others for a while, and those that it had
/// before are returned.
fn open_folder(dir: &OwnedFd, name: &CStr, flags: OFlags) -> Result<(OwnedFd, Option<Mode>), Errno> {
    match openat(dir, name, flags, Mode::empty()) {
        // To read a folder is not enough: what is in it has to be opened.
        Ok(fd) => match openat(&fd, c".", OFlags::PATH | OFlags::CLOEXEC, Mode::empty()) {
            Err(Errno::ACCESS) => {}
            _ => return Ok((fd, None)),
        },
        Err(Errno::ACCESS) => {}
        Err(e) => return Err(e),
    }
    let path = openat(dir, name, OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC, Mode::empty())?;
    let mode = Mode::from_raw_mode(fstat(&path)?.st_mode);
    let again = format!("/proc/self/fd/{}", path.as_raw_fd());
    chmod(&*again, mode | Mode::RWXU)?;
    match open(&*again, OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty()) {
        Ok(fd) => Ok((fd, Some(mode))),
        Err(e) => {
            chmod(&*again, mode)?;
            Err(e)
        }
    }
}

/// A folder that is being walked.
struct Walked {
    entries: Dir,
    fd: OwnedFd,
    /// The permissions that it gets back in the end.
    mode: Option<Mode>,
}

impl Drop for Walked {
    fn drop(&mut self) {
        if let Some(mode) = self.mode {
            // Otherwise its owner has more rights than before, and nobody else has.
            let _ = fchmod(&self.fd, mode);
        }
    }
}

/// What is done with an entry: its folder, its name, and its inode as the folder has it.
type Visit<'v> = dyn FnMut(&OwnedFd, &CStr, u64) -> Result<ControlFlow<()>> + 'v;

/// Visits everything in a folder that is neither a folder nor a link, and all folders in it, through descriptors. Returns why a
/// folder was left out, if one was.
fn walk(root: &OwnedFd, visit: &mut Visit<'_>) -> Result<Option<Errno>> {
    let failed = |e| VolumeError::io("cannot walk the volume", e);
    let device = fstat(root).map_err(failed)?.st_dev;
    let entries = |dir: &OwnedFd| Dir::read_from(dir).map_err(failed);
    let copy = root.as_fd().try_clone_to_owned().map_err(|e| VolumeError::io("cannot walk the volume", e))?;
    let mut stack = vec![Walked { entries: entries(&copy)?, fd: copy, mode: None }];
    let mut skipped = None;
    loop {
        let has_room = stack.len() < DEPTH;
        let Some(Walked { entries: dir, fd, .. }) = stack.last_mut() else { return Ok(skipped) };
        let Some(entry) = dir.read() else {
            stack.pop();
            continue;
        };
        let entry = entry.map_err(failed)?;
        let name = entry.file_name();
        if matches!(name.to_bytes(), b"." | b"..") {
            continue;
        }
        match entry.file_type() {
            FileType::Directory | FileType::Unknown => {}
            FileType::Symlink => continue,
            _ => {
                if visit(fd, name, entry.ino())?.is_break() {
                    return Ok(None);
                }
                continue;
            }
        }
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        match open_folder(fd, name, flags) {
            // Another file system may be mounted there.
            Ok((folder, _)) if fstat(&folder).map_err(failed)?.st_dev != device => {}
            Ok(_) if !has_room => skipped = Some(Errno::NAMETOOLONG),
            Ok((folder, mode)) => stack.push(Walked { entries: entries(&folder)?, fd: folder, mode }),
            Err(Errno::NOTDIR) if entry.file_type() == FileType::Unknown => {
                if visit(fd, name, entry.ino())?.is_break() {
                    return Ok(None);
                }
            }
            // Removed meanwhile.
            Err(Errno::NOENT | Errno::LOOP | Errno::NOTDIR) => {}
            // Not a folder of this user. But the killed run may have been root's.
            Err(errno @ (Errno::ACCESS | Errno::PERM)) => skipped = Some(errno),
            Err(e) => return Err(failed(e)),
        }
    }
}
