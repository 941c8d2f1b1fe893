//! What the caller's pointers lead to.

use crate::error::{Error, Result};
use std::ffi::{CStr, OsStr, c_char};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::slice;

/// The object at a pointer.
///
/// # Safety
/// It is null or leads to a `T` that lives, and that nobody changes, for `'a`.
pub unsafe fn object<'a, T>(pointer: *const T, name: &str) -> Result<&'a T> {
    // SAFETY: the caller's promise.
    unsafe { pointer.as_ref() }.ok_or_else(|| Error::usage(&format!("{name} is null")))
}

/// The object at a pointer, to be changed.
///
/// # Safety
/// It is null or leads to a `T` that lives, and that nobody else uses, for `'a`.
pub unsafe fn object_mut<'a, T>(pointer: *mut T, name: &str) -> Result<&'a mut T> {
    // SAFETY: the caller's promise.
    unsafe { pointer.as_mut() }.ok_or_else(|| Error::usage(&format!("{name} is null")))
}

/// Gives an object to the caller, who frees it.
///
/// # Safety
/// `to` is null or leads to room for a pointer.
pub unsafe fn give<T>(to: *mut *mut T, object: T, name: &str) -> Result<()> {
    if to.is_null() {
        return Err(Error::usage(&format!("{name} is null")));
    }
    // SAFETY: the caller's promise.
    unsafe { to.write(Box::into_raw(Box::new(object))) };
    Ok(())
}

/// Frees what [`give`] gave.
///
/// # Safety
/// It is null, or came from [`give`] and was not freed.
pub unsafe fn free<T>(pointer: *mut T) {
    if !pointer.is_null() {
        // SAFETY: the caller's promise: it came from a box.
        drop(unsafe { Box::from_raw(pointer) });
    }
}

/// Bytes to read. With a length of 0 the pointer means nothing, and may be null.
///
/// # Safety
/// It is null or leads to `len` bytes that nobody changes for `'a`.
pub unsafe fn bytes<'a>(pointer: *const u8, len: usize, name: &str) -> Result<&'a [u8]> {
    check_len(len, name)?;
    match (pointer.is_null(), len) {
        (_, 0) => Ok(&[]),
        (true, _) => Err(Error::usage(&format!("{name} is null"))),
        // SAFETY: the caller's promise, and it is shorter than any allocation can be.
        (false, _) => Ok(unsafe { slice::from_raw_parts(pointer, len) }),
    }
}

/// Bytes to write: zeros at first, since the caller's need not be initialized. With a length of 0 the pointer means nothing, and
/// may be null.
///
/// # Safety
/// It is null or leads to `len` bytes that nobody else uses for `'a`.
pub unsafe fn bytes_mut<'a>(pointer: *mut u8, len: usize, name: &str) -> Result<&'a mut [u8]> {
    check_len(len, name)?;
    match (pointer.is_null(), len) {
        (_, 0) => Ok(&mut []),
        (true, _) => Err(Error::usage(&format!("{name} is null"))),
        // SAFETY: the caller's promise, and it is shorter than any allocation can be. All of it is written before it is a slice.
        (false, _) => Ok(unsafe {
            pointer.write_bytes(0, len);
            slice::from_raw_parts_mut(pointer, len)
        }),
    }
}

fn check_len(len: usize, name: &str) -> Result<()> {
    if isize::try_from(len).is_err() { Err(Error::usage(&format!("{name} is too long"))) } else { Ok(()) }
}

/// A path.
///
/// # Safety
/// It is null or leads to a string that ends with a zero byte, and that nobody changes for `'a`.
pub unsafe fn path<'a>(pointer: *const c_char, name: &str) -> Result<&'a Path> {
    // SAFETY: the caller's promise.
    let string = unsafe { string(pointer, name) }?;
    Ok(Path::new(OsStr::from_bytes(string.to_bytes())))
}

/// A text in UTF-8.
///
/// # Safety
/// It is null or leads to a string that ends with a zero byte, and that nobody changes for `'a`.
pub unsafe fn text<'a>(pointer: *const c_char, name: &str) -> Result<&'a str> {
    // SAFETY: the caller's promise.
    let string = unsafe { string(pointer, name) }?;
    string.to_str().map_err(|_| Error::usage(&format!("{name} is not UTF-8")))
}

/// # Safety
/// As for [`path`].
unsafe fn string<'a>(pointer: *const c_char, name: &str) -> Result<&'a CStr> {
    if pointer.is_null() {
        return Err(Error::usage(&format!("{name} is null")));
    }
    // SAFETY: the caller's promise.
    Ok(unsafe { CStr::from_ptr(pointer) })
}
