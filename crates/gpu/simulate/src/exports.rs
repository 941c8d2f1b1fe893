//! The driver's functions, as C calls them.
#![allow(non_snake_case, reason = "they are the driver's names")]

use crate::compile::MOST_SHARED;
use crate::driver::{
    Done, INVALID_HANDLE, INVALID_PTX, INVALID_VALUE, MAX_PITCH, MEMORY, MOST_THREADS, NO_CONTEXT, State,
};
use crate::launch::{ILLEGAL_ADDRESS, LAUNCH_FAILED};
use crate::memory::{DEVICE_BIT, Place};
use std::cell::{Cell, RefCell};
use std::ffi::{CStr, c_char, c_float, c_int, c_uint, c_void};
use std::sync::{Condvar, LazyLock, Mutex, MutexGuard, PoisonError};

/// The name by which users see that this is no GPU.
const NAME: &[u8] = b"simulated GPU\0";

/// The devices: one, unless a test asks for more by `PHALANX_SIMULATE_DEVICES`.
static DEVICES: LazyLock<Vec<Mutex<State>>> = LazyLock::new(|| {
    let asked = std::env::var("PHALANX_SIMULATE_DEVICES").ok().and_then(|asked| asked.parse().ok());
    (0..asked.unwrap_or(1).clamp(1, 9)).map(|device| Mutex::new(State::new(device))).collect()
});

thread_local! {
    /// The contexts of the thread. The last one is current.
    static CONTEXTS: RefCell<Vec<u64>> = const { RefCell::new(Vec::new()) };
    static CAPTURE_MODE: Cell<c_uint> = const { Cell::new(0) };
}

/// The state of the device with this number.
fn state(device: c_int) -> Result<MutexGuard<'static, State>, c_int> {
    let device = usize::try_from(device).ok().and_then(|device| DEVICES.get(device)).ok_or(INVALID_VALUE)?;
    Ok(device.lock().unwrap_or_else(PoisonError::into_inner))
}

/// The number of the device that an address or a handle is of.
fn device_of(number: u64) -> c_int {
    c_int::try_from(number >> DEVICE_BIT).unwrap_or(c_int::MAX)
}

fn all_devices() -> impl Iterator<Item = c_int> {
    (0..).take(DEVICES.len())
}

/// Whether calls that wait for all work do not return yet, and how many there are. Tests hold them.
static HELD: Mutex<(bool, usize)> = Mutex::new((false, 0));
static LET_GO: Condvar = Condvar::new();

fn held() -> MutexGuard<'static, (bool, usize)> {
    HELD.lock().unwrap_or_else(PoisonError::into_inner)
}

fn wait_while_held() {
    let mut held = held();
    held.1 += 1;
    let mut held = LET_GO.wait_while(held, |held| held.0).unwrap_or_else(PoisonError::into_inner);
    held.1 -= 1;
}

fn code(done: Done) -> c_int {
    done.err().unwrap_or(0)
}

/// A call for the device, in the current context.
fn inside(call: impl FnOnce(&mut State) -> Done) -> c_int {
    let current = current();
    let inside = |mut state: MutexGuard<'_, State>| state.check(current).and_then(|()| call(&mut state));
    code(state(device_of(current)).map_err(|_| NO_CONTEXT).and_then(inside))
}

/// The context of the thread, or 0.
fn current() -> u64 {
    CONTEXTS.with_borrow(|contexts| contexts.last().copied().unwrap_or(0))
}

/// Where a caller wants a result.
#[repr(transparent)]
struct Out<T>(*mut T);

impl<T> Out<T> {
    fn give(self, value: T) -> Done {
        if self.0.is_null() {
            return Err(INVALID_VALUE);
        }
        // SAFETY: it comes from C only, whose callers give the address of a value of this type, as the driver demands.
        unsafe { self.0.write(value) };
        Ok(())
    }
}

/// `CUDA_MEMCPY2D`, as C has it.
#[repr(C)]
struct CopyRows {
    from: Rows,
    to: Rows,
    width: usize,
    height: usize,
}

/// One side of it.
#[repr(C)]
#[derive(Clone, Copy)]
struct Rows {
    x: usize,
    y: usize,
    kind: c_uint,
    host: usize,
    device: u64,
    array: usize,
    pitch: usize,
}

impl Rows {
    /// Where a row begins. Arrays, and rows that do not begin at the first byte, are not simulated.
    fn place(&self, row: usize, width: usize) -> Result<Place, c_int> {
        if self.x != 0 || self.y != 0 || self.array != 0 || !(width..=MAX_PITCH).contains(&self.pitch) {
            return Err(INVALID_VALUE);
        }
        match self.kind {
            1 => Ok(Place::Host(self.host + row * self.pitch)),
            2 => Ok(Place::Device(self.device + (row * self.pitch) as u64)),
            _ => Err(INVALID_VALUE),
        }
    }
}

/// Contexts, modules, functions, streams and events are numbers.
type Handle = u64;

/// Declares the driver's functions.
macro_rules! exports {
    ($($(#[$about:meta])* fn $name:ident($($argument:ident: $kind:ty),* $(,)?) $body:block)*) => {
        $(
            $(#[$about])*
            #[unsafe(no_mangle)]
            extern "C" fn $name($($argument: $kind),*) -> c_int $body
        )*
    };
}

// The device.
exports! {
    fn cuInit(flags: c_uint) {
        if flags == 0 { 0 } else { INVALID_VALUE }
    }

    fn cuDriverGetVersion(version: Out<c_int>) {
        code(version.give(12_000))
    }

    fn cuGetErrorString(error: c_int, text: Out<*const c_char>) {
        let known = match error {
            0 => c"no error",
            1 => c"invalid argument",
            2 => c"out of memory",
            201 => c"invalid device context",
            218 => c"a PTX JIT compilation failed",
            400 => c"invalid resource handle",
            500 => c"named symbol not found",
            600 => c"device not ready",
            701 => c"too many resources requested for launch",
            ILLEGAL_ADDRESS | LAUNCH_FAILED => match state(device_of(current())) {
                Ok(state) => state.text,
                Err(error) => return error,
            },
            _ => return INVALID_VALUE,
        };
        code(text.give(known.as_ptr()))
    }

    fn cuDeviceGetCount(count: Out<c_int>) {
        code(count.give(DEVICES.len() as c_int))
    }

    fn cuDeviceGet(device: Out<c_int>, index: c_int) {
        code(state(index).and_then(|_| device.give(index)))
    }

    fn cuDeviceGetName(name: *mut u8, len: c_int, device: c_int) {
        let len = usize::try_from(len).unwrap_or(0);
        if name.is_null() || state(device).is_err() || len < NAME.len() {
            return INVALID_VALUE;
        }
        // SAFETY: the caller's text has `len` bytes.
        unsafe { name.copy_from_nonoverlapping(NAME.as_ptr(), NAME.len()) };
        0
    }

    fn cuDeviceGetPCIBusId(address: *mut u8, len: c_int, device: c_int) {
        let text = format!("FFFF:FF:1F.{device}\0");
        let len = usize::try_from(len).unwrap_or(0);
        if address.is_null() || state(device).is_err() || len < text.len() {
            return INVALID_VALUE;
        }
        // SAFETY: the caller's text has `len` bytes.
        unsafe { address.copy_from_nonoverlapping(text.as_ptr(), text.len()) };
        0
    }

    fn cuDeviceTotalMem_v2(bytes: Out<usize>, device: c_int) {
        code(state(device).and_then(|_| bytes.give(MEMORY)))
    }

    fn cuDeviceGetAttribute(value: Out<c_int>, attribute: c_int, device: c_int) {
        // Threads of a block, threads of a warp, the largest pitch, clock in kHz, multiprocessors, compute capability 5.2, shared memory of a block.
        let known = match attribute {
            1 => MOST_THREADS as c_int,
            10 => 32,
            11 => MAX_PITCH as c_int,
            13 => 1000,
            16 => 1,
            75 => 5,
            76 => 2,
            97 => MOST_SHARED as c_int,
            _ => return INVALID_VALUE,
        };
        code(state(device).and_then(|_| value.give(known)))
    }

    fn cuDevicePrimaryCtxRetain(context: Out<Handle>, device: c_int) {
        code(state(device).and_then(|mut state| context.give(state.retain())))
    }

    fn cuDevicePrimaryCtxRelease_v2(device: c_int) {
        code(state(device).and_then(|mut state| state.release()))
    }

    fn cuCtxPushCurrent_v2(context: Handle) {
        CONTEXTS.with_borrow_mut(|contexts| contexts.push(context));
        0
    }

    fn cuCtxPopCurrent_v2(context: Out<Handle>) {
        let popped = CONTEXTS.with_borrow_mut(Vec::pop);
        code(popped.ok_or(NO_CONTEXT).and_then(|popped| context.give(popped)))
    }

    fn cuThreadExchangeStreamCaptureMode(mode: *mut c_uint) {
        // Nothing is captured here.
        // SAFETY: the caller gives the address of a number, or null.
        match unsafe { mode.as_mut() } {
            Some(mode @ 0..=2) => CAPTURE_MODE.with(|of_thread| *mode = of_thread.replace(*mode)),
            _ => return INVALID_VALUE,
        }
        0
    }

    fn cuCtxSynchronize() {
        wait_while_held();
        inside(State::finish_all)
    }
}

// Kernels.
exports! {
    fn cuModuleLoadDataEx(
        module: Out<Handle>,
        image: *const c_char,
        count: c_uint,
        options: *const c_int,
        values: *const *mut c_void,
    ) {
        // Room for a text, and its length in place of an address.
        const LOG: [c_int; 2] = [5, 6];
        if image.is_null() || count != 2 || options.is_null() || values.is_null() {
            return INVALID_VALUE;
        }
        // SAFETY: the caller gives two options and two values. The image is a text with its end.
        let (options, log, len, ptx) =
            unsafe { (*options.cast::<[c_int; 2]>(), *values, *values.add(1) as usize, CStr::from_ptr(image)) };
        let Ok(ptx) = ptx.to_str() else { return INVALID_PTX };
        if options != LOG || log.is_null() || len == 0 {
            return INVALID_VALUE;
        }
        inside(|state| match state.load(ptx) {
            Ok(loaded) => module.give(loaded),
            Err(text) => {
                eprintln!("simulated GPU: {text}");
                let text = &text.as_bytes()[..text.len().min(len - 1)];
                // SAFETY: the caller's room has `len` bytes.
                unsafe {
                    log.cast::<u8>().copy_from_nonoverlapping(text.as_ptr(), text.len());
                    log.cast::<u8>().add(text.len()).write(0);
                }
                Err(INVALID_PTX)
            }
        })
    }

    fn cuModuleUnload(module: Handle) {
        inside(|state| state.unload(module))
    }

    fn cuModuleGetFunction(function: Out<Handle>, module: Handle, name: *const c_char) {
        if name.is_null() {
            return INVALID_VALUE;
        }
        // SAFETY: the name is a text with its end.
        let name = unsafe { CStr::from_ptr(name) }.to_string_lossy();
        inside(|state| function.give(state.function(module, &name)?))
    }

    fn cuFuncGetAttribute(value: Out<c_int>, attribute: c_int, function: Handle) {
        // The most threads of a block.
        inside(|state| match (attribute, state.is_function(function)) {
            (_, false) => Err(INVALID_HANDLE),
            (0, true) => value.give(MOST_THREADS as c_int),
            _ => Err(INVALID_VALUE),
        })
    }

    fn cuFuncSetAttribute(function: Handle, attribute: c_int, value: c_int) {
        // The most dynamic shared memory.
        inside(|state| match (attribute, u64::try_from(value)) {
            (8, Ok(len)) => state.allow_dynamic(function, len),
            _ => Err(INVALID_VALUE),
        })
    }

    fn cuLaunchKernel(
        function: Handle,
        blocks: c_uint,
        blocks_y: c_uint,
        blocks_z: c_uint,
        threads: c_uint,
        threads_y: c_uint,
        threads_z: c_uint,
        dynamic: c_uint,
        stream: Handle,
        arguments: *const *const u8,
        extra: *const c_void,
    ) {
        // The default stream, and blocks of more dimensions, are not simulated.
        if [blocks_y, blocks_z, threads_y, threads_z] != [1; 4] || !extra.is_null() || arguments.is_null() {
            return INVALID_VALUE;
        }
        inside(|state| {
            let places = state.parameters(function)?;
            let mut bytes = vec![0u64; places.last().map_or(0, |(at, len)| (at + len).div_ceil(8))];
            for (i, (at, len)) in places.into_iter().enumerate() {
                // SAFETY: the caller gives the address of each of the kernel's parameters.
                unsafe {
                    let argument = *arguments.add(i);
                    bytes.as_mut_ptr().cast::<u8>().add(at).copy_from_nonoverlapping(argument, len);
                }
            }
            state.launch(function, (blocks, threads), dynamic.into(), bytes, stream)
        })
    }
}

// Memory.
exports! {
    fn cuMemAlloc_v2(address: Out<u64>, len: usize) {
        inside(|state| address.give(state.allocate(len)?))
    }

    fn cuMemFree_v2(address: u64) {
        wait_while_held();
        inside(|state| state.free(address))
    }

    fn cuMemHostAlloc(address: Out<usize>, len: usize, flags: c_uint) {
        // Portable and mapped.
        inside(|state| if flags & !3 == 0 { address.give(state.pin(len, flags & 2 != 0)?) } else { Err(INVALID_VALUE) })
    }

    fn cuMemFreeHost(address: usize) {
        inside(|state| state.unpin(address))
    }

    fn cuMemHostGetDevicePointer_v2(address: Out<u64>, host: usize, flags: c_uint) {
        inside(|state| match state.memory.mapped(host) {
            Some(mapped) if flags == 0 => address.give(mapped),
            _ => Err(INVALID_VALUE),
        })
    }

    fn cuMemsetD8Async(to: u64, value: u8, len: usize, stream: Handle) {
        inside(|state| state.fill(to, value, len, stream))
    }

    fn cuMemcpyHtoDAsync_v2(to: u64, from: usize, len: usize, stream: Handle) {
        inside(|state| state.copy(Place::Host(from), Place::Device(to), len, stream))
    }

    fn cuMemcpyDtoHAsync_v2(to: usize, from: u64, len: usize, stream: Handle) {
        inside(|state| state.copy(Place::Device(from), Place::Host(to), len, stream))
    }

    fn cuMemcpyDtoDAsync_v2(to: u64, from: u64, len: usize, stream: Handle) {
        inside(|state| state.copy(Place::Device(from), Place::Device(to), len, stream))
    }

    fn cuMemcpy2DAsync_v2(rows: *const CopyRows, stream: Handle) {
        // SAFETY: the caller gives the address of a description, or null.
        let Some(&CopyRows { from, to, width, height }) = (unsafe { rows.as_ref() }) else { return INVALID_VALUE };
        inside(|state| {
            (0..height).try_for_each(|row| state.copy(from.place(row, width)?, to.place(row, width)?, width, stream))
        })
    }

    fn cuPointerGetAttribute(value: Out<c_int>, attribute: c_int, address: u64) {
        // Any device's memory is found in the context of any other one.
        let found = |device| Some((device, state(device).ok()?.memory.is_of_host(address)?));
        let found = || all_devices().find_map(found).ok_or(INVALID_VALUE);
        // The kind of memory, and the number of the device.
        let answer = |(device, is_of_host)| match attribute {
            2 => value.give(if is_of_host { 1 } else { 2 }),
            9 => value.give(device),
            _ => Err(INVALID_VALUE),
        };
        match inside(|_| Ok(())) {
            0 => code(found().and_then(answer)),
            error => error,
        }
    }
}

// Streams and events.
exports! {
    fn cuStreamCreate(stream: Out<Handle>, flags: c_uint) {
        // A stream that does not wait for the default one: any other is not simulated.
        inside(|state| if flags == 1 { stream.give(state.stream()) } else { Err(INVALID_VALUE) })
    }

    fn cuStreamDestroy_v2(stream: Handle) {
        inside(|state| state.close(stream))
    }

    fn cuStreamQuery(stream: Handle) {
        inside(|state| state.query(stream))
    }

    fn cuStreamSynchronize(stream: Handle) {
        // The default streams have no work here, and no other stream waits for them.
        inside(|state| if stream <= 2 { Ok(()) } else { state.finish(stream) })
    }

    fn cuEventCreate(event: Out<Handle>, _flags: c_uint) {
        inside(|state| event.give(state.event()))
    }

    fn cuEventDestroy_v2(event: Handle) {
        inside(|state| state.forget(event))
    }

    fn cuEventRecord(event: Handle, stream: Handle) {
        inside(|state| state.record(event, stream))
    }

    fn cuEventQuery(event: Handle) {
        inside(|state| state.query_event(event))
    }

    fn cuEventElapsedTime(milliseconds: Out<c_float>, from: Handle, to: Handle) {
        inside(|state| milliseconds.give(state.between(from, to)?))
    }
}

// For tests, which the driver does not have.
exports! {
    /// Holds the calls that wait for all work, as if that did not end, or lets them go.
    fn simulate_hold(is_held: c_int) {
        held().0 = is_held != 0;
        LET_GO.notify_all();
        0
    }

    /// How many calls are being held.
    fn simulate_held() {
        held().1 as c_int
    }

    /// How many pieces of memory are allocated, pinned memory included.
    fn simulate_allocations() {
        all_devices().filter_map(|device| state(device).ok()).map(|state| state.memory.count() as c_int).sum()
    }

    /// Copies bytes of the device, whoever wrote them. An address that is not the device's any more is an error.
    fn simulate_peek(address: u64, len: usize, to: *mut u8) {
        code(state(device_of(address)).and_then(|mut state| {
            let bytes = state.memory.peek(address, len).ok_or(INVALID_VALUE)?;
            // SAFETY: both are that long.
            unsafe { to.copy_from_nonoverlapping(bytes, len) };
            Ok(())
        }))
    }
}
