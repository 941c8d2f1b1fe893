//! Keys.

use crate::bytes::{Bytes, new_bytes};
use crate::error;
use phalanx_core::{Error as CoreError, SecretKey, key_text};
use phalanx_host::Error;
use phalanx_host::key_files::note_file;
use phalanx_host::secret_files;
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyString, PyType};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::PathBuf;
use std::sync::Arc;

/// A secret key of 32 bytes. Its bytes are wiped when it is collected.
///
/// A key has no constructor: :meth:`generate` makes a new one, :meth:`named` finds one by its name, and :meth:`from_file`,
/// :meth:`from_bytes` and :meth:`from_text` take over existing ones. Two keys are equal if their bytes are.
///
/// >>> key = phalanx.Key.generate()
/// >>> phalanx.Key.from_bytes(key.to_bytes()) == key
/// True
#[pyclass(frozen, module = "phalanx")]
pub struct Key {
    pub secret: SecretKey,
    name: Option<String>,
}

impl Key {
    /// The key of a name. No name in the keyring has a colon: `phalanx/_keys.py` knows the names that have one.
    pub fn load(py: Python<'_>, name: &str) -> PyResult<Self> {
        check_key_name(name)?;
        let secret = if name.contains(':') {
            let found = py.import(intern!(py, "phalanx._keys"))?.call_method1(intern!(py, "find"), (name,))?;
            found.cast::<Self>()?.get().secret.clone()
        } else {
            secret_files::keyring()
                .map_err(|e| error::of_failure(py, &e))?
                .load(name)
                .map_err(|e| error::plain(py, e))?
        };
        Ok(Self { secret, name: Some(name.to_owned()) })
    }
}

#[pymethods]
impl Key {
    /// A new random key.
    ///
    /// >>> phalanx.Key.generate() == phalanx.Key.generate()
    /// False
    #[staticmethod]
    fn generate(py: Python<'_>) -> PyResult<Self> {
        let secret = SecretKey::random().map_err(|e| error::plain(py, e))?;
        Ok(Self { secret, name: None })
    }

    /// The key of exactly 32 bytes. Python keeps its own copy of them, which nobody wipes.
    ///
    /// >>> phalanx.Key.from_bytes(bytes(range(32))).name is None
    /// True
    #[staticmethod]
    fn from_bytes(data: Bytes) -> PyResult<Self> {
        let wrong = || PyValueError::new_err(format!("a key has 32 bytes, not {}", data.len()));
        let secret = SecretKey::from_slice(&data).ok_or_else(wrong)?;
        Ok(Self { secret, name: None })
    }

    /// The key of a text as ``phalanx key export --text`` writes it. Python keeps its own copy of it, which nobody wipes.
    ///
    /// >>> text = "phalanx-key-1-AAAQE-AYEAU-DAOCA-JBIFQ-YDIOB-4IBCE-QTCQK-RMFYY-DENBW-HA5DY-PWQAM-QBYAQ"
    /// >>> phalanx.Key.from_text(text) == phalanx.Key.from_bytes(bytes(range(32)))
    /// True
    #[staticmethod]
    fn from_text(py: Python<'_>, text: &Bound<'_, PyAny>) -> PyResult<Self> {
        let read = |text: &[u8]| key_text::read(text).map_err(|e| error::plain(py, CoreError::KeyText(e)));
        let secret = match text.cast::<PyString>() {
            // Python's error about a lone surrogate would contain the text.
            Ok(text) => read(text.to_str().map_or(&[0xff; 14][..], str::as_bytes))?,
            Err(_) => match text.extract::<Bytes>() {
                Ok(bytes) => read(&bytes)?,
                Err(_) => return Err(PyTypeError::new_err("a key's text is text or bytes")),
            },
        };
        Ok(Self { secret, name: None })
    }

    /// The key in a file of exactly 32 raw bytes, which only its owner may read.
    #[staticmethod]
    fn from_file(py: Python<'_>, path: PathBuf) -> PyResult<Self> {
        let read = || -> phalanx_host::Result<_> { Ok(SecretKey::read(&mut secret_files::open_private(&path)?)?) };
        let secret = py.detach(read).map_err(|e| error::at(py, Some(&path), e))?;
        note_file(&path);
        let wrong = || PyValueError::new_err(format!("{}: a key file has exactly 32 raw bytes", path.display()));
        Ok(Self { secret: secret.ok_or_else(wrong)?, name: None })
    }

    /// The key with this name in the keyring: the folder that ``PHALANX_KEYRING`` names, or the one of the command.
    ///
    /// ``env:NAME`` is the key whose text the environment variable ``NAME`` holds, and ``call:package.module:function`` the
    /// one that this function returns. Such a name is looked up each time that it is used, where it is used.
    ///
    /// >>> key = phalanx.Key.generate().store("work")
    /// >>> phalanx.Key.named("work") == key
    /// True
    #[staticmethod]
    fn named(py: Python<'_>, name: &str) -> PyResult<Self> {
        Self::load(py, name)
    }

    /// Stores the key in the keyring under a new name, and returns the key with that name.
    fn store(&self, py: Python<'_>, name: &str) -> PyResult<Self> {
        let keyring = secret_files::keyring().map_err(|e| error::of_failure(py, &e))?;
        let stored = py.detach(|| keyring.store(name, &self.secret));
        stored.map_err(|e| match e {
            Error::Exists => {
                pyo3::exceptions::PyFileExistsError::new_err(format!("the keyring has a key named {name}"))
            }
            e => error::plain(py, e),
        })?;
        Ok(Self { secret: self.secret.clone(), name: Some(name.to_owned()) })
    }

    /// The key's public name in files: 32 hexadecimal digits.
    #[getter]
    fn id(&self) -> String {
        self.secret.id().to_string()
    }

    /// The key's name, if it was found by one.
    #[getter]
    fn name(&self) -> Option<&str> {
        self.name.as_deref()
    }

    /// The 32 secret bytes: for storing them, and for nothing else.
    fn to_bytes<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyBytes>> {
        new_bytes(py, self.secret.expose())
    }

    fn __eq__(&self, other: &Bound<'_, PyAny>) -> bool {
        other.cast::<Key>().is_ok_and(|other| self.secret.matches(&other.get().secret))
    }

    fn __hash__(&self) -> u64 {
        let mut hasher = DefaultHasher::new();
        self.secret.id().hash(&mut hasher);
        hasher.finish()
    }

    fn __repr__(&self) -> String {
        let name = self.name.as_ref().map(|name| format!("name='{name}', ")).unwrap_or_default();
        format!("Key({name}id='{}')", self.id())
    }

    /// For dask, whose graphs contain the names of their inputs. The id is public.
    fn __dask_tokenize__(&self) -> (&'static str, String) {
        ("phalanx.Key", self.id())
    }

    fn __copy__(this: Py<Self>) -> Py<Self> {
        this
    }

    fn __deepcopy__(this: Py<Self>, _memo: &Bound<'_, PyAny>) -> Py<Self> {
        this
    }

    /// A key with a name is pickled as its name, and looked up where it is unpickled. No other key is pickled.
    fn __reduce__<'py>(&self, py: Python<'py>) -> PyResult<(Bound<'py, PyAny>, (String,))> {
        let Some(name) = &self.name else {
            let why = "a key without a name is not pickled: store it in the keyring, and it is pickled as its name";
            return Err(PyTypeError::new_err(why));
        };
        Ok((PyType::new::<Key>(py).getattr("named")?, (name.clone(),)))
    }
}

/// Refuses a key's text in the place of a name: names are shown, pickled and written down.
#[pyfunction]
pub fn check_key_name(name: &str) -> PyResult<()> {
    if key_text::is_meant(name.as_bytes()) {
        return Err(PyValueError::new_err(
            "a key's text stands where a key's name is expected: Key.from_text takes it",
        ));
    }
    Ok(())
}

/// A key, or the name of one. It is in an `Arc`, because a key that moves within a vector would leave copies.
pub struct KeyOrName(pub Arc<SecretKey>);

impl FromPyObject<'_, '_> for KeyOrName {
    type Error = PyErr;

    fn extract(object: Borrowed<'_, '_, PyAny>) -> PyResult<Self> {
        if let Ok(key) = object.cast::<Key>() {
            return Ok(Self(Arc::new(key.get().secret.clone())));
        }
        match object.extract::<String>() {
            Ok(name) => Ok(Self(Arc::new(Key::load(object.py(), &name)?.secret))),
            Err(_) => Err(PyTypeError::new_err("a key is a phalanx.Key, or the name of one")),
        }
    }
}
