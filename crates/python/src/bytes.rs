//! Bytes of Python's objects.

use crate::memory as raw;
use pyo3::buffer::PyUntypedBuffer;
use pyo3::exceptions::{PyBufferError, PyMemoryError, PyRuntimeError};
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::pybacked::PyBackedBytes;
use pyo3::types::PyBytes;
use std::ops::{Deref, Range};
use zeroize::Zeroizing;

/// Bytes that do not change while other threads run. Those of a `bytes` object are used in place. Those of any other
/// buffer are copied.
pub enum Bytes {
    InPlace(PyBackedBytes),
    Copied(Zeroizing<Vec<u8>>),
}

impl Deref for Bytes {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match self {
            Bytes::InPlace(bytes) => bytes,
            Bytes::Copied(bytes) => bytes,
        }
    }
}

impl FromPyObject<'_, '_> for Bytes {
    type Error = PyErr;

    fn extract(object: Borrowed<'_, '_, PyAny>) -> PyResult<Self> {
        if let Ok(bytes) = object.cast::<PyBytes>() {
            return Ok(Bytes::InPlace(bytes.to_owned().into()));
        }
        let buffer = contiguous(&object)?;
        Ok(Bytes::Copied(copied(&buffer, 0..buffer.len_bytes())?))
    }
}

/// Bytes that are used in pieces, while the thread is detached from the interpreter. Those of a `bytes` object are one piece, in
/// place. Those of any other buffer are copied piece by piece, so that a long one does not need its length once more.
pub enum Pieces {
    InPlace(PyBackedBytes),
    Buffer(PyUntypedBuffer),
}

impl Pieces {
    /// The length of a piece of a buffer.
    const LEN: usize = 16 << 20;

    /// The length of all.
    pub fn len(&self) -> usize {
        match self {
            Pieces::InPlace(bytes) => bytes.len(),
            Pieces::Buffer(buffer) => buffer.len_bytes(),
        }
    }

    /// Gives each piece to a function, until one fails. Between the pieces of a buffer, Python handles signals.
    pub fn each<E>(&self, failed: impl Fn(PyErr) -> E, mut take: impl FnMut(&[u8]) -> Result<(), E>) -> Result<(), E> {
        let buffer = match self {
            Pieces::InPlace(bytes) => return take(bytes),
            Pieces::Buffer(buffer) => buffer,
        };
        for start in (0..buffer.len_bytes()).step_by(Self::LEN) {
            let end = buffer.len_bytes().min(start + Self::LEN);
            let piece = Python::try_attach(|py| py.check_signals().and_then(|()| copied(buffer, start..end)))
                .unwrap_or_else(|| Err(PyRuntimeError::new_err("the interpreter is ending")));
            take(&piece.map_err(&failed)?)?;
        }
        Ok(())
    }
}

impl FromPyObject<'_, '_> for Pieces {
    type Error = PyErr;

    fn extract(object: Borrowed<'_, '_, PyAny>) -> PyResult<Self> {
        match object.cast::<PyBytes>() {
            Ok(bytes) => Ok(Pieces::InPlace(bytes.to_owned().into())),
            Err(_) => Ok(Pieces::Buffer(contiguous(&object)?)),
        }
    }
}

/// A new `bytes` object with a copy of these. pyo3's own function panics if there is no memory.
pub fn new_bytes<'py>(py: Python<'py>, bytes: &[u8]) -> PyResult<Bound<'py, PyBytes>> {
    let len = isize::try_from(bytes.len()).map_err(|_| PyMemoryError::new_err("too many bytes"))?;
    // SAFETY: the pointer leads to `len` bytes. The result is a new object, which is ours, or null with an exception
    // set.
    #[expect(unsafe_code)]
    let object = unsafe {
        let object = ffi::PyBytes_FromStringAndSize(bytes.as_ptr().cast(), len);
        Bound::from_owned_ptr_or_err(py, object)?
    };
    Ok(object.cast_into()?)
}

/// The contiguous buffer of an object. Its elements may have any type.
pub fn contiguous(object: &Bound<'_, PyAny>) -> PyResult<PyUntypedBuffer> {
    let buffer = PyUntypedBuffer::get(object)?;
    if !buffer.is_c_contiguous() {
        return Err(PyBufferError::new_err("the buffer is not contiguous"));
    }
    Ok(buffer)
}

/// A copy of bytes. Without enough memory, this is a `MemoryError`.
pub fn copy(bytes: &[u8]) -> PyResult<Zeroizing<Vec<u8>>> {
    let mut copy = empty(bytes.len())?;
    copy.extend_from_slice(bytes);
    Ok(copy)
}

/// An empty vector with room for this many bytes.
fn empty(len: usize) -> PyResult<Zeroizing<Vec<u8>>> {
    let mut bytes = Zeroizing::new(Vec::new());
    bytes.try_reserve_exact(len).map_err(|e| PyMemoryError::new_err(e.to_string()))?;
    Ok(bytes)
}

/// A copy of a part of a contiguous buffer. The caller is attached to the interpreter.
///
/// # Panics
/// If the part does not lie in the buffer.
fn copied(buffer: &PyUntypedBuffer, part: Range<usize>) -> PyResult<Zeroizing<Vec<u8>>> {
    assert!(part.start <= part.end && part.end <= buffer.len_bytes(), "the part lies in the buffer");
    let mut bytes = empty(part.len())?;
    bytes.resize(part.len(), 0);
    // SAFETY: the buffer is contiguous and exported, so its memory exists, and the part lies in it. The copy has the same length
    // and another place. As with every buffer, other threads of Python may write to this memory. The copy is then a mixture.
    #[expect(unsafe_code)]
    unsafe {
        raw::copy(buffer.buf_ptr().wrapping_byte_add(part.start), &mut bytes);
    }
    Ok(bytes)
}

/// The memory of a contiguous buffer, to write to. The caller only writes to it, and never reads it.
///
/// # Panics
/// If the buffer is read-only.
pub fn memory(buffer: &mut PyUntypedBuffer) -> &mut [u8] {
    assert!(!buffer.readonly(), "it can be written to");
    // SAFETY: the buffer is contiguous and exported, so its memory exists and does not move until the export ends with
    // `buffer`. As with every buffer, other threads of Python may read and write it. It consists of plain bytes, and
    // none of them is read here.
    #[expect(unsafe_code)]
    unsafe {
        raw::slice_mut(buffer.buf_ptr(), buffer.len_bytes())
    }
}

/// The bytes of a buffer of Apache Arrow, without a copy.
///
/// By Arrow's rules, a finished buffer does not change. Most of Arrow's own buffers are still marked as writable, so
/// the mark means nothing. Each byte is read once. If another thread does change a buffer, the result is a mixture.
pub struct Shared(PyUntypedBuffer);

impl Shared {
    pub fn new(object: &Bound<'_, PyAny>) -> PyResult<Self> {
        contiguous(object).map(Self)
    }
}

impl Deref for Shared {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        // SAFETY: the buffer is contiguous and exported, so its memory exists and does not move until the export ends
        // with `self`. By Arrow's rules it does not change.
        #[expect(unsafe_code)]
        unsafe {
            raw::slice(self.0.buf_ptr(), self.0.len_bytes())
        }
    }
}
