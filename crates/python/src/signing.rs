//! Who signs what is protected, and whose signatures count, as callers name them.

use crate::error;
use crate::place::Place;
use phalanx_core::Suite;
use phalanx_host::failure::Outcome;
use phalanx_host::key_files::note_file;
use phalanx_host::lines::shown;
use phalanx_host::signatures::{Signer, Signers, Signing};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use std::path::PathBuf;
use std::sync::Arc;

/// Who signs. `input` is the file that is protected, if it is one.
pub fn by(py: Python<'_>, sign: Option<PathBuf>, suite: Suite, input: Option<&Place>) -> PyResult<Signing> {
    let Some(path) = sign else { return Ok(Signing::No) };
    if suite == Suite::Aes256Gcm {
        return Err(PyValueError::new_err(
            "sign does not work with aes-256-gcm, whose tags do not commit to the content",
        ));
    }
    let leads_to_one = |path: PathBuf| path.as_os_str().as_encoded_bytes().ends_with(b".sig");
    if let Some(input) = input
        && (leads_to_one(input.path().to_owned()) || input.path().canonicalize().is_ok_and(leads_to_one))
    {
        let line = format!("{}: it has the name of a signature, which sign could replace", shown(input.path()));
        return Err(PyValueError::new_err(line));
    }
    note_file(&path);
    read(py, || Ok(Signing::By(Arc::new(Signer::read(&path)?))))
}

/// Whose signatures count.
pub fn checked(py: Python<'_>, signers: Option<PathBuf>, revoked: Option<PathBuf>) -> PyResult<Signing> {
    match (signers, revoked) {
        (None, None) => Ok(Signing::No),
        (None, Some(_)) => Err(PyValueError::new_err("revoked takes keys away from signers, which must be named too")),
        (Some(signers), revoked) => {
            read(py, || Ok(Signing::Checked(Arc::new(Signers::read(&signers, revoked.as_deref())?))))
        }
    }
}

fn read(py: Python<'_>, read: impl FnOnce() -> Outcome<Signing> + Send) -> PyResult<Signing> {
    let read = py.detach(read);
    error::warn(py);
    read.map_err(|failure| error::of_signing(py, failure))
}
