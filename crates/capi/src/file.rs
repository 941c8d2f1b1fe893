//! Whole files.

use crate::error::{self, Error, Result};
use crate::memory::{object, path};
use crate::options::{Options, roster};
use crate::ways::{self, Ways};
use phalanx_core::{NewFile, ProtectedFile, Sink};
use phalanx_host::file::{Carry, Ends, Existing, Input, OutputRules, refuse_protected_source, umask};
use phalanx_host::key_files::KeyFiles;
use std::ffi::c_char;
use std::path::Path;

/// Protects a file. The output appears under its name when it is complete and on the disk, or not at all. `length`, if it
/// is not null, gets the content's length in bytes.
///
/// # Safety
/// `input` and `output` are strings that end with a zero byte, `ways` are ways that were not freed, `options` is null or
/// options that were not freed, and `length` is null or leads to 8 bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn phalanx_protect(
    input: *const c_char,
    output: *const c_char,
    ways: *const Ways,
    options: *const Options,
    length: *mut u64,
) -> *mut Error {
    error::run(|| {
        // SAFETY: the caller's promise.
        let (call, ways) = unsafe { (Call::new(input, output, options)?, object(ways, "ways")?) };
        let (recipients, roster) = (ways.recipients()?, roster()?);
        let len = call.run(Carry::All, |ends| {
            refuse_protected_source(|| ends.source(), call.input)?;
            let new = NewFile::with_chunk_size(call.options.suite, call.options.chunk_size, &recipients)?;
            Ok(new.protect(&roster, ends.source()?, ends.sink(), &())?)
        })?;
        // SAFETY: the caller's promise.
        unsafe { tell(length, len) };
        Ok(())
    })
}

/// Opens a protected file. The output appears under its name when all of it is authentic and on the disk, or not at all.
/// `ways` may be null: then the keys of the keyring are tried. `length`, if it is not null, gets the content's length in
/// bytes.
///
/// # Safety
/// `input` and `output` are strings that end with a zero byte, `ways` is null or ways that were not freed, `options` is null
/// or options that were not freed, and `length` is null or leads to 8 bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn phalanx_unprotect(
    input: *const c_char,
    output: *const c_char,
    ways: *const Ways,
    options: *const Options,
    length: *mut u64,
) -> *mut Error {
    error::run(|| {
        // SAFETY: the caller's promise.
        let (call, opener) = unsafe { (Call::new(input, output, options)?, ways::opener(ways)?) };
        let roster = roster()?;
        let len = call.run(Carry::New { umask: umask() }, |ends| {
            Ok(ProtectedFile::open(ends.source()?, &opener)?.unprotect(&roster, ends.sink(), &())?)
        })?;
        // SAFETY: the caller's promise.
        unsafe { tell(length, len) };
        Ok(())
    })
}

/// Checks every chunk of a protected file, and writes nothing. `ways` may be null, as for phalanx_unprotect(). `length`, if
/// it is not null, gets the content's length in bytes.
///
/// # Safety
/// `input` is a string that ends with a zero byte, `ways` is null or ways that were not freed, and `length` is null or
/// leads to 8 bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn phalanx_verify(input: *const c_char, ways: *const Ways, length: *mut u64) -> *mut Error {
    error::run(|| {
        // SAFETY: the caller's promise.
        let (input, opener) = unsafe { (path(input, "input")?, ways::opener(ways)?) };
        let roster = roster()?;
        let check = || -> phalanx_host::Result<u64> {
            let file = Input::open(input)?;
            Ok(ProtectedFile::open(file.source()?, &opener)?.unprotect(&roster, Sink::Nothing, &())?)
        };
        let len = check().map_err(|e| Error::at(input, e))?;
        // SAFETY: the caller's promise.
        unsafe { tell(length, len) };
        Ok(())
    })
}

/// # Safety
/// `to` is null or leads to 8 bytes.
unsafe fn tell(to: *mut u64, value: u64) {
    if !to.is_null() {
        // SAFETY: the caller's promise.
        unsafe { to.write(value) };
    }
}

/// A call that makes one file from another.
struct Call<'a> {
    input: &'a Path,
    output: &'a Path,
    options: Options,
}

impl<'a> Call<'a> {
    /// # Safety
    /// As for [`phalanx_protect`].
    unsafe fn new(input: *const c_char, output: *const c_char, options: *const Options) -> Result<Self> {
        // SAFETY: the caller's promise.
        let (input, output) = unsafe { (path(input, "input")?, path(output, "output")?) };
        // SAFETY: the caller's promise.
        let options = unsafe { options.as_ref() }.copied().unwrap_or_default();
        Ok(Self { input, output, options })
    }

    /// Opens both ends, moves the bytes, and gives the output its name. No output replaces a key.
    fn run(&self, carry: Carry, transfer: impl FnOnce(&Ends) -> phalanx_host::Result<u64>) -> Result<u64> {
        let made = KeyFiles::of_process().made();
        let existing = if self.options.overwrite { Existing::Replace(&made) } else { Existing::Keep };
        let rules = OutputRules { existing, sync: self.options.sync, carry, ..OutputRules::default() };
        let run = || -> phalanx_host::Result<u64> {
            let ends = Ends::of_paths(self.input, self.output, &rules)?;
            let len = transfer(&ends)?;
            ends.commit(&rules)?;
            Ok(len)
        };
        run().map_err(|e| Error::at(if e.is_of_output() { self.output } else { self.input }, e))
    }
}
