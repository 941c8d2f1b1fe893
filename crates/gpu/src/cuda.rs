//! Devices through NVIDIA's driver, which is loaded at run time. It compiles the PTX of this crate for its device.

mod library;

use crate::driver::{
    Api, Argument, DeviceInfo, Driver, Kind, Launch, MarkId, MemoryId, PinnedId, Rows, StreamId, poll,
};
use crate::error::{Error, Reason, Result};
use crate::kernel::{Kernel, Module};
use library::{Address, Code, CopyRows, DeviceNumber, Handle, Library, attribute, check, of_function, of_pointer};
use std::collections::HashMap;
use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::ptr::null_mut;
use std::sync::{Mutex, MutexGuard};
use std::time::Duration;

/// The devices of NVIDIA's driver, or why there are none.
pub(crate) fn devices() -> Result<Vec<DeviceInfo>> {
    let library = Library::get().map_err(absent)?;
    find(library).map_err(|code| match code {
        NO_DEVICE => absent(library.text(code)),
        _ => {
            let reason = Reason::Failed("asking the driver for devices", library.text(code));
            Error { device: Api::Cuda.to_string(), reason }
        }
    })
}

/// The name of the device of `crates/gpu/simulate`, which takes the driver's place in tests.
const SIMULATED: &str = "simulated GPU";

/// The driver's code for having no device.
const NO_DEVICE: Code = Code(100);

fn find(library: &Library) -> std::result::Result<Vec<DeviceInfo>, Code> {
    let mut count = 0;
    // SAFETY: the first call takes no flags, and may be repeated. The second one writes one number.
    unsafe {
        check((library.init)(0))?;
        check((library.device_count)(&mut count))?;
    }
    if count == 0 { Err(NO_DEVICE) } else { (0..count).map(|index| describe(library, index)).collect() }
}

fn absent(why: impl Into<String>) -> Error {
    Error { device: Api::Cuda.to_string(), reason: Reason::Absent(why.into()) }
}

fn describe(library: &Library, index: c_int) -> std::result::Result<DeviceInfo, Code> {
    let (mut device, mut version, mut memory, mut name) = (0, 0, 0, [0 as c_char; 256]);
    // SAFETY: each call writes one number, or a text of at most that length with its end.
    unsafe {
        check((library.device)(&mut device, index))?;
        check((library.driver_version)(&mut version))?;
        check((library.device_memory)(&mut memory, device))?;
        check((library.device_name)(name.as_mut_ptr(), name.len() as c_int, device))?;
    }
    let ask = |what| {
        let mut value = 0;
        // SAFETY: the call writes one number.
        check(unsafe { (library.device_attribute)(&mut value, what, device) })?;
        Ok(u32::try_from(value).unwrap_or(0))
    };
    let [major, minor] = [ask(attribute::CAPABILITY_MAJOR)?, ask(attribute::CAPABILITY_MINOR)?];
    let (version, subversion) = (version / 1000, version % 1000 / 10);
    *name.last_mut().expect("it has bytes") = 0;
    // SAFETY: the last byte is 0.
    let name = unsafe { CStr::from_ptr(name.as_ptr()) }.to_string_lossy().trim().to_owned();
    Ok(DeviceInfo {
        api: Api::Cuda,
        index: index as usize,
        kind: if name == SIMULATED { Kind::Cpu } else { Kind::Gpu },
        name,
        driver: format!("CUDA {version}.{subversion}, compute capability {major}.{minor}"),
        memory: memory as u64,
        largest_buffer: memory as u64,
        compute_units: ask(attribute::MULTIPROCESSORS)?,
        warp: ask(attribute::WARP)?,
        clock_mhz: ask(attribute::CLOCK_KHZ).unwrap_or(0) / 1000,
        local_memory: ask(attribute::SHARED_MEMORY)?,
        max_threads: ask(attribute::MAX_THREADS)?,
    })
}

/// The address of a device on the PCI bus, by which NVML knows it.
#[cfg(feature = "papers")]
pub(crate) fn bus_address(info: &DeviceInfo) -> Result<CString> {
    let library = Library::get().map_err(absent)?;
    let (mut device, mut address) = (0, [0; 32]);
    let failed = |code| info.error(Reason::Failed("asking for the device's address", library.text(code)));
    // SAFETY: the calls write a number, and a text of at most that length with its end.
    unsafe {
        check((library.device)(&mut device, info.index as c_int)).map_err(failed)?;
        check((library.bus_address)(address.as_mut_ptr(), address.len() as c_int, device)).map_err(failed)?;
    }
    *address.last_mut().expect("it has bytes") = 0;
    // SAFETY: the last byte is 0.
    Ok(unsafe { CStr::from_ptr(address.as_ptr()) }.to_owned())
}

pub(crate) struct Cuda {
    info: DeviceInfo,
    library: &'static Library,
    device: DeviceNumber,
    context: Handle,
    /// The largest pitch of rows, in bytes.
    max_pitch: usize,
    loaded: Mutex<Loaded>,
    /// All streams. Memory is freed when none of them has work left.
    streams: Mutex<Vec<StreamId>>,
}

#[derive(Default)]
struct Loaded {
    modules: HashMap<Module, Handle>,
    kernels: HashMap<Kernel, Handle>,
}

// SAFETY: the driver takes calls from any thread. Each call makes the context current for its time.
unsafe impl Send for Cuda {}
// SAFETY: the driver takes calls from any thread. Each call makes the context current for its time.
unsafe impl Sync for Cuda {}

impl Cuda {
    pub(crate) fn open(info: &DeviceInfo) -> Result<Self> {
        let here = devices()?.into_iter().nth(info.index).filter(|here| here.name == info.name);
        let Some(info) = here else { return Err(info.error(Reason::Absent("the device is gone".into()))) };
        let library = Library::get().map_err(absent)?;
        let failed = |code| info.error(Reason::Failed("opening the device", library.text(code)));
        let (mut device, mut context, mut max_pitch) = (0, null_mut(), 0);
        // SAFETY: the calls write two numbers and an address. The context is released on drop.
        unsafe {
            check((library.device)(&mut device, info.index as c_int)).map_err(failed)?;
            check((library.device_attribute)(&mut max_pitch, attribute::MAX_PITCH, device)).map_err(failed)?;
            check((library.retain_context)(&mut context, device)).map_err(failed)?;
        }
        let max_pitch = usize::try_from(max_pitch).unwrap_or(0);
        Ok(Self { info, library, device, context, max_pitch, loaded: Mutex::default(), streams: Mutex::default() })
    }

    /// Calls the driver, with the device's context current on this thread. All calls for an open device go through
    /// here.
    fn call(&self, what: &'static str, call: impl FnOnce(&Library) -> c_int) -> Result<()> {
        self.ask(call).map_err(self.failed(what))
    }

    /// Calls the driver as [`Self::call`] does, and returns its code: for calls whose codes mean different things.
    ///
    /// Afterwards the context that was current before is current again: other libraries in this process have their own,
    /// and would take the wrong device without it.
    ///
    /// Meanwhile the thread has the relaxed mode of captures: if another library captures work as a graph, allocating
    /// and freeing would otherwise fail, and end the capture. No work is ever started on a stream of others. Waiting for
    /// the whole context ends a capture in every mode (seen on an H100), and nothing says whether there is one.
    fn ask(&self, call: impl FnOnce(&Library) -> c_int) -> std::result::Result<(), Code> {
        let mut mode = library::RELAXED;
        // SAFETY: the call reads and writes one number: the mode, and the one before.
        check(unsafe { (self.library.exchange_capture_mode)(&mut mode) })?;
        let done = self.ask_in_context(call);
        // SAFETY: as above. The thread has had this mode, so this can fail only as all calls do.
        let _ = unsafe { (self.library.exchange_capture_mode)(&mut mode) };
        done
    }

    fn ask_in_context(&self, call: impl FnOnce(&Library) -> c_int) -> std::result::Result<(), Code> {
        // SAFETY: the context is retained as long as this value lives.
        check(unsafe { (self.library.push_context)(self.context) })?;
        let done = check(call(self.library));
        let mut ours = null_mut();
        // SAFETY: the call writes an address. It takes back what was pushed above. If it fails, the outcome of the call
        // between is still what matters.
        let _ = unsafe { (self.library.pop_context)(&mut ours) };
        done
    }

    fn failed(&self, what: &'static str) -> impl Fn(Code) -> Error {
        move |code| {
            let reason = if code.is_harmless() { Reason::Failed } else { Reason::Lost };
            self.info.error(reason(what, self.library.text(code)))
        }
    }

    fn out_of_memory(&self, what: &'static str, len: usize) -> impl Fn(Code) -> Error {
        move |code| match code {
            Code::OUT_OF_MEMORY => self.info.error(Reason::OutOfMemory(len)),
            _ => self.failed(what)(code),
        }
    }

    /// A failure after which it is unknown when the work of a stream is over.
    fn lost(&self, what: &'static str) -> impl Fn(Code) -> Error {
        move |code| self.info.error(Reason::Lost(what, self.library.text(code)))
    }

    /// Asks until the answer differs from "not ready", and from "not during a capture", which says as little.
    fn wait(&self, limit: Duration, query: impl Fn(&Library) -> c_int) -> Result<()> {
        let over = poll(limit, || match self.ask(&query) {
            Err(code) if code == Code::NOT_READY || code.is_of_capture() => None,
            done => Some(done),
        });
        match over {
            Some(done) => done.map_err(self.lost("running a kernel")),
            None => Err(self.info.error(Reason::TimedOut(limit))),
        }
    }

    /// Waits for the work of a stream, without a limit.
    fn finish_copy(&self, stream: StreamId, what: &'static str) -> Result<()> {
        // SAFETY: the stream is ours.
        match self.ask(|library| unsafe { (library.synchronize_stream)(stream_of(stream)) }) {
            Err(code) if code.is_of_capture() => self.finish(stream, Duration::MAX),
            done => done.map_err(self.lost(what)),
        }
    }

    /// Waits for all work that any stream has been given so far.
    fn finish_all(&self, limit: Duration) -> Result<()> {
        // The lock is held so that no stream is destroyed during the wait.
        for stream in self.streams().iter() {
            let mark = event_of(self.mark(*stream)?);
            // SAFETY: the event was made just now.
            let over = self.wait(limit, |library| unsafe { (library.query_event)(mark) });
            if let Err(Error { reason: Reason::TimedOut(_), .. }) = over {
                return over;
            }
            // SAFETY: the event is over, and not used again.
            let _ = self.ask(|library| unsafe { (library.destroy_event)(mark) });
            over?;
        }
        Ok(())
    }

    /// Whether one call copies these rows. Long ones are copied one by one: there a call costs little beside the copy.
    fn is_one_copy(&self, rows: &Rows) -> bool {
        const LONG: usize = 256 << 10;
        let pitch = rows.pitch_here.max(rows.pitch_there);
        (2..).contains(&rows.count) && rows.len <= LONG && pitch <= self.max_pitch
    }

    /// Starts a copy of rows from one place to another.
    ///
    /// # Safety
    /// All rows lie in memory of that kind. That of the host is pinned, and stays as it is until the copy is over.
    unsafe fn copy_rows(
        &self,
        what: &'static str,
        stream: StreamId,
        from: library::Rows,
        to: library::Rows,
        rows: &Rows,
    ) -> Result<()> {
        let copy = CopyRows { from, to, width: rows.len, height: rows.count };
        // SAFETY: the places are the caller's. The driver reads the description before the call returns.
        self.call(what, |library| unsafe { (library.copy_rows)(&raw const copy, stream_of(stream)) })
    }

    /// An attribute of an address of the device, which is a number of 32 bits.
    fn of_address(&self, address: Address, what: c_int) -> Option<c_int> {
        let mut value: c_int = 0;
        // SAFETY: the call writes one number of that length. Any address may be asked about.
        let asked = self.ask(|library| unsafe { (library.of_pointer)((&raw mut value).cast(), what, address) });
        asked.is_ok().then_some(value)
    }

    fn streams(&self) -> MutexGuard<'_, Vec<StreamId>> {
        self.streams.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    fn loaded(&self) -> MutexGuard<'_, Loaded> {
        self.loaded.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    fn module(&self, loaded: &mut Loaded, module: Module) -> Result<Handle> {
        if let Some(module) = loaded.modules.get(&module) {
            return Ok(*module);
        }
        let made = self.build(module.ptx())?;
        loaded.modules.insert(module, made);
        Ok(made)
    }

    fn build(&self, ptx: &str) -> Result<Handle> {
        const LOG: c_int = 5;
        const LOG_LEN: c_int = 6;
        let ptx = CString::new(ptx).map_err(|_| self.info.error(Reason::Build("PTX with a NUL".into())))?;
        let mut log = [0u8; 4096];
        let mut options = [LOG, LOG_LEN];
        // The number is passed in place of an address.
        let mut values = [log.as_mut_ptr().cast(), std::ptr::without_provenance_mut::<c_void>(log.len())];
        let mut made = null_mut();
        // SAFETY: the PTX ends with a NUL. There are two options, a buffer and its length, and two values.
        let done = self.ask(|library| unsafe {
            let (options, values) = (options.as_mut_ptr(), values.as_mut_ptr());
            (library.load_module)(&mut made, ptx.as_ptr().cast(), 2, options, values)
        });
        match done {
            Ok(()) => Ok(made),
            Err(code) if !code.is_harmless() => Err(self.failed("loading the kernels")(code)),
            Err(code) => {
                let log = log.split(|byte| *byte == 0).next().unwrap_or_default();
                let log = format!("{}\n{}", self.library.text(code), String::from_utf8_lossy(log));
                Err(self.info.error(Reason::Build(log)))
            }
        }
    }

    fn kernel(&self, wanted: Kernel) -> Result<Handle> {
        let mut loaded = self.loaded();
        if let Some(kernel) = loaded.kernels.get(&wanted) {
            return Ok(*kernel);
        }
        let module = self.module(&mut loaded, wanted.module)?;
        let name = CString::new(wanted.entry).expect("entries are identifiers");
        let mut kernel = null_mut();
        // SAFETY: the module is loaded until this value is dropped, and the name ends with a NUL.
        self.call("finding a kernel", |library| unsafe { (library.function)(&mut kernel, module, name.as_ptr()) })?;
        let table_bytes = wanted.module.table_bytes() as c_int;
        if table_bytes > 0 {
            // SAFETY: the kernel was found above.
            self.call("asking for shared memory", |library| unsafe {
                (library.set_function_attribute)(kernel, of_function::DYNAMIC_SHARED_MEMORY, table_bytes)
            })?;
        }
        loaded.kernels.insert(wanted, kernel);
        Ok(kernel)
    }
}

fn stream_of(stream: StreamId) -> Handle {
    stream.0 as Handle
}

fn event_of(mark: MarkId) -> Handle {
    mark.0 as Handle
}

// SAFETY: every method does what the trait says by the calls of the driver for it. Modules are loaded from the PTX of
// the source.
unsafe impl Driver for Cuda {
    fn info(&self) -> &DeviceInfo {
        &self.info
    }

    fn load(&self, module: Module) -> Result<()> {
        self.module(&mut self.loaded(), module).map(|_| ())
    }

    fn max_threads(&self, wanted: Kernel) -> Result<u32> {
        let kernel = self.kernel(wanted)?;
        let mut most = 0;
        // SAFETY: the kernel is loaded until this value is dropped. The call writes one number.
        self.call("asking for a kernel's threads", |library| unsafe {
            (library.function_attribute)(&mut most, of_function::MAX_THREADS, kernel)
        })?;
        Ok(u32::try_from(most).unwrap_or(0))
    }

    fn allocate(&self, len: usize) -> Result<MemoryId> {
        let mut address = 0;
        // SAFETY: the call writes an address.
        self.ask(|library| unsafe { (library.allocate)(&mut address, len) })
            .map_err(self.out_of_memory("allocating", len))?;
        Ok(MemoryId(address))
    }

    fn address(&self, memory: MemoryId) -> Option<u64> {
        Some(memory.0)
    }

    fn foreign(&self, address: u64, len: usize) -> Result<MemoryId> {
        let refused = |why: String| Err(self.info.error(Reason::Refused(why)));
        let Some(last) = (len as u64).checked_sub(1).and_then(|len| address.checked_add(len)) else {
            return refused(format!("{len} bytes at {address:#x}"));
        };
        for address in [address, last] {
            match self.of_address(address, of_pointer::KIND) {
                Some(kind) if kind == library::DEVICE as c_int => {}
                Some(_) => return refused(format!("the memory at {address:#x} is the host's")),
                None => return refused(format!("the memory at {address:#x} is not of a GPU, or was freed")),
            }
            match self.of_address(address, of_pointer::DEVICE_NUMBER) {
                Some(number) if number == self.device => {}
                Some(number) => return refused(format!("the memory at {address:#x} is of GPU {number}")),
                None => return refused(format!("the memory at {address:#x} is of no GPU")),
            }
        }
        Ok(MemoryId(address))
    }

    unsafe fn finish_foreign(&self, stream: u64) -> Result<()> {
        let what = "waiting for another library's work";
        // SAFETY: the caller has made sure that it is a stream.
        let done = self.ask(|library| unsafe { (library.synchronize_stream)(stream_of(StreamId(stream))) });
        // None of our own work is there, and memory of ours is not used.
        done.map_err(self.failed(what))
    }

    fn stream_for_others(&self) -> Result<StreamId> {
        let mut made = null_mut();
        // SAFETY: the call writes an address.
        self.call("opening a stream", |library| unsafe { (library.create_stream)(&mut made, library::NON_BLOCKING) })?;
        // It is not among the streams that are waited for before memory is freed: others' work may take any time.
        Ok(StreamId(made as u64))
    }

    fn finish_others(&self) -> Result<()> {
        // SAFETY: the call takes nothing, and waits for the current context.
        let done = self.ask(|library| unsafe { (library.synchronize_context)() });
        done.map_err(|code| {
            let what = "waiting for the device";
            // The caller may ask again. After any other failure it is unknown when the work of others is over.
            if code.is_of_capture() { self.failed(what)(code) } else { self.lost(what)(code) }
        })
    }

    unsafe fn free(&self, memory: MemoryId, len: usize, limit: Duration) -> Result<()> {
        // The call below waits for the whole context, without a limit.
        self.finish_all(limit)?;
        // Memory that cannot be wiped is kept.
        let stream = self.stream()?;
        // SAFETY: the memory has that length, and no work is left that uses it. The stream is ours.
        let zeroed = unsafe { self.zero(stream, memory, 0, len) }.and_then(|()| self.finish(stream, limit));
        if !zeroed.as_ref().is_err_and(|error| error.reason.is_final()) {
            // SAFETY: the stream has no work left.
            unsafe { self.free_stream(stream) };
        }
        zeroed?;
        // SAFETY: the memory is ours, and the caller starts no work on it any more. All work has ended: this waited for
        // it.
        self.call("freeing memory", |library| unsafe { (library.free)(memory.0) })
    }

    fn allocate_pinned(&self, len: usize) -> Result<PinnedId> {
        let mut address = null_mut();
        // With these flags the CPU caches the memory: it is not write-combined. It is zeroed below.
        let flags = library::PORTABLE_AND_MAPPED;
        // SAFETY: the call writes an address.
        self.ask(|library| unsafe { (library.allocate_host)(&mut address, len, flags) })
            .map_err(self.out_of_memory("allocating pinned memory", len))?;
        let address = address.cast::<u8>();
        // SAFETY: the driver gave that many bytes.
        unsafe { std::ptr::write_bytes(address, 0, len) };
        Ok(PinnedId { address, name: address as u64 })
    }

    unsafe fn free_pinned(&self, pinned: PinnedId, limit: Duration) -> Result<()> {
        // As with the device's own memory, the call below may wait for the whole context.
        self.finish_all(limit)?;
        // SAFETY: the memory is ours, and the caller has ended all use of it, the device's too.
        self.call("freeing pinned memory", |library| unsafe { (library.free_host)(pinned.address.cast()) })
    }

    unsafe fn mapped(&self, pinned: PinnedId) -> Result<Option<MemoryId>> {
        let mut address = 0;
        // SAFETY: the memory is ours, and was pinned with the flag that this needs. The call writes an address.
        self.call("finding pinned memory", |library| unsafe {
            (library.host_address)(&mut address, pinned.address.cast(), 0)
        })?;
        Ok(Some(MemoryId(address)))
    }

    fn stream(&self) -> Result<StreamId> {
        let mut made = null_mut();
        // SAFETY: the call writes an address.
        self.call("opening a stream", |library| unsafe { (library.create_stream)(&mut made, library::NON_BLOCKING) })?;
        let stream = StreamId(made as u64);
        self.streams().push(stream);
        Ok(stream)
    }

    unsafe fn free_stream(&self, stream: StreamId) {
        self.streams().retain(|other| *other != stream);
        // SAFETY: the stream is ours, and the caller does not use it any more.
        let _ = self.ask(|library| unsafe { (library.destroy_stream)(stream_of(stream)) });
    }

    unsafe fn zero(&self, stream: StreamId, memory: MemoryId, at: usize, len: usize) -> Result<()> {
        // SAFETY: the caller has made sure that the range lies in the memory.
        self.call("clearing memory", |library| unsafe {
            (library.fill)(memory.0 + at as u64, 0, len, stream_of(stream))
        })
    }

    unsafe fn upload(&self, stream: StreamId, memory: MemoryId, at: usize, from: &[u8]) -> Result<()> {
        // SAFETY: the caller has made sure that the range lies in the memory. `from` is borrowed until the wait below.
        let started = unsafe { self.start_upload(stream, memory, at, from.as_ptr(), from.len()) };
        // This waits whether or not the copy has started, so that nothing reads `from` any more.
        started.and(self.finish_copy(stream, "copying to the device"))
    }

    unsafe fn download(&self, stream: StreamId, memory: MemoryId, at: usize, to: &mut [u8]) -> Result<()> {
        // SAFETY: the caller has made sure that the range lies in the memory. `to` is borrowed until the wait below.
        let started = unsafe { self.start_download(stream, memory, at, to.as_mut_ptr(), to.len()) };
        // This waits whether or not the copy has started, so that nothing writes `to` any more.
        started.and(self.finish_copy(stream, "copying from the device"))
    }

    unsafe fn start_upload(
        &self,
        stream: StreamId,
        memory: MemoryId,
        at: usize,
        from: *const u8,
        len: usize,
    ) -> Result<()> {
        // SAFETY: the range lies in the memory, and the caller keeps the `len` bytes of `from` unchanged until the copy
        // is over.
        self.call("copying to the device", |library| unsafe {
            (library.upload)(memory.0 + at as u64, from.cast(), len, stream_of(stream))
        })
    }

    unsafe fn start_download(
        &self,
        stream: StreamId,
        memory: MemoryId,
        at: usize,
        to: *mut u8,
        len: usize,
    ) -> Result<()> {
        // SAFETY: the range lies in the memory, and the caller lets nobody use the `len` bytes of `to` until the copy
        // is over.
        self.call("copying from the device", |library| unsafe {
            (library.download)(to.cast(), memory.0 + at as u64, len, stream_of(stream))
        })
    }

    unsafe fn start_upload_rows(
        &self,
        stream: StreamId,
        memory: MemoryId,
        at: usize,
        from: *const u8,
        rows: &Rows,
    ) -> Result<()> {
        if !self.is_one_copy(rows) {
            // SAFETY: this is what the caller promises for each row.
            return rows.each(|here, there| unsafe {
                self.start_upload(stream, memory, at + there, from.wrapping_add(here), rows.len)
            });
        }
        let there = library::Rows::of_device(memory.0 + at as u64, rows.pitch_there);
        let here = library::Rows::of_host(from, rows.pitch_here);
        // SAFETY: the rows lie in the memory, and the caller keeps those of `from` unchanged until the copy is over.
        unsafe { self.copy_rows("copying to the device", stream, here, there, rows) }
    }

    unsafe fn start_download_rows(
        &self,
        stream: StreamId,
        memory: MemoryId,
        at: usize,
        to: *mut u8,
        rows: &Rows,
    ) -> Result<()> {
        if !self.is_one_copy(rows) {
            // SAFETY: this is what the caller promises for each row.
            return rows.each(|here, there| unsafe {
                self.start_download(stream, memory, at + there, to.wrapping_add(here), rows.len)
            });
        }
        let there = library::Rows::of_device(memory.0 + at as u64, rows.pitch_there);
        let here = library::Rows::of_host(to, rows.pitch_here);
        // SAFETY: the rows lie in the memory, and the caller lets nobody use those of `to` until the copy is over.
        unsafe { self.copy_rows("copying from the device", stream, there, here, rows) }
    }

    unsafe fn copy(
        &self,
        stream: StreamId,
        (from, from_at): (MemoryId, usize),
        (to, to_at): (MemoryId, usize),
        len: usize,
    ) -> Result<()> {
        // SAFETY: the caller has made sure that the ranges lie in the memories and do not overlap.
        self.call("copying within the device", |library| unsafe {
            (library.copy)(to.0 + to_at as u64, from.0 + from_at as u64, len, stream_of(stream))
        })
    }

    unsafe fn launch(&self, stream: StreamId, launch: &Launch<'_>) -> Result<()> {
        let kernel = self.kernel(launch.kernel)?;
        // Each argument takes 8 bytes here, of which the driver reads the first 4 for a number.
        let mut words: Vec<[u8; 8]> = launch
            .arguments
            .iter()
            .map(|argument| match argument {
                Argument::Memory(memory, at) => (memory.0 + *at as u64).to_ne_bytes(),
                Argument::Number(number) => {
                    let mut word = [0; 8];
                    word[..4].copy_from_slice(&number.to_ne_bytes());
                    word
                }
            })
            .collect();
        let mut arguments: Vec<*mut c_void> = words.iter_mut().map(|word| word.as_mut_ptr().cast()).collect();
        // SAFETY: the caller gives the kernel's arguments in order: addresses of 64 bits and numbers of 32 bits, and
        // all that the kernel reaches lies in the memories. The driver copies the arguments before the call returns.
        self.call("starting a kernel", |library| unsafe {
            let (groups, threads, arguments) = (launch.groups, launch.threads, arguments.as_mut_ptr());
            let (local, stream) = (launch.local, stream_of(stream));
            (library.launch)(kernel, groups, 1, 1, threads, 1, 1, local, stream, arguments, null_mut())
        })
    }

    fn finish(&self, stream: StreamId, limit: Duration) -> Result<()> {
        // SAFETY: the stream is ours.
        self.wait(limit, |library| unsafe { (library.query_stream)(stream_of(stream)) })
    }

    fn mark(&self, stream: StreamId) -> Result<MarkId> {
        let mut made = null_mut();
        // SAFETY: the call writes an address.
        self.call("marking the time", |library| unsafe { (library.create_event)(&mut made, 0) })?;
        // SAFETY: the event was made just now, and the stream is ours.
        let marked =
            self.call("marking the time", |library| unsafe { (library.record_event)(made, stream_of(stream)) });
        marked.inspect_err(|_| {
            // SAFETY: the event is not used again.
            let _ = self.ask(|library| unsafe { (library.destroy_event)(made) });
        })?;
        Ok(MarkId(made as u64))
    }

    unsafe fn between(&self, from: MarkId, to: MarkId) -> Result<Duration> {
        let mut milliseconds = 0.0;
        // SAFETY: the marks are ours, and the caller has not consumed them before. The call writes one number.
        let read = self.call("reading the device's clock", |library| unsafe {
            (library.event_time)(&mut milliseconds, event_of(from), event_of(to))
        });
        for mark in [from, to] {
            // SAFETY: the marks are ours. The event is over, and not used again.
            let _ = self.ask(|library| unsafe { (library.destroy_event)(event_of(mark)) });
        }
        read?;
        Ok(Duration::try_from_secs_f64(f64::from(milliseconds) / 1e3).unwrap_or_default())
    }
}

impl Drop for Cuda {
    fn drop(&mut self) {
        let loaded = std::mem::take(&mut *self.loaded());
        for module in loaded.modules.into_values() {
            // SAFETY: the module was loaded here, and nothing uses it any more.
            let _ = self.ask(|library| unsafe { (library.unload_module)(module) });
        }
        // SAFETY: the context was retained by `open`, and is current on no thread because of this value.
        let _ = unsafe { (self.library.release_context)(self.device) };
    }
}
