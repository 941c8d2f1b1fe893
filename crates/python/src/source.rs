//! Sources and destinations of protected files: files, and Python objects.

use crate::bytes::{Bytes, new_bytes};
use crate::error::raised;
use crate::turn::Turn;
use phalanx_core::ReadAt;
use phalanx_host::file::Output;
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::intern;
use pyo3::prelude::*;
use std::fs::File;
use std::io::{self, Write};
use std::sync::{Arc, Mutex, PoisonError};

/// The source of a reader.
pub enum Source {
    File(File),
    Object(Object),
}

impl ReadAt for Source {
    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<usize> {
        match self {
            Source::File(file) => ReadAt::read_at(file, buf, offset),
            Source::Object(object) => object.read_at(buf, offset),
        }
    }

    fn size(&self) -> io::Result<u64> {
        match self {
            Source::File(file) => file.size(),
            Source::Object(object) => Ok(object.size),
        }
    }
}

/// A Python object that is read by range.
pub struct Object {
    object: Py<PyAny>,
    /// Whether it has `read_at`, which several threads may call at once. If not, it has a cursor, and only one thread
    /// reads at a time.
    is_parallel: bool,
    size: u64,
    /// The turn of the reader. Threads that read ahead do the reader's work too.
    reader: Turn,
    turn: Mutex<()>,
}

impl Object {
    /// An object with `size` and `read_at`, or a seekable file object.
    pub fn new(object: &Bound<'_, PyAny>, reader: Turn) -> PyResult<Self> {
        let py = object.py();
        let is_parallel = object.hasattr(intern!(py, "read_at"))? && object.hasattr(intern!(py, "size"))?;
        let size = match is_parallel {
            true => object.getattr(intern!(py, "size"))?,
            false if object.hasattr(intern!(py, "seek"))? && object.hasattr(intern!(py, "read"))? => {
                object.call_method1(intern!(py, "seek"), (0, 2))?;
                object.call_method0(intern!(py, "tell"))?
            }
            false => {
                let why = "a path, a seekable binary file object, or an object with size and read_at is needed";
                return Err(PyTypeError::new_err(why));
            }
        };
        Ok(Self { object: object.clone().unbind(), is_parallel, size: size.extract()?, reader, turn: Mutex::default() })
    }

    /// Reads at an offset. The calling thread is detached from the interpreter, so that it does not hold it while it
    /// waits for its turn.
    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<usize> {
        let _at_work = self.reader.at_work();
        let turn = (!self.is_parallel).then(|| self.turn.lock().unwrap_or_else(PoisonError::into_inner));
        let read = Python::try_attach(|py| {
            let object = self.object.bind(py);
            let read = if turn.is_none() {
                object.call_method1(intern!(py, "read_at"), (offset, buf.len()))?
            } else {
                object.call_method1(intern!(py, "seek"), (offset,))?;
                object.call_method1(intern!(py, "read"), (buf.len(),))?
            };
            let bytes: Bytes = read.extract()?;
            if bytes.len() > buf.len() {
                let why = format!("the file object returned {} bytes, and {} were asked for", bytes.len(), buf.len());
                return Err(PyValueError::new_err(why));
            }
            buf[..bytes.len()].copy_from_slice(&bytes);
            Ok(bytes.len())
        });
        read.ok_or_else(|| io::Error::other("the interpreter is ending"))?.map_err(raised)
    }
}

/// The destination of a writer.
pub enum Destination {
    File(Arc<Output>),
    Object(Py<PyAny>),
}

impl Write for Destination {
    fn write(&mut self, buf: &[u8]) -> io::Result<usize> {
        /// The most bytes that a file object gets at once, because it gets a copy.
        const PIECE: usize = 1 << 20;
        match self {
            Destination::File(output) => output.file().write(buf),
            Destination::Object(object) => {
                let piece = &buf[..buf.len().min(PIECE)];
                let written = Python::try_attach(|py| {
                    let bytes = new_bytes(py, piece)?;
                    let count = object.bind(py).call_method1(intern!(py, "write"), (bytes,))?;
                    // Buffered file objects return nothing or the whole length.
                    if count.is_none() { Ok(piece.len()) } else { count.extract::<usize>() }
                });
                let written = written.ok_or_else(|| io::Error::other("the interpreter is ending"))?.map_err(raised)?;
                if written > piece.len() {
                    return Err(io::Error::other("the file object says that it wrote more than it was given"));
                }
                Ok(written)
            }
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
