//! Bytes that Python's objects hold.

use pyo3::buffer::PyUntypedBuffer;
use pyo3::exceptions::{PyBufferError, PyMemoryError};
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use std::ops::Deref;
use zeroize::Zeroizing;

/// Bytes that do not change while other threads run: those of a `bytes` object where they lie, and a copy of those of any
/// other buffer.
pub enum Bytes<'py> {
    InPlace(Bound<'py, PyBytes>),
    Copied(Zeroizing<Vec<u8>>),
}

impl Deref for Bytes<'_> {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match self {
            Bytes::InPlace(bytes) => bytes.as_bytes(),
            Bytes::Copied(bytes) => bytes,
        }
    }
}

impl<'py> FromPyObject<'_, 'py> for Bytes<'py> {
    type Error = PyErr;

    fn extract(object: Borrowed<'_, 'py, PyAny>) -> PyResult<Self> {
        if let Ok(bytes) = object.cast::<PyBytes>() {
            return Ok(Bytes::InPlace(bytes.to_owned()));
        }
        Ok(Bytes::Copied(copied(&contiguous(&object)?)?))
    }
}

/// The buffer of an object, in one piece, whatever its elements are.
pub fn contiguous(object: &Bound<'_, PyAny>) -> PyResult<PyUntypedBuffer> {
    let buffer = PyUntypedBuffer::get(object)?;
    if !buffer.is_c_contiguous() {
        return Err(PyBufferError::new_err("the buffer is not contiguous"));
    }
    Ok(buffer)
}

/// A copy of a contiguous buffer. The caller is attached to the interpreter.
fn copied(buffer: &PyUntypedBuffer) -> PyResult<Zeroizing<Vec<u8>>> {
    let len = buffer.len_bytes();
    let mut bytes = Zeroizing::new(Vec::new());
    bytes.try_reserve_exact(len).map_err(|e| PyMemoryError::new_err(e.to_string()))?;
    bytes.resize(len, 0);
    if len > 0 {
        // SAFETY: the buffer is contiguous and exported, so that this memory is there; the copy is as long, and lies elsewhere.
        // Other threads of Python may write to the buffer's memory, as with every buffer: the copy is then a mixture.
        #[expect(unsafe_code)]
        unsafe {
            std::ptr::copy_nonoverlapping(buffer.buf_ptr().cast::<u8>(), bytes.as_mut_ptr(), len);
        }
    }
    Ok(bytes)
}

/// Copies bytes into a contiguous buffer that can be written to. The caller is attached to the interpreter.
///
/// # Panics
/// If they do not fit.
pub fn put(buffer: &PyUntypedBuffer, at: usize, bytes: &[u8]) {
    assert!(!buffer.readonly() && at <= buffer.len_bytes() && bytes.len() <= buffer.len_bytes() - at, "it fits");
    // SAFETY: the buffer is contiguous and exported, so its memory is there and does not move; the bytes fit into it, and lie
    // elsewhere, in memory of Rust's. Other threads of Python may touch the buffer's memory, as with every buffer.
    #[expect(unsafe_code)]
    unsafe {
        std::ptr::copy_nonoverlapping(bytes.as_ptr(), buffer.buf_ptr().cast::<u8>().add(at), bytes.len());
    }
}

/// Bytes of a buffer that nobody changes by agreement, as those of Apache Arrow. A buffer that can be written to is copied.
pub enum Shared {
    InPlace(PyUntypedBuffer),
    Copied(Zeroizing<Vec<u8>>),
}

impl Shared {
    pub fn new(object: &Bound<'_, PyAny>) -> PyResult<Self> {
        let buffer = contiguous(object)?;
        Ok(if buffer.readonly() { Shared::InPlace(buffer) } else { Shared::Copied(copied(&buffer)?) })
    }
}

impl Deref for Shared {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match self {
            // A null pointer may stand for no bytes.
            Shared::InPlace(buffer) if buffer.len_bytes() == 0 => &[],
            Shared::InPlace(buffer) => {
                // SAFETY: the buffer is contiguous and exported, so its memory is there and does not move until the export
                // ends with `self`. It is read-only, and what Arrow has made is not changed.
                #[expect(unsafe_code)]
                unsafe {
                    std::slice::from_raw_parts(buffer.buf_ptr().cast(), buffer.len_bytes())
                }
            }
            Shared::Copied(bytes) => bytes,
        }
    }
}
