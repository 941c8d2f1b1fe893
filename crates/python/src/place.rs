//! Where a file is: a path, or the URL of an object in a store.

use phalanx_host::file::{Input, OutputPlace, Url, is_url};
use phalanx_host::paths::End;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyString;
use std::path::{Path, PathBuf};

/// Where a file is.
#[derive(PartialEq, Eq)]
pub enum Place {
    Path(PathBuf),
    Object(Url),
}

impl From<PathBuf> for Place {
    fn from(path: PathBuf) -> Self {
        Url::of(&path).map_or(Place::Path(path), Place::Object)
    }
}

impl FromPyObject<'_, '_> for Place {
    type Error = PyErr;

    fn extract(object: Borrowed<'_, '_, PyAny>) -> PyResult<Self> {
        let path: PathBuf = object.extract()?;
        if !object.is_instance_of::<PyString>() && has_lost_a_slash(&path) {
            let line = format!("{}: a Path cannot be a URL: pass the URL as a str", path.display());
            return Err(PyValueError::new_err(line));
        }
        Ok(path.into())
    }
}

/// Whether a path was a URL before `pathlib` made one slash of two.
fn has_lost_a_slash(path: &Path) -> bool {
    let text = path.to_str().filter(|_| !is_url(path));
    text.is_some_and(|text| is_url(Path::new(&text.replacen(":/", "://", 1))))
}

impl Place {
    /// It as a path, for messages: a URL without a signature.
    pub fn path(&self) -> &Path {
        match self {
            Place::Path(path) => path,
            Place::Object(url) => url.path(),
        }
    }

    pub fn is_url(&self) -> bool {
        matches!(self, Place::Object(_))
    }

    /// Opens it as an input.
    pub fn open(&self) -> phalanx_host::Result<Input> {
        match self {
            Place::Path(path) => Input::open(path),
            Place::Object(url) => Input::open_object(url),
        }
    }

    /// It as an end of a transfer.
    pub fn as_end(&self) -> End {
        match self {
            Place::Path(path) => End::Path(path.clone()),
            Place::Object(url) => End::Object(url.clone()),
        }
    }

    /// It as an output.
    pub fn as_output(&self) -> OutputPlace<'_> {
        match self {
            Place::Path(path) => OutputPlace::Path(path),
            Place::Object(url) => OutputPlace::Object(url),
        }
    }

    /// It as functions return it: a `pathlib.Path`, or a URL as text.
    pub fn into_python(self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        Ok(match self {
            Place::Path(path) => path.into_pyobject(py)?.into_any().unbind(),
            Place::Object(url) => url.text().into_pyobject(py)?.into_any().unbind(),
        })
    }
}

/// The place beside an input, whose name `name` returns. An object has none.
pub fn beside(input: &Place, name: impl FnOnce(&Path) -> Option<PathBuf>) -> PyResult<Place> {
    let refused = |why: &str| PyValueError::new_err(format!("{}: {why}", input.path().display()));
    match input {
        Place::Path(path) => Ok(Place::Path(name(path).ok_or_else(|| refused("no name for the output: name one"))?)),
        Place::Object(_) => Err(refused("where its output goes must be said: name it with output")),
    }
}

/// Refuses a URL where only paths make sense. `why` says what takes it.
pub fn no_url(path: Option<&Path>, why: &str) -> PyResult<()> {
    match path.and_then(Url::of) {
        Some(url) => Err(PyValueError::new_err(format!("{}: {why}", url.path().display()))),
        None => Ok(()),
    }
}
