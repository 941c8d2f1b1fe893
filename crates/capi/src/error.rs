//! Why a call failed.

use crate::kind;
use phalanx_core::Error as CoreError;
use phalanx_host::failure::{Code, Failure};
use phalanx_host::lines::{complain_to, shown};
use phalanx_host::{Error as HostError, failure};
use std::ffi::{CStr, CString, c_char};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::ptr;
use std::sync::Once;

/// Why a call failed: a code and a line of text. phalanx_error_free() frees it.
pub struct Error {
    code: Code,
    kind: &'static CStr,
    text: CString,
    hint: Option<CString>,
}

pub type Result<T> = std::result::Result<T, Error>;

impl Error {
    /// Of an argument.
    pub fn usage(text: &str) -> Self {
        Failure::usage(text).into()
    }

    /// At a path.
    pub fn at(path: &Path, error: impl Into<HostError>) -> Self {
        let error = error.into();
        let hint = failure::hint(&error);
        Self::new(Code::of(&error), kind::of(&error), &format!("{}: {error}", shown(path)), hint.as_deref())
    }

    /// Without a path.
    pub fn plain(error: impl Into<HostError>) -> Self {
        let error = error.into();
        let hint = failure::hint(&error);
        Self::new(Code::of(&error), kind::of(&error), &error.to_string(), hint.as_deref())
    }

    fn new(code: Code, kind: &'static CStr, text: &str, hint: Option<&str>) -> Self {
        let c_string = |text: &str| CString::new(text.replace('\0', "\u{fffd}")).unwrap_or_default();
        Self { code, kind, text: c_string(text), hint: hint.map(c_string) }
    }
}

impl From<Failure> for Error {
    fn from(failure: Failure) -> Self {
        let kind = failure.error().map_or_else(|| kind::without_error(failure.code()), kind::of);
        Self::new(failure.code(), kind, failure.line().unwrap_or("it failed"), failure.advice())
    }
}

impl From<CoreError> for Error {
    fn from(error: CoreError) -> Self {
        Self::plain(error)
    }
}

/// Runs a call, and returns its error. A panic is an error too, since it must not reach the caller's code.
pub fn run(call: impl FnOnce() -> Result<()>) -> *mut Error {
    static QUIET: Once = Once::new();
    // A library never writes to the terminal by itself.
    QUIET.call_once(|| complain_to(|_| {}));
    let outcome = catch_unwind(AssertUnwindSafe(call));
    let broken =
        |_| Err(Error::new(Code::Other, kind::OTHER, "a part of the library has failed: this is an error in it", None));
    match outcome.unwrap_or_else(broken) {
        Ok(()) => ptr::null_mut(),
        Err(error) => Box::into_raw(Box::new(error)),
    }
}

/// The code of an error, as the command's exit codes: PHALANX_OTHER, PHALANX_USAGE, PHALANX_NOT_AUTHENTIC or PHALANX_IO. 0
/// if the error is null.
///
/// # Safety
/// `error` is null or an error that was not freed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn phalanx_error_code(error: *const Error) -> i32 {
    // SAFETY: the caller's promise.
    match unsafe { error.as_ref() }.map(|error| error.code) {
        None => 0,
        Some(Code::Other) => PHALANX_OTHER,
        Some(Code::Usage) => PHALANX_USAGE,
        Some(Code::NotAuthentic) => PHALANX_NOT_AUTHENTIC,
        Some(Code::InputOutput) => PHALANX_IO,
    }
}

/// The kind of an error in a word, for programs that treat some kinds in their own way. It lives as long as the library. Null
/// if the error is null.
///
/// - What is not a file for the keys at hand: `not-phalanx`, `version`, `header`, `volume`, `wrong-key`, `no-key`,
///   `no-password`, `no-way` and `keys-refused`.
/// - What was changed: `altered`, `truncated`, `extended`, and `messages` for those of phalanx_open_many() and
///   phalanx_open_each().
/// - Keys: `key`, `no-such-key` and `key-locked`; `derivation-limit` and `derivation-memory` for those of passwords.
/// - Files: `exists`, `same-file`, `output`, `changed`, `protected`, `not-found`, `access` and `input`.
/// - All else: `argument` and `other`. Later versions may have more words.
///
/// # Safety
/// `error` is null or an error that was not freed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn phalanx_error_kind(error: *const Error) -> *const c_char {
    // SAFETY: the caller's promise.
    unsafe { error.as_ref() }.map_or(ptr::null(), |error| error.kind.as_ptr())
}

/// One line that says what failed, and at which path. It belongs to the error. Null if the error is null.
///
/// # Safety
/// `error` is null or an error that was not freed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn phalanx_error_text(error: *const Error) -> *const c_char {
    // SAFETY: the caller's promise.
    unsafe { error.as_ref() }.map_or(ptr::null(), |error| error.text.as_ptr())
}

/// What to do about it, in one line of advice that names the command's options; null if there is none. It belongs to the error.
///
/// # Safety
/// `error` is null or an error that was not freed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn phalanx_error_hint(error: *const Error) -> *const c_char {
    // SAFETY: the caller's promise.
    let hint = unsafe { error.as_ref() }.and_then(|error| error.hint.as_ref());
    hint.map_or(ptr::null(), |hint| hint.as_ptr())
}

/// Frees an error. Null is allowed.
///
/// # Safety
/// `error` is null or an error that was not freed. It is not used afterwards.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn phalanx_error_free(error: *mut Error) {
    if !error.is_null() {
        // SAFETY: the caller's promise: it came from a box of `run`.
        drop(unsafe { Box::from_raw(error) });
    }
}

/// Any other failure: an engine, memory, an error in the library.
pub const PHALANX_OTHER: i32 = 1;
/// A wrong argument.
pub const PHALANX_USAGE: i32 = 2;
/// Not a whole, authentic Phalanx file or message for the keys at hand.
pub const PHALANX_NOT_AUTHENTIC: i32 = 3;
/// Input or output failed: a file or key is missing or exists already, the disk is full, access is denied.
pub const PHALANX_IO: i32 = 4;
