//! The calls of NT and Windows on open files, each wrapped once.

use super::io::{Errno, Result};
use std::ffi::c_void;
use std::mem;
use std::os::windows::io::{AsRawHandle, BorrowedHandle, FromRawHandle, OwnedHandle};
use std::ptr;
use windows_sys::Wdk::Foundation::OBJECT_ATTRIBUTES;
use windows_sys::Wdk::Storage::FileSystem::{
    FILE_DIRECTORY_INFORMATION, FILE_INFORMATION_CLASS, FILE_SYNCHRONOUS_IO_NONALERT, FileDirectoryInformation,
    NtCreateFile, NtQueryDirectoryFile, NtSetInformationFile,
};
use windows_sys::Win32::Foundation::{
    HANDLE, OBJ_CASE_INSENSITIVE, STATUS_NO_MORE_FILES, STATUS_NO_SUCH_FILE, STATUS_OBJECT_NAME_NOT_FOUND,
    UNICODE_STRING,
};
use windows_sys::Win32::Security::{SECURITY_DESCRIPTOR, SECURITY_QUALITY_OF_SERVICE, SecurityIdentification};
use windows_sys::Win32::Storage::FileSystem::{
    FILE_ATTRIBUTE_NORMAL, FILE_INFO_BY_HANDLE_CLASS, FILE_NAME_NORMALIZED, FILE_SHARE_DELETE, FILE_SHARE_READ,
    FILE_SHARE_WRITE, FILE_TYPE_CHAR, FILE_TYPE_DISK, FILE_TYPE_PIPE, FlushFileBuffers, GetFileInformationByHandleEx,
    GetFileType, GetFinalPathNameByHandleW, LOCKFILE_EXCLUSIVE_LOCK, LOCKFILE_FAIL_IMMEDIATELY, LockFileEx,
    SYNCHRONIZE, SetFileInformationByHandle,
};
use windows_sys::Win32::System::IO::{IO_STATUS_BLOCK, OVERLAPPED};

/// What others may do with a file or folder while it is open here: everything, as on Unix.
pub const SHARE_ALL: u32 = FILE_SHARE_READ | FILE_SHARE_WRITE | FILE_SHARE_DELETE;

/// How something is opened or made.
#[derive(Clone, Copy)]
pub struct How {
    /// What is done with it: `FILE_READ_DATA` and the like.
    pub access: u32,
    /// What others may do with it meanwhile.
    pub share: u32,
    /// Whether it is opened or made: `FILE_OPEN`, `FILE_CREATE`.
    pub disposition: u32,
    /// `FILE_OPEN_REPARSE_POINT` and the like.
    pub options: u32,
    /// Who may open it, if it is made; the folder decides without this.
    pub security: Option<&'static [u64]>,
}

/// Opens or makes something by a name of NT: a whole one, or one relative to an open folder. The empty name is the folder itself.
pub fn create(root: Option<BorrowedHandle<'_>>, name: &[u16], how: How) -> Result<OwnedHandle> {
    let bytes = u16::try_from(mem::size_of_val(name)).map_err(|_| Errno::NAMETOOLONG)?;
    let text = UNICODE_STRING { Length: bytes, MaximumLength: bytes, Buffer: name.as_ptr().cast_mut() };
    let mut attributes = OBJECT_ATTRIBUTES {
        Length: mem::size_of::<OBJECT_ATTRIBUTES>() as u32,
        RootDirectory: root.map_or(ptr::null_mut(), |root| root.as_raw_handle()),
        ObjectName: &text,
        Attributes: OBJ_CASE_INSENSITIVE,
        SecurityDescriptor: how.security.map_or(ptr::null(), |bytes| bytes.as_ptr().cast::<SECURITY_DESCRIPTOR>()),
        SecurityQualityOfService: ptr::null(),
    };
    // Who serves a pipe of this name may learn who the user is, and do nothing in the user's name.
    let service = SECURITY_QUALITY_OF_SERVICE {
        Length: mem::size_of::<SECURITY_QUALITY_OF_SERVICE>() as u32,
        ImpersonationLevel: SecurityIdentification,
        ContextTrackingMode: 0,
        EffectiveOnly: true,
    };
    attributes.SecurityQualityOfService = &service;
    let mut handle: HANDLE = ptr::null_mut();
    let mut status_block = IO_STATUS_BLOCK::default();
    // SAFETY: all pointers lead to values that live until the call returns, with the lengths that are given. The name is only
    // read. A security descriptor is in its self-relative form, as `acl` has made it.
    #[expect(unsafe_code)]
    let status = unsafe {
        NtCreateFile(
            &mut handle,
            how.access | SYNCHRONIZE,
            &attributes,
            &mut status_block,
            ptr::null(),
            FILE_ATTRIBUTE_NORMAL,
            how.share,
            how.disposition,
            how.options | FILE_SYNCHRONOUS_IO_NONALERT,
            ptr::null(),
            0,
        )
    };
    if status < 0 {
        return Err(Errno::of_status(status));
    }
    // SAFETY: the call has succeeded, so it is a new handle that nobody else owns.
    #[expect(unsafe_code)]
    Ok(unsafe { OwnedHandle::from_raw_handle(handle) })
}

/// What Windows tells of an open file, in a structure that consists of numbers.
///
/// # Safety
/// `T` must be the structure of the class, and every pattern of bits must be valid for it.
#[expect(unsafe_code)]
pub unsafe fn query<T: Copy>(file: BorrowedHandle<'_>, class: FILE_INFO_BY_HANDLE_CLASS) -> Result<T> {
    let mut told = mem::MaybeUninit::<T>::zeroed();
    // SAFETY: the buffer has the length that is given and is writable.
    let done = unsafe {
        GetFileInformationByHandleEx(
            file.as_raw_handle(),
            class,
            told.as_mut_ptr().cast::<c_void>(),
            mem::size_of::<T>() as u32,
        )
    };
    if done == 0 {
        return Err(Errno::last());
    }
    // SAFETY: it was zeroed, and the system has written it; the caller promises that all bits are valid.
    Ok(unsafe { told.assume_init() })
}

/// Sets what Windows tells of an open file.
///
/// # Safety
/// `T` must be the structure of the class.
#[expect(unsafe_code)]
pub unsafe fn set<T: Copy>(file: BorrowedHandle<'_>, class: FILE_INFO_BY_HANDLE_CLASS, value: &T) -> Result<()> {
    // SAFETY: the buffer has the length that is given, and is only read.
    let done = unsafe {
        SetFileInformationByHandle(
            file.as_raw_handle(),
            class,
            ptr::from_ref(value).cast::<c_void>(),
            mem::size_of::<T>() as u32,
        )
    };
    if done == 0 { Err(Errno::last()) } else { Ok(()) }
}

/// Sets what NT knows of an open file. The bytes are those of the structure of the class, and aligned as it is.
pub fn set_bytes(file: BorrowedHandle<'_>, class: FILE_INFORMATION_CLASS, words: &[u64], len: usize) -> Result<()> {
    assert!(len <= mem::size_of_val(words));
    let mut status_block = IO_STATUS_BLOCK::default();
    // SAFETY: the buffer has at least the length that is given, is aligned for every structure of NT, and is only read. A
    // handle in it is one that the caller has borrowed.
    #[expect(unsafe_code)]
    let status = unsafe {
        NtSetInformationFile(
            file.as_raw_handle(),
            &mut status_block,
            words.as_ptr().cast::<c_void>(),
            len as u32,
            class,
        )
    };
    if status < 0 { Err(Errno::of_status(status)) } else { Ok(()) }
}

/// Reads some entries of a folder into a buffer: structures `FILE_DIRECTORY_INFORMATION`, one after the other. `false` if there are
/// no more.
pub fn list(folder: BorrowedHandle<'_>, words: &mut [u64], from_start: bool) -> Result<bool> {
    const { assert!(mem::align_of::<FILE_DIRECTORY_INFORMATION>() <= mem::align_of::<u64>()) };
    let mut status_block = IO_STATUS_BLOCK::default();
    // SAFETY: the buffer has the length that is given, is writable, and is aligned for the structure.
    #[expect(unsafe_code)]
    let status = unsafe {
        NtQueryDirectoryFile(
            folder.as_raw_handle(),
            ptr::null_mut(),
            None,
            ptr::null(),
            &mut status_block,
            words.as_mut_ptr().cast::<c_void>(),
            mem::size_of_val(words) as u32,
            FileDirectoryInformation,
            false,
            ptr::null(),
            from_start,
        )
    };
    match status {
        // An empty root of a file system has not even the entries for itself.
        STATUS_NO_MORE_FILES => Ok(false),
        STATUS_NO_SUCH_FILE | STATUS_OBJECT_NAME_NOT_FOUND if from_start => Ok(false),
        status if status < 0 => Err(Errno::of_status(status)),
        _ => Ok(true),
    }
}

/// What a handle leads to.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Device {
    /// A file or folder.
    Disk,
    /// A console or another device that is read in order.
    Character,
    /// A pipe or socket.
    Pipe,
    /// Something else.
    Other,
}

/// What a handle leads to.
pub fn device(file: BorrowedHandle<'_>) -> Device {
    // SAFETY: it only looks at the handle, which is open.
    #[expect(unsafe_code)]
    match unsafe { GetFileType(file.as_raw_handle()) } {
        FILE_TYPE_DISK => Device::Disk,
        FILE_TYPE_CHAR => Device::Character,
        FILE_TYPE_PIPE => Device::Pipe,
        _ => Device::Other,
    }
}

/// Writes a file to its disk.
pub fn flush(file: BorrowedHandle<'_>) -> Result<()> {
    // SAFETY: the handle is open.
    #[expect(unsafe_code)]
    if unsafe { FlushFileBuffers(file.as_raw_handle()) } == 0 { Err(Errno::last()) } else { Ok(()) }
}

/// Locks a byte of a file that is far behind its end, since locks of Windows keep others from reading what they lock. It is unlocked
/// when the file is closed.
pub fn lock(file: BorrowedHandle<'_>, wait: bool) -> Result<()> {
    const PLACE: u64 = 1 << 62;
    let mut place = OVERLAPPED::default();
    place.Anonymous.Anonymous.Offset = PLACE as u32;
    place.Anonymous.Anonymous.OffsetHigh = (PLACE >> 32) as u32;
    let flags = LOCKFILE_EXCLUSIVE_LOCK | if wait { 0 } else { LOCKFILE_FAIL_IMMEDIATELY };
    // SAFETY: the handle is open and synchronous, so the structure is not used after the call.
    #[expect(unsafe_code)]
    if unsafe { LockFileEx(file.as_raw_handle(), flags, 0, 1, 0, &mut place) } == 0 {
        Err(Errno::last())
    } else {
        Ok(())
    }
}

/// The whole path of an open file, as NT's prefix `\\?\` has it.
pub fn path(file: BorrowedHandle<'_>) -> Result<Vec<u16>> {
    let mut path = vec![0u16; 512];
    loop {
        // SAFETY: the buffer has the length that is given and is writable.
        #[expect(unsafe_code)]
        let len = unsafe {
            GetFinalPathNameByHandleW(file.as_raw_handle(), path.as_mut_ptr(), path.len() as u32, FILE_NAME_NORMALIZED)
        } as usize;
        match len {
            0 => return Err(Errno::last()),
            len if len < path.len() => {
                path.truncate(len);
                return Ok(path);
            }
            len => path.resize(len + 1, 0),
        }
    }
}
