//! The kinds of errors, in a word each: phalanx_error_kind() lists them.

use phalanx_core::{Class, Error as CoreError};
use phalanx_host::Error as HostError;
use phalanx_host::failure::Code;
use std::ffi::CStr;
use std::io;

/// None of the others.
pub const OTHER: &CStr = c"other";
const ARGUMENT: &CStr = c"argument";
const INPUT: &CStr = c"input";

/// The kind of an error.
pub fn of(error: &HostError) -> &'static CStr {
    match error {
        HostError::Core(error) => of_core(error),
        HostError::Interrupted(error) => of(error),
        HostError::Protected => c"protected",
        HostError::Exists => c"exists",
        HostError::SameFile => c"same-file",
        HostError::Unsynced(_) | HostError::OwnOutput => c"output",
        HostError::NoSuchKey(_) => c"no-such-key",
        HostError::KeyLocked(_) => c"key-locked",
        HostError::KeyDamaged(_) | HostError::Refused(_) => c"key",
        error => without_error(Code::of(error)),
    }
}

fn of_core(error: &CoreError) -> &'static CStr {
    match error {
        CoreError::NotPhalanx => c"not-phalanx",
        CoreError::Version(_) => c"version",
        CoreError::Header(_) => c"header",
        CoreError::Volume => c"volume",
        CoreError::KdfLimit(_) => c"derivation-limit",
        CoreError::KdfMemory(_) => c"derivation-memory",
        CoreError::WrongKey | CoreError::KeysRefused { tried: true, .. } => c"wrong-key",
        CoreError::KeysRefused { .. } => c"keys-refused",
        CoreError::NoKey { identity, services, .. } if *identity || !services.is_empty() => c"no-way",
        CoreError::NoKey { keys, .. } if !keys.is_empty() => c"no-key",
        CoreError::NoKey { password: true, .. } => c"no-password",
        CoreError::NoKey { .. } => c"no-way",
        CoreError::Altered { .. } => c"altered",
        CoreError::Truncated(_) => c"truncated",
        CoreError::Extended(_) => c"extended",
        CoreError::NotAuthentic { .. } => c"messages",
        CoreError::Changed => c"changed",
        CoreError::Write(_) => c"output",
        CoreError::Read(error) => match error.kind() {
            io::ErrorKind::NotFound => c"not-found",
            io::ErrorKind::PermissionDenied => c"access",
            _ => INPUT,
        },
        CoreError::KeyText(_) | CoreError::Recipient { .. } => c"key",
        error if error.class() == Class::Argument => ARGUMENT,
        _ => OTHER,
    }
}

/// The kind of a failure that no error of the library is behind.
pub fn without_error(code: Code) -> &'static CStr {
    match code {
        Code::Usage => ARGUMENT,
        Code::InputOutput => INPUT,
        Code::NotAuthentic | Code::Other => OTHER,
    }
}
