//! Reading a protected file by range.

use crate::error::{self, Error};
use crate::memory::{bytes_mut, free, give, object, path};
use crate::options::roster;
use crate::ways::{self, Ways};

use phalanx_core::{Error as CoreError, Reader as Inner, ReaderOptions};
use phalanx_host::file::InputFile;
use std::ffi::c_char;
use std::fs::File;
use std::path::PathBuf;

/// A protected file that is open for reading by range, from any threads.
pub struct Reader {
    inner: Inner<File>,
    path: PathBuf,
}

/// Opens a protected file, and authenticates its header and its length. `ways` may be null: then the keys of the keyring are
/// tried.
///
/// # Safety
/// `path` is a string that ends with a zero byte, `ways` is null or ways that were not freed, and `reader` leads to room for
/// a pointer.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn phalanx_open(path: *const c_char, ways: *const Ways, reader: *mut *mut Reader) -> *mut Error {
    error::run(|| {
        // SAFETY: the caller's promise.
        let (path, opener) = unsafe { (self::path(path, "path")?, ways::opener(ways)?) };
        let options = ReaderOptions::new().roster(roster()?);
        let open = || -> phalanx_host::Result<_> {
            let file = InputFile::open(path)?.file().try_clone().map_err(CoreError::Read)?;
            Ok(Inner::open_with(file, &opener, &options)?)
        };
        let inner = open().map_err(|e| Error::at(path, e))?;
        // SAFETY: the caller's promise.
        unsafe { give(reader, Reader { inner, path: path.to_owned() }, "reader") }
    })
}

/// The length of the content in bytes. It is authentic.
///
/// # Safety
/// `reader` is a reader that was not closed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn phalanx_size(reader: *const Reader) -> u64 {
    // SAFETY: the caller's promise.
    unsafe { reader.as_ref() }.map_or(0, |reader| reader.inner.len())
}

/// Reads `len` bytes of the content from `offset` on into `buf`, and sets `read` to how many there were: fewer only at the
/// end, and none after it. They are authentic. If it fails, what `buf` holds means nothing.
///
/// # Safety
/// `reader` is a reader that was not closed, `buf` leads to `len` bytes, and `read` to room for a size.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn phalanx_read_at(
    reader: *const Reader,
    offset: u64,
    buf: *mut u8,
    len: usize,
    read: *mut usize,
) -> *mut Error {
    error::run(|| {
        // SAFETY: the caller's promise.
        let reader = unsafe { object(reader, "reader") }?;
        if read.is_null() {
            return Err(Error::usage("read is null"));
        }
        // SAFETY: the caller's promise.
        let buf = unsafe { bytes_mut(buf, len, "buf") }?;
        let len = reader.inner.read_at(buf, offset).map_err(|e| Error::at(&reader.path, e))?;
        // SAFETY: the caller's promise.
        unsafe { read.write(len) };
        Ok(())
    })
}

/// Closes a reader, and wipes what it holds. Null is allowed.
///
/// # Safety
/// `reader` is null, or a reader that was not closed. It is not used afterwards.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn phalanx_close(reader: *mut Reader) {
    // SAFETY: the caller's promise.
    unsafe { free(reader) }
}
