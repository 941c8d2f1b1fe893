//! Memory of a GPU in the form of DLPack, by which libraries share arrays: Python's capsules around it. And such memory of
//! other libraries, as Phalanx reads it.

pub use crate::tensor::CUDA;
use crate::tensor::{Exchanged, Managed, Versioned};
use phalanx_gpu::{Device, Foreign, Gate, SharedMemory, Target};
use pyo3::exceptions::PyBufferError;
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

/// What a capsule says of its bytes besides their place: they are not to be written to, or are a copy of the producer's.
/// Capsules before version 1 do not say it.
pub const READ_ONLY: u64 = 1;
pub const COPIED: u64 = 2;

/// The address, the length and the flags of the bytes of a producer's capsule, which keeps them.
pub fn bytes_of(capsule: &Bound<'_, PyAny>) -> PyResult<(u64, usize, u64)> {
    let of = |name: &std::ffi::CStr| {
        // SAFETY: both calls take any object. The second one is made for a capsule of that name only, and its pointer is not
        // null.
        #[expect(unsafe_code)]
        unsafe {
            match ffi::PyCapsule_IsValid(capsule.as_ptr(), name.as_ptr()) {
                1 => Some(ffi::PyCapsule_GetPointer(capsule.as_ptr(), name.as_ptr())),
                _ => None,
            }
        }
    };
    let mut flags = 0;
    let bytes = if let Some(versioned) = of(Versioned::NAME) {
        let versioned = versioned.cast::<Versioned>();
        // SAFETY: a capsule of that name has this structure, of which other versions have the beginning in common, and it
        // stays while the capsule does. That of version 1 has a tensor with as many numbers as it says.
        #[expect(unsafe_code)]
        unsafe {
            match (*versioned).major {
                1 => {
                    flags = (*versioned).flags;
                    (*versioned).tensor.bytes()
                }
                _ => Err("the array has a version of DLPack that is not known"),
            }
        }
    } else if let Some(managed) = of(Managed::NAME) {
        // SAFETY: a capsule of that name has this structure, whose tensor has as many numbers as it says, and it stays while
        // the capsule does.
        #[expect(unsafe_code)]
        unsafe {
            (*managed.cast::<Managed>()).tensor.bytes()
        }
    } else {
        Err("what __dlpack__ gave is no capsule of DLPack")
    };
    let (address, len) = bytes.map_err(PyBufferError::new_err)?;
    Ok((address, len, flags))
}

/// Bytes of another library's, by their address. The object that they come from has to be kept.
pub struct Given {
    pub address: u64,
    pub len: usize,
    pub wait: Wait,
}

/// What has to be waited for before the bytes are read.
pub enum Wait {
    /// All work so far of a stream of the producer's.
    Stream(u64),
    /// What the producer has made a stream of ours wait for.
    Gate(Gate),
    /// All work on the device.
    All,
}

impl Given {
    /// Waits until the bytes are complete. The thread is detached from the interpreter, which that work may need.
    pub fn foreign(&self, device: &Device) -> phalanx_gpu::Result<Foreign> {
        // SAFETY: the producer says by its protocol that there are so many bytes, and its object, which the caller keeps,
        // keeps them. As with every buffer, whoever writes to them meanwhile gets a mixture.
        #[expect(unsafe_code)]
        let foreign = unsafe { device.foreign(self.address, self.len) }?;
        self.finish(device).map(|()| foreign)
    }

    /// Waits until the first `len` of the bytes can be overwritten, as [`Given::foreign`] waits.
    pub fn target(&self, device: &Device, len: usize) -> phalanx_gpu::Result<Target> {
        // SAFETY: the producer says by its protocol that there are more bytes, and does not say that they are read-only. Its
        // object, which the caller keeps, keeps them. As with every buffer, whoever uses them meanwhile gets a mixture.
        #[expect(unsafe_code)]
        let target = unsafe { device.foreign_target(self.address, len) }?;
        self.finish(device).map(|()| target)
    }

    fn finish(&self, device: &Device) -> phalanx_gpu::Result<()> {
        match &self.wait {
            // SAFETY: the producer says by its protocol that this is a stream.
            #[expect(unsafe_code)]
            Wait::Stream(stream) => unsafe { device.finish_stream_of_others(*stream) },
            Wait::Gate(gate) => gate.wait(),
            Wait::All => device.finish_others(),
        }
    }
}
