//! Whole files.

use crate::engines::{chunk_size, engines, interruptible, interruptible_apart, suite};
use crate::error;
use crate::key::{KeyOrName, key_files};
use crate::place::{Place, beside};
use crate::stores::{self, StorageOptions};
use crate::ways::{self, Keys, Secret};
use phalanx_core::engine::Op;
use phalanx_core::{NewFile, Progress, ProtectedFile, Sink};
use phalanx_host::file::{
    Carry, Ends, Existing, OutputRules, protected_name, refuse_protected_source, umask, unprotected_name,
};
use phalanx_host::folders;
use phalanx_host::{Error, Result};
use phalanx_store::Options;
use pyo3::prelude::*;
use std::path::PathBuf;

/// Protects a file, and returns the path of the protected one.
///
/// It is written beside its input with ``.phx`` appended to its name, or to ``output``, and gets its name when it is complete and
/// on the disk. ``key`` and ``keys`` are keys, or names in the keyring; ``recipients`` are public keys of age or SSH. Any one of
/// them, or the password, opens the file. An existing file is replaced only with ``overwrite``. Without ``sync`` it may be lost
/// in a power cut. ``engine`` is one of auto, serial, cpu, gpu and hybrid.
///
/// ``path`` and ``output`` can be URLs of objects in stores, as a str: ``s3://``, ``gs://``, ``az://``, and ``https://`` for reading.
/// Such an output is returned as a str. ``storage_options`` has an ``endpoint_url``, a ``region``, the number of ``requests`` at the
/// same time, and ``allow_http``. Credentials come from the environment, as for the command.
///
/// >>> key = phalanx.Key.generate()
/// >>> with open("run42.csv", "w") as f: _ = f.write("1,2,3")
/// >>> phalanx.protect("run42.csv", key=key).name
/// 'run42.csv.phx'
#[pyfunction]
#[pyo3(signature = (path, *, key=None, keys=vec![], password=None, recipients=vec![], cipher="aes-256", chunk_size=1 << 20,
    output=None, overwrite=false, sync=true, threads=None, engine="auto", storage_options=None))]
#[expect(clippy::too_many_arguments, reason = "Python has them by name")]
pub fn protect(
    py: Python<'_>,
    path: Place,
    key: Option<KeyOrName>,
    keys: Vec<KeyOrName>,
    password: Option<Secret>,
    recipients: Vec<String>,
    cipher: &str,
    chunk_size: u64,
    output: Option<Place>,
    overwrite: bool,
    sync: bool,
    threads: Option<usize>,
    engine: &str,
    storage_options: Option<StorageOptions>,
) -> PyResult<Py<PyAny>> {
    let (suite, chunk_size) = (suite(cipher)?, self::chunk_size(chunk_size)?);
    let engines = engines(py, engine, threads)?;
    let recipients = ways::recipients(py, Keys { key, keys, password }, &recipients)?;
    let named = || beside(&path, |path| Some(protected_name(path.as_os_str()).into()));
    let output = output.map_or_else(named, Ok)?;
    let stores = stores::of_call(py, storage_options, path.is_url() || output.is_url())?;
    let call = Call { input: path, output, overwrite, sync, carry: Carry::All, stores };
    call.run(py, |ends, progress| {
        refuse_protected_source(|| ends.source(), call.input.path())?;
        let new = NewFile::with_chunk_size(suite, chunk_size, &recipients)?;
        let crew = engines.crew(Op::Seal, suite, ends.input.known_len());
        Ok(new.protect(&crew.roster, ends.source()?, ends.sink(), progress)?)
    })?;
    call.output.into_python(py)
}

/// Opens a protected file, and returns the path of the plaintext.
///
/// It is written beside its input, without ``.phx``, or to ``output``. If anything of the file is not authentic, no output
/// appears. ``identities`` are paths of identity files of age, or of SSH keys. If no key, password or identity is named, the
/// keys of the keyring are tried. ``path``, ``output`` and ``storage_options`` are as for :func:`protect`, and the output of an
/// object must be named.
///
/// >>> key = phalanx.Key.generate()
/// >>> with open("run43.csv", "w") as f: _ = f.write("1,2,3")
/// >>> phalanx.unprotect(phalanx.protect("run43.csv", key=key), key=key, output="back.csv").read_text()
/// '1,2,3'
#[pyfunction]
#[pyo3(signature = (path, *, key=None, keys=vec![], password=None, identities=vec![], output=None, overwrite=false, sync=true,
    threads=None, engine="auto", storage_options=None))]
#[expect(clippy::too_many_arguments, reason = "Python has them by name")]
pub fn unprotect(
    py: Python<'_>,
    path: Place,
    key: Option<KeyOrName>,
    keys: Vec<KeyOrName>,
    password: Option<Secret>,
    identities: Vec<PathBuf>,
    output: Option<Place>,
    overwrite: bool,
    sync: bool,
    threads: Option<usize>,
    engine: &str,
    storage_options: Option<StorageOptions>,
) -> PyResult<Py<PyAny>> {
    let engines = engines(py, engine, threads)?;
    let opener = ways::opener(py, Keys { key, keys, password }, &identities)?;
    let named = || beside(&path, |path| Some(path.with_file_name(unprotected_name(path.file_name()?)?)));
    let output = output.map_or_else(named, Ok)?;
    let stores = stores::of_call(py, storage_options, path.is_url() || output.is_url())?;
    let call = Call { input: path, output, overwrite, sync, carry: Carry::New { umask: umask() }, stores };
    call.run(py, |ends, progress| {
        let file = ProtectedFile::open(ends.source()?, &opener)?;
        let crew = engines.crew(Op::Open, file.suite(), ends.input.known_len());
        Ok(file.unprotect(&crew.roster, ends.sink(), progress)?)
    })?;
    call.output.into_python(py)
}

/// Checks every chunk of a protected file, writes nothing, and returns the plaintext's length in bytes.
///
/// ``path`` and ``storage_options`` are as for :func:`protect`.
///
/// >>> key = phalanx.Key.generate()
/// >>> with open("run44.csv", "w") as f: _ = f.write("1,2,3")
/// >>> phalanx.verify(phalanx.protect("run44.csv", key=key), key=key)
/// 5
#[pyfunction]
#[pyo3(signature = (path, *, key=None, keys=vec![], password=None, identities=vec![], threads=None, engine="auto",
    storage_options=None))]
#[expect(clippy::too_many_arguments, reason = "Python has them by name")]
pub fn verify(
    py: Python<'_>,
    path: Place,
    key: Option<KeyOrName>,
    keys: Vec<KeyOrName>,
    password: Option<Secret>,
    identities: Vec<PathBuf>,
    threads: Option<usize>,
    engine: &str,
    storage_options: Option<StorageOptions>,
) -> PyResult<u64> {
    let engines = engines(py, engine, threads)?;
    let opener = ways::opener(py, Keys { key, keys, password }, &identities)?;
    let stores = stores::of_call(py, storage_options, path.is_url())?;
    let checked = reaching(py, stores.as_ref(), |progress| {
        let input = path.open()?;
        let file = ProtectedFile::open(input.source()?, &opener)?;
        let crew = engines.crew(Op::Open, file.suite(), input.known_len());
        Ok(file.unprotect(&crew.roster, Sink::Nothing, progress)?)
    })?;
    checked.map_err(|e| error::at(py, Some(path.path()), e))
}

/// Refuses the path of a file that Python is to write where there is one of the keys in use.
#[pyfunction]
pub fn check_output(py: Python<'_>, path: PathBuf) -> PyResult<()> {
    let made = key_files().made();
    let checked =
        folders::open_parent(&path).map_err(folders::write_error).and_then(|(folder, name)| made.check(&folder, &name));
    checked.map_err(|e| error::at(py, Some(&path), e))
}

/// Runs work that reaches stores, if the call names objects. Ctrl-C ends it also while a store is slow.
fn reaching<T: Send>(
    py: Python<'_>,
    stores: Option<&Options>,
    work: impl FnOnce(&dyn Progress) -> Result<T> + Send,
) -> PyResult<Result<T>> {
    match stores {
        Some(_) => interruptible_apart(py, |stop| stores::during(stores, stop, || work(&**stop))),
        None => interruptible(py, work),
    }
}

/// A call that makes one file from another.
struct Call {
    input: Place,
    output: Place,
    overwrite: bool,
    sync: bool,
    carry: Carry,
    /// How stores are reached, if the call names objects.
    stores: Option<Options>,
}

impl Call {
    /// Opens both ends, moves the bytes, and gives the output its name.
    fn run(&self, py: Python<'_>, transfer: impl FnOnce(&Ends, &dyn Progress) -> Result<u64> + Send) -> PyResult<()> {
        let made = key_files().made();
        let existing = if self.overwrite { Existing::Replace(&made) } else { Existing::Keep };
        let rules = OutputRules { existing, sync: self.sync, carry: self.carry, ..OutputRules::default() };
        let done = reaching(py, self.stores.as_ref(), |progress| {
            if self.input.is_url() && self.input == self.output {
                return Err(Error::SameFile);
            }
            let ends = Ends::begin(self.input.open()?, self.output.as_output(), &rules)?;
            transfer(&ends, progress)?;
            // If a signal has ended the call, the output must not get its name.
            if progress.is_cancelled() {
                return Err(phalanx_core::Error::Cancelled.into());
            }
            ends.commit(&rules).map(drop)
        })?;
        done.map_err(|error| {
            let place = if error.is_of_output() { &self.output } else { &self.input };
            error::at(py, Some(place.path()), error)
        })
    }
}
