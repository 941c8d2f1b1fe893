//! Reading by range.

use crate::bytes::{contiguous, memory, new_bytes};
use crate::engines::{cipher, cores, cpu};
use crate::error::{self, check_process, closed};
use crate::key::KeyOrName;
use crate::memory::pieces;
use crate::place::no_url;
use crate::source::{Object, Source};
use crate::turn::Turn;
use crate::ways::{self, Keys, Secret};
use phalanx_core::{Error, ReaderOptions};
use phalanx_host::file::InputFile;
use pyo3::exceptions::{PyBufferError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use std::io::{Read, Seek, SeekFrom};
use std::mem;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};
use std::thread;

/// How much each thread reads at once into a caller's buffer, unless a single chunk is longer, in bytes.
const PIECE: usize = 2 << 20;

/// The library's reader.
pub type Inner = phalanx_core::Reader<Source>;

/// A protected file that is read by range. ``phalanx.open`` makes it.
///
/// Locks are taken only while the thread is detached from the interpreter, because a thread that has one may wait for the
/// interpreter.
#[pyclass(frozen, module = "phalanx._native")]
pub struct Reader {
    /// `None` when it is closed.
    inner: RwLock<Option<Inner>>,
    /// A clone of it, which has the cursor.
    cursor: Mutex<Option<Inner>>,
    path: Option<PathBuf>,
    size: u64,
    chunk_size: usize,
    cipher: String,
    threads: usize,
    is_closed: AtomicBool,
    turn: Turn,
    pid: u32,
}

#[pymethods]
impl Reader {
    #[new]
    #[pyo3(signature = (path, object, key, keys, password, identities, kms, cache, read_ahead, threads))]
    #[expect(clippy::too_many_arguments, reason = "phalanx.open has them by name")]
    fn new(
        py: Python<'_>,
        path: Option<PathBuf>,
        object: Option<Bound<'_, PyAny>>,
        key: Option<KeyOrName>,
        keys: Vec<KeyOrName>,
        password: Option<Secret>,
        identities: Vec<PathBuf>,
        kms: Vec<String>,
        cache: Option<usize>,
        read_ahead: Option<usize>,
        threads: Option<usize>,
    ) -> PyResult<Self> {
        no_url(path.as_deref(), "phalanx.open takes no URLs: phalanx.fsspec opens objects")?;
        let opener = ways::opener(py, Keys { key, keys, password, kms }, &identities)?;
        let mut options = ReaderOptions::new().roster(Arc::new(cpu(py, threads)?));
        options = cache.into_iter().fold(options, ReaderOptions::cache);
        options = read_ahead.into_iter().fold(options, ReaderOptions::read_ahead);
        let turn = Turn::new();
        let object = object.as_ref().map(|object| Object::new(object, turn)).transpose()?;
        let open = || -> phalanx_host::Result<_> {
            let source = match (&path, object) {
                (_, Some(object)) => Source::Object(object),
                (Some(path), None) => Source::File(InputFile::open(path)?.file().try_clone().map_err(Error::Read)?),
                (None, None) => return Err(Error::NotPhalanx.into()),
            };
            Ok(Inner::open_with(source, &opener, &options)?)
        };
        let inner = py.detach(open).map_err(|e| error::at(py, path.as_deref(), e))?;
        let (size, chunk_size, cipher) = (inner.len(), inner.chunk_size().bytes(), cipher(inner.suite()));
        let cursor = Mutex::new(Some(inner.clone()));
        let pid = std::process::id();
        Ok(Self {
            inner: RwLock::new(Some(inner)),
            cursor,
            path,
            size,
            chunk_size,
            cipher,
            threads: threads.unwrap_or_else(cores),
            is_closed: AtomicBool::new(false),
            turn,
            pid,
        })
    }

    #[getter]
    pub fn size(&self) -> u64 {
        self.size
    }

    #[getter]
    fn chunk_size(&self) -> usize {
        self.chunk_size
    }

    #[getter]
    fn cipher(&self) -> &str {
        &self.cipher
    }

    fn read_at<'py>(&self, py: Python<'py>, offset: u64, n: usize) -> PyResult<Bound<'py, PyBytes>> {
        check_process(py, self.pid)?;
        let wanted = usize::try_from(self.size.saturating_sub(offset)).unwrap_or(usize::MAX).min(n);
        PyBytes::new_with(py, wanted, |buf| {
            self.detached(py, || self.get()?.read_at(buf, offset).map_err(Failed::Library)).map(drop)
        })
    }

    /// Reads from the cursor on: `n` bytes, or to the end if there are fewer.
    fn read<'py>(&self, py: Python<'py>, n: Option<usize>) -> PyResult<Bound<'py, PyBytes>> {
        check_process(py, self.pid)?;
        let position = self.detached(py, || self.with_cursor(|cursor| cursor.stream_position()))?;
        let left = usize::try_from(self.size.saturating_sub(position)).unwrap_or(usize::MAX);
        let wanted = n.map_or(left, |n| n.min(left));
        let mut read = 0;
        let bytes = PyBytes::new_with(py, wanted, |buf| {
            read = self.detached(py, || self.with_cursor(|cursor| fill(cursor, buf)))?;
            Ok(())
        })?;
        // Another thread may have moved the cursor meanwhile, so that there were fewer bytes to the end.
        if read == wanted { Ok(bytes) } else { new_bytes(py, &bytes.as_bytes()[..read]) }
    }

    /// Fills a buffer from the cursor on, and returns how many bytes.
    fn readinto(&self, py: Python<'_>, buffer: &Bound<'_, PyAny>) -> PyResult<usize> {
        check_process(py, self.pid)?;
        let mut buffer = contiguous(buffer)?;
        if buffer.readonly() {
            return Err(PyBufferError::new_err("the buffer is read-only"));
        }
        // The library checks and decrypts elsewhere, and copies the result into this memory.
        let memory = memory(&mut buffer);
        self.detached(py, || self.with_cursor(|cursor| fill(cursor, memory)))
    }

    /// Fills a buffer with the bytes from `offset` on, with as many threads as the reader has, and returns how many it got. The
    /// cursor does not move.
    fn readinto_at(&self, py: Python<'_>, offset: u64, buffer: &Bound<'_, PyAny>) -> PyResult<usize> {
        check_process(py, self.pid)?;
        let mut buffer = contiguous(buffer)?;
        if buffer.readonly() {
            return Err(PyBufferError::new_err("the buffer is read-only"));
        }
        let memory = memory(&mut buffer);
        let wanted = usize::try_from(self.size.saturating_sub(offset)).unwrap_or(usize::MAX).min(memory.len());
        let memory = &mut memory[..wanted];
        self.detached(py, || self.fill_side_by_side(memory, offset))?;
        Ok(wanted)
    }

    fn seek(&self, py: Python<'_>, offset: i64, whence: i32) -> PyResult<u64> {
        check_process(py, self.pid)?;
        let to = match whence {
            0 => {
                let wrong = |_| PyValueError::new_err(format!("negative seek value {offset}"));
                SeekFrom::Start(u64::try_from(offset).map_err(wrong)?)
            }
            1 => SeekFrom::Current(offset),
            2 => SeekFrom::End(offset),
            _ => return Err(PyValueError::new_err(format!("invalid whence ({whence}, should be 0, 1 or 2)"))),
        };
        self.detached(py, || self.with_cursor(|cursor| cursor.seek(to)))
    }

    fn tell(&self, py: Python<'_>) -> PyResult<u64> {
        check_process(py, self.pid)?;
        self.detached(py, || self.with_cursor(|cursor| cursor.stream_position()))
    }

    /// The bytes of the stored file that a range of the plaintext needs.
    fn protected_range(&self, py: Python<'_>, start: u64, stop: u64) -> PyResult<(u64, u64)> {
        check_process(py, self.pid)?;
        let range = self.detached(py, || Ok(self.get()?.protected_range(start..stop)))?;
        Ok((range.start, range.end))
    }

    fn close(&self, py: Python<'_>) {
        self.is_closed.store(true, Ordering::Relaxed);
        // If the source closes the reader that is calling it, the reader ends when the read is over.
        if !self.turn.is_at_work() {
            self.end(py);
        }
    }
}

/// The reason why something was not read.
pub enum Failed {
    Closed,
    Library(Error),
}

impl Reader {
    /// The library's reader, for other ways of reading the same file.
    pub fn file(&self, py: Python<'_>) -> PyResult<Inner> {
        self.detached(py, || self.get())
    }

    /// Runs work detached from the interpreter.
    pub fn detached<T: Send>(&self, py: Python<'_>, work: impl FnOnce() -> Result<T, Failed> + Send) -> PyResult<T> {
        let done = self.turn.detached(py, work)?;
        // The source may have closed the file meanwhile.
        if self.is_closed.load(Ordering::Relaxed) && !self.turn.is_at_work() {
            self.end(py);
        }
        done.map_err(|failed| match failed {
            Failed::Closed => closed(),
            Failed::Library(e) => error::at(py, self.path.as_deref(), e),
        })
    }

    fn get(&self) -> Result<Inner, Failed> {
        if self.is_closed.load(Ordering::Relaxed) {
            return Err(Failed::Closed);
        }
        self.inner.read().unwrap_or_else(PoisonError::into_inner).clone().ok_or(Failed::Closed)
    }

    /// Reads pieces side by side. Of several errors, the one nearest to the beginning is returned.
    fn fill_side_by_side(&self, memory: &mut [u8], offset: u64) -> Result<(), Failed> {
        let inner = self.get()?;
        let pieces = pieces(memory, offset, PIECE.max(self.chunk_size));
        let helpers = if self.path.is_some() { pieces.len().min(self.threads).saturating_sub(1) } else { 0 };
        let pieces = Mutex::new(pieces.into_iter());
        let failed: Mutex<Option<(u64, Error)>> = Mutex::default();
        let take = || pieces.lock().unwrap_or_else(PoisonError::into_inner).next();
        let work = || {
            while let Some((at, piece)) = take() {
                let Err(error) = inner.read_at(piece, at) else { continue };
                // No other piece is begun. All pieces before this one have been begun, and may fail too.
                while take().is_some() {}
                let mut failed = failed.lock().unwrap_or_else(PoisonError::into_inner);
                if failed.as_ref().is_none_or(|(first, _)| at < *first) {
                    *failed = Some((at, error));
                }
            }
        };
        thread::scope(|scope| {
            for _ in 0..helpers {
                // If the system gives no thread, the existing ones do the work.
                let _ = thread::Builder::new().name("phalanx-pieces".into()).spawn_scoped(scope, work);
            }
            work();
        });
        let failed = failed.into_inner().unwrap_or_else(PoisonError::into_inner);
        failed.map_or(Ok(()), |(_, error)| Err(Failed::Library(error)))
    }

    /// Works with the cursor, which moves only if the work succeeds.
    fn with_cursor<T>(&self, work: impl FnOnce(&mut Inner) -> std::io::Result<T>) -> Result<T, Failed> {
        if self.is_closed.load(Ordering::Relaxed) {
            return Err(Failed::Closed);
        }
        let mut cursor: MutexGuard<'_, Option<Inner>> = self.cursor.lock().unwrap_or_else(PoisonError::into_inner);
        let cursor = cursor.as_mut().ok_or(Failed::Closed)?;
        let failed = |e| Failed::Library(Error::Read(e));
        let before = cursor.stream_position().map_err(failed)?;
        work(cursor).map_err(|e| {
            let _ = cursor.seek(SeekFrom::Start(before));
            failed(e)
        })
    }

    /// Ends the reader. This is done detached, because dropping the last clone waits for threads that may wait for the
    /// interpreter.
    fn end(&self, py: Python<'_>) {
        let take = || {
            let cursor = self.cursor.lock().unwrap_or_else(PoisonError::into_inner).take();
            let inner = self.inner.write().unwrap_or_else(PoisonError::into_inner).take();
            (cursor, inner)
        };
        if self.pid != std::process::id() {
            return;
        }
        py.detach(|| drop(take()));
    }
}

impl Drop for Reader {
    fn drop(&mut self) {
        let cursor = self.cursor.get_mut().unwrap_or_else(PoisonError::into_inner).take();
        let inner = self.inner.get_mut().unwrap_or_else(PoisonError::into_inner).take();
        let Some(inner) = inner.or(cursor) else { return };
        if self.pid != std::process::id() {
            // The drop would wait for threads that only the parent has.
            let _ = mem::ManuallyDrop::new(inner);
        } else if self.path.is_some() {
            drop(inner);
        } else {
            // The drop waits for threads that are calling a Python object. They may wait for something that this thread
            // was doing when the garbage was collected, so another thread does the drop. If the system gives no thread,
            // the reader stays.
            let inner = mem::ManuallyDrop::new(inner);
            let _ = thread::Builder::new().spawn(move || drop(mem::ManuallyDrop::into_inner(inner)));
        }
    }
}

/// Fills the buffer, or reads to the end of the file.
fn fill(cursor: &mut Inner, buf: &mut [u8]) -> std::io::Result<usize> {
    let mut done = 0;
    while done < buf.len() {
        match cursor.read(&mut buf[done..])? {
            0 => break,
            read => done += read,
        }
    }
    Ok(done)
}
