//! Protecting data that are written piece by piece.

use crate::arrays::{self, Array, Purpose};
use crate::bytes::Pieces;
use crate::cuda::{Gpu, of_gpu};
use crate::engines::{chunk_size, cpu, suite};
use crate::error::{self, check_process, closed, raised};
use crate::key::KeyOrName;
use crate::place::no_url;
use crate::source::Destination;
use crate::turn::Turn;
use crate::ways::{self, Keys, Secret};
use phalanx_core::{Error, NewFile, Result};
use phalanx_gpu::{Device, DeviceWriter};
use phalanx_host::engines::levels;
use phalanx_host::file::{Existing, Output, umask};
use phalanx_host::key_files::KeyFiles;
use pyo3::prelude::*;
use std::io::{self, Write};
use std::mem;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};

/// A protected file that is being written. ``phalanx.open`` makes it.
///
/// Locks are taken only while the thread is detached from the interpreter, because a thread that has one may wait for the
/// interpreter.
#[pyclass(frozen, module = "phalanx._native")]
pub struct Writer {
    inner: Mutex<Option<Inner>>,
    path: Option<PathBuf>,
    /// The GPU that seals, if one does.
    device: Option<Device>,
    /// How much was written, or [`CLOSED`]. A handler of a signal may ask for it while its own thread writes.
    len: AtomicU64,
    turn: Turn,
    pid: u32,
}

/// The length of a file that is closed.
const CLOSED: u64 = u64::MAX;

struct Inner {
    writer: Sealing,
    /// The file, unless an object is written to.
    output: Option<Arc<Output>>,
    overwrite: bool,
    sync: bool,
    /// Whether a write has failed. The pieces before the one that failed were taken, which the caller cannot know.
    has_failed: bool,
}

impl Inner {
    /// Writes all of it. Other threads wait, so nothing gets between its pieces.
    fn write(&mut self, data: &Pieces) -> Result<()> {
        self.check()?;
        self.has_failed = true;
        let Self { writer, .. } = self;
        data.each(|error| Error::Write(raised(error)), |piece| writer.write(piece))?;
        self.has_failed = false;
        Ok(())
    }

    fn check(&self) -> Result<()> {
        let why = "an earlier write failed, so nothing is left of the file";
        if self.has_failed { Err(Error::Write(io::Error::other(why))) } else { Ok(()) }
    }
}

/// Where it is sealed.
enum Sealing {
    Cpu(phalanx_core::Writer<Destination>),
    Gpu(DeviceWriter<Destination>),
}

impl Sealing {
    fn write(&mut self, data: &[u8]) -> Result<()> {
        match self {
            Sealing::Cpu(writer) => writer.write_all(data).map_err(Error::Write),
            Sealing::Gpu(writer) => writer.write_host(data),
        }
    }

    fn finish(self) -> Result<u64> {
        match self {
            Sealing::Cpu(writer) => writer.finish(),
            Sealing::Gpu(writer) => writer.finish(),
        }
    }
}

#[pymethods]
impl Writer {
    #[new]
    #[pyo3(signature = (path, object, overwrite, key, keys, password, recipients, kms, cipher, chunk_size, sync, threads, gpu = None))]
    #[expect(clippy::too_many_arguments, reason = "phalanx.open has them by name")]
    fn new(
        py: Python<'_>,
        path: Option<PathBuf>,
        object: Option<Py<PyAny>>,
        overwrite: bool,
        key: Option<KeyOrName>,
        keys: Vec<KeyOrName>,
        password: Option<Secret>,
        recipients: Vec<String>,
        kms: Vec<String>,
        cipher: &str,
        chunk_size: u64,
        sync: bool,
        threads: Option<usize>,
        gpu: Option<Bound<'_, Gpu>>,
    ) -> PyResult<Self> {
        no_url(path.as_deref(), "phalanx.open takes no URLs: phalanx.fsspec opens objects")?;
        let (suite, chunk_size) = (suite(cipher)?, self::chunk_size(chunk_size)?);
        let recipients = ways::recipients(py, Keys { key, keys, password, kms }, &recipients)?;
        let roster = Arc::new(cpu(py, threads)?);
        let levels = levels().map_err(|failure| error::of_failure(py, &failure))?;
        let device = gpu.map(|gpu| gpu.get().get(py)).transpose()?;
        let begin = || -> phalanx_host::Result<_> {
            let made = KeyFiles::of_process().made();
            let existing = if overwrite { Existing::Replace(&made) } else { Existing::Keep };
            let output = path.as_deref().map(|path| Output::create(path, existing)).transpose()?.map(Arc::new);
            let destination = match (&output, object) {
                (Some(output), _) => Destination::File(output.clone()),
                (None, Some(object)) => Destination::Object(object),
                (None, None) => return Err(Error::NotPhalanx.into()),
            };
            let new = NewFile::with_chunk_size(suite, chunk_size, &recipients)?;
            let writer = match &device {
                None => Sealing::Cpu(new.writer(roster, destination)?),
                Some(device) => Sealing::Gpu(DeviceWriter::new(new, destination, device.clone(), levels.keccak)?),
            };
            Ok(Inner { writer, output, overwrite, sync, has_failed: false })
        };
        let inner = py.detach(begin).map_err(|e| error::at(py, path.as_deref(), e))?;
        let (inner, len, pid) = (Mutex::new(Some(inner)), AtomicU64::new(0), std::process::id());
        Ok(Self { inner, path, device, len, turn: Turn::new(), pid })
    }

    fn write(&self, py: Python<'_>, data: Pieces) -> PyResult<usize> {
        check_process(py, self.pid)?;
        let written = self.turn.detached(py, || {
            let mut inner = self.inner.lock().unwrap_or_else(PoisonError::into_inner);
            let written = inner.as_mut()?.write(&data);
            self.count(&written, data.len());
            Some(written)
        })?;
        written.ok_or_else(closed)?.map_err(|e| error::at(py, self.path.as_deref(), e))?;
        Ok(data.len())
    }

    /// Writes an array that is in the memory of the GPU, and returns its length in bytes; `None` if it is not there. When this
    /// returns, the array may change.
    fn write_array(&self, py: Python<'_>, array: &Bound<'_, PyAny>) -> PyResult<Option<usize>> {
        check_process(py, self.pid)?;
        let Some(device) = &self.device else { return Ok(None) };
        let written = match arrays::of(array, device, Purpose::Source)? {
            None => return Ok(None),
            Some(Array::Ours(bytes)) => {
                let (len, memory) = (bytes.get().len_here(py)?, bytes.get().memory());
                // The writer is not locked while others' work is waited for.
                self.turn.detached(py, || memory.finish_others())?.map_err(of_gpu(py))?;
                self.on_gpu(py, len, |writer| writer.write(memory, 0..len))?
            }
            Some(Array::Theirs(given, _kept)) if given.len == 0 => self.on_gpu(py, 0, |_| Ok(()))?,
            Some(Array::Theirs(given, _kept)) => {
                let foreign = self.turn.detached(py, || given.foreign(device))?.map_err(of_gpu(py))?;
                self.on_gpu(py, given.len, |writer| writer.write_foreign(&foreign))?
            }
        };
        Ok(Some(written))
    }

    fn tell(&self, py: Python<'_>) -> PyResult<u64> {
        check_process(py, self.pid)?;
        match self.len.load(Relaxed) {
            CLOSED => Err(closed()),
            len => Ok(len),
        }
    }

    /// Seals the last chunk, and gives the file its name. If that fails, or a write has failed before, nothing is left.
    fn finish(&self, py: Python<'_>) -> PyResult<()> {
        check_process(py, self.pid)?;
        let finish = || {
            let Some(inner) = self.take() else { return Ok(()) };
            inner.check()?;
            let Inner { writer, output, overwrite, sync, .. } = inner;
            writer.finish()?;
            let Some(output) = output else { return Ok(()) };
            let output = Arc::into_inner(output).expect("the writer, which had the other reference, is gone");
            output.set_mode(0o666 & !umask())?;
            let made = KeyFiles::of_process().made();
            output.commit(if overwrite { Existing::Replace(&made) } else { Existing::Keep }, sync).map(drop)
        };
        self.turn.detached(py, finish)?.map_err(|e| error::at(py, self.path.as_deref(), e))
    }

    /// Leaves nothing of a file. An object keeps what was written to it. No reader opens that.
    fn abort(&self, py: Python<'_>) -> PyResult<()> {
        if self.pid == std::process::id() {
            self.turn.detached(py, || drop(self.take()))?;
        }
        Ok(())
    }
}

impl Writer {
    /// Counts a write of this length, if it was done. The caller has the lock.
    fn count(&self, written: &Result<()>, len: usize) {
        if written.is_ok() {
            self.len.fetch_add(len as u64, Relaxed);
        }
    }

    /// Closes it.
    fn take(&self) -> Option<Inner> {
        let inner = self.inner.lock().unwrap_or_else(PoisonError::into_inner).take();
        self.len.store(CLOSED, Relaxed);
        inner
    }

    /// Does a write of this length by the GPU.
    fn on_gpu(
        &self,
        py: Python<'_>,
        len: usize,
        write: impl FnOnce(&mut DeviceWriter<Destination>) -> Result<()> + Send,
    ) -> PyResult<usize> {
        let written = self.turn.detached(py, || {
            let mut inner = self.inner.lock().unwrap_or_else(PoisonError::into_inner);
            let inner = inner.as_mut()?;
            let checked = inner.check();
            let Sealing::Gpu(writer) = &mut inner.writer else { return None };
            let written = checked.and_then(|()| write(writer));
            self.count(&written, len);
            Some(written)
        })?;
        written.ok_or_else(closed)?.map_err(|e| error::at(py, self.path.as_deref(), e))?;
        Ok(len)
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        let inner = self.inner.get_mut().unwrap_or_else(PoisonError::into_inner).take();
        if self.pid != std::process::id() {
            // The unfinished file belongs to the parent.
            let _ = mem::ManuallyDrop::new(inner);
            return;
        }
        Python::attach(|py| py.detach(|| drop(inner)));
    }
}
