//! Errors.

use std::fmt;
use std::io::{Error, ErrorKind};
use windows_sys::Win32::Foundation::{
    ERROR_ACCESS_DENIED, ERROR_ALREADY_EXISTS, ERROR_BAD_PATHNAME, ERROR_CANT_ACCESS_FILE, ERROR_DELETE_PENDING,
    ERROR_DIR_NOT_EMPTY, ERROR_DIRECTORY, ERROR_DIRECTORY_NOT_SUPPORTED, ERROR_DISK_FULL, ERROR_FILE_EXISTS,
    ERROR_FILE_NOT_FOUND, ERROR_FILENAME_EXCED_RANGE, ERROR_GEN_FAILURE, ERROR_HANDLE_DISK_FULL,
    ERROR_INVALID_FUNCTION, ERROR_INVALID_LEVEL, ERROR_INVALID_NAME, ERROR_INVALID_PARAMETER, ERROR_LOCK_VIOLATION,
    ERROR_NOT_SAME_DEVICE, ERROR_NOT_SUPPORTED, ERROR_PATH_NOT_FOUND, ERROR_SHARING_VIOLATION, ERROR_TOO_MANY_LINKS,
    GetLastError, NTSTATUS, RtlNtStatusToDosError, STATUS_DELETE_PENDING, STATUS_FILE_IS_A_DIRECTORY,
    STATUS_INVALID_INFO_CLASS, STATUS_NOT_A_DIRECTORY, STATUS_NOT_IMPLEMENTED, STATUS_OBJECT_NAME_INVALID,
};

/// The result of a call to the system.
pub type Result<T> = std::result::Result<T, Errno>;

/// An error of the system: a code of Windows, or one of this crate for what Windows has no code for.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Errno(u32);

/// The bit that Windows leaves to applications.
const OWN: u32 = 1 << 29;

impl Errno {
    /// Access is denied.
    pub const ACCESS: Self = Self(ERROR_ACCESS_DENIED);
    /// Somebody has it open in a way that does not allow this.
    pub const BUSY: Self = Self(ERROR_SHARING_VIOLATION);
    /// There is something of this name already.
    pub const EXIST: Self = Self(ERROR_ALREADY_EXISTS);
    /// It is a folder.
    pub const ISDIR: Self = Self(ERROR_DIRECTORY_NOT_SUPPORTED);
    /// An argument is invalid.
    pub const INVAL: Self = Self(ERROR_INVALID_PARAMETER);
    /// Reading or writing failed.
    pub const IO: Self = Self(ERROR_GEN_FAILURE);
    /// It is a link, and links are not followed.
    pub const LOOP: Self = Self(OWN | 1);
    /// It has too many names.
    pub const MLINK: Self = Self(ERROR_TOO_MANY_LINKS);
    /// The name is too long.
    pub const NAMETOOLONG: Self = Self(ERROR_FILENAME_EXCED_RANGE);
    /// There is nothing of this name.
    pub const NOENT: Self = Self(ERROR_FILE_NOT_FOUND);
    /// The disk is full.
    pub const NOSPC: Self = Self(ERROR_DISK_FULL);
    /// The file system does not have this.
    pub const NOSYS: Self = Self(ERROR_INVALID_FUNCTION);
    /// It is not a folder.
    pub const NOTDIR: Self = Self(ERROR_DIRECTORY);
    /// The folder is not empty.
    pub const NOTEMPTY: Self = Self(ERROR_DIR_NOT_EMPTY);
    /// Windows or the file system does not have this.
    pub const NOTSUP: Self = Self(ERROR_NOT_SUPPORTED);
    /// It cannot be opened as a file.
    pub const NXIO: Self = Self(ERROR_CANT_ACCESS_FILE);
    /// It is not permitted. No call of Windows says this.
    pub const PERM: Self = Self(OWN | 2);
    /// A buffer is too small. No call of Windows says this.
    pub const RANGE: Self = Self(OWN | 3);
    /// Somebody else has it locked.
    pub const WOULDBLOCK: Self = Self(ERROR_LOCK_VIOLATION);
    /// It is on another volume.
    pub const XDEV: Self = Self(ERROR_NOT_SAME_DEVICE);
    /// No quota is reported apart from a full disk.
    pub const DQUOT: Self = Self(OWN | 4);
    /// No limit on file sizes is reported apart from a full disk.
    pub const FBIG: Self = Self(OWN | 5);
    /// Windows does not allow this name.
    pub const BADNAME: Self = Self(OWN | 6);
    /// The name is not Unicode.
    pub const ILSEQ: Self = Self(OWN | 7);
    /// Links are neither read nor made on Windows.
    pub const NOLINKS: Self = Self(OWN | 8);

    /// The kind of error that std has for it.
    #[must_use]
    pub fn kind(self) -> ErrorKind {
        match self {
            Self::LOOP | Self::NOLINKS => ErrorKind::Unsupported,
            Self::PERM => ErrorKind::PermissionDenied,
            Self::BADNAME | Self::ILSEQ => ErrorKind::InvalidFilename,
            _ => Error::from_raw_os_error(self.0.cast_signed()).kind(),
        }
    }

    /// The error of a call of Windows that has just failed in this thread.
    pub(super) fn last() -> Self {
        // SAFETY: it only reads a number of this thread.
        #[expect(unsafe_code)]
        Self::of(unsafe { GetLastError() })
    }

    /// Several codes mean the same to the programs.
    pub(super) fn of(code: u32) -> Self {
        match code {
            ERROR_PATH_NOT_FOUND | ERROR_DELETE_PENDING => Self::NOENT,
            ERROR_FILE_EXISTS => Self::EXIST,
            ERROR_HANDLE_DISK_FULL => Self::NOSPC,
            ERROR_INVALID_LEVEL => Self::NOTSUP,
            ERROR_INVALID_NAME | ERROR_BAD_PATHNAME => Self::BADNAME,
            code => Self(code),
        }
    }

    /// The error of a call of NT.
    pub(super) fn of_status(status: NTSTATUS) -> Self {
        match status {
            // Its name is gone once all programs have closed it.
            STATUS_DELETE_PENDING => Self::NOENT,
            STATUS_FILE_IS_A_DIRECTORY => Self::ISDIR,
            STATUS_NOT_A_DIRECTORY => Self::NOTDIR,
            STATUS_OBJECT_NAME_INVALID => Self::BADNAME,
            STATUS_INVALID_INFO_CLASS | STATUS_NOT_IMPLEMENTED => Self::NOTSUP,
            // SAFETY: it only translates a number.
            #[expect(unsafe_code)]
            status => Self::of(unsafe { RtlNtStatusToDosError(status) }),
        }
    }

    /// That of an error of std.
    pub(super) fn of_std(error: &Error) -> Self {
        error.raw_os_error().map_or(Self::INVAL, |code| Self::of(code.cast_unsigned()))
    }

    fn own_text(self) -> Option<&'static str> {
        Some(match self {
            Self::LOOP => "it is a link",
            Self::PERM => "it is not permitted",
            Self::RANGE => "it is too long",
            Self::DQUOT | Self::FBIG => "it would be too large",
            Self::BADNAME => "Windows does not allow this name",
            Self::ILSEQ => "its name is not Unicode",
            Self::NOLINKS => "links are neither read nor made on Windows",
            _ => return None,
        })
    }
}

impl fmt::Display for Errno {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        Error::from(*self).fmt(f)
    }
}

impl fmt::Debug for Errno {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl std::error::Error for Errno {}

impl From<Errno> for Error {
    fn from(errno: Errno) -> Self {
        match errno.own_text() {
            Some(text) => Self::new(errno.kind(), text),
            None => Self::from_raw_os_error(errno.0.cast_signed()),
        }
    }
}

pub use super::at::preadv;
