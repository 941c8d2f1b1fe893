//! Finding the files that the journal names: by their inodes, or by looking at all files that have names of a volume. A
//! single name is never trusted.

use crate::error::{Result, VolumeError};
use crate::header;
use crate::journal::{Record, Transaction};
use crate::names::is_entry;
use crate::recover::target::Target;
use crate::recover::walk::walk;
use phalanx_core::volume::{Config, HEADER_LEN};
use rustix::fs::{FileType, Mode, OFlags, chmod, fchmod, fstat, open, openat};
use rustix::io::Errno;
use std::collections::{HashMap, HashSet};
use std::ffi::CStr;
use std::fs::File;
use std::ops::{ControlFlow, Range};
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::fs::FileExt;

type Id = [u8; 16];

/// What the journal says about a file.
#[derive(Default)]
struct Claim<'t> {
    /// The inode in the last record.
    inode: u64,
    /// Its headers, each with its number among all records.
    headers: Vec<(usize, &'t [u8; HEADER_LEN])>,
    /// Whether it was about to be removed. If that failed, or a power cut has undone it, the file still has its inode.
    is_gone: bool,
}

/// The files that the transactions name and that still exist.
///
/// # Errors
/// If a folder cannot be walked, or a file that a killed run was changing cannot be opened.
pub(super) fn targets(root: &OwnedFd, transactions: &[Transaction], config: &Config) -> Result<HashMap<Id, Target>> {
    let mut claims: HashMap<Id, Claim> = HashMap::new();
    for (number, (owner, record)) in transactions.iter().flatten().enumerate() {
        let claim = claims.entry(owner.id).or_default();
        claim.inode = owner.inode;
        match record {
            Record::Header(bytes) => claim.headers.push((number, bytes)),
            Record::Gone => claim.is_gone = true,
            _ => {}
        }
    }
    let hints: HashSet<u64> = claims.values().map(|claim| claim.inode).collect();
    let (mut found, mut torn): (HashMap<Id, Target>, Torn) = Default::default();
    walk(root, &mut |dir, name, inode| {
        if hints.contains(&inode)
            && let Some((file, inode)) = open_regular(dir, name)?
        {
            match target(file, inode, config)? {
                Ok((id, mut target)) if claims.get(&id).is_some_and(|claim| claim.inode == inode) => {
                    target.has_name = is_entry(name.to_bytes()) || found.get(&id).is_some_and(|target| target.has_name);
                    found.insert(id, target);
                }
                Ok(_) => {}
                Err(file) => {
                    if let Some(slot) = key_slot(&file)? {
                        let has_name = is_entry(name.to_bytes()) || torn.get(&inode).is_some_and(|(.., has)| *has);
                        torn.insert(inode, (file, slot, has_name));
                    }
                }
            }
        }
        // A file may have a name that is none of the volume's before its own.
        let has_table = config.features().rollback_protection;
        let is_done = found.len() == claims.len() && (!has_table || found.values().all(|target| target.has_name));
        Ok(if is_done { ControlFlow::Break(()) } else { ControlFlow::Continue(()) })
    })?;
    let mut skipped = None;
    let is_missing = |found: &HashMap<Id, Target>| claims.iter().any(|(id, c)| !c.is_gone && !found.contains_key(id));
    if is_missing(&found) {
        // The missing files are gone, the volume has been copied, or a killed run has left their headers half written.
        let mut unreadable = None;
        skipped = walk(root, &mut |dir, name, _| {
            // Copies that other programs have made beside the file have names that a volume never makes.
            if !is_entry(name.to_bytes()) {
                return Ok(ControlFlow::Continue(()));
            }
            let opened = open_regular(dir, name).and_then(|opened| match opened {
                Some((file, inode)) => target(file, inode, config).map(Result::ok),
                None => Ok(None),
            });
            match opened {
                Ok(Some((id, target))) if claims.contains_key(&id) => {
                    let (inode, is_gone) = (target.inode, claims[&id].is_gone);
                    let known = found.entry(id).or_insert(target);
                    // The name of a copy is not that of the file, and a removed file is known by its inode alone.
                    known.has_name |= known.inode == inode && !is_gone;
                }
                Ok(_) => {}
                // It may not be one of them.
                Err(e) => unreadable = Some(e.errno()),
            }
            Ok(if found.len() == claims.len() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) })
        })?
        .or(unreadable);
    }
    // These headers are half written, but the journal has them whole. The inode may have belonged to another file
    // before, whose records are then the earlier ones.
    for (inode, (file, slot, has_name)) in torn {
        let its = claims.iter().filter(|(id, claim)| !found.contains_key(*id) && claim.inode == inode);
        let whole = its.filter_map(|(id, claim)| {
            claim.headers.iter().rev().filter(|(_, bytes)| bytes[KEY_SLOT] == slot).find_map(|(number, bytes)| {
                let opened = header::open(bytes, config).ok()?;
                (opened.keys.volume_file_id() == *id).then_some((*number, *id, opened))
            })
        });
        if let Some((_, id, opened)) = whole.max_by_key(|(number, ..)| *number) {
            found.insert(id, Target { has_name, ..Target::new(file, inode, opened) });
        }
    }
    match skipped {
        // What was skipped may hold a file that the journal names.
        Some(errno) if is_missing(&found) => {
            Err(VolumeError::io("cannot look at everything that an interrupted run may have changed", errno))
        }
        _ => Ok(found),
    }
}

/// Where the key slot lies in a header. It is the same in all headers of a file, so a torn header has it whole.
const KEY_SLOT: Range<usize> = 18..77;
type KeySlot = [u8; KEY_SLOT.end - KEY_SLOT.start];
/// By inode, the files whose headers do not open, each with what lies in the place of the key slot, and whether it has a name.
type Torn = HashMap<u64, (File, KeySlot, bool)>;

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

/// A file with its id, or only the file if its header is not one of this volume.
fn target(file: File, inode: u64, config: &Config) -> Result<Result<(Id, Target), File>> {
    match header::read(&file, config) {
        Ok(opened) => Ok(Ok((opened.keys.volume_file_id(), Target::new(file, inode, opened)))),
        Err(VolumeError::Core(_)) => Ok(Err(file)),
        Err(e) => Err(e),
    }
}

/// Opens a regular file for reading and writing, even if its permissions forbid that to its owner.
fn open_regular(dir: &OwnedFd, name: &CStr) -> Result<Option<(File, u64)>> {
    let failed = |e| VolumeError::io("cannot open a stored file that a killed run was changing", e);
    open_as(dir, name, OFlags::RDWR).map_err(failed)
}

/// Opens a regular file for reading, even if its permissions forbid that to its owner.
pub(crate) fn open_to_read(dir: &OwnedFd, name: &CStr) -> Result<Option<File>> {
    let opened = open_as(dir, name, OFlags::RDONLY).map_err(|e| VolumeError::io("cannot open a stored file", e));
    Ok(opened?.map(|(file, _)| file))
}

fn open_as(dir: &OwnedFd, name: &CStr, access: OFlags) -> Result<Option<(File, u64)>, Errno> {
    let flags = OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let path = match openat(dir, name, flags | OFlags::PATH, Mode::empty()) {
        Ok(path) => path,
        Err(Errno::NOENT) => return Ok(None),
        Err(e) => return Err(e),
    };
    let stat = fstat(&path)?;
    if FileType::from_raw_mode(stat.st_mode) != FileType::RegularFile {
        return Ok(None);
    }
    // This opens the same file, even if something else has its name by now.
    let again = format!("/proc/self/fd/{}", path.as_raw_fd());
    let file = match open(&*again, access | OFlags::CLOEXEC, Mode::empty()) {
        Err(Errno::ACCESS) => {
            let mode = Mode::from_raw_mode(stat.st_mode);
            chmod(&*again, mode | Mode::RUSR | Mode::WUSR)?;
            let opened = open(&*again, access | OFlags::CLOEXEC, Mode::empty());
            match &opened {
                Ok(file) => fchmod(file, mode)?,
                Err(_) => chmod(&*again, mode)?,
            }
            opened
        }
        opened => opened,
    };
    Ok(Some((File::from(file?), stat.st_ino)))
}
