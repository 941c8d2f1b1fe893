//! Turns the library's errors into Python's exceptions, which `phalanx/_errors.py` defines.

use phalanx_core::Error as CoreError;
use phalanx_core::tree::Invalid;
use phalanx_host::Error;
use phalanx_host::failure::{Code, Failure};
use phalanx_host::file::is_url;
use phalanx_host::lines::shown;
use pyo3::exceptions::{
    PyFileExistsError, PyKeyboardInterrupt, PyMemoryError, PyOSError, PyRuntimeWarning, PyValueError,
};
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::PyType;
use std::ffi::{CString, OsString};
use std::io;
use std::mem;
use std::path::Path;
use std::sync::{Mutex, PoisonError};

/// Numbers of errors, as every system has them that Phalanx runs on: `ENOENT`, `EIO`, `EACCES` and `EEXIST`.
const MISSING: i32 = 2;
const FAILED: i32 = 5;
const DENIED: i32 = 13;
const EXISTS: i32 = 17;

/// An exception of `phalanx/_errors.py`.
fn exception(py: Python<'_>, class: &str, text: String) -> PyErr {
    let class = py.import(intern!(py, "phalanx._errors")).and_then(|module| module.getattr(class));
    match class.and_then(|class| Ok(class.cast_into::<PyType>()?)) {
        Ok(class) => PyErr::from_type(class, text),
        Err(error) => error,
    }
}

/// The exception of an error, without a path.
pub fn plain(py: Python<'_>, error: impl Into<Error>) -> PyErr {
    at(py, None, error)
}

/// The exception of an error at a path, if there is one.
pub fn at(py: Python<'_>, path: Option<&Path>, error: impl Into<Error>) -> PyErr {
    let error = error.into();
    let text = path.map_or_else(|| error.to_string(), |path| format!("{}: {error}", shown(path)));
    of(py, path, error, text)
}

/// The exception of an error that this text explains.
fn of(py: Python<'_>, path: Option<&Path>, error: Error, mut text: String) -> PyErr {
    let remedy = match &error {
        Error::Refused(refused) => refused.hint(),
        Error::Core(CoreError::KeysRefused { remedy, .. }) => remedy.as_deref(),
        _ => None,
    };
    if let Some(command) = remedy {
        text += &format!(" ({command})");
    }
    match error {
        Error::Core(CoreError::Read(e) | CoreError::Write(e)) => input_output(path, e, text),
        Error::Unsynced(_)
        | Error::Core(CoreError::Changed)
        | Error::Displaced
        | Error::OwnOutput
        | Error::Aside(_) => PyOSError::new_err(text),
        Error::SameFile => match py.import("shutil").and_then(|shutil| shutil.getattr("SameFileError")) {
            Ok(class) => class.cast_into::<PyType>().map_or_else(Into::into, |class| PyErr::from_type(class, text)),
            Err(error) => error,
        },
        Error::Exists => match path {
            Some(path) => {
                PyFileExistsError::new_err((EXISTS, "exists already (overwrite=True replaces it)", name(path)))
            }
            None => PyFileExistsError::new_err(text),
        },
        Error::Core(CoreError::Altered { chunk, .. }) => {
            with(py, exception(py, "AuthenticationError", text), "chunk", chunk)
        }
        Error::Core(CoreError::NotAuthentic { failed }) => {
            with(py, exception(py, "AuthenticationError", text), "failed", failed)
        }
        Error::Manifest(Invalid::Version) => exception(py, "UnsupportedError", text),
        Error::Core(CoreError::Extended(_)) | Error::Manifest(_) | Error::NotListed(_) => {
            exception(py, "AuthenticationError", text)
        }
        Error::Core(CoreError::Truncated(_)) => exception(py, "TruncatedError", text),
        Error::Core(CoreError::NoKey { .. } | CoreError::KeysRefused { .. } | CoreError::WrongKey) => {
            exception(py, "WrongKeyError", text)
        }
        Error::Core(CoreError::NotPhalanx | CoreError::Header(_)) => exception(py, "NotPhalanxError", text),
        Error::Core(CoreError::Version(_) | CoreError::Volume) => exception(py, "UnsupportedError", text),
        Error::NoSuchKey(_)
        | Error::KeyLocked(_)
        | Error::KeyDamaged(_)
        | Error::Core(CoreError::KeyText(_))
        | Error::Refused(_) => exception(py, "KeyringError", text),
        Error::Core(CoreError::Fault(_)) => exception(py, "EngineError", text),
        Error::Core(CoreError::Memory(_) | CoreError::KdfMemory(_)) => PyMemoryError::new_err(text),
        Error::KeyName(_)
        | Error::Core(
            CoreError::KeyCount(_)
            | CoreError::TooManyPasswords
            | CoreError::HeaderLen(_)
            | CoreError::Recipient { .. }
            | CoreError::Message { .. },
        ) => PyValueError::new_err(text),
        Error::Core(CoreError::Cancelled) => PyKeyboardInterrupt::new_err(()),
        _ => exception(py, "Error", text),
    }
}

/// A path as text, as Python's own functions have it in their exceptions.
fn name(path: &Path) -> OsString {
    path.as_os_str().to_owned()
}

/// An error of the system with its number, so that it becomes `FileNotFoundError` and the like. An exception of a
/// Python object is raised unchanged.
fn input_output(path: Option<&Path>, error: io::Error, text: String) -> PyErr {
    if let Some(number) = error.raw_os_error() {
        let all = error.to_string();
        let why = all.split(" (os error").next().unwrap_or(&all).to_owned();
        return match path {
            Some(path) => PyOSError::new_err((number, why, name(path))),
            None => PyOSError::new_err((number, why)),
        };
    }
    match error.downcast::<PyErr>() {
        Ok(raised) => raised,
        // The I/O error may contain an error of the library.
        Err(error) => match error.downcast::<CoreError>() {
            Ok(error) => Python::attach(|py| at(py, path, error)),
            Err(error) => match path.filter(|path| is_url(path)) {
                Some(url) => of_store(url, &error, &text),
                None => PyOSError::new_err(text),
            },
        },
    }
}

/// An error of a store, which has a kind and no number.
fn of_store(url: &Path, error: &io::Error, text: &str) -> PyErr {
    let number = match error.kind() {
        io::ErrorKind::InvalidInput => return PyValueError::new_err(as_arguments(text)),
        io::ErrorKind::NotFound => MISSING,
        io::ErrorKind::PermissionDenied => DENIED,
        io::ErrorKind::AlreadyExists => EXISTS,
        _ => FAILED,
    };
    PyOSError::new_err((number, error.to_string(), name(url)))
}

/// Packs an exception of a Python object into an error that passes through the library. Its kind is never
/// `Interrupted`, because a read would then be repeated.
pub fn raised(error: PyErr) -> io::Error {
    io::Error::other(error)
}

/// The exception of a failure of the command's parts.
pub fn of_failure(py: Python<'_>, failure: &Failure) -> PyErr {
    let text = failure.line().unwrap_or("it failed").to_owned();
    match failure.code() {
        Code::Usage => PyValueError::new_err(text),
        Code::InputOutput => exception(py, "KeyringError", text),
        Code::NotAuthentic => exception(py, "AuthenticationError", text),
        Code::Other => exception(py, "EngineError", text),
    }
}

/// The exception of a failure of a signature, of its key or of its file of signers.
pub fn of_signing(py: Python<'_>, failure: Failure) -> PyErr {
    let path = failure.path().map(Path::to_owned);
    let (code, line) = (failure.code(), failure.line().unwrap_or("it failed").to_owned());
    match (failure.into_error(), code) {
        (Some(error), _) => of(py, path.as_deref(), error, line),
        (None, Code::Usage) => PyValueError::new_err(line),
        (None, Code::NotAuthentic) => exception(py, "AuthenticationError", line),
        (None, Code::InputOutput | Code::Other) => exception(py, "Error", line),
    }
}

/// A length, and who has signed it.
pub fn signed_length(py: Python<'_>, length: u64, signer: &str) -> PyResult<Py<PyAny>> {
    let class = py.import(intern!(py, "phalanx._signed"))?.getattr("SignedLength")?;
    Ok(class.call1((length, signer))?.unbind())
}

/// The exception of a failure in a tree: that of the error that it was made of, if there was one.
pub fn of_tree(py: Python<'_>, failure: Failure) -> PyErr {
    let path = failure.path().map(Path::to_owned);
    let (code, line) = (failure.code(), failure.line().unwrap_or("it failed").to_owned());
    let hint = failure.advice().map(|hint| format!(" ({})", as_arguments(hint))).unwrap_or_default();
    match (failure.into_error(), code) {
        (Some(error), _) => of(py, path.as_deref(), error, line),
        (None, Code::Usage) => PyValueError::new_err(as_arguments(&line)),
        (None, Code::NotAuthentic) => exception(py, "TreeError", line),
        (None, Code::InputOutput | Code::Other) => exception(py, "Error", as_arguments(&line) + &hint),
    }
}

/// A line with the names of arguments in the places of the options that the command has for them.
fn as_arguments(line: &str) -> String {
    const ARGUMENTS: [(&str, &str); 7] = [
        ("--allow-http", "allow_http=True in storage_options"),
        ("--new", "new=True"),
        ("--max-delete allows", "max_delete allows"),
        ("--max-delete ", "max_delete="),
        ("--delete", "delete=True"),
        ("--exclude-if-present", "exclude_if_present"),
        ("--files-from", "only"),
    ];
    ARGUMENTS.iter().fold(line.to_owned(), |line, (option, argument)| line.replace(option, argument))
}

/// The exception of an engine or a device that cannot be used.
pub fn engine(py: Python<'_>, text: &str) -> PyErr {
    exception(py, "EngineError", text.into())
}

/// An exception that belongs to no error of the library.
pub fn other(py: Python<'_>, text: &str) -> PyErr {
    exception(py, "Error", text.into())
}

/// The exception for messages that are not authentic.
pub fn not_authentic(py: Python<'_>, failed: Vec<usize>) -> PyErr {
    plain(py, CoreError::NotAuthentic { failed })
}

/// The exception for a single message that is not authentic.
pub fn message_not_authentic(py: Python<'_>) -> PyErr {
    exception(py, "AuthenticationError", "the message is not authentic".into())
}

fn with<'py>(py: Python<'py>, error: PyErr, name: &str, value: impl IntoPyObject<'py>) -> PyErr {
    let set = error.value(py).setattr(name, value);
    set.err().unwrap_or(error)
}

/// Lines that the command would write to stderr. They become warnings when no lock is held, because Python code shows them.
static LINES: Mutex<Vec<String>> = Mutex::new(Vec::new());

/// Keeps a line until [`warn`] is called.
pub fn keep_line(line: &str) {
    let line = line.strip_prefix("warning: ").unwrap_or(line);
    LINES.lock().unwrap_or_else(PoisonError::into_inner).push(line.to_owned());
}

/// Raises the kept lines as warnings.
pub fn warn(py: Python<'_>) {
    let lines = mem::take(&mut *LINES.lock().unwrap_or_else(PoisonError::into_inner));
    let category = py.get_type::<PyRuntimeWarning>();
    for line in lines.into_iter().filter_map(|line| CString::new(line).ok()) {
        if let Err(error) = PyErr::warn(py, &category, &line, 2) {
            // The user has turned warnings into errors. The work is done, so the call does not fail.
            error.write_unraisable(py, None);
        }
    }
}

/// The exception for a closed file object.
pub fn closed() -> PyErr {
    PyValueError::new_err("I/O operation on closed file")
}

/// Fails in a process that was forked, because it does not have the threads and locks of its parent.
pub fn check_process(py: Python<'_>, pid: u32) -> PyResult<()> {
    if pid == std::process::id() {
        return Ok(());
    }
    Err(other(py, "it was opened before this process was forked: open it again here"))
}
