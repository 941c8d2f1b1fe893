//! Whole files.

use crate::engines::{chunk_size, engines, interruptible, interruptible_apart, suite};
use crate::error;
use crate::key::KeyOrName;
use crate::place::{Place, beside};
use crate::signing;
use crate::stores::{self, StorageOptions};
use crate::ways::{self, Keys, Secret};
use phalanx_core::engine::Op;
use phalanx_core::{NewFile, Progress, ProtectedFile, Sink};
use phalanx_host::failure::Failure;
use phalanx_host::file::{
    Carry, Ends, Existing, OutputRules, protected_name, refuse_protected_source, umask, unprotected_name,
};
use phalanx_host::folders;
use phalanx_host::key_files::KeyFiles;
use phalanx_host::signatures::{Signing, Single, Watch};
use phalanx_host::transfer::action::Moved;
use phalanx_host::{Error, Result};
use phalanx_store::Options;
use pyo3::prelude::*;
use std::path::{Path, PathBuf};

/// Protects a file, and returns the path of the protected one.
///
/// It is written beside its input with ``.phx`` appended to its name, or to ``output``, and gets its name when it is complete and
/// on the disk. ``key`` and ``keys`` are keys, or names in the keyring; ``recipients`` are public keys of age or SSH; ``kms`` are
/// URIs of key services. Any one of them, or the password, opens the file. An existing file is replaced only with ``overwrite``. Without ``sync`` it may be lost
/// in a power cut. ``engine`` is one of auto, serial, cpu, gpu and hybrid.
///
/// ``sign`` is the path of an SSH key that signs the output, or of a public one whose private half ssh-agent holds. The signature
/// lies beside it, with ``.sig`` appended to its name.
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
#[pyo3(signature = (path, *, key=None, keys=vec![], password=None, recipients=vec![], kms=vec![], cipher="aes-256", chunk_size=1 << 20,
    output=None, overwrite=false, sync=true, threads=None, engine="auto", storage_options=None, sign=None))]
#[expect(clippy::too_many_arguments, reason = "Python has them by name")]
pub fn protect(
    py: Python<'_>,
    path: Place,
    key: Option<KeyOrName>,
    keys: Vec<KeyOrName>,
    password: Option<Secret>,
    recipients: Vec<String>,
    kms: Vec<String>,
    cipher: &str,
    chunk_size: u64,
    output: Option<Place>,
    overwrite: bool,
    sync: bool,
    threads: Option<usize>,
    engine: &str,
    storage_options: Option<StorageOptions>,
    sign: Option<PathBuf>,
) -> PyResult<Py<PyAny>> {
    let (suite, chunk_size) = (suite(cipher)?, self::chunk_size(chunk_size)?);
    let engines = engines(py, engine, threads)?;
    let recipients = ways::recipients(py, Keys { key, keys, password, kms }, &recipients)?;
    let named = || beside(&path, |path| Some(protected_name(path.as_os_str()).into()));
    let output = output.map_or_else(named, Ok)?;
    let stores = stores::of_call(py, storage_options, path.is_url() || output.is_url())?;
    let signing = signing::by(py, sign, suite, Some(&path))?;
    let call = Call { input: path, output, overwrite, sync, carry: Carry::All, stores, signing };
    call.run(py, |ends, progress| {
        refuse_protected_source(|| ends.source(), call.input.path())?;
        let new = NewFile::with_chunk_size(suite, chunk_size, &recipients)?;
        let shape = Some((new.suite(), new.chunk_size()));
        let crew = engines.crew(Op::Seal, suite, ends.input.known_len());
        let bytes = new.protect(&crew.roster, ends.source()?, ends.sink(), progress)?;
        Ok(Moved { bytes, shape, crew, opened: None, by: None })
    })?;
    call.output.into_python(py)
}

/// Opens a protected file, and returns the path of the plaintext.
///
/// It is written beside its input, without ``.phx``, or to ``output``. If anything of the file is not authentic, no output
/// appears. ``identities`` are paths of identity files of age, or of SSH keys, and ``kms`` URIs of key services that may
/// be asked. If nothing of this is named, the keys of the keyring are tried, and the services that your file of them names. ``path``, ``output`` and ``storage_options`` are as for :func:`protect`, and the output of an
/// object must be named.
///
/// With ``signers``, a file ``allowed_signers`` of ``ssh-keygen``, only what one of them has signed is opened. All else raises
/// :class:`AuthenticationError`. ``revoked`` is a file with public keys whose signatures do not count any more.
///
/// >>> key = phalanx.Key.generate()
/// >>> with open("run43.csv", "w") as f: _ = f.write("1,2,3")
/// >>> phalanx.unprotect(phalanx.protect("run43.csv", key=key), key=key, output="back.csv").read_text()
/// '1,2,3'
#[pyfunction]
#[pyo3(signature = (path, *, key=None, keys=vec![], password=None, identities=vec![], kms=vec![], output=None, overwrite=false, sync=true,
    threads=None, engine="auto", storage_options=None, signers=None, revoked=None))]
#[expect(clippy::too_many_arguments, reason = "Python has them by name")]
pub fn unprotect(
    py: Python<'_>,
    path: Place,
    key: Option<KeyOrName>,
    keys: Vec<KeyOrName>,
    password: Option<Secret>,
    identities: Vec<PathBuf>,
    kms: Vec<String>,
    output: Option<Place>,
    overwrite: bool,
    sync: bool,
    threads: Option<usize>,
    engine: &str,
    storage_options: Option<StorageOptions>,
    signers: Option<PathBuf>,
    revoked: Option<PathBuf>,
) -> PyResult<Py<PyAny>> {
    let engines = engines(py, engine, threads)?;
    let opener = ways::opener(py, Keys { key, keys, password, kms }, &identities)?;
    let named = || beside(&path, |path| Some(path.with_file_name(unprotected_name(path.file_name()?)?)));
    let output = output.map_or_else(named, Ok)?;
    let stores = stores::of_call(py, storage_options, path.is_url() || output.is_url())?;
    let signing = signing::checked(py, signers, revoked)?;
    let call = Call { input: path, output, overwrite, sync, carry: Carry::New { umask: umask() }, stores, signing };
    call.run(py, |ends, progress| {
        let file = ProtectedFile::open(ends.source()?, &opener)?;
        let shape = Some((file.suite(), file.chunk_size()));
        let crew = engines.crew(Op::Open, file.suite(), ends.input.known_len());
        let bytes = file.unprotect(&crew.roster, ends.sink(), progress)?;
        Ok(Moved { bytes, shape, crew, opened: None, by: None })
    })?;
    call.output.into_python(py)
}

/// Checks every chunk of a protected file, writes nothing, and returns the plaintext's length in bytes.
///
/// ``path`` and ``storage_options`` are as for :func:`protect`, and ``signers`` and ``revoked`` as for :func:`unprotect`. With
/// ``signers`` the length is a :class:`SignedLength`, whose ``signer`` is the signer's name.
///
/// >>> key = phalanx.Key.generate()
/// >>> with open("run44.csv", "w") as f: _ = f.write("1,2,3")
/// >>> phalanx.verify(phalanx.protect("run44.csv", key=key), key=key)
/// 5
#[pyfunction]
#[pyo3(signature = (path, *, key=None, keys=vec![], password=None, identities=vec![], kms=vec![], threads=None, engine="auto",
    storage_options=None, signers=None, revoked=None))]
#[expect(clippy::too_many_arguments, reason = "Python has them by name")]
pub fn verify(
    py: Python<'_>,
    path: Place,
    key: Option<KeyOrName>,
    keys: Vec<KeyOrName>,
    password: Option<Secret>,
    identities: Vec<PathBuf>,
    kms: Vec<String>,
    threads: Option<usize>,
    engine: &str,
    storage_options: Option<StorageOptions>,
    signers: Option<PathBuf>,
    revoked: Option<PathBuf>,
) -> PyResult<Py<PyAny>> {
    let engines = engines(py, engine, threads)?;
    let opener = ways::opener(py, Keys { key, keys, password, kms }, &identities)?;
    let stores = stores::of_call(py, storage_options, path.is_url())?;
    let signing = signing::checked(py, signers, revoked)?;
    let checked = reaching(py, stores.as_ref(), |progress| {
        let ends = Ends::only(path.open()?);
        let rules = OutputRules::default();
        let signature = Single::begin(&signing, path.path(), None, rules.existing)?;
        let watch = signature.watch(progress);
        let file = ProtectedFile::open(ends.source()?, &opener)?;
        let shape = Some((file.suite(), file.chunk_size()));
        let crew = engines.crew(Op::Open, file.suite(), ends.input.known_len());
        let watched = watch.as_ref().map_or(progress, |watch| watch as &dyn Progress);
        let bytes = file.unprotect(&crew.roster, Sink::Nothing, watched)?;
        let moved = Moved { bytes, shape, crew, opened: None, by: None };
        signature.settle((path.path(), path.path()), &ends, &moved, watch.and_then(Watch::contents), &rules)?;
        Ok((bytes, signature.name().map(str::to_owned)))
    })?;
    match checked.map_err(|trouble| trouble.at(py, path.path()))? {
        (bytes, None) => Ok(bytes.into_pyobject(py)?.into_any().unbind()),
        (bytes, Some(signer)) => error::signed_length(py, bytes, &signer),
    }
}

/// Why a call failed.
enum Trouble {
    Error(Error),
    /// A failure of a signature, which names its path itself.
    Failure(Failure),
}

impl From<Error> for Trouble {
    fn from(error: Error) -> Self {
        Self::Error(error)
    }
}

impl From<phalanx_core::Error> for Trouble {
    fn from(error: phalanx_core::Error) -> Self {
        Self::Error(error.into())
    }
}

impl From<Failure> for Trouble {
    fn from(failure: Failure) -> Self {
        Self::Failure(failure)
    }
}

impl Trouble {
    fn at(self, py: Python<'_>, path: &Path) -> PyErr {
        match self {
            Self::Error(error) => error::at(py, Some(path), error),
            Self::Failure(failure) => error::of_signing(py, failure),
        }
    }
}

/// Refuses the path of a file that Python is to write where there is one of the keys in use.
#[pyfunction]
pub fn check_output(py: Python<'_>, path: PathBuf) -> PyResult<()> {
    let made = KeyFiles::of_process().made();
    let checked =
        folders::open_parent(&path).map_err(Error::write).and_then(|(folder, name)| made.check(&folder, &name));
    checked.map_err(|e| error::at(py, Some(&path), e))
}

/// Runs work that reaches stores, if the call names objects. Ctrl-C ends it also while a store is slow.
fn reaching<T: Send>(
    py: Python<'_>,
    stores: Option<&Options>,
    work: impl FnOnce(&dyn Progress) -> Result<T, Trouble> + Send,
) -> PyResult<Result<T, Trouble>> {
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
    /// What is done about the signature of the file.
    signing: Signing,
}

impl Call {
    /// Opens both ends, moves the bytes, and gives the output its name.
    fn run<'l>(
        &self,
        py: Python<'_>,
        transfer: impl FnOnce(&Ends, &dyn Progress) -> Result<Moved<'l>> + Send,
    ) -> PyResult<()> {
        let made = KeyFiles::of_process().made();
        let existing = if self.overwrite { Existing::Replace(&made) } else { Existing::Keep };
        let rules = OutputRules { existing, sync: self.sync, carry: self.carry, ..OutputRules::default() };
        let done = reaching(py, self.stores.as_ref(), |progress| {
            if self.input.is_url() && self.input == self.output {
                return Err(Error::SameFile.into());
            }
            let (input, output) = (self.input.path(), self.output.path());
            let opened = self.input.open()?;
            let end = self.output.as_end();
            let signature = Single::begin(&self.signing, input, Some(&end), rules.existing)?;
            let ends = Ends::begin(opened, self.output.as_output(), &rules)?;
            let watch = signature.watch(progress);
            let moved = transfer(&ends, watch.as_ref().map_or(progress, |watch| watch as &dyn Progress))?;
            // If a signal has ended the call, the output must not get its name.
            if progress.is_cancelled() {
                return Err(phalanx_core::Error::Cancelled.into());
            }
            let contents = watch.and_then(Watch::contents);
            signature.settle((input, output), &ends, &moved, contents, &rules)?;
            ends.commit(&rules)?;
            signature.commit(&rules)?;
            Ok(())
        })?;
        done.map_err(|trouble| {
            let is_of_output = matches!(&trouble, Trouble::Error(error) if error.is_of_output());
            trouble.at(py, if is_of_output { self.output.path() } else { self.input.path() })
        })
    }
}
