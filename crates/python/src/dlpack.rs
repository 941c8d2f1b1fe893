//! Memory of a GPU in the form of DLPack, by which libraries share arrays: Python's capsules around it.

pub use crate::tensor::CUDA;
use crate::tensor::{Exchanged, Managed, Versioned};
use phalanx_gpu::SharedMemory;
use pyo3::ffi;
use pyo3::prelude::*;

/// A capsule around memory with a length in bytes. The consumer, or the capsule if there is none, drops the memory.
pub fn capsule<'py>(
    py: Python<'py>,
    memory: SharedMemory,
    len: usize,
    device_id: i32,
    is_versioned: bool,
) -> PyResult<Bound<'py, PyAny>> {
    let data = memory.address();
    match is_versioned {
        true => new_capsule(py, Versioned::boxed(memory, data, len, device_id)),
        false => new_capsule(py, Managed::boxed(memory, data, len, device_id)),
    }
}

fn new_capsule<T: Exchanged>(py: Python<'_>, managed: Box<T>) -> PyResult<Bound<'_, PyAny>> {
    let managed = Box::into_raw(managed);
    // SAFETY: the pointer is not null, and the name is static. The result is a new object, or null with an exception.
    #[expect(unsafe_code)]
    let capsule = unsafe {
        let capsule = ffi::PyCapsule_New(managed.cast(), T::NAME.as_ptr(), Some(end::<T>));
        Bound::from_owned_ptr_or_err(py, capsule)
    };
    // SAFETY: without a capsule, nobody else has the box.
    #[expect(unsafe_code)]
    capsule.inspect_err(|_| unsafe { T::delete(managed) })
}

/// Ends a capsule that nobody has taken. A consumer gives it another name, and calls the deleter itself.
#[expect(unsafe_code)]
unsafe extern "C" fn end<T: Exchanged>(capsule: *mut ffi::PyObject) {
    // SAFETY: Python calls it with a capsule that `new_capsule` has made for this type. One that still has the name has its
    // box too.
    unsafe {
        if ffi::PyCapsule_IsValid(capsule, T::NAME.as_ptr()) == 1 {
            T::delete(ffi::PyCapsule_GetPointer(capsule, T::NAME.as_ptr()).cast());
        }
    }
}
