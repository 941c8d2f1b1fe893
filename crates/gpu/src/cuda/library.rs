//! NVIDIA's driver library, loaded at run time, and its functions that this crate calls.
//!
//! The functions return plain numbers. Newer drivers have codes that are not listed here, and such a code in a Rust
//! enumeration would be undefined behaviour.

use std::ffi::{CStr, c_char, c_float, c_int, c_uint, c_void};
use std::fmt;
use std::mem::ManuallyDrop;
use std::ptr::{null, null_mut};
use std::sync::OnceLock;

pub(super) type DeviceNumber = c_int;
pub(super) type Address = u64;
/// Contexts, modules, functions, streams and events are opaque addresses.
pub(super) type Handle = *mut c_void;

/// `CUDA_MEMCPY2D`: rows of bytes. Places in arrays, which this crate does not use, are null.
#[repr(C)]
pub(super) struct CopyRows {
    pub from: Rows,
    pub to: Rows,
    pub width: usize,
    pub height: usize,
}

/// One side of [`CopyRows`].
#[repr(C)]
pub(super) struct Rows {
    pub x: usize,
    pub y: usize,
    pub kind: c_uint,
    pub host: *const c_void,
    pub device: Address,
    pub array: Handle,
    pub pitch: usize,
}

impl Rows {
    /// Rows in the host's memory.
    pub fn of_host(host: *const u8, pitch: usize) -> Self {
        Self { x: 0, y: 0, kind: HOST, host: host.cast(), device: 0, array: null_mut(), pitch }
    }

    /// Rows in the device's memory.
    pub fn of_device(device: Address, pitch: usize) -> Self {
        Self { x: 0, y: 0, kind: DEVICE, host: null(), device, array: null_mut(), pitch }
    }
}

/// Kinds of memory.
pub(super) const HOST: c_uint = 1;
pub(super) const DEVICE: c_uint = 2;

/// Declares the functions. A library that lacks one of them is not used.
macro_rules! functions {
    ($($(#[$when:meta])? $name:ident = $symbol:literal ($($kind:ty),* $(,)?);)*) => {
        pub(super) struct Library {
            $($(#[$when])? pub $name: unsafe extern "system" fn($($kind),*) -> c_int,)*
        }

        impl Library {
            /// # Safety
            /// The library is NVIDIA's driver, or has the same functions.
            unsafe fn new(library: &libloading::Library) -> Result<Self, String> {
                $(
                    $(#[$when])?
                    // SAFETY: the function has this type in every version of the driver.
                    let $name = *unsafe { library.get(concat!($symbol, "\0").as_bytes()) }
                        .map_err(|_| format!("its library has no {}: the driver is too old", $symbol))?;
                )*
                Ok(Self { $($(#[$when])? $name),* })
            }
        }
    };
}

// Drivers keep the names with a version for programs that were built for CUDA 4 to 12.
functions! {
    init = "cuInit"(c_uint);
    driver_version = "cuDriverGetVersion"(*mut c_int);
    error_string = "cuGetErrorString"(c_int, *mut *const c_char);
    device_count = "cuDeviceGetCount"(*mut c_int);
    device = "cuDeviceGet"(*mut DeviceNumber, c_int);
    device_name = "cuDeviceGetName"(*mut c_char, c_int, DeviceNumber);
    device_memory = "cuDeviceTotalMem_v2"(*mut usize, DeviceNumber);
    device_attribute = "cuDeviceGetAttribute"(*mut c_int, c_int, DeviceNumber);
    #[cfg(feature = "papers")]
    bus_address = "cuDeviceGetPCIBusId"(*mut c_char, c_int, DeviceNumber);
    retain_context = "cuDevicePrimaryCtxRetain"(*mut Handle, DeviceNumber);
    release_context = "cuDevicePrimaryCtxRelease_v2"(DeviceNumber);
    push_context = "cuCtxPushCurrent_v2"(Handle);
    pop_context = "cuCtxPopCurrent_v2"(*mut Handle);
    synchronize_context = "cuCtxSynchronize"();
    load_module = "cuModuleLoadDataEx"(*mut Handle, *const c_void, c_uint, *mut c_int, *mut *mut c_void);
    unload_module = "cuModuleUnload"(Handle);
    function = "cuModuleGetFunction"(*mut Handle, Handle, *const c_char);
    function_attribute = "cuFuncGetAttribute"(*mut c_int, c_int, Handle);
    set_function_attribute = "cuFuncSetAttribute"(Handle, c_int, c_int);
    allocate = "cuMemAlloc_v2"(*mut Address, usize);
    free = "cuMemFree_v2"(Address);
    exchange_capture_mode = "cuThreadExchangeStreamCaptureMode"(*mut c_uint);
    allocate_host = "cuMemHostAlloc"(*mut *mut c_void, usize, c_uint);
    free_host = "cuMemFreeHost"(*mut c_void);
    host_address = "cuMemHostGetDevicePointer_v2"(*mut Address, *mut c_void, c_uint);
    fill = "cuMemsetD8Async"(Address, u8, usize, Handle);
    upload = "cuMemcpyHtoDAsync_v2"(Address, *const c_void, usize, Handle);
    download = "cuMemcpyDtoHAsync_v2"(*mut c_void, Address, usize, Handle);
    copy = "cuMemcpyDtoDAsync_v2"(Address, Address, usize, Handle);
    copy_rows = "cuMemcpy2DAsync_v2"(*const CopyRows, Handle);
    of_pointer = "cuPointerGetAttribute"(*mut c_void, c_int, Address);
    create_stream = "cuStreamCreate"(*mut Handle, c_uint);
    destroy_stream = "cuStreamDestroy_v2"(Handle);
    query_stream = "cuStreamQuery"(Handle);
    synchronize_stream = "cuStreamSynchronize"(Handle);
    create_event = "cuEventCreate"(*mut Handle, c_uint);
    destroy_event = "cuEventDestroy_v2"(Handle);
    record_event = "cuEventRecord"(Handle, Handle);
    query_event = "cuEventQuery"(Handle);
    event_time = "cuEventElapsedTime"(*mut c_float, Handle, Handle);
    launch = "cuLaunchKernel"(
        Handle, c_uint, c_uint, c_uint, c_uint, c_uint, c_uint, c_uint, Handle, *mut *mut c_void, *mut *mut c_void,
    );
}

impl Library {
    /// The library, if there is one with all functions. It is loaded once and never unloaded.
    pub fn get() -> Result<&'static Self, String> {
        static LIBRARY: OnceLock<Result<Library, String>> = OnceLock::new();
        LIBRARY.get_or_init(Self::load).as_ref().map_err(Clone::clone)
    }

    fn load() -> Result<Self, String> {
        // A library without a version may be the toolkit's stub for linking, without a driver.
        const NAMES: [&str; 2] = if cfg!(windows) { ["nvcuda.dll", "nvcuda"] } else { ["libcuda.so.1", "libcuda.so"] };
        // SAFETY: a library of this name is NVIDIA's driver.
        let library = NAMES.iter().find_map(|name| unsafe { libloading::Library::new(*name) }.ok());
        // The driver has its own threads, so it is never unloaded.
        let library = ManuallyDrop::new(library.ok_or("its library is not installed")?);
        // SAFETY: a library of this name is NVIDIA's driver.
        unsafe { Self::new(&library) }
    }

    /// The driver's text for a code, in one line, with the number.
    pub fn text(&self, Code(code): Code) -> String {
        let mut words = null();
        // SAFETY: the call writes the address of a text that stays, or null for a code that it does not know.
        let known = unsafe { (self.error_string)(code, &mut words) } == 0;
        if !known || words.is_null() {
            return format!("error {code}");
        }
        // SAFETY: the driver gave a text.
        format!("{} ({code})", unsafe { CStr::from_ptr(words) }.to_string_lossy())
    }
}

/// An error code of the driver: any number other than success.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Code(pub c_int);

/// A call's result.
pub(super) fn check(code: c_int) -> Result<(), Code> {
    if code == 0 { Ok(()) } else { Err(Code(code)) }
}

impl Code {
    pub const OUT_OF_MEMORY: Self = Self(2);
    pub const NOT_READY: Self = Self(600);

    /// Whether the context can still be used after a call that returned this code. A context keeps the errors of
    /// kernels, and does not recover when the device is gone. An unknown code may be such an error, so it counts as
    /// one.
    pub fn is_harmless(self) -> bool {
        matches!(
            self.0,
            1          // invalid value
            | 2        // out of memory
            | 200      // invalid image
            | 209      // no binary for the device
            | 216      // the device is taken
            | 218      // PTX that does not compile
            | 221..=223 // no compiler of PTX, PTX too new for it, compiling switched off
            | 300..=304 // files and libraries of the driver
            | 400 | 401 // invalid handle, illegal state
            | 500      // not found
            | 600      // not ready
            | 701      // too many registers or threads
            | 712 | 713 // pinned memory, already or not
            | 800..=802 // not permitted, not supported, not ready
        ) || self.is_of_capture()
    }

    /// Whether the call is forbidden while another library captures work as a graph. Nothing was started.
    pub fn is_of_capture(self) -> bool {
        (900..=909).contains(&self.0)
    }
}

impl fmt::Display for Code {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// Attributes of a device.
pub(super) mod attribute {
    pub const MAX_THREADS: i32 = 1;
    pub const WARP: i32 = 10;
    pub const MAX_PITCH: i32 = 11;
    pub const CLOCK_KHZ: i32 = 13;
    pub const MULTIPROCESSORS: i32 = 16;
    pub const CAPABILITY_MAJOR: i32 = 75;
    pub const CAPABILITY_MINOR: i32 = 76;
    pub const SHARED_MEMORY: i32 = 97;
}

/// Attributes of a function.
pub(super) mod of_function {
    pub const MAX_THREADS: i32 = 0;
    pub const DYNAMIC_SHARED_MEMORY: i32 = 8;
}

/// Attributes of an address.
pub(super) mod of_pointer {
    pub const KIND: i32 = 2;
    pub const DEVICE_NUMBER: i32 = 9;
}

/// A stream that does not wait for the default stream.
pub(super) const NON_BLOCKING: u32 = 1;
/// The mode in which a thread may allocate while another library captures work as a graph.
pub(super) const RELAXED: u32 = 2;
/// Pinned memory that every context and the device's kernels reach.
pub(super) const PORTABLE_AND_MAPPED: u32 = 1 | 2;

#[cfg(test)]
mod tests {
    use super::Code;

    /// `CUresult` of CUDA 12.9's cuda.h. After 214 device memory can be wrong, and after 220 data that crossed NVLink.
    #[test]
    fn errors_of_the_hardware_are_not_harmless() {
        let expected = [
            (214, false), // CUDA_ERROR_ECC_UNCORRECTABLE
            (218, true),  // CUDA_ERROR_INVALID_PTX
            (219, false), // CUDA_ERROR_INVALID_GRAPHICS_CONTEXT: no call here can give it
            (220, false), // CUDA_ERROR_NVLINK_UNCORRECTABLE
            (221, true),  // CUDA_ERROR_JIT_COMPILER_NOT_FOUND
            (222, true),  // CUDA_ERROR_UNSUPPORTED_PTX_VERSION
            (223, true),  // CUDA_ERROR_JIT_COMPILATION_DISABLED
            (226, false), // CUDA_ERROR_CONTAINED
            (700, false), // CUDA_ERROR_ILLEGAL_ADDRESS
            (719, false), // CUDA_ERROR_LAUNCH_FAILED
            (900, true),  // CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED
            (901, true),  // CUDA_ERROR_STREAM_CAPTURE_INVALIDATED
            (909, true),  // CUDA_ERROR_TIMEOUT: of a capture, by its number
            (910, false), // CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE: no call here can give it
            (999, false), // CUDA_ERROR_UNKNOWN
        ];
        for (code, is_harmless) in expected {
            assert_eq!(Code(code).is_harmless(), is_harmless, "{code}");
        }
    }
}
