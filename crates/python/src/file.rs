//! Whole files.

use crate::engines::{chunk_size, engines, interruptible, suite};
use crate::error;
use crate::key::{KeyOrName, key_files};
use crate::ways::{self, Keys, Secret};
use phalanx_core::engine::Op;
use phalanx_core::{NewFile, Progress, ProtectedFile, Sink};
use phalanx_host::Result;
use phalanx_host::file::{
    Carry, Ends, Existing, Input, OutputRules, protected_name, refuse_protected, umask, unprotected_name,
};
use phalanx_host::folders;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use std::path::PathBuf;

/// Protects a file, and returns the path of the protected one.
///
/// It is written beside its input with ``.phx`` appended to its name, or to ``output``, and gets its name when it is complete and
/// on the disk. ``key`` and ``keys`` are keys, or names in the keyring; ``recipients`` are public keys of age or SSH. Any one of
/// them, or the password, opens the file. An existing file is replaced only with ``overwrite``. Without ``sync`` it may be lost
/// in a power cut. ``engine`` is one of auto, serial, cpu, gpu and hybrid.
///
/// >>> key = phalanx.Key.generate()
/// >>> with open("run42.csv", "w") as f: _ = f.write("1,2,3")
/// >>> phalanx.protect("run42.csv", key=key).name
/// 'run42.csv.phx'
#[pyfunction]
#[pyo3(signature = (path, *, key=None, keys=vec![], password=None, recipients=vec![], cipher="aes-256", chunk_size=1 << 20,
    output=None, overwrite=false, sync=true, threads=None, engine="auto"))]
#[expect(clippy::too_many_arguments, reason = "Python has them by name")]
pub fn protect(
    py: Python<'_>,
    path: PathBuf,
    key: Option<KeyOrName>,
    keys: Vec<KeyOrName>,
    password: Option<Secret>,
    recipients: Vec<String>,
    cipher: &str,
    chunk_size: u64,
    output: Option<PathBuf>,
    overwrite: bool,
    sync: bool,
    threads: Option<usize>,
    engine: &str,
) -> PyResult<PathBuf> {
    let (suite, chunk_size) = (suite(cipher)?, self::chunk_size(chunk_size)?);
    let engines = engines(py, engine, threads)?;
    let recipients = ways::recipients(py, Keys { key, keys, password }, &recipients)?;
    let output = output.unwrap_or_else(|| protected_name(path.as_os_str()).into());
    let call = Call { input: path, output, overwrite, sync, carry: Carry::All };
    call.run(py, |ends, progress| {
        refuse_protected(ends.input.file(), &call.input)?;
        let new = NewFile::with_chunk_size(suite, chunk_size, &recipients)?;
        let crew = engines.crew(Op::Seal, suite, ends.input.known_len());
        Ok(new.protect(&crew.roster, ends.source()?, ends.sink(), progress)?)
    })?;
    Ok(call.output)
}

/// Opens a protected file, and returns the path of the plaintext.
///
/// It is written beside its input, without ``.phx``, or to ``output``. If anything of the file is not authentic, no output
/// appears. ``identities`` are paths of identity files of age, or of SSH keys. If no key, password or identity is named, the
/// keys of the keyring are tried.
///
/// >>> key = phalanx.Key.generate()
/// >>> with open("run43.csv", "w") as f: _ = f.write("1,2,3")
/// >>> phalanx.unprotect(phalanx.protect("run43.csv", key=key), key=key, output="back.csv").read_text()
/// '1,2,3'
#[pyfunction]
#[pyo3(signature = (path, *, key=None, keys=vec![], password=None, identities=vec![], output=None, overwrite=false, sync=true,
    threads=None, engine="auto"))]
#[expect(clippy::too_many_arguments, reason = "Python has them by name")]
pub fn unprotect(
    py: Python<'_>,
    path: PathBuf,
    key: Option<KeyOrName>,
    keys: Vec<KeyOrName>,
    password: Option<Secret>,
    identities: Vec<PathBuf>,
    output: Option<PathBuf>,
    overwrite: bool,
    sync: bool,
    threads: Option<usize>,
    engine: &str,
) -> PyResult<PathBuf> {
    let engines = engines(py, engine, threads)?;
    let opener = ways::opener(py, Keys { key, keys, password }, &identities)?;
    let beside = || Some(path.with_file_name(unprotected_name(path.file_name()?)?));
    let nameless = || PyValueError::new_err(format!("{}: no name for the output: name one", path.display()));
    let output = output.or_else(beside).ok_or_else(nameless)?;
    let call = Call { input: path, output, overwrite, sync, carry: Carry::New { umask: umask() } };
    call.run(py, |ends, progress| {
        let file = ProtectedFile::open(ends.source()?, &opener)?;
        let crew = engines.crew(Op::Open, file.suite(), ends.input.known_len());
        Ok(file.unprotect(&crew.roster, ends.sink(), progress)?)
    })?;
    Ok(call.output)
}

/// Checks every chunk of a protected file, writes nothing, and returns the plaintext's length in bytes.
///
/// >>> key = phalanx.Key.generate()
/// >>> with open("run44.csv", "w") as f: _ = f.write("1,2,3")
/// >>> phalanx.verify(phalanx.protect("run44.csv", key=key), key=key)
/// 5
#[pyfunction]
#[pyo3(signature = (path, *, key=None, keys=vec![], password=None, identities=vec![], threads=None, engine="auto"))]
#[expect(clippy::too_many_arguments, reason = "Python has them by name")]
pub fn verify(
    py: Python<'_>,
    path: PathBuf,
    key: Option<KeyOrName>,
    keys: Vec<KeyOrName>,
    password: Option<Secret>,
    identities: Vec<PathBuf>,
    threads: Option<usize>,
    engine: &str,
) -> PyResult<u64> {
    let engines = engines(py, engine, threads)?;
    let opener = ways::opener(py, Keys { key, keys, password }, &identities)?;
    let checked = interruptible(py, |progress| {
        let input = Input::open(&path)?;
        let file = ProtectedFile::open(input.source()?, &opener)?;
        let crew = engines.crew(Op::Open, file.suite(), input.known_len());
        Ok(file.unprotect(&crew.roster, Sink::Nothing, progress)?)
    })?;
    checked.map_err(|e| error::at(py, Some(&path), e))
}

/// Refuses the path of a file that Python is to write where there is one of the keys in use.
#[pyfunction]
pub fn check_output(py: Python<'_>, path: PathBuf) -> PyResult<()> {
    let made = key_files().made();
    let checked =
        folders::open_parent(&path).map_err(folders::write_error).and_then(|(folder, name)| made.check(&folder, &name));
    checked.map_err(|e| error::at(py, Some(&path), e))
}

/// A call that makes one file from another.
struct Call {
    input: PathBuf,
    output: PathBuf,
    overwrite: bool,
    sync: bool,
    carry: Carry,
}

impl Call {
    /// Opens both ends, moves the bytes, and gives the output its name.
    fn run(&self, py: Python<'_>, transfer: impl FnOnce(&Ends, &dyn Progress) -> Result<u64> + Send) -> PyResult<()> {
        let made = key_files().made();
        let existing = if self.overwrite { Existing::Replace(&made) } else { Existing::Keep };
        let rules = OutputRules { existing, sync: self.sync, carry: self.carry, ..OutputRules::default() };
        let done = interruptible(py, |progress| {
            let ends = Ends::of_paths(&self.input, &self.output, &rules)?;
            transfer(&ends, progress)?;
            // If a signal has ended the call, the output must not get its name.
            if progress.is_cancelled() {
                return Err(phalanx_core::Error::Cancelled.into());
            }
            ends.commit(&rules).map(drop)
        })?;
        done.map_err(|error| error::at(py, Some(if error.is_of_output() { &self.output } else { &self.input }), error))
    }
}
