//! Keys.

use crate::error::{self, Error, Result};
use crate::memory::{bytes, free, give, object, path, text};
use phalanx_core::SecretKey;
use phalanx_host::key_files::note_file;
use phalanx_host::secret_files;
use std::ffi::c_char;
use std::ptr;

/// A secret key of 32 bytes. phalanx_key_free() wipes it.
pub struct Key(pub SecretKey);

/// A new random key.
///
/// # Safety
/// `key` leads to room for a pointer.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn phalanx_key_random(key: *mut *mut Key) -> *mut Error {
    // SAFETY: the caller's promise.
    error::run(|| unsafe { give(key, Key(SecretKey::random()?), "key") })
}

/// The key of 32 bytes. The caller wipes its own copy.
///
/// # Safety
/// `bytes` leads to 32 bytes, and `key` to room for a pointer.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn phalanx_key_from_bytes(bytes: *const u8, key: *mut *mut Key) -> *mut Error {
    error::run(|| {
        // SAFETY: the caller's promise.
        let bytes = unsafe { self::bytes(bytes, 32, "bytes") }?;
        let secret = SecretKey::from_slice(bytes).ok_or_else(|| Error::usage("a key has 32 bytes"))?;
        // SAFETY: the caller's promise.
        unsafe { give(key, Key(secret), "key") }
    })
}

/// The key with this name in the keyring, as the command `phalanx key` has it.
///
/// # Safety
/// `name` is a string that ends with a zero byte, and `key` leads to room for a pointer.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn phalanx_key_named(name: *const c_char, key: *mut *mut Key) -> *mut Error {
    error::run(|| {
        // SAFETY: the caller's promise.
        let name = unsafe { text(name, "name") }?;
        let secret = secret_files::keyring()?.load(name).map_err(Error::plain)?;
        // SAFETY: the caller's promise.
        unsafe { give(key, Key(secret), "key") }
    })
}

/// The key in a file of exactly 32 bytes, which only its owner may read. From then on, no output of this process replaces
/// that file.
///
/// # Safety
/// `path` is a string that ends with a zero byte, and `key` leads to room for a pointer.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn phalanx_key_from_file(path: *const c_char, key: *mut *mut Key) -> *mut Error {
    error::run(|| {
        // SAFETY: the caller's promise.
        let path = unsafe { self::path(path, "path") }?;
        let secret = secret_files::read_key(path)?;
        note_file(path);
        // SAFETY: the caller's promise.
        unsafe { give(key, Key(secret), "key") }
    })
}

/// The key's public name in files.
///
/// # Safety
/// `key` is a key that was not freed, and `id` leads to 16 bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn phalanx_key_id(key: *const Key, id: *mut u8) -> *mut Error {
    // SAFETY: the caller's promise.
    error::run(|| unsafe { copy_to(id, &object(key, "key")?.0.id().0, "id") })
}

/// The key's bytes. The caller wipes them.
///
/// # Safety
/// `key` is a key that was not freed, and `bytes` leads to 32 bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn phalanx_key_bytes(key: *const Key, bytes: *mut u8) -> *mut Error {
    // SAFETY: the caller's promise.
    error::run(|| unsafe { copy_to(bytes, object(key, "key")?.0.expose(), "bytes") })
}

/// # Safety
/// `to` is null or leads to `from.len()` bytes.
unsafe fn copy_to(to: *mut u8, from: &[u8], name: &str) -> Result<()> {
    if to.is_null() {
        return Err(Error::usage(&format!("{name} is null")));
    }
    // SAFETY: the caller's promise. What the library returns does not overlap the caller's memory.
    unsafe { ptr::copy_nonoverlapping(from.as_ptr(), to, from.len()) };
    Ok(())
}

/// Wipes and frees a key. Null is allowed.
///
/// # Safety
/// `key` is null or a key that was not freed. It is not used afterwards.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn phalanx_key_free(key: *mut Key) {
    // SAFETY: the caller's promise.
    unsafe { free(key) }
}
