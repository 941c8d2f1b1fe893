//! Devices through NVIDIA's driver, which is loaded at run time. It compiles the PTX of this crate for its device.

use crate::driver::{Api, Argument, DeviceInfo, Driver, Kind, Launch, MarkId, MemoryId, PinnedId, StreamId, poll};
use crate::error::{Error, Reason, Result};
use crate::kernel::{Kernel, Module};
use cudarc::driver::result::{self, DriverError, ctx, event, stream};
use cudarc::driver::sys::{self, CUdevice_attribute as Attribute, CUresult};
use std::collections::HashMap;
use std::ffi::{CString, c_void};
use std::sync::{Mutex, MutexGuard};
use std::time::Duration;

/// The devices of NVIDIA's driver, or why there are none.
pub(crate) fn devices() -> Result<Vec<DeviceInfo>> {
    // SAFETY: loads NVIDIA's library, if there is one.
    if !unsafe { sys::is_culib_present() } {
        return Err(absent("its library is not installed"));
    }
    // No call of cudarc comes before this line, because without the library it panics.
    result::init().map_err(|error| absent(text(error)))?;
    let count = result::device::get_count().map_err(|error| absent(text(error)))?;
    if count == 0 {
        return Err(absent("the driver has no device"));
    }
    (0..count).map(|index| describe(index).map_err(|error| absent(text(error)))).collect()
}

fn absent(why: impl Into<String>) -> Error {
    Error { device: Api::Cuda.to_string(), reason: Reason::Absent(why.into()) }
}

fn text(error: DriverError) -> String {
    match error.error_string() {
        Ok(words) => format!("{} ({})", words.to_string_lossy(), error.0 as u32),
        Err(_) => format!("error {}", error.0 as u32),
    }
}

fn describe(index: i32) -> std::result::Result<DeviceInfo, DriverError> {
    let device = result::device::get(index)?;
    // SAFETY: the device was given by the driver.
    let ask = |what| unsafe { result::device::get_attribute(device, what) }.map(|n| u32::try_from(n).unwrap_or(0));
    let mut version = 0;
    // SAFETY: the call writes one number.
    unsafe { sys::cuDriverGetVersion(&mut version) }.result()?;
    // SAFETY: the device was given by the driver.
    let memory = unsafe { result::device::total_mem(device) }? as u64;
    let major = ask(Attribute::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR)?;
    let minor = ask(Attribute::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR)?;
    let (version, subversion) = (version / 1000, version % 1000 / 10);
    Ok(DeviceInfo {
        api: Api::Cuda,
        index: index as usize,
        name: result::device::get_name(device)?,
        driver: format!("CUDA {version}.{subversion}, compute capability {major}.{minor}"),
        kind: Kind::Gpu,
        memory,
        largest_buffer: memory,
        compute_units: ask(Attribute::CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT)?,
        warp: ask(Attribute::CU_DEVICE_ATTRIBUTE_WARP_SIZE)?,
        // The driver gives kHz.
        clock_mhz: ask(Attribute::CU_DEVICE_ATTRIBUTE_CLOCK_RATE).unwrap_or(0) / 1000,
        local_memory: ask(Attribute::CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN)?,
        max_threads: ask(Attribute::CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK)?,
    })
}

pub(crate) struct Cuda {
    info: DeviceInfo,
    device: sys::CUdevice,
    context: sys::CUcontext,
    loaded: Mutex<Loaded>,
    /// All streams. Memory is freed when none of them has work left.
    streams: Mutex<Vec<StreamId>>,
}

#[derive(Default)]
struct Loaded {
    modules: HashMap<Module, sys::CUmodule>,
    kernels: HashMap<Kernel, sys::CUfunction>,
}

// SAFETY: the driver takes calls from any thread. Each call makes the context current first.
unsafe impl Send for Cuda {}
// SAFETY: as above.
unsafe impl Sync for Cuda {}

impl Cuda {
    pub(crate) fn open(info: &DeviceInfo) -> Result<Self> {
        let here = devices()?.into_iter().nth(info.index).filter(|here| here.name == info.name);
        let Some(info) = here else { return Err(info.error(Reason::Absent("the device is gone".into()))) };
        let failed = |error| info.error(Reason::Failed("opening the device", text(error)));
        let device = result::device::get(info.index as i32).map_err(failed)?;
        // SAFETY: the driver gave the device. The context is released on drop.
        let context = unsafe { result::primary_ctx::retain(device) }.map_err(failed)?;
        Ok(Self { info, device, context, loaded: Mutex::default(), streams: Mutex::default() })
    }

    fn failed(&self, what: &'static str) -> impl Fn(DriverError) -> Error {
        move |error| {
            let reason = if is_final(error) { Reason::Lost } else { Reason::Failed };
            self.info.error(reason(what, text(error)))
        }
    }

    /// Waits for all work that any stream has been given so far.
    fn finish_all(&self, limit: Duration) -> Result<()> {
        // The lock is held so that no stream is destroyed meanwhile.
        for stream in self.streams().iter() {
            let mark = event_of(self.mark(*stream)?);
            // SAFETY: the event was made just now.
            let over = poll(limit, || match unsafe { sys::cuEventQuery(mark) } {
                CUresult::CUDA_ERROR_NOT_READY => None,
                done => Some(done.result()),
            });
            let Some(done) = over else { return Err(self.info.error(Reason::TimedOut(limit))) };
            // SAFETY: the event is over, and not used again.
            let _ = unsafe { event::destroy(mark) };
            done.map_err(self.failed("running a kernel"))?;
        }
        self.enter()
    }

    fn streams(&self) -> MutexGuard<'_, Vec<StreamId>> {
        self.streams.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    fn out_of_memory(&self, what: &'static str, len: usize) -> impl Fn(DriverError) -> Error {
        move |error| match error.0 {
            CUresult::CUDA_ERROR_OUT_OF_MEMORY => self.info.error(Reason::OutOfMemory(len)),
            _ => self.failed(what)(error),
        }
    }

    /// Makes the context current on this thread.
    fn enter(&self) -> Result<()> {
        // SAFETY: the context is retained as long as this value lives.
        unsafe { ctx::set_current(self.context) }.map_err(self.failed("reaching the device"))
    }

    fn loaded(&self) -> MutexGuard<'_, Loaded> {
        self.loaded.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    fn module(&self, loaded: &mut Loaded, module: Module) -> Result<sys::CUmodule> {
        if let Some(module) = loaded.modules.get(&module) {
            return Ok(*module);
        }
        self.enter()?;
        let ptx = CString::new(module.ptx()).map_err(|_| self.info.error(Reason::Build("PTX with a NUL".into())))?;
        // SAFETY: the PTX ends with a NUL.
        let made = unsafe { result::module::load_data(ptx.as_ptr().cast()) };
        let made = made.map_err(|error| self.info.error(Reason::Build(text(error))))?;
        loaded.modules.insert(module, made);
        Ok(made)
    }

    fn kernel(&self, wanted: Kernel) -> Result<sys::CUfunction> {
        let mut loaded = self.loaded();
        if let Some(kernel) = loaded.kernels.get(&wanted) {
            return Ok(*kernel);
        }
        let module = self.module(&mut loaded, wanted.module)?;
        let name = CString::new(wanted.entry).expect("entries are identifiers");
        // SAFETY: the module is loaded until this value is dropped.
        let kernel = unsafe { result::module::get_function(module, name) }.map_err(self.failed("finding a kernel"))?;
        let table_bytes = wanted.module.table_bytes();
        if table_bytes > 0 {
            use sys::CUfunction_attribute_enum::CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES as MAX_SHARED;
            // SAFETY: the kernel was found above.
            unsafe { result::function::set_function_attribute(kernel, MAX_SHARED, table_bytes as i32) }
                .map_err(self.failed("asking for shared memory"))?;
        }
        loaded.kernels.insert(wanted, kernel);
        Ok(kernel)
    }
}

/// Whether the context cannot be used any more: it keeps the errors of kernels, and does not recover when the device is
/// gone.
fn is_final(error: DriverError) -> bool {
    use CUresult::*;
    matches!(
        error.0,
        CUDA_ERROR_DEINITIALIZED
            | CUDA_ERROR_DEVICE_UNAVAILABLE
            | CUDA_ERROR_NO_DEVICE
            | CUDA_ERROR_INVALID_CONTEXT
            | CUDA_ERROR_ECC_UNCORRECTABLE
            | CUDA_ERROR_NVLINK_UNCORRECTABLE
            | CUDA_ERROR_ILLEGAL_ADDRESS
            | CUDA_ERROR_LAUNCH_TIMEOUT
            | CUDA_ERROR_CONTEXT_IS_DESTROYED
            | CUDA_ERROR_ASSERT
            | CUDA_ERROR_HARDWARE_STACK_ERROR
            | CUDA_ERROR_ILLEGAL_INSTRUCTION
            | CUDA_ERROR_MISALIGNED_ADDRESS
            | CUDA_ERROR_INVALID_ADDRESS_SPACE
            | CUDA_ERROR_INVALID_PC
            | CUDA_ERROR_LAUNCH_FAILED
            | CUDA_ERROR_SYSTEM_NOT_READY
            | CUDA_ERROR_UNKNOWN
    )
}

fn stream_of(stream: StreamId) -> sys::CUstream {
    stream.0 as sys::CUstream
}

fn event_of(mark: MarkId) -> sys::CUevent {
    mark.0 as sys::CUevent
}

// SAFETY: every method does what the trait says by the calls of the driver for it. Modules are loaded from the PTX of the
// source.
unsafe impl Driver for Cuda {
    fn info(&self) -> &DeviceInfo {
        &self.info
    }

    fn load(&self, module: Module) -> Result<()> {
        self.module(&mut self.loaded(), module).map(|_| ())
    }

    fn max_threads(&self, wanted: Kernel) -> Result<u32> {
        use sys::CUfunction_attribute_enum::CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK as MAX_THREADS;
        let kernel = self.kernel(wanted)?;
        self.enter()?;
        // SAFETY: the kernel is loaded until this value is dropped.
        let most = unsafe { result::function::get_function_attribute(kernel, MAX_THREADS) };
        Ok(u32::try_from(most.map_err(self.failed("asking for a kernel's threads"))?).unwrap_or(0))
    }

    fn allocate(&self, len: usize) -> Result<MemoryId> {
        self.enter()?;
        // SAFETY: whoever gets the memory does not expect it to be initialized.
        unsafe { result::malloc_sync(len) }.map(MemoryId).map_err(self.out_of_memory("allocating", len))
    }

    unsafe fn free(&self, memory: MemoryId, len: usize, limit: Duration) -> Result<()> {
        // The calls below wait for the whole context, without a limit.
        self.finish_all(limit)?;
        // SAFETY: the caller's promise. No work is left that uses the memory.
        unsafe {
            let _ = result::memset_d8_sync(memory.0, 0, len);
            result::free_sync(memory.0).map_err(self.failed("freeing memory"))
        }
    }

    fn allocate_pinned(&self, len: usize) -> Result<PinnedId> {
        self.enter()?;
        // SAFETY: without flags the memory is cached by the CPU, not write-combined. It is zeroed below.
        let made = unsafe { result::malloc_host(len, 0) };
        let address = made.map_err(self.out_of_memory("allocating pinned memory", len))?.cast::<u8>();
        // SAFETY: the driver gave that many bytes.
        unsafe { std::ptr::write_bytes(address, 0, len) };
        Ok(PinnedId { address, name: address as u64 })
    }

    unsafe fn free_pinned(&self, pinned: PinnedId, limit: Duration) -> Result<()> {
        // As with the device's own memory, the call below may wait for the whole context.
        self.finish_all(limit)?;
        // SAFETY: the caller's promise.
        unsafe { result::free_host(pinned.address.cast()) }.map_err(self.failed("freeing pinned memory"))
    }

    fn stream(&self) -> Result<StreamId> {
        self.enter()?;
        let made = stream::create(stream::StreamKind::NonBlocking).map_err(self.failed("opening a stream"))?;
        let stream = StreamId(made as u64);
        self.streams().push(stream);
        Ok(stream)
    }

    unsafe fn free_stream(&self, stream: StreamId) {
        self.streams().retain(|other| *other != stream);
        if self.enter().is_ok() {
            // SAFETY: the caller's promise.
            let _ = unsafe { stream::destroy(stream_of(stream)) };
        }
    }

    unsafe fn zero(&self, stream: StreamId, memory: MemoryId, at: usize, len: usize) -> Result<()> {
        self.enter()?;
        // SAFETY: the caller's promise.
        unsafe { result::memset_d8_async(memory.0 + at as u64, 0, len, stream_of(stream)) }
            .map_err(self.failed("clearing memory"))
    }

    unsafe fn upload(&self, stream: StreamId, memory: MemoryId, at: usize, from: &[u8]) -> Result<()> {
        self.enter()?;
        // SAFETY: the caller's promise. This waits for the copy below.
        let started = unsafe { result::memcpy_htod_async(memory.0 + at as u64, from, stream_of(stream)) };
        // SAFETY: the stream is ours. This waits whether the copy started or not, so that nothing still reads `from`.
        let finished = unsafe { stream::synchronize(stream_of(stream)) };
        started.and(finished).map_err(self.failed("copying to the device"))
    }

    unsafe fn download(&self, stream: StreamId, memory: MemoryId, at: usize, to: &mut [u8]) -> Result<()> {
        self.enter()?;
        // SAFETY: the caller's promise. This waits for the copy below.
        let started = unsafe { result::memcpy_dtoh_async(to, memory.0 + at as u64, stream_of(stream)) };
        // SAFETY: the stream is ours. This waits whether the copy started or not, so that nothing still writes `to`.
        let finished = unsafe { stream::synchronize(stream_of(stream)) };
        started.and(finished).map_err(self.failed("copying from the device"))
    }

    unsafe fn start_upload(
        &self,
        stream: StreamId,
        memory: MemoryId,
        at: usize,
        from: *const u8,
        len: usize,
    ) -> Result<()> {
        self.enter()?;
        // SAFETY: the caller's promise.
        unsafe { sys::cuMemcpyHtoDAsync_v2(memory.0 + at as u64, from.cast(), len, stream_of(stream)) }
            .result()
            .map_err(self.failed("copying to the device"))
    }

    unsafe fn start_download(
        &self,
        stream: StreamId,
        memory: MemoryId,
        at: usize,
        to: *mut u8,
        len: usize,
    ) -> Result<()> {
        self.enter()?;
        // SAFETY: the caller's promise.
        unsafe { sys::cuMemcpyDtoHAsync_v2(to.cast(), memory.0 + at as u64, len, stream_of(stream)) }
            .result()
            .map_err(self.failed("copying from the device"))
    }

    unsafe fn copy(&self, stream: StreamId, from: MemoryId, to: MemoryId, len: usize) -> Result<()> {
        self.enter()?;
        // SAFETY: the caller's promise.
        unsafe { result::memcpy_dtod_async(to.0, from.0, len, stream_of(stream)) }
            .map_err(self.failed("copying within the device"))
    }

    unsafe fn launch(&self, stream: StreamId, launch: &Launch<'_>) -> Result<()> {
        let kernel = self.kernel(launch.kernel)?;
        self.enter()?;
        let mut arguments: Vec<*mut c_void> = launch
            .arguments
            .iter()
            .map(|argument| match argument {
                Argument::Memory(MemoryId(address)) => std::ptr::from_ref(address).cast_mut().cast(),
                Argument::Number(number) => std::ptr::from_ref(number).cast_mut().cast(),
            })
            .collect();
        let (groups, threads) = ((launch.groups, 1, 1), (launch.threads, 1, 1));
        // SAFETY: the caller's promise: the kernel's parameters are addresses of 64 bits and numbers of 32 bits. The driver
        // copies them before the call returns.
        unsafe { result::launch_kernel(kernel, groups, threads, launch.local, stream_of(stream), &mut arguments) }
            .map_err(self.failed("starting a kernel"))
    }

    fn finish(&self, stream: StreamId, limit: Duration) -> Result<()> {
        self.enter()?;
        // SAFETY: the stream is ours.
        let over = poll(limit, || match unsafe { sys::cuStreamQuery(stream_of(stream)) } {
            CUresult::CUDA_ERROR_NOT_READY => None,
            done => Some(done.result()),
        });
        match over {
            Some(done) => done.map_err(self.failed("running a kernel")),
            None => Err(self.info.error(Reason::TimedOut(limit))),
        }
    }

    fn mark(&self, stream: StreamId) -> Result<MarkId> {
        self.enter()?;
        let failed = self.failed("marking the time");
        let made = event::create(sys::CUevent_flags::CU_EVENT_DEFAULT).map_err(&failed)?;
        // SAFETY: the event was made just now, and the stream is ours.
        unsafe { event::record(made, stream_of(stream)) }.map_err(&failed)?;
        Ok(MarkId(made as u64))
    }

    unsafe fn between(&self, from: MarkId, to: MarkId) -> Result<Duration> {
        self.enter()?;
        // SAFETY: the caller's promise. Both events are over, and are destroyed here.
        let time = unsafe {
            let time = event::elapsed(event_of(from), event_of(to));
            let _ = event::destroy(event_of(from));
            let _ = event::destroy(event_of(to));
            time
        };
        let milliseconds = time.map_err(self.failed("reading the device's clock"))?;
        Ok(Duration::try_from_secs_f64(f64::from(milliseconds) / 1e3).unwrap_or_default())
    }
}

impl Drop for Cuda {
    fn drop(&mut self) {
        if self.enter().is_ok() {
            let loaded = std::mem::take(&mut *self.loaded());
            for module in loaded.modules.into_values() {
                // SAFETY: the module was loaded here, and nothing uses it any more.
                let _ = unsafe { result::module::unload(module) };
            }
        }
        // SAFETY: the context was retained by `open`.
        let _ = unsafe { result::primary_ctx::release(self.device) };
    }
}
