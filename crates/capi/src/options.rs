//! How files and messages are processed.

use crate::error::{self, Error, Result};
use crate::memory::{free, give, object_mut, text};
use phalanx_core::engine::CpuEngine;
use phalanx_core::{ChunkSize, Roster, Suite};
use phalanx_host::args::Cipher;
use phalanx_host::engines::levels;
use std::ffi::c_char;
use std::sync::{Arc, Mutex, PoisonError};

/// How a file is processed. Where none are given: the cipher aes-256, chunks of 1 MiB, an existing output stays and is an
/// error, and an output is on the disk when the call returns.
#[derive(Clone, Copy)]
pub struct Options {
    pub suite: Suite,
    pub chunk_size: ChunkSize,
    pub overwrite: bool,
    pub sync: bool,
}

impl Default for Options {
    fn default() -> Self {
        Self { suite: Suite::default(), chunk_size: ChunkSize::default(), overwrite: false, sync: true }
    }
}

/// The suite of a cipher's name, or the default one without a name.
///
/// # Safety
/// `cipher` is null, or leads to a string that ends with a zero byte.
pub unsafe fn suite(cipher: *const c_char) -> Result<Suite> {
    if cipher.is_null() {
        return Ok(Suite::default());
    }
    // SAFETY: the caller's promise.
    let name = unsafe { text(cipher, "cipher") }?;
    Cipher::ALL.into_iter().find(|cipher| cipher.name() == name).map(Suite::from).ok_or_else(|| {
        let names: Vec<_> = Cipher::ALL.into_iter().map(Cipher::name).collect();
        Error::usage(&format!("cipher is one of {}", names.join(", ")))
    })
}

/// All cores. The threads are those of the process: a child that was forked makes its own.
pub fn roster() -> Result<Arc<Roster>> {
    /// The process that made it, and the roster.
    type Made = Option<(u32, Arc<Roster>)>;
    static MADE: Mutex<Made> = Mutex::new(None);
    let mut made = MADE.lock().unwrap_or_else(PoisonError::into_inner);
    let now = std::process::id();
    if let Some((_, roster)) = made.as_ref().filter(|(process, _)| *process == now) {
        return Ok(roster.clone());
    }
    let threads = std::thread::available_parallelism().map_or(1, |n| n.get());
    let roster = Arc::new(Roster::new(&[Arc::new(CpuEngine::parallel(threads, levels()?))]));
    *made = Some((now, roster.clone()));
    Ok(roster)
}

/// The default options.
///
/// # Safety
/// `options` leads to room for a pointer.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn phalanx_options_new(options: *mut *mut Options) -> *mut Error {
    // SAFETY: the caller's promise.
    error::run(|| unsafe { give(options, Options::default(), "options") })
}

/// Sets the cipher of new files: aes-256, aes-192, aes-128, aes-256-turbo or aes-256-gcm.
///
/// # Safety
/// `options` are options that were not freed, and `cipher` is a string that ends with a zero byte.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn phalanx_options_set_cipher(options: *mut Options, cipher: *const c_char) -> *mut Error {
    error::run(|| {
        // SAFETY: the caller's promise.
        let (options, suite) = unsafe { (object_mut(options, "options")?, suite(cipher)?) };
        options.suite = suite;
        Ok(())
    })
}

/// Sets the chunk size of new files in bytes: a power of two from 4096 to 16777216.
///
/// # Safety
/// `options` are options that were not freed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn phalanx_options_set_chunk_size(options: *mut Options, bytes: u64) -> *mut Error {
    error::run(|| {
        // SAFETY: the caller's promise.
        let options = unsafe { object_mut(options, "options") }?;
        let wrong = || Error::usage("a chunk size is a power of two from 4096 to 16777216");
        options.chunk_size = ChunkSize::new(bytes).ok_or_else(wrong)?;
        Ok(())
    })
}

/// Sets whether an output replaces an existing file.
///
/// # Safety
/// `options` are options that were not freed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn phalanx_options_set_overwrite(options: *mut Options, overwrite: bool) -> *mut Error {
    error::run(|| {
        // SAFETY: the caller's promise.
        unsafe { object_mut(options, "options") }?.overwrite = overwrite;
        Ok(())
    })
}

/// Sets whether an output is on the disk before it gets its name. Otherwise it may be lost in a power cut.
///
/// # Safety
/// `options` are options that were not freed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn phalanx_options_set_sync(options: *mut Options, sync: bool) -> *mut Error {
    error::run(|| {
        // SAFETY: the caller's promise.
        unsafe { object_mut(options, "options") }?.sync = sync;
        Ok(())
    })
}

/// Frees options. Null is allowed.
///
/// # Safety
/// `options` is null, or options that were not freed. They are not used afterwards.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn phalanx_options_free(options: *mut Options) {
    // SAFETY: the caller's promise.
    unsafe { free(options) }
}
