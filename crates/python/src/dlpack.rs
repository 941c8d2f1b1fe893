//! Memory of a GPU in the form of DLPack, by which libraries share arrays (its C header, version 1.0).

use phalanx_gpu::SharedMemory;
use pyo3::ffi;
use pyo3::prelude::*;
use std::ffi::{CStr, c_void};
use std::mem::ManuallyDrop;

/// The kind of device: `kDLCUDA`.
pub const CUDA: i32 = 2;

const NAME: &CStr = c"dltensor";
const NAME_VERSIONED: &CStr = c"dltensor_versioned";

/// `DLTensor`: one row of bytes.
#[repr(C)]
struct Tensor {
    data: u64,
    device_type: i32,
    device_id: i32,
    ndim: i32,
    code: u8,
    bits: u8,
    lanes: u16,
    shape: *mut i64,
    strides: *mut i64,
    byte_offset: u64,
}

/// What a consumer's deleter frees.
struct Owner {
    _memory: SharedMemory,
    pid: u32,
    shape: [i64; 1],
    strides: [i64; 1],
}

/// `DLManagedTensor`.
#[repr(C)]
struct Managed {
    tensor: Tensor,
    owner: *mut c_void,
    deleter: Option<unsafe extern "C" fn(*mut Self)>,
}

/// `DLManagedTensorVersioned`.
#[repr(C)]
struct Versioned {
    major: u32,
    minor: u32,
    owner: *mut c_void,
    deleter: Option<unsafe extern "C" fn(*mut Self)>,
    flags: u64,
    tensor: Tensor,
}

/// A capsule around memory with a length in bytes. The consumer, or the capsule if there is none, drops the memory.
pub fn capsule<'py>(
    py: Python<'py>,
    memory: SharedMemory,
    len: usize,
    device_id: i32,
    is_versioned: bool,
) -> PyResult<Bound<'py, PyAny>> {
    let data = if len == 0 { 0 } else { memory.address() };
    let shape = [i64::try_from(len).unwrap_or(i64::MAX)];
    let owner = Box::new(Owner { _memory: memory, pid: std::process::id(), shape, strides: [1] });
    let owner = Box::into_raw(owner);
    // SAFETY: the box was made just now, and stays until the deleter frees it.
    #[expect(unsafe_code)]
    let (shape, strides) = unsafe { ((&raw mut (*owner).shape).cast(), (&raw mut (*owner).strides).cast()) };
    let tensor = Tensor {
        data,
        device_type: CUDA,
        device_id,
        ndim: 1,
        // An unsigned integer of 8 bits.
        code: 1,
        bits: 8,
        lanes: 1,
        shape,
        strides,
        byte_offset: 0,
    };
    let owner = owner.cast();
    if is_versioned {
        let managed = Versioned { major: 1, minor: 0, owner, deleter: Some(delete_versioned), flags: 0, tensor };
        // SAFETY: as below.
        #[expect(unsafe_code)]
        unsafe {
            new_capsule(py, Box::into_raw(Box::new(managed)), NAME_VERSIONED, end_versioned, delete_versioned)
        }
    } else {
        let managed = Managed { tensor, owner, deleter: Some(delete) };
        // SAFETY: the box is a capsule's of this name, whose destructor and deleter are those of its type.
        #[expect(unsafe_code)]
        unsafe {
            new_capsule(py, Box::into_raw(Box::new(managed)), NAME, end, delete)
        }
    }
}

/// # Safety
/// `delete` frees the box that `managed` was made of, and `end` does so for a capsule of this name.
#[expect(unsafe_code)]
unsafe fn new_capsule<'py, T>(
    py: Python<'py>,
    managed: *mut T,
    name: &'static CStr,
    end: unsafe extern "C" fn(*mut ffi::PyObject),
    delete: unsafe extern "C" fn(*mut T),
) -> PyResult<Bound<'py, PyAny>> {
    // SAFETY: the pointer is not null, and the name is static. The result is a new object, or null with an exception.
    let capsule = unsafe {
        let capsule = ffi::PyCapsule_New(managed.cast(), name.as_ptr(), Some(end));
        Bound::from_owned_ptr_or_err(py, capsule)
    };
    // SAFETY: without a capsule, nobody else has the box.
    capsule.inspect_err(|_| unsafe { delete(managed) })
}

/// Frees the owner.
///
/// # Safety
/// It is one of `capsule`'s, and is not used again.
#[expect(unsafe_code)]
unsafe fn drop_owner(owner: *mut c_void) {
    // SAFETY: the caller's owner is a box of `capsule`'s.
    let owner = unsafe { Box::from_raw(owner.cast::<Owner>()) };
    // The driver does not survive a fork.
    if owner.pid != std::process::id() {
        let _ = ManuallyDrop::new(owner);
    }
}

/// The deleter that consumers call, once.
#[expect(unsafe_code)]
unsafe extern "C" fn delete(managed: *mut Managed) {
    // SAFETY: the pointer is that of a box of `capsule`'s, and is not used after this.
    unsafe { drop_owner(Box::from_raw(managed).owner) }
}

/// The deleter that consumers call, once.
#[expect(unsafe_code)]
unsafe extern "C" fn delete_versioned(managed: *mut Versioned) {
    // SAFETY: the pointer is that of a box of `capsule`'s, and is not used after this.
    unsafe { drop_owner(Box::from_raw(managed).owner) }
}

/// Ends a capsule that nobody has taken. A consumer gives it another name, and calls the deleter itself.
#[expect(unsafe_code)]
unsafe extern "C" fn end(capsule: *mut ffi::PyObject) {
    // SAFETY: Python calls it with a capsule. One of this name has a box of `capsule`'s.
    unsafe {
        if ffi::PyCapsule_IsValid(capsule, NAME.as_ptr()) == 1 {
            delete(ffi::PyCapsule_GetPointer(capsule, NAME.as_ptr()).cast());
        }
    }
}

/// As [`end`].
#[expect(unsafe_code)]
unsafe extern "C" fn end_versioned(capsule: *mut ffi::PyObject) {
    // SAFETY: as in `end`.
    unsafe {
        if ffi::PyCapsule_IsValid(capsule, NAME_VERSIONED.as_ptr()) == 1 {
            delete_versioned(ffi::PyCapsule_GetPointer(capsule, NAME_VERSIONED.as_ptr()).cast());
        }
    }
}
