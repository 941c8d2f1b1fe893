//! Giving and taking names.

use super::set::make_writable;
use super::{AtFlags, RenameFlags};
use crate::windows::io::{Errno, Result};
use crate::windows::names::{checked, checked_new};
use crate::windows::nt::{self, How, SHARE_ALL};
use crate::windows::stat;
use std::ffi::OsStr;
use std::mem;
use std::os::windows::io::{AsHandle, AsRawHandle, BorrowedHandle, OwnedHandle};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};
use windows_sys::Wdk::Storage::FileSystem::{
    FILE_DISPOSITION_DELETE, FILE_DISPOSITION_IGNORE_READONLY_ATTRIBUTE, FILE_DISPOSITION_POSIX_SEMANTICS,
    FILE_INFORMATION_CLASS, FILE_OPEN, FILE_OPEN_REPARSE_POINT, FILE_RENAME_IGNORE_READONLY_ATTRIBUTE,
    FILE_RENAME_POSIX_SEMANTICS, FILE_RENAME_REPLACE_IF_EXISTS, FileDispositionInformationEx, FileLinkInformation,
    FileRenameInformation, FileRenameInformationEx,
};
use windows_sys::Win32::Storage::FileSystem::{
    DELETE, FILE_ATTRIBUTE_DIRECTORY, FILE_ATTRIBUTE_READONLY, FILE_ATTRIBUTE_REPARSE_POINT, FILE_DISPOSITION_INFO,
    FILE_READ_ATTRIBUTES, FILE_WRITE_ATTRIBUTES, FileDispositionInfo,
};

/// Opens what has a name, to take the name away. A link is not followed.
fn named(folder: BorrowedHandle<'_>, name: &OsStr, access: u32) -> Result<OwnedHandle> {
    let access = access | FILE_READ_ATTRIBUTES;
    let how =
        How { access, share: SHARE_ALL, disposition: FILE_OPEN, options: FILE_OPEN_REPARSE_POINT, security: None };
    nt::create(Some(folder), &checked(name)?, how)
}

/// Deletes a file, a link or an empty folder.
///
/// # Errors
/// [`Errno::NOENT`] if nothing has the name, [`Errno::ISDIR`] or [`Errno::NOTDIR`] if it is a folder and should be none, or the
/// reverse, or another error if it cannot be deleted.
pub fn unlinkat(folder: impl AsHandle, name: impl AsRef<OsStr>, flags: AtFlags) -> Result<()> {
    let found = named(folder.as_handle(), name.as_ref(), DELETE)?;
    let attributes = stat::tags(found.as_handle())?.FileAttributes;
    let is_folder = attributes & FILE_ATTRIBUTE_DIRECTORY != 0 && attributes & FILE_ATTRIBUTE_REPARSE_POINT == 0;
    match (is_folder, flags.contains(AtFlags::REMOVEDIR)) {
        (true, false) => return Err(Errno::ISDIR),
        (false, true) => return Err(Errno::NOTDIR),
        _ => {}
    }
    delete(found.as_handle(), folder.as_handle(), attributes)
}

/// Deletes what is open, and lies in an open folder.
fn delete(found: BorrowedHandle<'_>, folder: BorrowedHandle<'_>, attributes: u32) -> Result<()> {
    // So the name is gone immediately, although somebody has it open: Windows 10 from version 1607 on, with NTFS.
    let how = FILE_DISPOSITION_DELETE | FILE_DISPOSITION_POSIX_SEMANTICS | FILE_DISPOSITION_IGNORE_READONLY_ATTRIBUTE;
    match nt::set_bytes(found, FileDispositionInformationEx, &[how.into()], mem::size_of_val(&how)) {
        Err(Errno::NOTSUP | Errno::INVAL | Errno::NOSYS) => {}
        done => return done,
    }
    // Elsewhere it is gone once all programs have closed it, so a file gets another name first: its own is then free. One that is
    // read-only could not be deleted.
    if attributes & FILE_ATTRIBUTE_DIRECTORY == 0 {
        // Without it, only the name stays in use for longer.
        let _ = give_name(found, (folder, true), &unused_name(), FileRenameInformation, 0);
    }
    if attributes & FILE_ATTRIBUTE_READONLY != 0 {
        make_writable(found)?;
    }
    let delete = FILE_DISPOSITION_INFO { DeleteFile: true };
    // SAFETY: it is the structure of this class.
    #[expect(unsafe_code)]
    unsafe {
        nt::set(found, FileDispositionInfo, &delete)
    }
}

/// A name that nothing has: that of an input which is about to be deleted, as the programs know it.
fn unused_name() -> Vec<u16> {
    static COUNT: AtomicU32 = AtomicU32::new(0);
    let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |now| now.as_nanos() as u64);
    let count = COUNT.fetch_add(1, Ordering::Relaxed);
    format!(".phalanx-{:08x}{count:08x}{now:016x}.removed", std::process::id()).encode_utf16().collect()
}

/// Renames. A file of the new name is replaced.
///
/// # Errors
/// If it cannot be renamed.
pub fn renameat(from: impl AsHandle, old: impl AsRef<OsStr>, to: impl AsHandle, new: impl AsRef<OsStr>) -> Result<()> {
    renameat_with(from, old, to, new, RenameFlags::empty())
}

/// Renames. With [`RenameFlags::NOREPLACE`], nothing is replaced.
///
/// # Errors
/// [`Errno::EXIST`] if something has the name and is not replaced, or another error if it cannot be renamed.
pub fn renameat_with(
    from: impl AsHandle,
    old: impl AsRef<OsStr>,
    to: impl AsHandle,
    new: impl AsRef<OsStr>,
    flags: RenameFlags,
) -> Result<()> {
    let new = checked_new(new.as_ref())?;
    let file = named(from.as_handle(), old.as_ref(), DELETE)?;
    let place = (to.as_handle(), is_same(from.as_handle(), to.as_handle()));
    let replace = if flags.contains(RenameFlags::NOREPLACE) {
        0
    } else {
        FILE_RENAME_REPLACE_IF_EXISTS | FILE_RENAME_IGNORE_READONLY_ATTRIBUTE
    };
    // So a file can be replaced that somebody has open: Windows 10 from version 1607 on, with NTFS; read-only ones from 1809 on.
    for more in [replace, replace & FILE_RENAME_REPLACE_IF_EXISTS] {
        let how = more | FILE_RENAME_POSIX_SEMANTICS;
        match give_name(file.as_handle(), place, &new, FileRenameInformationEx, how) {
            Err(Errno::NOTSUP | Errno::INVAL | Errno::NOSYS) => {}
            // Before 1809, one that is read-only.
            Err(Errno::ACCESS) if more != replace => {}
            done => return done,
        }
    }
    let is_replaced = replace != 0;
    match give_name(file.as_handle(), place, &new, FileRenameInformation, is_replaced.into()) {
        Err(Errno::ACCESS) if is_replaced => replace_open(file.as_handle(), place, &new),
        done => done,
    }
}

/// Replaces a file that is open, where the file system has only the older rename: FAT, older versions of Windows, and Wine. It gets
/// another name first, so for a moment nothing has its own.
fn replace_open(file: BorrowedHandle<'_>, place: (BorrowedHandle<'_>, bool), name: &[u16]) -> Result<()> {
    let (folder, _) = place;
    let access = DELETE | FILE_READ_ATTRIBUTES;
    let how =
        How { access, share: SHARE_ALL, disposition: FILE_OPEN, options: FILE_OPEN_REPARSE_POINT, security: None };
    let old = nt::create(Some(folder), name, how)?;
    let attributes = stat::tags(old.as_handle())?.FileAttributes;
    if attributes & FILE_ATTRIBUTE_DIRECTORY != 0 {
        return Err(Errno::ACCESS);
    }
    give_name(old.as_handle(), (folder, true), &unused_name(), FileRenameInformation, 0)?;
    let given = give_name(file, place, name, FileRenameInformation, 0);
    if given.is_err() {
        let _ = give_name(old.as_handle(), (folder, true), name, FileRenameInformation, 0);
    } else {
        // If it stays, it is one of those that the programs know as such.
        let _ = delete(old.as_handle(), folder, attributes);
    }
    given
}

/// Gives a file one more name. Nothing is replaced.
///
/// # Errors
/// [`Errno::EXIST`] if something has the name, or another error if it cannot be named.
pub fn linkat(
    from: impl AsHandle,
    old: impl AsRef<OsStr>,
    to: impl AsHandle,
    new: impl AsRef<OsStr>,
    _flags: AtFlags,
) -> Result<()> {
    let file = named(from.as_handle(), old.as_ref(), FILE_WRITE_ATTRIBUTES)?;
    let place = (to.as_handle(), is_same(from.as_handle(), to.as_handle()));
    give_name(file.as_handle(), place, &checked_new(new.as_ref())?, FileLinkInformation, 0)
}

/// Sets the name of an open file to one in an open folder. `is_there` says that it is in that folder already.
///
/// To give it a name in a folder, the system opens the folder to write to it. Most versions of Windows do that in a way that a locked
/// folder does not allow, not even to who has locked it. A name without a folder is one in the same folder, which is not opened.
fn give_name(
    file: BorrowedHandle<'_>,
    (folder, is_there): (BorrowedHandle<'_>, bool),
    name: &[u16],
    class: FILE_INFORMATION_CLASS,
    how: u32,
) -> Result<()> {
    match set_name(file, folder.as_raw_handle() as usize as u64, name, class, how) {
        Err(Errno::BUSY) if is_there => set_name(file, 0, name, class, how),
        done => done,
    }
}

/// All classes that set names have structures of one form: what to do with a file of that name, the folder, and the name with its
/// length.
fn set_name(
    file: BorrowedHandle<'_>,
    folder: u64,
    name: &[u16],
    class: FILE_INFORMATION_CLASS,
    how: u32,
) -> Result<()> {
    const BEFORE_NAME: usize = 20;
    let bytes = mem::size_of_val(name);
    let mut text = Vec::with_capacity(BEFORE_NAME + bytes + 8);
    text.extend(u64::from(how).to_le_bytes());
    text.extend(folder.to_le_bytes());
    text.extend((bytes as u32).to_le_bytes());
    name.iter().for_each(|unit| text.extend(unit.to_le_bytes()));
    // Some systems want the whole structure, which ends with the place for a character.
    let len = text.len().max(24);
    text.resize(len.next_multiple_of(8), 0);
    let words: Vec<u64> = text.as_chunks::<8>().0.iter().map(|word| u64::from_le_bytes(*word)).collect();
    nt::set_bytes(file, class, &words, len)
}

/// Whether two open folders are one.
fn is_same(one: BorrowedHandle<'_>, other: BorrowedHandle<'_>) -> bool {
    let id = |folder| stat::of(folder).map(|stat| (stat.st_dev, stat.st_ino));
    one.as_raw_handle() == other.as_raw_handle() || id(one).is_ok_and(|one| id(other) == Ok(one))
}

#[cfg(test)]
mod tests {
    use std::mem::offset_of;
    use windows_sys::Wdk::Storage::FileSystem::{FILE_LINK_INFORMATION, FILE_RENAME_INFORMATION};

    #[test]
    fn fields_lie_where_they_are_written() {
        assert_eq!(offset_of!(FILE_RENAME_INFORMATION, RootDirectory), 8);
        assert_eq!(offset_of!(FILE_RENAME_INFORMATION, FileNameLength), 16);
        assert_eq!(offset_of!(FILE_RENAME_INFORMATION, FileName), 20);
        assert_eq!(offset_of!(FILE_LINK_INFORMATION, RootDirectory), 8);
        assert_eq!(offset_of!(FILE_LINK_INFORMATION, FileNameLength), 16);
        assert_eq!(offset_of!(FILE_LINK_INFORMATION, FileName), 20);
    }
}
