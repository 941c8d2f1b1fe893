//! Who may open files: access control lists, as bytes in the form in which Windows stores them.

use super::fs::reopened;
use super::io::{Errno, Result};
use super::nt::SHARE_ALL;
use std::mem;
use std::os::windows::io::{AsHandle, AsRawHandle, BorrowedHandle, FromRawHandle, OwnedHandle};
use std::ptr;
use std::sync::OnceLock;
use windows_sys::Win32::Foundation::ERROR_INSUFFICIENT_BUFFER;
use windows_sys::Win32::Security::Authorization::{SE_FILE_OBJECT, SetSecurityInfo};
use windows_sys::Win32::Security::{
    ACL, DACL_SECURITY_INFORMATION, GetKernelObjectSecurity, GetTokenInformation, OWNER_SECURITY_INFORMATION,
    PROTECTED_DACL_SECURITY_INFORMATION, SetKernelObjectSecurity, TOKEN_QUERY, TokenUser,
    UNPROTECTED_DACL_SECURITY_INFORMATION,
};
use windows_sys::Win32::Storage::FileSystem::{READ_CONTROL, WRITE_DAC};
use windows_sys::Win32::System::Threading::{GetCurrentProcess, OpenProcessToken};

/// The system itself, those who administer it, and whoever owns a file: they may open whatever the user may.
const SYSTEM: &[u8] = &[1, 1, 0, 0, 0, 0, 0, 5, 18, 0, 0, 0];
const ADMINISTRATORS: &[u8] = &[1, 2, 0, 0, 0, 0, 0, 5, 32, 0, 0, 0, 32, 2, 0, 0];
const OWNER_RIGHTS: &[u8] = &[1, 1, 0, 0, 0, 0, 0, 3, 4, 0, 0, 0];

const EVERYTHING: u32 = 0x001f_01ff;
/// Entries that only folders give to what is made in them.
const INHERIT_ONLY: u8 = 8;
/// Both files and folders in a folder get its entries.
const FOR_ALL_IN_IT: u8 = 3;
const PRESENT: u16 = 0x0004;
const PROTECTED: u16 = 0x1000;
const SELF_RELATIVE: u16 = 0x8000;

/// Who may open a file besides its user, the system and administrators.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Access {
    /// Whether it belongs to the user, the system or administrators.
    pub is_own: bool,
    /// Whether others may read it.
    pub read: bool,
    /// Whether others may change it, or may let themselves do so.
    pub write: bool,
}

/// Who may open an open file or folder. On a file system without lists, everybody.
///
/// # Errors
/// If the system does not tell it.
pub fn access(file: impl AsHandle) -> Result<Access> {
    let list = descriptor(file.as_handle())?;
    Ok(Descriptor(&list).access(user()?).unwrap_or(Access { is_own: false, read: true, write: true }))
}

/// The text that Windows has for the identifier of the user of this process: `S-1-…`.
///
/// # Errors
/// If the system does not tell it.
pub fn user_as_text() -> Result<String> {
    text(user()?).ok_or(Errno::INVAL)
}

/// An identifier has a version, the number of its parts, an authority, and the parts.
fn text(identifier: &[u8]) -> Option<String> {
    let authority = identifier.get(2..8)?.iter().fold(0, |number, byte| number << 8 | u64::from(*byte));
    let parts = identifier[8..].as_chunks::<4>().0.iter().map(|part| format!("-{}", u32::from_le_bytes(*part)));
    Some(format!("S-{}-{authority}{}", identifier[0], parts.collect::<String>()))
}

/// The descriptor for what is made for its user alone.
pub fn for_user(is_folder: bool) -> Result<&'static [u64]> {
    static MADE: [OnceLock<Vec<u64>>; 2] = [OnceLock::new(), OnceLock::new()];
    let user = user()?;
    Ok(MADE[usize::from(is_folder)].get_or_init(|| words(&only(user, is_folder))))
}

/// Lets only the user open a file or folder. What is in a folder keeps its own lists.
pub fn restrict(file: BorrowedHandle<'_>, is_folder: bool) -> Result<()> {
    let file = reopened(file, WRITE_DAC | READ_CONTROL, SHARE_ALL)?;
    let only = for_user(is_folder)?;
    // SAFETY: the handle is open, and the descriptor is a whole one that is only read.
    #[expect(unsafe_code)]
    let done = unsafe {
        SetKernelObjectSecurity(
            file.as_raw_handle(),
            DACL_SECURITY_INFORMATION | PROTECTED_DACL_SECURITY_INFORMATION,
            only.as_ptr().cast_mut().cast(),
        )
    };
    if done == 0 { Err(Errno::last()) } else { Ok(()) }
}

/// Lets those open a file whom its folder lets do so, if it was made for its user alone. One with another list stays as it is.
///
/// # Errors
/// [`Errno::PERM`] if the user may not change who may open it, as on some shares, or those of the system.
pub fn inherit(file: BorrowedHandle<'_>) -> Result<()> {
    if !Descriptor(&descriptor(file)?).is_only(user()?) {
        return Ok(());
    }
    let reopened = reopened(file, WRITE_DAC | READ_CONTROL, SHARE_ALL);
    let file = reopened.map_err(|e| if e == Errno::ACCESS { Errno::PERM } else { e })?;
    let empty = words(&[2, 0, 8, 0, 0, 0, 0, 0]);
    // SAFETY: the handle is open, and the list is a whole one, without entries, that is only read.
    #[expect(unsafe_code)]
    let code = unsafe {
        SetSecurityInfo(
            file.as_raw_handle(),
            SE_FILE_OBJECT,
            DACL_SECURITY_INFORMATION | UNPROTECTED_DACL_SECURITY_INFORMATION,
            ptr::null_mut(),
            ptr::null_mut(),
            empty.as_ptr().cast::<ACL>(),
            ptr::null(),
        )
    };
    if code == 0 { Ok(()) } else { Err(Errno::of(code)) }
}

/// The descriptor of an open file: its owner and its list.
fn descriptor(file: BorrowedHandle<'_>) -> Result<Vec<u8>> {
    let mut bytes = vec![0u8; 1024];
    loop {
        let mut needed = 0;
        // SAFETY: the handle is open, and the buffer has the length that is given and is writable.
        #[expect(unsafe_code)]
        let done = unsafe {
            GetKernelObjectSecurity(
                file.as_raw_handle(),
                OWNER_SECURITY_INFORMATION | DACL_SECURITY_INFORMATION,
                bytes.as_mut_ptr().cast(),
                bytes.len() as u32,
                &mut needed,
            )
        };
        match Errno::last() {
            _ if done != 0 => return Ok(bytes),
            e if e == Errno::of(ERROR_INSUFFICIENT_BUFFER) && needed as usize > bytes.len() => {
                bytes.resize(needed as usize, 0);
            }
            e => return Err(e),
        }
    }
}

/// The identifier of the user of this process.
fn user() -> Result<&'static [u8]> {
    static USER: OnceLock<Vec<u8>> = OnceLock::new();
    if let Some(user) = USER.get() {
        return Ok(user);
    }
    let found = find_user()?;
    Ok(USER.get_or_init(|| found))
}

fn find_user() -> Result<Vec<u8>> {
    let mut handle = ptr::null_mut();
    // SAFETY: the handle of this process is always valid, and the new handle is written to a place of its type.
    #[expect(unsafe_code)]
    if unsafe { OpenProcessToken(GetCurrentProcess(), TOKEN_QUERY, &mut handle) } == 0 {
        return Err(Errno::last());
    }
    // SAFETY: the call has succeeded, so it is a new handle that nobody else owns.
    #[expect(unsafe_code)]
    let token = unsafe { OwnedHandle::from_raw_handle(handle) };
    // A pointer to the identifier, attributes, and the identifier itself.
    const BEFORE: usize = 16;
    let mut told = vec![0u64; 64];
    let mut len = 0;
    // SAFETY: the handle is open, and the buffer has the length that is given, is writable and is aligned.
    #[expect(unsafe_code)]
    let done = unsafe {
        GetTokenInformation(
            token.as_raw_handle(),
            TokenUser,
            told.as_mut_ptr().cast(),
            mem::size_of_val(&told[..]) as u32,
            &mut len,
        )
    };
    if done == 0 {
        return Err(Errno::last());
    }
    let bytes: Vec<u8> = told.iter().flat_map(|word| word.to_le_bytes()).collect();
    // The identifier lies in the same buffer, where the pointer says.
    let at = (told[0] as usize).wrapping_sub(told.as_ptr().addr());
    let found = bytes.get(at..).filter(|_| at >= BEFORE).and_then(identifier);
    found.map(<[u8]>::to_vec).ok_or(Errno::INVAL)
}

/// The identifier at the beginning of some bytes.
fn identifier(bytes: &[u8]) -> Option<&[u8]> {
    bytes.get(..8 + 4 * usize::from(*bytes.get(1)?))
}

/// A list that lets the user do everything, and nobody else anything.
fn list_of(user: &[u8], is_folder: bool) -> Vec<u8> {
    let flags = if is_folder { FOR_ALL_IN_IT } else { 0 };
    let mut entry = vec![0, flags];
    entry.extend((8 + user.len() as u16).to_le_bytes());
    entry.extend(EVERYTHING.to_le_bytes());
    entry.extend(user);
    let mut list = vec![2, 0];
    list.extend((8 + entry.len() as u16).to_le_bytes());
    list.extend([1, 0, 0, 0]);
    list.extend(entry);
    list
}

/// The descriptor with this list, for something that belongs to the user.
fn only(user: &[u8], is_folder: bool) -> Vec<u8> {
    const HEADER: u32 = 20;
    let mut bytes = vec![1, 0];
    bytes.extend((PRESENT | PROTECTED | SELF_RELATIVE).to_le_bytes());
    for at in [HEADER, 0, 0, HEADER + user.len() as u32] {
        bytes.extend(at.to_le_bytes());
    }
    bytes.extend(user);
    bytes.extend(list_of(user, is_folder));
    bytes
}

/// The bytes, where Windows wants them aligned.
fn words(bytes: &[u8]) -> Vec<u64> {
    let mut bytes = bytes.to_vec();
    bytes.resize(bytes.len().next_multiple_of(8), 0);
    bytes.as_chunks::<8>().0.iter().map(|word| u64::from_le_bytes(*word)).collect()
}

/// A descriptor as bytes.
struct Descriptor<'a>(&'a [u8]);

impl Descriptor<'_> {
    fn half(&self, at: usize) -> Option<u16> {
        Some(u16::from_le_bytes(self.0.get(at..at + 2)?.try_into().ok()?))
    }

    fn word(&self, at: usize) -> Option<u32> {
        Some(u32::from_le_bytes(self.0.get(at..at + 4)?.try_into().ok()?))
    }

    fn control(&self) -> Option<u16> {
        self.half(2)
    }

    /// Whether its list is the one that lets only the user open a file.
    fn is_only(&self, user: &[u8]) -> bool {
        let list = self.word(16).and_then(|at| self.0.get(at as usize..));
        let is_protected = self.control().is_some_and(|control| control & PROTECTED != 0);
        is_protected && list.is_some_and(|found| found.starts_with(&list_of(user, false)))
    }

    /// `None` if there is no list, which lets everybody do everything, or if it cannot be read.
    fn access(&self, user: &[u8]) -> Option<Access> {
        let trusted = [user, SYSTEM, ADMINISTRATORS, OWNER_RIGHTS];
        let owner = identifier(self.0.get(self.word(4)? as usize..)?)?;
        let mut access = Access { is_own: trusted[..3].contains(&owner), read: false, write: false };
        let list = self.word(16)? as usize;
        if self.control()? & PRESENT == 0 || list == 0 {
            return None;
        }
        let mut at = list + 8;
        for _ in 0..self.half(list + 4)? {
            let (kind, flags, len) = (*self.0.get(at)?, *self.0.get(at + 1)?, self.half(at + 2)?);
            let who = identifier(self.0.get(at + 8..)?)?;
            // What refuses access only takes away. Of other kinds the form is another one, so they count as open to all.
            let (may, who) = match kind {
                0 => (self.word(at + 4)?, Some(who)),
                1 => (0, None),
                _ => (EVERYTHING, None),
            };
            if flags & INHERIT_ONLY == 0 && who.is_none_or(|who| !trusted.contains(&who)) {
                access.read |= may & MAY_READ != 0;
                access.write |= may & MAY_WRITE != 0;
            }
            at += usize::from(len);
        }
        Some(access)
    }
}

/// Reading, or everything.
const MAY_READ: u32 = 0x0000_0001 | 0x8000_0000 | 0x1000_0000;
/// Writing, appending, deleting what is in it or itself, changing the list or the owner, or everything.
const MAY_WRITE: u32 = 0x0000_0002 | 0x0000_0004 | 0x0000_0040 | 0x000d_0000 | 0x4000_0000 | 0x1000_0000;

#[cfg(test)]
mod tests {
    use super::*;

    const ME: &[u8] = &[1, 2, 0, 0, 0, 0, 0, 5, 21, 0, 0, 0, 232, 3, 0, 0];
    const EVERYBODY: &[u8] = &[1, 1, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0];

    fn with(more: &[(u8, u8, u32, &[u8])]) -> Vec<u8> {
        let mut bytes = only(ME, false);
        let list = 20 + ME.len();
        for (kind, flags, may, who) in more {
            bytes.extend([*kind, *flags]);
            bytes.extend((8 + who.len() as u16).to_le_bytes());
            bytes.extend(may.to_le_bytes());
            bytes.extend(*who);
        }
        bytes[list + 4] += more.len() as u8;
        bytes
    }

    #[test]
    fn identifiers_have_the_text_that_windows_has_for_them() {
        assert_eq!(text(ADMINISTRATORS).unwrap(), "S-1-5-32-544");
        assert_eq!(text(SYSTEM).unwrap(), "S-1-5-18");
        assert_eq!(text(ME).unwrap(), "S-1-5-21-1000");
        assert_eq!(text(&[]), None);
        assert!(user_as_text().unwrap().starts_with("S-1-5-"));
    }

    #[test]
    fn what_is_for_its_user_alone_is_known() {
        let none = Access { is_own: true, read: false, write: false };
        assert_eq!(Descriptor(&with(&[])).access(ME), Some(none));
        assert_eq!(Descriptor(&with(&[(0, 0, EVERYTHING, ADMINISTRATORS)])).access(ME), Some(none));
        assert_eq!(Descriptor(&with(&[(0, INHERIT_ONLY, EVERYTHING, EVERYBODY)])).access(ME), Some(none));
        assert_eq!(Descriptor(&with(&[(1, 0, EVERYTHING, EVERYBODY)])).access(ME), Some(none));
        let read = Access { read: true, ..none };
        assert_eq!(Descriptor(&with(&[(0, 0, 0x0012_0089, EVERYBODY)])).access(ME), Some(read));
        let write = Access { write: true, ..none };
        assert_eq!(Descriptor(&with(&[(0, 0, 0x0004_0000, EVERYBODY)])).access(ME), Some(write));
        assert_eq!(Descriptor(&with(&[(9, 0, 0, EVERYBODY)])).access(ME), Some(Access { read: true, ..write }));
        assert_eq!(Descriptor(&with(&[])).access(EVERYBODY), Some(Access { is_own: false, read: true, write: true }));
    }

    #[test]
    fn only_the_list_that_was_made_for_the_user_alone_is_that() {
        assert!(Descriptor(&with(&[])).is_only(ME));
        assert!(!Descriptor(&with(&[])).is_only(EVERYBODY));
        assert!(!Descriptor(&with(&[(0, 0, EVERYTHING, ADMINISTRATORS)])).is_only(ME));
        assert!(!Descriptor(&only(ME, true)).is_only(ME));
    }

    #[test]
    fn a_descriptor_that_is_cut_short_says_nothing() {
        let whole = with(&[]);
        for len in 0..whole.len() {
            assert_eq!(Descriptor(&whole[..len]).access(ME), None, "{len}");
        }
    }
}
