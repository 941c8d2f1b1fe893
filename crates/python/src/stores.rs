//! Object stores: what a call says about them, and how the library reaches them while the call runs.

use crate::engines::Stop;
use phalanx_host::file::{InputObject, NewObject, ObjectFolder, OutputObject, Url};
use phalanx_store::{Environment, Options, Stores};
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyMapping;
use std::cell::RefCell;
use std::io;
use std::num::NonZeroUsize;
use std::sync::Arc;

/// The most requests at the same time, as the command has it.
const MOST: usize = 64;

/// What `storage_options` says about stores.
pub struct StorageOptions {
    options: Options,
    /// Whether it says anything.
    says: bool,
}

impl FromPyObject<'_, '_> for StorageOptions {
    type Error = PyErr;

    fn extract(object: Borrowed<'_, '_, PyAny>) -> PyResult<Self> {
        let wrong = |what: &str| PyTypeError::new_err(format!("storage_options {what}"));
        let given = object.cast::<PyMapping>().map_err(|_| wrong("is a mapping of names to values"))?;
        let mut options = Options::default();
        for pair in given.items()?.iter() {
            let (name, value): (String, Bound<'_, PyAny>) =
                pair.extract().map_err(|_| wrong("has names that are text"))?;
            let as_text = || value.extract().map_err(|_| wrong(&format!("has a {name} that is text")));
            match &*name {
                "endpoint_url" => options.endpoint_url = as_text()?,
                "region" => options.region = as_text()?,
                "requests" => options.requests = requests(&value)?,
                "allow_http" => {
                    options.allow_http = value.extract().map_err(|_| wrong("has an allow_http that is a bool"))?;
                }
                _ => return Err(unknown(&name)),
            }
        }
        Ok(Self { options, says: !given.is_empty()? })
    }
}

fn requests(value: &Bound<'_, PyAny>) -> PyResult<NonZeroUsize> {
    let number: Option<usize> = value.extract().ok();
    let wrong = || PyValueError::new_err(format!("requests is a number from 1 to {MOST}"));
    number.filter(|number| *number <= MOST).and_then(NonZeroUsize::new).ok_or_else(wrong)
}

/// The name may be one that other libraries have for credentials. Its value is not repeated.
fn unknown(name: &str) -> PyErr {
    let line = format!(
        "storage_options has endpoint_url, region, requests and allow_http, and no {name}: credentials come from the \
         environment and from files of profiles"
    );
    PyValueError::new_err(line)
}

/// What a call says about stores, with the environment as it is now. `None` if it names no objects. The thread is attached
/// to the interpreter, because other threads could change the environment otherwise.
pub fn of_call(_attached: Python<'_>, given: Option<StorageOptions>, names_objects: bool) -> PyResult<Option<Options>> {
    if !names_objects {
        return match given {
            Some(given) if given.says => Err(PyValueError::new_err("storage_options is for URLs of objects")),
            _ => Ok(None),
        };
    }
    let mut options = given.map_or_else(Options::default, |given| given.options);
    options.environment = Some(Environment::now());
    phalanx_store::prepare();
    Ok(Some(options))
}

thread_local! {
    /// The stores of the call that this thread works for.
    static OF_CALL: RefCell<Option<Stores>> = const { RefCell::new(None) };
}

/// Runs work for a call. Its thread reaches stores as the call says, until `stop` ends the call. The threads that it starts
/// get opened stores from it.
pub fn during<T>(options: Option<&Options>, stop: &Stop, work: impl FnOnce() -> T) -> T {
    struct Over;
    impl Drop for Over {
        fn drop(&mut self) {
            OF_CALL.set(None);
        }
    }
    let stores = options.map(|options| {
        let mut options = options.clone();
        options.cancellation = stop.requests.clone();
        Stores::new(options)
    });
    OF_CALL.set(stores);
    let _over = Over;
    work()
}

/// The stores of the call that a thread works for.
pub struct OfCall;

impl OfCall {
    fn with<T>(work: impl FnOnce(&Stores) -> io::Result<T>) -> io::Result<T> {
        let none = || Err(io::Error::other("this thread works for no call that names objects"));
        OF_CALL.with_borrow(|stores| stores.as_ref().map_or_else(none, work))
    }
}

impl phalanx_host::file::Stores for OfCall {
    fn open(&self, url: &Url) -> io::Result<Arc<dyn InputObject>> {
        Self::with(|stores| stores.open(url))
    }

    fn create(&self, url: &Url, new: NewObject) -> io::Result<Box<dyn OutputObject>> {
        Self::with(|stores| stores.create(url, new))
    }

    fn folder(&self, url: &Url) -> io::Result<Arc<dyn ObjectFolder>> {
        Self::with(|stores| stores.folder(url))
    }

    fn abort(&self, url: &Url, is_folder: bool) -> io::Result<u64> {
        Self::with(|stores| stores.abort(url, is_folder))
    }

    fn give_up(&self) {
        Stores::default().give_up();
    }
}
