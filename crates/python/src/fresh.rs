//! New `bytes` objects that are filled piece by piece.

use pyo3::exceptions::PyMemoryError;
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use std::mem::MaybeUninit;
use std::slice;

/// The part of a new `bytes` object that is still to be filled.
pub struct Fresh<'a>(&'a mut [MaybeUninit<u8>]);

impl Fresh<'_> {
    /// Fills in the next bytes.
    ///
    /// # Panics
    /// If there is no room for them.
    pub fn put(&mut self, bytes: &[u8]) {
        let (place, rest) = std::mem::take(&mut self.0).split_at_mut(bytes.len());
        place.write_copy_of_slice(bytes);
        self.0 = rest;
    }
}

/// A new `bytes` object. What is not filled is zero.
///
/// Its memory is touched only when it is filled: fetching hundreds of megabytes from the system takes as long as sealing them, and
/// can go on at the same time.
pub fn bytes<'py>(
    py: Python<'py>,
    len: usize,
    fill: impl FnOnce(&mut Fresh<'_>) -> PyResult<()>,
) -> PyResult<Bound<'py, PyBytes>> {
    let size = isize::try_from(len).map_err(|_| PyMemoryError::new_err("too many bytes"))?;
    // SAFETY: this makes a new object, which nobody else knows, or sets an exception. Its memory has `len` bytes, which may be
    // written to until somebody else gets the object. The object without bytes is shared, and nothing is written to it.
    #[expect(unsafe_code)]
    let (object, rest) = unsafe {
        let object = Bound::from_owned_ptr_or_err(py, ffi::PyBytes_FromStringAndSize(std::ptr::null(), size))?;
        let memory = ffi::PyBytes_AsString(object.as_ptr()).cast::<MaybeUninit<u8>>();
        (object, slice::from_raw_parts_mut(memory, len))
    };
    let mut fresh = Fresh(rest);
    let filled = fill(&mut fresh);
    fresh.0.fill(MaybeUninit::new(0));
    filled?;
    Ok(object.cast_into()?)
}
